package grammar

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
)

// parseBeginning parses the beginning of a JSON text.
func parseBeginning(text string) (g *given, err error) {
	defer catch(&err)
	g, _ = parseGiven(text, unmetered())
	return g, nil
}

// checkBeginning compares parseGiven with the reader of whole texts.
func checkBeginning(t *testing.T, text string) {
	t.Helper()
	g, err := parseBeginning(text)
	v, whole := parseJSON([]byte(text))
	switch {
	case err == nil && g.kind == givenWhole:
		if whole != nil || canonicalJSON(v) != canonicalJSON(g.value) {
			t.Errorf("%q is whole: %v, but %v", text, g.value, whole)
		}
	case err == nil:
		if whole == nil && (g.kind != givenToken || canonicalJSON(v) != canonicalJSON(numeral(g.text))) {
			t.Errorf("%q is not whole: %+v", text, g)
		}
	case whole == nil:
		for _, but := range []string{"surrogates", "there already"} {
			if strings.Contains(err.Error(), but) {
				return
			}
		}
		t.Errorf("%q: %v", text, err)
	}
}

// FuzzGiven: what the beginning of a text has of a value is the value, where the text is
// whole, and all that a good text begins with is a beginning.
func FuzzGiven(f *testing.F) {
	for _, text := range []string{`{"a": [1.5e3, -0, "x\u00e9\ud83d\ude00\n"], "b": {"c": null}, "d": [true, false, []]}`, ` [{}] `, `"`, `{"a":1,"a":2}`, `"\ud800"`, "\"\xff\"", `-`, `[,]`, `{"a"}`, `tru`, `1.e`} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		checkBeginning(t, text)
		if _, err := parseBeginning(text); err == nil && len(text) < 1000 {
			for i := range len(text) {
				if _, err := parseBeginning(text[:i]); err != nil {
					t.Errorf("%q is a beginning, but of that, %q is not: %v", text, text[:i], err)
				}
			}
		}
	})
}

// TestGivenBroken does so for values with a byte changed.
func TestGivenBroken(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	odd := oddly{rng}
	v := mustParse(t, []byte(`{"a":[1,-20,"é🦀\"\\/\n",{"b":null,"c":[true,false,[]]}],"":{},"1.5":1.5e3}`))
	broken := 0
	for range 20_000 {
		text := []byte(odd.spell(v))
		text[rng.IntN(len(text))] = `{}[],:"\u019.eE-+ntf x`[rng.IntN(22)]
		checkBeginning(t, string(text))
		if _, err := parseBeginning(string(text)); errors.Is(err, ErrPrefix) {
			broken++
		}
	}
	if broken < 5000 {
		t.Errorf("only %d broken texts", broken)
	}
}
