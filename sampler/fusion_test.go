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

// TestNoFusableProducts: a product of floats that is an operand of a sum may be
// fused with it on arm64 and others, which amd64 tests cannot notice. A
// conversion around the product forbids it.
func TestNoFusableProducts(t *testing.T) {
	names, _ := filepath.Glob("*.go")
	set := token.NewFileSet()
	var files []*ast.File
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
	// Imports stay unresolved: the types of local floats are known without.
	info := types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
	conf := types.Config{Error: func(error) {}}
	conf.Check("sampler", set, files, &info)
	maybeFloat := func(e ast.Expr) bool {
		tv, ok := info.Types[e]
		if !ok || tv.Type == nil || tv.Type == types.Typ[types.Invalid] {
			return true
		}
		b, ok := tv.Type.Underlying().(*types.Basic)
		return ok && b.Info()&types.IsFloat != 0 && tv.Value == nil
	}
	product := func(e ast.Expr) bool {
		for {
			switch x := e.(type) {
			case *ast.ParenExpr:
				e = x.X
				continue
			case *ast.UnaryExpr:
				e = x.X
				continue
			case *ast.BinaryExpr:
				return x.Op == token.MUL && maybeFloat(x)
			}
			return false
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			bad := false
			switch n := n.(type) {
			case *ast.BinaryExpr:
				bad = (n.Op == token.ADD || n.Op == token.SUB) && (product(n.X) || product(n.Y))
			case *ast.AssignStmt:
				bad = (n.Tok == token.ADD_ASSIGN || n.Tok == token.SUB_ASSIGN) && product(n.Rhs[0])
			}
			if bad {
				t.Errorf("%s: a product in a sum: write float32(a*b)", set.Position(n.Pos()))
			}
			return true
		})
	}
}
