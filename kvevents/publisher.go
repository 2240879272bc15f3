package kvevents

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"weir/kvcache"
)

// closeTime is how long subscribers have to take the last batches.
const closeTime = time.Second

// Publisher publishes what changes in a prefix cache.
type Publisher struct {
	cfg         Config
	blockTokens int
	history     *history
	encoder     encoder

	waiting struct {
		sync.Mutex
		changes kvcache.Changes // that are not published yet
		spare   kvcache.Changes
		lost    bool // some before them were lost
		plain   *[16]byte
	}
	wake    chan struct{} // capacity 1: something waits
	closing chan struct{} // closed when nothing more will come

	publishing, serving sync.WaitGroup
	listeners           []net.Listener
	addresses           [2]string
	conns               connections
	dialing             context.Context
	cancel              func()
	losses              atomic.Uint64
	subscribers         atomic.Int64
}

// Stats counts what was published.
type Stats struct {
	Batches     uint64 // published
	Lost        uint64 // times that changes were lost, because too many waited
	Subscribers int
}

// Open begins to publish for a prefix cache with blocks of blockTokens tokens. It fails if it cannot listen where cfg says; what it
// has to connect to may come later.
func Open(cfg Config, blockTokens int) (*Publisher, error) {
	p := &Publisher{cfg: cfg, blockTokens: blockTokens, history: newHistory(max(cfg.BufferSteps, min(cfg.HWM, mostLag))), wake: make(chan struct{}, 1), closing: make(chan struct{})}
	p.dialing, p.cancel = context.WithCancel(context.Background())
	p.encoder.cfg = &p.cfg
	p.conns.all = map[net.Conn]bool{}
	for _, c := range []*kvcache.Changes{&p.waiting.changes, &p.waiting.spare} { // so that Take does not have to grow them
		c.List, c.Tokens = make([]kvcache.Change, 0, cfg.MaxQueueSize), make([]int32, 0, cfg.MaxQueueSize*blockTokens)
	}
	if err := p.open(); err != nil {
		for _, l := range p.listeners {
			_ = l.Close()
		}
		return nil, err
	}
	p.publishing.Go(p.publish)
	return p, nil
}

// mostLag is the most batches that are kept for subscribers that lag behind, if fewer are kept for replays.
const mostLag = 10_000

// open opens the sockets.
func (p *Publisher) open() error {
	if p.cfg.binds() {
		l, err := listen(p.cfg.endpoint())
		if err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
		p.addresses[0] = l.Addr().String()
		p.listeners = append(p.listeners, l)
		p.serving.Go(func() { p.accept(l, p.serveSubscriber) })
	} else {
		a, err := parseEndpoint(p.cfg.endpoint())
		if err != nil {
			return fmt.Errorf("endpoint: %w", err)
		}
		p.serving.Go(func() { p.dial(a) })
	}
	if p.cfg.ReplayEndpoint == nil {
		return nil
	}
	l, err := listen(*p.cfg.ReplayEndpoint)
	if err != nil {
		return fmt.Errorf("replay_endpoint: %w", err)
	}
	p.addresses[1] = l.Addr().String()
	p.listeners = append(p.listeners, l)
	p.serving.Go(func() { p.accept(l, p.serveReplay) })
	return nil
}

func listen(endpoint string) (net.Listener, error) {
	a, err := parseEndpoint(endpoint)
	if err != nil {
		return nil, err
	}
	if a.network == "unix" { // a server that was killed has left its socket
		if c, err := net.Dial("unix", a.address); err == nil {
			_ = c.Close()
			return nil, fmt.Errorf("%s is in use", endpoint)
		}
		if info, err := os.Lstat(a.address); err == nil && info.Mode()&os.ModeSocket != 0 {
			_ = os.Remove(a.address)
		}
	}
	return net.Listen(a.network, a.address)
}

// Addresses are where subscribers and those who missed something may connect to; "" for none.
func (p *Publisher) Addresses() (events, replay string) { return p.addresses[0], p.addresses[1] }

// Endpoints are Addresses as ZeroMQ writes them: tcp://host:port, where * stands for all addresses of the machine, or ipc://path.
func (p *Publisher) Endpoints() (events, replay string) {
	return endpointOf(p.addresses[0]), endpointOf(p.addresses[1])
}

func endpointOf(address string) string {
	host, port, err := net.SplitHostPort(address)
	switch {
	case address == "":
		return ""
	case err != nil:
		return "ipc://" + address
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		return "tcp://*:" + port
	}
	return "tcp://" + address
}

// SetPlain says which salt requests have that bring nothing of their own to it: no project and no cache_salt. The blocks of all
// others are told apart from theirs. Without it all salts count as this one.
func (p *Publisher) SetPlain(salt [16]byte) {
	p.waiting.Lock()
	defer p.waiting.Unlock()
	p.waiting.plain = &salt
}

// Take takes changes over, in their order. It neither waits nor allocates memory, and keeps nothing of c.
func (p *Publisher) Take(c *kvcache.Changes) {
	p.waiting.Lock()
	w := &p.waiting.changes
	if c.Lost || len(w.List)+len(c.List) > cap(w.List) || len(w.Tokens)+len(c.Tokens) > cap(w.Tokens) {
		p.waiting.lost = true
		w.Reset()
	}
	if first := int32(len(w.Tokens)); len(c.List) <= cap(w.List) && len(c.Tokens) <= cap(w.Tokens) {
		for _, ch := range c.List {
			if ch.Tokens >= 0 {
				ch.Tokens += first
			}
			w.List = append(w.List, ch)
		}
		w.Tokens = append(w.Tokens, c.Tokens...)
	}
	p.waiting.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// publish turns what waits into batches until nothing more comes.
func (p *Publisher) publish() {
	for closing := false; !closing; {
		select {
		case <-p.wake:
		case <-p.closing:
			closing = true
		}
		p.waiting.Lock()
		p.waiting.changes, p.waiting.spare = p.waiting.spare, p.waiting.changes
		lost := p.waiting.lost
		p.waiting.lost, p.encoder.plain = false, p.waiting.plain
		p.waiting.Unlock()
		c := &p.waiting.spare // nobody else uses it
		if lost {
			p.losses.Add(1)
			p.history.skip()
		}
		if lost || len(c.List) > 0 {
			now := float64(time.Now().UnixNano()) / 1e9
			p.history.add(p.encoder.batch(nil, now, lost, c, p.blockTokens))
		}
		c.Reset()
	}
}

// Stats returns what was counted so far.
func (p *Publisher) Stats() Stats {
	lost := p.losses.Load()
	return Stats{Batches: p.history.next() - lost, Lost: lost, Subscribers: int(p.subscribers.Load())}
}

// Close publishes what waits and ends all connections.
func (p *Publisher) Close() error {
	close(p.closing)
	p.cancel()
	p.publishing.Wait()
	var err error
	for _, l := range p.listeners {
		if e := l.Close(); err == nil {
			err = e
		}
	}
	ended := make(chan struct{})
	go func() {
		p.serving.Wait()
		close(ended)
	}()
	select {
	case <-ended:
	case <-time.After(closeTime):
	}
	p.conns.close()
	<-ended
	return err
}

// sequence is the form of the number of a batch.
func sequence(seq uint64) []byte { return binary.BigEndian.AppendUint64(nil, seq) }
