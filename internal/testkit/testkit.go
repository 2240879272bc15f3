package testkit

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// Rewrite says that golden files are to be written instead of compared.
var Rewrite = flag.Bool("rewrite", false, "write golden files instead of comparing with them")

// Golden compares got with the contents of the file at path, or writes the file if
// the flag -rewrite is given. Of a difference it reports the first line.
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
		t.Fatalf("%v (run the test with -rewrite to create it)", err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the output differs from %s (go test -rewrite updates it)\n%s", path, firstDifference(got, want))
	}
}

// firstDifference shows the first line in which got and want differ.
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
	return "no line differs"
}
