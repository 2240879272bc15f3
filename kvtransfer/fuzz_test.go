package kvtransfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"io"
	"net"
	"slices"
	"testing"
	"time"

	"weir/kvcache"
)

// FuzzRequest reads requests: what can be read is what would have been sent.
func FuzzRequest(f *testing.F) {
	keys, _ := prompt(1, 2)
	for op := byte(opHave); op <= opRelease; op++ {
		q := request{op: op, wait: 5, lease: LeaseID{1, 2}}
		if op != opRelease {
			q.keys = keys
		}
		f.Add(q.append(nil))
	}
	f.Add([]byte{opGet, 0, 0, 0, 255, 255, 255, 255})
	f.Fuzz(func(t *testing.T, data []byte) {
		q, err := readRequest(bytes.NewReader(data), nil)
		if err != nil {
			return
		}
		sent := q.append(nil)
		again, err := readRequest(bytes.NewReader(sent), nil)
		if err != nil || again.op != q.op || again.wait != q.wait || again.lease != q.lease || !slices.Equal(again.keys, q.keys) {
			t.Errorf("%+v became %+v (%v)", q, again, err)
		}
	})
}

// FuzzServer sends anything to a server, behind a handshake: it goes on or hangs up, and keeps what it holds for others.
func FuzzServer(f *testing.F) {
	keys, copies := prompt(1, 2)
	lease := LeaseID{7}
	f.Add((&request{op: opHave, lease: lease, keys: keys}).append(nil), []byte{})
	f.Add((&request{op: opGet, lease: lease, keys: keys}).append(nil), (&request{op: opGet, wait: 1, keys: keys}).append(nil))
	f.Add((&request{op: opRelease, lease: lease}).append(nil), (&request{op: opHave, lease: lease, keys: keys}).append(nil))
	f.Fuzz(func(t *testing.T, a, b []byte) {
		cfg := config()
		cfg.Wait = time.Microsecond
		n, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		defer n.Close()
		l, mine := n.Lease(keys), n.Lease(keys)
		n.mu.leases[lease], l.id = l, lease
		save(n, keys[:2], copies)
		s := &session{node: n, conn: &recorded{}, in: bufio.NewReader(io.MultiReader(bytes.NewReader(a), bytes.NewReader(b))), sums: newSummer(n.creds.identity)}
		if s.serve() == nil {
			t.Error("the end of a connection is no error")
		}
		for i, k := range keys[:2] {
			if it := n.borrow(context.Background(), mine.id, k); it == nil || !bytes.Equal(it.data, copies[i]) {
				t.Fatal("what is held for another partner has changed")
			} else {
				n.giveBack(k, it, false)
			}
		}
		mine.End()
		l.End()
		if st := n.Stats(); st.HeldBytes != 0 || len(n.mu.items) != 0 {
			t.Errorf("%d bytes are still held", st.HeldBytes)
		}
	})
}

// FuzzClient has a client read anything: no copy comes that is not the one that was asked for.
func FuzzClient(f *testing.F) {
	keys, copies := prompt(1, 1)
	sums := newSummer(sha256.Sum256([]byte("identity")))
	right := append(appendAnswer(nil, held, 1000, sums.sum(keys[0], copies[0])), copies[0]...)
	f.Add(right)
	f.Add(right[:500])
	f.Add(appendAnswer(nil, absent, 0, 0))
	f.Add([]byte(magic))
	f.Fuzz(func(t *testing.T, data []byte) {
		conn := &recorded{}
		conn.Write(data)
		l := &link{raw: conn, conn: conn, in: bufio.NewReader(&conn.Buffer), sums: newSummer(sha256.Sum256([]byte("identity")))}
		j := job{key: keys[0], data: make([]byte, 1000)}
		if there, err := l.receive(j, time.Second); there && (err != nil || !bytes.Equal(j.data, copies[0])) && !bytes.HasPrefix(data, right[:answerSize]) {
			sum := sums.sum(keys[0], j.data) // it may be another one that has this checksum
			if !bytes.Contains(data[:answerSize], appendAnswer(nil, held, 1000, sum)) {
				t.Error("a copy comes whose checksum is another one")
			}
		}
		c := credentials{[]byte(secret), sha256.Sum256([]byte("identity"))}
		again := &recorded{}
		again.Buffer.Write(data)
		if c.greet(again, nil) == nil {
			t.Error("somebody is a partner who does not know the secret")
		}
		again = &recorded{}
		again.Buffer.Write(data)
		if c.welcome(again, nil) == nil {
			t.Error("somebody is a partner who does not know the secret")
		}
	})
}

// recorded is a connection of which only what was put into its buffer can be read.
type recorded struct {
	net.Conn
	bytes.Buffer
	sent []byte
}

func (c *recorded) Read(p []byte) (int, error)       { return c.Buffer.Read(p) }
func (c *recorded) SetDeadline(time.Time) error      { return nil }
func (c *recorded) SetWriteDeadline(time.Time) error { return nil }
func (c *recorded) Close() error                     { return nil }

func (c *recorded) Write(p []byte) (int, error) {
	c.sent = append(c.sent, p...)
	return len(p), nil
}

// beside is a Local in memory.
type beside struct {
	copies map[kvcache.Key][]byte
	done   []kvcache.Content
	full   bool
}

func (b *beside) Has(k kvcache.Key) bool          { return b.copies[k] != nil }
func (b *beside) Wants(k kvcache.Key) bool        { return !b.Has(k) }
func (b *beside) Save(k kvcache.Key, data []byte) { b.copies[k] = data }
func (b *beside) Drop()                           { clear(b.copies) }
func (b *beside) Fetch(k kvcache.Key, n int) bool {
	b.done = append(b.done, kvcache.Content{Key: k, Data: b.copies[k]})
	return true
}

func (b *beside) Buffer(n int) []byte {
	if b.full {
		return nil
	}
	return make([]byte, n)
}

func (b *beside) Fetched(dst []kvcache.Content, most int) []kvcache.Content {
	dst, b.done = append(dst, b.done...), nil
	return dst
}

// TestLocal has copies in two places: what this machine has is not asked for, and what is held for partners is kept here, too.
func TestLocal(t *testing.T) {
	mine, theirs := &beside{copies: map[kvcache.Key][]byte{}}, &beside{copies: map[kvcache.Key][]byte{}}
	cfg := config()
	cfg.Local = theirs
	from, addr := start(t, cfg)
	cfg.Local = mine
	to, woken := reader(t, cfg, addr)
	keys, copies := prompt(1, 4)
	other, more := prompt(2, 1)
	l := from.Lease(keys)
	save(from, keys, copies)
	save(from, other, more)
	if len(theirs.copies) != 7 || from.Wants(keys[0]) {
		t.Errorf("%d copies are kept where they are held, too", len(theirs.copies))
	}
	l.Settle()
	mine.copies[keys[1]] = copies[1]
	offer(t, to, addr, l, keys)
	got := make([][]byte, 5)
	for i := range keys {
		if !to.Fetch(keys[i], len(copies[i])) {
			t.Fatal("too much is being read")
		}
	}
	for left := 5; left > 0; {
		for _, c := range to.Fetched(nil, 1<<20) {
			i := slices.Index(keys, c.Key)
			if got[i], left = bytes.Clone(c.Data), left-1; c.External == (i == 1) {
				t.Errorf("copy %d comes from the wrong place", i)
			}
		}
		if left > 0 {
			wait(t, woken)
		}
	}
	if !same(got, copies) {
		t.Error("something else has come")
	}
	if theirs.full = true; from.Buffer(10) != nil {
		t.Error("there is memory for a copy although there is none for the folder")
	}
	to.Drop()
	if len(mine.copies) > 0 || to.Has(keys[1]) {
		t.Error("something is kept")
	}
}
