package arch

import (
	"go/ast"
	"go/build"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// testFree lists what any test file may import although its package may not.
var testFree = []string{"os", "io", "io/fs", "sync", "time", "context", "log", "net/http", "golang.org", "github.com"}

func TestImports(t *testing.T) {
	eachPackage(t, func(pkg, dir string) {
		r, ok := rules[pkg]
		if !ok {
			t.Errorf("%s: no rule; add one to internal/arch and to ARCHITECTURE.md", pkg)
			return
		}
		ctx := build.Default
		ctx.UseAllFiles = true // files behind tags count too
		p, err := ctx.ImportDir(dir, 0)
		if _, none := err.(*build.NoGoError); none {
			return
		}
		checkImports(t, pkg, r, p.Imports, false)
		checkImports(t, pkg, r, p.TestImports, true)
		checkImports(t, pkg, r, p.XTestImports, true)
	})
}

// checkImports holds the imports of a package, or of its tests, against its rule.
func checkImports(t *testing.T, pkg string, r rule, imports []string, test bool) {
	t.Helper()
	for _, imp := range imports {
		if ours, ok := strings.CutPrefix(imp, module); ok {
			if ours != pkg && !slices.Contains(r.may, ours) && !slices.Contains(r.may, "*") && !(test && slices.Contains(r.tests, ours)) {
				t.Errorf("%s must not import %s (ARCHITECTURE.md, the import table)", pkg, ours)
			}
			continue
		}
		free := test && slices.ContainsFunc(testFree, func(f string) bool { return under(imp, f) })
		if slices.ContainsFunc(r.mayNot, func(bad string) bool { return under(imp, bad) }) && !free {
			t.Errorf("%s must not import %s: pass what it needs as an argument", pkg, imp)
		}
	}
}

func under(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// TestPurePackages: no goroutine and no channel in the packages that are state machines.
func TestPurePackages(t *testing.T) {
	eachFile(t, func(pkg, path string, set *token.FileSet, f *ast.File) {
		if pkg != "scheduler" && pkg != "kvcache" && pkg != "sampler" || strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
				t.Errorf("%s: goroutines and channels belong to engine, not to %s", set.Position(n.Pos()), pkg)
			}
			return true
		})
	})
}
