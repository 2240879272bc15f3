package grammar

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// namingVocabulary is a synthetic vocabulary with special tokens and their names.
func namingVocabulary(t testing.TB, size int) (v *Vocabulary, first int32) {
	t.Helper()
	tokens, eos := syntheticTokens(size, true)
	first = int32(len(tokens))
	var special []Special
	for i, name := range []string{"<|a|>", "<|b|>", "<|c|>"} {
		tokens = append(tokens, nil)
		special = append(special, Special{first + int32(i), name})
	}
	v, err := NewVocabulary(tokens, eos, special...)
	if err != nil {
		t.Fatal(err)
	}
	return v, first
}

// TestNamedTokensWalk draws legal tokens at random: the masks are those of the reference,
// every text can be completed, and Rollback leads back.
func TestNamedTokensWalk(t *testing.T) {
	v, _ := namingVocabulary(t, 20_000)
	want := make([]uint32, v.words())
	for i, text := range []string{
		`root ::= <|a|> [a-z]{1,9} <|b|>`,
		`root ::= (<|a|> | "x" | !<|b|>){2,40}`,
		`root ::= ("a" | <[97]> "b" | <|c|>)* "!"`,
		`root ::= thought <|b|> "yes"` + "\n" + `thought ::= <|a|> (!<|b|>)*`,
		`root ::= TokenTagDispatch((97, x), excludes=(98,)) <|a|>` + "\n" + `x ::= "12"`,
		`root ::= a <|a|>` + "\n" + `a ::= a <|b|> | "x"`,
		"start: <[*]> /[0-9]+/ <[^5-9]>{3}",
		"start: x*\nx: <|a|> %json {\"type\": \"object\", \"properties\": {\"k\": {\"enum\": [\"v\", 1]}}, \"required\": [\"k\"]} <|b|>",
		"%ignore / +/\nstart: <|a|> \"b\" <|c|>",
	} {
		g := mustCompile(t, notation(text), v)
		rng := rand.New(rand.NewPCG(uint64(i), 7))
		for range 30 {
			w := newRandomWalk(t, text, g, rng)
			for step := 0; step < 40; step++ {
				w.fill()
				w.checkMask(want)
				if _, more := w.step(); !more {
					break
				}
			}
			w.m.Rollback(w.m.Len())
			if w.m.at != g.m.root {
				t.Fatalf("%s: Rollback does not lead back", text)
			}
		}
	}
}

// TestTokenAsTextAndAsItself: where a grammar reads a token in both ways, what follows
// either may follow.
func TestTokenAsTextAndAsItself(t *testing.T) {
	g := mustCompile(t, notation(`root ::= "a" "b" | <[97]> "c"`), testVocabulary)
	for text, want := range map[string]bool{"ab": true, "ac": true, "ad": false, "a": false, "b": false} {
		if got := g.acceptsTokens(t, text, tokenText{text}.ids(t)); got != want {
			t.Errorf("%q is accepted: %t", text, got)
		}
	}
	for _, text := range []string{`root ::= "a" "b" | <[97]>`, `root ::= "a" | <[97]> "b"`} {
		g := mustCompile(t, notation(text), testVocabulary)
		if !g.acceptsTokens(t, text, []int32{'a'}) || !g.acceptsTokens(t, text, []int32{'a', 'b'}) {
			t.Errorf("%s: a and ab are not both accepted", text)
		}
	}
	// The text is made of two tokens, which are not the token that is named.
	tokens := [][]byte{[]byte("a"), []byte("b"), []byte("ab"), []byte("!"), nil}
	v, err := NewVocabulary(tokens, []int32{4})
	if err != nil {
		t.Fatal(err)
	}
	g = mustCompile(t, notation(`root ::= <[2]> "!"`), v)
	if !g.acceptsTokens(t, "one token", []int32{2, 3}) || g.acceptsTokens(t, "two tokens", []int32{0, 1, 3}) {
		t.Error("a named token is not read as that token alone")
	}
}

// TestNoTokenIsPartOfAMarker: a token with the byte 0xFF, which begins markers, is legal
// nowhere, and tokens that spell the rest of a marker do not make one up.
func TestNoTokenIsPartOfAMarker(t *testing.T) {
	v := specialVocabulary(t)
	mask := make([]uint32, v.words())
	for _, s := range []Spec{notation(`root ::= <|a|> "x"`), notation(`root ::= .* <|a|>`), tag(`{"format":{"type":"any_text"}}`)} {
		g := mustCompile(t, s, v)
		m := g.NewMatcher()
		if err := m.Fill(mask); err != nil {
			t.Fatal(err)
		}
		if legal(mask, 0xFF) || m.Accept(0xFF) {
			t.Errorf("%s%s: the token of the byte 0xFF is legal", s.Text, s.Schema)
		}
	}
}

// TestFreeTextHasNoNamedTokens: free text is text, also where the grammar names tokens.
func TestFreeTextHasNoNamedTokens(t *testing.T) {
	g := mustCompile(t, tag(`{"format":{"type":"sequence","elements":[{"type":"any_text"},{"type":"token","token":257},{"type":"any_text","max_chars":9}]}}`), specialVocabulary(t))
	for _, c := range []struct {
		text tokenText
		want bool
	}{
		{tokenText{"ab", 257.0, "c"}, true}, {tokenText{257.0}, true}, {tokenText{258.0, 257.0}, false}, {tokenText{"a", 257.0, 257.0}, false}, {tokenText{257.0, "a", 258.0}, false},
	} {
		if got := g.acceptsTokens(t, "free text", c.text.ids(t)); got != c.want {
			t.Errorf("%v is accepted: %t", c.text, got)
		}
	}
}

// TestTokensThatCannotBeNamed: end tokens, tokens that there are not, and ids without a token.
func TestTokensThatCannotBeNamed(t *testing.T) {
	v := specialVocabulary(t)
	for text, want := range map[string]error{
		`root ::= <[256]> "x"`:                        ErrUnsupported,
		`root ::= </s>{2}`:                            ErrUnsupported,
		"root ::= x \"!\"\nx ::= \"a\" y\ny ::= </s>": ErrUnsupported,
		"root ::= \"a\" root \"b\" | </s>":            ErrUnsupported,
		`root ::= <|z|>`:                              ErrInvalid,
		`root ::= <[261]>`:                            ErrInvalid,
		`root ::= <[99999999999]>`:                    ErrInvalid,
		`root ::= <[255]>`:                            ErrInvalid,
		`start: <[256-256]> "x"`:                      ErrUnsupported,
		"start: %lark { start: </s> } \"x\"":          ErrUnsupported,
	} {
		if _, err := compileFor(notation(text), v); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", text, err, want)
		}
	}
	// All tokens but the end token, and it stays an end token.
	g := mustCompile(t, notation(`root ::= !</s>`), v)
	if g.acceptsTokens(t, "end", []int32{256}) || !g.acceptsTokens(t, "other", []int32{257}) {
		t.Error("the complement of the end token is wrong")
	}
}

// TestEndTokenAtTheEnd: where nothing can follow, an end token says nothing new.
func TestEndTokenAtTheEnd(t *testing.T) {
	v := specialVocabulary(t)
	for _, text := range []string{"root ::= \"a\" </s>", "root ::= \"b\" | x\nx ::= \"a\" y\ny ::= <[256]>?", "start: \"b\" | call\ncall: <|a|>* \"a\" </s>",
		"%ignore \" \"\nstart: \"a\" </s>"} {
		g := mustCompile(t, notation(text), v)
		if !g.acceptsTokens(t, text, []int32{'a'}) || g.acceptsTokens(t, text, []int32{256}) {
			t.Errorf("%s: a is not the whole text", text)
		}
		if w := g.Warnings(); len(w) != 1 {
			t.Errorf("%s: warnings %v", text, w)
		}
	}
	if _, err := compileFor(tag(`{"format":{"type":"sequence","elements":[{"type":"grammar","grammar":"root ::= \"a\" </s>"},{"value":"b"}]}}`), v); !errors.Is(err, ErrUnsupported) {
		t.Errorf("an end token before something else: %v", err)
	}
}

// TestForcedTokens: a named token that must come is the only one in its mask, and adds
// nothing to the forced bytes.
func TestForcedTokens(t *testing.T) {
	v := specialVocabulary(t)
	m := mustCompile(t, notation(`root ::= "x" <|a|> "y"`), v).NewMatcher()
	mask := make([]uint32, v.words())
	if got := m.Forced(nil); string(got) != "x" {
		t.Errorf("%q is forced, want x", got)
	}
	for _, want := range []int32{'x', 257, 'y', 256} {
		if err := m.Fill(mask); err != nil {
			t.Fatal(err)
		}
		if tok, ok := Single(mask); !ok || tok != want || !m.Settled() || !m.Accept(tok) {
			t.Fatalf("token %d (%t), want %d alone", tok, ok, want)
		}
	}
}

// TestTokenSets: the ranges of a set and of its complement, against a set of ids.
func TestTokenSets(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	tokens := make([][]byte, 1000)
	for i := range tokens {
		if i%7 != 3 {
			tokens[i] = []byte{byte(i >> 8), byte(i)}
		}
	}
	v, err := NewVocabulary(tokens, []int32{17, 600})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		set := tokenSet{not: rng.IntN(2) == 0}
		in := make([]bool, 1100)
		for range rng.IntN(6) {
			lo := rng.Int32N(1000)
			r := idRange{lo, min(1099, lo+rng.Int32N(90))}
			set.ranges = append(set.ranges, r)
			for id := r.lo; id <= r.hi; id++ {
				in[id] = true
			}
		}
		b := newBuilder(nil, 10_000, unmetered())
		b.voc = v
		var got []int32
		for _, r := range b.nameableOf(set) {
			for id := r.lo; id <= r.hi; id++ {
				got = append(got, id)
			}
		}
		var want []int32
		for id := range int32(1000) {
			if in[id] != set.not && tokens[id] != nil && !slices.Contains(tokens[id], marker) && id != 17 && id != 600 {
				want = append(want, id)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%v: %d tokens, want %d", set, len(got), len(want))
		}
	}
}
