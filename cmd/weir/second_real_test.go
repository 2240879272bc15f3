package main

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestSecondServer: a second server on one data directory answers what needs a database with
// 503 and the reason, and so /ready, and chats. It is ready when the first one has ended
// (docs/interface/operations.md, section 10).
func TestSecondServer(t *testing.T) {
	t.Parallel()
	const reason = "Another process uses the store"
	dir := filepath.Join(t.TempDir(), "data")
	args := []string{"--data-dir", dir, "--min-free-disk", "0"}
	one := startProcess(t, nil, args...)
	send(t, one.url+"/feedback/create", numberedItem(1))
	send(t, one.url+"/v1/preview/models/agent/log", emptyTrajectory)
	two := startProcess(t, nil, args...)
	defer two.kill()
	asks := []struct{ method, path, body string }{
		{"GET", "/ready", ""}, {"POST", "/feedback/query", `{"project_id":"acme/support"}`}, {"POST", "/feedback/create", numberedItem(2)},
		{"GET", "/v1/preview/models", ""}, {"POST", "/v1/preview/models/agent/log", emptyTrajectory},
	}
	// until asks the second server until it answers with a status and a text.
	until := func(method, path, body string, status int, part string) {
		t.Helper()
		for end := time.Now().Add(30 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			code, text, header := do(t, http.DefaultClient, method, two.url+path, body)
			if code == status && strings.Contains(text, part) && (code != 503 || header.Get("Retry-After") != "") {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %d %s, want %d with %q", path, code, text, status, part)
			}
		}
	}
	for _, a := range asks {
		until(a.method, a.path, a.body, 503, reason)
	}
	if code, text, _ := do(t, http.DefaultClient, "GET", two.url+"/health", ""); code != 200 {
		t.Errorf("/health: %d %s", code, text)
	}
	if code, text := post(t, two.url, question); code != 200 {
		t.Errorf("chat: %d %s", code, text)
	}
	if code, text, _ := do(t, http.DefaultClient, "GET", one.url+"/ready", ""); code != 200 {
		t.Errorf("/ready of the first one: %d %s", code, text)
	}
	one.kill()
	for _, a := range asks {
		until(a.method, a.path, a.body, 200, "")
	}
	_, text := whenOpen(t, "POST", two.url+"/feedback/query", `{"project_id":"acme/support","fields":["count(*)"]}`)
	if !strings.Contains(text, `{"count(*)":2}`) { // that of the first server and that of the second
		t.Error(text)
	}
}
