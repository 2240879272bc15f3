package grammar

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// randomAlternative is an alternative of a union: a constant, a list of them, an object with
// a discriminator, or something that has none.
func randomAlternative(rng *rand.Rand) string {
	word := func() string { return fmt.Sprintf("%q", string(rune('a'+rng.IntN(12)))) }
	value := func() string {
		return []string{word(), fmt.Sprint(rng.IntN(9)), fmt.Sprintf("%d.0", rng.IntN(9)), "null", fmt.Sprintf("[%d]", rng.IntN(4))}[rng.IntN(5)]
	}
	switch rng.IntN(7) {
	case 0:
		return `{"const":` + value() + `}`
	case 1:
		return `{"enum":[` + value() + `,` + value() + `]}`
	case 2, 3:
		return `{"type":"object","properties":{"kind":{"const":` + word() + `},"a":{"type":"integer"}},"required":["kind"]}`
	case 4:
		return `{"type":"object","properties":{"kind":{"enum":[` + word() + `,` + word() + `]},"op":{"const":` + word() + `}},"required":["kind","op"]}`
	case 5:
		return `{"anyOf":[{"const":` + value() + `},{"type":"object","properties":{"kind":{"const":` + word() + `}},"required":["kind"]}]}`
	}
	return []string{`{"type":"integer","minimum":7}`, `{"type":"boolean"}`, `{"type":"object","properties":{"kind":{"type":"string"}}}`}[rng.IntN(3)]
}

// TestOneOfOverlap: the search for overlapping alternatives by what they have in common finds
// some exactly where comparing each with each finds some.
func TestOneOfOverlap(t *testing.T) {
	apart, overlapping := 0, 0
	for seed := range 3000 {
		rng := rand.New(rand.NewPCG(uint64(seed), 3))
		list := make([]string, 2+rng.IntN(4))
		for i := range list {
			list[i] = randomAlternative(rng)
		}
		text := `{"oneOf":[` + strings.Join(list, ",") + `]}`
		root := mustParse(t, []byte(text))
		b := newBuilder(commonRules(), 100_000, unmetered())
		s := newSchemas(b, root, "$", Options{})
		o := &oneOf{s: s, of: s.d.node(root).oneOf}
		_, _, got := o.overlap()
		if want := o.overlapOfPairs(); got != want {
			t.Fatalf("%s: overlap %t, each with each %t", text, got, want)
		}
		if got {
			overlapping++
		} else {
			apart++
		}
	}
	if apart < 200 || overlapping < 200 {
		t.Errorf("%d apart, %d overlapping: too few to tell", apart, overlapping)
	}
}

// overlapOfPairs compares each alternative with each.
func (o *oneOf) overlapOfPairs() bool {
	for i := range o.of {
		for j := range i {
			if !o.s.empty(append(o.with, o.of[i], o.of[j])) {
				return true
			}
		}
	}
	return false
}
