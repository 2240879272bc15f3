package openai

import (
	"testing"

	"weir/chat/reasoning"
)

// TestBudgetOfAllMarks (docs/interface/chat-completions.md, section 9.1): a budget of thoughts forces
// the marks that end them in every format, token by token, and then lets the model write its answer. In the
// format with channels that is the end of an analysis and the whole header of the answer, so that the
// model cannot think again.
func TestBudgetOfAllMarks(t *testing.T) {
	for name, c := range map[string]struct {
		marks         *reasoning.Marks
		open, closing string
	}{
		"think":     {reasoning.Think, "<think>", "</think>"},
		"a suffix":  {reasoning.Think.WithSuffix(":opensource"), "<think:opensource>", "</think:opensource>"},
		"Magistral": {reasoning.Brackets, "[THINK]", "[/THINK]"},
		"Seed-OSS":  {reasoning.SeedThink, "<seed:think>", "</seed:think>"},
		"MiniMax":   {reasoning.MiniMaxThink, "<mm:think>", "</mm:think>"},
		"PLaMo":     {reasoning.PlamoThink, "<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"},
		"Kimi-VL":   {reasoning.Triangles, "◁think▷", "◁/think▷"},
		"Apertus":   {reasoning.Inner, "<|inner_prefix|>", "<|inner_suffix|>"},
		"Gemma":     {reasoning.ThoughtChannel, "<|channel>thought\n", "<channel|>"},
		"Cohere":    {reasoning.Command, "<|START_THINKING|>", "<|END_THINKING|>"},
		"Granite":   {reasoning.Sentences, "Here is my thought process:", "Here's my response:"},
		"Hunyuan":   {reasoning.ThinkAnswer, "<think>\n", "</think>"},
		"ERNIE":     {reasoning.ThinkResponse, "<think>\n", "</think>"},
		"gpt-oss":   {reasoning.Harmony, "<|channel|>analysis<|message|>", "<|end|><|start|>assistant<|channel|>final<|message|>"},
	} {
		t.Run(name, func(t *testing.T) { checkBudget(t, c.marks, c.open, c.closing) })
	}
}

func checkBudget(t *testing.T, marks *reasoning.Marks, open, closing string) {
	encode := func(text string) []int32 {
		ids, err := bundled().Encode(nil, text, false)
		if err != nil {
			t.Fatal(err)
		}
		return ids
	}
	const budget = 3
	b := &thinkBudget{tok: bundled(), counter: marks.NewCounter(reasoning.Either), left: budget, closing: encode(marks.Closing())}
	split := marks.New(reasoning.Either)
	var thought, content []byte
	take := func(id int32) {
		b.Accept(id)
		x, y := split.Next(bundled().Bytes(id), false)
		thought, content = append(thought, x...), append(content, y...)
	}
	accept := func(id int32) {
		if got := b.Force(); got >= 0 {
			t.Fatalf("%q is forced", bundled().Bytes(got))
		}
		take(id)
	}
	for _, id := range encode(open) {
		accept(id)
	}
	words := encode("one two three four")[:budget]
	for _, id := range words {
		accept(id)
	}
	var forced []byte
	for id := b.Force(); id >= 0; id = b.Force() {
		if forced = append(forced, bundled().Bytes(id)...); len(forced) > len(closing) {
			break
		}
		take(id)
	}
	if string(forced) != closing {
		t.Errorf("forced %q, want %q", forced, closing)
	}
	if got := b.counter.Count(); got != budget {
		t.Errorf("%d tokens of thought", got)
	}
	for _, id := range encode("Yes, it is.") { // nothing is forced in the answer
		accept(id)
	}
	x, y := split.Next(nil, true)
	if thought, content = append(thought, x...), append(content, y...); string(thought) != string(bundled().Bytes(words[0]))+string(bundled().Bytes(words[1]))+string(bundled().Bytes(words[2])) || string(content) != "Yes, it is." {
		t.Errorf("thought %q, content %q", thought, content)
	}
}
