//go:build unix

package transport

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"weir/server/failure"
)

// pair returns both ends of a TCP connection. The server's end is watched.
func pair(t *testing.T, ln net.Listener, cs *connections) (client *net.TCPConn, c *conn) {
	t.Helper()
	type accepted struct {
		nc  net.Conn
		err error
	}
	ch := make(chan accepted, 1)
	go func() { nc, err := ln.Accept(); ch <- accepted{nc, err} }()
	nc, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	a := <-ch
	if a.err != nil {
		t.Fatal(a.err)
	}
	if c, err = cs.accept(a.nc, nil); err != nil {
		t.Fatal(err)
	}
	return nc.(*net.TCPConn), c
}

func watching(t *testing.T, peeks bool) (*watcher, *connections, net.Listener) {
	w := newWatcher(slog.New(slog.DiscardHandler))
	w.peeks = peeks
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close(); w.close() })
	return w, newConnections(w, time.Minute, 100, time.Now), ln
}

func bothSources(t *testing.T, f func(t *testing.T, peeks bool)) {
	t.Run("kernel", func(t *testing.T) { f(t, false) })
	t.Run("peek", func(t *testing.T) { f(t, true) })
}

func gone(t *testing.T, ctx context.Context, what string) {
	t.Helper()
	begin := time.Now()
	select {
	case <-ctx.Done():
	case <-time.After(5 * time.Second):
		t.Fatalf("%s: not noticed", what)
	}
	t.Logf("%s: noticed after %v", what, time.Since(begin))
	if err := context.Cause(ctx); !errors.Is(err, failure.ErrGone) {
		t.Errorf("%s: cause %v", what, err)
	}
}

func TestWatcherNotices(t *testing.T) {
	bothSources(t, func(t *testing.T, peeks bool) {
		_, cs, ln := watching(t, peeks)
		for _, how := range []struct {
			name  string
			leave func(*net.TCPConn)
		}{
			{"close", func(c *net.TCPConn) { c.Close() }},
			{"half-close", func(c *net.TCPConn) { c.CloseWrite() }},
			{"reset", func(c *net.TCPConn) { c.SetLinger(0); c.Close() }},
		} {
			client, c := pair(t, ln, cs)
			ctx, cancel := context.WithCancelCause(context.Background())
			c.attach(cancel)
			how.leave(client)
			gone(t, ctx, how.name)
			c.Close()
			client.Close()
		}
	})
}

// A client that has left before its request was attached, as between two requests.
func TestWatcherRemembers(t *testing.T) {
	_, cs, ln := watching(t, false)
	client, c := pair(t, ln, cs)
	ctx0, cancel0 := context.WithCancelCause(context.Background())
	c.attach(cancel0)
	client.Close()
	gone(t, ctx0, "first")
	c.detach()
	ctx, cancel := context.WithCancelCause(context.Background())
	c.attach(cancel)
	gone(t, ctx, "second")
	c.Close()
}

// Unread bytes do not mean that the client has left, and a detached request is not
// cancelled.
func TestWatcherLeavesOthersAlone(t *testing.T) {
	bothSources(t, func(t *testing.T, peeks bool) {
		_, cs, ln := watching(t, peeks)
		talks, c1 := pair(t, ln, cs)
		silent, c2 := pair(t, ln, cs)
		leaves, c3 := pair(t, ln, cs)
		ctx1, cancel1 := context.WithCancelCause(context.Background())
		ctx2, cancel2 := context.WithCancelCause(context.Background())
		ctx3, cancel3 := context.WithCancelCause(context.Background())
		c1.attach(cancel1)
		c2.attach(cancel2)
		c3.attach(cancel3)
		if _, err := talks.Write([]byte("the next request")); err != nil {
			t.Fatal(err)
		}
		leaves.Close()
		gone(t, ctx3, "the one that left")
		time.Sleep(3 * peekEvery)
		if ctx1.Err() != nil || ctx2.Err() != nil {
			t.Errorf("cancelled: talking %v, silent %v", context.Cause(ctx1), context.Cause(ctx2))
		}
		c2.detach()
		silent.Close()
		time.Sleep(3 * peekEvery)
		if ctx2.Err() != nil {
			t.Error("a detached request was cancelled")
		}
		for _, c := range []*conn{c1, c2, c3} {
			c.Close()
		}
		talks.Close()
	})
}

// The system uses file descriptors again at once. A connection must not be cancelled because
// the client of an earlier one with the same descriptor has left.
func TestWatcherDescriptorReuse(t *testing.T) {
	bothSources(t, func(t *testing.T, peeks bool) {
		w, cs, ln := watching(t, peeks)
		for range 200 {
			client, c := pair(t, ln, cs)
			client.Close() // the event may be on its way when the descriptor goes
			c.Close()
			client2, c2 := pair(t, ln, cs) // gets the same number, as a rule
			ctx, cancel := context.WithCancelCause(context.Background())
			c2.attach(cancel)
			if ctx.Err() != nil {
				t.Fatal("cancelled because the client of another connection has left")
			}
			client2.Close()
			gone(t, ctx, "the second")
			c2.Close()
			if peeks {
				break // ten a second: once is enough
			}
		}
		if n := len(w.inFlight(nil)); n != 0 {
			t.Errorf("%d connections still watched", n)
		}
	})
}

// A connection without a file descriptor works, but is not watched.
func TestWatcherWithoutDescriptor(t *testing.T) {
	w := newWatcher(slog.New(slog.DiscardHandler))
	client, server := net.Pipe()
	c, err := newConnections(w, time.Minute, 100, time.Now).accept(server, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c.raw != nil || w.mu.source != nil {
		t.Error("a pipe is watched")
	}
	c.Close()
	if _, err := client.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after Close: %v", err)
	}
	w.close()
}
