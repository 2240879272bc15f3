package grammar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// sampleSpecs are constraints of every kind, for tests that need some of each.
var sampleSpecs = []Spec{
	{Kind: JSONObject},
	{Kind: JSONSchema, Schema: []byte(`true`)},
	{Kind: JSONSchema, Schema: []byte(`{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0,"maximum":150},
		"email":{"type":"string","format":"email"},"short":{"type":"string","maxLength":20},"long":{"type":"string","minLength":3,"maxLength":4000},
		"tags":{"type":"array","items":{"enum":["alpha","beta","gamma"]},"minItems":1},"extra":{}},"required":["name","age","short","tags"]}`)},
	{Kind: JSONSchema, Schema: []byte(`{"type":"object","properties":{"id":{"type":"string","pattern":"^[A-Za-z0-9_-]{1,40}$"},"when":{"type":"string","format":"date-time"},
		"ratio":{"type":"number","minimum":0,"maximum":1},"steps":{"type":"integer","multipleOf":25}},"patternProperties":{"^x-":{"type":"string"}},"additionalProperties":false}`)},
	{Kind: JSONSchema, Schema: []byte(`{"$defs":{"node":{"type":"object","properties":{"v":{"type":"number"},"next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]},
		"kids":{"type":"array","items":{"$ref":"#/$defs/node"},"maxItems":3}},"required":["v"],"additionalProperties":false}},"$ref":"#/$defs/node"}`)},
	{Kind: JSONSchema, Schema: []byte(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string","minLength":2}},"minProperties":1,"maxProperties":3}`), Options: Options{DisableAnyWhitespace: true}},
	{Kind: JSONSchema, Schema: []byte(`{"oneOf":[{"type":"object","properties":{"kind":{"const":"circle"},"r":{"type":"number","exclusiveMinimum":0}},"required":["kind","r"]},
		{"type":"object","properties":{"kind":{"const":"box"},"w":{"type":"number"},"h":{"type":"number"}},"required":["kind","w","h"]}]}`)},
	{Kind: JSONSchema, Schema: []byte(`{"type":"array","prefixItems":[{"type":"string","pattern":"foo"},{"type":"boolean"}],"items":{"type":"string","format":"uri"},"maxItems":5}`), Options: Options{WhitespacePattern: `[ ]?`}},
	{Kind: JSONSchema, Schema: []byte(`{"type":"object","additionalProperties":{"type":"string","maxLength":12}}`)},
	{Kind: Regex, Text: `(?:[a-z]{2,30} ?){1,4}[.!]`},
	{Kind: Regex, Text: `\d{3}-\p{Lu}.*`},
	{Kind: Choice, Choices: []string{"yes", "no", "maybe so", "ménage"}},
	{Kind: JSONSchema, Schema: []byte(`{"type":"array","items":{"type":"string","minLength":9,"maxLength":30}}`)},
	{Kind: Notation, Text: `root ::= "<" ([a-z]{4,300} ([A-Z] | ", " | "(")?){1,9} ">" root?`},
	{Kind: Notation, Text: "root ::= expr\nexpr ::= expr [-+] term | term\nterm ::= [a-z]+ | [0-9]{7,40} | \"(\" expr \")\""},
	{Kind: Tag, Schema: []byte(`{"format":{"type":"triggered_tags","triggers":["<f"],"tags":[{"type":"tag","begin":"<f>","content":{"type":"json_schema","json_schema":{"type":"object"}},"end":"</f>"}]}}`)},
}

// step draws a legal token by walking from a random token on, so that long and
// short ones come up.
func randomLegal(rng *rand.Rand, mask []uint32, n int) int32 {
	start := rng.IntN(n)
	for i := range n {
		t := (start + i) % n
		if mask[t>>5]>>(t&31)&1 == 1 {
			return int32(t)
		}
	}
	return -1
}

// The masks of the shape cache are those of a walk over the whole vocabulary, bit
// for bit.
func TestMasksEqualNaiveWalk(t *testing.T) {
	for _, v := range []struct {
		name   string
		size   int
		pieces bool
		walks  int
		every  int
	}{
		{"bytes-4k", 4096, false, 6, 1}, {"pieces-32k", 32_000, true, 2, 3}, {"bytes-128k", 128_256, false, 1, 9}, {"pieces-256k", 256_000, true, 1, 16},
	} {
		t.Run(v.name, func(t *testing.T) {
			if (slow || testing.Short()) && v.size > 32_000 {
				t.Skip("large vocabulary")
			}
			voc := publishedVocabulary(t, v.size, v.pieces)
			sampled := 0
			for k, spec := range sampleSpecs {
				g, err := compileFor(spec, voc)
				if err != nil {
					t.Fatalf("%d: %v", k, err)
				}
				for w := range v.walks {
					sampled += compareMasks(t, g, rand.New(rand.NewPCG(uint64(k), uint64(w))), 60, v.every, fmt.Sprint(k))
				}
			}
			t.Logf("%d masks compared", sampled)
		})
	}
}

func compareMasks(t *testing.T, g *Grammar, rng *rand.Rand, steps, every int, name string) (sampled int) {
	t.Helper()
	v := g.Vocabulary()
	m := g.NewMatcher()
	mask, want := make([]uint32, v.words()), make([]uint32, v.words())
	var text []byte
	for i := range steps {
		if err := m.Fill(mask); err != nil {
			t.Fatalf("%s: after %q: %v", name, text, err)
		}
		if (i+rng.IntN(every))%every == 0 {
			sampled++
			m.m.walk(m.at, want)
			if m.Done() {
				for _, e := range v.eos {
					want[e>>5] |= 1 << (e & 31)
				}
			}
			for w := range want {
				if diff := mask[w] ^ want[w]; diff != 0 {
					for b := range 32 {
						if diff>>b&1 == 1 {
							t.Fatalf("%s: after %q: token %d %q: legal %t, want %t", name, text, w*32+b, v.tokens[w*32+b], mask[w]>>b&1 == 1, want[w]>>b&1 == 1)
						}
					}
				}
			}
		}
		tok := randomLegal(rng, mask, v.size)
		if !m.Accept(tok) {
			t.Fatalf("%s: after %q: legal token %q was not accepted", name, text, v.tokens[tok])
		}
		if m.Ended() {
			break
		}
		text = append(text, v.tokens[tok]...)
	}
	return sampled
}

// Tokens that end on, before and behind the end of a count.
func TestMasksNearTheEndOfACount(t *testing.T) {
	tokens := make([][]byte, 256)
	for i := range tokens {
		tokens[i] = []byte{byte(i)}
	}
	for k := range 26 { // a letter for each length: a token decides for itself how long its subtree is
		for _, end := range []string{"", `"`, `",`, `"]`, "é", `\n`, "B", "B."} {
			if len(end) > 1 && k%2 == 0 {
				continue
			}
			tokens = append(tokens, []byte(strings.Repeat(string(rune('a'+k)), k)+end))
		}
	}
	v, err := NewVocabulary(append(tokens, nil), []int32{int32(len(tokens))})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []Spec{
		schema(`{"type":"array","items":{"type":"string","minLength":10,"maxLength":14}}`),
		schema(`{"type":"string","minLength":17}`),
		schema(`{"type":"string","minLength":18}`),
		schema(`{"type":"string","maxLength":21}`),
		schema(`{"type":"string","pattern":"^[a-z]{12,40}B?$"}`),
		re(`[a-z]{11,30}[A-Z]?`),
		ebnfOf(`root ::= ([a-z]{7,30} [A-Z.]?){2,20}`),
	} {
		g, err := compileFor(s, v)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range 8 {
			compareMasks(t, g, rand.New(rand.NewPCG(uint64(seed), 6)), 40, 1, s.Text+string(s.Schema))
		}
		m := g.NewMatcher() // and one character at a time
		mask, want := make([]uint32, v.words()), make([]uint32, v.words())
		for _, b := range []byte(`["aaaaaaaaaaaaaaaaaaaaaa`) {
			if !m.Accept(int32(b)) {
				continue
			}
			if m.Fill(mask) != nil {
				t.Fatal("dead end")
			}
			m.m.walk(m.at, want)
			if m.Done() {
				want[len(tokens)>>5] |= 1 << (len(tokens) & 31)
			}
			if !slices.Equal(mask, want) {
				t.Fatalf("%s%s: after %d tokens", s.Text, s.Schema, m.Len())
			}
		}
	}
}
