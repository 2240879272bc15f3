package openai_test

import (
	"fmt"
	"strings"
	"testing"
)

// TestMaskTooComplex: a grammar that has twenty times as many parses with each letter is refused
// with 400, when its masks take too much work, and its neighbours go on meanwhile
// (docs/interface/errors.md).
func TestMaskTooComplex(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	var g strings.Builder
	g.WriteString(`root ::= "."`)
	for i := range 20 {
		fmt.Fprintf(&g, " | r%d", i)
	}
	for i := range 20 {
		fmt.Fprintf(&g, "\nr%d ::= [a-z ] root \"%d\"", i, i)
	}
	neighbour := make(chan string)
	go func() {
		status, answer := h.Chat(map[string]any{"max_tokens": 300, "ignore_eos": true})
		neighbour <- fmt.Sprint(status, " ", strings.Contains(answer, `"completion_tokens":300`))
	}()
	status, answer := h.Chat(with(structured("grammar", g.String()), "max_tokens", 400, "seed", 1))
	t.Logf("%d %.300s", status, answer)
	if status != 400 || !strings.Contains(answer, "too ambiguous") {
		t.Errorf("the grammar: %d %.300s", status, answer)
	}
	if got := <-neighbour; got != "200 true" {
		t.Errorf("the neighbour: %s", got)
	}
}
