//go:build unix

package transport_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/backend/sim"
	"weir/internal/testkit"
	"weir/internal/tlsfiles"
	"weir/server/servertest"
)

// secured returns what makes a server speak TLS, with the authority that its certificate and those
// of its clients are of, and its files.
func secured(t *testing.T, clients tlsfiles.Clients) (set func(*servertest.Setup), a *testkit.Authority, f *tlsfiles.Files, n tlsfiles.Names) {
	t.Helper()
	a = testkit.NewAuthority(t, "authority")
	dir := t.TempDir()
	a.Write(dir, "server", 10*time.Hour)
	n = tlsfiles.Names{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), CA: filepath.Join(dir, "ca.pem"), Clients: clients}
	testkit.Replace(t, n.CA, a.PEM)
	f, err := tlsfiles.Open(n)
	if err != nil {
		t.Fatal(err)
	}
	return func(s *servertest.Setup) {
		s.TCP, s.TLS, s.Trust = true, f.Config, &tls.Config{RootCAs: a.Pool, ServerName: "localhost"}
	}, a, f, n
}

// TestLeaveSecure: a client of TLS that leaves is noticed, however it leaves: by its record
// close_notify alone (half-close), which looks like data from outside, by the end of its
// socket alone, by both, or by a reset. In the reading of a body, too, and by peeking.
func TestLeaveSecure(t *testing.T) {
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, c := range []struct {
			how   string
			peeks bool
		}{{"close", false}, {"half-close", false}, {"end", false}, {"reset", false}, {"half-close", true}, {"close", true}} {
			for name, leave := range map[string]func(*leaver, string){
				"reading": leaveReading, "queued at the engine": leaveWaiting, "decoding": leaveDecoding(map[string]any{}), "streaming": leaveDecoding(map[string]any{"stream": true}),
			} {
				set, _, _, _ := secured(t, tlsfiles.NotAsked)
				leaveSoon(t, c.peeks, c.how, leave, func(s *servertest.Setup) {
					set(s)
					s.Trust.MaxVersion = version
					if name == "queued at the engine" {
						s.Spec.MaxSeqs = 1
					}
				})
			}
		}
	}
}

// leaveSoon checks that a server frees what a client held soon after it has left. The machine may be
// busy with something else: one of three tries is enough.
func leaveSoon(t *testing.T, peeks bool, how string, leave func(*leaver, string), change func(*servertest.Setup)) {
	t.Helper()
	var took time.Duration
	for range 3 {
		l := newLeaver(t, peeks, change)
		leave(l, how)
		l.Stop()
		if took = l.took; took <= soon {
			return
		}
	}
	t.Fatalf("%s, peek %v: free after %v", how, peeks, took)
}

// TestLeavesWithRequest: a client that says that it leaves in the same breath as it sends its
// request is noticed, although the kernel reports nothing after that.
func TestLeavesWithRequest(t *testing.T) {
	set, _, _, _ := secured(t, tlsfiles.NotAsked)
	h := newServer(t, set)
	_, release := h.HoldSteps()
	defer release()
	nc, err := net.Dial("tcp", h.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	g := &gatherer{Conn: nc}
	c := tls.Client(g, &tls.Config{InsecureSkipVerify: true})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	g.gathers = true
	body := servertest.Body(t, map[string]any{"max_tokens": 900, "ignore_eos": true})
	io.WriteString(c, servertest.Post(len(body))+body)
	c.CloseWrite()
	nc.SetDeadline(time.Now().Add(servertest.Deadline)) // which CloseWrite has changed
	if _, err := nc.Write(g.kept); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, nc); err != nil { // it ends without an answer, before any step
		t.Fatal(err)
	}
	release()
}

// gatherer keeps what is written, to be sent in one piece.
type gatherer struct {
	net.Conn
	gathers bool
	kept    []byte
}

func (g *gatherer) Write(p []byte) (int, error) {
	if !g.gathers {
		return g.Conn.Write(p)
	}
	g.kept = append(g.kept, p...)
	return len(p), nil
}

// TestSecureStream: each event of a stream arrives as soon as its step has ended, and a request that
// was sent during the answer is answered after it.
func TestSecureStream(t *testing.T) {
	set, _, _, _ := secured(t, tlsfiles.NotAsked)
	h := newServer(t, set)
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	body := servertest.Body(t, map[string]any{"max_tokens": 20, "ignore_eos": true, "stream": true})
	r := h.Raw(t)
	r.Send(servertest.Post(len(body)) + body)
	read := func() string {
		t.Helper()
		for {
			line, err := r.R.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(line, "data: ") {
				return line
			}
		}
	}
	for i := range 6 {
		gate <- struct{}{} // and the next step is held
		if i == 3 {
			r.Send("GET /version HTTP/1.1\r\nHost: weir\r\n\r\n")
		}
		if line := read(); !strings.Contains(line, "chat.completion.chunk") {
			t.Errorf("event %d: %s", i, line)
		}
	}
	close(gate)
	events := 6
	for ; read() != "data: [DONE]\n"; events++ {
	}
	if events < 20 {
		t.Errorf("%d events", events)
	}
	for _, want := range []string{"\r\n", "0\r\n", "\r\n"} { // the rest of the chunk, and the last one
		for line := ""; line != want; {
			var err error
			if line, err = r.R.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
	}
	if status, text, _ := r.Answer(); status != 200 || !strings.Contains(text, "version") {
		t.Errorf("the next one: %d %s", status, text)
	}
}

// TestPlainToSecure: who speaks plain HTTP to a port with TLS is told so, also with a body that is not
// read, and who speaks anything else is not.
func TestPlainToSecure(t *testing.T) {
	set, _, _, _ := secured(t, tlsfiles.NotAsked)
	h := newServer(t, set)
	for name, c := range map[string]struct {
		sent string
		told bool
	}{
		"GET":           {"GET /health HTTP/1.1\r\nHost: weir\r\n\r\n", true},
		"a body":        {servertest.Post(1<<20) + strings.Repeat("x", 1<<20), true},
		"HTTP/2":        {"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", true},
		"another thing": {"SSH-2.0-OpenSSH\r\n", false},
		"zeros":         {strings.Repeat("\x00", 100), false},
	} {
		nc, err := net.Dial("tcp", h.Addr)
		if err != nil {
			t.Fatal(err)
		}
		nc.SetDeadline(time.Now().Add(servertest.Deadline))
		if _, err := io.WriteString(nc, c.sent); err != nil && c.told {
			t.Fatalf("%s: %v", name, err)
		}
		resp, err := http.ReadResponse(bufio.NewReader(nc), nil)
		switch {
		case err != nil:
			if c.told {
				t.Errorf("%s: %v", name, err)
			}
		default:
			text, _ := io.ReadAll(resp.Body)
			if !c.told || resp.StatusCode != 400 || !strings.Contains(string(text), "use https://") {
				t.Errorf("%s: %d %s", name, resp.StatusCode, text)
			}
		}
		nc.Close()
	}
	if status, _, _ := h.Get("GET", "/health", ""); status != 200 {
		t.Errorf("with TLS: %d", status)
	}
}

// TestSlowHandshake: a handshake that is not finished is given up, and an address has no more of
// them than are left for others.
func TestSlowHandshake(t *testing.T) {
	a, b := net.Pipe()
	a.Close()
	hello := &gatherer{Conn: b, gathers: true}
	tls.Client(hello, &tls.Config{InsecureSkipVerify: true}).Handshake() // which fails, and leaves the first message
	begun := [][]byte{nil, hello.kept[:3], hello.kept[:50], hello.kept}
	start := func(within time.Duration) (h *testServer, slow []net.Conn) {
		set, _, _, _ := secured(t, tlsfiles.NotAsked)
		h = newServer(t, func(s *servertest.Setup) {
			set(s)
			s.Config.MaxHandshakes, s.Config.HandshakeTimeout = 2*len(begun), within
		})
		for _, said := range begun { // half of what there is: the share of one address
			slow = append(slow, silent(t, h.Addr, said))
		}
		return h, slow
	}

	h, slow := start(time.Hour)
	servertest.WaitFor(t, "the handshakes", func() bool { return h.Instance.Transport().Held().Handshakes == len(begun) })
	more := silent(t, h.Addr, hello.kept)
	if n, err := more.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Error("one more handshake was begun")
	}
	more.Close()
	for _, nc := range slow {
		nc.Close()
	}
	servertest.WaitFor(t, "the end", func() bool { return h.Instance.Transport().Held().Handshakes == 0 })
	if status, _, _ := h.Get("GET", "/health", ""); status != 200 {
		t.Errorf("after that: %d", status)
	}

	h, slow = start(100 * time.Millisecond)
	for i, nc := range slow {
		if _, err := io.Copy(io.Discard, nc); err != nil {
			t.Errorf("%d: %v", i, err)
		}
		nc.Close()
	}
	servertest.WaitFor(t, "the end", func() bool { return h.Instance.Transport().Held().Handshakes == 0 })
}

// silent connects and says nothing more than this.
func silent(t *testing.T, addr string, said []byte) net.Conn {
	t.Helper()
	nc, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	nc.SetDeadline(time.Now().Add(servertest.Deadline))
	if _, err := nc.Write(said); err != nil {
		t.Fatal(err)
	}
	return nc
}

// TestClientCertificates: only clients of an authority are served, and one that has connected is not
// served any longer when its authority is removed, not even on the same connection.
func TestClientCertificates(t *testing.T) {
	set, a, f, n := secured(t, tlsfiles.Required)
	other := testkit.NewAuthority(t, "other")
	h := newServer(t, set)
	client := func(pairs ...tls.Certificate) *http.Client {
		c := &tls.Config{RootCAs: a.Pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			return &append(pairs, tls.Certificate{})[0], nil
		}}
		transport := &http.Transport{TLSClientConfig: c}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	get := func(c *http.Client) string {
		resp, err := c.Get("https://" + h.Addr + "/health")
		if err != nil {
			return err.Error()
		}
		defer resp.Body.Close()
		return resp.Status
	}
	right, replaced := client(a.Pair("client", 10*time.Hour)), client(other.Pair("client", 10*time.Hour))
	for name, c := range map[string]struct {
		c    *http.Client
		want string
	}{"right": {right, "200 OK"}, "none": {client(), "certificate required"}, "wrong": {replaced, "unknown certificate authority"}, "expired": {client(a.Pair("client", time.Minute)), "expired certificate"}} {
		if got := get(c.c); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
	}
	for _, c := range []struct {
		authority    []byte
		right, wrong string
	}{{append(a.PEM[:len(a.PEM):len(a.PEM)], other.PEM...), "200 OK", "200 OK"}, {other.PEM, "unknown certificate authority", "200 OK"}} {
		testkit.Replace(t, n.CA, c.authority)
		if err := f.Reload(); err != nil {
			t.Fatal(err)
		}
		if r, w := get(right), get(replaced); !strings.Contains(r, c.right) || w != c.wrong {
			t.Errorf("after a change: %s, %s", r, w)
		}
	}
}
