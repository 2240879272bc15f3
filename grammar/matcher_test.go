package grammar

import (
	"errors"
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

func TestTooManyParses(t *testing.T) {
	g, err := compileFor(ebnfOf("root ::= a | b | c | \"x\"\na ::= \"(\" root \")\"\nb ::= \"(\" root \"]\"\nc ::= \"(\" root \"}\""), testVocabulary)
	if err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher()
	for m.Accept('(') && m.Len() < 40 {
	}
	if m.Len() < 4 || m.Len() == 40 || !g.m.crowded.Load() {
		t.Errorf("%d parentheses were accepted", m.Len())
	}
}

// A mask that would take too long is given up.
func TestPatience(t *testing.T) {
	voc := publishedVocabulary(t, 4096, false)
	g, err := compileFor(ebnfOf(`root ::= [a-z ]{0,300} [a-z0-9 ]{0,300} [a-z" ]{0,300}`), voc)
	if err != nil {
		t.Fatal(err)
	}
	g.m.patience = 50
	mask := make([]uint32, voc.words())
	if err := g.NewMatcher().Fill(mask); err != nil {
		if !errors.Is(err, ErrTooComplex) {
			t.Fatal(err)
		}
		return
	}
	want := make([]uint32, voc.words())
	g.m.walk(g.m.root, want)
	for i, w := range mask {
		for b := range 32 {
			if tok := int32(i*32 + b); w>>b&1 == 1 && want[i]>>b&1 == 0 && !voc.ends(tok) {
				t.Fatalf("a mask that was given up allows the illegal token %d", tok)
			}
		}
	}
	if !g.m.crowded.Load() {
		t.Error("nothing was given up")
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

// A token that alone is legal begins with what is forced, or ends the text; and
// where bytes are forced, every legal token agrees with them.
func TestForcedAgreesWithMasks(t *testing.T) {
	voc := publishedVocabulary(t, 4096, false)
	mask := make([]uint32, voc.words())
	for k, spec := range sampleSpecs {
		g, err := compileFor(spec, voc)
		if err != nil {
			t.Fatal(err)
		}
		m := g.NewMatcher()
		rng := rand.New(rand.NewPCG(uint64(k), 2))
		for range 60 {
			if err := m.Fill(mask); err != nil {
				t.Fatal(err)
			}
			forced := m.Forced(nil)
			for tok := range int32(voc.size) {
				if mask[tok>>5]>>(tok&31)&1 == 0 || voc.ends(tok) {
					continue
				}
				b := voc.tokens[tok]
				if n := min(len(b), len(forced)); !slices.Equal(b[:n], forced[:n]) {
					t.Fatalf("%d: %q is legal, %q is forced", k, b, forced)
				}
			}
			if tok, ok := Single(mask); ok && !m.Fork().Accept(tok) {
				t.Fatalf("%d: the single token %d is not accepted", k, tok)
			}
			tok := randomLegal(rng, mask, voc.size)
			if m.Accept(tok); m.Ended() {
				break
			}
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

// Rollback and Fork lead to where the same tokens lead without them.
func TestRollbackAndFork(t *testing.T) {
	voc := publishedVocabulary(t, 4096, false)
	for k, spec := range sampleSpecs {
		g, err := compileFor(spec, voc)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(uint64(k), 4))
		m := g.NewMatcher()
		mask := make([]uint32, voc.words())
		var kept []int32
		for range 40 {
			f := m.Fork()
			n := rng.IntN(4)
			for range n { // a draft that is thrown away
				if f.Fill(mask) != nil {
					t.Fatal("dead end")
				}
				tok := randomLegal(rng, mask, voc.size)
				if !f.Accept(tok) {
					t.Fatal("a legal token was not accepted")
				}
			}
			f.Rollback(n)
			if f.at != m.at || f.Len() != m.Len() {
				t.Fatal("rollback does not lead back")
			}
			if f.Ended() || m.Fill(mask) != nil {
				t.Fatal("dead end")
			}
			tok := randomLegal(rng, mask, voc.size)
			if m.Accept(tok); m.Ended() {
				break
			}
			kept = append(kept, tok)
		}
		again := g.NewMatcher()
		for _, tok := range kept {
			if !again.Accept(tok) {
				t.Fatal("a legal token was not accepted")
			}
		}
		if !m.Ended() && again.at != m.at {
			t.Error("the same tokens lead to another place")
		}
	}
}

func TestFillAllocatesNothing(t *testing.T) {
	voc := publishedVocabulary(t, 4096, false)
	g, err := compileFor(schema(`{"type":"array","items":{"type":"string"}}`), voc)
	if err != nil {
		t.Fatal(err)
	}
	m := g.NewMatcher()
	mask := make([]uint32, voc.words())
	text := []byte(`["abc`)
	m.past = make([]*config, 0, 64)
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
