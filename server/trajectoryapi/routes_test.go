package trajectoryapi_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/auth"
	"weir/server"
	"weir/server/servertest"
)

// The rules and cases that comments name are those of docs/interface/trajectories.md.

// TestLogKeys: what each key may do, and on which paths (T-3, T-5, T#28).
func TestLogKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	keys := "keys:\n"
	for _, k := range []struct{ id, tenant, rights string }{{"a", "A", "read, write"}, {"b", "B", "read, write"}, {"reader", "A", "read"}, {"writer", "A", "write"}} {
		keys += fmt.Sprintf("  - {id: %s, hash: %q, user: u, tenant: %s, projects: ['*'], models: ['*'], rights: [%s]}\n", k.id, servertest.KeyHash(k.id), k.tenant, k.rights)
	}
	// A key that is for other models.
	keys += fmt.Sprintf("  - {id: elsewhere, hash: %q, user: u, tenant: A, models: ['agent-*']}\n", servertest.KeyHash("elsewhere"))
	if err := os.WriteFile(file, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New([]string{"root"}, file)
	if err != nil {
		t.Fatal(err)
	}
	h, _ := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.Config.Keys = ring })
	for _, c := range []struct {
		authorization, want string
	}{
		{"", `{"detail":"Not authenticated"}`},
		{"Bearer wrong", `{"detail":"Invalid authentication credentials"}`},
		{"Basic YXBpOnJvb3Q=", `{"detail":"Invalid authentication credentials"}`},
		{"root", `{"detail":"Invalid authentication credentials"}`},
	} {
		for _, path := range []string{servertest.AgentPath + "/log", servertest.AgentPath + "/unknown", "/v1/preview/models"} {
			status, answer, header := h.Get("POST", path, servertest.Group(`{}`), "Authorization: "+c.authorization)
			if status != 401 || answer != c.want || header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%q %s: %d %s", c.authorization, path, status, answer)
			}
		}
	}
	as := func(key string) string { return "Authorization: Bearer " + key }
	h.LogGroups(t, servertest.AgentPath, servertest.Group(`{}`), "Authorization: bEARER a")
	receipt := h.LogGroups(t, servertest.AgentPath, servertest.Group(`{}`), as("a"))
	for _, c := range []struct {
		method, path, key string
		status            int
	}{
		{"POST", "/log", "reader", 403}, {"GET", "/logs", "reader", 200}, {"DELETE", "", "reader", 403}, {"DELETE", "/logs/x", "reader", 403}, {"DELETE", "/trajectories", "reader", 403},
		{"POST", "/log", "writer", 200}, {"GET", "/logs", "writer", 403}, {"GET", "/trajectories", "writer", 403}, {"GET", "/export", "writer", 403}, {"GET", "/metrics", "writer", 403},
		{"POST", "/log", "elsewhere", 403}, {"GET", "/logs", "elsewhere", 403}, {"GET", "/trajectories", "elsewhere", 403}, {"GET", "/trajectories/x/0/0", "elsewhere", 403},
		{"GET", "/export", "elsewhere", 403}, {"GET", "/metrics", "elsewhere", 403}, {"DELETE", "", "elsewhere", 403}, {"POST", "/rewards", "elsewhere", 403},
		// For another tenant none of it exists (T#23).
		{"GET", "/logs", "b", 404}, {"GET", "/trajectories", "b", 404}, {"GET", "/export", "b", 404}, {"GET", "/metrics", "b", 404}, {"DELETE", "", "b", 404},
		{"DELETE", fmt.Sprintf("/logs/%s", receipt["id"]), "b", 404}, {"GET", fmt.Sprintf("/trajectories/%s/0/0", receipt["id"]), "b", 404}, {"DELETE", "/trajectories?confirm=m", "b", 404},
		{"GET", fmt.Sprintf("/trajectories/%s/0/0", receipt["id"]), "a", 200}, {"GET", fmt.Sprintf("/trajectories/%s/0/1", receipt["id"]), "a", 404}, {"GET", "/trajectories/x/0/1", "a", 404},
		{"GET", "/log", "a", 405}, {"POST", "", "a", 405}, {"PUT", "/trajectories", "a", 405}, {"GET", "/nothing", "a", 404}, {"GET", "/logs/x/y", "a", 404},
	} {
		status, answer, _ := h.Get(c.method, servertest.AgentPath+c.path, servertest.Group(`{}`), as(c.key))
		if status != c.status || status >= 400 && !strings.HasPrefix(answer, `{"detail":`) {
			t.Errorf("%s %s as %s: %d %s, want %d", c.method, c.path, c.key, status, answer, c.status)
		}
	}
	// The body is checked before the right to write (T-6).
	for _, key := range []string{"reader", "elsewhere"} {
		if status, _, _ := h.Get("POST", servertest.AgentPath+"/log", servertest.Group(`1`), as(key)); status != 422 {
			t.Errorf("%s: %d", key, status)
		}
	}
	h.LogGroups(t, "/v1/preview/models/agent-1", servertest.Group(`{}`), as("elsewhere"))
	for key, want := range map[string]int{"b": 0, "a": 2, "elsewhere": 1} {
		if entries, _ := h.List(t, "/v1/preview/models", as(key)); len(entries) != want {
			t.Errorf("%s: %v", key, entries)
		}
	}
}

// TestModelIDs: ids of models in paths (T-5, T#17).
func TestModelIDs(t *testing.T) {
	h, l := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.TCP = true })
	for segment, id := range map[string]string{
		"acme%2Fsupport%2Fmail-agent":          "acme/support/mail-agent",
		"3c90c3cc-0d44-4b50-8888-8dd25736052a": "3c90c3cc-0d44-4b50-8888-8dd25736052a",
		"a%20b%2Bc+d":                          "a b+c+d",
		"%F0%9F%A6%8A":                         "🦊",
		"...":                                  "...",
		"log":                                  "log",
		strings.Repeat("x", 256):               strings.Repeat("x", 256),
	} {
		r := h.LogGroups(t, "/v1/preview/models/"+segment, servertest.Group(`{}`))
		if r["model_id"] != id {
			t.Errorf("%s: %v", segment, r["model_id"])
		}
		if entries, _ := h.List(t, "/v1/preview/models/"+segment+"/logs"); len(entries) != 1 || entries[0]["model_id"] != id {
			t.Errorf("%s: %v", segment, entries)
		}
	}
	stored := l.Keys(t, 'B')
	// Go's client would clean these paths; other clients do not.
	for _, segment := range []string{"..", ".", "%2e%2e", "%2E", "%00", "a%0Ab", "%ff", "%zz", "%", strings.Repeat("x", 257), "%7f", ""} {
		c := h.Raw(t)
		body := servertest.Group(`{}`)
		c.Send(fmt.Sprintf("POST /v1/preview/models/%s/log HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", segment, len(body), body))
		status, answer, _ := c.Answer()
		if status < 300 || status >= 500 || status == 422 && !strings.Contains(answer, `{"loc":["path","model_id"],`) {
			t.Errorf("%q: %d %s", segment, status, answer)
		}
		c.Close()
	}
	if n := l.Keys(t, 'B'); n != stored {
		t.Errorf("%d batches more", n-stored)
	}
}

// TestTrajectorySettings: without an archive the paths do not exist, models may have to be
// registered, and settings that make no sense are refused (T-5).
func TestTrajectorySettings(t *testing.T) {
	h := servertest.New(t, nil)
	if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", servertest.Group(`{}`)); status != 404 {
		t.Errorf("%d %s", status, answer)
	}
	h, l := servertest.NewTrajectories(t, func(s *servertest.Setup) { s.Config.Trajectories.Registered = true })
	if status, answer, _ := h.Get("POST", servertest.AgentPath+"/log", servertest.Group(`{}`)); status != 404 || l.Keys(t, 'B') != 0 {
		t.Errorf("%d %s", status, answer)
	}
	for _, change := range []func(*server.Trajectories){
		func(c *server.Trajectories) { c.MaxBody = 0 }, func(c *server.Trajectories) { c.MaxRatio = 0 }, func(c *server.Trajectories) { c.MaxUploads = -1 }, func(c *server.Trajectories) { c.Idle = 0 }, func(c *server.Trajectories) { c.Limits.Depth = 0 },
	} {
		cfg := server.DefaultConfig()
		change(&cfg.Trajectories)
		if cfg.Validate() == nil {
			t.Errorf("%+v is valid", cfg.Trajectories)
		}
	}
}
