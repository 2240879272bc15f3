package transport

import (
	"bytes"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"weir/internal/retry"
	"weir/server/failure"
)

// TestPlaces: an address has as many places as it leaves to others; beyond that a connection
// that waits goes, the oldest of the address that has most of them.
func TestPlaces(t *testing.T) {
	p := newPlaces(8, time.Now)
	var open []*conn
	// enter asks for a place; gone is the index of the connection that goes, or -1.
	enter := func(address string, ok bool, gone int) {
		t.Helper()
		instead, got := p.admit(address)
		if want := (*conn)(nil); got != ok || gone < 0 && instead != want || gone >= 0 && instead != open[gone] {
			t.Fatalf("connection %d from %s: %v, instead of %v", len(open), address, got, instead)
		}
		if instead != nil {
			p.remove(instead)
		}
		if got {
			c := &conn{address: address}
			open = append(open, c)
			p.add(c)
		}
	}
	for range 4 { // 0 to 3
		enter("a", true, -1)
	}
	enter("a", true, 0) // 4
	for i := 1; i < 5; i++ {
		p.work(open[i])
	}
	enter("a", false, -1)
	enter("b", true, -1) // 5
	enter("b", true, -1) // 6
	enter("b", true, 5)  // 7
	p.wait(open[3])
	p.wait(open[1])
	p.wait(open[2])
	enter("b", true, 3) // 8: a has three that wait, b two in all
	enter("c", true, -1)
	enter("d", true, -1)
	enter("e", true, 6) // the places are all taken, and b has three that wait
	if p.taken != 8 {
		t.Errorf("%d places are taken", p.taken)
	}
}

// TestWhenThereIsAPlace: who is refused is told how long it takes until a connection of its
// address, or any one if it has none, has ended its request, as long as these took.
func TestWhenThereIsAPlace(t *testing.T) {
	clock := time.Unix(0, 0)
	p := newPlaces(4, func() time.Time { return clock })
	refused := func(address string, want time.Duration) {
		t.Helper()
		err := p.full(address)
		if !errors.Is(err, failure.ErrConnections) || retry.Of(err) != want {
			t.Errorf("%s: %v after %v, want %v", address, err, retry.Of(err), want)
		}
	}
	x, y, z := &conn{address: "a"}, &conn{address: "a"}, &conn{address: "b"}
	for _, c := range []*conn{x, y, z} {
		p.add(c)
	}
	request := func(c *conn, took time.Duration) {
		p.work(c)
		clock = clock.Add(took)
		p.wait(c)
		clock = clock.Add(time.Hour) // which it waits for the next one, and which does not count
	}
	refused("a", 0) // nothing was measured
	for range 3 {
		request(x, 12*time.Second)
	}
	p.remove(z) // it never had a request
	refused("a", 6*time.Second)
	refused("b", 6*time.Second)
	p.add(z)
	refused("a", 6*time.Second)
	refused("b", 12*time.Second)
	refused("c", 4*time.Second)
	p.work(z)
	clock = clock.Add(12 * time.Second)
	p.remove(z)
	refused("b", 6*time.Second)
}

// TestPlacesAtRandom: whatever happens, no more places are taken than there are, only
// connections that wait have to go, and an address without a connection gets in if any waits.
func TestPlacesAtRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	r := &randomPlaces{places: newPlaces(20, time.Now)}
	for range 20_000 {
		switch address := strconv.Itoa(int(rng.ExpFloat64() * 3)); {
		case rng.IntN(3) == 0:
			r.arrive(t, address)
		case len(r.open) == 0:
		case rng.IntN(4) == 0:
			r.drop(t, r.open[rng.IntN(len(r.open))])
		case rng.IntN(2) == 0:
			r.work(r.open[rng.IntN(len(r.open))])
		default:
			r.wait(r.open[rng.IntN(len(r.open))])
		}
		if r.taken != len(r.open) || r.taken > r.most || len(r.idle) > 0 && r.idle[0].idle.Len() != r.mostIdle() {
			t.Fatalf("%d of %d places are taken by %d connections", r.taken, r.most, len(r.open))
		}
		if n := r.allIdle(); r.waiting() != n {
			t.Fatalf("%d connections wait, not %d", n, r.waiting())
		}
	}
	for len(r.open) > 0 {
		r.drop(t, r.open[0])
	}
	if len(r.of) != 0 || len(r.idle) != 0 || r.taken != 0 {
		t.Errorf("%d addresses, %d idle, %d places taken at the end", len(r.of), len(r.idle), r.taken)
	}
}

// randomPlaces are places with the connections that have them.
type randomPlaces struct {
	*places
	open []*conn
}

// arrive lets a connection in, or not, and checks who has to go for it.
func (r *randomPlaces) arrive(t *testing.T, address string) {
	t.Helper()
	idle := r.mostIdle()
	instead, ok := r.admit(address)
	if r.of[address] == nil && idle > 0 && !ok {
		t.Fatal("a new address is kept out")
	}
	if instead != nil {
		if instead.waiting == nil || instead.address != address && r.of[instead.address].idle.Len() != idle {
			t.Fatalf("%+v has to go", instead)
		}
		r.drop(t, instead)
	}
	if ok {
		r.open = append(r.open, &conn{address: address})
		r.add(r.open[len(r.open)-1])
	}
}

func (r *randomPlaces) drop(t *testing.T, c *conn) {
	t.Helper()
	i := slices.Index(r.open, c)
	if i < 0 {
		t.Fatal("a connection goes that is not open")
	}
	r.open = slices.Delete(r.open, i, i+1)
	r.remove(c)
}

// mostIdle is the largest number of idle connections of an address.
func (r *randomPlaces) mostIdle() (n int) {
	idle := map[string]int{}
	for _, c := range r.open {
		if c.waiting != nil {
			idle[c.address]++
			n = max(n, idle[c.address])
		}
	}
	return n
}

// allIdle counts the connections that wait for a request.
func (r *randomPlaces) allIdle() (n int) {
	for _, c := range r.open {
		if c.waiting != nil {
			n++
		}
	}
	return n
}

// poor is a listener whose process may have a number of open sockets, and no more.
type poor struct {
	net.Listener
	ends  []net.Conn
	limit int
	open  *atomic.Int64
}

type counted struct {
	net.Conn
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.Conn.Close()
}

func (p *poor) Accept() (net.Conn, error) {
	if p.open.Load() >= int64(p.limit) {
		return nil, &net.OpError{Op: "accept", Err: syscall.EMFILE}
	}
	p.open.Add(1)
	a, b := net.Pipe()
	p.ends = append(p.ends, b)
	return &counted{Conn: a, open: p.open}, nil
}

// TestNoDescriptors: where file descriptors run out, connections that wait for a request give
// theirs up, and those with a request do not.
func TestNoDescriptors(t *testing.T) {
	var log bytes.Buffer
	w := newWatcher(slog.New(slog.NewTextHandler(&log, nil)))
	cs := newConnections(w, time.Minute, 100, time.Now)
	p := &poor{limit: 3, open: new(atomic.Int64)}
	l := &listener{Listener: p, conns: cs, closing: new(atomic.Bool)}
	accept := func() *conn {
		t.Helper()
		nc, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		return nc.(*conn)
	}
	busy, first := accept(), accept()
	if !cs.work(busy) {
		t.Fatal("the connection is closed")
	}
	accept()
	accept()
	if !first.Conn.(*counted).closed.Load() || busy.Conn.(*counted).closed.Load() || cs.work(first) || p.open.Load() != 3 || log.Len() > 0 {
		t.Errorf("the oldest is open, or the busy one is not: %d open, %s", p.open.Load(), &log)
	}
	// The client of a connection that was closed is told so, and a request that it has sent
	// meanwhile is not served.
	if n, err := first.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("read %d bytes, %v", n, err)
	}
	if err := first.Close(); err != nil || len(cs.open) != 3 {
		t.Errorf("%v, %d open", err, len(cs.open))
	}
	cs.abort()
}
