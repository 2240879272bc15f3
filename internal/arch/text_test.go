package arch

import (
	"go/ast"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// eachText calls f with the text of every file that people read: Go, Markdown,
// scripts, kernels, build files. Paths are relative to the repository.
func eachText(t *testing.T, f func(path, text string)) {
	t.Helper()
	const root = "../.."
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != root && (strings.HasPrefix(name, ".") || name == "build" || name == "node_modules" || name == "testdata") {
				return filepath.SkipDir
			}
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".md", ".py", ".mjs", ".sh", ".c", ".h", ".cu", ".cuh", ".cpp", ".hpp", ".s", ".yml", ".yaml":
		default:
			if d.Name() != "Makefile" {
				return nil
			}
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(rel), string(text))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestNoConflictMarks: no file has the marks that a merge leaves where it failed.
func TestNoConflictMarks(t *testing.T) {
	marks := regexp.MustCompile(`(?m)^(?:<{7}|>{7}) `)
	eachText(t, func(path, text string) {
		if m := marks.FindString(text); m != "" {
			t.Errorf("%s has a mark of a merge conflict, %q", path, m)
		}
	})
}

// hidden are ways to refer to documents that are not in the repository. A rule
// of the interface is named with its document: docs/interface/feedback.md, F-31.
var hidden = []*regexp.Regexp{
	regexp.MustCompile(`\b[Ss]pecs? (?:chat-completions|feedback|trajectories|clients|\d+|[CFTW]-?\d+)`),
	regexp.MustCompile(`\bspecification \d+`),
	regexp.MustCompile(`\b[Dd]ecisions? \d+`),
	regexp.MustCompile(`\b[Ss]tages? \d+`),
	regexp.MustCompile(`\bissue \d+ of this|\bthe issue\b`),
}

// bare are numbers of rules and sections that only a document near them explains.
var (
	bare    = regexp.MustCompile(`\b[FTW]-\d+(?:\.\d+)?\b|\b[Ss]ections? \d+|\(\d+\.\d+\)|\b[Cc]hecklist \d+`)
	explain = regexp.MustCompile(`docs/|\.md\b|RFC|Unicode|ISA|PTX|IEEE|ABI|paper|manual|report|\b(?:19|20)\d\d\b`)
)

// hiddenReference is the first reference of a comment to a document that is not
// in the repository; "" if there is none. A bare number of a section or a rule needs a
// document in the same comment, or one of docs/interface that the file names once
// (named).
func hiddenReference(comment string, named bool) string {
	comment = lineBreak.ReplaceAllString(comment, " ")
	for _, re := range hidden {
		if m := re.FindString(comment); m != "" {
			return m
		}
	}
	if m := bare.FindString(comment); m != "" && !named && !explain.MatchString(comment) {
		return m
	}
	return ""
}

var specName = regexp.MustCompile(`Spec\d`)

// TestNoHiddenDocuments: comments, and names of tests, refer to nothing that is
// not in the repository.
func TestNoHiddenDocuments(t *testing.T) {
	found := map[string][]string{} // by package
	eachFile(t, func(pkg, path string, set *token.FileSet, file *ast.File) {
		note := func(pos token.Pos, what string) {
			if what != "" {
				at := set.Position(pos)
				found[pkg] = append(found[pkg], at.String()+": "+what)
			}
		}
		named := slices.ContainsFunc(file.Comments, func(group *ast.CommentGroup) bool { return strings.Contains(group.Text(), "docs/interface/") })
		for _, group := range file.Comments {
			note(group.Pos(), hiddenReference(group.Text(), named))
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				note(fn.Pos(), specName.FindString(fn.Name.Name))
			}
		}
	})
	delete(found, "internal/arch") // it writes about them
	for _, pkg := range slices.Sorted(maps.Keys(found)) {
		for _, what := range found[pkg] {
			t.Errorf("%s: this refers to a document that is not in the repository; name one that is (docs/interface/feedback.md, F-31), or say the rule itself", what)
		}
	}
}

func TestHiddenReference(t *testing.T) {
	for comment, want := range map[string]string{
		"The order is that of spec chat-completions 1.2, mostly.": "spec chat-completions",
		"as spec\n// 7.2 says":                      "spec 7",
		"(decision 17)":                             "decision 17",
		"a fault of stage 10":                       "stage 10",
		"by the rule (F-31)":                        "F-31",
		"(section 7)":                               "section 7",
		"docs/interface/feedback.md, F-31 and F-32": "",
		"(docs/interface/chat-completions.md,\nsection 7.2)":         "",
		"RFC 9112, section 9.6":                                      "",
		"the spec of a backend":                                      "",
		"Spec 4 fields":                                              "Spec 4",
		"sections of a document, and stages of a pipeline, decisive": "",
	} {
		if got := hiddenReference(comment, false); got != want {
			t.Errorf("%q: %q, want %q", comment, got, want)
		}
	}
	if got := hiddenReference("(section 7)", true); got != "" {
		t.Errorf("a section of the document that the file names: %q", got)
	}
}
