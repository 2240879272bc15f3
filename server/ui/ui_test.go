package ui_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"weir/server/ui"
)

// names returns the paths of all files of the page, relative to it.
func names(t *testing.T) (all []string) {
	t.Helper()
	files := os.DirFS("files")
	err := fs.WalkDir(files, ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			all = append(all, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func find(name string) *ui.File {
	if name == "index.html" {
		return ui.Page()
	}
	return ui.Find(ui.Prefix + name)
}

// TestFiles: every file is in the binary as it is in the folder, with a type and a tag of its own, and
// compressed it is the same.
func TestFiles(t *testing.T) {
	t.Parallel()
	tags := map[string]string{}
	for _, name := range names(t) {
		want, err := os.ReadFile(path.Join("files", name))
		if err != nil {
			t.Fatal(err)
		}
		f := find(name)
		if f == nil || !bytes.Equal(f.Raw, want) || f.Type == "" || len(f.Tag) != 26 {
			t.Errorf("%s: %v", name, f)
			continue
		}
		if other := tags[f.Tag]; other != "" && !bytes.Equal(find(other).Raw, f.Raw) {
			t.Errorf("%s and %s have one tag", name, other)
		}
		tags[f.Tag] = name
		if f.Gzip == nil {
			continue
		}
		r, err := gzip.NewReader(bytes.NewReader(f.Gzip))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is another file when compressed: %v", name, err)
		}
	}
	for _, bad := range []string{"", "/", "/ui/", "/ui", "/ui/index.html", "/ui/none.js", "/ui/views", "/ui/../ui.go", "/ui//app.js", "app.js"} {
		if f := ui.Find(bad); f != nil {
			t.Errorf("%q is a file", bad)
		}
	}
}

// TestVendored: the libraries are those that were published, with their licenses. The hashes in
// testdata/vendored.txt are of the files in the packages of npm that it names.
func TestVendored(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/vendored.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if sum, name, ok := strings.Cut(strings.TrimSpace(line), "  "); ok && !strings.HasPrefix(line, "#") {
			want[name] = sum
		}
	}
	licensed := map[string]bool{}
	for _, name := range names(t) {
		if !strings.HasPrefix(name, "vendor/") {
			continue
		}
		sum := sha256.Sum256(find(name).Raw)
		if got := hex.EncodeToString(sum[:]); got != want[name] {
			t.Errorf("%s has the hash %s, want %q", name, got, want[name])
		}
		delete(want, name)
		licensed[path.Dir(name)] = licensed[path.Dir(name)] || path.Base(name) == "LICENSE"
	}
	for name := range want {
		t.Errorf("%s is missing", name)
	}
	for folder, ok := range licensed {
		if !ok {
			t.Errorf("%s has no license", folder)
		}
	}
}

// reference is a module or a file that a file of the page names.
var reference = regexp.MustCompile(`(?:from |import |import\(|new URL\(|href=|src=)['"]([^'"#]+\.(?:m?js|css|svg))['"]`)

// TestReferences: what files name is there, so that no view asks for a file in vain, and nothing is
// of another server.
func TestReferences(t *testing.T) {
	t.Parallel()
	used := []string{"index.html"}
	for _, name := range names(t) {
		if strings.HasPrefix(name, "vendor/") || strings.HasPrefix(name, "views/") {
			used = append(used, name) // views are named by the router
		}
		if strings.HasPrefix(name, "vendor/") {
			continue
		}
		text := string(find(name).Raw)
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			to := path.Join(path.Dir(name), m[1])
			if name == "index.html" {
				to = strings.TrimPrefix(m[1], "ui/")
			}
			if find(to) == nil {
				t.Errorf("%s names %s, which is not there", name, m[1])
			}
			used = append(used, to)
		}
		if m := regexp.MustCompile(`(?:src|href)="(?:https?:)?//|innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function| style="`).FindString(text); m != "" {
			t.Errorf("%s has %q", name, m)
		}
	}
	for _, name := range names(t) {
		if !slices.Contains(used, name) {
			t.Errorf("nothing uses %s", name)
		}
	}
}

// TestFirstPaint: what a browser loads until it shows the first view is small.
func TestFirstPaint(t *testing.T) {
	t.Parallel()
	sum := 0
	for _, name := range []string{"index.html", "style.css", "app.js", "dom.js", "api.js", "icon.svg", "views/start.js"} {
		f := find(name)
		if f == nil {
			t.Fatal(name)
		}
		sum += min(len(f.Raw), len(f.Gzip))
	}
	if sum > 100<<10 {
		t.Errorf("%d bytes", sum)
	}
}
