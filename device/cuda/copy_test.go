//go:build cuda && linux && amd64

package cuda_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"weir/model"
)

// copies copies the first blocks of s, which are full, and its state out of a backend.
func copies(r *model.Runner, s *sequence, blocks int) (list [][]byte, err error) {
	block, state, ok := r.CopySizes()
	if !ok {
		return nil, errors.New("the device cannot copy")
	}
	for _, b := range s.table[:blocks] {
		list = append(list, make([]byte, block))
		err = errors.Join(err, r.CopyOut(list[len(list)-1], false, b))
	}
	if r.Spec().StateSlots > 0 {
		list = append(list, make([]byte, state))
		err = errors.Join(err, r.CopyOut(list[len(list)-1], true, s.state))
	}
	return list, err
}

// copyIn lets s go on from copies of two blocks, and of a state if there are any.
func (h *harness) copyIn(r *model.Runner, s *sequence, list [][]byte) {
	h.t.Helper()
	var err error
	for i := range 2 {
		s.table, h.free = append(s.table, h.free[0]), h.free[1:]
		err = errors.Join(err, r.CopyIn(list[i], false, s.table[i]))
	}
	if r.Spec().StateSlots > 0 {
		s.state, s.spare = h.slot+1, h.slot+2
		h.slot += 2
		err = errors.Join(err, r.CopyIn(list[2], true, s.state))
	}
	if err != nil {
		h.t.Fatal(err)
	}
}

// TestCopies: a sequence that goes on from copies of its blocks and state in another device has the bits that it has where they were computed,
// also if they are copied while a step of others is in flight.
func TestCopies(t *testing.T) {
	for _, name := range []string{"qwen2", "families/qwen3_next", "families/mamba2"} {
		t.Run(name, func(t *testing.T) { compareCopies(t, name) })
	}
}

func compareCopies(t *testing.T, name string) {
	emulated(t)
	m := openModel(t, name)
	g := rand.New(rand.NewPCG(1, 2))
	text := randomTokens(g, 40, m.Config.VocabSize)
	o := model.Options{NumBlocks: 12, MaxTokens: 64, MaxSeqs: 2, MaxSeqTokens: 64, Depth: 2}
	s, other := &sequence{tokens: text}, &sequence{tokens: randomTokens(g, 40, m.Config.VocabSize)}
	var list [][]byte
	var want []float32
	t.Run("from", func(t *testing.T) { // so that the first device is closed then
		one := onGPU(t, m, config(), o)
		a := newHarness(t, one, 1)
		a.step(chunk{seq: s, n: 32, none: true})
		f := a.begin(chunk{seq: &sequence{tokens: other.tokens}, n: 20, draw: greedy()})
		var err error
		if list, err = copies(one, s, 2); err != nil {
			t.Fatal(err)
		}
		a.draw(f)
		a.end(f)
		want = a.step(chunk{seq: s, n: 8, all: true, draw: greedy()}).Logits
	})
	two := onGPU(t, m, config(), o)
	b := newHarness(t, two, 2)
	r := &sequence{tokens: text, computed: 32}
	f := b.begin(chunk{seq: &sequence{tokens: other.tokens}, n: 20, draw: greedy()})
	b.copyIn(two, r, list)
	b.draw(f)
	b.end(f)
	again, err := copies(two, r, 2)
	if err != nil {
		t.Fatal(err)
	}
	for i := range list {
		if !bytes.Equal(list[i], again[i]) {
			t.Errorf("copy %d is another one", i)
		}
	}
	got := b.step(chunk{seq: r, n: 8, all: true, draw: greedy()}).Logits
	if fmt.Sprint(got) != fmt.Sprint(want) || len(got) != 8*m.Config.VocabSize {
		t.Error("other logits after copies")
	}
	size, _, _ := two.CopySizes()
	if two.CopyIn(make([]byte, size), false, 12) == nil || two.CopyOut(make([]byte, size), false, 0) == nil || two.CopyIn(make([]byte, size+1), false, 1) == nil {
		t.Error("what is no block is copied")
	}
}
