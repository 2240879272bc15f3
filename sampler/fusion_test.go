package sampler

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"strings"
	"testing"
)

// TestNoFusableProducts: no product of floats is an operand of a sum. A compiler may
// fuse the two into one operation, as it does on arm64 and other architectures, with
// another result; tests on amd64 would not notice. A conversion of the product forbids
// that.
func TestNoFusableProducts(t *testing.T) {
	set := token.NewFileSet()
	files := parseSources(t, set)
	// Imports remain unresolved: the types of local floats are known without them.
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Error: func(error) {}}
	conf.Check("sampler", set, files, &info)
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			if fusable(n, &info) {
				t.Errorf("%s: a product is an operand of a sum: write float32(a*b)", set.Position(n.Pos()))
			}
			return true
		})
	}
}

// parseSources parses the package without its tests.
func parseSources(t *testing.T, set *token.FileSet) (files []*ast.File) {
	t.Helper()
	names, _ := filepath.Glob("*.go")
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// fusable reports whether n adds or subtracts a product of floats.
func fusable(n ast.Node, info *types.Info) bool {
	switch n := n.(type) {
	case *ast.BinaryExpr:
		return (n.Op == token.ADD || n.Op == token.SUB) && (isProduct(n.X, info) || isProduct(n.Y, info))
	case *ast.AssignStmt:
		return (n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN) && isProduct(n.Rhs[0], info)
	}
	return false
}

// isProduct reports whether e, without parentheses and signs, is a product of floats.
func isProduct(e ast.Expr, info *types.Info) bool {
	switch x := e.(type) {
	case *ast.ParenExpr:
		return isProduct(x.X, info)
	case *ast.UnaryExpr:
		return isProduct(x.X, info)
	case *ast.BinaryExpr:
		return x.Op == token.MUL && maybeFloat(x, info)
	}
	return false
}

// maybeFloat reports whether e is a float that is computed at run time, or of unknown
// type.
func maybeFloat(e ast.Expr, info *types.Info) bool {
	tv, ok := info.Types[e]
	if !ok || tv.Type == nil || tv.Type == types.Typ[types.Invalid] {
		return true
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsFloat != 0 && tv.Value == nil
}
