package grammar

import (
	"strings"
	"testing"
)

// TestLengthsForLooks: a lookahead that bounds the length needs no states for that.
func TestLengthsForLooks(t *testing.T) {
	// zod writes this for z.hostname().
	const hostname = `^(?=.{1,253}\\.?$)[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?(?:\\.[a-zA-Z0-9](?:[-0-9a-zA-Z]{0,61}[0-9a-zA-Z])?)*\\.?$`
	label := strings.Repeat("a", 63)
	long := label + "." + label + "." + label + "." + strings.Repeat("b", 61) // 253 characters
	for _, format := range []string{``, `,"format":"hostname"`} {
		g := mustCompile(t, schema(`{"type":"string","pattern":"`+hostname+`"`+format+`}`), testVocabulary)
		for text, want := range map[string]bool{"a": true, "a.example": true, long: format == "", long + "b": false, long + ".": false, "": false, "-a": false, "a..b": false, label + "a": false} {
			if g.accepts(`"`+text+`"`) != want {
				t.Errorf("format %q, %d characters %.20s: accepted %t", format, len(text), text, !want)
			}
		}
	}
	for pattern, want := range map[string][2]int32{
		`^(?=.{2,5}$)[a-z.]*$`:      {2, 5},
		`^(?=[a-z]{2,5}x?$)[a-z]*$`: {2, 5},
		`^(?=[a-z]{2,5}$)[a-z0]*$`:  {}, // 0 is not counted
		`^(?=.{2,5}$)[^a]*$`:        {}, // nor is a line end
		`^(?!.{2,5}$)[a-z]*$`:       {},
		`^(?=.{2,5})[a-z]*$`:        {}, // more may follow
		`^(?=.{2,5}x$)[a-z]*$`:      {}, // the x counts as well
		`(?=.{2,5}$)[a-z]*$`:        {},
		`^(?=.{2,}$)[a-z]*$`:        {},
		`^(?=.{2,5}$)[a-z]*`:        {},
		`^(?=.{2,5}$)(?=a)[a-z]*$`:  {},
	} {
		if rest, lo, hi := parseRegex(pattern, unmetered()).lengthLook(); (rest != nil) != (want[1] > 0) || rest != nil && (lo != want[0] || hi != want[1]) {
			t.Errorf("%s: %d to %d, %t", pattern, lo, hi, rest != nil)
		}
	}
}
