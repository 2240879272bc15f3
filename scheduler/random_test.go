package scheduler

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/kvcache"
)

// shadow is a device that stores, in every KV slot, a hash of the whole prefix
// that the slot's token ends. A row can be drawn only if every slot of its
// history holds the hash of exactly that history, so any error in the books
// shows, and what is drawn is a function of the history alone.
type shadow struct {
	slots []uint64
	drawn map[*Sequence]int32 // what the last step drew
}

// run is a chunk as the device got it, with everything copied at plan time.
type run struct {
	c      Chunk
	tokens []int32 // known tokens; the one behind them is the previous step's draw
	blocks []kvcache.BlockID
}

func mix(h uint64, tok int32) uint64 {
	h ^= uint64(uint32(tok)) + 0x9e3779b97f4a7c15
	h *= 0xbf58476d1ce4e5b9
	return h ^ h>>29
}

func drawOf(h uint64) int32 { return int32(h >> 7 % 11) }

func (d *shadow) exec(t *testing.T, step []run, bt int) map[*Sequence]int32 {
	t.Helper()
	slot := func(r run, p int) *uint64 { return &d.slots[int(r.blocks[p/bt])*bt+p%bt] }
	hashes := make([][]uint64, len(step))
	for i, r := range step { // all writes of a step come before its reads, as in a layer
		tokens := slices.Clone(r.tokens)
		if r.c.Start+r.c.N > len(tokens) {
			tokens = append(tokens, d.drawn[r.c.Seq])
		}
		h := uint64(1)
		for p, tok := range tokens[:r.c.Start+r.c.N] {
			h = mix(h, tok)
			hashes[i] = append(hashes[i], h)
			if p >= r.c.Start {
				*slot(r, p) = h
			}
		}
	}
	out := map[*Sequence]int32{}
	for i, r := range step {
		for p, h := range hashes[i] {
			if *slot(r, p) != h {
				t.Fatalf("sequence %d: slot of position %d (block %d) does not hold its prefix", r.c.Seq.ID, p, r.blocks[p/bt])
			}
		}
		if r.c.Draw {
			out[r.c.Seq] = drawOf(hashes[i][len(hashes[i])-1])
		}
	}
	return out
}

// solo is what a sequence must get, whatever happens around it.
func solo(prompt []int32, lim Limits, maxLen int) []int32 {
	q := &Sequence{Tokens: slices.Clone(prompt), Prompt: len(prompt), Limits: lim, stopIDs: slices.Sorted(slices.Values(lim.StopIDs)),
		runs: make([]int32, lim.Repetition.MaxPattern+1)}
	for {
		h := uint64(1)
		for _, tok := range q.Tokens {
			h = mix(h, tok)
		}
		q.Tokens = append(q.Tokens, drawOf(h))
		if _, done := q.stop(maxLen); done {
			return q.Tokens[q.Prompt:]
		}
	}
}

// TestRandom drives the scheduler through random arrivals and aborts, over
// random configurations, with one and two steps in flight, against the shadow.
func TestRandom(t *testing.T) {
	preempted, hits, aborted := 0, uint64(0), 0
	for seed := range uint64(300) {
		g := rand.New(rand.NewPCG(seed, 2))
		depth, bt := 1+g.IntN(2), 1+g.IntN(5)
		const maxLen = 40
		blocks := maxLen/bt + 2 + g.IntN(30)
		kv := kvcache.New(blocks, bt, g.IntN(3) > 0)
		cfg := Config{MaxTokens: 1 + g.IntN(50), MaxSeqs: 1 + g.IntN(8), MaxSeqTokens: maxLen, MaxPrefill: g.IntN(2) * (1 + g.IntN(8)), Priority: g.IntN(2) == 0}
		s := New(cfg, kv)
		dev := &shadow{slots: make([]uint64, blocks*bt)}
		type job struct {
			q      *Sequence
			prompt []int32
			abort  bool
		}
		var jobs []*job
		finished := map[*Sequence]int{}
		prefixes := [][]int32{{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {1, 2, 3, 4, 9, 9, 9, 9, 9}}
		arrive := func() {
			prompt := slices.Clone(prefixes[g.IntN(2)][:1+g.IntN(9)])
			for range g.IntN(10) {
				prompt = append(prompt, int32(g.IntN(3)))
			}
			lim := Limits{MaxTokens: 1 + g.IntN(maxLen-len(prompt)), EOS: int32(g.IntN(30)), MinTokens: g.IntN(2)}
			if g.IntN(3) == 0 {
				lim.Repetition = RepetitionLimit{MaxPattern: 1 + g.IntN(4), MinCount: 2 + g.IntN(2)}
			}
			var leader *Sequence
			n, prio := 1+max(0, g.IntN(6)-3), int64(g.IntN(3))
			for range n {
				q := &Sequence{ID: uint64(len(jobs) + 1), Arrival: uint64(len(jobs) + 1), Priority: prio, Leader: leader, Prompt: len(prompt),
					Tokens: slices.Clone(prompt), Limits: lim, Private: g.IntN(8) == 0, MaxChunk: g.IntN(2) * (1 + g.IntN(9)), Salt: kvcache.Hash{byte(g.IntN(2))}}
				if leader != nil {
					q.Salt = leader.Salt
				} else {
					leader = q
				}
				jobs = append(jobs, &job{q: q, prompt: prompt})
				s.Add(q)
			}
		}
		var flight [][]run
		maybeAbort := func() {
			if len(jobs) > 0 && g.IntN(12) == 0 {
				j := jobs[g.IntN(len(jobs))]
				if j.q.Status != Finished {
					j.abort = true
					aborted++
				}
				s.Abort(j.q)
			}
		}
		arrivals := 20
		for steps := 0; arrivals > 0 || !s.Idle() || len(flight) > 0; steps++ {
			if steps > 20000 {
				t.Fatalf("seed %d: no end: waiting %v running %v", seed, ids(s.waiting), ids(s.running))
			}
			for arrivals > 0 && g.IntN(3) == 0 {
				arrive()
				arrivals--
			}
			maybeAbort()
			chunks := s.Schedule()
			if len(chunks) == 0 && len(flight) == 0 && !s.Idle() {
				t.Fatalf("seed %d: nothing planned, nothing in flight, not idle", seed)
			}
			var step []run
			total, writes := 0, map[kvcache.BlockID]*Sequence{}
			for _, fl := range flight {
				for _, r := range fl {
					for p := r.c.Start; p < r.c.Start+r.c.N; p++ {
						writes[r.blocks[p/bt]] = r.c.Seq
					}
				}
			}
			for _, c := range chunks {
				total += c.N
				if c.N < 1 || c.Seq.Status != Running {
					t.Fatalf("seed %d: chunk %+v", seed, c)
				}
				for p := c.Start; p < c.Start+c.N; p++ {
					b := c.Seq.Table.Blocks[p/bt]
					if w := writes[b]; w != nil && w != c.Seq {
						t.Fatalf("seed %d: block %d goes to sequence %d while a step in flight writes it for %d", seed, b, c.Seq.ID, w.ID)
					}
				}
				step = append(step, run{c, slices.Clone(c.Seq.Tokens), slices.Clone(c.Seq.Table.Blocks)})
			}
			if total > cfg.MaxTokens || len(chunks) > cfg.MaxSeqs || len(s.running) > cfg.MaxSeqs {
				t.Fatalf("seed %d: %d tokens, %d chunks, %d running", seed, total, len(chunks), len(s.running))
			}
			if len(step) > 0 {
				flight = append(flight, step)
			}
			maybeAbort()
			if len(flight) == depth || len(flight) > 0 && len(step) == 0 {
				out := dev.exec(t, flight[0], bt)
				dev.drawn = out
				for _, r := range flight[0] {
					tok, ok := out[r.c.Seq]
					if !ok {
						tok = -1
					}
					was := r.c.Seq.Status
					s.Commit(r.c, tok)
					if was != Finished && r.c.Seq.Status == Finished {
						finished[r.c.Seq]++
					}
				}
				s.EndStep()
				flight = flight[1:]
			}
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
		}
		if kv.Free() != kv.Total() {
			t.Fatalf("seed %d: %d of %d blocks came back", seed, kv.Free(), kv.Total())
		}
		for _, j := range jobs {
			got, want := j.q.Tokens[j.q.Prompt:], solo(j.prompt, j.q.Limits, maxLen)
			preempted += j.q.Preempted
			if j.abort {
				want = want[:min(len(want), len(got))]
			} else if finished[j.q] != 1 {
				t.Fatalf("seed %d: sequence %d finished %d times", seed, j.q.ID, finished[j.q])
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: sequence %d got %v alone %v", seed, j.q.ID, got, want)
			}
		}
		hits += s.Counters().PrefixHits
	}
	t.Logf("%d preemptions, %d tokens from the cache, %d aborts", preempted, hits, aborted)
	if preempted < 100 || hits < 1000 || aborted < 100 {
		t.Error("the test did not reach what it is for")
	}
}

// TestRestart: after the device lost everything, every live sequence goes on
// with its tokens.
func TestRestart(t *testing.T) {
	s := New(Config{MaxTokens: 50, MaxSeqs: 4, MaxSeqTokens: 40}, kvcache.New(20, 4, true))
	var seqs []*Sequence
	for id := range 6 {
		q := &Sequence{ID: uint64(id), Arrival: uint64(id), Tokens: []int32{1, 2, 3, int32(id)}, Prompt: 4, Limits: Limits{MaxTokens: 5, EOS: -1}}
		seqs = append(seqs, q)
		s.Add(q)
	}
	step := func(commit bool) {
		chunks := slices.Clone(s.Schedule())
		if !commit {
			return
		}
		for _, c := range chunks {
			s.Commit(c, int32(100+len(c.Seq.Tokens)))
		}
		s.EndStep()
	}
	step(true)
	step(true)
	step(false) // this step is lost with the device
	s.Restart(kvcache.New(20, 4, true))
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		step(true)
	}
	for _, q := range seqs {
		if want := []int32{104, 105, 106, 107, 108}; q.Reason != Length || !slices.Equal(q.Tokens[4:], want) {
			t.Errorf("sequence %d: %v, %s", q.ID, q.Tokens[4:], reasons[q.Reason])
		}
	}
}

// TestRepetitionTwin compares the run counters with the search of every period
// that the specification gives (5.5).
func TestRepetitionTwin(t *testing.T) {
	naive := func(out []int32, r RepetitionLimit) bool {
		for p := max(1, r.MinPattern); p <= r.MaxPattern; p++ {
			if p*r.MinCount > len(out) {
				return false
			}
			hit := true
			for i := len(out) - p*r.MinCount; i < len(out)-p; i++ {
				hit = hit && out[i] == out[i+p]
			}
			if hit {
				return true
			}
		}
		return false
	}
	g := rand.New(rand.NewPCG(3, 3))
	hits := 0
	for range 3000 {
		r := RepetitionLimit{MaxPattern: 1 + g.IntN(6), MinPattern: g.IntN(3), MinCount: 2 + g.IntN(3)}
		r.MinPattern = min(r.MinPattern, r.MaxPattern)
		q := &Sequence{Prompt: 2, Tokens: []int32{0, 0}, Limits: Limits{Repetition: r}, runs: make([]int32, r.MaxPattern+1)}
		for range 60 {
			q.Tokens = append(q.Tokens, int32(g.IntN(2)))
			got, want := q.repeats(), naive(q.Tokens[2:], r)
			if got != want {
				t.Fatalf("%+v after %v: %v, search says %v", r, q.Tokens[2:], got, want)
			}
			if got {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d hits", hits)
	}
}

func TestConfigValidate(t *testing.T) {
	good := Config{MaxTokens: 1, MaxSeqs: 1, MaxSeqTokens: 2}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
	for _, c := range []Config{{}, {MaxTokens: 1}, {MaxTokens: 1, MaxSeqs: 1}, {MaxTokens: 1, MaxSeqs: 1, MaxSeqTokens: 2, MaxPrefill: -1}} {
		if c.Validate() == nil {
			t.Errorf("%+v passes", c)
		}
	}
}
