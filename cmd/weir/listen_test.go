package main

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// overSocket is a client that reaches every host through a Unix socket.
func overSocket(path string) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}}
}

// TestServeSocket: with --uds everything is served on a Unix socket, also below
// --root-path, and the socket is removed when the server stops.
func TestServeSocket(t *testing.T) {
	t.Parallel()
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
		if code, body, _ := do(t, c, "GET", "http://weir"+prefix+"/health", ""); code != 200 {
			t.Errorf("%d %s", code, body)
		}
		if code, body, _ := do(t, c, "POST", "http://weir"+prefix+"/v1/chat/completions", question); code != 401 {
			t.Errorf("%q without a key: %d %s", prefix, code, body)
		}
	}
	_, body, _ := do(t, c, "GET", "http://weir/llm/tokenizer_info", "", "Authorization", "Bearer secret")
	var got map[string]any
	if err := json.Unmarshal([]byte(body), &got); err != nil || got["tokenizer_class"] == nil || !strings.Contains(got["chat_template"].(string), "{%") {
		t.Errorf("%v %v", err, got)
	}
	c.CloseIdleConnections()
	stop()
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
}

// TestListenUnix: a socket is replaced if no process listens on it. Anything else that
// is at its path stays there, and is an error.
func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	first, err := listenUnix(path, 0o660)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := listenUnix(path, 0o660); err == nil || !strings.Contains(err.Error(), "another process listens") {
		t.Errorf("a second one: %v", err)
	}
	first.(*net.UnixListener).SetUnlinkOnClose(false) // as if it were killed
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Fatal(err)
	}
	second, err := listenUnix(path, 0o660)
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
		if ln, _, err := (&listenOptions{socket: path}).open(false); err == nil || !strings.HasPrefix(err.Error(), "--uds: ") {
			t.Errorf("%s: %v %v", what, ln, err)
		}
		if data, err := os.ReadFile(path); what == "no socket" && (err != nil || string(data) != "mine") {
			t.Errorf("the file that was there: %q %v", data, err)
		}
	}
}
