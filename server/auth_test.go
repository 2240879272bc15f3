package server

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/auth"
)

// Spec chat-completions 1.4, C6 and C7.
func TestKeys(t *testing.T) {
	k, err := auth.New([]string{"secret", "other key"}, "")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{keys: k}
	for _, c := range []struct {
		authorization, xAPIKey string
		want                   bool
	}{
		{"Bearer secret", "", true},
		{"bearer secret", "", true},
		{"BEARER secret", "", true},
		{"Bearer other key", "", true}, // split at the first space alone
		{"", "secret", true},
		{"Bearer wrong", "secret", true},
		{"", "", false},
		{"secret", "", false},
		{"Bearer", "", false},
		{"Bearer ", "", false},
		{"Bearer  secret", "", false}, // the token begins with a space
		{"Bearer secret ", "", false},
		{"Basic secret", "", false},
		{"Bearer SECRET", "", false},
		{"Bearer secre", "wrong", false},
		{"", "Bearer secret", false},
	} {
		if got := s.sender(false, c.authorization, c.xAPIKey) != nil; got != c.want {
			t.Errorf("accept(%q, %q) = %v", c.authorization, c.xAPIKey, got)
		}
	}
}

// A key of the credentials file is for some projects and models, and shows its
// projects' usage alone.
func TestKeyRights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	sum := func(s string) [32]byte { return sha256.Sum256([]byte(s)) }
	if err := os.WriteFile(file, fmt.Appendf(nil, "keys:\n"+
		"  - {id: a, hash: \"sha256:%x\", projects: [\"acme/*\"]}\n"+
		"  - {id: b, hash: \"sha256:%x\", models: [other, alias]}\n"+
		"  - {id: c, hash: \"sha256:%x\", models: [other]}\n", sum("ka"), sum("kb"), sum("kc")), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	h := newHouse(t, func(s *setup) { s.cfg.Keys = keys })
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
		status, text := h.chat(nil, "Authorization: Bearer "+c.key, "Compat-Project: "+c.project)
		if status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%s in %q: %d %s", c.key, c.project, status, text)
		}
	}
	for key, want := range map[string]string{"ka": "acme/x", "kb": "acme/x lab/x"} {
		_, text, _ := h.get("GET", "/usage", "", "Authorization: Bearer "+key)
		for _, p := range []string{"acme/x", "lab/x"} {
			if strings.Contains(text, p) != strings.Contains(want, p) {
				t.Errorf("%s: %s", key, text)
			}
		}
	}
}

func TestParseProject(t *testing.T) {
	long := strings.Repeat("x", maxProject)
	for _, c := range []struct {
		compat, openai, want string
		bad                  bool
	}{
		{"", "", "", false},
		{"team/project", "", "team/project", false},
		{"team/project", "proj_123", "team/project", false},
		{"team/project", "a/b", "team/project", false}, // the first of the two wins
		{"", "a/b", "a/b", false},
		{"", "proj_123", "", false}, // OpenAI's own kind of name
		{"", "a/b/c", "", true},
		{"team", "", "", true},
		{"/p", "", "", true},
		{"t/", "", "", true},
		{"/", "", "", true},
		{"a/b/c", "", "", true},
		{"a b/c", "", "", true},
		{"a/\x01", "", "", true},
		{"a/é", "", "", true},
		{"a/" + long, "", "", true},
	} {
		got, err := parseProject(c.compat, c.openai)
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("parseProject(%q, %q) = %q, %v", c.compat, c.openai, got, err)
		}
		if err != nil && err.Status != 400 {
			t.Errorf("status %d, want 400", err.Status)
		}
	}
}

// Decision 26: namespaces are scoped by project and keyed by process.
func TestSalts(t *testing.T) {
	s, other := newSalter(), newSalter()
	all := map[[16]byte]string{}
	for _, c := range [][2]string{{"", ""}, {"", "a"}, {"a/b", ""}, {"a/c", ""}, {"a/b", "c"}, {"a/bc", ""}, {"", "a/bc"}, {"a/", "bc"}} {
		v := s.salt(c[0], c[1])
		if before, ok := all[v]; ok {
			t.Errorf("%q has the salt of %q", c, before)
		}
		all[v] = strings.Join(c[:], "|")
		if v != s.salt(c[0], c[1]) {
			t.Errorf("%q: two salts", c)
		}
		if v == other.salt(c[0], c[1]) {
			t.Errorf("%q: the salt of another process", c)
		}
	}
}
