package arch

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// document is what a Markdown file has that can be referred to.
type document struct {
	sections []string        // numbers: "4.5"
	rules    map[string]bool // "F-31", "T-6", "M-10", "C45", and cases: "F#4"
	anchors  map[string]bool // what may follow # in a link
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// numbered is a heading that begins with a number, as the documents of the
	// interface have them, with the anchor in front of it.
	numbered = regexp.MustCompile(`^(?:<a id="([^"]+)"></a>)?(\d+(?:\.\d+)*)\.? `)
	anchor   = regexp.MustCompile(`<a id="([^"]+)"></a>`)
	rule1    = regexp.MustCompile(`<a id="([abcefglmnoprtw])-?(case-)?(\d+)"></a>(?:\*\*)?([ABCEFGLMNOPRTW])([-#]?)(\d+)`)
	tag      = regexp.MustCompile(`<[^>]*>`)
)

// readInterface reads the documents in docs/interface, by file name.
func readInterface(t *testing.T) map[string]*document {
	t.Helper()
	files, err := filepath.Glob("../../docs/interface/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("docs/interface has no documents (%v)", err)
	}
	all := map[string]*document{}
	for _, file := range files {
		all[filepath.Base(file)] = readDocument(t, file)
	}
	return all
}

func readDocument(t *testing.T, path string) *document {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &document{rules: map[string]bool{}, anchors: map[string]bool{}}
	prose := withoutCode(string(text))
	for _, m := range anchor.FindAllStringSubmatch(prose, -1) {
		if d.anchors[m[1]] {
			t.Errorf("%s: the anchor %s is there twice", path, m[1])
		}
		d.anchors[m[1]] = true
	}
	for _, m := range heading.FindAllStringSubmatch(prose, -1) {
		d.anchors[slug(m[1])] = true
		if n := numbered.FindStringSubmatch(m[1]); n != nil {
			d.sections = append(d.sections, n[2])
			if want := "section-" + strings.ReplaceAll(n[2], ".", "-"); n[1] != want && strings.Contains(path, "docs/interface") {
				t.Errorf("%s: section %s needs the anchor %s", path, n[2], want)
			}
		}
	}
	for _, m := range rule1.FindAllStringSubmatch(prose, -1) {
		d.rules[m[4]+m[5]+m[6]] = true
		if m[1] != strings.ToLower(m[4]) || m[3] != m[6] || (m[2] != "") != (m[5] == "#") {
			t.Errorf("%s: %s%s%s has another anchor: %s", path, m[4], m[5], m[6], m[0])
		}
	}
	return d
}

var (
	fence      = regexp.MustCompile("(?ms)^ *```.*?^ *```$")
	inlineCode = regexp.MustCompile("``[^\n]+?``|`[^`\n]+`")
)

// withoutCode replaces the code in a Markdown text by a mark: nothing in it is a
// link or a heading.
func withoutCode(text string) string {
	return inlineCode.ReplaceAllStringFunc(fence.ReplaceAllString(text, "code"), func(s string) string {
		return strings.Trim(s, "`")
	})
}

// slug is the anchor that GitHub gives a heading.
func slug(title string) string {
	title = strings.TrimSpace(tag.ReplaceAllString(title, ""))
	title = markdownLink.ReplaceAllString(title, "$1")
	return strings.Map(func(c rune) rune {
		switch {
		case c == ' ':
			return '-'
		case c == '-' || c == '_' || unicode.IsLetter(c) || unicode.IsDigit(c):
			return unicode.ToLower(c)
		}
		return -1
	}, title)
}

var markdownLink = regexp.MustCompile(`\[([^\]\[]*(?:\[[^\]]*\][^\]\[]*)*)\]\(([^)\s]+)\)`)

// TestLinks: every link of a Markdown file to a file of the repository, and to a
// place in it, leads somewhere.
func TestLinks(t *testing.T) {
	known := map[string]*document{}
	links := 0
	eachText(t, func(path, text string) {
		if filepath.Ext(path) != ".md" {
			return
		}
		for _, m := range markdownLink.FindAllStringSubmatch(withoutCode(text), -1) {
			target, fragment, _ := strings.Cut(m[2], "#")
			if strings.Contains(target, ":") {
				continue // another site
			}
			links++
			to := path
			if target != "" {
				to = filepath.ToSlash(filepath.Join(filepath.Dir(path), target))
			}
			checkLink(t, known, path, to, fragment)
		}
	})
	if links < 300 {
		t.Errorf("only %d links were found", links)
	}
}

// checkLink fails unless there is a file to, relative to the repository, with
// the anchor fragment, if there is one. known are the documents read so far.
func checkLink(t *testing.T, known map[string]*document, from, to, fragment string) {
	t.Helper()
	file := filepath.Join("../..", to)
	if _, err := os.Stat(file); err != nil {
		t.Errorf("%s links to %s, which does not exist", from, to)
		return
	}
	if fragment == "" {
		return
	}
	if known[to] == nil {
		known[to] = readDocument(t, file)
	}
	if !known[to].anchors[fragment] {
		t.Errorf("%s links to %s, which has no #%s", from, to, fragment)
	}
}

var (
	// reference is a document of the interface named in a text; what follows is
	// read by items.
	reference = regexp.MustCompile(`docs/interface/([a-z-]+)\.md`)
	// lineBreak is a line break with what begins the next line of a comment.
	lineBreak = regexp.MustCompile(`\s*\n\s*(?://|#|\*)?\s*`)
	item      = regexp.MustCompile(`^(?:,|,? and|,? or)? (sections? )?(\d+(?:\.\d+)*|[EFLMNOPTW][-#]\d+|C\d+)`)
)

// items are the sections and rules that follow a reference: ", section 4.5",
// ", sections 4.5 and 5.1", ", F-31", ", C45 and C46".
func items(text string) (list []string) {
	sections := false
	for {
		m := item.FindStringSubmatch(text)
		if m == nil {
			return list
		}
		if sections = sections || m[1] != ""; !sections && m[2][0] <= '9' {
			return list // a number that is no section's
		}
		list = append(list, m[2])
		text = text[len(m[0]):]
	}
}

// TestReferences: what comments, tests and documents refer to in docs/interface
// exists. A reference is written "docs/interface/feedback.md, F-31" or
// "docs/interface/chat-completions.md, section 4.5".
func TestReferences(t *testing.T) {
	documents := readInterface(t)
	eachText(t, func(path, text string) {
		if strings.HasPrefix(path, "internal/arch/") {
			return // it writes about references
		}
		text = lineBreak.ReplaceAllString(text, " ")
		for _, at := range reference.FindAllStringSubmatchIndex(text, -1) {
			name := text[at[2]:at[3]] + ".md"
			d := documents[name]
			if d == nil {
				t.Errorf("%s: there is no docs/interface/%s", path, name)
				continue
			}
			for _, what := range items(text[at[1]:]) {
				if !d.rules[what] && !slices.Contains(d.sections, what) {
					t.Errorf("%s: docs/interface/%s has no %s", path, name, what)
				}
			}
		}
	})
}

func TestItems(t *testing.T) {
	for text, want := range map[string][]string{
		", section 4.5).":           {"4.5"},
		", section 4.5. Then 6":     {"4.5"},
		", sections 4.5 and 6: 7":   {"4.5", "6"},
		", sections 1, 2.1, and 3":  {"1", "2.1", "3"},
		", F-31":                    {"F-31"},
		", F-31 and F-32, T-1; T-2": {"F-31", "F-32", "T-1"},
		", C45, section 9":          {"C45", "9"},
		" section 4.5":              {"4.5"},
		", 12 of them":              nil,
		" and others":               nil,
	} {
		if got := items(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
