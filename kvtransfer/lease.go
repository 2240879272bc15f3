package kvtransfer

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"time"

	"weir/kvcache"
)

// A Lease is the promise to hold the blocks of a prompt for a partner.
type Lease struct {
	id    LeaseID
	node  *Node
	keys  map[kvcache.Key]*item
	order []kvcache.Key
	open  bool // the prompt is being computed: what is not there may come
	ended bool
	timer *time.Timer // nil: not settled yet
}

// ID is what a partner calls the lease.
func (l *Lease) ID() string { return hex.EncodeToString(l.id[:]) }

// ParseLease reads an ID.
func ParseLease(text string) (id LeaseID, ok bool) {
	if len(text) != 2*len(id) {
		return id, false
	}
	_, err := hex.Decode(id[:], []byte(text))
	return id, err == nil
}

// Lease begins to hold what comes under these keys, which are those of a prompt that is about to be computed. It returns nil
// if so much is held that there is no room for more. The caller settles or ends it.
func (n *Node) Lease(keys []kvcache.Key) *Lease {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed || !n.cfg.Serve || len(n.mu.leases) >= n.cfg.MostLeases || n.mu.held >= n.cfg.Hold {
		n.mu.stats.LeasesRefused++
		return nil
	}
	l := &Lease{node: n, keys: make(map[kvcache.Key]*item, len(keys)), order: keys, open: true}
	_, _ = rand.Read(l.id[:]) // never fails (crypto/rand)
	for _, k := range keys {
		if l.keys[k] != nil {
			continue
		}
		it := n.mu.items[k]
		if it == nil {
			it = &item{}
			n.mu.items[k] = it
		}
		it.refs++
		l.keys[k] = it
	}
	n.mu.leases[l.id] = l
	n.mu.stats.Leases++
	return l
}

// Settle says that the prompt has been computed and copied: what is not there now does not come. From now on the
// lease ends after its time. It returns how many copies are held.
func (l *Lease) Settle() (copies int) {
	n := l.node
	n.mu.Lock()
	defer n.mu.Unlock()
	if l.ended {
		return 0
	}
	l.open = false
	for _, it := range l.keys {
		if it.data != nil {
			copies++
		}
	}
	l.timer = time.AfterFunc(n.cfg.LeaseTime, func() {
		n.mu.Lock()
		defer n.mu.Unlock()
		if !l.ended {
			n.mu.stats.LeasesExpired++
			n.end(l)
		}
	})
	n.announce()
	return copies
}

// End lets go of what is held.
func (l *Lease) End() {
	l.node.mu.Lock()
	defer l.node.mu.Unlock()
	l.node.end(l)
}

// end ends a lease. n.mu is held.
func (n *Node) end(l *Lease) {
	if l.ended {
		return
	}
	l.ended, l.open = true, false
	if l.timer != nil {
		l.timer.Stop()
	}
	delete(n.mu.leases, l.id)
	for k, it := range l.keys {
		n.unref(k, it)
	}
	l.keys = nil
	n.announce()
}

// unref gives up a reference to an item. n.mu is held.
func (n *Node) unref(k kvcache.Key, it *item) {
	if it.refs--; it.refs > 0 {
		return
	}
	if n.mu.items[k] == it {
		delete(n.mu.items, k)
	}
	if it.data != nil {
		n.mu.held -= int64(len(it.data))
		n.mu.memory.give(it.data)
		it.data = nil
	}
}

// announce wakes those who wait for copies. n.mu is held.
func (n *Node) announce() {
	if n.mu.changed != nil {
		close(n.mu.changed)
		n.mu.changed = nil
	}
}

// status says of each key whether its copy is held.
func (n *Node) status(dst []byte, q *request) []byte {
	n.mu.Lock()
	defer n.mu.Unlock()
	l := n.mu.leases[q.lease]
	for _, k := range q.keys {
		s := byte(absent)
		if l != nil {
			switch it := l.keys[k]; {
			case it == nil:
			case it.data != nil:
				s = held
			case l.open && !k.State: // few ends of blocks have a state, so that to wait for one would mostly be in vain
				s = awaited
			}
		}
		dst = append(dst, s)
	}
	return dst
}

// borrow returns a copy, which it waits for as long as the context lasts if it may come. The caller gives it back.
func (n *Node) borrow(until context.Context, id LeaseID, k kvcache.Key) *item {
	for {
		n.mu.Lock()
		l := n.mu.leases[id]
		if l == nil || l.keys[k] == nil {
			n.mu.Unlock()
			return nil
		}
		if it := l.keys[k]; it.data != nil {
			it.refs++
			n.mu.Unlock()
			return it
		}
		if !l.open || n.mu.closed {
			n.mu.Unlock()
			return nil
		}
		if n.mu.changed == nil {
			n.mu.changed = make(chan struct{})
		}
		changed := n.mu.changed
		n.mu.Unlock()
		select {
		case <-changed:
		case <-until.Done():
			return nil
		case <-n.stop:
			return nil
		}
	}
}

// giveBack ends what borrow has begun.
func (n *Node) giveBack(k kvcache.Key, it *item, sent bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if sent {
		n.mu.stats.Sent++
		n.mu.stats.SentBytes += uint64(len(it.data))
	}
	n.unref(k, it)
}

// release ends a lease that a partner does not need any more.
func (n *Node) release(id LeaseID) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if l := n.mu.leases[id]; l != nil {
		n.end(l)
	}
}
