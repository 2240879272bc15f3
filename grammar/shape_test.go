package grammar

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"slices"
	"testing"
	"unicode/utf8"
)

// TestSubtreesOfTheTrie: the tokens and the kinds of bytes below each node are those
// that a search through all tokens finds.
func TestSubtreesOfTheTrie(t *testing.T) {
	tokens, eos := syntheticTokens(3000, true)
	tokens = append(tokens, []byte("\x00\xfe\x80"), []byte{'{'}, bytes.Repeat([]byte{'='}, 255), nil)
	v, err := NewVocabulary(tokens, append(eos, int32(len(tokens)-1)))
	if err != nil {
		t.Fatal(err)
	}
	var path [maxTokenLen]byte
	for i, n := range v.nodes {
		path[n.depth-1] = n.b
		prefix := path[:n.depth]
		want := map[string]bool{}
		kinds := uint64(0)
		for id, tok := range tokens {
			if !bytes.HasPrefix(tok, prefix) || v.ends(int32(id)) {
				continue
			}
			want[string(tok)] = true
			kinds |= kindsOf(string(tok), len(prefix))
		}
		got := v.tokensBelow(i)
		for _, id := range got {
			delete(want, string(tokens[id]))
		}
		if len(want) > 0 || kinds != v.kindsBelow[i] {
			t.Fatalf("%q: subtree of %d tokens lacks %d, kinds %b, want %b", prefix, len(got), len(want), v.kindsBelow[i], kinds)
		}
		seen := slices.Clone(got)
		slices.Sort(seen)
		if len(slices.Compact(seen)) != len(got) {
			t.Fatalf("%q: a token twice", prefix)
		}
		for _, id := range got {
			if !bytes.HasPrefix(tokens[id], prefix) {
				t.Fatalf("%q: has %q", prefix, tokens[id])
			}
		}
	}
}

// kindsOf are the kinds of the bytes of t from from on. A byte is a part of a character if
// it can be one together with what is before it.
func kindsOf(t string, from int) (kinds uint64) {
	for i := from; i < len(t); i++ {
		kind := byteKind[t[i]]
		if !beginsText(t[:i+1]) {
			kind = noCharKind
		}
		kinds |= 1 << kind
	}
	return kinds
}

// beginsText reports whether t is the beginning of a text in UTF-8.
func beginsText(t string) bool {
	for t != "" {
		r, n := utf8.DecodeRuneInString(t)
		if r == utf8.RuneError && n == 1 {
			return !utf8.FullRuneInString(t)
		}
		t = t[n:]
	}
	return true
}

// TestMasksOfLoops: where a text repeats bytes of whole kinds, of parts of kinds, or all
// bytes but a few, whole subtrees are legal without a walk. The masks are those of the
// reference implementation all the same.
func TestMasksOfLoops(t *testing.T) {
	voc := syntheticVocabulary(t, 32_000, true)
	for i, text := range []string{`[a-z]+`, `[a-y]+`, `[A-Za-z0-9_-]{1,64}`, `[0-9a-fA-F]+\.?`, `[^"\\]*"`, `[^é]+`, `[^\n]*\n`, `([a-z]+ )*[.]`, `[ -~]*`, `[\x00-\x1f ]*a`, `(a|[b-z]+[A-Z]*)+`} {
		quoted, _ := json.Marshal(text)
		for _, s := range []Spec{re(text), schema(`{"type":"array","items":{"type":"string","pattern":` + string(quoted) + `}}`)} {
			g, err := compileFor(s, voc)
			if err != nil {
				t.Fatal(err)
			}
			compareMasks(t, g, rand.New(rand.NewPCG(uint64(i), 8)), 24, 3, text)
		}
	}
}

// TestMasksAreSharedBetweenGrammars: grammars that have a part in common build its
// shapes once, and grammars that differ in a single place do not take each other's.
func TestMasksAreSharedBetweenGrammars(t *testing.T) {
	voc := syntheticVocabulary(t, 4096, false)
	at := func(s Spec, text string) *shape {
		t.Helper()
		g, err := compileFor(s, voc)
		if err != nil {
			t.Fatal(err)
		}
		m := g.NewMatcher()
		c := m.m.run(m.at, []byte(text))
		m.m.fill(c, make([]uint32, voc.words()), nil)
		return m.m.splitOf(c).rel.shape.Load()
	}
	a := at(schema(`{"type":"object","properties":{"a":{"type":"string","pattern":"^[a-c]{2,9}x?$"}}}`), `{"a":"a`)
	b := at(schema(`{"type":"array","prefixItems":[{"type":"integer","minimum":5},{"type":"string","pattern":"^[a-c]{2,9}x?$"}]}`), `[7,"a`)
	if a != b {
		t.Error("the same pattern has two shapes")
	}
	tokens := [][]byte{[]byte("x!"), []byte("x5!"), []byte("x;!")}
	for b := range 256 {
		tokens = append(tokens, []byte{byte(b)})
	}
	few, err := NewVocabulary(append(tokens, nil), []int32{int32(len(tokens))})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range []string{"root ::= (word \"!\")+\nword ::= \"x\" [0-9]* \";\"", "root ::= (word \"!\")+\nword ::= \"x\" [0-9]* \";\"?"} { // apart in where a rule may end
		g, err := compileFor(notation(text), few)
		if err != nil {
			t.Fatal(err)
		}
		compareMasks(t, g, rand.New(rand.NewPCG(9, uint64(i))), 40, 1, text)
	}
	for i, text := range []string{`[a-z]{2,9}x?!`, `[a-y]{2,9}x?!`, `[b-z]{2,9}x?!`, `[a-z]{2,8}x?!`, `[a-z]{3,9}x?!`, `[a-z]{2,9}x!`, `[a-z]{2,9}x?!?`, `([a-z]{2,9}x?!)+`, `[a-z]{2,9}(x!)?`, `[a-z]{2,}x?!`} {
		g, err := compileFor(schema(`{"type":"array","items":{"type":"string","pattern":"^`+text+`$"}}`), voc)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range 6 {
			compareMasks(t, g, rand.New(rand.NewPCG(uint64(seed), uint64(i))), 40, 1, text)
		}
	}
}

// TestSortOfPoppingTokens: sort, which looks at the first eight bytes, gives the same
// order as a comparison of the bytes after the pop.
func TestSortOfPoppingTokens(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	v := &Vocabulary{}
	w := &trieWalk{m: &machine{voc: v}}
	for i := range 3000 {
		tok := make([]byte, 2+rng.IntN(12))
		for k := range tok {
			tok[k] = "\x00\x00\x01a\xff"[rng.IntN(5)]
		}
		v.tokens = append(v.tokens, tok)
		w.popping = append(w.popping, poppingToken{int32(i), uint8(1 + rng.IntN(len(tok)-1))})
	}
	want := slices.Clone(w.popping)
	slices.SortFunc(want, v.order)
	w.sort()
	if !slices.Equal(w.popping, want) {
		t.Error("another order")
	}
}
