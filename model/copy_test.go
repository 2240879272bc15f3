package model_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
)

// copyOut copies the first blocks of s, which are full, and its state.
func (h *harness) copyOut(s *sequence) (blocks [][]byte, state []byte) {
	h.t.Helper()
	c := h.b.(backend.Copier)
	size, slot, ok := c.CopySizes()
	if !ok {
		h.t.Fatal("the device cannot copy")
	}
	for _, b := range s.table[:s.computed/h.b.Spec().BlockTokens] {
		data := make([]byte, size)
		if err := c.CopyOut(data, false, b); err != nil {
			h.t.Fatal(err)
		}
		blocks = append(blocks, data)
	}
	if h.b.Spec().StateSlots > 0 {
		state = make([]byte, slot)
		if err := c.CopyOut(state, true, s.state); err != nil {
			h.t.Fatal(err)
		}
	}
	return blocks, state
}

// copyIn lets s go on from copies.
func (h *harness) copyIn(s *sequence, blocks [][]byte, state []byte) {
	h.t.Helper()
	c := h.b.(backend.Copier)
	for _, data := range blocks {
		if err := c.CopyIn(data, false, h.free[0]); err != nil {
			h.t.Fatal(err)
		}
		s.table, h.free = append(s.table, h.free[0]), h.free[1:]
	}
	if s.computed = len(blocks) * h.b.Spec().BlockTokens; state != nil {
		s.state, h.slots = h.slots[0], h.slots[1:]
		if err := c.CopyIn(state, true, s.state); err != nil {
			h.t.Fatal(err)
		}
	}
}

// TestCopies: of every family, with every type of keys and values, a sequence that goes on from copies of its blocks and state, in
// another device of the same kind, gets the bits that it gets where they were computed. What is copied out again is what was copied in.
func TestCopies(t *testing.T) {
	copied := 0
	for i, name := range families(t) {
		m := openModel(t, os.DirFS(filepath.Join("testdata/families", name)))
		kv := []cpu.Format{cpu.F32, cpu.BF16, cpu.Int8}[i%3]
		impl := cpu.Impls()[i%len(cpu.Impls())]
		if m.Config.Network.Whole {
			continue
		}
		length := min(70, m.Config.MaxSeqTokens)
		if n := m.Config.Network.LongAfter; n > 0 && n < length {
			length = n
		}
		from := (length - 1) / 16 * 16
		if from == 0 {
			continue
		}
		t.Run(fmt.Sprint(name, " ", kv, " ", impl), func(t *testing.T) {
			g := rand.New(rand.NewPCG(uint64(i), 3))
			text := make([]int32, length)
			for j := range text {
				text[j] = int32(g.IntN(m.Config.VocabSize))
			}
			o := model.Options{MaxTokens: length, MaxSeqTokens: length, NumBlocks: 12}
			one := newHarness(t, m, newCPU(t, impl, kv)(), o, 1)
			a := &sequence{tokens: text}
			one.step(chunk{a, from, nil})
			blocks, state := one.copyOut(a)
			want := one.step(chunk{a, length - from, positions(from, length)})

			two := newHarness(t, m, newCPU(t, impl, kv)(), o, 2)
			other := &sequence{tokens: text[1:]} // somebody whose blocks hold something else
			two.step(chunk{other, length - 1, nil})
			b := &sequence{tokens: text}
			two.copyIn(b, blocks, state)
			again, stateAgain := two.copyOut(b)
			for j := range blocks {
				if !bytes.Equal(again[j], blocks[j]) {
					t.Fatalf("block %d is another one", j)
				}
			}
			if !bytes.Equal(stateAgain, state) {
				t.Fatal("the state is another one")
			}
			for j, row := range two.step(chunk{b, length - from, positions(from, length)}) {
				sameBits(t, fmt.Sprint("position ", from+j), row, want[j])
			}
			copied++
		})
	}
	if copied < 20 {
		t.Errorf("only %d families were compared", copied)
	}
}

// TestCopiesOfNothing: what is not a block, or has another size, is refused, and a device that cannot copy says so.
func TestCopiesOfNothing(t *testing.T) {
	m := openModel(t, checkpointFS("qwen3"))
	h := newHarness(t, m, newCPU(t, "", cpu.F32)(), model.Options{NumBlocks: 4, MaxSeqTokens: 32}, 1)
	c := h.b.(backend.Copier)
	size, _, _ := c.CopySizes()
	for _, call := range []struct {
		n     int
		state bool
		id    int32
	}{{size, false, 0}, {size, false, 4}, {size, false, -1}, {size - 1, false, 1}, {size, true, 1}, {0, true, 1}} {
		if c.CopyIn(make([]byte, call.n), call.state, call.id) == nil || c.CopyOut(make([]byte, call.n), call.state, call.id) == nil {
			t.Errorf("%+v is copied", call)
		}
	}
	r := newHarness(t, m, newReference(), model.Options{NumBlocks: 4, MaxSeqTokens: 32}, 1)
	if _, _, ok := r.b.(backend.Copier).CopySizes(); ok {
		t.Error("the reference device can copy")
	}
}
