package feedbackapi_test

import (
	"strings"
	"testing"

	"weir/auth"
	"weir/server/servertest"
)

// TestFeedbackTransport: keys, content types, sizes and methods
// (docs/interface/feedback.md, F-2 to F-6, F-15, F#12, F#13, F#18, F#19).
func TestFeedbackTransport(t *testing.T) {
	s := newServer(t, func(s *servertest.Setup) { s.Config.MaxBody, s.Config.MaxBodies = 4<<20, 64<<20 })
	ok := servertest.Item()
	for _, c := range []struct {
		name   string
		header []string
		body   string
		want   int
		text   string
	}{
		{"F#18: missing", []string{"Authorization: "}, ok, 401, `{"detail":"Not authenticated"}`},
		{"F#18: wrong", []string{servertest.Basic("api", "wrong")}, ok, 401, `{"detail":"Invalid authentication credentials"}`},
		{"F#18: not base64", []string{"Authorization: Basic !"}, ok, 401, ""},
		{"F#18: bearer", []string{"Authorization: Bearer write"}, ok, 401, `{"detail":"Invalid authentication credentials"}`},
		{"401 before all", []string{"Authorization: ", "Content-Type: text/plain"}, "{", 401, ""},
		{"empty name", []string{servertest.Basic("", "write")}, ok, 200, ""},
		{"name and password", []string{servertest.Basic("alice", "pass:word")}, ok, 200, ""},
		{"another's password", []string{servertest.Basic("bob", "pass:word")}, ok, 401, ""},
		{"a name's password as a key", []string{servertest.Basic("api", "pass:word")}, ok, 401, ""},
		{"scheme in any case", []string{strings.Replace(servertest.Basic("api", "write"), "Basic", "bASIC", 1)}, ok, 200, ""},
		{"F#19: read only", []string{servertest.Basic("api", "read")}, ok, 403, `{"reason":"Forbidden"}`},
		{"another's project", []string{servertest.Basic("api", "lab")}, ok, 403, `{"reason":"Forbidden"}`},
		{"403 before 400", []string{servertest.Basic("api", "lab")}, servertest.Item("trace_ref", "bad"), 403, ""},
		{"422 before 403", []string{servertest.Basic("api", "lab")}, servertest.Item("trace_ref", nil), 422, ""},
		{"a ref's project", nil, servertest.Item("call_ref", "weave:///lab/x/call/1"), 403, ""},
		{"a ref's project", []string{servertest.Basic("api", "chief")}, servertest.Item("call_ref", "weave:///lab/x/call/1"), 200, ""},
		{"charset", []string{"Content-Type: application/json; charset=utf-8"}, ok, 200, ""},
		{"suffix", []string{"Content-Type: application/vnd.x+json"}, ok, 200, ""},
		{"none", []string{"Content-Type: "}, ok, 200, ""},
		{"none from a page", []string{"Content-Type: ", "Origin: https://page.example"}, ok, 415, `{"detail":"Unsupported Media Type"}`},
		{"none from a page, cross-site", []string{"Content-Type: ", "Sec-Fetch-Site: cross-site"}, ok, 415, ""},
		{"JSON from a page", []string{"Origin: https://page.example"}, ok, 200, ""},
		{"form", []string{"Content-Type: application/x-www-form-urlencoded"}, ok, 415, `{"detail":"Unsupported Media Type"}`},
		{"text", []string{"Content-Type: text/plain"}, ok, 415, ""},
		{"byte order mark", nil, "\uFEFF" + ok, 200, ""},
		{"F#12: payload", nil, servertest.Item("payload", map[string]any{"s": strings.Repeat("x", 2<<20)}), 400, `{"reason":"Feedback payload too large"}`},
		{"payload below the limit", nil, servertest.Item("payload", map[string]any{"s": strings.Repeat("x", 1<<20-1<<10)}), 200, ""},
		{"payload above the limit", nil, servertest.Item("payload", map[string]any{"s": strings.Repeat("x", 1<<20)}), 400, ""},
		{"F#13: body", nil, servertest.Item("payload", map[string]any{"s": strings.Repeat("x", 5<<20)}), 413, `{"reason":"Request too large"}`},
		{"413 before 415", []string{"Content-Type: text/plain"}, strings.Repeat("x", 5<<20), 413, ""},
		{"not UTF-8", nil, strings.Replace(ok, "custom", "\xff", 1), 400, `{"reason":"The body is not valid UTF-8"}`},
	} {
		status, text, header := s.Get("POST", "/feedback/replace", c.body, append([]string{servertest.Basic("api", "write")}, c.header...)...)
		if status != c.want || c.text != "" && text != c.text {
			t.Errorf("%s: %d %.200s", c.name, status, text)
		}
		if got := header.Get("WWW-Authenticate"); (status == 401) != strings.HasPrefix(got, `Basic realm="`) {
			t.Errorf("%s: WWW-Authenticate %q", c.name, got)
		}
	}
	for _, c := range []struct {
		method, path string
		want         int
		text, allow  string
	}{
		{"GET", "/feedback/replace", 405, `{"detail":"Method Not Allowed"}`, "POST"},
		{"POST", "/feedback/a/b", 404, `{"detail":"Not Found"}`, ""},
		{"POST", "/feedback/", 404, `{"detail":"Not Found"}`, ""},
		{"POST", "/feedback/0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90", 405, "", "GET, HEAD"},
	} {
		status, text, header := s.Get(c.method, c.path, "", servertest.Basic("api", "write"))
		if status != c.want || c.text != "" && text != c.text || header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
}

// TestFeedbackWithoutKeys: without keys everything is open to clients on the same machine,
// and feedback is closed to all others. A key of --api-key opens feedback, too.
func TestFeedbackWithoutKeys(t *testing.T) {
	open, err := auth.New(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	s := newServer(t, func(s *servertest.Setup) { s.Config.Keys = open })
	for _, header := range []string{"Authorization: ", servertest.Basic("who", "ever"), "Authorization: Bearer x"} {
		if status, answer, text := s.post("replace", servertest.Item(), header); status != 200 || answer["platform_user_id"] != "anonymous" {
			t.Errorf("%s: %d %s", header, status, text)
		}
	}
	s.Instance.Transport().Expose()
	if status, _, _ := s.post("replace", servertest.Item(), "Authorization: "); status != 401 {
		t.Errorf("from elsewhere: %d", status)
	}
	if status, _, _ := s.Get("GET", "/v1/models", ""); status == 401 {
		t.Error("chat is shut")
	}
	// --api-key: one key opens both, each in its way.
	key, err := auth.New([]string{"k"}, "")
	if err != nil {
		t.Fatal(err)
	}
	s = newServer(t, func(s *servertest.Setup) { s.Config.Keys = key })
	if status, answer, _ := s.post("replace", servertest.Item(), servertest.Basic("api", "k")); status != 200 || answer["platform_user_id"] != "api" {
		t.Errorf("--api-key: %d %v", status, answer)
	}
	if status, _, _ := s.Get("GET", "/v1/models", "", "Authorization: Bearer k"); status == 401 {
		t.Error("--api-key: chat is shut")
	}
	s = newServer(t, func(s *servertest.Setup) { s.Config.Keys, s.Config.FeedbackBearer = key, true })
	if status, _, _ := s.post("replace", servertest.Item(), "Authorization: Bearer k"); status != 200 {
		t.Error("FeedbackBearer has no effect")
	}
}

// TestFeedbackUnavailable: while the store is closed, clients are asked to come again.
func TestFeedbackUnavailable(t *testing.T) {
	s := newServer(t, nil)
	if err := s.stored.DB.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"replace", "query"} {
		status, text, header := s.Get("POST", "/feedback/"+path, map[string]string{"replace": servertest.Item(), "query": `{"project_id":"acme/support"}`}[path], servertest.Basic("api", "write"))
		if status != 503 || header.Get("Retry-After") == "" || !strings.HasPrefix(text, `{"reason":`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	none := servertest.New(t, func(s *servertest.Setup) { s.NoModel = true })
	if status, text, _ := none.Get("POST", "/feedback/replace", servertest.Item()); status != 404 {
		t.Errorf("without feedback: %d %s", status, text)
	}
}
