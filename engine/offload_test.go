package engine_test

import (
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
	"weir/kvcache"
	"weir/kvstore"
	"weir/model"
	"weir/scheduler"
)

// openStore opens a folder for copies.
func openStore(t *testing.T, cfg kvstore.Config) *kvstore.Store {
	t.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	s, err := kvstore.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// offloaded runs jobs on an engine with a folder for copies, which is closed then, and returns what both have counted.
func offloaded(t *testing.T, cfg engine.Config, open opener, jobs []job, to kvstore.Config) ([]result, engine.Stats, kvstore.Stats) {
	t.Helper()
	store := openStore(t, to)
	cfg.Caching, cfg.MaxLive, cfg.Offload, cfg.LoadWait = true, 1000, store, time.Minute
	e := start(t, cfg, open)
	store.Notify(e.Wake)
	results := runAll(t, e, jobs)
	e.mustStop(t)
	if err := store.Close(time.Minute); err != nil {
		t.Fatal(err)
	}
	if s := e.Stats(); s.BlocksUsed != 0 || s.StatesUsed != 0 || s.Offload.Loading != 0 {
		t.Fatalf("%d blocks and %d states are lost, %d sequences are held back", s.BlocksUsed, s.StatesUsed, s.Offload.Loading)
	}
	return results, e.Stats(), store.Stats()
}

// damageFiles turns a bit of some of the files below a folder, and cuts some.
func damageFiles(t *testing.T, g *rand.Rand, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Dir(path) == dir || g.IntN(5) > 0 {
			return err
		}
		b, err := os.ReadFile(path)
		if err != nil || len(b) == 0 {
			return err
		}
		if g.IntN(3) == 0 {
			return os.WriteFile(path, b[:g.IntN(len(b))], 0o600)
		}
		b[g.IntN(len(b))] ^= 1 << g.IntN(8)
		return os.WriteFile(path, b, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestMetamorphicOffload is TestMetamorphic with copies of blocks and states in a folder and in memory, over restarts, with pools that
// are too small and folders that are too small, and with files that are damaged between two starts. What a request gets depends on
// none of these.
func TestMetamorphicOffload(t *testing.T) {
	g := seeded(t)
	var c offloadCounts
	two := []backend.KVGroup{{}, {Window: 5}}
	lazy := sim.OracleConfig{Reading: sim.Lazy}
	for round := range max(1, rounds(2)) {
		jobs := newWorkload(g, 20, simVocab, simLen)
		want := runAll(t, roomy.start(t), jobs)
		for i, v := range []variant{
			{spec: simSpec(20, 8, 7, 4, 1), oracle: lazy},
			{spec: simSpec(70, 3, 30, 40, 2), sched: scheduler.Config{Priority: true}},
			{spec: simSpec(40, 4, simLen, 8, 2), sched: scheduler.Config{WholePrompts: true}, oracle: lazy},
			{spec: withStates(9, simSpec(40, 4, 30, 6, 1)), sched: scheduler.Config{StateEvery: 16}},
			{spec: withStates(30, simSpec(60, 4, 60, 16, 2)), sched: scheduler.Config{StateEvery: 4}, oracle: lazy},
			{spec: withGroups(simSpec(50, 4, 30, 4, 2), two...), oracle: lazy},
			{spec: withStates(20, withGroups(simSpec(60, 4, 30, 8, 2), two...))},
		} {
			to := kvstore.Config{Identity: "sim", Dir: t.TempDir(), Size: 1 << 30, Queue: 1 << 20}
			switch (round + i) % 3 {
			case 1:
				to.Size = 60 * 4096
			case 2:
				to.Memory = 2000
			}
			for range 2 { // starts
				got := shuffled(g, jobs, func(jobs []job) []result { return c.run(t, v, jobs, to) })
				if err := compare(jobs, got, want); err != nil {
					t.Fatalf("round %d, %v: %v", round, v, err)
				}
				if round%2 == 1 {
					damageFiles(t, g, to.Dir)
				}
			}
		}
	}
	t.Logf("%+v", c)
	if rounds(2) < 2 {
		return // the race detector has time for a part
	}
	if c.hits < 300 || c.damaged < 3 || c.evicted < 50 || c.stateful < 20 || c.windows < 20 || c.late > 0 {
		t.Error("there were too few of these, or something came too late, for the test to mean anything")
	}
}

// offloadCounts sums up what engines and folders have counted.
type offloadCounts struct{ hits, stateful, windows, late, damaged, evicted uint64 }

// run runs jobs with a folder, see offloaded.
func (c *offloadCounts) run(t *testing.T, v variant, jobs []job, to kvstore.Config) []result {
	t.Helper()
	r, s, f := offloaded(t, engine.Config{Scheduler: v.sched}, configuredOracle(v.spec, v.oracle), jobs, to)
	c.hits, c.late = c.hits+s.Offload.Hits, c.late+s.Offload.TimedOut
	c.damaged, c.evicted = c.damaged+f.Damaged, c.evicted+f.Evicted
	if v.spec.StateSlots > 0 {
		c.stateful += s.Offload.Hits
	}
	if len(v.spec.Groups) > 0 {
		c.windows += s.Offload.Hits
	}
	return r
}

// TestMetamorphicOffloadModel is the same over a trained model on the CPU, and compares all bits of log-probabilities.
func TestMetamorphicOffloadModel(t *testing.T) {
	g := seeded(t)
	m, tok := bundled(t)
	jobs := chatJobs(g, tok, 16)
	want, _ := modelVariant{threads: 1, blockTokens: 16, blocks: 2000, tokens: 2048, seqs: 64}.run(t, m, tok, jobs)
	hits := uint64(0)
	for _, v := range []modelVariant{
		{threads: 2, blockTokens: 16, blocks: 17, tokens: 48, seqs: 8},
		{threads: 3, blockTokens: 32, blocks: 40, tokens: 256, seqs: 5, overlapped: true},
	} {
		to := kvstore.Config{Identity: fmt.Sprint(v.blockTokens), Dir: t.TempDir(), Size: 1 << 30, Queue: 4 << 20}
		for start := range 3 {
			open := onCPU(t, m, v.threads, model.Options{BlockTokens: v.blockTokens, NumBlocks: v.blocks, MaxTokens: v.tokens, MaxSeqs: v.seqs, MaxSeqTokens: 256})
			if v.overlapped {
				open = delayed(open)
			}
			got, s, _ := offloaded(t, engine.Config{Tokenizer: tok}, open, jobs, to)
			if err := compare(jobs, got, want); err != nil {
				t.Fatalf("%+v, start %d: %v", v, start, err)
			}
			if hits += s.Offload.Hits; start > 0 && s.Offload.Hits == 0 {
				t.Errorf("%+v, start %d: nothing came from the folder: %+v", v, start, s.Offload)
			}
		}
	}
	t.Logf("%d tokens came back", hits)
}

// shelf is an Offload in memory whose reads take as long as a test wants.
type shelf struct {
	kept    map[kvcache.Key][]byte
	took    time.Duration // of a read
	busy    time.Duration // until then earlier ones are read
	begun   time.Time
	reading []shelfRead
	damaged bool // everything is
	wake    func()
	fetched int
}

type shelfRead struct {
	at time.Duration
	kvcache.Content
}

func (s *shelf) now() time.Duration              { return time.Since(s.begun) }
func (s *shelf) Has(k kvcache.Key) bool          { return s.kept[k] != nil }
func (s *shelf) Wants(k kvcache.Key) bool        { return !s.Has(k) }
func (s *shelf) Buffer(n int) []byte             { return make([]byte, n) }
func (s *shelf) Save(k kvcache.Key, data []byte) { s.kept[k] = data }
func (s *shelf) Drop()                           { clear(s.kept); s.reading = nil }
func (s *shelf) Fetch(k kvcache.Key, n int) bool {
	if s.fetched++; len(s.reading) > 3 {
		return false
	}
	s.busy = max(s.busy, s.now()) + s.took
	r := shelfRead{at: s.busy, Content: kvcache.Content{Key: k}}
	if data := s.kept[k]; len(data) == n && !s.damaged {
		r.Data = data
	}
	s.reading = append(s.reading, r)
	if s.wake != nil {
		time.AfterFunc(s.busy-s.now(), s.wake)
	}
	return true
}

func (s *shelf) Fetched(dst []kvcache.Content, most int) []kvcache.Content {
	for len(s.reading) > 0 && s.reading[0].at <= s.now() {
		dst, s.reading = append(dst, s.reading[0].Content), s.reading[1:]
	}
	return dst
}

// startOn starts an engine whose steps take a time for each token, with a shelf. Its own prefix cache is gone after each request.
func startOn(t *testing.T, s *shelf, perToken time.Duration, cfg engine.Config) runningEngine {
	t.Helper()
	s.begun, s.busy, s.reading = time.Now(), 0, nil
	if s.kept == nil {
		s.kept = map[kvcache.Key][]byte{}
	}
	cfg.Caching, cfg.MaxLive, cfg.Offload = true, 100, s
	tokens := 0
	open := func() (backend.Backend, error) {
		o, err := sim.NewOracle(simSpec(100, 4, 1000, 16, 1), sim.OracleConfig{Hook: func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(time.Duration(tokens) * perToken)
			}
			return nil
		}})
		return &counting{o, o, &tokens}, err
	}
	e := start(t, cfg, open)
	s.wake = e.Wake
	return e
}

// counting notes how many tokens the newest step has.
type counting struct {
	backend.Backend
	backend.Copier
	tokens *int
}

func (c *counting) Begin(b *backend.Batch) error {
	*c.tokens = len(b.Tokens)
	return c.Backend.Begin(b)
}

// durationOf runs a request and returns how long it takes.
func durationOf(t *testing.T, e runningEngine, r engine.Request) time.Duration {
	t.Helper()
	begun := time.Now()
	e.mustRun(t, r)
	return time.Since(begun)
}

// TestOffloadTimes: a prefix is brought back if that is quicker than to compute it, as measured; if a read takes longer than that, or what
// was read is damaged, it is computed; and nobody else waits.
func TestOffloadTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{took: time.Millisecond}
		e := startOn(t, s, time.Millisecond, engine.Config{})
		r := request(100, 1)
		if d := durationOf(t, e, r); d < 100*time.Millisecond || d > 110*time.Millisecond {
			t.Errorf("a prompt of 100 tokens takes %v", d)
		}
		e.mustStop(t)

		e = startOn(t, s, time.Millisecond, engine.Config{})
		if d := durationOf(t, e, r); d > 40*time.Millisecond || e.Stats().Offload.Hits != 96 || e.Stats().CachedTokens != 96 {
			t.Errorf("after a restart it takes %v: %+v", d, e.Stats().Offload)
		}
		e.mustStop(t)

		// Nobody waits for the copies of another one: at this pace they take 5 seconds.
		s.took = 200 * time.Millisecond
		e = startOn(t, s, time.Millisecond, engine.Config{LoadWait: time.Minute})
		slow := e.mustSubmit(t, r)
		other := request(50, 10)
		other.Tokens[0] = 77
		if d := durationOf(t, e, other); d > 80*time.Millisecond {
			t.Errorf("another request takes %v", d)
		}
		if e.Stats().Offload.Loading != 1 {
			t.Errorf("nothing is held back: %+v", e.Stats().Offload)
		}
		if res := collect(t.Context(), slow, job{req: r}); res.err != nil || e.Stats().Offload.Hits != 96 {
			t.Errorf("%v: %+v", res.err, e.Stats().Offload)
		}
		e.mustStop(t)

		// It is known how long computing takes, and not yet how slow reading is.
		e = startOn(t, s, time.Millisecond, engine.Config{})
		other.Tokens[0] = 78
		e.mustRun(t, other)
		if d := durationOf(t, e, r); d > 250*time.Millisecond || e.Stats().Offload.TimedOut != 1 {
			t.Errorf("with slow reads it takes %v: %+v", d, e.Stats().Offload)
		}
		e.mustStop(t)

	})
}

// TestOffloadForgotten: what was forgotten is not read, and what is damaged is computed.
func TestOffloadForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		r := request(100, 1)
		e := startOn(t, s, time.Millisecond, engine.Config{})
		e.mustRun(t, r)
		e.mustStop(t)
		e = startOn(t, s, time.Millisecond, engine.Config{})
		for i := range 6 {
			e.mustRun(t, r)
			if err := e.ForgetPrefixes(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			before := s.fetched
			e.mustRun(t, r) // the shelf is empty
			if s.fetched != before {
				t.Errorf("after everything was forgotten, something is read, %d", i)
			}
		}
		e.mustStop(t)

		s.damaged = true
		e = startOn(t, s, time.Millisecond, engine.Config{})
		if d := durationOf(t, e, r); d < 100*time.Millisecond || e.Stats().Offload.Failed == 0 || e.Stats().Offload.Hits != 0 {
			t.Errorf("with damaged copies it takes %v: %+v", d, e.Stats().Offload)
		}
		e.mustStop(t)
	})
}

// TestOffloadSlower: where reading is slower than computing, as measured, it is tried once a minute and left otherwise.
func TestOffloadSlower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		e := startOn(t, s, 100*time.Microsecond, engine.Config{})
		prompts := make([]engine.Request, 30)
		for i := range prompts {
			prompts[i] = request(100, 1)
			prompts[i].Tokens[0] = int32(i)
			e.mustRun(t, prompts[i])
		}
		e.mustStop(t)
		s.took = 1500 * time.Microsecond // 36 ms for 96 tokens, which are computed in 9.6
		e = startOn(t, s, 100*time.Microsecond, engine.Config{})
		fresh := request(60, 1)
		fresh.Tokens[0] = 200
		e.mustRun(t, fresh)
		tried := 0
		for i := range prompts {
			before := s.fetched
			e.mustRun(t, prompts[i])
			if s.fetched > before {
				tried++
			}
			time.Sleep(5 * time.Second)
		}
		if st := e.Stats().Offload; tried < 2 || tried > 5 || int(st.Slower) != len(prompts)-tried {
			t.Errorf("of %d prompts %d were read: %+v", len(prompts), tried, st)
		}
		e.mustStop(t)
	})
}

// TestOffloadAborted: a request that is cancelled while it is held back leaves nothing behind, and so does the end of the engine.
func TestOffloadAborted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &shelf{}
		e := startOn(t, s, time.Millisecond, engine.Config{})
		e.mustRun(t, request(100, 1))
		e.mustStop(t)
		s.took = time.Second
		e = startOn(t, s, time.Millisecond, engine.Config{LoadWait: time.Hour})
		var streams []*engine.Stream
		for range 3 {
			streams = append(streams, e.mustSubmit(t, request(100, 5)))
		}
		synctest.Wait()
		if n := e.Stats().Offload.Loading; n != 3 {
			t.Errorf("%d requests are held back", n)
		}
		streams[0].Cancel()
		streams[1].Cancel()
		time.Sleep(time.Second)
		synctest.Wait()
		if n := e.Stats().Offload.Loading; n != 1 {
			t.Errorf("%d requests are held back after two have gone", n)
		}
		if err := e.ForgetPrefixes(t.Context(), false); err != nil {
			t.Error(err)
		}
		if res := collect(t.Context(), streams[2], job{req: request(100, 5)}); res.err != nil || e.Stats().Offload.Loading != 0 || len(s.kept) == 0 {
			t.Errorf("%v: %+v", res.err, e.Stats())
		}
		last := e.mustSubmit(t, request(90, 5))
		e.mustStop(t)
		if res := collect(t.Context(), last, job{req: request(90, 5)}); res.err != nil && !strings.Contains(res.err.Error(), "stop") {
			t.Error(res.err)
		}
	})
}

// TestOffloadCannotCopy: a backend that cannot copy is refused.
func TestOffloadCannotCopy(t *testing.T) {
	e := engine.New(engine.Config{Caching: true, Offload: &shelf{}}, func() (backend.Backend, error) {
		o, err := sim.NewOracle(simSpec(100, 4, 1000, 16, 1), sim.OracleConfig{})
		return &hookedBackend{Backend: o}, err
	})
	if err := e.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot copy KV blocks") {
		t.Error(err)
	}
}
