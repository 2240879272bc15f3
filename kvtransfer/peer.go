package kvtransfer

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"time"

	"weir/kvcache"
)

const (
	// batch is the most copies that are asked for at a time.
	batch = 64
	// mostIdle is how many connections to a partner are kept, idleConn for how long.
	mostIdle = 4
	idleConn = idleTime / 2
	// After a failure a partner is not asked again for a time, which doubles with each further one.
	leastBackoff, mostBackoff = time.Second, 30 * time.Second
)

// mostAsking is how many requests ask a partner at a time. What others need is computed.
const mostAsking = mostConns / 2

// ErrPartner says that nothing can be had from a partner.
var ErrPartner = errors.New("kvtransfer: nothing comes from the partner")

// peer is a partner from which blocks come. What is not constant is protected by Node.mu.
type peer struct {
	node *Node
	addr string

	asking   int // requests that ask it
	queue    []job
	releases []LeaseID
	active   bool // a goroutine works at the queue
	idle     []*link
	badUntil time.Time
	backoff  time.Duration
}

// job is a copy that is to be got.
type job struct {
	key   kvcache.Key
	data  []byte
	lease LeaseID
	epoch int
}

// link is a connection to a partner.
type link struct {
	raw   net.Conn
	conn  net.Conn // raw, or what encrypts it
	in    *bufio.Reader
	sums  *summer
	used  bool // it has answered before
	since time.Time
	out   []byte
}

// An Offer is what a partner has said it holds for a prompt.
type Offer struct {
	peer  *peer
	lease LeaseID
	keys  []kvcache.Key
	ended bool
}

// Knows reports whether addr is that of a partner.
func (n *Node) Knows(addr string) bool { return n.peers[addr] != nil }

// Offer asks a partner what it holds of the blocks of a prompt. Until the offer is ended, the engine may read
// them. It waits no longer than Config.Wait.
func (n *Node) Offer(ctx context.Context, addr string, lease LeaseID, keys []kvcache.Key) (*Offer, error) {
	p := n.peers[addr]
	if p == nil {
		return nil, ErrPartner
	}
	keys = keys[:min(len(keys), maxKeys)]
	n.mu.Lock()
	if n.mu.closed || time.Now().Before(p.badUntil) || p.asking >= mostAsking {
		n.mu.stats.OffersFailed++
		n.mu.Unlock()
		return nil, ErrPartner
	}
	p.asking++
	n.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, n.cfg.Wait)
	defer done()
	status := make([]byte, len(keys))
	err := p.ask(ctx, func(l *link) error {
		q := request{op: opHave, lease: lease, keys: keys}
		l.out = q.append(l.out[:0])
		if _, err := l.conn.Write(l.out); err != nil {
			return err
		}
		_, err := io.ReadFull(l.in, status)
		return err
	})
	n.mu.Lock()
	defer n.mu.Unlock()
	p.asking--
	if err != nil {
		if n.mu.stats.OffersFailed++; errors.Is(err, errIdentity) {
			n.mu.stats.Strangers++
		}
		return nil, errors.Join(ErrPartner, err)
	}
	o := &Offer{peer: p, lease: lease}
	n.mu.stats.Offers++
	for i, s := range status {
		if s == held || s == awaited {
			o.keys = append(o.keys, keys[i])
			n.mu.offers[keys[i]] = append(n.mu.offers[keys[i]], o)
		}
	}
	return o, nil
}

func (n *Node) count(f func(*Stats)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(&n.mu.stats)
}

// Copies is how many copies are offered.
func (o *Offer) Copies() int { return len(o.keys) }

// End says that nothing of the offer is needed any more, and lets the partner know. It does not block, and may be called again.
func (o *Offer) End() {
	n := o.peer.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if o.ended {
		return
	}
	o.ended = true
	n.withdraw(o)
	if !n.mu.closed && len(o.peer.releases) < maxKeys {
		o.peer.releases = append(o.peer.releases, o.lease)
		o.peer.work()
	}
}

// withdraw removes an offer. n.mu is held.
func (n *Node) withdraw(o *Offer) {
	for _, k := range o.keys {
		left := slices.DeleteFunc(n.mu.offers[k], func(other *Offer) bool { return other == o })
		if len(left) == 0 {
			delete(n.mu.offers, k)
		} else {
			n.mu.offers[k] = left
		}
	}
}

// fetch has a copy got. n.mu is held.
func (p *peer) fetch(j job) {
	p.queue = append(p.queue, j)
	p.work()
}

// work makes sure that somebody works at the queue. n.mu is held.
func (p *peer) work() {
	if !p.active {
		p.active = true
		p.node.running.Go(p.run)
	}
}

// run works until there is nothing to do.
func (p *peer) run() {
	n := p.node
	for {
		n.mu.Lock()
		jobs, releases := p.next()
		if len(jobs)+len(releases) == 0 {
			p.active = false
			n.mu.Unlock()
			return
		}
		bad := n.mu.closed || time.Now().Before(p.badUntil)
		n.mu.Unlock()
		if !bad {
			jobs = p.get(jobs, releases)
		}
		for _, j := range jobs { // what has not come
			p.done(j, false)
		}
	}
}

// next takes off the queue what is asked for together. n.mu is held.
func (p *peer) next() ([]job, []LeaseID) {
	releases := p.releases
	p.releases = nil
	return p.take(), releases
}

// take takes jobs of one lease off the queue. n.mu is held.
func (p *peer) take() []job {
	m := 0
	for m < min(len(p.queue), batch) && p.queue[m].lease == p.queue[0].lease {
		m++
	}
	jobs := slices.Clone(p.queue[:m])
	p.queue = slices.Delete(p.queue, 0, m)
	return jobs
}

// get ends leases and gets copies. It returns the jobs that did not come.
func (p *peer) get(jobs []job, releases []LeaseID) (left []job) {
	wait := p.node.cfg.Wait
	err := p.ask(context.Background(), func(l *link) error {
		l.out = l.out[:0]
		for _, id := range releases {
			l.out = (&request{op: opRelease, lease: id}).append(l.out)
		}
		if _, err := l.conn.Write(appendGet(l.out, jobs, wait)); err != nil {
			return err
		}
		for len(jobs) > 0 {
			if more := p.more(len(jobs)); len(more) > 0 { // the other side has something to do while these come
				jobs = append(jobs, more...)
				if _, err := l.conn.Write(appendGet(l.out[:0], more, wait)); err != nil {
					return err
				}
			}
			there, err := l.receive(jobs[0], wait)
			if err != nil {
				return err
			}
			p.done(jobs[0], there)
			jobs = jobs[1:]
		}
		return nil
	})
	if errors.Is(err, errChecksum) {
		p.node.count(func(s *Stats) { s.Damaged++ })
	}
	return jobs
}

// more takes further jobs off the queue if few are left of those that were asked for.
func (p *peer) more(left int) []job {
	if left > batch/2 {
		return nil
	}
	p.node.mu.Lock()
	defer p.node.mu.Unlock()
	return p.take()
}

// appendGet appends a request for copies, if there are any to be got.
func appendGet(dst []byte, jobs []job, wait time.Duration) []byte {
	if len(jobs) == 0 {
		return dst
	}
	q := request{op: opGet, wait: uint32((wait / 2).Milliseconds()), lease: jobs[0].lease}
	for _, j := range jobs {
		q.keys = append(q.keys, j.key)
	}
	return q.append(dst)
}

// receive reads the next copy.
func (l *link) receive(j job, wait time.Duration) (there bool, err error) {
	if err := l.raw.SetDeadline(time.Now().Add(wait)); err != nil {
		return false, err
	}
	there, sum, err := readAnswer(l.in, len(j.data))
	if err != nil || !there {
		return false, err
	}
	l.used = true
	if got, err := l.sums.read(l.in, j.key, j.data); err != nil {
		return false, err
	} else if got != sum {
		return false, errChecksum
	}
	return true, nil
}

// done gives out a copy, or that there is none.
func (p *peer) done(j job, there bool) {
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	c := kvcache.Content{Key: j.key, External: true}
	if there && j.epoch == n.mu.epoch && !n.mu.closed {
		c.Data = j.data
		n.mu.stats.Received++
		n.mu.stats.ReceivedBytes += uint64(len(j.data))
	} else {
		n.mu.stats.Failed++
		n.free(j.data)
	}
	n.mu.done = append(n.mu.done, c)
	n.mu.wake()
}

// ask does something with a connection, and again with a new one if one that was kept turns out to be dead.
func (p *peer) ask(ctx context.Context, do func(*link) error) error {
	for {
		l, err := p.link(ctx)
		if err != nil {
			p.failed(ctx, err)
			return err
		}
		kept := l.used
		l.used = false // until it answers
		err = p.with(ctx, l, do)
		if err == nil {
			l.used = true
			p.keep(l)
			return nil
		}
		dead := kept && !l.used && ctx.Err() == nil && !isTimeout(err)
		p.drop(l)
		if !dead {
			p.failed(ctx, err)
			return err
		}
	}
}

// with does something with a connection as long as the context lasts, and Config.Wait at most until the first answer.
func (p *peer) with(ctx context.Context, l *link, do func(*link) error) error {
	if err := l.raw.SetDeadline(time.Now().Add(p.node.cfg.Wait)); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = l.raw.SetDeadline(time.Unix(1, 0)) }) // it ends do
	defer stop()
	return do(l)
}

func isTimeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// link returns a connection that was kept, or a new one.
func (p *peer) link(ctx context.Context) (*link, error) {
	n := p.node
	n.mu.Lock()
	for len(p.idle) > 0 {
		l := p.idle[len(p.idle)-1]
		p.idle = p.idle[:len(p.idle)-1]
		if time.Since(l.since) < idleConn {
			n.mu.Unlock()
			return l, nil
		}
		delete(n.mu.conns, l.raw)
		_ = l.raw.Close() // nobody is told
	}
	n.mu.Unlock()
	ctx, done := context.WithTimeout(ctx, n.cfg.Wait)
	defer done()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", p.addr)
	if err != nil {
		return nil, err
	}
	n.mu.Lock()
	if n.mu.closed {
		n.mu.Unlock()
		return nil, errors.Join(net.ErrClosed, raw.Close())
	}
	n.mu.conns[raw] = struct{}{}
	n.mu.Unlock()
	l := &link{raw: raw}
	err = p.with(ctx, l, func(l *link) error {
		c, binding, err := n.secured(raw, false)
		if err != nil {
			return err
		}
		l.conn, l.in, l.sums = c, bufio.NewReaderSize(c, 4<<10), newSummer(n.creds.identity)
		return n.creds.greet(c, binding)
	})
	if err != nil {
		p.drop(l)
		return nil, err
	}
	return l, nil
}

// keep keeps a connection for later.
func (p *peer) keep(l *link) {
	n := p.node
	n.mu.Lock()
	p.backoff, p.badUntil = 0, time.Time{}
	full := n.mu.closed || len(p.idle) >= mostIdle
	if !full {
		l.since = time.Now()
		p.idle = append(p.idle, l)
	}
	n.mu.Unlock()
	if full {
		p.drop(l)
	}
}

// drop closes a connection.
func (p *peer) drop(l *link) {
	p.node.mu.Lock()
	delete(p.node.mu.conns, l.raw)
	p.node.mu.Unlock()
	_ = l.raw.Close() // nobody is told
}

// failed notes that the partner did not answer, unless it is the client of the request who has gone.
func (p *peer) failed(ctx context.Context, err error) {
	n := p.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed || errors.Is(ctx.Err(), context.Canceled) {
		return
	}
	p.backoff = min(max(2*p.backoff, leastBackoff), mostBackoff)
	if errors.Is(err, errIdentity) || errors.Is(err, errSecret) {
		p.backoff = mostBackoff
	}
	p.badUntil = time.Now().Add(p.backoff)
	n.warned.warn("a partner does not send its KV blocks: what it has is computed here", "partner", p.addr, "again_in", p.backoff, "error", err)
}
