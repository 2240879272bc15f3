package cpu

import (
	"errors"
	"strings"
	"testing"
)

// TestChoose: by name, without features, and both.
func TestChoose(t *testing.T) {
	defer func(old []*impl) { impls = old }(impls)
	impls = []*impl{
		{name: "wide2", needs: []string{"wide", "dot"}},
		{name: "wide", needs: []string{"wide"}},
		{name: "narrow", needs: []string{"narrow", "fma"}},
		{name: "generic"},
	}
	for wish, want := range map[string]string{
		"": "wide2", "wide2": "wide2", "narrow": "narrow", "generic": "generic",
		"-dot": "wide", "-wide2": "wide", "-wide": "narrow", "-wide,-fma": "generic", "-fma": "wide2", "narrow,-dot": "narrow",
	} {
		if got, err := Tier(wish); err != nil || got != want {
			t.Errorf("%q: %q, %v; not %q", wish, got, err, want)
		}
	}
	for wish, says := range map[string]string{
		"mmx":                 `implementation "mmx" is not available here; there are wide2, wide, narrow, generic, and -wide -dot -narrow -fma to go without`,
		"-mmx":                `implementation "-mmx" is not available`,
		"wide,narrow":         `implementation "narrow" is not available`,
		",":                   `implementation "" is not available`,
		"-":                   `implementation "-" is not available`,
		"wide2,-dot":          `"wide2,-dot" leaves no implementation`,
		"-generic,-wide,-fma": "leaves no implementation",
	} {
		if _, err := Tier(wish); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", wish, err)
		}
	}
}

// TestReference: Reference chooses a tier that does not round rows, even if another one
// is faster.
func TestReference(t *testing.T) {
	defer func(old []*impl) { impls = old }(impls)
	round := func([]byte, []float32) {}
	impls = []*impl{{name: "coarse", narrow: round}, {name: "exact"}, {name: "generic"}}
	if c := Reference(); c.Impl != "exact" || c.KVType != Default().KVType {
		t.Errorf("%+v", c)
	}
}
