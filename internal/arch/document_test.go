package arch

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A row of the rooms of ARCHITECTURE.md: name, what it owns, what it may import, what it must never.
var roomRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|[^|]*\\|([^|]*)\\|")

// TestDocument: the table in ARCHITECTURE.md has the rooms and the imports that
// are enforced here. It does not list what may be imported everywhere, what
// imports everything, and rooms that only hold tests.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]string{}
	for _, m := range roomRow.FindAllStringSubmatch(string(text), -1) {
		imports, _, _ := strings.Cut(m[2], "(")
		stated[m[1]] = imports
	}
	for room := range stated {
		if _, ok := rules[room]; !ok {
			t.Errorf("ARCHITECTURE.md has a room %s that internal/arch does not know", room)
		}
	}
	for _, room := range slices.Sorted(maps.Keys(rules)) {
		imports, ok := stated[room]
		if !ok {
			if !slices.Contains([]string{"server/sdktest", "server/ui", "tools/peers", "tools/release"}, room) && !under(room, "examples") {
				t.Errorf("ARCHITECTURE.md has no row for %s", room)
			}
			continue
		}
		for _, may := range rules[room].may {
			if may != inv && may != "*" && !slices.Contains(words(imports), may) {
				t.Errorf("ARCHITECTURE.md does not say that %s may import %s", room, may)
			}
		}
		for _, may := range words(imports) {
			if !slices.Contains(rules[room].may, may) && !slices.Contains(rules[room].may, "*") {
				t.Errorf("ARCHITECTURE.md says that %s may import %q, which it must not", room, may)
			}
		}
	}
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("`, –\n", r) })
}
