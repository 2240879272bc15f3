package grammar

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestEndTokens(t *testing.T) {
	tokens := [][]byte{[]byte("a"), []byte("b"), []byte("<end>"), nil, []byte("ab"), []byte("a")}
	v, err := NewVocabulary(tokens, []int32{2, 3})
	if err != nil {
		t.Fatal(err)
	}
	g, err := compileFor(re("ab?"), v)
	if err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher()
	mask := []uint32{0xFFFFFFFF, 0xFFFFFFFF, 7}
	fill := func(want uint32) {
		t.Helper()
		if err := m.Fill(mask); err != nil || mask[0] != want || mask[1] != 0 || mask[2] != 0 {
			t.Fatalf("mask %b, %v, want %b", mask, err, want)
		}
	}
	fill(0b110001) // both spellings of a, and ab; no end, though <end> has bytes
	if m.Done() || m.Accept(2) || m.Accept(3) || m.Accept(-1) || m.Accept(6) || m.Accept(1) {
		t.Fatal("accepted what is not legal")
	}
	if !m.Accept(5) || !m.Done() {
		t.Fatal("a is a complete text")
	}
	fill(0b1110) // b or an end
	if !m.Accept(3) || !m.Ended() || m.Accept(1) {
		t.Fatal("an end token ends the text")
	}
	fill(0b1100) // nothing but ends
	if !m.Accept(2) {
		t.Fatal("a second end is legal")
	}
	m.Rollback(2)
	if m.Ended() || m.Len() != 1 {
		t.Fatal("ends are rolled back")
	}
	fill(0b1110)
	m.Rollback(5)
	fill(0b110001)
}

func TestFillReportsDeadEnds(t *testing.T) {
	v, err := NewVocabulary([][]byte{[]byte("a"), nil}, []int32{1})
	if err != nil {
		t.Fatal(err)
	}
	g, err := compileFor(re("ab"), v)
	if err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher()
	mask := make([]uint32, 1)
	if err := m.Fill(mask); err != nil {
		t.Fatal(err)
	}
	m.Accept(0)
	if err := m.Fill(mask); !errors.Is(err, ErrStuck) {
		t.Errorf("got %v, want ErrStuck", err)
	}
}

// TestTooManyParses: there are 3ⁿ ways to read n parentheses. Some of them are followed, and
// the text can be completed in each of these.
func TestTooManyParses(t *testing.T) {
	g := mustCompile(t, notation("root ::= a | b | c | \"x\"\na ::= \"(\" root \")\"\nb ::= \"(\" root \"]\"\nc ::= \"(\" root \"}\""), testVocabulary)
	m := g.NewMatcher()
	mask := make([]uint32, g.Vocabulary().words())
	accept := func(c int32) {
		if err := m.Fill(mask); err != nil || !legal(mask, c) || !m.Accept(c) {
			t.Fatalf("%v: %q is not accepted after %d tokens", err, c, m.Len())
		}
		if len(m.at.tops) > m.m.bounds.stacks {
			t.Fatalf("%d parses are followed", len(m.at.tops))
		}
	}
	for range 40 {
		accept('(')
	}
	accept('x')
	for i := range 40 {
		if err := m.Fill(mask); err != nil {
			t.Fatal(err)
		}
		accept(nextLegal(mask, 100*i, 256))
	}
	if !m.Done() {
		t.Error("the text is not complete")
	}
}

// TestExpensiveMasksAreGivenUp: a mask that would take too many visits is refused, and the
// next text in the same place is refused at once.
func TestExpensiveMasksAreGivenUp(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, false)
	g := mustCompile(t, notation(`root ::= [a-z ]{0,300} [a-z0-9 ]{0,300} [a-z" ]{0,300}`), voc)
	voc = syntheticVocabulary(t, 4096, false) // and a machine without the first mask, which compiling has made
	g = &Grammar{m: newMachine(g.m.net, voc, DefaultConfig().GrammarBytes)}
	g.m.bounds.mask = 20
	mask := make([]uint32, voc.words())
	for i := range 2 {
		before := g.m.visits.Load()
		if err := g.NewMatcher().Fill(mask); !errors.Is(err, ErrTooComplex) {
			t.Fatalf("%v", err)
		}
		if visits := g.m.visits.Load() - before; i == 1 && visits > 0 {
			t.Errorf("the second time takes %d visits", visits)
		}
	}
}

func TestForced(t *testing.T) {
	for _, c := range []struct{ spec, after, want string }{
		{`{"type":"object","properties":{"name":{"const":"x"}},"required":["name"],"additionalProperties":false}`, ``, `{"name":"x"}`},
		{`{"type":"object","properties":{"name":{"type":"string"},"n":{}},"required":["name"],"additionalProperties":false}`, `{"na`, `me":"`},
		{`{"enum":["abc","abd"]}`, ``, `"ab`},
		{`{"type":"string"}`, `"a`, ``},
		{`{"type":"integer"}`, `0`, ``},
	} {
		s := schema(c.spec)
		s.DisableAnyWhitespace = true
		g, err := compileFor(s, testVocabulary)
		if err != nil {
			t.Fatal(err)
		}
		m := g.NewMatcher()
		for _, b := range []byte(c.after) {
			if !m.Accept(int32(b)) {
				t.Fatalf("%s: %q is not legal", c.spec, c.after)
			}
		}
		if got := string(m.Forced([]byte("+"))); got != "+"+c.want {
			t.Errorf("%s after %q: forced %q, want %q", c.spec, c.after, got, c.want)
		}
	}
}

// TestForcedAgreesWithMasks: if bytes are forced, every legal token agrees with them;
// and a single legal token is accepted.
func TestForcedAgreesWithMasks(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, false)
	for k, spec := range sampleSpecs {
		w := newRandomWalk(t, fmt.Sprint(k), mustCompile(t, spec, voc), rand.New(rand.NewPCG(uint64(k), 2)))
		for range 60 {
			w.fill()
			checkForced(t, w)
			if tok, ok := Single(w.mask); ok && !w.m.Fork().Accept(tok) {
				t.Fatalf("%d: the single token %d is not accepted", k, tok)
			}
			if _, more := w.step(); !more {
				break
			}
		}
	}
}

// checkForced compares the last mask of w with the forced bytes.
func checkForced(t *testing.T, w *randomWalk) {
	t.Helper()
	forced := w.m.Forced(nil)
	for tok := range int32(w.v.size) {
		if !legal(w.mask, tok) || w.v.ends(tok) {
			continue
		}
		b := w.v.tokens[tok]
		if n := min(len(b), len(forced)); !slices.Equal(b[:n], forced[:n]) {
			t.Fatalf("%s: %q is legal, %q is forced", w.name, b, forced)
		}
	}
}

func TestSingle(t *testing.T) {
	for _, c := range []struct {
		mask []uint32
		tok  int32
		ok   bool
	}{{[]uint32{0, 0}, 0, false}, {[]uint32{0, 4}, 34, true}, {[]uint32{0, 5}, 0, false}, {[]uint32{1, 1}, 0, false}} {
		if tok, ok := Single(c.mask); tok != c.tok || ok != c.ok {
			t.Errorf("%b: %d %t", c.mask, tok, ok)
		}
	}
}

// TestRollbackAndFork: Rollback and Fork lead to where the same tokens lead without
// them.
func TestRollbackAndFork(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, false)
	for k, spec := range sampleSpecs {
		g := mustCompile(t, spec, voc)
		w := newRandomWalk(t, fmt.Sprint(k), g, rand.New(rand.NewPCG(uint64(k), 4)))
		var kept []int32
		more := true
		for i := 0; i < 40 && more; i++ {
			tryDraft(w)
			w.fill()
			var tok int32
			tok, more = w.step()
			kept = append(kept, tok)
		}
		again := g.NewMatcher()
		for _, tok := range kept {
			if !again.Accept(tok) {
				t.Fatal("a legal token was not accepted")
			}
		}
		if again.at != w.m.at || again.Ended() != w.m.Ended() {
			t.Error("the same tokens lead to another place")
		}
	}
}

// tryDraft takes up to three random tokens on a fork of w's matcher and rolls them
// back.
func tryDraft(w *randomWalk) {
	w.t.Helper()
	draft := *w
	draft.m, draft.mask = w.m.Fork(), make([]uint32, len(w.mask))
	n := w.rng.IntN(4)
	for range n {
		draft.fill()
		draft.step()
	}
	draft.m.Rollback(n)
	if draft.m.at != w.m.at || draft.m.Len() != w.m.Len() || draft.m.Ended() {
		w.t.Fatalf("%s: after %q: Rollback does not lead back", w.name, w.text)
	}
}

func TestFillAllocatesNothing(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, false)
	g, err := compileFor(schema(`{"type":"array","items":{"type":"string"}}`), voc)
	if err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher()
	mask := make([]uint32, voc.words())
	text := []byte(`["abc`)
	m.past = make([]*position, 0, 64)
	run := func() {
		for _, b := range text {
			if m.Fill(mask) != nil || !m.Accept(int32(b)) {
				t.Fatal("not legal")
			}
		}
		m.Rollback(len(text))
	}
	run()
	if n := testing.AllocsPerRun(100, run); n != 0 {
		t.Errorf("%v allocations for %d tokens", n, len(text))
	}
}
