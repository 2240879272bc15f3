package arch

import (
	"go/ast"
	"go/token"
	"os"
	"strings"
	"testing"
)

// TestChannelCapacity: a channel says "something is there" (0 or 1); another
// number is a queue and needs a limit, a counter and a reason.
func TestChannelCapacity(t *testing.T) {
	eachFile(t, func(_, path string, set *token.FileSet, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			c, ok := n.(*ast.CallExpr)
			if !ok || len(c.Args) != 2 {
				return true
			}
			if fn, ok := c.Fun.(*ast.Ident); !ok || fn.Name != "make" {
				return true
			}
			if _, ok := c.Args[0].(*ast.ChanType); !ok {
				return true
			}
			if lit, ok := c.Args[1].(*ast.BasicLit); !ok || lit.Value != "0" && lit.Value != "1" {
				t.Errorf("%s: channels have capacity 0 or 1; put a queue with a limit beside it", set.Position(n.Pos()))
			}
			return true
		})
	})
}

// TestNoSleep: a test that sleeps is slow, or fails now and then, or both. testing/synctest
// and channels replace it. Files named *_real_test.go measure real time.
func TestNoSleep(t *testing.T) {
	eachFile(t, func(_, path string, set *token.FileSet, f *ast.File) {
		if !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_real_test.go") {
			return
		}
		src, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(src), "time."+"Sleep(") && !strings.Contains(string(src), "testing/synctest") {
			t.Errorf("%s: no sleeping in tests; use testing/synctest or wait for an event", path)
		}
	})
}
