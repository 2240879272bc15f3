package grammar

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The vectors themselves, for when they are newer than what testdata holds.
func TestVectors(t *testing.T) {
	dir := os.Getenv("WEIR_VECTORS")
	if dir == "" {
		t.Skip("WEIR_VECTORS is not set: make vectors DIR=..")
	}
	dir = filepath.Join(dir, "structured")
	t.Run("JSON-Schema-Test-Suite", func(t *testing.T) {
		root := filepath.Join(dir, "JSON-Schema-Test-Suite", "tests", "draft2020-12")
		var res suiteResult
		err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			res.run(t, strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".json"), mustParse(t, text).([]any))
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", res)
		if res.falseAccepts > 0 || res.passed < 934 {
			t.Errorf("%+v", res)
		}
	})
	t.Run("llama.cpp", func(t *testing.T) {
		text, err := os.ReadFile(filepath.Join(dir, "llamacpp_grammar_integration.json"))
		if err != nil {
			t.Fatal(err)
		}
		llamaCases(t, text)
	})
	t.Run("llama.cpp schemas", func(t *testing.T) { llamaSchemas(t, filepath.Join(dir, "llamacpp_json_schema_to_grammar.json")) })
	t.Run("gbnf", func(t *testing.T) {
		files, err := filepath.Glob(filepath.Join(dir, "gbnf", "*.gbnf"))
		if err != nil || len(files) == 0 {
			t.Fatal(err, files)
		}
		for _, f := range files {
			text, err := os.ReadFile(f)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := compileFor(Spec{Kind: Notation, Text: string(text)}, testVocabulary); err != nil {
				t.Errorf("%s: %v", filepath.Base(f), err)
			}
		}
	})
}

// llamaSchemas compiles the schemas of llama.cpp's tests and the grammars it makes
// of them.
func llamaSchemas(t *testing.T, path string) {
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
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
