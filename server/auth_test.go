package server_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/auth"
	"weir/server/servertest"
)

// A key of the credentials file is for some projects and models, and shows its
// projects' usage alone.
func TestKeyRights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	sum := func(s string) [32]byte { return sha256.Sum256([]byte(s)) }
	if err := os.WriteFile(file, fmt.Appendf(nil, "keys:\n"+
		"  - {id: a, hash: \"sha256:%x\", projects: [\"acme/*\"]}\n"+
		"  - {id: b, hash: \"sha256:%x\", models: [other, alias]}\n"+
		"  - {id: c, hash: \"sha256:%x\", models: [other]}\n"+
		"  - {id: chief, hash: \"sha256:%x\", models: [tiny], rights: [admin]}\n"+
		"  - {id: writer, hash: \"sha256:%x\", rights: [read, write]}\n", sum("ka"), sum("kb"), sum("kc"), sum("chief"), sum("writer")), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, func(s *servertest.Setup) {
		s.Config.Keys = keys
		s.Config.Functions.Dev, s.Config.Functions.TokenizerInfo = true, true
	})
	for _, c := range []struct {
		key, project string
		status       int
		text         string
	}{
		{"ka", "acme/x", 200, ""},
		{"ka", "", 200, ""},
		{"ka", "lab/x", 403, `"type":"PermissionDeniedError"`},
		{"kb", "lab/x", 200, ""},
		{"kc", "lab/x", 403, "The key is not for the model tiny."},
		{"kd", "lab/x", 401, ""},
	} {
		status, text := h.Chat(nil, "Authorization: Bearer "+c.key, "Compat-Project: "+c.project)
		if status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s in %q: %d %s", c.key, c.project, status, text)
		}
	}
	for key, want := range map[string]string{"ka": "acme/x", "kb": "acme/x lab/x"} {
		_, text, _ := h.Get("GET", "/usage", "", "Authorization: Bearer "+key)
		for _, p := range []string{"acme/x", "lab/x"} {
			if strings.Contains(text, p) != strings.Contains(want, p) {
				t.Errorf("%s: %s", key, text)
			}
		}
	}
	// Every function that works on the model asks for it; only one with the right to
	// administrate resets what all share.
	chat := `{"messages": [{"role": "user", "content": "a"}]}`
	for _, c := range []struct{ method, path, body string }{
		{"POST", "/v1/chat/completions", chat}, {"POST", "/v1/chat/completions/render", chat},
		{"POST", "/v1/completions", `{"prompt": "a"}`}, {"POST", "/v1/completions/render", `{"prompt": "a"}`},
		{"POST", "/tokenize", `{"prompt": "a"}`}, {"POST", "/tokenize", chat}, {"POST", "/detokenize", `{"tokens": [1]}`},
		{"GET", "/tokenizer_info", ""},
	} {
		for key, want := range map[string]int{"kb": 200, "kc": 403, "chief": 200} {
			status, text, _ := h.Get(c.method, c.path, c.body, "Authorization: Bearer "+key, "Content-Type: application/json")
			if status != want || want == 403 && !strings.Contains(text, "The key is not for the model tiny.") {
				t.Errorf("%s, %s: %d %s", c.path, key, status, text)
			}
		}
	}
	for request, want := range map[string]int{
		"writer /reset_prefix_cache": 403, "ka /reset_prefix_cache": 403, "chief /reset_prefix_cache": 200, "writer /flush_cache": 403, "ka /flush_cache": 403, "chief /flush_cache": 200,
	} {
		key, path, _ := strings.Cut(request, " ")
		if status, text, _ := h.Get("POST", path, "", "Authorization: Bearer "+key); status != want {
			t.Errorf("%s: %d %s", request, status, text)
		}
	}
}

// TestDefaultProject: the project of a key is that of its requests that name none, whose headers a router has dropped
// (docs/interface/routers.md, G-20).
func TestDefaultProject(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "keys:\n  - {id: a, hash: \"sha256:%x\", projects: [\"acme/*\"], default_project: acme/x}\n", sha256.Sum256([]byte("ka"))), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newServer(t, func(s *servertest.Setup) { s.Config.Keys = keys })
	for _, c := range []struct{ path, body, project string }{
		{servertest.ChatPath, `{"messages":[{"role":"user","content":"a"}]}`, ""}, {"/generate", `{"text":"a"}`, "OpenAI-Project: proj_1"}, {servertest.TextPath, `{"prompt":"a"}`, "Compat-Project: acme/y"},
	} {
		if status, text, _ := h.Get("POST", c.path, c.body, "Authorization: Bearer ka", c.project); status != 200 {
			t.Errorf("%s: %d %s", c.path, status, text)
		}
	}
	_, text, _ := h.Get("GET", "/usage", "", "Authorization: Bearer ka")
	for _, want := range []string{`"project":"acme/x","requests":2,`, `"project":"acme/y","requests":1,`} {
		if !strings.Contains(text, want) {
			t.Errorf("%s, want %s", text, want)
		}
	}
}

// TestAffinity: headers that say which requests belong together come back, unless they are none (docs/interface/routers.md, G-21).
func TestAffinity(t *testing.T) {
	h := newServer(t, nil)
	names := []string{"X-Session-Id", "X-Session-Affinity", "X-Correlation-Id", "X-Smg-Routing-Key", "X-Dynamo-Session-Id"}
	for value, want := range map[string]string{"s 1": "s 1", strings.Repeat("x", 512): strings.Repeat("x", 512), strings.Repeat("x", 513): "", "é": ""} {
		var headers []string
		for _, name := range names {
			headers = append(headers, name+": "+value)
		}
		for path, body := range map[string]string{"/v1/chat/completions": `{"messages":[{"role":"user","content":"a"}],"stream":true}`, "/generate": `{`} {
			_, _, header := h.Get("POST", path, body, headers...)
			for _, name := range names {
				if got := header.Get(name); got != want {
					t.Errorf("%s: %s: %.20q, want %.20q", path, name, got, want)
				}
			}
		}
	}
}
