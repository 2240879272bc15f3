package arch

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// exempt lists the functions that make complexity does not measure, by package and
// name, with the reason. There should be a handful of them: the main switch of a parser,
// which is read from case to case, is easier to follow in one piece.
var exempt = map[string]string{
	"tokenizer.run": "the main loop of the regular expression matcher: taken apart it is 5 to 9 % slower",
}

// exemption is how a function is exempted. The comment above it repeats the reason.
var exemption = regexp.MustCompile(`(?m)^//gocognit:ignore\nfunc (?:\([^)]*\) )?(\w+)`)

// TestExemptions: the functions that are exempt from the bound on cognitive complexity
// are those of the list.
func TestExemptions(t *testing.T) {
	found := map[string]bool{}
	eachText(t, func(file, text string) {
		if path.Ext(file) != ".go" || strings.HasPrefix(file, "internal/arch/") {
			return
		}
		functions := exemption.FindAllStringSubmatch(text, -1)
		if n := strings.Count(text, "gocognit:"+"ignore"); n != len(functions) {
			t.Errorf("%s: %d directives, %d of them just above a function", file, n, len(functions))
		}
		for _, f := range functions {
			name := path.Dir(file) + "." + f[1]
			found[name] = true
			if exempt[name] == "" {
				t.Errorf("%s is exempt from the bound on cognitive complexity: take it apart, or list it here with the reason", name)
			}
		}
	})
	for name := range exempt {
		if !found[name] {
			t.Errorf("%s is listed as exempt and is not", name)
		}
	}
}
