package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
)

// reply is an answer that depends on every token of the prompt, in a vocabulary of 40.
func reply(prompt []int32) []int32 {
	h := uint64(len(prompt))
	for _, id := range prompt {
		h = mix(h ^ uint64(id))
	}
	answer := make([]int32, 1+h%12)
	for i := range answer {
		h = mix(h)
		answer[i] = 4 + int32(h%36) // neither the stop token nor one before it
	}
	return append(answer, stop)
}

// TestScriptedAnswers: whatever the schedule, every sequence is given the answer to its own prompt,
// where it may be written.
func TestScriptedAnswers(t *testing.T) {
	written := 0
	for schedule := range uint64(40) {
		g := rand.New(rand.NewPCG(schedule, 2))
		d := newDriver(t, schedule, 1+g.IntN(2), []int{1, 3, 16}[g.IntN(3)], schedule, func(s backend.Spec) (backend.Backend, error) {
			return NewScripted(s, Instant(), reply)
		})
		seqs := slices.Clone(d.seqs)
		d.seqs = d.seqs[:0]
		for i, s := range seqs {
			s.params.MinTokens, s.params.BadWords = 0, nil
			if i%2 == 0 {
				s.params.Allowed = nil
			}
			d.add(s.params, s.tokens, 25)
		}
		d.run()
		for _, s := range d.seqs {
			written += checkScripted(t, s)
		}
	}
	if written < 500 {
		t.Errorf("only %d tokens were written by the script", written)
	}
}

// checkScripted checks the output of s, and returns how many of its tokens the script has written.
func checkScripted(t *testing.T, s *sequence) (written int) {
	t.Helper()
	want, out := reply(s.tokens[:s.prompt]), s.tokens[s.prompt:]
	allowed := func(id int32) bool { return s.params.Allowed == nil || slices.Contains(s.params.Allowed, id) }
	for j, id := range out {
		if !allowed(id) {
			t.Fatalf("%v: token %d was not allowed", s.tokens, j)
		}
		if j >= len(want) || !allowed(want[j]) {
			continue
		}
		if written++; id != want[j] {
			t.Fatalf("%v: token %d is %d, want %d", s.tokens, j, id, want[j])
		}
	}
	if s.params.Allowed == nil && len(out) != len(want) {
		t.Errorf("%v: %d tokens, want %d", s.tokens, len(out), len(want))
	}
	return written
}

// TestScriptedWithoutAnswer: a prompt without an answer gets what a paced backend without a script
// draws.
func TestScriptedWithoutAnswer(t *testing.T) {
	asked := 0
	var outputs [2][][]int32
	for i := range outputs {
		d := newDriver(t, 5, 2, 4, 6, func(s backend.Spec) (backend.Backend, error) {
			if i == 0 {
				return NewPaced(s, Instant())
			}
			return NewScripted(s, Instant(), func([]int32) []int32 { asked++; return nil })
		})
		d.run()
		for _, s := range d.seqs {
			outputs[i] = append(outputs[i], s.tokens)
		}
	}
	if !slices.EqualFunc(outputs[0], outputs[1], slices.Equal) {
		t.Errorf("%v\nwithout a script %v", outputs[1], outputs[0])
	}
	if asked != 8 { // and not once for each token
		t.Errorf("8 prompts were asked about %d times", asked)
	}
}

// TestScriptedNeedsPrompt: what no layer sees cannot be read back.
func TestScriptedNeedsPrompt(t *testing.T) {
	windowed, whole := small, small
	windowed.Groups = []backend.KVGroup{{Window: 8}}
	whole.Whole = true
	for _, s := range []backend.Spec{windowed, whole} {
		if _, err := NewScripted(s, Instant(), reply); err == nil {
			t.Errorf("NewScripted accepts %+v", s)
		}
	}
	if _, err := NewScripted(backend.Spec{}, Instant(), reply); err == nil {
		t.Error("NewScripted accepts a spec that breaks the contract")
	}
}
