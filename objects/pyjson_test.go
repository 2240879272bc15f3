package objects

import (
	"bufio"
	"encoding/json"
	"os"
	"testing"

	"weir/internal/jsontext"
)

// TestDigests compares texts and digests with those of Weave's client (tools/weavedigests;
// docs/interface/weave.md, W-201).
func TestDigests(t *testing.T) {
	f, err := os.Open("testdata/digests.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	n := 0
	for lines.Scan() {
		var c struct {
			Text, Dumps, Digest, Table string
			Rows                       []string
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatal(err)
		}
		n++
		if c.Table != "" {
			if got := tableDigest(c.Rows); got != c.Table {
				t.Errorf("table of %v: %s, want %s", c.Rows, got, c.Table)
			}
			continue
		}
		// The text may have halves of characters, which Go's decoder replaces.
		text := jsontext.Value(lines.Bytes()).Member("text")
		if got := string(appendPython(nil, jsontext.Value(c.Text), nil)); got != c.Dumps {
			t.Errorf("%s: %s, want %s", text, got, c.Dumps)
		}
		if got := valueDigest(jsontext.Value(c.Text), nil); got != c.Digest {
			t.Errorf("%s: digest %s, want %s", text, got, c.Digest)
		}
	}
	if n < 300 {
		t.Errorf("only %d lines", n)
	}
}
