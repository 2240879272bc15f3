package objects

import (
	"slices"
	"strings"
	"testing"

	"weir/internal/jsontext"
	"weir/internal/query"
)

// TestOrderOfRows: the order of rows by a path has no circles, whatever stands there
// (docs/interface/weave.md, W-212).
func TestOrderOfRows(t *testing.T) {
	want := []string{"null", "-3", "false", "0.5", "1", "true", "2", `"1"`, `"a"`, "[1]"}
	values := func(texts []string) (list []query.Value) {
		for _, s := range texts {
			list = append(list, query.ValueOf(jsontext.Value(s)))
		}
		return list
	}
	all := values(want)
	for i := range all {
		for j := range all {
			same := want[i] == "1" && want[j] == "true" || want[i] == "true" && want[j] == "1"
			if c := compareKeys(&all[i], &all[j]); !same && (c < 0) != (i < j) || (c == 0) != (i == j || same) {
				t.Errorf("%s and %s: %d", want[i], want[j], c)
			}
		}
	}
	got := values([]string{"2", "true", "0.5", "false", `"a"`, "null"})
	slices.SortStableFunc(got, func(a, b query.Value) int { return compareKeys(&a, &b) })
	var texts []string
	for _, v := range got {
		texts = append(texts, string(v.Raw))
	}
	if s := strings.Join(texts, " "); s != `null false 0.5 true 2 "a"` {
		t.Error(s)
	}
}
