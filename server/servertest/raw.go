package servertest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Raw is a connection that says exactly what the test says.
type Raw struct {
	net.Conn
	t *testing.T
	R *bufio.Reader // what the server sends
}

// Raw connects to the server.
func (h *Server) Raw(t *testing.T) *Raw {
	t.Helper()
	c, err := h.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	if err := c.SetDeadline(time.Now().Add(30 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return &Raw{c, t, bufio.NewReader(c)}
}

// Send writes s as it is.
func (r *Raw) Send(s string) {
	r.t.Helper()
	if _, err := io.WriteString(r, s); err != nil {
		r.t.Fatal(err)
	}
}

// Answer reads one response.
func (r *Raw) Answer() (status int, body string, header http.Header) {
	r.t.Helper()
	resp, err := http.ReadResponse(r.R, nil)
	if err != nil {
		r.t.Fatalf("no response: %v", err)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("status %d, then %v after %q", resp.StatusCode, err, data)
	}
	if resp.Close {
		resp.Header.Set("Connection", "close") // ReadResponse takes it out
	}
	return resp.StatusCode, string(data), resp.Header
}

// Ended checks that the server has closed the connection.
func (r *Raw) Ended() {
	r.t.Helper()
	if n, err := r.R.Read(make([]byte, 1)); n != 0 || err == nil || strings.Contains(err.Error(), "timeout") {
		r.t.Errorf("the connection is still open: %d, %v", n, err)
	}
}

// Post is the request line and headers of a chat Completion; length below 0 leaves out
// the Content-Length.
func Post(length int, headers ...string) string { return PostTo(ChatPath, length, headers...) }

// PostTo is Post to another path.
func PostTo(path string, length int, headers ...string) string {
	s := "POST " + path + " HTTP/1.1\r\nHost: weir\r\nContent-Type: application/json\r\n"
	for _, line := range headers {
		s += line + "\r\n"
	}
	if length >= 0 {
		s += fmt.Sprintf("Content-Length: %d\r\n", length)
	}
	return s + "\r\n"
}
