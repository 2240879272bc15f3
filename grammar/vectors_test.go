package grammar

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestVectors runs the vectors of make vectors, which may be newer than those in
// testdata.
func TestVectors(t *testing.T) {
	dir := os.Getenv("WEIR_VECTORS")
	if dir == "" {
		t.Skip("WEIR_VECTORS is not set: make vectors DIR=..")
	}
	dir = filepath.Join(dir, "structured")
	t.Run("JSON-Schema-Test-Suite", func(t *testing.T) {
		suiteFiles(t, filepath.Join(dir, "JSON-Schema-Test-Suite", "tests", "draft2020-12"))
	})
	t.Run("llama.cpp", func(t *testing.T) {
		llamaCases(t, readFile(t, filepath.Join(dir, "llamacpp_grammar_integration.json")))
	})
	t.Run("llama.cpp schemas", func(t *testing.T) { llamaSchemas(t, filepath.Join(dir, "llamacpp_json_schema_to_grammar.json")) })
	t.Run("gbnf", func(t *testing.T) { gbnfFiles(t, filepath.Join(dir, "gbnf", "*.gbnf")) })
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// suiteFiles runs the files of JSON-Schema-Test-Suite under root.
func suiteFiles(t *testing.T, root string) {
	res := suiteResult{rejected: make(map[string]int)}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".json")
		res.run(t, name, "", mustParse(t, readFile(t, path)).([]any))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", res)
	if res.falsely > 0 || res.passed < 280 {
		t.Errorf("%+v", res)
	}
}

// gbnfFiles compiles llama.cpp's example grammars.
func gbnfFiles(t *testing.T, pattern string) {
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	for _, f := range files {
		if _, err := compileFor(notation(string(readFile(t, f))), testVocabulary); err != nil {
			t.Errorf("%s: %v", filepath.Base(f), err)
		}
	}
}

// llamaSchemas compiles the schemas of llama.cpp's tests and the grammars it makes
// of them.
func llamaSchemas(t *testing.T, path string) {
	text := readFile(t, path)
	var cases []struct{ Status, Name, Schema, Gbnf string }
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		if c.Status != "SUCCESS" {
			continue
		}
		if _, err := compileFor(Spec{Kind: Notation, Text: c.Gbnf}, testVocabulary); err != nil {
			t.Errorf("%s: grammar: %v", c.Name, err)
		}
		if _, err := compileFor(Spec{Kind: JSONSchema, Schema: []byte(c.Schema)}, testVocabulary); err != nil {
			t.Logf("%s: schema: %v", c.Name, err)
		}
	}
}
