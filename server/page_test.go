package server_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"strings"
	"testing"

	"weir/server/servertest"
)

const browser = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

// docs/interface/operations.md, section 16: browsers get a page at / without a key, and all others what
// they got before; the policy allows nothing inline and nothing foreign.
func TestPage(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.RootPath = "/llm/a"; s.Config.APIKeys = []string{"k"} })
	for _, root := range []string{"", "/llm/a"} {
		for path, want := range map[string]string{"/": "text/html", "/ui/app.js": "text/javascript", "/ui/style.css": "text/css", "/ui/views/chat.js": "text/javascript", "/ui/vendor/uplot/LICENSE": "text/plain", "/ui/icon.svg": "image/svg+xml"} {
			status, answer, header := h.Get("GET", root+path, "", browser, "Origin: https://evil.example")
			if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), want) || answer == "" {
				t.Errorf("%s%s: %d %v", root, path, status, header)
			}
			policy := header.Get("Content-Security-Policy")
			if !strings.HasPrefix(policy, "default-src 'none'; script-src 'self';") || strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") || !strings.Contains(policy, "require-trusted-types-for 'script'") {
				t.Errorf("%s: policy %q", path, policy)
			}
			if header.Get("Referrer-Policy") != "no-referrer" || header.Get("Cross-Origin-Opener-Policy") != "same-origin" {
				t.Errorf("%s: other pages may learn of it: %v", path, header)
			}
			if header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Cross-Origin-Resource-Policy") != "same-origin" || header.Get("Access-Control-Allow-Origin") != "" {
				t.Errorf("%s: another origin may load it: %v", path, header)
			}
			tag := header.Get("ETag")
			if status, answer, header := h.Get("GET", root+path, "", browser, "If-None-Match: W/\"x\", "+tag); status != 304 || answer != "" || header.Get("ETag") != tag {
				t.Errorf("%s again: %d %s", path, status, answer)
			}
			if status, answer, _ := h.Get("HEAD", root+path, "", browser); status != 200 || answer != "" {
				t.Errorf("HEAD %s: %d %s", path, status, answer)
			}
		}
		status, answer, header := h.Get("GET", root+"/", "", "Accept: */*")
		if status != 200 || answer != "Ollama is running" || !strings.Contains(strings.Join(header.Values("Vary"), ","), "Accept") {
			t.Errorf("%s/: %d %s %v", root, status, answer, header)
		}
	}
	if status, _, _ := h.Get("GET", "/ui/none.js", "", browser); status != 404 {
		t.Errorf("a file that is not there: %d", status)
	}
	if status, _, _ := h.Get("POST", "/ui/app.js", "{}", "Authorization: Bearer k"); status != 405 {
		t.Errorf("POST: %d", status)
	}
}

// TestPageCompressed: a browser that takes gzip gets it.
func TestPageCompressed(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	_, plain, _ := h.Get("GET", "/ui/app.js", "", "Accept-Encoding: identity")
	req, err := http.NewRequest("GET", "http://weir/ui/app.js", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Accept-Encoding", "gzip, br")
	resp, err := h.Client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	r, err := gzip.NewReader(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil || string(text) != plain || resp.Header.Get("Content-Encoding") != "gzip" || resp.ContentLength >= int64(len(plain)) {
		t.Errorf("%d bytes of %d, %v %v", resp.ContentLength, len(plain), resp.Header, err)
	}
}

// TestNoPage: with --no-ui there is no page.
func TestNoPage(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.Functions.NoUI = true })
	for path, accept := range map[string]string{"/": browser, "/ui/app.js": browser} {
		if status, answer, _ := h.Get("GET", path, "", accept); status != 404 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer, _ := h.Get("GET", "/", "", "Accept: */*"); status != 200 || answer != "Ollama is running" {
		t.Errorf("%d %s", status, answer)
	}
}
