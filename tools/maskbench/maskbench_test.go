package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/grammar"
	"weir/internal/growth"
)

const (
	sampleCases     = "testdata/cases.jsonl"
	sampleTokenizer = "../../tokenizer/testdata/example.json"
)

// The test binary takes the place of Python with llguidance when this variable is set.
const workerVar = "TEST_MASKBENCH_WORKER"

func TestMain(m *testing.M) {
	if os.Getenv(workerVar) == "" {
		log.SetOutput(io.Discard)
		os.Exit(m.Run())
	}
	pretend()
}

// pretend answers cases as worker.py does. It accepts everything, but for what the tests
// need: it dies of one schema, takes too long for another, and accepts nothing of a third.
func pretend() {
	fmt.Println(`{"version":"9.9","call_ns":123}`)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var c struct {
			ID    string
			Tests []struct{ Tokens []int32 }
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			panic(err)
		}
		r := result{Tests: []answer{}, First: 5000}
		for _, t := range c.Tests {
			r.Tests = append(r.Tests, answer{Accepted: c.ID != "bounds", At: len(t.Tokens)})
			r.Masks = append(r.Masks, 1000, 3000)
		}
		switch c.ID {
		case "order":
			os.Exit(3)
		case "refused":
			_, _ = io.Copy(io.Discard, os.Stdin) // until it is killed
		}
		text, _ := json.Marshal(r)
		fmt.Println(string(text))
	}
}

// runLines runs the program and returns the outcomes, by engine and schema.
func runLines(t *testing.T, args ...string) (table string, outcomes map[string]map[string]string) {
	t.Helper()
	lines := filepath.Join(t.TempDir(), "lines")
	var out bytes.Buffer
	if err := run(t.Context(), append([]string{"-cases", sampleCases, "-tokenizer", sampleTokenizer, "-lines", lines}, args...), &out); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(lines)
	if err != nil {
		t.Fatal(err)
	}
	outcomes = map[string]map[string]string{}
	for l := range strings.Lines(string(text)) {
		var r struct{ ID, Engine, Outcome string }
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatal(err)
		}
		if outcomes[r.Engine] == nil {
			outcomes[r.Engine] = map[string]string{}
		}
		outcomes[r.Engine][r.ID] = r.Outcome
	}
	return out.String(), outcomes
}

func wantOutcomes(t *testing.T, engine string, got map[string]string, want string) {
	t.Helper()
	var parts []string
	for _, id := range []string{"bounds", "extra", "order", "refused", "types"} {
		parts = append(parts, got[id])
	}
	if s := strings.Join(parts, " "); s != want {
		t.Errorf("%s: %s, want %s", engine, s, want)
	}
}

// TestJudging: what becomes of our own sample, with and without masks. A valid instance with
// undeclared properties is apart as served, but not one with another order or another type.
func TestJudging(t *testing.T) {
	for _, args := range [][]string{{"-coverage"}, nil} {
		table, got := runLines(t, args...)
		wantOutcomes(t, plainName, got[plainName], "passed passed rejected refused passed")
		wantOutcomes(t, servedName, got[servedName], "passed undeclared rejected refused rejected")
		for _, row := range []string{"| weir, as JSON Schema says | 3 | 0 | 1 | 1 | 0 | 0, 1 |", "| weir, as served | 1 | 1 | 1 | 2 | 0 | 2, 2 |"} {
			if !strings.Contains(table, row) {
				t.Errorf("no row %s in\n%s", row, table)
			}
		}
		if timed := strings.Contains(table, "| mask: weir, as served | "); timed != (args == nil) {
			t.Errorf("%v: times in the table: %t\n%s", args, timed, table)
		}
	}
}

// TestWorker: llguidance's answers are judged in the same way, also when its process dies or
// takes too long; then the next schema has a new process.
func TestWorker(t *testing.T) {
	t.Setenv(workerVar, "1")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "table.md")
	table, got := runLines(t, "-python", self, "-timeout", "1s", "-turn", "2", "-out", out)
	wantOutcomes(t, peerName, got[peerName], "rejected passed refused refused accepted")
	wantOutcomes(t, plainName, got[plainName], "passed passed rejected refused passed")
	for _, part := range []string{"llguidance 9.9, whose methods take 0.12 µs", "| mask: llguidance | 16 | 2.00 | 1.00 | 3.00 |", "| compile and first mask: llguidance | 3 | 5.00 | 5.00 |",
		"| llguidance | 1 | 0 | 2 | 1 | 1 | 0, 2 |"} {
		if !strings.Contains(table, part) {
			t.Errorf("no %q in\n%s", part, table)
		}
	}
	if text, err := os.ReadFile(out); err != nil || string(text) != table {
		t.Errorf("the file has another table than is printed: %v", err)
	}
}

// TestVerdicts: of several things that are wrong with a schema, the worst counts.
func TestVerdicts(t *testing.T) {
	c := &testCase{tests: []instance{{text: "a", valid: true}, {text: "b", valid: true}, {text: "c"}}}
	second := func(i int) bool { return i == 1 }
	for _, test := range []struct {
		answers string // + accepted, - rejected
		apart   func(int) bool
		want    outcome
		counts  string // undeclared, wrong
	}{
		{"++-", nil, passed, "0 0"},
		{"+--", nil, rejected, "0 1"},
		{"+--", second, undeclared, "1 0"},
		{"-+-", second, rejected, "0 1"},
		{"---", second, rejected, "1 1"},
		{"+++", nil, accepted, "0 1"},
		{"--+", second, accepted, "1 2"},
	} {
		r := &result{}
		for _, a := range test.answers {
			r.Tests = append(r.Tests, answer{Accepted: a == '+'})
		}
		if v := judge(c, r, test.apart); v.Outcome != test.want || fmt.Sprint(v.Undeclared, v.Wrong) != test.counts {
			t.Errorf("%s: %+v, want %s, %s", test.answers, v, test.want, test.counts)
		}
	}
	if v := judge(c, &result{Error: "no"}, nil); v.Outcome != refused || v.Why != "no" {
		t.Errorf("%+v", v)
	}
}

// TestInMembers: the bytes from after an object's bracket, or a comma, to a colon, without those of
// values and of arrays.
func TestInMembers(t *testing.T) {
	text := `{"a\"{": [1, {"b": ","}, "x"], "c": {}, "d": "}"}`
	want := wantMarks(text)
	marks := []byte(strings.Repeat(" ", len(text)))
	for i := range text {
		if inMembers(text, i) {
			marks[i] = '='
		}
	}
	if got := string(marks); got != want {
		t.Errorf("\n%s\n%s\nwant\n%s", text, got, want)
	}
}

// wantMarks marks the parts of text by hand.
func wantMarks(text string) string {
	marks := strings.Repeat(" ", len(text))
	for _, part := range []string{`"a\"{":`, `"b":`, `, "c":`, `, "d":`} {
		i := strings.Index(text, part)
		marks = marks[:i] + strings.Repeat("=", len(part)) + marks[i+len(part):]
	}
	return marks
}

// TestSpread: a sample has the size that it should have, without a schema twice.
func TestSpread(t *testing.T) {
	all := make([]testCase, 10)
	for i := range all {
		all[i].id = fmt.Sprint(i)
	}
	for sample, want := range map[int]string{0: "0123456789", 3: "036", 10: "0123456789", 99: "0123456789"} {
		got := ""
		for _, c := range spread(all, sample) {
			got += c.id
		}
		if got != want {
			t.Errorf("%d: %s, want %s", sample, got, want)
		}
	}
}

// TestDistribution: percentiles are values that were measured.
func TestDistribution(t *testing.T) {
	var ns []int64
	for i := range int64(1000) {
		ns = append(ns, 1000*(1000-i))
	}
	want := "| 1000 | 500 | 251 | 501 | 751 | 901 | 991 | 1000 | 1000 | 1000 |"
	if got := distribution(ns); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestGrowthForms: every constraint that grows is one for package grammar, and those of the
// kinds that llguidance has are written for it as JSON.
func TestGrowthForms(t *testing.T) {
	e, err := newWeir(plainName, sampleTokenizer, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range growth.Cases {
		s := c.Of(5)
		if _, _, err := e.compile(specOf(s, grammar.Options{})); err != nil {
			t.Errorf("%s: %v", c.Name, err)
		}
		if form := peerForm(s); (form == nil) != (s.Kind == growth.Tag) || form != nil && !json.Valid(form) {
			t.Errorf("%s: %s", c.Name, form)
		}
	}
}
