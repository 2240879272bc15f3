package grammar

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// bytesVocabulary has one token per byte, and an end token.
func bytesVocabulary() *Vocabulary {
	tokens := make([][]byte, 257)
	for i := range 256 {
		tokens[i] = []byte{byte(i)}
	}
	v, err := NewVocabulary(tokens, []int32{256})
	if err != nil {
		panic(err)
	}
	return v
}

var testVocabulary = bytesVocabulary()

func re(text string) Spec       { return Spec{Kind: Regex, Text: text} }
func notation(text string) Spec { return Spec{Kind: Notation, Text: text} }
func tag(text string) Spec      { return Spec{Kind: Tag, Schema: []byte(text)} }
func schema(text string) Spec   { return Spec{Kind: JSONSchema, Schema: []byte(text)} }

func compileFor(s Spec, v *Vocabulary) (*Grammar, error) { return compile(s, v, DefaultConfig(), nil) }

func mustCompile(t testing.TB, s Spec, v *Vocabulary) *Grammar {
	t.Helper()
	g, err := compileFor(s, v)
	if err != nil {
		t.Fatalf("%s%s: %v", s.Text, s.Schema, err)
	}
	return g
}

func (g *Grammar) accepts(text string) bool {
	p := g.m.run(g.m.root, []byte(text))
	return p != dead && p.accept
}

func mustParse(t testing.TB, text []byte) any {
	t.Helper()
	v, err := parseJSON(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func legal(mask []uint32, tok int32) bool { return mask[tok>>5]>>(tok&31)&1 == 1 }

// referenceMask is the mask of Matcher.Fill, made by a walk over the whole vocabulary
// without shapes. mask is overwritten.
func referenceMask(m *Matcher, mask []uint32) {
	clear(mask)
	v := m.m.voc
	var p path
	p.at[0] = m.at
	for i := 0; i < len(v.nodes); {
		n := &v.nodes[i]
		s := p.step(m.m, n.depth, n.b)
		over := s == dead && p.at[n.depth-1].cost.Load() > m.m.bounds.step
		for _, tok := range v.tokensBelow(i) {
			if over && m.m.read(m.at, v.tokens[tok]) != dead {
				v.set(mask, tok)
			}
		}
		if s == dead {
			i += int(n.skip)
			continue
		}
		p.enter(n.depth, s)
		if n.token >= 0 {
			v.set(mask, n.token)
		}
		i++
	}
	for tok := range int32(v.size) { // named tokens, which are not in the trie
		if m.m.net.marked && m.m.read(m.at, markerOf(tok)) != dead {
			v.set(mask, tok)
		}
	}
	if m.Done() {
		for _, e := range v.eos {
			mask[e>>5] |= 1 << (e & 31)
		}
	}
}

// maskDifference names the first token in which two masks differ; "" if they are
// equal.
func maskDifference(v *Vocabulary, got, want []uint32) string {
	for tok := range int32(v.size) {
		if legal(got, tok) != legal(want, tok) {
			return fmt.Sprintf("token %d %q: legal %t, want %t", tok, v.tokens[tok], legal(got, tok), legal(want, tok))
		}
	}
	return ""
}

// randomLegal returns the first legal token at or after a random one, so that long and
// short tokens come up; -1 if none is legal.
func randomLegal(rng *rand.Rand, mask []uint32, n int) int32 {
	return nextLegal(mask, rng.IntN(n), n)
}

// nextLegal returns the first legal token at or after start, which wraps around; -1 if
// none is legal.
func nextLegal(mask []uint32, start, n int) int32 {
	for k := range n {
		if tok := int32((start + k) % n); legal(mask, tok) {
			return tok
		}
	}
	return -1
}

// randomWalk follows a text of random legal tokens through a grammar.
type randomWalk struct {
	t    *testing.T
	name string // for failures
	v    *Vocabulary
	m    *Matcher
	rng  *rand.Rand
	mask []uint32 // of the last call of fill
	text []byte
}

func newRandomWalk(t *testing.T, name string, g *Grammar, rng *rand.Rand) *randomWalk {
	v := g.Vocabulary()
	return &randomWalk{t: t, name: name, v: v, m: g.NewMatcher(), rng: rng, mask: make([]uint32, v.words())}
}

// fill computes the mask. There must not be a dead end.
func (w *randomWalk) fill() []uint32 {
	w.t.Helper()
	if err := w.m.Fill(w.mask); err != nil {
		w.t.Fatalf("%s: after %q: %v", w.name, w.text, err)
	}
	return w.mask
}

// checkMask compares the last mask with the reference implementation.
func (w *randomWalk) checkMask(scratch []uint32) {
	w.t.Helper()
	referenceMask(w.m, scratch)
	if diff := maskDifference(w.v, w.mask, scratch); diff != "" {
		w.t.Fatalf("%s: after %q: %s", w.name, w.text, diff)
	}
}

// accept goes on over a token that the last mask allows. It reports whether the text
// goes on.
func (w *randomWalk) accept(tok int32) bool {
	w.t.Helper()
	if tok < 0 || !w.m.Accept(tok) {
		w.t.Fatalf("%s: after %q: the legal token %d was not accepted", w.name, w.text, tok)
	}
	if w.m.Ended() {
		return false
	}
	w.text = append(w.text, w.v.tokens[tok]...)
	return true
}

// step goes on over a random token that the last mask allows. It returns the token,
// and whether the text goes on.
func (w *randomWalk) step() (int32, bool) {
	w.t.Helper()
	tok := randomLegal(w.rng, w.mask, w.v.size)
	return tok, w.accept(tok)
}

// textCase is a constraint with texts that it must accept and reject.
type textCase struct {
	name       string
	spec       Spec
	pass, fail []string
}

// checkTexts runs each case.
func checkTexts(t *testing.T, cases []textCase) {
	t.Helper()
	for _, c := range cases {
		g, err := compileFor(c.spec, testVocabulary)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, s := range c.pass {
			if !g.accepts(s) {
				t.Errorf("%s: rejects %q", c.name, s)
			}
		}
		for _, s := range c.fail {
			if g.accepts(s) {
				t.Errorf("%s: accepts %q", c.name, s)
			}
		}
	}
}
