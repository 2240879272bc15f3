package toolcall

import (
	"testing"

	"weir/chat/reasoning"
)

// withoutThoughts is the content of an output in channels, with its calls.
func withoutThoughts(output string) string {
	s := reasoning.Harmony.New(reasoning.Either)
	s.KeepCalls()
	_, content := s.Next([]byte(output), true)
	return string(content)
}

const thoughts = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"

func TestHarmonyGrammar(t *testing.T) {
	const call, final = `<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city":"a"}<|call|>`, "<|channel|>final<|message|>"
	for _, c := range []struct {
		choice  Choice
		content string
		text    string
		want    bool
	}{
		{Choice{Mode: Auto}, "", thoughts + final + "Hello<|return|>", true},
		{Choice{Mode: Auto}, "", final + "Hello<|return|>", true},
		{Choice{Mode: Auto}, "", "Hello", false},
		{Choice{Mode: Auto}, "", thoughts + call, true},
		{Choice{Mode: Auto}, "", thoughts + "<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant" + call, true},
		{Choice{Mode: Auto}, "", call + call, false},
		{Choice{Mode: Auto}, "", `<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{}<|call|>`, false},
		{Choice{Mode: Auto}, "", `<|channel|>commentary to=functions.other <|constrain|>json<|message|>{}<|call|>`, false},
		{Choice{Mode: Auto}, `{"type": "regex", "pattern": "yes"}`, final + "yes<|return|>", true},
		{Choice{Mode: Auto}, `{"type": "regex", "pattern": "yes"}`, final + "no<|return|>", false},
		{Choice{Mode: Required}, "", thoughts + call, true},
		{Choice{Mode: Required}, "", thoughts + final + "Hello<|return|>", false},
		{Choice{Mode: Required}, "", ` to=functions.now<|channel|>commentary json<|message|>{}<|call|>`, true},
		{Choice{Mode: Function, Name: "now"}, "", ` to=functions.now<|channel|>commentary <|constrain|>json<|message|>{}<|call|>`, true},
		{Choice{Mode: Function, Name: "now"}, "", call, false},
		{Choice{Mode: None}, "", call, false},
		{Choice{Mode: None}, "", final + "<|return|>", true},
	} {
		g := mustCompile(t, harmony, weather, c.choice, c.content)
		if n, whole := accepts(g, c.text); whole != c.want {
			t.Errorf("%+v: %q: %v, want %v (it goes on after %q)", c.choice, c.text, whole, c.want, c.text[:n])
		}
	}
	if !harmony.Whole() || hermes.Whole() {
		t.Error("Whole")
	}
}

// TestHarmonyCalls: package reasoning leaves calls to be read here, however their headers are
// written and the output is cut.
func TestHarmonyCalls(t *testing.T) {
	for output, want := range map[string]string{
		thoughts + `<|channel|>commentary to=functions.weather <|constrain|>json<|message|>{"city":"a"}<|call|>`: `"" weather({"city":"a"})`,
		thoughts + ` to=functions.now<|channel|>commentary json<|message|>{}`:                                    `"" now({})`,
		`<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant<|channel|>commentary to=functions.now<|message|>{}<|call|><|start|>assistant to=functions.now<|channel|>commentary code<|message|>{"a": 1}<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>`: `"Let me see.Done." now({}) now({"a": 1})`,
		`<|channel|>commentary to=functions.now<|message|>{"a": "x`:  `"" now({"a": "x)~`,
		"<|channel|>final<|message|>Yes.<|return|>":                  `"Yes." `,
		`<|channel|>commentary to=browser.open<|message|>{}<|call|>`: `"{}" `,
	} {
		for cut := range len(output) {
			s, p, r := reasoning.Harmony.New(reasoning.Either), harmony.NewParser(weather), &reading{}
			s.KeepCalls()
			for i, piece := range []string{output[:cut], output[cut:]} {
				_, content := s.Next([]byte(piece), i == 1)
				r.take(p.Next(content, i == 1))
			}
			if r.String() != want || len(r.problems) > 0 {
				t.Fatalf("%q cut at %d: %s %q, want %s", output, cut, r, r.problems, want)
			}
		}
	}
}
