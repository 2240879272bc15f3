package server

import (
	"strings"
	"testing"

	"github.com/valyala/fasthttp"

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
		if got := s.admit(&call{RequestCtx: &fasthttp.RequestCtx{}}, byKey, false, c.authorization, c.xAPIKey); got != c.want {
			t.Errorf("accept(%q, %q) = %v", c.authorization, c.xAPIKey, got)
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
