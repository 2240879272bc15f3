package server_test

import (
	"strings"
	"testing"

	"weir/server"
	"weir/server/servertest"
)

// docs/interface/chat-completions.md, section 1.4: with a root path every
// function is there below it and without it, and no way leads around the keys.
func TestRootPath(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.RootPath = "/llm/a"; s.Config.APIKeys = []string{"k"} })
	key := "Authorization: Bearer k"
	for _, c := range []struct {
		method, path string
		headers      []string
		want         int
	}{
		{"GET", "/llm/a/health", nil, 200}, {"GET", "/health", nil, 200},
		{"GET", "/llm/a/v1/models", nil, 401}, {"GET", "/v1/models", nil, 401}, {"GET", "/llm/a/v1/models", []string{key}, 200}, {"GET", "/v1/models", []string{key}, 200},
		{"GET", "/llm/a/v1/models/tiny", []string{key}, 200}, {"GET", "/llm/a/v1/models/tiny", nil, 401},
		{"POST", "/llm/a/tokenize", nil, 401}, {"POST", "/llm/a" + servertest.TextPath, nil, 401},
		{"GET", "/llm/a/v1/nothing", nil, 401}, {"GET", "/llm/a/v1/nothing", []string{key}, 404},
		{"GET", "/llm/a", []string{key}, 404}, {"GET", "/llm/a/", nil, 200}, {"GET", "/llm/ahealth", []string{key}, 404}, {"GET", "/llm/a/llm/a/health", []string{key}, 404}, {"GET", "/llm/health", []string{key}, 404},
		{"OPTIONS", "/llm/a/v1/models", nil, 204},
	} {
		if status, answer, _ := h.Get(c.method, c.path, "", c.headers...); status != c.want {
			t.Errorf("%s %s %v: %d %s, want %d", c.method, c.path, c.headers, status, answer, c.want)
		}
	}
	if status, answer, _ := h.Get("POST", "/llm/a"+servertest.ChatPath, servertest.Body(t, nil), key); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if _, answer, _ := h.Get("GET", "/llm/a/openapi.json", ""); !strings.Contains(answer, `"servers":[{"url":"/llm/a"}]`) {
		t.Errorf("openapi.json does not say where its paths begin: %.200s", answer)
	}
	for _, bad := range []string{"x", "/", "/x/", "x/"} {
		cfg := server.DefaultConfig()
		if cfg.RootPath = bad; cfg.Validate() == nil {
			t.Errorf("root path %q", bad)
		}
	}
}
