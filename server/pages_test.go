package server_test

import (
	"net/http"
	"strings"
	"testing"

	"weir/feedback"
	"weir/server/servertest"
)

// pagesCase is a request of a web page, or of something that looks like one.
type pagesCase struct {
	method, path, host string
	headers            string // separated by "; "
	status             int
	origin             string // Access-Control-Allow-Origin of the answer
}

// TestPages sends the requests of docs/interface/operations.md, section 5, to whole servers.
func TestPages(t *testing.T) {
	t.Parallel()
	const query = "/feedback/query"
	const evil, cross, link = "Origin: https://evil.example", "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate; Sec-Fetch-Dest: document"
	cases := map[string][]pagesCase{
		"no keys": {
			// Programs send neither header, with any type of content or none.
			{"POST", query, "localhost:8000", "Content-Type: ", 422, ""},
			{"GET", "/v1/models", "localhost", "", 200, ""},
			{"GET", "/v1/models", "127.0.0.1:8000", "Sec-Fetch-Site: same-origin", 200, ""},
			{"GET", "/v1/models", "127.0.0.1:8000", "Sec-Fetch-Site: none", 200, ""},
			// The server's own pages.
			{"GET", "/v1/models", "localhost:8000", "Origin: http://localhost:8000; Sec-Fetch-Site: same-origin", 200, "http://localhost:8000"},
			{"GET", "/v1/models", "app.localhost:8000", "Origin: https://app.localhost:8000", 200, ""},
			{"GET", "/v1/models", "app.localhost:80", "Origin: http://APP.localhost", 200, ""},
			{"GET", "/v1/models", "app.localhost:443", "Origin: http://app.localhost", 403, ""},
			{"GET", "/v1/models", "app.localhost:8000", "Origin: http://app.localhost:8001", 403, ""},
			{"GET", "/v1/models", "app.localhost:8000", "Origin: http://app.localhost:8000; " + cross, 403, ""},
			// Local front-ends.
			{"POST", query, "localhost:8000", "Origin: http://localhost:3000; Sec-Fetch-Site: same-site", 422, "http://localhost:3000"},
			{"GET", "/v1/models", "localhost:8000", "Origin: https://127.8.0.1; " + cross, 200, "https://127.8.0.1"},
			{"GET", "/v1/models", "localhost:8000", "Origin: http://[::1]:5173; " + cross, 200, "http://[::1]:5173"},
			{"GET", "/v1/models", "localhost:8000", "Origin: app://obsidian.md; " + cross, 200, "app://obsidian.md"},
			{"GET", "/v1/models", "localhost:8000", "Origin: file://", 200, "file://"},
			{"GET", "/v1/models", "localhost:8000", "Origin: tauri://localhost", 200, "tauri://localhost"},
			{"GET", "/v1/models", "localhost:8000", "Origin: vscode-webview://1a2b", 200, "vscode-webview://1a2b"},
			{"GET", "/v1/models", "localhost:8000", "Origin: vscode-file://vscode-app", 200, "vscode-file://vscode-app"},
			{"OPTIONS", query, "localhost:8000", "Origin: http://localhost:3000; Access-Control-Request-Method: POST", 204, "http://localhost:3000"},
			// Hostile pages, with any method and type of content.
			{"POST", query, "localhost:8000", evil, 403, ""},
			{"POST", query, "localhost:8000", "Content-Type: text/plain; " + evil + "; " + cross, 403, ""},
			{"POST", query, "localhost:8000", "Content-Type: ; " + evil, 403, ""},
			{"POST", query, "localhost:8000", cross, 403, ""},
			{"DELETE", "/v1/preview/models/m", "localhost:8000", evil, 403, ""},
			{"POST", servertest.ChatPath, "localhost:8000", evil, 403, ""},
			{"GET", "/metrics", "localhost:8000", evil, 403, ""},
			{"GET", "/nothing", "localhost:8000", evil, 403, ""},
			{"OPTIONS", query, "localhost:8000", evil + "; Access-Control-Request-Method: POST", 403, ""},
			{"POST", query, "localhost:8000", "Origin: null", 403, ""},
			{"GET", "/v1/models", "localhost:8000", "Origin: http://localhost.evil.example", 403, ""},
			{"GET", "/v1/models", "localhost:8000", "Origin: http://localhost:80@evil.example", 403, ""},
			{"GET", "/v1/models", "localhost:8000", "Origin: http://127.0.0.1.evil.example", 403, ""},
			{"GET", "/v1/models", "localhost:8000", "Origin: ftp://localhost", 403, ""},
			{"GET", "/v1/models", "localhost:8000", "Origin: localhost:8000", 403, ""},
			{"GET", "/v1/models", "localhost:8000", "Origin: app.localhost://", 403, ""},
			// Links on other sites lead to what needs no key, and to nothing else.
			{"GET", "/docs", "localhost:8000", cross + "; " + link, 200, ""},
			{"GET", "/version", "localhost:8000", cross + "; " + link, 200, ""},
			{"GET", "/docs", "localhost:8000", cross, 403, ""},
			{"GET", "/docs", "localhost:8000", cross + "; Sec-Fetch-Mode: navigate; Sec-Fetch-Dest: iframe", 403, ""},
			{"GET", "/docs", "localhost:8000", cross + "; Sec-Fetch-Mode: no-cors; Sec-Fetch-Dest: document", 403, ""},
			{"GET", "/docs", "localhost:8000", evil + "; " + cross + "; " + link, 403, ""},
			{"POST", "/ping", "localhost:8000", cross + "; " + link, 403, ""},
			{"GET", "/usage", "localhost:8000", cross + "; " + link, 403, ""},
			{"GET", "/v1/models", "localhost:8000", cross + "; " + link, 403, ""},
			{"GET", "/nothing", "localhost:8000", cross + "; " + link, 403, ""},
			// Names of this machine, and names that lead to it (DNS rebinding).
			{"GET", "/v1/models", "LOCALHOST.", "", 200, ""},
			{"GET", "/v1/models", "[::1]:8000", "", 200, ""},
			{"GET", "/v1/models", "[::ffff:127.0.0.1]", "", 200, ""},
			{"GET", "/v1/models", "evil.example:8000", "Origin: http://evil.example:8000; Sec-Fetch-Site: same-origin", 403, ""},
			{"GET", "/v1/models", "evil.example", "", 403, ""},
			{"GET", "/docs", "evil.example", "", 403, ""},
			{"OPTIONS", "/v1/models", "evil.example", "", 403, ""},
			{"GET", "/v1/models", "0.0.0.0:8000", "", 403, ""},
			{"GET", "/v1/models", "192.168.1.5:8000", "", 403, ""},
			{"GET", "/v1/models", "notlocalhost", "", 403, ""},
			{"GET", "/v1/models", "localhost.evil.example", "", 403, ""},
			{"GET", "/v1/models", "localhost:80.evil.example", "", 400, ""},
			{"GET", "/v1/models", "[localhost]", "", 400, ""},
		},
		"no keys, listed": {
			{"GET", "/v1/models", "chat.example:8000", "", 200, ""},
			{"GET", "/v1/models", "a.sub.example", "", 200, ""},
			{"GET", "/v1/models", "sub.example", "", 403, ""},
			{"GET", "/v1/models", "a.sub.example.evil.example", "", 403, ""},
			{"GET", "/v1/models", "localhost", "Origin: https://page.example; " + cross, 200, "https://page.example"},
			{"GET", "/v1/models", "localhost", "Origin: http://10.0.0.1:99; " + cross, 200, "http://10.0.0.1:99"},
			{"GET", "/v1/models", "localhost", "Origin: http://10.0.0.1:/", 403, ""},
			{"GET", "/v1/models", "localhost", "Origin: null; " + cross, 200, "null"},
			{"GET", "/v1/models", "localhost", "Origin: http://localhost:3000", 403, ""},
			{"GET", "/v1/models", "localhost:3000", "Origin: http://localhost:3000", 200, ""},
			{"GET", "/v1/models", "localhost", "Origin: https://page.example.evil.example", 403, ""},
		},
		"no keys, all": {
			{"GET", "/v1/models", "localhost", evil + "; " + cross, 200, "*"},
			{"GET", "/v1/models", "localhost", "Origin: null", 200, "*"},
			{"GET", "/v1/models", "evil.example", "", 403, "*"},
		},
		"keys": {
			{"POST", servertest.ChatPath, "weir.example", evil + "; " + cross, 401, "*"},
			{"GET", "/v1/models", "weir.example", "Authorization: Bearer k; " + evil + "; " + cross, 200, "*"},
			{"GET", "/docs", "weir.example", evil, 200, "*"},
			{"POST", query, "weir.example", "Authorization: Basic YXBpOms=; " + evil, 422, "*"},
			{"OPTIONS", query, "weir.example", evil + "; Access-Control-Request-Method: POST", 204, "*"},
		},
		"keys, none": {
			{"GET", "/v1/models", "weir.example", "Authorization: Bearer k; " + evil, 403, ""},
			{"GET", "/v1/models", "weir.example", "Authorization: Bearer k; Origin: https://weir.example", 200, ""},
			{"GET", "/v1/models", "weir.example", "Authorization: Bearer k; " + cross, 403, ""},
		},
	}
	for name, requests := range cases {
		t.Run(name, func(t *testing.T) {
			h := pagesServer(t, name)
			for _, c := range requests {
				c.check(t, h)
			}
		})
	}
}

// pagesServer returns a server on a loopback address with the settings of a name.
func pagesServer(t *testing.T, name string) *testServer {
	return newServer(t, func(s *servertest.Setup) {
		s.TCP = true
		s.Config.AllowedHosts = nil
		s.Config.Feedback = feedback.New(servertest.NewDB(t), feedback.DefaultConfig())
		if strings.HasPrefix(name, "keys") {
			s.Config.APIKeys = []string{"k"}
		}
		switch name {
		case "no keys, listed":
			s.Config.CORS.Origins = []string{"https://page.example", "http://10.0.0.1:*", "null"}
			s.Config.AllowedHosts = []string{"chat.example", "*.Sub.example"}
		case "no keys, all":
			s.Config.CORS.Origins = []string{"*"}
		case "keys, none":
			s.Config.CORS.Origins = []string{}
		}
	})
}

func (c *pagesCase) check(t *testing.T, h *testServer) {
	t.Helper()
	req, err := http.NewRequest(c.method, "http://weir"+c.path, strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = c.host
	req.Header.Set("Content-Type", "application/json")
	for line := range strings.SplitSeq(c.headers, "; ") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			req.Header.Set(name, strings.TrimSpace(value))
			if strings.TrimSpace(value) == "" {
				req.Header.Del(name)
			}
		}
	}
	resp, err := h.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if origin := resp.Header.Get("Access-Control-Allow-Origin"); resp.StatusCode != c.status || origin != c.origin {
		t.Errorf("%s %s at %s, %s: %d, allowed origin %q; want %d, %q", c.method, c.path, c.host, c.headers, resp.StatusCode, origin, c.status, c.origin)
	}
	if c.origin != "*" && resp.Header.Get("Vary") != "Origin" {
		t.Errorf("%s %s, %s: Vary %q", c.method, c.path, c.headers, resp.Header.Get("Vary"))
	}
}

// TestPagesRefused: the refusal names the flag, comes before the body, and is in the form of
// the interface. A public page may call a private address if it may call at all.
func TestPagesRefused(t *testing.T) {
	t.Parallel()
	h := pagesServer(t, "no keys")
	for request, want := range map[string]string{
		"POST " + servertest.ChatPath + " HTTP/1.1\r\nHost: localhost\r\nOrigin: https://evil.example\r\n": `{"error":{"message":"Web pages of this origin may not call this server; the flag --allowed-origins says which may.`,
		"POST /feedback/query HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n":               `{"reason":"Web pages of this origin may not call this server; the flag --allowed-origins says which may."}`,
		"POST /feedback/query HTTP/1.1\r\nHost: evil.example\r\n":                                          `{"reason":"The header Host names a host that this server does not serve; the flag --allowed-hosts adds hosts."}`,
	} {
		for _, expect := range []string{"", "Expect: 100-continue\r\n"} {
			r := h.Raw(t)
			r.Send(request + expect + "Content-Length: 1000000\r\n\r\n")
			if expect == "" {
				r.Send(strings.Repeat("x", 9000)) // fasthttp reads this much before it calls a handler
			}
			if status, answer, _ := r.Answer(); status != 403 || !strings.HasPrefix(answer, want) {
				t.Errorf("%q: %d %s", request+expect, status, answer)
			}
		}
	}
	for origin, want := range map[string]string{"http://localhost:3000": "true", "https://evil.example": ""} {
		_, _, header := h.Get("OPTIONS", servertest.ChatPath, "", "Origin: "+origin, "Access-Control-Request-Method: POST", "Access-Control-Request-Private-Network: true")
		if got := header.Get("Access-Control-Allow-Private-Network"); want == "" && got != "" || origin == "https://evil.example" && header.Get("Access-Control-Allow-Methods") != "" {
			t.Errorf("%s: %q", origin, got)
		}
	}
	all := newServer(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k"} })
	for asked, want := range map[string]string{"true": "true", "false": ""} {
		_, _, header := all.Get("OPTIONS", servertest.ChatPath, "", "Origin: https://page.example", "Access-Control-Request-Private-Network: "+asked)
		if got := header.Get("Access-Control-Allow-Private-Network"); got != want {
			t.Errorf("asked %s: %q", asked, got)
		}
	}
}

// TestHostUnchecked: a Unix socket cannot be reached by a page, and has no host of its own.
func TestHostUnchecked(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.TCP, s.Unix, s.Config.AllowedHosts = true, true, nil })
	(&pagesCase{"GET", "/v1/models", "evil.example", "", 200, ""}).check(t, h)
	(&pagesCase{"GET", "/v1/models", "evil.example", "Origin: https://other.example", 403, ""}).check(t, h)
}
