// Package arch holds the house rules that the compiler cannot check, as tests
// whose messages name the replacement. ARCHITECTURE.md states the same table
// in words; change both in one commit.
package arch

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "weir/"

// A rule says what a room may import of ours (exact paths, tests included) and
// what it must not import of anything else (by prefix).
type rule struct {
	may    []string
	tests  []string // additionally, in _test.go files
	mayNot []string
}

var (
	// pure rooms are state machines: no clock, no locks, no I/O, no logging.
	pure = []string{"sync", "time", "context", "os", "io", "log", "net", "github.com", "golang.org"}
	// noIO rooms compute; they read no files and know no transport.
	noIO = []string{"net", "os", "log", "github.com/valyala", "github.com/dgraph-io"}
	http = []string{"net/http", "github.com/valyala"}
)

const inv = "internal/invariants"

var rules = map[string]rule{
	"api": {
		may:    []string{"internal/jsontext"},
		tests:  []string{"internal/testkit"},
		mayNot: noIO,
	},
	"auth": {
		mayNot: http,
	},
	"backend": {
		mayNot: append([]string{"sync"}, pure...),
	},
	"backend/sim": {
		may:    []string{"backend", "sampler", inv},
		mayNot: noIO,
	},
	"bench": {
		may:   []string{"internal/jsontext", "api"},
		tests: []string{"internal/testkit"},
	},
	"bench/compute": {
		may:    []string{"internal/jsontext", "backend", "device/cpu/limits", "model", "weights"},
		tests:  []string{"device/cpu", "internal/testkit"},
		mayNot: append([]string{"log"}, http...),
	},
	"chat": {
		may:    []string{"api", "chat/jinja", "chat/reasoning"},
		mayNot: noIO,
	},
	"chat/jinja": {
		may:    []string{"internal/jsontext"},
		mayNot: noIO,
	},
	"chat/reasoning": {
		mayNot: pure,
	},
	"cmd/weir": {
		may: []string{"*"},
	},
	"device/cpu": {
		may:    []string{"backend", "internal/invariants", "model", "sampler", "weights"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "github.com/valyala"},
	},
	"device/cpu/limits": {
		mayNot: []string{"net", "os", "log"},
	},
	"device/cuda": {
		may:    []string{"backend", "device/cuda/kernels", "internal/cudashim", "internal/cudrv", "internal/invariants", "model", "sampler", "weights"},
		tests:  []string{"device/cpu", "engine", "internal/testkit", "kvcache", "models", "scheduler", "tokenizer"},
		mayNot: []string{"net", "github.com/valyala"},
	},
	"device/cuda/check": {
		may:    []string{"internal/jsontext", "backend", "device/cpu", "device/cuda", "device/cuda/kernels", "internal/cudashim", "model", "models", "sampler", "weights"},
		mayNot: http,
	},
	"device/cuda/kernels": {
		tests:  []string{"backend", "sampler"},
		mayNot: noIO,
	},
	"engine": {
		may:    []string{"backend", inv, "kvcache", "sampler", "scheduler", "tokenizer"},
		tests:  []string{"backend/sim", "device/cpu", "internal/testkit", "model", "models", "weights"},
		mayNot: []string{"net", "os", "encoding/json", "github.com"},
	},
	"examples":                 {},
	"examples/go/chat":         {},
	"examples/go/feedback":     {},
	"examples/go/trajectories": {},
	"feedback": {
		may:    []string{"internal/jsontext", "store"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "os", "github.com"},
	},
	"grammar": {
		may:    []string{"internal/jsontext"},
		mayNot: noIO,
	},
	"internal/arch":     {},
	"internal/cudashim": {},
	"internal/cudrv": {
		tests: []string{"internal/cudashim"},
	},
	"internal/invariants": {},
	"internal/jsontext": {
		mayNot: noIO,
	},
	"internal/testkit": {
		may: []string{"weights"},
	},
	"kvcache": {
		may:    []string{inv},
		tests:  []string{"internal/testkit"},
		mayNot: pure,
	},
	"metrics": {
		may:    []string{"engine"},
		tests:  []string{"backend", "backend/sim", "sampler"},
		mayNot: http,
	},
	"model": {
		may:    []string{"internal/jsontext", "backend", "weights"},
		tests:  []string{"device/cpu", "internal/testkit", "models"},
		mayNot: []string{"net", "github.com/valyala"},
	},
	"models": {
		mayNot: noIO,
	},
	"sampler": {
		may:    []string{"backend", inv},
		tests:  []string{"internal/testkit"},
		mayNot: pure,
	},
	"scheduler": {
		may:    []string{inv, "kvcache"},
		tests:  []string{"internal/testkit"},
		mayNot: pure,
	},
	"server": {
		may:    []string{"api", "auth", "engine", "feedback", "internal/jsontext", "metrics", "server/failure", "server/openai", "server/recording", "server/transport", "server/ui", "store", "trajectory", "trajectory/archive", "trajectory/export", "usage"},
		tests:  []string{inv, "backend", "backend/sim", "chat", "chat/jinja", "chat/reasoning", "device/cpu", "grammar", "internal/testkit", "model", "models", "sampler", "tokenizer", "weights"},
		mayNot: []string{"net/http"},
	},
	"server/failure": {
		may:    []string{"api", "engine", "feedback", "metrics", "store", "trajectory", "trajectory/archive"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "os", "github.com"},
	},
	"server/openai": {
		may:    []string{"api", "auth", "chat", "chat/reasoning", "engine", "grammar", "metrics", "sampler", "server/failure", "server/recording", "server/transport", "tokenizer"},
		tests:  []string{inv, "backend", "backend/sim", "internal/testkit", "models"},
		mayNot: []string{"net/http"},
	},
	"server/recording": {
		may:    []string{"api", "feedback", "internal/jsontext", "metrics", "server/failure", "store", "trajectory", "trajectory/archive", "trajectory/export"},
		mayNot: http,
	},
	"server/sdktest": {
		tests: []string{"backend", "backend/sim", "chat", "engine", "models", "server", "server/openai", "tokenizer"},
	},
	"server/transport": {
		may:    []string{"api", "auth", "metrics", "server/failure", "usage"},
		mayNot: []string{"net/http"},
	},
	"server/ui": {},
	"store": {
		tests:  []string{"internal/testkit"},
		mayNot: http,
	},
	"tokenizer": {
		may:    []string{"internal/jsontext"},
		tests:  []string{"internal/testkit"},
		mayNot: noIO,
	},
	"tools/peers": {
		may:   []string{"internal/jsontext"},
		tests: []string{"internal/testkit"},
	},
	"tools/release": {},
	"trajectory": {
		may:    []string{"internal/jsontext"},
		mayNot: noIO,
	},
	"trajectory/archive": {
		may:    []string{"internal/jsontext", "store", "trajectory"},
		tests:  []string{"internal/testkit"},
		mayNot: http,
	},
	"trajectory/export": {
		may:    []string{"internal/jsontext", "trajectory", "trajectory/archive"},
		tests:  []string{"store"},
		mayNot: http,
	},
	"usage": {
		tests:  []string{"internal/testkit"},
		mayNot: append([]string{"net"}, http...),
	},
	"weights": {
		may:    []string{"internal/jsontext"},
		tests:  []string{"internal/testkit"},
		mayNot: []string{"net", "github.com"},
	},
}

// testFree lists what any test file may import although its room may not.
var testFree = []string{"os", "io", "io/fs", "sync", "time", "context", "log", "net/http", "golang.org", "github.com"}

func TestImports(t *testing.T) {
	eachRoom(t, func(room, dir string) {
		r, ok := rules[room]
		if !ok {
			t.Errorf("%s: no rule; add one to internal/arch and to ARCHITECTURE.md", room)
			return
		}
		ctx := build.Default
		ctx.UseAllFiles = true // files behind tags count too
		p, err := ctx.ImportDir(dir, 0)
		if _, none := err.(*build.NoGoError); none {
			return
		}
		checkImports(t, room, r, p.Imports, false)
		checkImports(t, room, r, p.TestImports, true)
		checkImports(t, room, r, p.XTestImports, true)
	})
}

// checkImports holds the imports of a package, or of its tests, against its rule.
func checkImports(t *testing.T, room string, r rule, imports []string, test bool) {
	t.Helper()
	for _, imp := range imports {
		if ours, ok := strings.CutPrefix(imp, module); ok {
			if ours != room && !slices.Contains(r.may, ours) && !slices.Contains(r.may, "*") && !(test && slices.Contains(r.tests, ours)) {
				t.Errorf("%s must not import %s (ARCHITECTURE.md, the import table)", room, ours)
			}
			continue
		}
		free := test && slices.ContainsFunc(testFree, func(f string) bool { return under(imp, f) })
		if slices.ContainsFunc(r.mayNot, func(bad string) bool { return under(imp, bad) }) && !free {
			t.Errorf("%s must not import %s: pass what it needs as an argument", room, imp)
		}
	}
}

func under(path, prefix string) bool { return path == prefix || strings.HasPrefix(path, prefix+"/") }

// TestPureRooms: no goroutine and no channel in the rooms that are state machines.
func TestPureRooms(t *testing.T) {
	eachFile(t, func(room, path string, set *token.FileSet, f *ast.File) {
		if room != "scheduler" && room != "kvcache" && room != "sampler" || strings.HasSuffix(path, "_test.go") {
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt, *ast.ChanType:
				t.Errorf("%s: goroutines and channels belong to engine, not to %s", set.Position(n.Pos()), room)
			}
			return true
		})
	})
}

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

// Limits that keep a second noun from hiding.
const (
	maxLines   = 600
	maxFields  = 25
	maxMethods = 7
)

// wide lists the types that may pass the limits: wire types have as many fields
// as the interface has, model.Device as many methods as a decoder has operations.
var wide = []string{"api.", "compute.rowJSON", "model.Device"}

func TestSizes(t *testing.T) {
	eachFile(t, func(room, path string, set *token.FileSet, f *ast.File) {
		if ast.IsGenerated(f) {
			return
		}
		if n := set.File(f.Pos()).LineCount(); n > maxLines+1 {
			t.Errorf("%s has %d lines, more than %d: which second noun is hiding there?", path, n, maxLines)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			name := filepath.Base(room) + "." + spec.Name.Name
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

// TestNoSleep: a test that sleeps is slow, or wrong, or both. testing/synctest
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

// eachRoom calls f for every package that go build ./... sees.
func eachRoom(t *testing.T, f func(room, dir string)) {
	t.Helper()
	eachFolder(t, func(room, dir string) {
		if !strings.HasPrefix(room, "_") && !strings.Contains(room, "/_") {
			f(room, dir)
		}
	})
}

// eachFolder calls f for every folder with Go files: for packages, and for folders
// whose names begin with _, which have generators and tools with modules of their own.
func eachFolder(t *testing.T, f func(room, dir string)) {
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
func eachFile(t *testing.T, f func(room, path string, set *token.FileSet, file *ast.File)) {
	t.Helper()
	eachFolder(t, func(room, dir string) {
		names, _ := filepath.Glob(filepath.Join(dir, "*.go"))
		for _, name := range names {
			set := token.NewFileSet()
			file, err := parser.ParseFile(set, name, nil, parser.ParseComments|parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			f(room, name, set, file)
		}
	})
}
