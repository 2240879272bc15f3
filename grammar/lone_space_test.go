package grammar

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// spacedVocabulary has a token for each byte, and some of a space and one or more bytes.
func spacedVocabulary(t *testing.T) *Vocabulary {
	tokens := make([][]byte, 256)
	for i := range tokens {
		tokens[i] = []byte{byte(i)}
	}
	for _, s := range []string{` "`, ` [`, ` {`, ` t`, ` f`, ` -`, ` a`, ` e`, `  `, ` "a`, ` [1`, `": `, `, `, `,  "`} {
		tokens = append(tokens, []byte(s))
	}
	tokens = append(tokens, nil, []byte(" ")) // the second is a duplicate
	v, err := NewVocabulary(tokens, []int32{int32(len(tokens) - 2)})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// needsLoneSpace is the dumb twin of WithoutLoneSpace: it tries all bytes after the space.
func needsLoneSpace(m *Matcher, mask []uint32, v *Vocabulary) bool {
	behind := m.Fork()
	if !behind.Accept(' ') {
		return false
	}
	if behind.Done() {
		return true
	}
	for b := range int32(255) {
		if !behind.Fork().Accept(b) {
			continue
		}
		joined := slices.IndexFunc(v.tokens, func(t []byte) bool { return string(t) == string([]byte{' ', byte(b)}) })
		if joined < 0 || !has(mask, int32(joined)) {
			return true
		}
	}
	return false
}

// checkLoneSpace fills the mask, takes the lone space out, and compares that with the twin. It
// returns the mask as it was filled.
func (w *randomWalk) checkLoneSpace() (before []uint32) {
	w.t.Helper()
	before = slices.Clone(w.fill())
	w.m.WithoutLoneSpace(w.mask)
	want := slices.Clone(before)
	if has(before, ' ') && !needsLoneSpace(w.m, before, w.v) {
		w.v.unset(want, ' ')
	}
	if !slices.Equal(w.mask, want) {
		w.t.Fatalf("%s: after %q: %s", w.name, w.text, maskDifference(w.v, w.mask, want))
	}
	return before
}

// TestWithoutLoneSpace: a lone space is left out of masks exactly where all that can follow it
// has tokens with the space, and the tokens of equal bytes with it; nothing else changes.
func TestWithoutLoneSpace(t *testing.T) {
	v := spacedVocabulary(t)
	out, kept := 0, 0
	specs := append(slices.Clone(sampleSpecs), re(`(a ?b| "c" | (true|false)|a e){1,40}`), schema(`{"properties":{"a":{"type":"string"},"b":{"type":"boolean"},"c":{"type":["array","object"]}}}`),
		Spec{Kind: JSONSchema, Schema: []byte(`{"required":["a"],"properties":{"a":{"type":"array","items":{"enum":["x",true,false]}}}}`), Options: Options{WhitespacePattern: ` `}})
	for k, spec := range specs {
		g := mustCompile(t, spec, v)
		for seed := range 12 {
			w := newRandomWalk(t, fmt.Sprint(k), g, rand.New(rand.NewPCG(uint64(k), uint64(seed))))
			for more, steps := true, 0; more && steps < 60; steps++ {
				switch before := w.checkLoneSpace(); {
				case !has(before, ' '):
				case has(w.mask, ' '):
					kept++
				default:
					out++
				}
				_, more = w.step()
			}
		}
	}
	if out < 50 || kept < 50 {
		t.Errorf("left out %d times, kept %d times", out, kept)
	}
}

// TestWithoutLoneSpaceOfAString: where a schema asks for a string, the space before it comes
// with the quotation mark, as in the texts that models have seen; before a number it is alone.
func TestWithoutLoneSpaceOfAString(t *testing.T) {
	v := spacedVocabulary(t)
	for typ, lone := range map[string]bool{"string": false, "integer": true, "boolean": false, "null": true} {
		g := mustCompile(t, Spec{Kind: JSONSchema, Schema: []byte(`{"properties":{"k":{"type":"` + typ + `"}},"required":["k"]}`), Options: Options{WhitespacePattern: ` ?`}}, v)
		m := g.NewMatcher()
		for _, b := range []byte(`{"k":`) {
			if !m.Accept(int32(b)) {
				t.Fatal(typ, string(b))
			}
		}
		mask := make([]uint32, v.words())
		if err := m.Fill(mask); err != nil || !has(mask, ' ') {
			t.Fatal(typ, err)
		}
		if m.WithoutLoneSpace(mask); has(mask, ' ') != lone {
			t.Errorf("%s: a lone space is legal: %v", typ, !lone)
		}
	}
}
