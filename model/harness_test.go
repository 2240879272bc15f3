package model_test

import (
	"context"
	"io/fs"
	"math/rand/v2"
	"testing"
	"testing/fstest"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
)

// eachExact runs f over the reference device and over every tier of instructions that the
// CPU device has here, with keys and values in float32 as in the golden data. It leaves out
// the tiers that round activations to bfloat16 if the weights are bfloat16.
func eachExact(t *testing.T, f func(t *testing.T, open func() model.Device)) {
	t.Helper()
	eachExactAs(t, cpu.Auto, f)
}

// eachExactAs is eachExact with devices that store weights as that format.
func eachExactAs(t *testing.T, weights cpu.Format, f func(t *testing.T, open func() model.Device)) {
	t.Helper()
	t.Run("reference", func(t *testing.T) { f(t, newReference) })
	for _, impl := range cpu.Impls() {
		if roundsRows(impl) {
			continue
		}
		t.Run("cpu "+impl, func(t *testing.T) {
			open := newCPU(t, impl, cpu.F32)
			if weights != cpu.Auto {
				open = func() model.Device { return newQuantized(t, impl, weights, cpu.F32) }
			}
			f(t, open)
		})
	}
}

// roundsRows reports whether a tier rounds activations that are multiplied with bfloat16.
func roundsRows(impl string) bool { return impl == "avx512bf16" || impl == "amx" }

// newCPU opens devices with one to three threads in turn, by default of the best tier that
// does not round activations.
func newCPU(t *testing.T, impl string, kv cpu.Format) func() model.Device {
	opened := 0
	return func() model.Device {
		t.Helper()
		cfg := cpu.Reference()
		opened++
		cfg.Threads = 1 + opened%3
		if impl != "" {
			cfg.Impl = impl
		}
		cfg.KVType, cfg.HugePages = kv, false // many small models: huge pages would be mostly empty
		d, err := cpu.Open(cfg)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
}

// harness is the smallest engine that can run steps: sequences with shuffled block
// tables, and chunks that the test chooses.
type harness struct {
	t     *testing.T
	b     backend.Backend
	free  []int32 // blocks, in the order in which they are used
	slots []int32 // state slots that are free
	batch backend.Batch
	draws backend.Draws
	out   backend.Out
}

type sequence struct {
	tokens   []int32
	computed int
	table    []int32
	state    int32 // slot of the recurrent state; 0: none yet
}

// chunk computes the next n tokens of a sequence and wants the logits of those
// whose positions are in at, ascending.
type chunk struct {
	seq *sequence
	n   int
	at  []int
}

// newHarness opens m over a fresh device.
func newHarness(t *testing.T, m *model.Model, dev model.Device, o model.Options, seed uint64) *harness {
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
	h := &harness{t: t, b: r}
	for i := 1; i < r.Spec().NumBlocks; i++ {
		h.free = append(h.free, int32(i))
	}
	for i := 1; i < r.Spec().StateSlots; i++ {
		h.slots = append(h.slots, int32(i))
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	rng.Shuffle(len(h.free), func(i, j int) { h.free[i], h.free[j] = h.free[j], h.free[i] })
	return h
}

// begin fills the batch, the greedy draws and the result's sizes.
func (h *harness) begin(chunks ...chunk) {
	spec := h.b.Spec()
	h.batch.Reset()
	h.draws.Reset()
	var left []int32
	for _, c := range chunks {
		s := c.seq
		for (s.computed+c.n+spec.BlockTokens-1)/spec.BlockTokens > len(s.table) {
			s.table = append(s.table, h.free[0])
			h.free = h.free[1:]
		}
		for _, pos := range c.at {
			h.batch.At = append(h.batch.At, int32(len(h.batch.Tokens)+pos-s.computed))
			h.draws.Rows = append(h.draws.Rows, backend.Draw{TopP: 1, Mask: -1, Allow: -1, Target: -1, Host: true})
		}
		for range c.n {
			pos := s.computed
			h.batch.Tokens = append(h.batch.Tokens, s.tokens[pos])
			h.batch.Pos = append(h.batch.Pos, int32(pos))
			h.batch.Slots = append(h.batch.Slots, s.table[pos/spec.BlockTokens]*int32(spec.BlockTokens)+int32(pos%spec.BlockTokens))
			s.computed++
		}
		if spec.StateSlots > 0 { // each chunk goes on in another slot
			to := h.slots[0]
			h.slots = h.slots[1:]
			h.batch.StateIn, h.batch.StateOut = append(h.batch.StateIn, s.state), append(h.batch.StateOut, to)
			if s.state != 0 {
				left = append(left, s.state) // not for others in this step
			}
			s.state = to
		}
		if spec.LongAfter > 0 {
			long := int32(0)
			if len(s.tokens) > spec.LongAfter {
				long = 1
			}
			h.batch.Long = append(h.batch.Long, long)
		}
		h.batch.QueryEnd = append(h.batch.QueryEnd, int32(len(h.batch.Tokens)))
		h.batch.KVLen = append(h.batch.KVLen, int32(s.computed))
		h.batch.Tables = append(h.batch.Tables, s.table...)
		h.batch.TableEnd = append(h.batch.TableEnd, int32(len(h.batch.Tables)))
	}
	h.slots = append(h.slots, left...)
	rows := len(h.batch.At)
	h.out = backend.Out{
		Tokens: make([]int32, rows), Logprobs: make([]float32, rows), Ranks: make([]int32, rows),
		Logits: make([]float32, rows*spec.VocabSize),
	}
}

// step runs one step; it returns the logits of the drawn rows in order.
func (h *harness) step(chunks ...chunk) [][]float32 {
	h.t.Helper()
	h.begin(chunks...)
	if err := h.b.Begin(&h.batch); err != nil {
		h.t.Fatal(err)
	}
	if err := h.b.Draw(&h.draws); err != nil {
		h.t.Fatal(err)
	}
	if err := h.b.End(&h.out); err != nil {
		h.t.Fatal(err)
	}
	var rows [][]float32
	for v := h.b.Spec().VocabSize; len(h.out.Logits) > 0; h.out.Logits = h.out.Logits[v:] {
		rows = append(rows, h.out.Logits[:v:v])
	}
	return rows
}

// release returns a sequence's blocks.
func (h *harness) release(s *sequence) {
	h.free = append(h.free, s.table...)
	if s.state != 0 {
		h.slots = append(h.slots, s.state)
	}
	s.table, s.computed, s.state = nil, 0, 0
}

func positions(from, to int) []int {
	var list []int
	for ; from < to; from++ {
		list = append(list, from)
	}
	return list
}

func openModel(t *testing.T, fsys fs.FS) *model.Model {
	t.Helper()
	m, err := model.OpenFS(fsys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// files copies a folder into memory, where a test may damage it.
func files(t *testing.T, fsys fs.FS) fstest.MapFS {
	t.Helper()
	m := fstest.MapFS{}
	list, err := fs.ReadDir(fsys, ".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range list {
		b, err := fs.ReadFile(fsys, e.Name())
		if err != nil {
			t.Fatal(err)
		}
		m[e.Name()] = &fstest.MapFile{Data: b}
	}
	return m
}
