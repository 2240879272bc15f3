package openai

import (
	"slices"
	"testing"

	"weir/chat/reasoning"
)

// TestHarmonyBudget (docs/interface/chat-completions.md, section 9.1): a budget of thoughts
// forces the end of an analysis and the whole header of the answer, so that the model cannot
// think again.
func TestHarmonyBudget(t *testing.T) {
	encode := func(text string) []int32 {
		ids, err := bundled().Encode(nil, text, false)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	closing := encode(reasoning.Harmony.Closing())
	b := &thinkBudget{tok: bundled(), counter: reasoning.Harmony.NewCounter(reasoning.Either), left: 3, closing: closing}
	accept := func(id int32) {
		if got := b.Force(); got >= 0 {
			t.Fatalf("%d is forced before the budget ends", got)
		}
		b.Accept(id)
	}
	for _, id := range encode("<|channel|>analysis<|message|>") {
		accept(id)
	}
	words := encode("one two three four")[:3]
	for _, id := range words {
		accept(id)
	}
	var forced []int32
	for id := b.Force(); id >= 0; id = b.Force() {
		forced = append(forced, id)
		b.Accept(id)
		if len(forced) > len(closing) {
			break
		}
	}
	if !slices.Equal(forced, closing) {
		t.Errorf("forced %v, want %v", forced, closing)
	}
	if got := b.counter.Count(); got != 3 {
		t.Errorf("%d tokens of thought", got)
	}
	accept(words[0]) // of the answer
}
