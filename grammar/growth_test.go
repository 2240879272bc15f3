package grammar

import (
	"maps"
	"slices"
	"testing"
)

// quadratic are the constraints of hostileSpecs whose compilation takes time with the square
// of their size or more. They end when their budget is spent. All others are linear.
var quadratic = []string{
	"conditions", "one of required", "one of patterns", // each case has the negations of the others
	"dependencies", "not enum objects", // cases are multiplied out, until there are too many
	"groups", "rules in a row", // each of n optional parts can be followed by each later one
}

// spent counts the units of work that compiling s takes, which are the same on every machine.
func spent(s Spec, v *Vocabulary, cfg Config) (units float64, err error) {
	m := unmetered()
	before := m.left
	_, err = compileMetered(s, v, cfg, m, nil)
	return float64(before - m.left), err
}

// TestCompilingIsLinear: ten times as large a constraint takes about ten times the work. A
// constraint that is refused for its size is compared as large as it may be; the work until
// it is refused counts as well, because it is done by the server all the same.
func TestCompilingIsLinear(t *testing.T) {
	cfg := DefaultConfig()
	for _, name := range slices.Sorted(maps.Keys(hostileSpecs)) {
		if slices.Contains(quadratic, name) {
			continue
		}
		first := size(20)
		if name == "nested objects" {
			first = 4 // JSON itself may not be nested deeper than maxDepth
		}
		small, err := spent(hostileSpecs[name](first), testVocabulary, cfg)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := 10 * first; n <= 2000 && err == nil; n *= 10 {
			var large float64
			large, err = spent(hostileSpecs[name](n), testVocabulary, cfg)
			if ratio := large / small; ratio > 14 {
				t.Errorf("%s: %d instead of %d takes %.1f times the work (%.0f and %.0f units)", name, n, n/10, ratio, large, small)
			}
			if err != nil && n == 10*first {
				t.Errorf("%s: a size of %d is refused, so that nothing is compared: %v", name, n, err)
			}
			small = large
		}
	}
}

// TestManyOptionalProperties: 10,000 optional properties are compiled, and every selection of
// them in their order is accepted.
func TestManyOptionalProperties(t *testing.T) {
	g := mustCompile(t, hostileSpecs["properties"](10_000), testVocabulary)
	for _, c := range []struct {
		text string
		want bool
	}{
		{`{}`, true},
		{`{"n0":""}`, true},
		{`{"n9999":""}`, true},
		{`{"n1":"","n10":"","n9998":""}`, true},
		{`{"n10":"","n1":""}`, false},
		{`{"n10":"","n10":""}`, false},
	} {
		if g.accepts(c.text) != c.want {
			t.Errorf("%s: accepted %t, want %t", c.text, !c.want, c.want)
		}
	}
}
