package kvtransfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"

	"weir/kvcache"
)

const secret = "a secret of tests, long enough"

func config() Config {
	return Config{
		Identity: "identity", Secret: []byte(secret), Serve: true, Hold: 1 << 20, MostLeases: 8, LeaseTime: time.Hour, Queue: 1 << 20, Wait: 10 * time.Second,
		Log: slog.New(slog.DiscardHandler),
	}
}

// start starts a node that answers partners, and returns its address.
func start(t *testing.T, cfg Config) (n *Node, addr string) {
	t.Helper()
	ln := listen(t)
	n = open(t, cfg)
	go func() { _ = n.Serve(ln) }()
	return n, ln.Addr().String()
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ln.Close() })
	return ln
}

func open(t *testing.T, cfg Config) *Node {
	t.Helper()
	n, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Close() })
	return n
}

// reader starts a node that reads from partners. woken gets something whenever there is something for Fetched.
func reader(t *testing.T, cfg Config, peers ...string) (n *Node, woken chan struct{}) {
	t.Helper()
	cfg.Peers = peers
	n = open(t, cfg)
	woken = make(chan struct{}, 1)
	n.Notify(func() {
		select {
		case woken <- struct{}{}:
		default:
		}
	})
	return n, woken
}

// prompt makes the keys and copies of a prompt: blocks, and a state at the end.
func prompt(seed uint64, blocks int) (keys []kvcache.Key, copies [][]byte) {
	g := rand.New(rand.NewPCG(seed, 1))
	for i := range blocks + 1 {
		var h kvcache.Hash
		data := make([]byte, 1000)
		if i == blocks {
			data = make([]byte, 300)
		}
		for j := range data {
			data[j] = byte(g.Uint32())
		}
		copy(h[:], data)
		keys, copies = append(keys, kvcache.Key{Hash: h, State: i == blocks}), append(copies, data)
	}
	return keys, copies
}

// save does what the engine does with blocks that are published.
func save(n *Node, keys []kvcache.Key, copies [][]byte) {
	for i, k := range keys {
		if !n.Wants(k) {
			continue
		}
		b := n.Buffer(len(copies[i]))
		copy(b, copies[i])
		n.Save(k, b)
	}
}

// read does what the engine does with blocks that it lacks. Those that do not come are nil.
func read(t *testing.T, n *Node, woken <-chan struct{}, keys []kvcache.Key, copies [][]byte) (got [][]byte) {
	t.Helper()
	got = make([][]byte, len(keys))
	next, left := 0, len(keys)
	for left > 0 {
		for next < len(keys) && n.Fetch(keys[next], len(copies[next])) {
			next++
		}
		for _, c := range n.Fetched(nil, 1<<20) {
			got[slices.Index(keys, c.Key)] = bytes.Clone(c.Data)
			if left--; c.Data != nil && !c.External {
				t.Error("a copy of a partner looks like one of this machine")
			}
		}
		if left > 0 {
			wait(t, woken)
		}
	}
	return got
}

func wait(t *testing.T, c <-chan struct{}) {
	t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		t.Fatal("nothing has come")
	}
}

// until waits for what another goroutine does.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	end := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatalf("it has never come to this: %s", what)
		}
	}
}

func offer(t *testing.T, n *Node, addr string, l *Lease, keys []kvcache.Key) *Offer {
	t.Helper()
	id, ok := ParseLease(l.ID())
	if !ok {
		t.Fatal("the name of a lease cannot be read")
	}
	o, err := n.Offer(t.Context(), addr, id, keys)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func same(a, b [][]byte) bool { return slices.EqualFunc(a, b, bytes.Equal) }

// TestTransfer sends prompts of which the first blocks are common, in the clear and encrypted.
func TestTransfer(t *testing.T) {
	for _, encrypt := range []bool{false, true} {
		cfg := config()
		cfg.Encrypt = encrypt
		from, addr := start(t, cfg)
		to, woken := reader(t, cfg, addr)
		keys, copies := prompt(1, 200)
		other, more := prompt(2, 5)
		other, more = append(slices.Clone(keys[:7]), other...), append(slices.Clone(copies[:7]), more...)

		first, second := from.Lease(keys), from.Lease(other)
		save(from, keys, copies)
		save(from, other, more)
		if a, b := first.Settle(), second.Settle(); a != 201 || b != 13 {
			t.Fatalf("%d and %d copies are held", a, b)
		}
		o := offer(t, to, addr, first, keys)
		if o.Copies() != 201 || !to.Has(keys[0]) || to.Has(other[8]) {
			t.Fatalf("%d copies are offered", o.Copies())
		}
		if got := read(t, to, woken, keys, copies); !same(got, copies) {
			t.Fatal("something else has come")
		}
		p := offer(t, to, addr, second, other)
		o.End()
		o.End()
		until(t, "the first lease has ended", func() bool { return from.Stats().LeasesOpen == 1 })
		if got := read(t, to, woken, other, more); !same(got, more) {
			t.Fatal("of the second prompt something else has come")
		}
		p.End()
		until(t, "the second lease has ended", func() bool { return from.Stats().LeasesOpen == 0 && from.Stats().HeldBytes == 0 })
		if to.Has(keys[0]) || len(to.mu.offers) > 0 || len(from.mu.items) > 0 || to.mu.reading != 0 {
			t.Error("something is left")
		}
		if st := to.Stats(); st.Received != 214 || st.Failed > 0 || st.Offers != 2 {
			t.Errorf("%+v", st)
		}
	}
}

// TestAwaited asks before the prompt is computed: blocks come as they do, and what does not come in the end is not waited for.
func TestAwaited(t *testing.T) {
	from, addr := start(t, config())
	to, woken := reader(t, config(), addr)
	keys, copies := prompt(1, 3)
	l := from.Lease(keys)
	o := offer(t, to, addr, l, keys)
	if o.Copies() != 3 || to.Has(keys[3]) {
		t.Fatalf("%d copies are offered; a state that is not there must not be", o.Copies())
	}
	for i := range keys[:3] {
		if !to.Fetch(keys[i], len(copies[i])) {
			t.Fatal("too much is being read")
		}
	}
	for i := range 2 {
		save(from, keys[i:i+1], copies[i:i+1])
		wait(t, woken)
		if got := to.Fetched(nil, 1<<20); len(got) != 1 || got[0].Key != keys[i] || !bytes.Equal(got[0].Data, copies[i]) {
			t.Fatalf("block %d: %v", i, got)
		}
	}
	if n := l.Settle(); n != 2 {
		t.Fatalf("%d copies are held", n)
	}
	wait(t, woken)
	if got := to.Fetched(nil, 1<<20); len(got) != 1 || got[0].Data != nil {
		t.Fatalf("a block that was not computed: %v", got)
	}
}

// TestLeases lets leases run out: by number, by bytes and by time; and asks for what they do not name.
func TestLeases(t *testing.T) {
	cfg := config()
	cfg.MostLeases, cfg.Hold, cfg.LeaseTime = 2, 2500, time.Millisecond
	from, addr := start(t, cfg)
	to, _ := reader(t, cfg, addr)
	keys, copies := prompt(1, 5)
	l := from.Lease(keys)
	save(from, keys, copies)
	if st := from.Stats(); st.HeldBytes != 3000 {
		t.Errorf("%d bytes are held, where 2,500 are allowed and a last copy may be over", st.HeldBytes)
	}
	if from.Lease(keys) != nil {
		t.Error("there is a lease although all room is taken")
	}
	if n := l.Settle(); n != 3 {
		t.Errorf("%d copies are held", n)
	}
	until(t, "the lease has run out", func() bool { st := from.Stats(); return st.LeasesExpired == 1 && st.HeldBytes == 0 })
	if o := offer(t, to, addr, l, keys); o.Copies() != 0 {
		t.Errorf("%d copies are offered of a lease that has run out", o.Copies())
	}
	a, b := from.Lease(keys), from.Lease(keys)
	if a == nil || b == nil || from.Lease(keys) != nil {
		t.Error("there may be two leases, and no more")
	}
	save(from, keys[:1], copies[:1])
	strange, _ := prompt(3, 2)
	if o := offer(t, to, addr, a, strange); o.Copies() != 0 {
		t.Error("a lease gives out what it does not name")
	}
	if o := offer(t, to, addr, &Lease{}, keys); o.Copies() != 0 {
		t.Error("something is given out without a lease")
	}
	a.End()
	if o := offer(t, to, addr, b, keys); o.Copies() != 5 {
		t.Error("the end of a lease has taken copies from another one")
	}
	b.End()
	if len(from.mu.items) > 0 || from.Stats().HeldBytes != 0 {
		t.Error("something is left")
	}
	if from.Wants(keys[0]) {
		t.Error("a copy is wanted that nobody will ask for")
	}
}

// TestStrangers tries partners that have another fingerprint, do not know the secret, or do not encrypt.
func TestStrangers(t *testing.T) {
	for name, change := range map[string]func(*Config){
		"fingerprint": func(c *Config) { c.Identity = "identity of another build" },
		"secret":      func(c *Config) { c.Secret = []byte("another secret, as long as that") },
		"encryption":  func(c *Config) { c.Encrypt = true },
	} {
		from, addr := start(t, config())
		cfg := config()
		change(&cfg)
		to, _ := reader(t, cfg, addr)
		keys, copies := prompt(1, 3)
		l := from.Lease(keys)
		save(from, keys, copies)
		id, _ := ParseLease(l.ID())
		if _, err := to.Offer(t.Context(), addr, id, keys); err == nil || to.Has(keys[0]) {
			t.Errorf("%s: it is a partner", name)
		} else if name == "fingerprint" && (!errors.Is(err, errIdentity) || to.Stats().Strangers != 1) {
			t.Errorf("%s: %v", name, err)
		} else if name == "secret" && !errors.Is(err, errSecret) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := to.Offer(t.Context(), addr, id, keys); !errors.Is(err, ErrPartner) || to.Stats().OffersFailed != 2 {
			t.Errorf("%s: it is asked again at once: %v", name, err)
		}
	}
	to, _ := reader(t, config())
	if _, err := to.Offer(t.Context(), "127.0.0.1:1", LeaseID{}, nil); !errors.Is(err, ErrPartner) || to.Knows("127.0.0.1:1") {
		t.Errorf("an address that is nobody's: %v", err)
	}
}

// TestServerKnowsTheSecret has a server accept anybody: the client notices.
func TestServerKnowsTheSecret(t *testing.T) {
	cfg := config()
	cfg.Secret = []byte("what the server takes for the secret")
	_, addr := start(t, cfg)
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	mine := credentials{[]byte(secret), sha256.Sum256([]byte("identity"))}
	if err := mine.greet(c, nil); !errors.Is(err, errSecret) {
		t.Error(err)
	}
}

// TestInTheMiddle has somebody between two partners who encrypt, with encrypted connections of his own to both.
func TestInTheMiddle(t *testing.T) {
	cfg := config()
	cfg.Encrypt = true
	from, addr := start(t, cfg)
	middle, ln := open(t, cfg), listen(t)
	go func() {
		for {
			a, err := ln.Accept()
			if err != nil {
				return
			}
			b, err := net.Dial("tcp", addr)
			if err != nil {
				return
			}
			client, _, err1 := middle.secured(a, true)
			server, _, err2 := middle.secured(b, false)
			if err1 != nil || err2 != nil {
				return
			}
			go func() { _, _ = io.Copy(server, client); _ = b.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = a.Close() }()
		}
	}()
	to, _ := reader(t, cfg, ln.Addr().String())
	keys, _ := prompt(1, 3)
	l := from.Lease(keys)
	id, _ := ParseLease(l.ID())
	if _, err := to.Offer(t.Context(), ln.Addr().String(), id, keys); !errors.Is(err, errSecret) {
		t.Errorf("somebody in the middle is not noticed: %v", err)
	}
}

// A script is what a partner of a test does once both sides know each other.
type script func(s *session)

// scripted starts a partner that does what it should not.
func scripted(t *testing.T, does script) (addr string) {
	t.Helper()
	ln := listen(t)
	creds := credentials{[]byte(secret), sha256.Sum256([]byte("identity"))}
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				if does == nil { // it does not even greet
					_, _ = io.Copy(io.Discard, c)
					return
				}
				if creds.welcome(c, nil) == nil {
					does(&session{conn: c, in: bufio.NewReader(c), sums: newSummer(creds.identity)})
				}
			}()
		}
	}()
	return ln.Addr().String()
}

// yes says that every copy is there, and calls each for each key that is asked for then, until it returns false.
func (s *session) yes(each func(i int, k kvcache.Key) bool) {
	for i := 0; ; {
		q, err := readRequest(s.in, nil)
		if err != nil {
			return
		}
		if q.op == opHave {
			_, _ = s.conn.Write(bytes.Repeat([]byte{held}, len(q.keys)))
			continue
		}
		for _, k := range q.keys {
			if !each(i, k) {
				return
			}
			i++
		}
	}
}

// copy sends a copy, of which fault changes the checksum.
func (s *session) copy(k kvcache.Key, data []byte, fault uint32) bool {
	_, err := s.conn.Write(append(appendAnswer(nil, held, len(data), s.sums.sum(k, data)^fault), data...))
	return err == nil
}

func no(int, kvcache.Key) bool { return false }

func hang(s *session) { _, _ = io.Copy(io.Discard, s.conn) }

// TestFaults reads from partners that fail in all ways. What came before comes, the rest does not, and nobody waits for long.
func TestFaults(t *testing.T) {
	keys, copies := prompt(1, 4)
	for name, c := range map[string]struct {
		does    script
		arrive  int // copies; less than 0: no offer comes
		damaged uint64
	}{
		"never greets":  {nil, -1, 0},
		"leaves":        {func(*session) {}, -1, 0},
		"hangs at once": {hang, -1, 0},
		"hangs later":   {func(s *session) { s.yes(no); hang(s) }, 0, 0},
		"hangs behind a copy": {func(s *session) {
			s.yes(func(i int, k kvcache.Key) bool { return i == 0 && s.copy(k, copies[0], 0) })
			hang(s)
		}, 1, 0},
		"dies behind a copy": {func(s *session) {
			s.yes(func(i int, k kvcache.Key) bool { return i == 0 && s.copy(k, copies[0], 0) })
		}, 1, 0},
		"dies in a copy": {func(s *session) {
			s.yes(no)
			_, _ = s.conn.Write(append(appendAnswer(nil, held, 1000, 0), copies[0][:500]...))
		}, 0, 0},
		"hangs in a copy": {func(s *session) {
			s.yes(no)
			_, _ = s.conn.Write(append(appendAnswer(nil, held, 1000, 0), copies[0][:500]...))
			hang(s)
		}, 0, 0},
		"a wrong checksum": {func(s *session) {
			s.yes(func(i int, k kvcache.Key) bool { return s.copy(k, copies[i], uint32(i)) && i == 0 })
			hang(s)
		}, 1, 1},
		"another block": {func(s *session) {
			s.yes(func(_ int, k kvcache.Key) bool { return s.copy(keys[1], copies[1], 0) && false })
			hang(s)
		}, 0, 1},
		"a block of another size": {func(s *session) {
			s.yes(func(_ int, k kvcache.Key) bool { return s.copy(k, copies[0][:999], 0) && false })
			hang(s)
		}, 0, 0},
		"an endless block":  {func(s *session) { s.yes(no); _, _ = s.conn.Write(appendAnswer(nil, held, 1<<40, 0)); hang(s) }, 0, 0},
		"an unknown answer": {func(s *session) { s.yes(no); _, _ = s.conn.Write(appendAnswer(nil, 7, 0, 0)); hang(s) }, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := scripted(t, c.does)
			cfg := config()
			cfg.Wait = 200 * time.Millisecond
			if c.arrive > 0 {
				cfg.Wait = 2 * time.Second // there has to be time for what arrives
			}
			checkFaults(t, cfg, addr, c.arrive, c.damaged)
		})
	}
}

// checkFaults reads the first prompt from a partner of which only so many copies arrive.
func checkFaults(t *testing.T, cfg Config, addr string, arrive int, damaged uint64) {
	t.Helper()
	keys, copies := prompt(1, 4)
	to, woken := reader(t, cfg, addr)
	o, err := to.Offer(t.Context(), addr, LeaseID{}, keys)
	if arrive < 0 {
		if !errors.Is(err, ErrPartner) || to.Stats().OffersFailed != 1 {
			t.Errorf("%v, %+v", err, to.Stats())
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	got := read(t, to, woken, keys, copies)
	for i := range got {
		if want := i < arrive; want != (got[i] != nil) || want && !bytes.Equal(got[i], copies[i]) {
			t.Errorf("copy %d: %d bytes", i, len(got[i]))
		}
	}
	if st := to.Stats(); st.Damaged != damaged || st.Failed != uint64(len(keys)-arrive) {
		t.Errorf("%+v", st)
	}
	o.End()
}

// TestRestarted has a partner restart: the connections that were kept are dead, and a new one is made.
func TestRestarted(t *testing.T) {
	from, addr := start(t, config())
	to, woken := reader(t, config(), addr)
	keys, copies := prompt(1, 3)
	offer(t, to, addr, from.Lease(keys), keys).End()
	until(t, "the lease has ended", func() bool { return from.Stats().LeasesOpen == 0 })
	if err := from.Close(); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip(err) // somebody else has got the port
	}
	again := open(t, config())
	go func() { _ = again.Serve(ln) }()
	l := again.Lease(keys)
	save(again, keys, copies)
	offer(t, to, addr, l, keys)
	if got := read(t, to, woken, keys, copies); !same(got, copies) {
		t.Error("something else has come")
	}
}

// TestLeaving has the client of a request leave while a partner is silent. The partner is not to blame.
func TestLeaving(t *testing.T) {
	asked := make(chan struct{})
	addr := scripted(t, func(s *session) { _, _ = readRequest(s.in, nil); close(asked); hang(s) })
	cfg := config()
	cfg.Wait = time.Hour
	to, _ := reader(t, cfg, addr)
	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = to.Offer(ctx, addr, LeaseID{}, make([]kvcache.Key, 3))
	}()
	wait(t, asked)
	leave()
	wait(t, ended)
	if !to.peers[addr].badUntil.IsZero() {
		t.Error("the partner is not asked any more")
	}
}

// TestDrop forgets everything, also what is on its way.
func TestDrop(t *testing.T) {
	from, addr := start(t, config())
	to, woken := reader(t, config(), addr)
	keys, copies := prompt(1, 3)
	l := from.Lease(keys)
	o := offer(t, to, addr, l, keys)
	if !to.Fetch(keys[0], 1000) {
		t.Fatal("too much is being read")
	}
	to.Drop()
	save(from, keys, copies)
	wait(t, woken)
	if got := to.Fetched(nil, 1<<20); len(got) != 1 || got[0].Data != nil || to.Has(keys[1]) {
		t.Errorf("a copy comes although everything was forgotten: %v", got)
	}
	o.End()
	from.Drop()
	// A copy that is being sent stays until it is.
	until(t, "nothing is held", func() bool { st := from.Stats(); return st.HeldBytes == 0 && st.LeasesOpen == 0 })
	l.End()
}

// TestQueue bounds what is on its way.
func TestQueue(t *testing.T) {
	cfg := config()
	cfg.Queue = 2500
	from, addr := start(t, cfg)
	to, woken := reader(t, cfg, addr)
	keys, copies := prompt(1, 20)
	l := from.Lease(keys)
	save(from, keys, copies)
	offer(t, to, addr, l, keys)
	for i, want := range []bool{true, true, false} {
		if got := to.Fetch(keys[i], 1000); got != want {
			t.Fatalf("copy %d: %v", i, got)
		}
	}
	for n := 0; n < 2; {
		wait(t, woken)
		n += len(to.Fetched(nil, 1<<20))
	}
	to.Fetched(nil, 1<<20)
	if got := read(t, to, woken, keys, copies); !same(got, copies) {
		t.Error("something else has come")
	}
}
