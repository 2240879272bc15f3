package grammar

import (
	"maps"
	"slices"
	"testing"
)

// quadratic are the constraints of hostileSpecs whose compilation takes time with the square
// of their size or more. They end when their budget is spent. All others are linear.
var quadratic = []string{
	"both properties", "patternProperties", // names are split into classes, one pattern after the other
	"conditions", "one of required", "one of patterns", // each case has the negations of the others
	"dependencies", "not enum objects", // cases are multiplied out, until there are too many
	"groups", "rules in a row", // each of n optional parts can be followed by each later one
}

// TestCompilingIsLinear: ten times as large a constraint takes about ten times the work. Work
// is counted in units, so the result is the same on every machine.
func TestCompilingIsLinear(t *testing.T) {
	cfg := DefaultConfig()
	spent := func(s Spec) float64 {
		m := unmetered()
		before := m.left
		// Some are refused for their size: work until then counts as well.
		_, _ = compileMetered(s, testVocabulary, cfg, m, nil)
		return float64(before - m.left)
	}
	for _, name := range slices.Sorted(maps.Keys(hostileSpecs)) {
		if slices.Contains(quadratic, name) {
			continue
		}
		small, large := spent(hostileSpecs[name](200)), spent(hostileSpecs[name](2000))
		if ratio := large / small; ratio > 14 {
			t.Errorf("%s: ten times the size takes %.1f times the work (%.0f and %.0f units)", name, ratio, small, large)
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
