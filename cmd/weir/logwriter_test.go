package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"
)

// slowReader is a log that nobody reads until it is told to.
type slowReader struct {
	begun chan struct{} // the first write has begun
	read  chan struct{} // closed: it is read
	once  sync.Once
	mu    sync.Mutex
	b     bytes.Buffer
}

func (s *slowReader) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.begun) })
	<-s.read
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

// TestSlowLog: who logs never waits for the reader of the log. Lines that do not fit are dropped,
// and the log says how many; the others are complete and in order.
func TestSlowLog(t *testing.T) {
	out := &slowReader{begun: make(chan struct{}), read: make(chan struct{})}
	q := newQueuedLog(out, "text")
	line := []byte(strings.Repeat("x", 1023) + "\n")
	if _, err := q.Write([]byte("first\n")); err != nil {
		t.Fatal(err)
	}
	<-out.begun
	const lines = 3 * mostQueued / 1024
	for range lines {
		if n, err := q.Write(line); n != len(line) || err != nil {
			t.Fatal(n, err)
		}
	}
	close(out.read)
	q.Close()
	text := out.b.String()
	kept := strings.Count(text, string(line))
	if kept != mostQueued/1024 || !strings.HasPrefix(text, "first\nxxx") {
		t.Errorf("%d of %d lines were kept", kept, lines)
	}
	if !strings.Contains(text, "level=WARN") || !strings.HasSuffix(text, "lines=2048\n") {
		t.Errorf("the log ends with %q", text[max(0, len(text)-200):])
	}
}

// TestLogEnds: what was logged before Close is written, and Close does not wait for a reader that
// never comes.
func TestLogEnds(t *testing.T) {
	var out bytes.Buffer
	q := newQueuedLog(&out, "json")
	for range 100 {
		_, _ = q.Write([]byte("line\n")) // it never fails
	}
	q.Close()
	if out.String() != strings.Repeat("line\n", 100) {
		t.Errorf("%q", out.String())
	}
	stuck := newQueuedLog(&slowReader{begun: make(chan struct{}), read: make(chan struct{})}, "json")
	_, _ = stuck.Write([]byte("line\n")) // likewise
	stuck.Close()
}

// TestLogFormats: a line of JSON is an object with times in seconds, and text is as before.
func TestLogFormats(t *testing.T) {
	var out bytes.Buffer
	log, err := newLogAs(&out, "info", "json")
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("nothing")
	log.Info("request finished", "took", 1500*time.Millisecond, "project", "a\"b\nc", "status", 200)
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || strings.Count(out.String(), "\n") != 1 {
		t.Fatalf("%v: %s", err, &out)
	}
	if line["took"] != 1.5 || line["project"] != "a\"b\nc" || line["status"] != 200. || line["msg"] != "request finished" || line["level"] != "INFO" {
		t.Errorf("%v", line)
	}
	if _, err := time.Parse(time.RFC3339Nano, line["time"].(string)); err != nil {
		t.Error(err)
	}
	out.Reset()
	if log, err = newLogAs(&out, "info", "text"); err != nil {
		t.Fatal(err)
	}
	log.Info("request finished", "took", 1500*time.Millisecond)
	if !strings.Contains(out.String(), "msg=\"request finished\" took=1.5s\n") {
		t.Error(out.String())
	}
}

// TestAccessLogFlags: JSON has a line for each request unless a flag says otherwise; text has
// none unless a flag asks for it.
func TestAccessLogFlags(t *testing.T) {
	for args, want := range map[string]bool{
		"":                      false,
		"--enable-log-requests": true,
		"--enable-log-requests --disable-log-requests":   false,
		"--log-format json":                              true,
		"--log-format json --no-enable-log-requests":     false,
		"--log-format json --disable-log-requests":       false,
		"--log-format json --disable-uvicorn-access-log": false,
	} {
		o, _ := parseServe(t, strings.Fields(args)...)
		if o.logs.requests != want {
			t.Errorf("%s: %v, want %v", args, o.logs.requests, want)
		}
	}
	o, _ := parseServe(t, "--disable-access-log-for-endpoints", "/health,/v1/models", "--log-probes")
	c := o.serverConfig(nil)
	if !c.LogProbes || len(c.Unlogged) != 2 || c.Unlogged[1] != "/v1/models" {
		t.Errorf("%+v", c.Records)
	}
}
