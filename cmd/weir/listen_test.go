package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// overSocket is a client that reaches every host through a Unix socket.
func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

func fetch(t *testing.T, c *http.Client, method, url, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// TestServeSocket: with --uds everything is there, below --root-path too, and
// the socket is gone when the server is.
func TestServeSocket(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	url, stop := startServe(t, "--uds", path, "--root-path", "/llm/", "--api-key", "secret", "--enable-tokenizer-info-endpoint")
	if url != "unix:"+path {
		t.Errorf("listening at %q", url)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode() != fs.ModeSocket|0o660 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	c := overSocket(path)
	for _, prefix := range []string{"", "/llm"} {
		if code, body := fetch(t, c, "GET", "http://weir"+prefix+"/health", ""); code != 200 {
			t.Errorf("%d %s", code, body)
		}
		if code, body := fetch(t, c, "POST", "http://weir"+prefix+"/v1/chat/completions", question); code != 401 {
			t.Errorf("%q without a key: %d %s", prefix, code, body)
		}
	}
	req, _ := http.NewRequest("GET", "http://weir/llm/tokenizer_info", nil)
	req.Header.Set("Authorization", "Bearer secret")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || got["tokenizer_class"] == nil || !strings.Contains(got["chat_template"].(string), "{%") {
		t.Errorf("%v %v", err, got)
	}
	resp.Body.Close()
	c.CloseIdleConnections()
	stop()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestListenUnix: what is at the path already.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second one: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as if it were killed
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	second, err := listenUnix(path)
	if err != nil {
		t.Fatalf("a stale socket: %v", err)
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	for what, make := range map[string]func() error{
		"no socket": func() error { return os.WriteFile(path, []byte("mine"), 0o600) },
		"no folder": func() error { path = filepath.Join(path, "below", "s"); return nil },
		"too long":  func() error { path = filepath.Join(t.TempDir(), strings.Repeat("x", 200)); return nil },
	} {
		path = filepath.Join(t.TempDir(), "s")
		if err := make(); err != nil {
			t.Fatal(err)
		}
		if ln, err := listenUnix(path); err == nil || !strings.HasPrefix(err.Error(), "--uds: ") {
			t.Errorf("%s: %v %v", what, ln, err)
		}
		if data, err := os.ReadFile(path); what == "no socket" && (err != nil || string(data) != "mine") {
			t.Errorf("the file that was there: %q %v", data, err)
		}
	}
}

// TestSettle: development mode by flag and by both variables, the flag first; no
// secret is among the settings.
func TestSettle(t *testing.T) {
	for _, c := range []struct {
		args []string
		env  string
		want bool
	}{{nil, "", false}, {[]string{"--dev-mode"}, "", true}, {nil, "WEIR_DEV", true}, {nil, "VLLM_SERVER_DEV_MODE", true}, {nil, "WEIR_DEV_MODE", true}, {[]string{"--dev-mode=false"}, "WEIR_DEV", false}, {[]string{"--no-dev-mode"}, "VLLM_SERVER_DEV_MODE", false}} {
		env := func(name string) string {
			if name == c.env {
				return "1"
			}
			return ""
		}
		flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
		h := bindHTTP(flags)
		if _, err := parse(flags, append([]string{"--api-key", "secret"}, c.args...), env); err != nil {
			t.Fatal(err)
		}
		h.settle(flags, env)
		if h.functions.Dev != c.want {
			t.Errorf("%v, %s: %v", c.args, c.env, h.functions.Dev)
		}
		s := h.functions.Settings
		if _, there := s["api-key"]; there || s["port"] != "8000" || s["max-body-size"] != "32MiB" {
			t.Errorf("%v", s)
		}
		for name, value := range s {
			if strings.Contains(value, "secret") {
				t.Errorf("%s is %s", name, value)
			}
		}
	}
}
