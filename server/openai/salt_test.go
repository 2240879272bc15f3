package openai

import (
	"strings"
	"testing"
)

// Namespaces are scoped by project and keyed by process.
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
