package scheduler

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/kvcache"
)

// The tests named after rows C100 to C104 check the rules of
// docs/interface/chat-completions.md, section 21.4, that depend on token ids
// alone.

// output runs one sequence that draws these tokens. It returns how many tokens the
// sequence took and why it ended, or NotDone if it did not.
func output(t *testing.T, limits Limits, draws ...int32) (int, Reason) {
	t.Helper()
	s := New(Config{MaxTokens: 16, MaxSeqs: 1, MaxSeqTokens: 100}, kvcache.New(20, 8, 0, true))
	q := &Sequence{ID: 1, Tokens: []int32{1, 2, 3, 1, 2, 3}, Prompt: 6, Limits: limits} // a repetition in the prompt does not count
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

// expect runs one sequence that draws these tokens and must end for this reason
// after n of them.
func expect(t *testing.T, limits Limits, draws []int32, n int, reason Reason) {
	t.Helper()
	if gotN, got := output(t, limits, draws...); gotN != n || got != reason {
		t.Errorf("%v under %+v: %s after %d tokens, want %s after %d", draws, limits, reasons[got], gotN, reasons[reason], n)
	}
}

// repetition are limits that only repetition detection reaches.
func repetition(from, to, count int) Limits {
	return Limits{MaxTokens: 50, EOS: -1, Repetition: RepetitionLimit{MinPattern: from, MaxPattern: to, MinCount: count}}
}

func TestC100RepetitionOfThree(t *testing.T) {
	pattern := []int32{1, 2, 3}
	expect(t, repetition(2, 3, 3), slices.Repeat(pattern, 4), 9, Repeated)
	expect(t, repetition(2, 3, 3), slices.Repeat(pattern, 2), 6, NotDone)
	// Another token in between, and counting begins again.
	expect(t, repetition(2, 3, 3), slices.Concat(slices.Repeat(pattern, 2), []int32{9}, slices.Repeat(pattern, 3)), 16, Repeated)
}

func TestC101RepetitionSizes(t *testing.T) {
	expect(t, repetition(2, 5, 4), slices.Repeat([]int32{1, 2}, 6), 8, Repeated)
	expect(t, repetition(2, 3, 3), []int32{1, 2, 3, 4, 5, 6, 5, 6, 5, 6, 5, 6}, 10, Repeated)
	expect(t, repetition(3, 5, 3), slices.Repeat([]int32{10, 20}, 3), 6, NotDone)
	// Two copies of a pattern are one copy of a pattern twice as long.
	expect(t, repetition(3, 5, 3), slices.Repeat([]int32{10, 20}, 6), 12, Repeated)
}

func TestC102RunsOfOneToken(t *testing.T) {
	expect(t, repetition(3, 3, 3), slices.Repeat([]int32{7}, 10), 9, Repeated)
	expect(t, repetition(3, 3, 3), slices.Repeat([]int32{7}, 8), 8, NotDone)
	expect(t, repetition(0, 3, 3), slices.Repeat([]int32{7}, 8), 3, Repeated) // a smallest size of 0 means 1
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
	limits = repetition(1, 1, 3)
	limits.MaxTokens = 3
	expect(t, limits, slices.Repeat([]int32{7}, 5), 3, Length)
}

// repeatsReference compares all copies of each pattern, as the rule is written in
// docs/interface/chat-completions.md, section 5.5.
func repeatsReference(out []int32, r RepetitionLimit) bool {
	for p := max(1, r.MinPattern); p <= r.MaxPattern; p++ {
		if p*r.MinCount > len(out) {
			return false
		}
		copies := out[len(out)-p*r.MinCount:]
		if slices.Equal(copies[p:], copies[:len(copies)-p]) {
			return true
		}
	}
	return false
}

// TestRepetitionReference compares the match counters with repeatsReference on
// random outputs of two tokens.
func TestRepetitionReference(t *testing.T) {
	g := rand.New(rand.NewPCG(3, 3))
	hits := 0
	for range 3000 {
		r := RepetitionLimit{MaxPattern: 1 + g.IntN(6), MinPattern: g.IntN(3), MinCount: 2 + g.IntN(3)}
		r.MinPattern = min(r.MinPattern, r.MaxPattern)
		q := &Sequence{Prompt: 2, Tokens: []int32{0, 0}, Limits: Limits{Repetition: r}, rules: rules{matches: make([]int32, r.MaxPattern+1)}}
		for range 60 {
			q.Tokens = append(q.Tokens, int32(g.IntN(2)))
			got, want := q.repeats(), repeatsReference(q.Tokens[2:], r)
			if got != want {
				t.Fatalf("%+v after %v: %v, want %v", r, q.Tokens[2:], got, want)
			}
			if got {
				hits++
			}
		}
	}
	if hits < 1000 {
		t.Errorf("only %d repetitions occurred", hits)
	}
}

// BenchmarkStop is the cost of the stop rules for one token, without and with
// repetition detection. In the output every second token equals the one before
// it, on average, so that the counters keep changing.
func BenchmarkStop(b *testing.B) {
	for _, size := range []int{0, 16, 256, MaxRepetition} {
		b.Run(fmt.Sprintf("patterns=%d", size), func(b *testing.B) { benchmarkStop(b, size) })
	}
}

func benchmarkStop(b *testing.B, maxPattern int) {
	const length = 8192
	g := rand.New(rand.NewPCG(1, 1))
	tokens := make([]int32, length)
	for i := range tokens {
		tokens[i] = int32(g.IntN(2))
	}
	limits := Limits{MaxTokens: length + 1, EOS: -1, Repetition: RepetitionLimit{MaxPattern: maxPattern, MinCount: MaxRepetition}}
	q := &Sequence{Limits: limits, rules: rules{matches: make([]int32, maxPattern+1)}}
	b.ReportAllocs()
	n := length / 2
	for b.Loop() {
		q.Tokens = tokens[:n]
		if _, done := q.stop(length + 1); done {
			b.Fatal("a stop rule applied")
		}
		if n++; n > length {
			n = length / 2
		}
	}
}

// BenchmarkRepetition is what the stop rules take for a token at most: the longest patterns, an
// output that matches all of them, and min_tokens that keep it from ending.
func BenchmarkRepetition(b *testing.B) {
	for _, most := range []int{0, 20, MaxRepetition} {
		b.Run(fmt.Sprint(most), func(b *testing.B) {
			q := &Sequence{Tokens: make([]int32, 2*MaxRepetition), Prompt: 1, Limits: Limits{MaxTokens: 1 << 30, MinTokens: 1 << 30, EOS: -1, Repetition: RepetitionLimit{MaxPattern: most, MinCount: 2}}}
			q.Prepare()
			for b.Loop() {
				if _, done := q.stop(1 << 30); done {
					b.Fatal("it ended")
				}
			}
		})
	}
}
