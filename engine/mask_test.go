package engine_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"weir/backend"
	"weir/backend/sim"
	"weir/engine"
)

// riddle is a mask that follows from the tokens accepted so far alone. Often it
// leaves one token. It notices calls that come at the wrong time.
type riddle struct {
	state uint64
	end   int32
	open  bool // beyond its end token everything may come
	mute  bool // does not say when there is only one
	busy  atomic.Bool
}

// legal lists what may come next; nil is everything.
func (m *riddle) legal() []int32 {
	if m.open {
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

func (m *riddle) alone() func() {
	if m.busy.Swap(true) {
		panic("a mask is called by two goroutines at a time")
	}
	return func() { m.busy.Store(false) }
}

func (m *riddle) Fill(row []uint32) {
	defer m.alone()()
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
}

func (m *riddle) Only() int32 {
	defer m.alone()()
	if ids := m.legal(); !m.mute && len(ids) == 1 {
		return ids[0]
	}
	return -1
}

func (m *riddle) Accept(t int32) bool {
	defer m.alone()()
	if ids := m.legal(); ids != nil && !slices.Contains(ids, t) {
		return false
	}
	m.open = m.open || t == m.end
	m.state = m.state*0x9E3779B97F4A7C15 + uint64(t) + 1
	return true
}

// TestForcedTokens: what a mask leaves no choice about is taken without a
// forward pass, and the answer is the same, bit for bit, as if it had been drawn.
func TestForcedTokens(t *testing.T) {
	g := seeded(t)
	var forced [2]uint64
	for range rounds(20) {
		jobs := workload(g, 20, simVocab, simLen)
		for i := range jobs {
			jobs[i].leave = 0
		}
		var got [2][]result
		for mute := range 2 {
			h := start(t, engine.Config{Caching: true, MaxLive: 1000}, func() (backend.Backend, error) {
				return sim.NewOracle(simSpec(60, 4, 40, 10, 1), sim.OracleConfig{Reading: sim.Lazy})
			})
			out := make([]result, len(jobs))
			var wg sync.WaitGroup
			for i, j := range jobs {
				r := j.request()
				for _, m := range r.Masks {
					m.(*riddle).mute = mute == 1
				}
				s, err := h.Submit(r)
				if err != nil {
					t.Fatal(err)
				}
				wg.Go(func() { out[i] = collect(context.Background(), s, j) })
			}
			wg.Wait()
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			got[mute] = out
			forced[mute] += h.Stats().ForcedTokens
		}
		if err := compare(jobs, got[0], got[1]); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d tokens forced", forced[0])
	if forced[0] < 100 || forced[1] != 0 { // TestForcedStops counts steps
		t.Error("the test did not reach what it is for")
	}
}

// stuck is a mask that leaves nothing after so many tokens.
type stuck struct{ left int }

func (m *stuck) Only() int32 { return -1 }
func (m *stuck) Accept(int32) bool {
	m.left--
	return true
}
func (m *stuck) Fill(row []uint32) {
	for i := range row {
		row[i] = 0
		if m.left > 0 {
			row[i] = ^uint32(0)
		}
	}
}

// TestMaskErrors: a mask that leaves nothing ends its request with an error; so
// does a forced token that the request's other constraints forbid; a request
// whose masks do not fit is refused.
func TestMaskErrors(t *testing.T) {
	for depth := 1; depth <= 2; depth++ {
		h := start(t, engine.Config{MaxLive: 10}, func() (backend.Backend, error) {
			return sim.NewOracle(simSpec(60, 4, 40, 10, depth), sim.OracleConfig{})
		})
		r := ask(5, 20)
		r.Limits.EOS, r.Masks = -1, []engine.Mask{&stuck{3}}
		s, err := h.Submit(r)
		if err != nil {
			t.Fatal(err)
		}
		if got := collect(t.Context(), s, job{req: r}); !errors.Is(got.err, engine.ErrNoToken) || len(got.choices[0].tokens) != 3 {
			t.Errorf("depth %d: %+v", depth, got)
		}
		r.Masks = []engine.Mask{&only{7}}
		r.Sampling.BadWords = [][]int32{{7, 7, 7}}
		if s, err = h.Submit(r); err != nil {
			t.Fatal(err)
		}
		if got := collect(t.Context(), s, job{req: r}); !errors.Is(got.err, engine.ErrNoToken) || !slices.Equal(got.choices[0].tokens, []int32{7, 7}) {
			t.Errorf("depth %d: %+v", depth, got)
		}
		r.Sampling.BadWords = nil
		for _, masks := range [][]engine.Mask{{}, {nil}, {&only{1}, &only{1}}} {
			r.Masks = masks
			if _, err := h.Submit(r); !errors.Is(err, engine.ErrInvalid) {
				t.Errorf("%d masks: %v", len(masks), err)
			}
		}
		if err := h.stop(); err != nil {
			t.Fatal(err)
		}
		if n := h.Stats().BlocksUsed; n != 0 {
			t.Errorf("%d blocks lost", n)
		}
	}
}

// only leaves one token, for ever.
type only struct{ token int32 }

func (m *only) Only() int32         { return m.token }
func (m *only) Accept(t int32) bool { return t == m.token }
func (m *only) Fill(row []uint32) {
	clear(row)
	row[m.token/32] = 1 << (m.token % 32)
}

// TestForcedStops: forced tokens meet the same stop rules as drawn ones.
func TestForcedStops(t *testing.T) {
	for _, c := range []struct {
		name   string
		edit   func(*engine.Request)
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
			h := start(t, engine.Config{MaxLive: 10}, func() (backend.Backend, error) {
				return sim.NewOracle(simSpec(60, 4, 40, 10, depth), sim.OracleConfig{})
			})
			r := ask(5, 20)
			r.Limits.EOS, r.Masks = -1, []engine.Mask{&only{7}}
			c.edit(&r)
			s, err := h.Submit(r)
			if err != nil {
				t.Fatal(err)
			}
			got := collect(t.Context(), s, job{req: r})
			if got.err != nil || len(got.choices[0].tokens) != c.tokens || got.choices[0].reason != c.reason {
				t.Errorf("%s, depth %d: %+v, want %d tokens and reason %v", c.name, depth, got, c.tokens, c.reason)
			}
			if err := h.stop(); err != nil {
				t.Fatal(err)
			}
			if depth == 1 && h.Stats().Steps > 1 {
				t.Errorf("%s: %d steps for forced tokens", c.name, h.Stats().Steps)
			}
		}
	}
}
