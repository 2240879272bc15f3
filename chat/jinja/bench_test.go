package jinja

import (
	"os"
	"path/filepath"
	"testing"
)

// benchTemplates has a template of each style. WEIR_VECTORS adds real ones.
func benchTemplates(b *testing.B) map[string]string {
	paths := []string{"testdata/templates/headers.jinja", "testdata/templates/chatml_tools.jinja", "testdata/templates/typed_macros.jinja", "testdata/templates/weir_tiny.jinja"}
	if dir := os.Getenv("WEIR_VECTORS"); dir != "" {
		for _, name := range []string{"meta-llama-Llama-3.1-8B-Instruct", "Qwen-Qwen3-0.6B", "openai-gpt-oss-120b"} {
			paths = append(paths, filepath.Join(dir, "templates/llamacpp", name+".jinja"))
		}
	}
	out := map[string]string{}
	for _, p := range paths {
		src, err := os.ReadFile(p)
		if err != nil {
			b.Fatal(err)
		}
		out[filepath.Base(p)] = string(src)
	}
	return out
}

// BenchmarkRender: a chat of three messages, and a conversation of six with
// three tools.
func BenchmarkRender(b *testing.B) {
	var cases caseFile
	readJSON(b, "testdata/cases.json", &cases)
	for name, src := range benchTemplates(b) {
		tpl, err := Compile(src)
		if err != nil {
			b.Fatal(err)
		}
		for label, c := range map[string]string{"chat": "basic_gen", "tools": "tools_call_obj"} {
			vars := cases.vars(b, c)
			b.Run(name+"/"+label, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := tpl.Render(vars, Options{Now: goldenClock}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	for name, src := range benchTemplates(b) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Compile(src); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFromJSON(b *testing.B) {
	var cases caseFile
	readJSON(b, "testdata/cases.json", &cases)
	text := cases.Cases["tools_call_obj"]
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := FromJSON(text); err != nil {
			b.Fatal(err)
		}
	}
}
