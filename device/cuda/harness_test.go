//go:build cuda && linux && amd64

package cuda_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"weir/backend"
	"weir/device/cpu"
	"weir/device/cuda"
	"weir/model"
)

// TestMain skips all tests if no driver is named. make test-cuda-emu builds one that
// emulates a GPU; WEIR_CUDA_DRIVER=libcuda.so.1 is the machine's own.
func TestMain(m *testing.M) {
	if os.Getenv(driverVar) == "" {
		fmt.Println("skipped: " + driverVar + " names no driver (make test-cuda-emu)")
		return
	}
	os.Exit(m.Run())
}

const driverVar = "WEIR_CUDA_DRIVER"

// config is that of a device under test. Machine code is kept between tests,
// as between starts.
func config() cuda.Config {
	c := cuda.Default()
	c.Driver = os.Getenv(driverVar)
	return c
}

func openModel(t testing.TB, name string) *model.Model {
	t.Helper()
	m, err := model.Open("../../model/testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// onGPU and onCPU open a backend that t closes.
func onGPU(t testing.TB, m *model.Model, c cuda.Config, o model.Options) *model.Runner {
	t.Helper()
	dev, err := cuda.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	return opened(t, m, dev, o)
}

func onCPU(t testing.TB, m *model.Model, weights cpu.Format, o model.Options) *model.Runner {
	t.Helper()
	c := cpu.Reference()
	c.Threads, c.HugePages, c.WeightType = 1, false, weights
	dev, err := cpu.Open(c)
	if err != nil {
		t.Fatal(err)
	}
	o.Depth = 1
	return opened(t, m, dev, o)
}

func opened(t testing.TB, m *model.Model, dev model.Device, o model.Options) *model.Runner {
	t.Helper()
	r, err := model.NewRunner(context.Background(), dev, m, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// harness is the smallest engine that can run steps: sequences with shuffled block
// tables, and chunks that the test chooses.
type harness struct {
	t    testing.TB
	b    backend.Backend
	free []int32 // blocks, in the order in which they are used
	slot int32   // the newest state slot that a sequence has
}

type flight struct {
	batch backend.Batch
	draws backend.Draws
	out   backend.Out
}

type sequence struct {
	tokens   []int32
	computed int
	table    []int32
	state    int32 // slot of its state; 0: none yet
	spare    int32 // a second slot of its own
}

// chunk computes the next n tokens of a sequence. The logits of the last one
// are wanted, or of all.
type chunk struct {
	seq  *sequence
	n    int
	all  bool
	none bool
	draw backend.Draw
}

func newHarness(t testing.TB, b backend.Backend, seed uint64) *harness {
	h := &harness{t: t, b: b}
	for i := 1; i < b.Spec().NumBlocks; i++ {
		h.free = append(h.free, int32(i))
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(h.free), func(i, j int) { h.free[i], h.free[j] = h.free[j], h.free[i] })
	return h
}

// greedy asks for the most likely token, and for the logits themselves.
func greedy() backend.Draw {
	return backend.Draw{TopP: 1, Mask: -1, Allow: -1, Target: -1, Host: true}
}

// begin starts a step. If a chunk goes beyond a sequence's tokens, it computes ^row: the
// token that the previous step draws in the row that the sequence has there.
func (h *harness) begin(chunks ...chunk) *flight {
	h.t.Helper()
	f, spec := &flight{}, h.b.Spec()
	b := &f.batch
	host, top := 0, 0
	for i, c := range chunks {
		s := c.seq
		for (s.computed+c.n+spec.BlockTokens-1)/spec.BlockTokens > len(s.table) {
			s.table = append(s.table, h.free[0])
			h.free = h.free[1:]
		}
		for j := range c.n {
			pos := s.computed
			token := int32(^i)
			if pos < len(s.tokens) {
				token = s.tokens[pos]
			}
			if !c.none && (c.all || j == c.n-1) {
				b.At = append(b.At, int32(len(b.Tokens)))
				f.draws.Rows = append(f.draws.Rows, c.draw)
				top += int(c.draw.Top)
				if c.draw.Host {
					host++
				}
			}
			b.Tokens = append(b.Tokens, token)
			b.Pos = append(b.Pos, int32(pos))
			b.Slots = append(b.Slots, s.table[pos/spec.BlockTokens]*int32(spec.BlockTokens)+int32(pos%spec.BlockTokens))
			s.computed++
		}
		if spec.StateSlots > 0 {
			h.moveState(b, s)
		}
		b.QueryEnd = append(b.QueryEnd, int32(len(b.Tokens)))
		b.KVLen = append(b.KVLen, int32(s.computed))
		b.Tables = append(b.Tables, s.table...)
		b.TableEnd = append(b.TableEnd, int32(len(b.Tables)))
	}
	rows := len(b.At)
	f.out = backend.Out{
		Tokens: make([]int32, rows), Logprobs: make([]float32, rows), Ranks: make([]int32, rows),
		TopTokens: make([]int32, top), TopLogprobs: make([]float32, top), Logits: make([]float32, host*spec.VocabSize),
	}
	if err := h.b.Begin(b); err != nil {
		h.t.Fatal(err)
	}
	return f
}

// moveState has the state of s go on from its slot to its other one, and in every third step stay where it is.
func (h *harness) moveState(b *backend.Batch, s *sequence) {
	in := s.state
	if in == 0 {
		s.state, s.spare = h.slot+1, h.slot+2
		h.slot += 2
	} else if s.computed%3 > 0 {
		s.state, s.spare = s.spare, s.state
	}
	b.StateIn, b.StateOut = append(b.StateIn, in), append(b.StateOut, s.state)
}

func (h *harness) end(f *flight) *backend.Out {
	h.t.Helper()
	if err := h.b.End(&f.out); err != nil {
		h.t.Fatal(err)
	}
	return &f.out
}

func (h *harness) draw(f *flight) {
	h.t.Helper()
	if err := h.b.Draw(&f.draws); err != nil {
		h.t.Fatal(err)
	}
}

// step runs one step alone.
func (h *harness) step(chunks ...chunk) *backend.Out {
	h.t.Helper()
	f := h.begin(chunks...)
	h.draw(f)
	return h.end(f)
}

func randomTokens(g *rand.Rand, n, vocab int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(g.IntN(vocab))
	}
	return ids
}

// logitError is the norm of the difference over the norm of what is wanted.
func logitError(got, want []float32) float64 {
	var d, w float64
	for i := range want {
		d += float64(got[i]-want[i]) * float64(got[i]-want[i])
		w += float64(want[i]) * float64(want[i])
	}
	return math.Sqrt(d / w)
}
