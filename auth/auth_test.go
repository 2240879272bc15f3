package auth

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func hash(key string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(key))) }

// TestParse: docs/interface/feedback.md, F-3, and docs/interface/chat-completions.md, section
// 1.4.
func TestParse(t *testing.T) {
	b64 := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, c := range []struct {
		header           string
		scheme           Scheme
		username, secret string
	}{
		{"", None, "", ""},
		{"Bearer k", Bearer, "", "k"},
		{"bearer k k", Bearer, "", "k k"},
		{"Bearer", Bearer, "", ""},
		{"Bearer  k", Bearer, "", " k"},
		{"Basic " + b64("api:k"), Basic, "api", "k"},
		{"bAsIc " + b64("api:k:with:colons"), Basic, "api", "k:with:colons"},
		{"Basic " + strings.TrimRight(b64("api:kk"), "="), Basic, "api", "kk"},
		{"Basic " + b64(":k"), Basic, "", "k"},
		{"Basic " + b64("none"), Other, "", ""},
		{"Basic ???", Other, "", ""},
		{"Basic", Other, "", ""},
		{"Digest x", Other, "", ""},
		{"k", Other, "", ""},
	} {
		s, u, p := Parse(c.header)
		if s != c.scheme || u != c.username || p != c.secret {
			t.Errorf("%q: %v %q %q", c.header, s, u, p)
		}
	}
}

// credentials is a file with keys of several kinds.
var credentials = `keys:
  - {id: full, hash: "` + hash("k1") + `"}
  - id: ci
    hash: ` + hash("k2") + `
    user: u-17
    tenant: acme
    projects: ["acme/*", lab/evals]
    models: [small]
    rights: [read]
    expires: 2030-01-01T00:00:00Z
  - {id: alice, username: alice, hash: "` + hash("pw:1") + `"}
`

func writeFile(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// newKeyring returns a keyring with the key "plain" and a file with credentials, in 2029.
func newKeyring(t *testing.T) (k *Keyring, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "keys.yaml")
	writeFile(t, file, credentials)
	k, err := New([]string{"plain"}, file)
	if err != nil {
		t.Fatal(err)
	}
	k.now = func() time.Time { return time.Date(2029, 1, 1, 0, 0, 0, 0, time.UTC) }
	return k, file
}

// TestPassword: with the name "api", or none, the password is a token. With another name it
// is that user's password, which is not a token.
func TestPassword(t *testing.T) {
	k, _ := newKeyring(t)
	for _, c := range []struct{ username, password, user string }{
		{"api", "plain", "api"}, {"", "plain", "api"}, {"bob", "plain", ""},
		{"api", "k1", "full"}, {"", "k2", "u-17"}, {"api", "k3", ""}, {"", "", ""}, {"api", "", ""},
		{"alice", "pw:1", "alice"}, {"alice", "k1", ""}, {"api", "pw:1", ""}, {"", "pw:1", ""}, {"Alice", "pw:1", ""},
	} {
		got := ""
		if id := k.Password(c.username, c.password); id != nil {
			got = id.User
		}
		if got != c.user {
			t.Errorf("%s:%s belongs to %q, want %q", c.username, c.password, got, c.user)
		}
	}
	if k.Token("pw:1") != nil {
		t.Error("a password is accepted as a token")
	}
}

// TestIdentity: an identity has what the file says, and defaults for the rest.
func TestIdentity(t *testing.T) {
	k, _ := newKeyring(t)
	id := k.Token("k2")
	for _, c := range []struct {
		right   Rights
		project string
		want    bool
	}{
		{Read, "acme/a", true}, {Read, "lab/evals", true}, {Read, "lab/evals2", false}, {Read, "acme2/a", false},
		{Write, "acme/a", false}, {Read | Write, "acme/a", false}, {Admin, "acme/a", false},
	} {
		if got := id.May(c.right, c.project); got != c.want {
			t.Errorf("May(%v, %s) = %v", c.right, c.project, got)
		}
	}
	if !id.MayUse("small") || id.MayUse("large") || id.Tenant != "acme" {
		t.Errorf("%+v", id)
	}
	full := k.Token("k1")
	if !full.May(Read|Write, "any/thing") || full.May(Admin, "any/thing") || full.Tenant != "full" {
		t.Errorf("%+v", full)
	}
}

// TestExpires: a key is valid until the second at which it expires.
func TestExpires(t *testing.T) {
	k, _ := newKeyring(t)
	expiry := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	for now, valid := range map[time.Time]bool{expiry.Add(-time.Second): true, expiry: false} {
		k.now = func() time.Time { return now }
		if got := k.Token("k2") != nil; got != valid {
			t.Errorf("at %v the key is valid: %v", now, got)
		}
	}
}

// TestBrokenFile: a file with an error is refused as a whole, and the keys before stay valid.
func TestBrokenFile(t *testing.T) {
	k, file := newKeyring(t)
	key := func(rest string) string { return "keys: [{id: a, hash: \"" + hash("x") + "\"" + rest + "}]" }
	pair := func(one, two string) string {
		return "keys:\n  - {id: a, hash: " + hash("x") + ", tenant: t, " + one + "}\n  - {id: b, hash: " + hash("y") + ", tenant: t, " + two + "}\n"
	}
	for _, bad := range []string{
		"keys: 5", "key: []", "keys: [{id: a}]", "keys: [{hash: \"" + hash("x") + "\"}]", "keys: [{id: a, hash: sha256:00}]",
		key(", projects: [a]"), key(`, projects: ["*/b"]`), key(", rights: [all]"), key(", expires: tomorrow"),
		key(", colour: red"), key("") + "\n---\n" + key(""), key("") + "\n---\n: [",
		key(", weight: 0"), key(", weight: -1"), key(", weight: 0.001"), key(", weight: 101"), key(", weight: .nan"), key(", weight: .inf"), key(", weight: heavy"),
		key(", project_weights: {a: 1}"), key(`, project_weights: {"*/b": 1}`), key(", project_weights: {a/b: 0}"), key(", project_weights: {a/b: }"),
		key(", default_project: a"), key(`, default_project: "a/*"`), key(`, projects: ["a/*"], default_project: b/c`), key(", default_project: null"),
		key(", project_weights: 3"), key(", max_priority: high"), key(", max_priority: 1.5"),
		// Keys of a tenant that contradict each other.
		pair("weight: 2", "weight: 3"), pair("project_weights: {a/b: 2, a/c: 1}", "project_weights: {a/c: 1, a/b: 3}"),
		// Limits that are none, or that nobody could tell apart.
		key(", limits: {}"), key(", limits: 5"), key(", limits: {concurrency: 0}"), key(", limits: {tokens_per_day: -1}"), key(", limits: {max_tokens: 1.5}"),
		key(", limits: {concurrency: 1, tokens_per_minute: null}"), key(", limits: {requests_per_minute: 2000000000000000}"), key(", limits: {rpm: 1}"),
		"keys:\n  - {id: a, hash: " + hash("x") + ", limits: {concurrency: 1}}\n  - {id: a, hash: " + hash("y") + "}\n",
		"keys:\n  - {id: a, hash: " + hash("x") + "}\n  - {id: a, hash: " + hash("y") + ", limits: {concurrency: 1}}\n",
		"keys: [{id: api-key, hash: \"" + hash("x") + "\", limits: {concurrency: 1}}]",
		// Members without a value, which would be as absent: bounds that were cut off.
		key(", projects: null"), key(", projects: "), key(", models: ~"), key(", rights: null"), key(", expires: null"), key(`, expires: ""`),
		key(", user: null"), key(`, tenant: ""`), key(", username: null"), key(", limits: null"), key(", weight: null"), key(", max_priority: null"), key(", project_weights: null"),
		"keys:\n  - id: a\n    hash: " + hash("x") + "\n    projects:\n      # - acme/*\n",
		// One key with two meanings.
		"keys:\n  - {id: a, hash: " + hash("x") + "}\n  - {id: b, hash: " + hash("x") + ", rights: [read]}\n",
		// Files that are empty or were cut.
		"", "\n", "# keys\n", "---\n", "---\n# keys\n...\n", "keys:", "keys: null\n", "{}", "keys: [", "keys:\n  -", "keys:\n  - id: a\n", key(`, username: "a:b"`), "\x00",
	} {
		writeFile(t, file, bad)
		if err := k.Reload(); err == nil {
			t.Errorf("%q is accepted", bad)
		}
		if k.Token("k1") == nil || !k.Stale() {
			t.Fatalf("with %q the keys before are gone, or not called stale", bad)
		}
		if _, err := New(nil, file); err == nil {
			t.Errorf("a keyring begins with %q", bad)
		}
	}
	writeFile(t, file, credentials)
	if err := k.Reload(); err != nil || k.Stale() {
		t.Errorf("the file that was mended: %v, stale %v", err, k.Stale())
	}
	writeFile(t, file, key(", limits: {concurrency: 0}"))
	if _, err := New(nil, file); err == nil || !strings.Contains(err.Error(), "key 1 (a)") {
		t.Errorf("the error for a limit is %v", err)
	}
}

// TestLimits: the limits of a key are those that the file has now, whenever its identity was made.
func TestLimits(t *testing.T) {
	k, file := newKeyring(t)
	key := func(limits string) string {
		return "keys: [{id: a, hash: \"" + hash("x") + "\"" + limits + "}, {id: b, hash: \"" + hash("y") + "\"}]"
	}
	if k.Limits("a") != nil || k.Limits("api-key") != nil {
		t.Error("there are limits that nobody has set")
	}
	for _, c := range []struct {
		file string
		want *Limits
	}{
		{", limits: {requests_per_minute: 1, tokens_per_minute: 2, tokens_per_day: 3, concurrency: 4, max_tokens: 5}", &Limits{1, 2, 3, 4, 5}},
		{", limits: {concurrency: 1125899906842624}", &Limits{Concurrency: 1 << 50}},
		{"", nil},
	} {
		writeFile(t, file, key(c.file))
		if err := k.Reload(); err != nil {
			t.Fatal(err)
		}
		got, of := k.Limits("a"), k.Token("x").Limits
		if (got == nil) != (c.want == nil) || got != of || got != nil && *got != *c.want {
			t.Errorf("%q: %+v and %+v, want %+v", c.file, got, of, c.want)
		}
		if k.Limits("b") != nil || k.Limits("") != nil {
			t.Error("another key has limits")
		}
	}
}

// TestRevokeAll: an empty list of keys is meant, unlike an empty file.
func TestRevokeAll(t *testing.T) {
	for _, none := range []string{"keys: []", `{"keys": []}`, "keys: []\n# end\n"} {
		k, file := newKeyring(t)
		writeFile(t, file, none)
		if err := k.Reload(); err != nil || k.Token("k1") != nil || k.Token("plain") == nil || k.Stale() {
			t.Errorf("%q: %v, k1 %v, plain %v", none, err, k.Token("k1"), k.Token("plain"))
		}
	}
}

// TestMarker: once a file in use ended in the marker, one without it was cut, wherever. A
// broken file does not bring the marker into use.
func TestMarker(t *testing.T) {
	k, file := newKeyring(t)
	load := func(text string) error { writeFile(t, file, text); return k.Reload() }
	if load(credentials+"colour: red\n# end\n") == nil || load(credentials) != nil {
		t.Error("a broken file with the marker counts")
	}
	whole := credentials + "# end\n"
	for _, end := range []string{"# end", "# end\n", "  # end\r\n\n"} {
		if err := load(credentials + end); err != nil {
			t.Errorf("%q: %v", end, err)
		}
	}
	// The cut is after each line, and within the last one.
	for i := range whole {
		if whole[i] != '\n' && i < len(credentials) || i+2 > len(whole) {
			continue
		}
		if err := load(whole[:i]); err == nil || k.Token("k1") == nil || k.Token("k2") == nil || !k.Stale() {
			t.Fatalf("cut after %d bytes: %v", i, err)
		}
	}
	if load("keys: []") == nil || load("keys: []\n# end") != nil || k.Token("k1") != nil {
		t.Error("keys are revoked without the marker, or not with it")
	}
}

// TestOpen: only without keys and without a file nobody needs credentials.
func TestOpen(t *testing.T) {
	if k, _ := newKeyring(t); k.Open() {
		t.Error("a keyring with keys is open")
	}
	if _, err := New([]string{""}, ""); err == nil {
		t.Error("an empty key is accepted")
	}
	k, err := New(nil, "")
	if err != nil || !k.Open() || k.Token("") != nil {
		t.Errorf("without keys: %v", err)
	}
}

// TestWatch: a changed file is read. A broken one is not used, and that is logged once.
func TestWatch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	version := 0
	write := func(s string) {
		t.Helper()
		next := file + ".new"
		if err := os.WriteFile(next, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		version++
		at := time.Now().Add(time.Duration(version) * time.Second)
		if err := os.Chtimes(next, at, at); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(next, file); err != nil {
			t.Fatal(err)
		}
	}
	said := make(chan string)
	log := slog.New(slog.NewTextHandler(lines(said), nil))
	write("keys: [{id: a, hash: \"" + hash("one") + "\"}]")
	k, err := New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); k.Watch(ctx, time.Millisecond, log) }()
	for _, c := range []struct {
		text, say string
		one, two  bool
	}{
		{"keys: [{id: a, hash: \"" + hash("two") + "\"}]", "read anew", false, true},
		{"nonsense", "stay valid", false, true},
		{"keys: [{id: a, hash: \"" + hash("one") + "\"}]", "read anew", true, false},
	} {
		write(c.text)
		if s := <-said; !strings.Contains(s, c.say) {
			t.Errorf("the log says %q", s)
		}
		if (k.Token("one") != nil) != c.one || (k.Token("two") != nil) != c.two {
			t.Errorf("%q: one %v, two %v", c.text, k.Token("one"), k.Token("two"))
		}
	}
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if s := <-said; !strings.Contains(s, "stay valid") || k.Token("one") == nil || !k.Stale() {
		t.Errorf("the log says %q", s)
	}
	write("")
	if s := <-said; !strings.Contains(s, "empty or was cut") || k.Token("one") == nil || !k.Stale() {
		t.Errorf("the log says %q", s)
	}
	write("keys: []")
	if s := <-said; !strings.Contains(s, "read anew") || k.Token("one") != nil || k.Stale() {
		t.Errorf("the log says %q", s)
	}
	cancel()
	<-done
}

type lines chan string

func (l lines) Write(p []byte) (int, error) { l <- string(p); return len(p), nil }

var _ io.Writer = lines(nil)

func FuzzFile(f *testing.F) {
	f.Add([]byte("keys: [{id: a, hash: \"" + hash("x") + "\"}]"))
	f.Add([]byte(`{"keys": [{"id": "a", "projects": ["*"]}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := parse(b)
		for _, s := range all.sharing {
			for _, w := range s.projects {
				if s.weight < 0 || s.weight > MostWeight || w < LeastWeight || w > MostWeight {
					t.Fatalf("%+v", s)
				}
			}
		}
		for _, e := range all.entries {
			if err != nil || e.Key == "" || e.User == "" || e.Tenant == "" || len(e.Projects) == 0 && e.Projects == nil {
				t.Fatalf("%+v, %v", e, err)
			}
		}
	})
}

// TestHolds: work goes on as long as a key of its name and user is there, has not expired and is for its
// project.
func TestHolds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("keys:"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\n  - {id: a, hash: " + hash("a") + `, projects: ["acme/*"]}`)
	k, err := New(nil, path)
	if err != nil {
		t.Fatal(err)
	}
	id := k.Token("a")
	for _, c := range []struct {
		text, project string
		want          bool
	}{
		{"\n  - {id: a, hash: " + hash("a") + `, projects: ["acme/*"]}`, "acme/x", true},
		{"\n  - {id: a, hash: " + hash("b") + `}`, "acme/x", true}, // a new secret
		{"\n  - {id: a, hash: " + hash("b") + `}`, "", true},
		{"\n  - {id: a, hash: " + hash("a") + `, projects: ["lab/*"]}`, "acme/x", false},
		{"\n  - {id: a, hash: " + hash("a") + `, projects: ["lab/*"]}`, "", true},
		{"\n  - {id: a, hash: " + hash("a") + `, user: u}`, "", false},
		{"\n  - {id: b, hash: " + hash("a") + `}`, "", false},
		{"\n  - {id: a, hash: " + hash("a") + `, expires: "2001-01-01T00:00:00Z"}`, "", false},
		{" []", "", false},
	} {
		write(c.text)
		if err := k.Reload(); err != nil {
			t.Fatal(err)
		}
		if got := k.Holds(id, c.project); got != c.want {
			t.Errorf("%s, %q: %v", c.text, c.project, got)
		}
		if k.Holds(Anonymous, c.project) || k.Holds(nil, c.project) {
			t.Errorf("%s: work without a key goes on", c.text)
		}
	}
	open, _ := New(nil, "")
	fixed, _ := New([]string{"x", "y"}, "")
	if !open.Holds(Anonymous, "") || !open.Holds(id, "acme/x") || !fixed.Holds(fixed.Token("x"), "acme/x") || fixed.Holds(Anonymous, "") {
		t.Error("keys of the command line")
	}
}
