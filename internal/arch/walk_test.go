package arch

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// eachPackage calls f for every package that go build ./... sees.
func eachPackage(t *testing.T, f func(pkg, dir string)) {
	t.Helper()
	eachFolder(t, func(pkg, dir string) {
		if !strings.HasPrefix(pkg, "_") && !strings.Contains(pkg, "/_") {
			f(pkg, dir)
		}
	})
}

// eachFolder calls f for every folder with Go files: for packages, and for folders
// whose names begin with _, which have generators and tools with modules of their own.
func eachFolder(t *testing.T, f func(pkg, dir string)) {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		if base := d.Name(); path != root && (strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules") {
			return filepath.SkipDir
		}
		goFiles, err := filepath.Glob(filepath.Join(path, "*.go"))
		if err != nil {
			return err
		}
		if len(goFiles) > 0 {
			rel, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			f(filepath.ToSlash(rel), path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// eachFile calls f for every Go file, generators and tools included.
func eachFile(t *testing.T, f func(pkg, path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	eachFolder(t, func(pkg, dir string) {
		names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, name := range names {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			f(pkg, name, set, file)
		}
	})
}
