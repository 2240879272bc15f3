package reasoning

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestCounter(t *testing.T) {
	for _, c := range []struct {
		pieces string // separated by bars
		start  Start
		want   int
	}{
		{"a|b", Content, 0},
		{"<think>|a|b", Content, 0},
		{"a|b", Either, 0},
		{"a|b", Thought, 2},
		{"<think>|a|b|</think>|c", Either, 2},
		{"<think>|a|b|</think>|c", Thought, 2},
		{"\n|<think>|a|</think>|c", Either, 1},
		{"\n|<think>|a|</think>|c", Thought, 1},
		{"<th|ink>|a|</|think|>|c|</think>", Either, 1},
		{"<think>a|</|th|x|</think>", Either, 4},
		{"<think>a|b</|think>c", Either, 2},
		{"</think>|a", Thought, 0},
		{"<|/|t|h|i|n|k|>|a", Thought, 0},
		{"<|t|h|x|</think>", Thought, 4},
		{"<|<|/think>|x", Thought, 1},
		{"a|<|</think>|x", Thought, 2},
		{"a|<", Thought, 2},
		{"<thi", Either, 0},
		{"<thi", Thought, 1},
		{" | ", Thought, 2},
		{strings.Repeat(" |", maxBlanks+1) + "<think>|a", Either, 0},
		{"<think>|</think>|<think>|a", Either, 0},
		{"", Thought, 1},
	} {
		n := NewCounter(c.start)
		for piece := range strings.SplitSeq(c.pieces, "|") {
			n.Next([]byte(piece))
		}
		if n.Count() != c.want {
			t.Errorf("%q from %d: %d, want %d", c.pieces, c.start, n.Count(), c.want)
		}
	}
}

// TestCounterTwin: with pieces of a byte the count is the length of what Split calls
// thought, and Thinking is what a Splitter says, wherever an output ends.
func TestCounterTwin(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	words := []string{Open, Close, "<", "</", "</think", "thi", "/think>", " ", "a", "<think", "\n"}
	for range 3000 {
		var text string
		for range rnd.IntN(6) {
			text += words[rnd.IntN(len(words))]
		}
		for start := Content; start <= Thought; start++ {
			n := NewCounter(start)
			s := New(start)
			for i := range len(text) {
				n.Next([]byte(text[i : i+1]))
				s.Next([]byte(text[i:i+1]), false)
				if s.Answering() && n.Thinking() {
					t.Fatalf("%q from %d: thinking after the end of thoughts", text[:i+1], start)
				}
			}
			thought, _ := Split([]byte(text), start)
			if n.Count() != len(thought) {
				t.Fatalf("%q from %d: %d, want %d (%q)", text, start, n.Count(), len(thought), thought)
			}
		}
	}
}
