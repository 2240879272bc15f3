package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// TestHealth: weir health succeeds if the server's /health does, on a port that a flag or
// the environment names, and on a Unix socket.
func TestHealth(t *testing.T) {
	t.Parallel()
	status := 200
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health" {
			status = 404
		}
		w.WriteHeader(status)
	}))
	defer srv.Close()
	u, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	if code, out, errOut := runWeir("health", "--port", u.Port()); code != 0 || out != "healthy\n" {
		t.Errorf("exit %d: %s%s", code, out, errOut)
	}
	env := func(name string) string { return map[string]string{"WEIR_PORT": u.Port()}[name] }
	var out, errOut bytes.Buffer
	if code := run([]string{"health"}, env, nil, &out, &errOut); code != 0 {
		t.Errorf("with WEIR_PORT: exit %d: %s", code, errOut.String())
	}
	status = 503
	if code, _, errOut := runWeir("health", "--port", u.Port()); code != 1 || !strings.Contains(errOut, "answers 503") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	srv.Close()
	if code, _, errOut := runWeir("health", "--port", u.Port()); code != 1 || !strings.Contains(errOut, "refused") {
		t.Errorf("exit %d: %s", code, errOut)
	}
	path := filepath.Join(t.TempDir(), "s")
	startServe(t, "--device", "sim", "--uds", path, "--root-path", "/llm")
	if code, _, errOut := runWeir("health", "--uds", path, "--root-path", "/llm/"); code != 0 {
		t.Errorf("exit %d: %s", code, errOut)
	}
}
