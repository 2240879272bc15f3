package auth

import (
	"path/filepath"
	"testing"
)

// TestWeights: what one key of a tenant says counts for all of its keys, and not for other
// tenants. The most exact pattern decides about a project.
func TestWeights(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	writeFile(t, file, `keys:
  - {id: a, hash: "`+hash("a")+`", tenant: acme, weight: 3, project_weights: {"*": 2, "acme/*": 0.5, acme/chat: 4}}
  - {id: b, hash: "`+hash("b")+`", tenant: acme}
  - {id: c, hash: "`+hash("c")+`", tenant: acme, weight: 3.0, project_weights: {acme/eval: 1.004}}
  - {id: d, hash: "`+hash("d")+`", project_weights: {team/x: 100}}
  - {id: e, hash: "`+hash("e")+`", weight: 0.01}
`)
	k, err := New([]string{"plain"}, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, project string
		whole, part  Weight
	}{
		{"a", "acme/chat", 300, 400}, {"b", "acme/chat", 300, 400}, {"c", "acme/chat", 300, 400},
		{"b", "acme/other", 300, 50}, {"b", "acme2/chat", 300, 200}, {"b", "", 300, 200}, {"b", "acme", 300, 200}, {"a", "acme/eval", 300, 100},
		{"d", "team/x", 100, 10000}, {"d", "team/y", 100, 100}, {"d", "", 100, 100}, {"e", "acme/chat", 1, 100}, {"plain", "acme/chat", 100, 100},
	} {
		if whole, part := k.Weights(k.Token(c.key).Share, c.project); whole != c.whole || part != c.part {
			t.Errorf("key %s, project %q: %d and %d, want %d and %d", c.key, c.project, whole, part, c.whole, c.part)
		}
	}
	if whole, part := k.Weights("address 10.0.0.1", "acme/chat"); whole != UsualWeight || part != UsualWeight {
		t.Errorf("an address has %d and %d", whole, part)
	}
	writeFile(t, file, `keys: [{id: a, hash: "`+hash("a")+`", tenant: acme}]`)
	if err := k.Reload(); err != nil {
		t.Fatal(err)
	}
	if whole, part := k.Weights("tenant acme", "acme/chat"); whole != UsualWeight || part != UsualWeight {
		t.Errorf("after the file has changed: %d and %d", whole, part)
	}
}

// TestMaxPriority: what is more urgent than the bound counts as the bound.
func TestMaxPriority(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	writeFile(t, file, `keys: [{id: a, hash: "`+hash("a")+`", max_priority: 5}, {id: b, hash: "`+hash("b")+`"}, {id: c, hash: "`+hash("c")+`", max_priority: -2}]`)
	k, err := New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key         string
		asked, want int64
	}{
		{"a", 0, 5}, {"a", -9, 5}, {"a", 5, 5}, {"a", 6, 6}, {"b", -9, -9}, {"b", 0, 0}, {"b", 7, 7}, {"c", -9, -2}, {"c", 0, 0},
	} {
		if got := k.Token(c.key).Priority(c.asked); got != c.want {
			t.Errorf("key %s asks for %d and gets %d, want %d", c.key, c.asked, got, c.want)
		}
	}
	var nobody *Identity
	if got := nobody.Priority(-3); got != -3 {
		t.Errorf("without a key it is %d", got)
	}
}
