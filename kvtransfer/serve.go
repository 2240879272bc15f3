package kvtransfer

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"time"

	"weir/kvcache"
)

const (
	// handshakeTime is how long a connection may take until both sides know each other.
	handshakeTime = 5 * time.Second
	// idleTime is how long a connection may be without a request.
	idleTime = 5 * time.Minute
	// stuckTime is how long a partner may take to take in a copy.
	stuckTime = 10 * time.Second
	// mostConns is the most connections of partners.
	mostConns = 256
)

// Serve answers partners that connect to ln until the node is closed, and closes ln.
func (n *Node) Serve(ln net.Listener) error {
	n.mu.Lock()
	if n.mu.closed {
		n.mu.Unlock()
		return ln.Close()
	}
	n.mu.listeners = append(n.mu.listeners, ln)
	n.mu.Unlock()
	for {
		c, err := ln.Accept()
		if err != nil {
			n.mu.Lock()
			closed := n.mu.closed
			n.mu.Unlock()
			if closed {
				return nil
			}
			if errors.Is(err, net.ErrClosed) {
				return err
			}
			n.warned.warn("a partner could not connect", "error", err)
			select { // there may be no more file descriptors
			case <-time.After(100 * time.Millisecond):
			case <-n.stop:
			}
			continue
		}
		n.take(c)
	}
}

// take answers a connection, if there are not too many.
func (n *Node) take(c net.Conn) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed || len(n.mu.conns) >= mostConns {
		_ = c.Close() // nobody is told
		return
	}
	n.mu.conns[c] = struct{}{}
	n.running.Go(func() {
		defer func() {
			n.mu.Lock()
			defer n.mu.Unlock()
			delete(n.mu.conns, c)
			_ = c.Close() // nobody is told
		}()
		if err := n.answer(c); !errors.Is(err, io.EOF) {
			n.mu.Lock()
			n.mu.stats.ConnsFailed++
			n.mu.Unlock()
			n.cfg.Log.Debug("the connection of a partner has ended", "from", c.RemoteAddr(), "error", err)
		}
	})
}

// secured returns the connection as the configuration wants it, and what binds the handshake to it.
func (n *Node) secured(c net.Conn, server bool) (net.Conn, []byte, error) {
	if n.tls == nil {
		return c, nil, nil
	}
	t := tls.Client(c, n.tls)
	if server {
		t = tls.Server(c, n.tls)
	}
	if err := t.Handshake(); err != nil {
		return nil, nil, err
	}
	state := t.ConnectionState()
	binding, err := state.ExportKeyingMaterial("EXPORTER-weir-kv-transfer", nil, 32)
	return t, binding, err
}

// answer answers the requests of a connection until there is an error; its end is one.
func (n *Node) answer(raw net.Conn) error {
	if err := raw.SetDeadline(time.Now().Add(handshakeTime)); err != nil {
		return err
	}
	c, binding, err := n.secured(raw, true)
	if err != nil {
		return err
	}
	if err := n.creds.welcome(c, binding); err != nil {
		return err
	}
	s := &session{node: n, conn: c, in: bufio.NewReaderSize(c, 4<<10), sums: newSummer(n.creds.identity)}
	return s.serve()
}

// serve answers requests until there is an error; the end of the connection is one.
func (s *session) serve() error {
	var keys []kvcache.Key
	for {
		if err := s.conn.SetDeadline(time.Now().Add(idleTime)); err != nil {
			return err
		}
		q, err := readRequest(s.in, keys)
		if err != nil {
			return err
		}
		keys = q.keys
		switch q.op {
		case opHave:
			err = s.have(&q)
		case opGet:
			err = s.get(&q)
		case opRelease:
			s.node.release(q.lease)
		}
		if err != nil {
			return err
		}
	}
}

// session is a connection of a partner.
type session struct {
	node *Node
	conn net.Conn
	in   *bufio.Reader
	sums *summer
	out  []byte
}

// have says which copies there are.
func (s *session) have(q *request) error {
	s.out = s.node.status(s.out[:0], q)
	_, err := s.conn.Write(s.out)
	return err
}

// get sends copies, each as soon as it is there.
func (s *session) get(q *request) error {
	wait := min(time.Duration(q.wait)*time.Millisecond, s.node.cfg.Wait)
	until, done := context.WithTimeout(context.Background(), wait)
	defer done()
	ready := make(chan loan, 1) // the next copy is found, and its checksum computed, while one is being sent
	go func() {
		defer close(ready)
		for _, k := range q.keys {
			l := loan{key: k, it: s.node.borrow(until, q.lease, k)}
			if l.it != nil {
				l.sum = s.sums.sum(k, l.it.data)
			}
			ready <- l
		}
	}()
	var err error
	for l := range ready {
		if err == nil {
			err = s.send(l)
		}
		if err != nil {
			done() // nothing is waited for any more
		}
		if l.it != nil {
			s.node.giveBack(l.key, l.it, err == nil)
		}
	}
	return err
}

// loan is a copy that is about to be sent.
type loan struct {
	key kvcache.Key
	it  *item // nil: there is none
	sum uint32
}

// send sends a copy, or that there is none.
func (s *session) send(l loan) error {
	if err := s.conn.SetWriteDeadline(time.Now().Add(stuckTime)); err != nil {
		return err
	}
	if l.it == nil {
		s.out = appendAnswer(s.out[:0], absent, 0, 0)
		_, err := s.conn.Write(s.out)
		return err
	}
	s.out = appendAnswer(s.out[:0], held, len(l.it.data), l.sum)
	parts := net.Buffers{s.out, l.it.data} // one system call over TCP
	_, err := parts.WriteTo(s.conn)
	return err
}
