package openai

import (
	"slices"
	"testing"

	"weir/auth"
)

// An echo outlives the body of its request, and must not keep all of it in memory.
func TestEchoDoesNotKeepTheBody(t *testing.T) {
	h := newFixture(t)
	h.cfg.MaxEcho = 100
	m := &Model{Names: []string{"tiny"}, Tokenizer: bundled(), Chat: bundledChat(t), MaxLen: 1000, VocabSize: vocabulary, Generation: Generation{EOS: endOfTurn}}
	body := []byte(`{"prompt":["one","two"],"echo":true,"max_tokens":1}`)
	p, err := h.prepareTexts(t.Context(), m, &input{body: body, from: Sender{Who: auth.Anonymous}})
	if err != nil {
		t.Fatal(err)
	}
	clear(body) // what shares its memory changes with it
	if got := p.reply.answer.(*textAnswer).echo; !slices.Equal(got, []string{"one", "two"}) {
		t.Errorf("%q", got)
	}
}
