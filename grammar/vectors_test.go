package grammar

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestVectors(t *testing.T) {
	dir := os.Getenv("WEIR_VECTORS")
	if dir == "" {
		t.Skip("WEIR_VECTORS is not set: make vectors DIR=..")
	}
	root := filepath.Join(dir, "structured", "JSON-Schema-Test-Suite", "tests", "draft2020-12")
	counts := map[string]int{}
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimSuffix(strings.TrimPrefix(path, root+"/"), ".json")
		for _, g := range mustParse(t, text).([]any) {
			suiteGroup(t, name, g.(*object), counts)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(counts)
}

func suiteGroup(t *testing.T, file string, g *object, counts map[string]int) {
	tests := g.m["tests"].([]any)
	gr, err := compileFor(Spec{Kind: JSONSchema, Schema: []byte(dump(g.m["schema"]))}, testVocabulary)
	if err != nil {
		kind := "refused"
		if errors.Is(err, ErrUnsatisfiable) {
			kind = "unsatisfiable"
		}
		for _, x := range tests {
			valid := x.(*object).m["valid"] == true
			counts[kind]++
			if kind == "unsatisfiable" && valid {
				t.Logf("UNSAT %s: %s: %s", file, g.m["description"], x.(*object).m["description"])
			}
		}
		t.Logf("REFUSED %d %s: %s: %v", len(tests), file, g.m["description"], err)
		return
	}
	for _, x := range tests {
		c := x.(*object)
		text := dump(c.m["data"])
		ok := gr.accepts(text)
		switch valid := c.m["valid"] == true; {
		case ok == valid:
			counts["pass"]++
		case ok:
			counts["false accept"]++
			t.Errorf("FALSE ACCEPT %s: %s: %s: %.200s", file, g.m["description"], c.m["description"], text)
		default:
			counts["false reject"]++
			t.Logf("REJECT %s: %s: %s: %.100s", file, g.m["description"], c.m["description"], text)
		}
	}
}
