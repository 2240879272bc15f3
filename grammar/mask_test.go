package grammar

import (
	"fmt"
	"math/rand/v2"
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
	{Kind: Tag, Schema: []byte(`{"format":{"begin":"<function=f>\n","end":"</function>","content":{"type":"qwen_xml_parameter","json_schema":{"properties":{"city":{"type":"string"},"days":{"type":["integer","null"]},
		"code":{"type":"string","minLength":2,"maxLength":300},"mode":{"enum":["slow","fast lane"]},"zip":{"type":"string","pattern":"^[0-9]{5}$"},"deep":{"type":"object","properties":{"k":{"type":"array","items":{"type":"number"}}}}},"required":["city","zip"]}}}}`)},
	{Kind: Tag, Schema: []byte(`{"format":{"begin":"<think>","content":{"type":"any_text","max_chars":60,"excludes":["wait","é"]},"end":["</think>","\n\n"]}}`)},
	{Kind: Notation, Text: "start: (LETTERS \",\")* %regex {\"substring_words\": \"a round trip, there and back\"} tail\nLETTERS: /[a-z ]+/ & ~/.*(?:th|ee).*/\ntail[suffix=\";\"]: /\\w*/"},
}

// compareMasks walks over random tokens and compares one mask in every with the
// reference implementation, bit for bit. It returns how many it has compared.
func compareMasks(t *testing.T, g *Grammar, rng *rand.Rand, steps, every int, name string) (compared int) {
	t.Helper()
	w := newRandomWalk(t, name, g, rng)
	want := make([]uint32, w.v.words())
	for i := range steps {
		w.fill()
		if (i+rng.IntN(every))%every == 0 {
			compared++
			w.checkMask(want)
		}
		if _, more := w.step(); !more {
			break
		}
	}
	return compared
}

// TestMasksEqualReference: the masks are those of a walk over the whole vocabulary
// without shapes.
func TestMasksEqualReference(t *testing.T) {
	for _, v := range []struct {
		name   string
		size   int
		pieces bool
		walks  int
		steps  int
		every  int // one mask in so many is compared
	}{
		{"bytes-4k", 4096, false, 6, 60, 1}, {"pieces-32k", 32_000, true, 2, 60, 4}, {"bytes-128k", 128_256, false, 1, 40, 10}, {"pieces-256k", 256_000, true, 1, 30, 10},
	} {
		t.Run(v.name, func(t *testing.T) {
			if (slow || testing.Short()) && v.size > 32_000 {
				t.Skip("large vocabulary")
			}
			voc := syntheticVocabulary(t, v.size, v.pieces)
			compared := 0
			for k, spec := range sampleSpecs {
				g := mustCompile(t, spec, voc)
				for w := range v.walks {
					compared += compareMasks(t, g, rand.New(rand.NewPCG(uint64(k), uint64(w))), v.steps, v.every, fmt.Sprint(k))
				}
			}
			t.Logf("%d masks compared", compared)
		})
	}
}

// lettersVocabulary has a token for each byte, and tokens of up to 25 equal letters
// with something after them. There is a letter for each length, so the subtree of a
// letter in the trie is as high as the token is long.
func lettersVocabulary(t *testing.T) *Vocabulary {
	tokens := make([][]byte, 256)
	for i := range tokens {
		tokens[i] = []byte{byte(i)}
	}
	for k := range 26 {
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
	return v
}

// TestMasksNearTheEndOfACount: tokens that end before, at and after the end of a count
// are told apart.
func TestMasksNearTheEndOfACount(t *testing.T) {
	v := lettersVocabulary(t)
	for _, s := range []Spec{
		schema(`{"type":"array","items":{"type":"string","minLength":10,"maxLength":14}}`),
		schema(`{"type":"string","minLength":17}`),
		schema(`{"type":"string","minLength":18}`),
		schema(`{"type":"string","maxLength":21}`),
		schema(`{"type":"string","pattern":"^[a-z]{12,40}B?$"}`),
		re(`[a-z]{11,30}[A-Z]?`),
		notation(`root ::= ([a-z]{7,30} [A-Z.]?){2,20}`),
	} {
		g, name := mustCompile(t, s, v), s.Text+string(s.Schema)
		for seed := range 8 {
			compareMasks(t, g, rand.New(rand.NewPCG(uint64(seed), 6)), 40, 1, name)
		}
		w := newRandomWalk(t, name, g, nil) // and one character at a time
		want := make([]uint32, v.words())
		for _, b := range []byte(`["aaaaaaaaaaaaaaaaaaaaaa`) {
			if w.m.Accept(int32(b)) {
				w.text = append(w.text, b)
				w.fill()
				w.checkMask(want)
			}
		}
	}
}
