package openai

import (
	"bytes"
	"math/rand/v2"
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
	c, err := grammar.NewCompiler(l.vocabulary, grammar.DefaultConfig())
	if err != nil {
		t.Fatal(err)
	}
	g, err := c.Compile(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestMaskWalk (docs/interface/chat-completions.md, section 8.3): whatever legal tokens are drawn, the
// output is thoughts up to the tag that closes them, or none where none need
// come, and then what the grammar wants to the end. Fill and Accept agree on
// every token.
func TestMaskWalk(t *testing.T) {
	l := testLexicon(t)
	g := testGrammar(t, l, grammar.Spec{Kind: grammar.Choice, Choices: []string{"<thin ice", "yes", "no</think>"}})
	rnd := rand.New(rand.NewPCG(1, 2))
	plain, thought := 0, 0
	for round := range 600 {
		start := []reasoning.Start{reasoning.Content, reasoning.Either, reasoning.Thought}[round%3]
		k := l.newMask(g, start).(*mask)
		var out []byte
		row := make([]uint32, len(l.scratch))
		for step := 0; ; step++ {
			k.Fill(row)
			var legal []int32
			for v := range int32(bundled().VocabSize()) {
				if row[v/32]>>(v%32)&1 != 0 {
					legal = append(legal, v)
				}
			}
			if len(legal) == 0 {
				t.Fatalf("%q: no token is legal", out)
			}
			if step%7 == 0 {
				for v := range int32(bundled().VocabSize()) {
					probe := *k
					probe.matcher = k.matcher.Fork()
					if got, want := probe.Accept(v), row[v/32]>>(v%32)&1 != 0; got != want && v != endOfText {
						t.Fatalf("%q and then token %d %q: accepted %v, in the mask %v", out, v, bundled().Bytes(v), got, want)
					}
				}
			}
			if only := k.Only(); only >= 0 && (len(legal) != 1 || legal[0] != only) {
				t.Fatalf("%q: only %d of %v", out, only, legal)
			}
			next := legal[rnd.IntN(len(legal))]
			if k.phase == inThoughts && rnd.IntN(3) == 0 { // hurry to the end of it
				for _, v := range legal {
					if b := bundled().Bytes(v); len(b) > 0 && bytes.HasPrefix([]byte(reasoning.Close[k.tag:]), b) && rnd.IntN(2) == 0 {
						next = v
					}
				}
			}
			if !k.Accept(next) {
				t.Fatalf("%q: token %d is in the mask and not accepted", out, next)
			}
			if next == endOfTurn || next == endOfText {
				break
			}
			out = append(out, bundled().Bytes(next)...)
		}
		content := string(out)
		if tags := start == reasoning.Thought || start == reasoning.Either && strings.HasPrefix(content, reasoning.Open); tags {
			thought++
			_, content, _ = strings.Cut(content, reasoning.Close)
		} else {
			plain++
		}
		if content != "<thin ice" && content != "yes" && content != "no</think>" {
			t.Fatalf("start %d: %q ends with %q", start, out, content)
		}
	}
	if plain < 100 || thought < 100 {
		t.Errorf("%d outputs without thoughts, %d with", plain, thought)
	}
}

// TestMaskBeyondTheEnd (docs/interface/chat-completions.md, section 5.2): with ignore_eos a grammar that is through
// constrains nothing any more.
func TestMaskBeyondTheEnd(t *testing.T) {
	l := testLexicon(t)
	for _, start := range []reasoning.Start{reasoning.Content, reasoning.Either} {
		k := l.newMask(testGrammar(t, l, grammar.Spec{Kind: grammar.Regex, Text: "a*"}), start)
		row := make([]uint32, len(l.scratch))
		k.Fill(row)
		if row[endOfTurn/32]>>(endOfTurn%32)&1 == 0 || !k.Accept(endOfTurn) {
			t.Fatal("the empty output is not taken")
		}
		k.Fill(row)
		for _, w := range row {
			if w != ^uint32(0) {
				t.Fatal("something is forbidden behind the end")
			}
		}
		if !k.Accept(77) || k.Only() != -1 {
			t.Error("not everything goes")
		}
	}
}
