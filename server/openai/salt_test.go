package openai

import (
	"fmt"
	"testing"

	"weir/auth"
)

// Namespaces are scoped by tenant and project, and keyed by process.
func TestSalts(t *testing.T) {
	s, other := newSalter(nil), newSalter(nil)
	one := &auth.Identity{Share: "tenant one", Projects: []string{"*"}}
	two := &auth.Identity{Share: "tenant two", Projects: []string{"*"}}
	all := map[[16]byte]string{}
	for _, c := range []struct {
		who           *auth.Identity
		project, salt string
	}{
		{auth.Anonymous, "", ""}, {auth.Anonymous, "", "a"}, {auth.Anonymous, "a/b", ""}, {auth.Anonymous, "a/c", ""}, {auth.Anonymous, "a/b", "c"},
		{auth.Anonymous, "a/bc", ""}, {auth.Anonymous, "", "a/bc"}, {auth.Anonymous, "a/", "bc"},
		{one, "", ""}, {two, "", ""}, {one, "a/b", ""}, {two, "a/b", ""}, {one, "", "a"}, {two, "", "a"},
	} {
		v, name := s.salt(c.who, c.project, c.salt), fmt.Sprintf("%s|%s|%s", c.who.Share, c.project, c.salt)
		if before, ok := all[v]; ok {
			t.Errorf("%s has the salt of %s", name, before)
		}
		all[v] = name
		if v != s.salt(c.who, c.project, c.salt) {
			t.Errorf("%s: two salts", name)
		}
		if v == other.salt(c.who, c.project, c.salt) {
			t.Errorf("%s: the salt of another process", name)
		}
	}
	// With a key that is kept, another process makes the same salts.
	kept, again := newSalter(&s.key), newSalter(&other.key)
	if kept.salt(one, "a/b", "x") != s.salt(one, "a/b", "x") || again.salt(one, "a/b", "x") == s.salt(one, "a/b", "x") {
		t.Error("salts do not depend on the key that is kept")
	}
	// Keys of different tenants share a project that both are named for.
	team := &auth.Identity{Share: "tenant one", Projects: []string{"x/y", "a/*"}}
	mate := &auth.Identity{Share: "tenant two", Projects: []string{"a/b"}}
	if s.salt(team, "a/b", "") != s.salt(mate, "a/b", "") {
		t.Error("keys that are named for a project do not share its prefixes")
	}
	if s.salt(team, "a/b", "") == s.salt(one, "a/b", "") || s.salt(team, "", "") == s.salt(mate, "", "") {
		t.Error("keys share more than the project that they are named for")
	}
}
