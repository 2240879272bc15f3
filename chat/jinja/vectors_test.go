package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// vectorsDir returns the directory that WEIR_VECTORS names (make vectors DIR=...). It has
// real chat templates, which because of their licences cannot be in the repository, and the
// texts that Jinja2 3.1.6 makes with them.
func vectorsDir(t *testing.T) string {
	dir := os.Getenv("WEIR_VECTORS")
	if dir == "" {
		t.Skip("WEIR_VECTORS is not set")
	}
	return filepath.Join(dir, "templates")
}

// TestVectorsTemplates: 127 templates by 23 requests.
func TestVectorsTemplates(t *testing.T) {
	dir := vectorsDir(t)
	var cases caseFile
	readJSON(t, filepath.Join(dir, "cases.json"), &cases)
	var expected []struct {
		result
		Template, Case string
	}
	readJSON(t, filepath.Join(dir, "expected_jinja2.json"), &expected)
	type compiled struct {
		t   *Template
		err error
	}
	templates := map[string]compiled{}
	for _, e := range expected {
		c, ok := templates[e.Template]
		if !ok {
			src, err := os.ReadFile(filepath.Join(dir, e.Template))
			if err != nil {
				t.Fatal(err)
			}
			c.t, c.err = Compile(string(src))
			templates[e.Template] = c
		}
		t.Run(e.Template+"/"+e.Case, func(t *testing.T) {
			check(t, c.t, c.err, cases.vars(t, e.Case), e.result)
		})
	}
	if len(templates) != 127 || len(expected) != 127*23 {
		t.Errorf("%d templates, %d renders", len(templates), len(expected))
	}
}

// TestVectorsEndToEnd: 53 pairs of a template and a conversation.
func TestVectorsEndToEnd(t *testing.T) {
	dir := vectorsDir(t)
	var cases []struct {
		Name, Template string
		Context        json.RawMessage
	}
	readJSON(t, filepath.Join(dir, "hfjs_e2e_cases.json"), &cases)
	var expected []struct {
		result
		Name, Template string
	}
	readJSON(t, filepath.Join(dir, "hfjs_e2e_expected_jinja2.json"), &expected)
	if len(cases) != 53 || len(expected) != 53 {
		t.Fatalf("%d cases, %d results", len(cases), len(expected))
	}
	for i, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if expected[i].Name != c.Name {
				t.Fatalf("result of %s", expected[i].Name)
			}
			src, err := os.ReadFile(filepath.Join(dir, c.Template))
			if err != nil {
				t.Fatal(err)
			}
			tpl, err := Compile(string(src))
			check(t, tpl, err, mustJSON(t, c.Context), expected[i].result)
		})
	}
}

// TestVectorsUnit: 493 small templates from the suites of llama.cpp and
// huggingface.js.
func TestVectorsUnit(t *testing.T) {
	dir := vectorsDir(t)
	var cases []struct {
		result
		Src, Name, Template string
		Context             json.RawMessage
	}
	readJSON(t, filepath.Join(dir, "unit_cases_jinja2.json"), &cases)
	if len(cases) != 493 {
		t.Errorf("%d cases", len(cases))
	}
	for _, c := range cases {
		t.Run(c.Src+"/"+strings.ReplaceAll(c.Name, "/", "|"), func(t *testing.T) {
			tpl, err := Compile(c.Template)
			check(t, tpl, err, mustJSON(t, c.Context), c.result)
			if t.Failed() {
				t.Logf("template %q", c.Template)
			}
		})
	}
}
