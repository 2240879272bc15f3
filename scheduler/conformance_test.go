package scheduler

import (
	"slices"
	"testing"

	"weir/kvcache"
)

// Rows of spec chat-completions 21.4 that are about token ids alone.

// output runs one sequence that draws these tokens, and returns how many it
// took and why it stopped; NotDone if it did not.
func output(t *testing.T, limits Limits, draws ...int32) (int, Reason) {
	t.Helper()
	s := New(Config{MaxTokens: 16, MaxSeqs: 1, MaxSeqTokens: 100}, kvcache.New(20, 8, true))
	limits.MaxTokens = 50
	q := &Sequence{ID: 1, Tokens: []int32{1, 2, 3, 1, 2, 3}, Prompt: 6, Limits: limits} // the prompt's own repetition counts for nothing
	s.Add(q)
	for _, d := range draws {
		for _, c := range slices.Clone(s.Schedule()) {
			s.Commit(c, d)
		}
		s.EndStep()
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
		if q.Status == Finished {
			break
		}
	}
	return len(q.Tokens) - q.Prompt, q.Reason
}

func expect(t *testing.T, limits Limits, draws []int32, n int, reason Reason) {
	t.Helper()
	if gotN, got := output(t, limits, draws...); gotN != n || got != reason {
		t.Errorf("%v under %+v: %s after %d, want %s after %d", draws, limits, reasons[got], gotN, reasons[reason], n)
	}
}

func repetition(from, to, count int) Limits {
	return Limits{EOS: -1, Repetition: RepetitionLimit{MinPattern: from, MaxPattern: to, MinCount: count}}
}

func TestC100RepetitionOfThree(t *testing.T) {
	pattern := []int32{1, 2, 3}
	expect(t, repetition(2, 3, 3), slices.Repeat(pattern, 4), 9, Repeated)
	expect(t, repetition(2, 3, 3), slices.Repeat(pattern, 2), 6, NotDone)
	// One other token in between and it begins anew.
	expect(t, repetition(2, 3, 3), slices.Concat(slices.Repeat(pattern, 2), []int32{9}, slices.Repeat(pattern, 3)), 16, Repeated)
}

func TestC101RepetitionSizes(t *testing.T) {
	expect(t, repetition(2, 5, 4), slices.Repeat([]int32{1, 2}, 6), 8, Repeated)
	expect(t, repetition(2, 3, 3), []int32{1, 2, 3, 4, 5, 6, 5, 6, 5, 6, 5, 6}, 10, Repeated)
	expect(t, repetition(3, 5, 3), slices.Repeat([]int32{10, 20}, 3), 6, NotDone)
	// Two copies of a pattern are one of a pattern twice as long.
	expect(t, repetition(3, 5, 3), slices.Repeat([]int32{10, 20}, 6), 12, Repeated)
}

func TestC102RunsOfOneToken(t *testing.T) {
	expect(t, repetition(3, 3, 3), slices.Repeat([]int32{7}, 10), 9, Repeated)
	expect(t, repetition(3, 3, 3), slices.Repeat([]int32{7}, 8), 8, NotDone)
	expect(t, repetition(0, 3, 3), slices.Repeat([]int32{7}, 8), 3, Repeated) // 0 is 1
}

func TestC103RepetitionBelowMinTokens(t *testing.T) {
	limits := repetition(1, 1, 3)
	limits.MinTokens = 6
	expect(t, limits, slices.Repeat([]int32{7}, 9), 6, Repeated)
	expect(t, limits, []int32{7, 7, 7, 8, 9, 8, 9, 9}, 8, NotDone)
}

func TestC104StopWinsOverRepetition(t *testing.T) {
	limits := repetition(1, 1, 3)
	limits.EOS = 7
	limits.MinTokens = 3
	expect(t, limits, slices.Repeat([]int32{7}, 5), 3, Stop)
	limits.EOS, limits.StopIDs = -1, []int32{5, 7}
	expect(t, limits, slices.Repeat([]int32{7}, 5), 3, Stop)
	// So does the length.
	s := New(Config{MaxTokens: 16, MaxSeqs: 1, MaxSeqTokens: 100}, kvcache.New(20, 8, true))
	q := &Sequence{ID: 1, Tokens: []int32{1}, Prompt: 1, Limits: repetition(1, 1, 3)}
	q.Limits.MaxTokens = 3
	s.Add(q)
	for range 3 {
		for _, c := range slices.Clone(s.Schedule()) {
			s.Commit(c, 7)
		}
		s.EndStep()
	}
	if q.Reason != Length {
		t.Errorf("%s, want length", reasons[q.Reason])
	}
}
