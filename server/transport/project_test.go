package transport

import (
	"strings"
	"testing"
)

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
