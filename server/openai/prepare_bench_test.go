package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"weir/auth"
)

// BenchmarkPrepare prepares a conversation of about 8,000 tokens for the engine: it scans,
// decodes, renders and tokenizes the body. The vocabulary is that of the bundled model; see
// BenchmarkEncode in package tokenizer for large ones.
func BenchmarkPrepare(b *testing.B) {
	h := newFixture(b)
	m := &Model{Names: []string{"tiny"}, Tokenizer: bundled(), Chat: bundledChat(b), MaxLen: 1 << 20, VocabSize: vocabulary, Generation: Generation{EOS: endOfTurn}}
	var messages []map[string]any
	for i := range 40 {
		role := "user"
		if i%2 == 1 {
			role = "assistant"
		}
		messages = append(messages, map[string]any{"role": role, "content": strings.Repeat("The weir keeps every stream steady, whatever falls into the river above it. ", 11)})
	}
	messages = append(messages, map[string]any{"role": "user", "content": "Why?"})
	body, err := json.Marshal(map[string]any{"messages": messages, "max_tokens": 100, "temperature": 0.5})
	if err != nil {
		b.Fatal(err)
	}
	tokens := 0
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		p, err := h.prepareChat(b.Context(), m, &input{body: body, from: Sender{Who: auth.Anonymous}})
		if err != nil {
			b.Fatal(err)
		}
		tokens = len(p.requests[0].Tokens)
	}
	b.ReportMetric(float64(tokens), "tokens")
}
