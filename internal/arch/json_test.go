package arch

import (
	"go/ast"
	"go/token"
	"strconv"
	"strings"
	"testing"
)

// jsonImports says who may import a package that decodes or encodes JSON: these packages,
// and those below them, with the reason. Everybody else uses internal/jsontext, so that
// every text is scanned by one scanner before anything decodes it. Tests compare with
// encoding/json, so they may import it.
var jsonImports = map[string]map[string]string{
	"github.com/goccy/go-json": {
		"internal/jsontext": "it is the entry point",
	},
	"encoding/json": {
		"examples": "they show programs of others, which have no internal/jsontext",
	},
}

// TestJSONImports: JSON is decoded and encoded through internal/jsontext only.
func TestJSONImports(t *testing.T) {
	used := map[[2]string]bool{} // what is imported, and the package of the list
	eachFile(t, func(pkg, path string, set *token.FileSet, f *ast.File) {
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		for _, spec := range f.Imports {
			imported, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			who, refused := jsonImporter(pkg, imported)
			if refused {
				t.Errorf("%s: use internal/jsontext instead of %s", set.Position(spec.Pos()), imported)
			}
			used[[2]string{imported, who}] = true
		}
	})
	for imported, may := range jsonImports {
		for who := range may {
			if !used[[2]string{imported, who}] {
				t.Errorf("%s is listed as importing %s and does not", who, imported)
			}
		}
	}
}

// jsonImporter tells whether a package must not import another because of jsonImports. who
// is the package of the list that allows it.
func jsonImporter(pkg, imported string) (who string, refused bool) {
	if imported == "encoding/json/v2" || imported == "encoding/json/jsontext" {
		return "", true
	}
	may, restricted := jsonImports[imported]
	for who := range may {
		if under(pkg, who) {
			return who, false
		}
	}
	return "", restricted
}
