package arch

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A row of the packages of ARCHITECTURE.md: name, what it owns, what it may import, what it must never.
var packageRow = regexp.MustCompile("(?m)^\\| `([a-z0-9/]+)` \\|[^|]*\\|([^|]*)\\|")

// TestDocument: the table in ARCHITECTURE.md has the packages and the imports that
// are enforced here. It does not list what may be imported everywhere, what
// imports everything, and packages that only hold tests.
func TestDocument(t *testing.T) {
	text, err := os.ReadFile("../../ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	stated := map[string]string{}
	for _, m := range packageRow.FindAllStringSubmatch(string(text), -1) {
		imports, _, _ := strings.Cut(m[2], "(")
		stated[m[1]] = imports
	}
	for pkg := range stated {
		if _, ok := rules[pkg]; !ok {
			t.Errorf("ARCHITECTURE.md has a package %s that internal/arch does not know", pkg)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(rules)) {
		imports, ok := stated[pkg]
		if !ok {
			if !slices.Contains([]string{"server/sdktest", "server/ui", "tools/browsers", "tools/chaos", "tools/maskbench", "tools/peers", "tools/release", "tools/routers", "tools/soak"}, pkg) && !under(pkg, "examples") {
				t.Errorf("ARCHITECTURE.md has no row for %s", pkg)
			}
			continue
		}
		for _, may := range rules[pkg].may {
			if may != inv && may != "*" && !slices.Contains(words(imports), may) {
				t.Errorf("ARCHITECTURE.md does not say that %s may import %s", pkg, may)
			}
		}
		for _, may := range words(imports) {
			if !slices.Contains(rules[pkg].may, may) && !slices.Contains(rules[pkg].may, "*") {
				t.Errorf("ARCHITECTURE.md says that %s may import %q, which it must not", pkg, may)
			}
		}
	}
}

func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return strings.ContainsRune("`, –\n", r) })
}
