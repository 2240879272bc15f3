package kvevents

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
	"github.com/vmihailenco/msgpack/v5"

	"weir/kvcache"
)

const waitTime = time.Minute

// configured is a configuration that listens at free ports of loopback.
func configured(t *testing.T, text string) Config {
	t.Helper()
	c, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	bind, replay := true, "tcp://127.0.0.1:0"
	c.Endpoint, c.Bind, c.ReplayEndpoint = "tcp://127.0.0.1:0", &bind, &replay
	return *c
}

func opened(t *testing.T, c Config) *Publisher {
	t.Helper()
	p, err := Open(c, 4)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// cache is a cache whose changes are published.
type cache struct {
	*kvcache.Manager
	p       *Publisher
	batches *int
}

func newCache(p *Publisher) cache {
	m := kvcache.New(30, 4, 0, true)
	m.Watch(1000)
	return cache{m, p, new(int)}
}

// run computes a prompt and publishes the changes.
func (c cache) run(tokens []int32, salt byte) (cached int) {
	cached = c.compute(tokens, salt)
	c.hand()
	return cached
}

func (c cache) compute(tokens []int32, salt byte) (cached int) {
	var t kvcache.Table
	cached = c.Share(&t, tokens, kvcache.Hash{salt}, true)
	if c.Grow(&t, len(tokens)) {
		c.Publish(&t, tokens, len(tokens))
	}
	c.Release(&t)
	return cached
}

// hand hands over what has changed. Anything at all makes a batch.
func (c cache) hand() {
	if len(c.Changes().List) > 0 {
		*c.batches++
	}
	c.p.Take(c.Changes())
	c.Changes().Reset()
	for {
		_, more := c.p.history.from(nil, math.MaxUint64, 0, 0)
		if int(c.p.history.next()) >= *c.batches {
			return
		}
		<-more
	}
}

// batch is a batch as a subscriber reads it.
type batch struct {
	seq    int64
	events []map[string]any
}

func decoded(t *testing.T, seq, payload []byte) (b batch) {
	t.Helper()
	b.seq = int64(binary.BigEndian.Uint64(seq))
	if len(payload) == 0 {
		return b
	}
	var all []any
	if err := msgpack.Unmarshal(payload, &all); err != nil {
		t.Fatal(err)
	}
	if age := time.Since(time.Unix(0, int64(all[0].(float64)*1e9))); len(all) != 3 || age < -time.Minute || age > time.Hour {
		t.Fatalf("%v", all)
	}
	for _, e := range all[1].([]any) {
		e := e.(map[string]any)
		hashes, _ := e["block_hashes"].([]any)
		for i := range hashes {
			hashes[i] = fmt.Sprintf("%T %v", hashes[i], hashes[i])
		}
		if e["parent_block_hash"] != nil {
			e["parent_block_hash"] = fmt.Sprintf("%T %v", e["parent_block_hash"], e["parent_block_hash"])
		}
		b.events = append(b.events, e)
	}
	return b
}

// subscribed is a subscriber of another implementation of ZeroMQ, which has begun to get batches.
func subscribed(t *testing.T, p *Publisher, topic string) zmq4.Socket {
	t.Helper()
	s := zmq4.NewSub(t.Context())
	addr, _ := p.Addresses()
	if err := s.Dial("tcp://" + addr); err != nil {
		t.Fatal(err)
	}
	if err := s.SetOption(zmq4.OptionSubscribe, topic); err != nil {
		t.Fatal(err)
	}
	return s
}

// until waits for something that other goroutines do.
func until(t *testing.T, is func() bool) {
	t.Helper()
	end, tick := time.After(waitTime), time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-end:
			t.Fatal("it does not happen")
		}
	}
}

// listening waits until so many subscriptions are in effect.
func (p *Publisher) listening(t *testing.T, n int) {
	t.Helper()
	until(t, func() bool { return p.Stats().Subscribers == n })
}

func receive(t *testing.T, s zmq4.Socket, topic string) batch {
	t.Helper()
	m, err := s.Recv()
	if err != nil || len(m.Frames) != 3 || string(m.Frames[0]) != topic {
		t.Fatalf("%v, %q", err, m.Frames)
	}
	return decoded(t, m.Frames[1], m.Frames[2])
}

// replayed asks for the batches from number seq on.
func replayed(t *testing.T, p *Publisher, seq uint64) (list []batch) {
	t.Helper()
	s := zmq4.NewDealer(t.Context())
	defer s.Close()
	_, addr := p.Addresses()
	if err := s.Dial("tcp://" + addr); err != nil {
		t.Fatal(err)
	}
	if err := s.SendMulti(zmq4.NewMsgFrom(nil, sequence(seq))); err != nil {
		t.Fatal(err)
	}
	for {
		m, err := s.Recv()
		if err != nil || len(m.Frames) != 3 || len(m.Frames[0]) > 0 {
			t.Fatalf("%v, %q", err, m.Frames)
		}
		b := decoded(t, m.Frames[1], m.Frames[2])
		if b.seq == -1 {
			return list
		}
		list = append(list, b)
	}
}

func TestEvents(t *testing.T) {
	c := configured(t, `{"enable_kv_cache_events": true, "topic": "kv@here@model"}`)
	c.Groups = []Group{{Kind: "full_attention"}}
	p := opened(t, c)
	p.SetPlain([16]byte{1})
	m := newCache(p)
	m.hand() // before anybody listens
	until(t, func() bool { return p.Stats().Batches == 1 })
	s, other := subscribed(t, p, "kv@"), subscribed(t, p, "kv@elsewhere")
	p.listening(t, 1)

	m.run([]int32{1, 200, 70_000, 4, 5, 6, 7, 8, 9}, 1)
	b := receive(t, s, "kv@here@model")
	if b.seq != 1 || len(b.events) != 1 {
		t.Fatalf("%+v", b)
	}
	e := b.events[0]
	hashes := e["block_hashes"].([]any)
	if got := fmt.Sprintln(e["type"], e["parent_block_hash"], e["token_ids"], e["block_size"], e["lora_id"], e["medium"], e["lora_name"], e["extra_keys"], e["group_idx"],
		e["kv_cache_spec_kind"], len(e), len(hashes)); got != "BlockStored <nil> [1 200 70000 4 5 6 7 8] 4 <nil> GPU <nil> <nil> 0 full_attention 10 2\n" {
		t.Errorf("%s: %v", got, e)
	}
	if _, member := e["lora_name"]; !member || hashes[0] == hashes[1] {
		t.Errorf("%v", e)
	}

	m.run([]int32{1, 200, 70_000, 4, 5, 6, 7, 8, 9, 10, 11, 12}, 1) // goes on
	e = receive(t, s, "kv@here@model").events[0]
	if fmt.Sprint(e["parent_block_hash"], e["token_ids"]) != fmt.Sprint(hashes[1], "[9 10 11 12]") {
		t.Errorf("%v", e)
	}
	m.run([]int32{1, 200, 70_000, 4}, 2) // somebody else's
	if e = receive(t, s, "kv@here@model").events[0]; fmt.Sprint(e["parent_block_hash"], e["extra_keys"]) != "<nil> [[02000000000000000000000000000000]]" {
		t.Errorf("%v", e)
	}
	m.Forget()
	m.hand()
	if e = receive(t, s, "kv@here@model").events[0]; fmt.Sprint(e) != "map[type:AllBlocksCleared]" {
		t.Errorf("%v", e)
	}
	if all := replayed(t, p, 0); len(all) != 5 || fmt.Sprint(all[0].events) != "[map[type:AllBlocksCleared]]" || all[4].seq != 4 {
		t.Errorf("%+v", all)
	}
	if some := replayed(t, p, 3); len(some) != 2 || some[0].seq != 3 {
		t.Errorf("%+v", some)
	}
	if none := replayed(t, p, 1000); len(none) != 0 {
		t.Errorf("%+v", none)
	}
	_ = other.Close()
	m.run([]int32{1, 1, 1, 1}, 1)
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if b := receive(t, s, "kv@here@model"); b.seq != 5 { // the last one comes before the end
		t.Errorf("%+v", b)
	}
	_ = s.Close()
}

// index is an index of prefixes as a router has it: it knows nothing but events.
type index struct {
	blocks map[any]bool
	chains map[string]any // by parent and tokens
}

func (x *index) apply(t *testing.T, b batch) {
	t.Helper()
	for _, e := range b.events {
		hashes, _ := e["block_hashes"].([]any)
		switch e["type"] {
		case "AllBlocksCleared":
			clear(x.blocks)
		case "BlockRemoved":
			for _, h := range hashes {
				if !x.blocks[h] {
					t.Fatalf("%v was not there", h)
				}
				delete(x.blocks, h)
			}
		case "BlockStored":
			parent, size := e["parent_block_hash"], int(e["block_size"].(int8))
			tokens := e["token_ids"].([]any)
			if parent == nil {
				parent = fmt.Sprint("root ", e["extra_keys"])
			}
			for i, h := range hashes {
				x.chains[fmt.Sprint(parent, tokens[i*size:(i+1)*size])] = h
				x.blocks[h], parent = true, h
			}
		}
	}
}

func (x *index) predict(tokens []int32) (n int) {
	var parent any = "root <nil>"
	for ; n+4 < len(tokens); n += 4 {
		h, ok := x.chains[fmt.Sprint(parent, tokens[n:n+4])]
		if !ok || !x.blocks[h] {
			break
		}
		parent = h
	}
	return n
}

// read takes the batches [seq, end) in, and returns end.
func (x *index) read(t *testing.T, s zmq4.Socket, seq, end int) int {
	t.Helper()
	for ; seq < end; seq++ {
		b := receive(t, s, "")
		if b.seq != int64(seq) {
			t.Fatalf("batch %d comes where %d is due", b.seq, seq)
		}
		x.apply(t, b)
	}
	return seq
}

// likePrompt is a random prompt that begins like many others.
func likePrompt(g *rand.Rand) []int32 {
	tokens := make([]int32, 1+g.IntN(40))
	for j := 7; j < len(tokens); j += 8 {
		tokens[j] = int32(g.IntN(2))
	}
	return tokens
}

// TestPrediction: what is read from the socket predicts every hit of random prompts, of which some are evicted.
func TestPrediction(t *testing.T) {
	for _, form := range []string{"true", "false"} {
		p := opened(t, configured(t, `{"enable_kv_cache_events": true, "use_int_block_hashes": `+form+`}`))
		s := subscribed(t, p, "")
		p.listening(t, 1)
		m, g := newCache(p), rand.New(rand.NewPCG(1, 2))
		x, seq, hits := &index{map[any]bool{}, map[string]any{}}, 0, 0
		for i := range 600 {
			if i%100 == 99 {
				m.Forget()
				m.hand()
			}
			seq = x.read(t, s, seq, *m.batches)
			tokens := likePrompt(g)
			want := x.predict(tokens)
			if got := m.run(tokens, 0); got != want {
				t.Fatalf("prompt %d: %d tokens are found, %d were predicted", i, got, want)
			}
			hits += want
			if i%2 == 0 { // others come with the next one
				m.compute(likePrompt(g), 0)
				m.run(likePrompt(g), 0)
			}
		}
		if hits < 5000 {
			t.Errorf("%d hits are too few to mean anything", hits)
		}
		_ = s.Close()
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFull: changes that there is no room for leave a gap in the numbers, and the next batch lets subscribers start over.
func TestFull(t *testing.T) {
	c := configured(t, `{"enable_kv_cache_events": true, "max_queue_size": 3}`)
	p := opened(t, c)
	p.Take(&kvcache.Changes{Lost: true})
	until(t, func() bool { return p.Stats().Batches == 1 })
	p.Take(&kvcache.Changes{List: make([]kvcache.Change, 4)})
	until(t, func() bool { return p.Stats().Batches == 2 })
	p.Take(&kvcache.Changes{List: []kvcache.Change{{Kind: kvcache.Removed}}})
	until(t, func() bool { return p.Stats().Batches == 3 })
	got := ""
	for _, b := range replayed(t, p, 0) {
		got += fmt.Sprintln(b.seq, b.events[0]["type"], len(b.events))
	}
	if want := "1 AllBlocksCleared 1\n3 AllBlocksCleared 1\n4 BlockRemoved 1\n"; got != want || p.Stats().Lost != 2 {
		t.Errorf("%s, %+v", got, p.Stats())
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSlow: a subscriber that does not read holds nobody up and no memory, and finds a gap. buffer_steps bounds what is kept.
func TestSlow(t *testing.T) {
	c := configured(t, `{"enable_kv_cache_events": true, "buffer_steps": 5, "hwm": 3}`)
	p := opened(t, c)
	addr, _ := p.Addresses()
	conn := raw(t, addr, "SUB")
	defer conn.Close()
	_, _ = conn.Write([]byte{0, 1, 1}) // as in ZMTP 3.0
	p.listening(t, 1)
	big := &kvcache.Changes{List: make([]kvcache.Change, 50_000)}
	for i := range big.List {
		big.List[i] = kvcache.Change{Kind: kvcache.Removed, Hash: kvcache.Hash{0: byte(i), 1: 255}}
	}
	const batches = 40
	for i := range batches {
		p.Take(big)
		until(t, func() bool { return p.Stats().Batches == uint64(i+1) })
	}
	if kept := replayed(t, p, 0); len(kept) != 5 || kept[4].seq != batches-1 {
		t.Errorf("%d batches are kept", len(kept))
	}
	last, read := int64(-1), 0
	for last < batches-1 {
		if frames := readMessage(t, conn); len(frames) == 3 {
			seq := int64(binary.BigEndian.Uint64(frames[1]))
			if seq <= last {
				t.Fatalf("%d comes after %d", seq, last)
			}
			last = seq
			read++
		}
	}
	if read == batches {
		t.Error("nothing was left out")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// raw is a connection that has said what it is.
func raw(t *testing.T, addr, kind string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if peer, err := newWire(conn).handshake(kind); err != nil || peer == "" {
		t.Fatal(peer, err)
	}
	return conn
}

// readMessage reads a message without any limit.
func readMessage(t *testing.T, conn net.Conn) (frames [][]byte) {
	t.Helper()
	for {
		head := make([]byte, 2)
		if _, err := io.ReadFull(conn, head); err != nil {
			t.Fatal(err)
		}
		size := uint64(head[1])
		if head[0]&flagLong != 0 {
			rest := make([]byte, 7)
			if _, err := io.ReadFull(conn, rest); err != nil {
				t.Fatal(err)
			}
			size = binary.BigEndian.Uint64(append(head[1:], rest...))
		}
		body := make([]byte, size)
		if _, err := io.ReadFull(conn, body); err != nil {
			t.Fatal(err)
		}
		if frames = append(frames, body); head[0]&flagMore == 0 {
			return frames
		}
	}
}

// TestPeers: what other sides must not send ends their connection, and no other.
func TestPeers(t *testing.T) {
	p := opened(t, configured(t, `{"enable_kv_cache_events": true}`))
	events, replay := p.Addresses()
	s := subscribed(t, p, "")
	p.listening(t, 1)
	for _, attack := range []struct{ addr, kind, bytes string }{
		{events, "", "GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 100)},
		{events, "PULL", ""},
		{events, "SUB", "\x02\xff\xff\xff\xff\xff\xff\xff\xff"},
		{events, "SUB", "\x02\x00\x00\x00\x00\x00\x00\xff\xff"},
		{events, "SUB", strings.Repeat("\x01\x00", 20)},
		{replay, "SUB", ""},
		{replay, "DEALER", strings.Repeat("\x01\x00", 20)},
	} {
		conn, err := net.Dial("tcp", attack.addr)
		if err != nil {
			t.Fatal(err)
		}
		if attack.kind != "" {
			if _, err := newWire(conn).handshake(attack.kind); err != nil {
				t.Fatal(err)
			}
		}
		_, _ = io.WriteString(conn, attack.bytes)
		_ = conn.SetReadDeadline(time.Now().Add(waitTime))
		if _, err := io.Copy(io.Discard, conn); err != nil && errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%+v: %v", attack, err)
		}
		_ = conn.Close()
	}
	// What has no effect does not end it.
	conn := raw(t, replay, "DEALER")
	_, _ = conn.Write([]byte("\x00\x03abc\x01\x00\x00\x01a\x04\x08\x04PING\x00\x0aq"))
	if frames := readMessage(t, conn); string(frames[0]) != "\x04PONGq" {
		t.Errorf("%q", frames)
	}
	_ = conn.Close()
	newCache(p).hand()
	receive(t, s, "")
	_ = s.Close()
	until(t, func() bool { return p.Stats().Subscribers == 0 })
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestConnect: as vLLM does, the publisher connects to an endpoint without a wildcard, again and again.
func TestConnect(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	c, err := Parse(`{"enable_kv_cache_events": true, "endpoint": "tcp://` + addr + `"}`)
	if err != nil {
		t.Fatal(err)
	}
	p := opened(t, *c)
	for range 2 {
		s := zmq4.NewSub(t.Context())
		until(t, func() bool { return s.Listen("tcp://"+addr) == nil })
		if err := s.SetOption(zmq4.OptionSubscribe, ""); err != nil {
			t.Fatal(err)
		}
		p.listening(t, 1)
		p.Take(&kvcache.Changes{List: []kvcache.Change{{Kind: kvcache.Cleared}}})
		receive(t, s, "")
		_ = s.Close()
		p.listening(t, 0)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestParse(t *testing.T) {
	c, err := Parse(`{"enable_kv_cache_events": true}`)
	if err != nil || !c.On() || c.Publisher != "zmq" || c.BufferSteps != 10_000 || c.HWM != 100_000 || c.MaxQueueSize != 100_000 || !c.IntHashes || !c.binds() || c.endpoint() != "tcp://127.0.0.1:5557" || len(c.Exposed()) > 0 {
		t.Errorf("%+v, %v", c, err)
	}
	for text, on := range map[string]bool{`{}`: false, `{"publisher": "zmq"}`: false, `{"enable_kv_cache_events": true, "publisher": "null"}`: false, `{"enable_kv_cache_events": true, "publisher": "zmq"}`: true} {
		if c, err := Parse(text); err != nil || c.On() != on {
			t.Errorf("%s: %+v, %v", text, c, err)
		}
	}
	for _, bad := range []string{``, `[]`, `{"topics": ""}`, `{"publisher": "kafka"}`, `{"hwm": -1}`, `{"buffer_steps": 1e9}`, `{"max_queue_size": 0}`, `{"endpoint": "http://a:1"}`, `{"endpoint": "tcp://a"}`,
		`{"endpoint": "tcp://a:70000"}`, `{"endpoint": "ipc://"}`, `{"replay_endpoint": "x"}`, `{"topic": "` + strings.Repeat("x", 1025) + `"}`} {
		if c, err := Parse(bad); err == nil {
			t.Errorf("%s: %+v", bad, c)
		}
	}
	for endpoint, want := range map[string]string{"tcp://*:5557": "binds tcp :5557", "tcp://[::]:1": "binds tcp [::]:1", "tcp://:::1": "binds tcp [::]:1", "tcp://router:5557": "connects tcp router:5557", "ipc:///tmp/x": "binds unix /tmp/x"} {
		c, err := Parse(`{"enable_kv_cache_events": true, "endpoint": "` + endpoint + `"}`)
		if err != nil {
			t.Error(err)
			continue
		}
		a, _ := parseEndpoint(c.endpoint())
		if got := fmt.Sprint(map[bool]string{true: "binds", false: "connects"}[c.binds()], " ", a.network, " ", a.address); got != want || (len(c.Exposed()) == 0) != (a.network == "unix") {
			t.Errorf("%s: %s, not %s; exposed %v", endpoint, got, want, c.Exposed())
		}
	}
}

// TestTake: to hand changes over allocates nothing.
func TestTake(t *testing.T) {
	p := opened(t, configured(t, `{"enable_kv_cache_events": true}`))
	c := &kvcache.Changes{List: []kvcache.Change{{Kind: kvcache.Stored, First: true}, {Kind: kvcache.Removed, Tokens: -1}}, Tokens: make([]int32, 4)}
	p.waiting.Lock() // the publisher stands still
	stored := p.waiting.changes
	p.waiting.Unlock()
	if cap(stored.List) != 100_000 || cap(stored.Tokens) != 400_000 {
		t.Errorf("%d, %d", cap(stored.List), cap(stored.Tokens))
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(100, func() { p.Take(c) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if w := p.waiting.changes; w.List[2].Tokens != 4 || !slices.Equal(w.Tokens[:8], make([]int32, 8)) || w.List[3].Tokens != -1 || math.MaxInt32 < len(w.List) {
		t.Errorf("%+v", w.List[:4])
	}
}

// TestEndpoints: addresses as ZeroMQ writes them.
func TestEndpoints(t *testing.T) {
	for address, want := range map[string]string{
		"": "", "127.0.0.1:5557": "tcp://127.0.0.1:5557", "[::]:5557": "tcp://*:5557", "0.0.0.0:5557": "tcp://*:5557", "[::1]:5557": "tcp://[::1]:5557", "/tmp/events": "ipc:///tmp/events",
	} {
		if got := endpointOf(address); got != want {
			t.Errorf("%q: %q, want %q", address, got, want)
		}
	}
}
