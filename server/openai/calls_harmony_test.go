package openai_test

import (
	"encoding/json"
	"testing"

	"weir/chat/reasoning"
	"weir/server/servertest"
)

// TestHarmonyCalls: in the format with channels a call is a message with a recipient in its
// header, which a grammar constrains from the beginning of the output on.
func TestHarmonyCalls(t *testing.T) {
	const template = `{{ tools }}{# <|channel|> <|message|> to= #}{% for m in messages %}{{ m.content }}{% endfor %}<|start|>assistant`
	st := newScripted(t, withTemplate(template, reasoning.Auto))
	st.setOutput(`<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>commentary to=functions.look_up <|constrain|>json<|message|>{"word":"weir"}<|call|>`, servertest.EndOfTurn)
	choices, header := st.call(t, nil)
	choices[0].says(t, "harmony", "tool_calls", "null", `look_up{"word":"weir"}`)
	if choices[0].thought == nil || *choices[0].thought != "Hm" || header.Get("X-Tools-Not-Parsed") != "" {
		t.Errorf("%s %v", &choices[0], header)
	}
	st.setOutput(`<|channel|>analysis<|message|>Hm<|end|><|start|>assistant<|channel|>final<|message|>Yes<|return|>`, servertest.EndOfTurn)
	choices, _ = st.call(t, nil)
	choices[0].says(t, "an answer", "stop", `"Yes"`)

	h := newServer(t, withTemplate(template, reasoning.Auto))
	pick := map[string]any{"type": "function", "function": map[string]any{"name": "pick",
		"parameters": json.RawMessage(`{"type":"object","properties":{"of":{"enum":["red","green"]}},"required":["of"],"additionalProperties":false}`)}}
	called := 0
	for seed := range 8 {
		got := h.Complete(t, map[string]any{"tools": []any{pick}, "tool_choice": "required", "seed": seed, "temperature": 1, "max_tokens": 900})
		if ch := &got.Choices[0]; ch.FinishReason == "tool_calls" {
			var args struct{ Of string }
			if err := json.Unmarshal([]byte(ch.Message.ToolCalls[0].Function.Arguments), &args); err != nil || args.Of != "red" && args.Of != "green" {
				t.Errorf("seed %d: %+v", seed, ch.Message)
			}
			called++
		} else if ch.FinishReason != "length" {
			t.Errorf("seed %d ends by %s", seed, ch.FinishReason)
		}
	}
	if called == 0 {
		t.Error("nothing was called")
	}
}
