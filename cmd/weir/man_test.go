package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// manual is the page that weir man prints.
func manual(t *testing.T) string {
	t.Helper()
	code, page, errOut := runWeir("man")
	if code != 0 || errOut != "" {
		t.Fatalf("exit %d: %s", code, errOut)
	}
	return page
}

// TestManual: the page has every command and every flag, and no line that roff would
// take for a request by mistake.
func TestManual(t *testing.T) {
	page := manual(t)
	for _, c := range commands() {
		if !strings.Contains(page, ".SS \""+escapeRoff("weir "+c.name)) {
			t.Errorf("no section about %s", c.name)
		}
		_, groups := documentedFlags(c)
		for _, flags := range groups {
			for _, flag := range flags {
				if !strings.Contains(page, `\fB`+escapeRoff("--"+flag.Name)+`\fR`) {
					t.Errorf("%s: --%s is not there", c.name, flag.Name)
				}
			}
		}
	}
	request := regexp.MustCompile(`^\.(TH|SH|SS|TP|PP|B|br)( "[^"]*")*$`)
	for line := range strings.Lines(page) {
		if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, ".") && !request.MatchString(line) || strings.HasPrefix(line, "'") || line == "" {
			t.Errorf("a line that roff misunderstands: %q", line)
		}
	}
	if page != manual(t) {
		t.Error("a second page differs")
	}
}

// TestManualReaders: the readers of manual pages that are installed here find nothing
// to complain about, and show the page.
func TestManualReaders(t *testing.T) {
	file := filepath.Join(t.TempDir(), "weir.1")
	if err := os.WriteFile(file, []byte(manual(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	readers := map[string][]string{
		"mandoc": {"-T", "lint", "-W", "warning", file},
		"groff":  {"-man", "-ww", "-z", "-T", "utf8", file},
	}
	for reader, args := range readers {
		if _, err := exec.LookPath(reader); err != nil {
			t.Logf("%s is not installed", reader)
			continue
		}
		out, _ := exec.Command(reader, args...).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// The page has no date, so that equal programs print equal pages.
			if !strings.Contains(line, "missing date") {
				t.Errorf("%s: %s", reader, line)
			}
		}
	}
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("man is not installed")
	}
	show := exec.Command("man", "-l", "-P", "cat", file)
	show.Env = append(os.Environ(), "MANWIDTH=100", "LC_ALL=C.UTF-8", "TERM=dumb")
	out, err := show.Output()
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`\x1b\[[0-9;]*m|.\x08`).ReplaceAll(out, nil)
	for _, want := range []string{"weir - inference server", "--max-model-len tokens", "WEIR_MAX_MODEL_LEN=4096", "weir bench store"} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("man does not show %q", want)
		}
	}
}
