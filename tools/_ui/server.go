package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"regexp"
	"strings"
	"time"
)

// server is a running weir.
type server struct {
	cmd *exec.Cmd
	url string
	key string
}

var listening = regexp.MustCompile(`msg=listening url=(\S+)`)

// serve starts weir on a free port and waits until it is ready.
func serve(ctx context.Context, weir, key string, args ...string) (*server, error) {
	args = append([]string{"serve"}, args...)
	if key != "" {
		args = append(args, "--api-key", key)
	}
	cmd := exec.CommandContext(ctx, weir, append(args, "--port", "0")...)
	text, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, key: key}
	lines := bufio.NewScanner(text)
	for s.url == "" && lines.Scan() {
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			s.url = m[1]
		}
	}
	if s.url == "" {
		return nil, errors.New("weir did not start")
	}
	go func() { _, _ = io.Copy(io.Discard, text) }()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if r, err := http.Get(s.url + "/ready"); err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				return s, nil
			}
		}
		<-time.After(20 * time.Millisecond)
	}
	return nil, errors.New("weir was not ready in time")
}

// stop ends the server at once.
func (s *server) stop() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// post sends JSON and returns the answer.
func (s *server) post(path, body string) (string, error) {
	req, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	req.Header.Set("Content-Type", "application/json")
	if s.key != "" {
		req.Header.Set("Authorization", "Bearer "+s.key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	if _, err := b.ReadFrom(resp.Body); err != nil {
		return "", err
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("POST %s: %d %s", path, resp.StatusCode, b.String())
	}
	return b.String(), nil
}
