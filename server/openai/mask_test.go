package openai

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"weir/chat/reasoning"
	"weir/grammar"
)

func testLexicon(t testing.TB) *lexicon {
	t.Helper()
	l, err := newLexicon(&Model{Tokenizer: bundled(), VocabSize: vocabulary, Generation: Generation{EOS: endOfTurn, Stop: []int32{endOfText}}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func testGrammar(t testing.TB, l *lexicon, s grammar.Spec) *grammar.Grammar {
	t.Helper()
	c, err := grammar.NewCompiler(l.vocabulary, grammar.DefaultConfig(), nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Compile(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestMaskWalk (docs/interface/chat-completions.md, section 8.3): whichever legal tokens are
// drawn, the output is thoughts up to the closing tag, where there are thoughts, and after
// them exactly what the grammar wants. Fill and Accept agree on every token.
func TestMaskWalk(t *testing.T) {
	l := testLexicon(t)
	answers := []string{"<thin ice", "yes", "no</think>"}
	g := testGrammar(t, l, grammar.Spec{Kind: grammar.Choice, Choices: answers})
	rnd := rand.New(rand.NewPCG(1, 2))
	plain, thought := 0, 0
	for round := range 600 {
		start := []reasoning.Start{reasoning.Content, reasoning.Either, reasoning.Thought}[round%3]
		w := maskWalk{t: t, mask: l.newMask(g, start, false).(*mask), row: make([]uint32, len(l.scratch)), rnd: rnd}
		w.run()
		content := string(w.out)
		if start == reasoning.Thought || start == reasoning.Either && strings.HasPrefix(content, reasoning.Open) {
			thought++
			_, content, _ = strings.Cut(content, reasoning.Close)
		} else {
			plain++
		}
		if !slices.Contains(answers, content) {
			t.Fatalf("start %d: %q ends with %q", start, w.out, content)
		}
	}
	if plain < 100 || thought < 100 {
		t.Errorf("%d outputs without thoughts, %d with", plain, thought)
	}
}

// maskWalk draws legal tokens of a mask at random until an end token.
type maskWalk struct {
	t    *testing.T
	mask *mask
	row  []uint32 // the last fill
	rnd  *rand.Rand
	out  []byte // the text so far
}

func (w *maskWalk) run() {
	for step := 0; ; step++ {
		if err := w.mask.Fill(w.row, nil); err != nil {
			w.t.Fatal(err)
		}
		legal := w.legal()
		if step%7 == 0 {
			w.checkAccept()
		}
		if only := w.mask.Only(); only >= 0 && (len(legal) != 1 || legal[0] != only) {
			w.t.Fatalf("%q: only %d of %v", w.out, only, legal)
		}
		next := w.draw(legal)
		if !w.mask.Accept(next) {
			w.t.Fatalf("%q: token %d is in the mask and not accepted", w.out, next)
		}
		if next == endOfTurn || next == endOfText {
			return
		}
		w.out = append(w.out, bundled().Bytes(next)...)
	}
}

// inMask reports whether the last fill allows token v.
func (w *maskWalk) inMask(v int32) bool { return w.row[v/32]>>(v%32)&1 != 0 }

// legal returns the tokens that the last fill allows, at least one.
func (w *maskWalk) legal() (legal []int32) {
	for v := range int32(bundled().VocabSize()) {
		if w.inMask(v) {
			legal = append(legal, v)
		}
	}
	if len(legal) == 0 {
		w.t.Fatalf("%q: no token is legal", w.out)
	}
	return legal
}

// checkAccept checks that a copy of the mask accepts exactly the tokens of the last fill.
func (w *maskWalk) checkAccept() {
	for v := range int32(bundled().VocabSize()) {
		probe := *w.mask
		probe.matcher = w.mask.matcher.Fork()
		if got, want := probe.Accept(v), w.inMask(v); got != want {
			w.t.Fatalf("%q and then token %d %q: accepted %v, in the mask %v", w.out, v, bundled().Bytes(v), got, want)
		}
	}
}

// draw draws one of the legal tokens. Thoughts would go on for thousands of tokens, so
// that in every third step within them it prefers a token of the closing tag.
func (w *maskWalk) draw(legal []int32) int32 {
	next := legal[w.rnd.IntN(len(legal))]
	if w.mask.phase != inThoughts || w.rnd.IntN(3) != 0 {
		return next
	}
	rest := []byte(reasoning.Close[w.mask.tag:])
	for _, v := range legal {
		if b := bundled().Bytes(v); len(b) > 0 && bytes.HasPrefix(rest, b) && w.rnd.IntN(2) == 0 {
			next = v
		}
	}
	return next
}

// TestMaskBeyondTheEnd (docs/interface/chat-completions.md, section 5.2): with ignore_eos
// the output goes on after the end of what the grammar describes, and is then free.
func TestMaskBeyondTheEnd(t *testing.T) {
	l := testLexicon(t)
	for _, start := range []reasoning.Start{reasoning.Content, reasoning.Either} {
		k := l.newMask(testGrammar(t, l, grammar.Spec{Kind: grammar.Regex, Text: "a*"}), start, false)
		row := make([]uint32, len(l.scratch))
		if err := k.Fill(row, nil); err != nil {
			t.Fatal(err)
		}
		if row[endOfTurn/32]>>(endOfTurn%32)&1 == 0 || !k.Accept(endOfTurn) {
			t.Fatal("the empty output is not accepted")
		}
		if err := k.Fill(row, nil); err != nil {
			t.Fatal(err)
		}
		for _, w := range row {
			if w != ^uint32(0) {
				t.Fatal("a token is forbidden after the end")
			}
		}
		if !k.Accept(77) || k.Only() != -1 {
			t.Error("a token after the end is not accepted, or is said to be the only one")
		}
	}
}

// TestMaskNamesSpecialTokens: a grammar can name the special tokens of the model's tokenizer.
// They add nothing to the text, and the end tokens stay what they are.
func TestMaskNamesSpecialTokens(t *testing.T) {
	l := testLexicon(t)
	special := int32(-1)
	for id := range int32(vocabulary) {
		if bundled().IsSpecial(id) && !slices.Contains(l.eos, id) {
			special = id
		}
	}
	if special < 0 {
		t.Fatal("the tokenizer has no special token")
	}
	g := testGrammar(t, l, grammar.Spec{Kind: grammar.Notation, Text: "root ::= " + bundled().Token(special) + ` "yes"`})
	k := l.newMask(g, reasoning.Content, false)
	row := make([]uint32, len(l.scratch))
	if err := k.Fill(row, nil); err != nil {
		t.Fatal(err)
	}
	if tok, ok := grammar.Single(row); !ok || tok != special || k.Only() != special || !k.Accept(special) {
		t.Fatalf("token %d is forced (%t), want %d", tok, ok, special)
	}
	out := maskWalk{t: t, mask: k.(*mask), row: row, rnd: rand.New(rand.NewPCG(1, 2))}
	out.run()
	if string(out.out) != "yes" {
		t.Errorf("the text after the token is %q", out.out)
	}
	// Without a name it is legal nowhere, not even in free text.
	free := l.newMask(testGrammar(t, l, grammar.Spec{Kind: grammar.Tag, Schema: []byte(`{"format":{"type":"any_text"}}`)}), reasoning.Content, false)
	if free.Accept(special) {
		t.Error("a special token is legal in free text")
	}
}
