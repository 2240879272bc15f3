package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"weir/backend/sim"
	"weir/engine"
)

// randomMask allows tokens that follow from the tokens accepted so far alone. Often it
// leaves a single one. It notices calls that overlap.
type randomMask struct {
	state      uint64
	end        int32
	ended      bool // after its end token all tokens may come
	hideForced bool // Only does not say when there is a single token
	slow       bool // Fill takes long now and then
	busy       atomic.Bool
}

// legal lists the tokens that may come next; nil means all.
func (m *randomMask) legal() []int32 {
	if m.ended {
		return nil
	}
	g := rand.New(rand.NewPCG(m.state, 7))
	n := 1
	if g.IntN(2) == 0 {
		n = 2 + g.IntN(40)
	}
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(g.IntN(simVocab))
	}
	if g.IntN(30) == 0 {
		ids[0] = m.end
	}
	return ids
}

// enter marks the beginning of a call; the function it returns marks its end.
func (m *randomMask) enter() (leave func()) {
	if m.busy.Swap(true) {
		panic("two goroutines call a mask at the same time")
	}
	return func() { m.busy.Store(false) }
}

func (m *randomMask) Fill(row []uint32, pace func(bool) bool) error {
	defer m.enter()()
	if m.slow && m.state%8 == 0 { // longer than a forward pass of the simulator
		for i := range 20 + m.state%100 {
			runtime.Gosched()
			if !pace(i == 7) {
				return errAbandoned
			}
		}
	}
	ids := m.legal()
	for i := range row {
		row[i] = 0
		if ids == nil {
			row[i] = ^uint32(0)
		}
	}
	for _, t := range ids {
		row[t/32] |= 1 << (t % 32)
	}
	return nil
}

// Quick is true in most places of a mask that is not slow.
func (m *randomMask) Quick(int32) bool {
	defer m.enter()()
	return !m.slow && m.state%4 != 0
}

func (m *randomMask) Only() int32 {
	defer m.enter()()
	if ids := m.legal(); !m.hideForced && len(ids) == 1 {
		return ids[0]
	}
	return -1
}

func (m *randomMask) Accept(t int32) bool {
	defer m.enter()()
	if ids := m.legal(); ids != nil && !slices.Contains(ids, t) {
		return false
	}
	m.ended = m.ended || t == m.end
	m.state = m.state*0x9E3779B97F4A7C15 + uint64(t) + 1
	return true
}

// errAbandoned is the error of a fill that nobody waits for. No client sees it.
var errAbandoned = errors.New("abandoned")

// openMask allows every token until it has accepted a number of them, and none afterwards.
type openMask struct{ left int }

func (m *openMask) Only() int32       { return -1 }
func (m *openMask) Accept(int32) bool { m.left--; return true }
func (m *openMask) Quick(int32) bool  { return true }
func (m *openMask) Fill(row []uint32, _ func(bool) bool) error {
	for i := range row {
		row[i] = 0
		if m.left > 0 {
			row[i] = ^uint32(0)
		}
	}
	return nil
}

// singleMask always allows the same single token.
type singleMask struct{ token int32 }

func (m *singleMask) Only() int32         { return m.token }
func (m *singleMask) Accept(t int32) bool { return t == m.token }
func (m *singleMask) Quick(int32) bool    { return true }
func (m *singleMask) Fill(row []uint32, _ func(bool) bool) error {
	clear(row)
	row[m.token/32] = 1 << (m.token % 32)
	return nil
}

// runMasked runs the jobs and returns what each gave, and how many tokens were forced. With
// hideForced, the masks do not say when there is a single token, so all tokens are drawn.
func runMasked(t *testing.T, jobs []job, hideForced bool) ([]result, uint64) {
	t.Helper()
	e := start(t, engine.Config{Caching: true, MaxLive: 1000}, configuredOracle(simSpec(60, 4, 40, 10, 1), sim.OracleConfig{Reading: sim.Lazy}))
	results := make([]result, len(jobs))
	var wg sync.WaitGroup
	for i, j := range jobs {
		r := j.request()
		for _, m := range r.Masks {
			m.(*randomMask).hideForced = hideForced
		}
		s := e.mustSubmit(t, r)
		wg.Go(func() { results[i] = collect(context.Background(), s, j) })
	}
	wg.Wait()
	e.mustStop(t)
	return results, e.Stats().ForcedTokens
}

// TestForcedTokens: a token that a mask leaves no alternative to is booked without a draw,
// and the answer is the same, bit for bit, as if it had been drawn.
func TestForcedTokens(t *testing.T) {
	g := seeded(t)
	var forced, forcedAlthoughHidden uint64
	for range rounds(20) {
		jobs := withoutCancels(newWorkload(g, 20, simVocab, simLen))
		got, n := runMasked(t, jobs, false)
		forced += n
		want, n := runMasked(t, jobs, true)
		forcedAlthoughHidden += n
		if err := compare(jobs, got, want); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d tokens forced", forced)
	if forced < 100 || forcedAlthoughHidden != 0 {
		t.Errorf("%d tokens were forced, and %d of masks that hide it", forced, forcedAlthoughHidden)
	}
}

// TestMaskErrors: a request ends with an error if its mask leaves no token, or if its other
// constraints forbid the only token that the mask leaves. Masks that do not match the
// choices are refused.
func TestMaskErrors(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(60, 4, 40, 10, depth)))
		r := request(5, 20)
		r.Masks = []engine.Mask{&openMask{3}}
		if got := e.run(t, r); !errors.Is(got.err, engine.ErrNoToken) || len(got.choices[0].tokens) != 3 {
			t.Errorf("a mask that leaves no token: %+v", got)
		}
		r.Masks = []engine.Mask{&singleMask{7}}
		r.Sampling.BadWords = [][]int32{{7, 7, 7}}
		if got := e.run(t, r); !errors.Is(got.err, engine.ErrNoToken) || !slices.Equal(got.choices[0].tokens, []int32{7, 7}) {
			t.Errorf("a forced token that is forbidden: %+v", got)
		}
		r.Sampling.BadWords = nil
		for _, masks := range [][]engine.Mask{{}, {nil}, {&singleMask{1}, &singleMask{1}}} {
			r.Masks = masks
			if _, err := e.Submit(r); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%d masks for one choice: %v", len(masks), err)
			}
		}
		e.mustStop(t)
		if n := e.Stats().BlocksUsed; n != 0 {
			t.Errorf("%d blocks are lost", n)
		}
	})
}

// TestForcedStops: forced tokens meet the same stop rules as tokens that are drawn.
func TestForcedStops(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*engine.Request)
		tokens int
		reason engine.Reason
	}{
		{"max_tokens", func(r *engine.Request) { r.Limits.MaxTokens = 9 }, 9, engine.Length},
		{"the end token", func(r *engine.Request) { r.Limits.EOS = 7 }, 1, engine.Stop},
		{"min_tokens", func(r *engine.Request) { r.Limits.EOS, r.Limits.MinTokens = 7, 4 }, 4, engine.Stop},
		{"a stop id", func(r *engine.Request) { r.Limits.StopIDs = []int32{7} }, 1, engine.Stop},
		{"repetition", func(r *engine.Request) { r.Limits.Repetition = engine.Repetition{MaxPattern: 2, MinCount: 3} }, 3, engine.Repeated},
		{"the longest sequence", func(r *engine.Request) { r.Limits.MaxTokens = simLen - len(r.Tokens) }, simLen - 5, engine.Length},
	} {
		for depth := 1; depth <= 2; depth++ {
			e := start(t, engine.Config{MaxLive: 10}, oracle(simSpec(60, 4, 40, 10, depth)))
			r := request(5, 20)
			r.Masks = []engine.Mask{&singleMask{7}}
			c.change(&r)
			got := e.mustRun(t, r)
			if len(got.choices[0].tokens) != c.tokens || got.choices[0].reason != c.reason {
				t.Errorf("%s, depth %d: %+v, want %d tokens and reason %v", c.name, depth, got, c.tokens, c.reason)
			}
			e.mustStop(t)
			if n := e.Stats().Steps; depth == 1 && n > 1 {
				t.Errorf("%s: %d steps for forced tokens, want 1", c.name, n)
			}
		}
	}
}

// fickleMask allows all tokens and accepts none.
type fickleMask struct{ openMask }

func (*fickleMask) Accept(int32) bool { return false }

// TestMaskContradictsItself: a mask that does not accept what its row has allowed ends its own
// request, as one that is too complex. It is no fault of the device.
func TestMaskContradictsItself(t *testing.T) {
	eachDepth(t, func(t *testing.T, depth int) {
		e := start(t, engine.Config{MaxLive: 100}, oracle(simSpec(60, 4, 40, 10, depth)))
		r := request(5, 20)
		r.Masks = []engine.Mask{&fickleMask{openMask{1000}}}
		if got := e.run(t, r); !errors.Is(got.err, engine.ErrTooComplex) {
			t.Errorf("%+v", got)
		}
		if got := e.mustRun(t, request(5, 20)); got.err != nil {
			t.Errorf("the next request: %v", got.err)
		}
	})
}
