// Package testkit holds what the tests of several rooms share: golden files
// with -rewrite, and tolerances.
package testkit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Rewrite says that golden files are to be written anew. Read the difference
// before you commit it: it is a change of behaviour.
var Rewrite = flag.Bool("rewrite", false, "write golden files anew")

// Golden compares got with the file, or writes it under -rewrite.
func Golden(t testing.TB, path string, got []byte) {
	t.Helper()
	if *Rewrite {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run with -rewrite to make it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: differs (go test -rewrite writes it anew)\n%s", path, firstDifference(got, want))
	}
}

func firstDifference(got, want []byte) string {
	g, w := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(g), len(w)) {
		var a, b []byte
		if i < len(g) {
			a = g[i]
		}
		if i < len(w) {
			b = w[i]
		}
		if !bytes.Equal(a, b) {
			return "line " + strconv.Itoa(i+1) + ":\n got " + string(a) + "\nwant " + string(b)
		}
	}
	return "equal"
}
