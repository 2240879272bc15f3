package arch

import (
	"go/ast"
	"go/token"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Limits of size: what passes them usually has two meanings, and a name for each.
const (
	maxLines   = 600
	maxFields  = 25
	maxMethods = 7
)

// wide lists the types that may pass the limits: wire types have as many fields
// as the interface has, model.Device as many methods as a decoder has operations.
var wide = []string{"api.", "compute.rowJSON", "model.Device"}

func TestSizes(t *testing.T) {
	eachFile(t, func(pkg, path string, set *token.FileSet, f *ast.File) {
		if ast.IsGenerated(f) {
			return
		}
		if n := set.File(f.Pos()).LineCount(); n > maxLines+1 {
			t.Errorf("%s has %d lines, more than %d: split it by meaning", path, n, maxLines)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			name := filepath.Base(pkg) + "." + spec.Name.Name
			if slices.ContainsFunc(wide, func(w string) bool { return name == w || strings.HasSuffix(w, ".") && strings.HasPrefix(name, w) }) {
				return true
			}
			switch typ := spec.Type.(type) {
			case *ast.StructType:
				if n := typ.Fields.NumFields(); n > maxFields {
					t.Errorf("%s: %s has %d fields, more than %d", set.Position(spec.Pos()), name, n, maxFields)
				}
			case *ast.InterfaceType:
				if n := typ.Methods.NumFields(); n > maxMethods {
					t.Errorf("%s: %s has %d methods, more than %d", set.Position(spec.Pos()), name, n, maxMethods)
				}
			}
			return true
		})
	})
}
