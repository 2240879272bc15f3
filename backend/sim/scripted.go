package sim

import (
	"errors"
	"slices"

	"weir/backend"
)

// An Answer is a function that says which tokens are written after a prompt, the end token
// included, or nil if it has none for it. The prompt must not be kept.
type Answer func(prompt []int32) []int32

// NewScripted opens a paced backend that writes what answer says. A token that a mask or an
// edit forbids, and what follows the end of an answer, is drawn as in any paced backend, and so
// is everything where there is no answer. The error is that of NewPaced, or that no group of layers sees
// the whole prompt, which is read back from the KV cache.
func NewScripted(spec backend.Spec, profile Profile, answer Answer) (*Paced, error) {
	p, err := NewPaced(spec, profile)
	if err != nil {
		return nil, err
	}
	g := wholeGroup(spec)
	if g < 0 || spec.Whole {
		return nil, errors.New("sim: scripted answers need layers that see the whole prompt")
	}
	p.script = &script{answer: answer, size: spec.BlockTokens, group: g,
		slots: make([]int32, spec.NumBlocks*spec.BlockTokens), chosen: map[int32][]int32{}}
	return p, nil
}

// script chooses answers. It needs no books about sequences: a token's slot tells which prompt
// ends there, because blocks are shared only by sequences that are equal up to their ends.
type script struct {
	answer  Answer
	size    int               // tokens of a block
	group   int               // of layers that see everything
	slots   []int32           // [NumBlocks*BlockTokens] the token in each slot of the group
	batches [2]*backend.Batch // of step n, at n%2
	chosen  map[int32][]int32 // the answer to the prompt that ends in a slot
	prompt  []int32           // memory
}

// begin notes the tokens of step n. Those that the step before draws are no part of a prompt, so
// that it does not matter which they are.
func (s *script) begin(n int, b *backend.Batch) {
	s.batches[n%2] = b
	for i, slot := range b.Slots[s.group*len(b.Tokens):][:len(b.Tokens)] {
		s.slots[slot] = b.Tokens[i]
		delete(s.chosen, slot)
	}
}

// next is the token that the script has for row r of step n, which is the one with this index in its answer,
// or -1.
func (s *script) next(n, r int, index uint32) int32 {
	b := s.batches[n%2]
	t := b.At[r]
	length := int(b.Pos[t]) + 1 - int(index)
	if length < 1 {
		return -1
	}
	i, _ := slices.BinarySearch(b.QueryEnd, t+1) // the sequence with the row
	table := b.Table(s.group, i)
	slot := func(pos int) int32 { return table[pos/s.size]*int32(s.size) + int32(pos%s.size) }
	end := slot(length - 1)
	answer, known := s.chosen[end]
	if !known {
		s.prompt = s.prompt[:0]
		for pos := range length {
			s.prompt = append(s.prompt, s.slots[slot(pos)])
		}
		answer = s.answer(s.prompt)
		s.chosen[end] = answer
	}
	if int(index) >= len(answer) {
		return -1
	}
	return answer[index]
}
