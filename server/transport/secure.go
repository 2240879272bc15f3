package transport

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/valyala/fasthttp"

	"weir/metrics"
	"weir/server/failure"
)

// secure is the TLS of a connection.
//
// # Clients that leave
//
// A client of TLS may say that it leaves, by a record close_notify, and keep its socket open
// until the server has said so too; asyncio of Python waits for that for 30 seconds. The record
// is encrypted, so that peeking at the socket does not tell it from data. Therefore the
// connection reads ahead as soon as a request has arrived completely: once at once, and then
// whenever the kernel reports that bytes have come. It never waits there, because the socket
// is read as far as it has bytes ([socket]). What it reads of the next request is kept in
// framing.rest, at most one record, as what comes behind a request always is.
type secure struct {
	tls     *tls.Conn
	socket  *socket
	current func() *tls.Config // what connections that begin now get
	version *tls.Config        // what this one has

	mu      sync.Mutex  // held to read from tls
	shaken  bool        // the handshake is over
	reading atomic.Bool // the goroutine of the connection reads, and needs nobody to read ahead
	looking atomic.Bool // a goroutine that reads ahead has been started and does not have mu yet
}

// newSecure begins TLS on an accepted connection. The handshake comes with the first read.
func newSecure(nc net.Conn, current func() *tls.Config) *secure {
	s := &secure{socket: &socket{Conn: nc}, current: current, version: current()}
	if sc, ok := nc.(syscall.Conn); ok {
		s.socket.raw, _ = sc.SyscallConn() // without it nothing is read ahead
	}
	s.tls = tls.Server(s.socket, s.version)
	return s
}

// socket is the connection beneath TLS.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil: there is none
	now bool            // Read does not wait, and fails with errLater if there is nothing; guarded by secure.mu
}

func (s *socket) Read(p []byte) (int, error) {
	if s.now {
		return readNow(s.raw, p)
	}
	return s.Conn.Read(p)
}

// errLater means that there is nothing to read yet. It is temporary, so that package tls goes
// on where it was at the next read.
var errLater net.Error = later{}

type later struct{}

func (later) Error() string   { return "nothing has come yet" }
func (later) Timeout() bool   { return true }
func (later) Temporary() bool { return true }

// readSecure is conn.Read with TLS.
func (c *conn) readSecure(p []byte) (int, error) {
	s := c.secure
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading.Store(true)
	defer s.reading.Store(false) // before it is unlocked
	if !s.shaken && !c.shake() {
		return 0, io.EOF
	}
	begins := c.framing.between()
	n, err := c.readRequest(p)
	if begins && n > 0 && !s.trusted() {
		return 0, net.ErrClosed
	}
	if c.framing.between() {
		// In this order: bytes that come before reading is false are seen here, and others by look.
		s.reading.Store(false)
		c.ahead()
	}
	return n, err
}

// look reads ahead, if a request has arrived completely. The watcher calls it when bytes have come.
func (c *conn) look(running *sync.WaitGroup) {
	s := c.secure
	if s == nil || s.reading.Load() || s.looking.Swap(true) {
		return
	}
	// Package tls may have to answer what it reads, and then waits for an answer that is being
	// written. The watcher must not wait.
	running.Go(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.looking.Store(false)
		c.ahead()
	})
}

// ahead reads what has come behind a request, without waiting, and notices that the client
// leaves. secure.mu is locked.
func (c *conn) ahead() {
	s, f := c.secure, &c.framing
	if s.socket.raw == nil || !s.shaken || !f.between() || len(f.rest) > 0 {
		return
	}
	buffer := heldBack.Get().(*[]byte)
	s.socket.now = true
	n, err := s.tls.Read((*buffer)[:cap(*buffer)])
	s.socket.now = false
	if n > 0 {
		f.buffer = buffer
		f.rest = (*buffer)[:n]
		c.conns.received.Add(uint64(n))
	} else {
		heldBack.Put(buffer)
	}
	if err != nil && !errors.Is(err, errLater) {
		c.left()
	}
}

// trusted reports whether the client would be let in now, and not only when it connected: an
// authority may have been removed since.
func (s *secure) trusted() bool {
	now := s.current()
	if now == s.version {
		return true
	}
	if now.ClientAuth < tls.VerifyClientCertIfGiven {
		return true
	}
	sent := s.tls.ConnectionState().PeerCertificates
	if len(sent) == 0 {
		return now.ClientAuth != tls.RequireAndVerifyClientCert
	}
	between := x509.NewCertPool()
	for _, c := range sent[1:] {
		between.AddCert(c)
	}
	_, err := sent[0].Verify(x509.VerifyOptions{Roots: now.ClientCAs, Intermediates: between, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	if err != nil {
		return false
	}
	s.version = now
	return true
}

// handshakes bounds the handshakes that have begun and not ended, by the rule of [places]: an
// address may have as many as are left for others.
type handshakes struct {
	most   int
	within time.Duration // most time that one may take
	failed func(*conn, metrics.Handshake, error)

	mu    sync.Mutex
	taken int
	of    map[string]int // by address; those with none are not there
}

// begin reports whether there is a place for a handshake.
func (h *handshakes) begin(address string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.of[address] >= h.most-h.taken {
		return false
	}
	if h.of == nil {
		h.of = make(map[string]int)
	}
	h.of[address]++
	h.taken++
	return true
}

// begun counts the handshakes that have begun and not ended.
func (h *handshakes) begun() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.taken
}

func (h *handshakes) end(address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.taken--
	if h.of[address]--; h.of[address] == 0 {
		delete(h.of, address)
	}
}

// shake does the handshake, and reports whether it succeeded. secure.mu is locked.
func (c *conn) shake() bool {
	s, h := c.secure, &c.conns.handshakes
	if !h.begin(c.address) {
		h.failed(c, metrics.HandshakeFull, failure.ErrConnections)
		return false
	}
	defer h.end(c.address)
	ctx, cancel := context.WithTimeout(context.Background(), h.within)
	defer cancel()
	err := s.tls.HandshakeContext(ctx)
	if err == nil {
		s.shaken = true
		return true
	}
	var record tls.RecordHeaderError
	var cert *tls.CertificateVerificationError
	switch {
	case errors.As(err, &record) && record.Conn != nil && plain(record.RecordHeader):
		h.failed(c, metrics.HandshakePlain, err)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		h.failed(c, metrics.HandshakeUnfinished, err)
	case errors.As(err, &cert), err.Error() == noCertificate:
		h.failed(c, metrics.HandshakeClient, err)
	default:
		h.failed(c, metrics.HandshakeOther, err)
	}
	return false
}

// noCertificate is the error of a client that sends no certificate. Package tls has no type for it.
const noCertificate = "tls: client didn't provide a certificate"

// plain reports whether what came in place of a record of TLS begins like a request of HTTP: with
// a method, and perhaps a space and a path.
func plain(first [5]byte) bool {
	for i, b := range first {
		upper := 'A' <= b && b <= 'Z'
		if !upper && (i < 3 || b != ' ' && b != '/' && b != '*') {
			return false
		}
	}
	return true
}

// unsecured records a handshake that failed, and answers a client that speaks plain HTTP.
func (s *Server) unsecured(c *conn, why metrics.Handshake, err error) {
	s.counts.HandshakeFailed(why)
	s.log.Log(context.Background(), slog.LevelDebug, "a TLS handshake failed", "from", c.RemoteAddr(), "kind", string(why), "error", err)
	if why != metrics.HandshakePlain {
		return
	}
	f := s.failures.Of(failure.OpenAI, failure.ErrPlain)
	body := f.AppendBody(nil)
	_ = c.socket.SetWriteDeadline(time.Now().Add(time.Second)) // so few bytes are taken at once
	_, _ = fmt.Fprintf(c.socket, "HTTP/1.1 %d %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		f.Status, fasthttp.StatusMessage(f.Status), len(body), body)
	discardInput(c.socket)
}
