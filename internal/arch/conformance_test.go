package arch

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// testNames calls f with every test function of the repository.
func testNames(t *testing.T, f func(pkg, name string)) {
	t.Helper()
	eachFile(t, func(pkg, path string, _ *token.FileSet, file *ast.File) {
		if !strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, d := range file.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Recv == nil && strings.HasPrefix(fn.Name.Name, "Test") {
				f(pkg, fn.Name.Name)
			}
		}
	})
}

var (
	// conformanceRow is a row of a table of docs/interface/chat-completions.md: its
	// anchor, number, rule and section.
	conformanceRow = regexp.MustCompile(`(?m)^\| <a id="c(\d+)"></a>C(\d+) \| ([^|]+) \| ([^|]+) \|$`)
	// openRow begins the rule of a row that may lack a test, for the reason named.
	openRow   = regexp.MustCompile(`^\(open: [^)]+\) `)
	rowNumber = regexp.MustCompile(`C(\d+)`)
)

// TestEveryConformanceRow: each row of the document has a test whose name holds
// its number (TestC1ContentType), and no test names a row that does not exist.
func TestEveryConformanceRow(t *testing.T) {
	tests := map[string][]string{} // by row
	testNames(t, func(pkg, name string) {
		for _, row := range rowNumber.FindAllString(name, -1) {
			tests[row] = append(tests[row], pkg+"."+name)
		}
	})
	text, err := os.ReadFile("../../docs/interface/chat-completions.md")
	if err != nil {
		t.Fatal(err)
	}
	last := 0
	for _, m := range conformanceRow.FindAllStringSubmatch(string(text), -1) {
		row := "C" + m[2]
		if n, _ := strconv.Atoi(m[2]); m[1] != m[2] || n <= last {
			t.Errorf("%s with the anchor c%s stands after C%d", row, m[1], last)
		} else {
			last = n
		}
		if len(tests[row]) == 0 && !openRow.MatchString(m[3]) {
			t.Errorf("%s (%s) has no test", row, m[3])
		}
		delete(tests, row)
	}
	if last < 155 {
		t.Errorf("the last row that could be read is C%d", last)
	}
	for row, names := range tests {
		t.Errorf("%v: docs/interface/chat-completions.md has no %s", names, row)
	}
}

var (
	// compatibilityRow is a row of the table of docs/interface/compatibility.md: its anchor
	// and number.
	compatibilityRow = regexp.MustCompile(`(?m)^\| <a id="k(\d+)"></a>K(\d+) \|(?: [^|]+ \|){4}$`)
	// compatibilityTest finds the rows in the name of a test: TestK1K2OutputIsClamped.
	compatibilityTest = regexp.MustCompile(`^Test[CK\d]+`)
	compatibilityName = regexp.MustCompile(`K\d+`)
)

// TestEveryCompatibilityRow: each row of docs/interface/compatibility.md has a test whose
// name has its number, and no test names a row that does not exist.
func TestEveryCompatibilityRow(t *testing.T) {
	tests := map[string]string{} // by row
	testNames(t, func(pkg, name string) {
		for _, row := range compatibilityName.FindAllString(compatibilityTest.FindString(name), -1) {
			tests[row] = pkg + "." + name
		}
	})
	text, err := os.ReadFile("../../docs/interface/compatibility.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := compatibilityRow.FindAllStringSubmatch(string(text), -1)
	if n := strings.Count(string(text), `<a id="k`); n == 0 || n != len(rows) {
		t.Errorf("%d of %d rows could be read", len(rows), n)
	}
	for i, m := range rows {
		row := "K" + m[2]
		if want := strconv.Itoa(i + 1); m[1] != want || m[2] != want {
			t.Errorf("row %d is %s with the anchor k%s", i+1, row, m[1])
		}
		if tests[row] == "" {
			t.Errorf("%s has no test", row)
		}
		delete(tests, row)
	}
	for row, name := range tests {
		t.Errorf("%s: docs/interface/compatibility.md has no %s", name, row)
	}
}

// The documents that testdata/records.txt is about, by the letter that begins
// their rules.
var recordDocuments = map[byte]string{'A': "admission.md", 'B': "batches.md", 'C': "chat-completions.md", 'F': "feedback.md", 'G': "routers.md", 'L': "live.md", 'N': "bench.md", 'M': "messages.md", 'O': "ollama.md", 'P': "responses-api.md", 'T': "trajectories.md", 'W': "weave.md"}

var (
	ruleName = regexp.MustCompile(`^[ABFGLMNOPTW][-#]\d+$`)
	// sectionName is a section in records.txt: F-8.3 is section 8.3 of feedback.md,
	// T-7. is section 7 of trajectories.md.
	sectionName = regexp.MustCompile(`^([ABCFGLMNOPTW])-(\d+(?:\.\d+)*)\.?$`)
)

// TestRecordRules: testdata/records.txt names, for every rule and every case of
// feedback.md, live.md, messages.md, ollama.md, responses-api.md, routers.md, trajectories.md and weave.md, tests that are
// there, and it names nothing that the documents do not have.
func TestRecordRules(t *testing.T) {
	tests := map[string]bool{}
	testNames(t, func(pkg, name string) { tests[pkg+"."+name] = true })
	documents := readInterface(t)
	text, err := os.ReadFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if len(f) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(f) < 2 || seen[f[0]] {
			t.Errorf("records.txt: %s has no test, or stands there twice", f[0])
		}
		seen[f[0]] = true
		if !isRecordRule(documents, f[0]) {
			t.Errorf("records.txt: the documents have no %s", f[0])
		}
		for _, name := range f[1:] {
			if !tests[name] {
				t.Errorf("records.txt: %s: there is no %s", f[0], name)
			}
		}
	}
	for name, least := range map[string]int{"admission.md": 10, "batches.md": 10, "feedback.md": 40, "bench.md": 6, "live.md": 7, "messages.md": 30, "ollama.md": 20, "responses-api.md": 30, "routers.md": 10, "trajectories.md": 40, "weave.md": 1} {
		if len(documents[name].rules) < least {
			t.Errorf("%s: only %d rules could be read", name, len(documents[name].rules))
		}
		for rule := range documents[name].rules {
			if !seen[rule] {
				t.Errorf("records.txt: %s of %s has no line", rule, name)
			}
		}
	}
}

// isRecordRule reports whether a name in records.txt is a rule, a case or a
// section of the document that its letter stands for.
func isRecordRule(documents map[string]*document, name string) bool {
	d := documents[recordDocuments[name[0]]]
	if d == nil {
		return false
	}
	if ruleName.MatchString(name) && d.rules[name] {
		return true
	}
	m := sectionName.FindStringSubmatch(name)
	return m != nil && slices.Contains(d.sections, m[2])
}
