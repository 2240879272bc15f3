package kvtransfer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"sync"
	"time"

	"weir/kvcache"
)

// Local is where else copies are kept, in a folder or in memory of this machine. See engine.Offload.
type Local interface {
	Has(kvcache.Key) bool
	Wants(kvcache.Key) bool
	Buffer(n int) []byte
	Save(k kvcache.Key, data []byte)
	Fetch(k kvcache.Key, n int) bool
	Fetched(dst []kvcache.Content, most int) []kvcache.Content
	Drop()
}

// Config says with whom blocks are exchanged, and how much of it.
type Config struct {
	// Identity is everything but salt and tokens that decides the bits of a block. Partners have to have the same.
	Identity string
	Secret   []byte // that partners share, at least LeastSecret bytes
	Encrypt  bool   // connections are encrypted; partners have to agree
	Serve    bool   // blocks are held for partners
	Peers    []string
	Local    Local // nil: there is none

	Hold       int64         // most bytes that are held for partners
	MostLeases int           // most prompts for which something is held
	LeaseTime  time.Duration // how long it is held after the prompt was computed
	Queue      int64         // most bytes of copies that are on their way from partners; as much again may be lent to the engine
	Wait       time.Duration // most time in which a partner has to answer, and send each copy

	Log *slog.Logger
}

// LeastSecret is the least length of a secret, in bytes.
const LeastSecret = 16

// Validate says what is wrong with c.
func (c *Config) Validate() error {
	switch {
	case len(c.Secret) < LeastSecret:
		return fmt.Errorf("kvtransfer: the secret has %d bytes; it takes %d or more", len(c.Secret), LeastSecret)
	case c.Hold < 1 || c.Queue < 1 || c.MostLeases < 1 || c.LeaseTime <= 0 || c.Wait <= 0:
		return errors.New("kvtransfer: a limit is less than 1")
	}
	for _, a := range c.Peers {
		if _, _, err := net.SplitHostPort(a); err != nil {
			return fmt.Errorf("kvtransfer: partner %q is not host:port", a)
		}
	}
	return nil
}

// Node exchanges blocks with partners. It is an engine.Offload, in front of Config.Local. All methods may be called by
// any goroutine.
type Node struct {
	cfg     Config
	creds   credentials
	tls     *tls.Config // nil: nothing is encrypted
	peers   map[string]*peer
	stop    chan struct{}
	running sync.WaitGroup
	warned  quiet

	mu struct {
		sync.Mutex
		closed bool
		wake   func()
		stats  Stats
		holding
		fetching
	}
}

// holding is what is held for partners.
type holding struct {
	items     map[kvcache.Key]*item
	leases    map[LeaseID]*Lease
	held      int64
	memory    buffers
	changed   chan struct{} // closed when a copy comes or a lease ends; nil: nobody waits
	listeners []net.Listener
	conns     map[net.Conn]struct{} // of partners, and to partners
}

// fetching is what comes from partners.
type fetching struct {
	offers  map[kvcache.Key][]*Offer
	epoch   int   // of Drop
	reading int64 // bytes of what is on its way or waits to be taken
	done    []kvcache.Content
	lent    [][]byte
}

// Stats counts what a node has done.
type Stats struct {
	LeasesOpen int
	HeldBytes  int64

	// The following only grow.
	Leases, LeasesRefused, LeasesExpired uint64
	Sent, SentBytes                      uint64 // copies
	Received, ReceivedBytes              uint64
	Offers                               uint64 // prompts of which a partner has said what it has
	Failed                               uint64 // copies that were asked for and did not come
	Damaged                              uint64 // of those, with another checksum
	OffersFailed                         uint64 // prompts whose partner did not answer in time, or in another way
	Strangers                            uint64 // of those, with another fingerprint
	ConnsFailed                          uint64 // connections of partners that ended by an error
}

// New returns a node.
func New(cfg Config) (*Node, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	n := &Node{cfg: cfg, creds: credentials{cfg.Secret, sha256.Sum256([]byte(cfg.Identity))}, peers: map[string]*peer{}, stop: make(chan struct{})}
	n.warned.log = cfg.Log
	for _, a := range cfg.Peers {
		n.peers[a] = &peer{node: n, addr: a}
	}
	n.mu.wake = func() {}
	n.mu.items, n.mu.leases, n.mu.conns = map[kvcache.Key]*item{}, map[LeaseID]*Lease{}, map[net.Conn]struct{}{}
	n.mu.offers = map[kvcache.Key][]*Offer{}
	if cfg.Encrypt {
		cert, err := certificate()
		if err != nil {
			return nil, err
		}
		// Who is on the other side is not settled by certificates, but by the handshake after them: its proofs name this very
		// connection, so that nobody can stand in the middle.
		n.tls = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
	}
	return n, nil
}

// certificate makes one for this process.
func certificate() (c tls.Certificate, err error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return c, err
	}
	t := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, t, t, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Notify has wake called when there is something for Fetched, or room for Fetch again. It must not block.
func (n *Node) Notify(wake func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.wake = wake
}

// Stats returns what was counted so far.
func (n *Node) Stats() Stats {
	n.mu.Lock()
	defer n.mu.Unlock()
	st := n.mu.stats
	st.LeasesOpen, st.HeldBytes = len(n.mu.leases), n.mu.held
	return st
}

// Close ends all connections and leases.
func (n *Node) Close() error {
	n.mu.Lock()
	if n.mu.closed {
		n.mu.Unlock()
		return nil
	}
	n.mu.closed = true
	close(n.stop)
	var failed error
	for _, ln := range n.mu.listeners {
		failed = errors.Join(failed, ln.Close())
	}
	for c := range n.mu.conns {
		_ = c.Close() // nobody is told
	}
	n.dropAll()
	n.mu.Unlock()
	n.running.Wait()
	return failed
}

// dropAll ends all leases and offers. n.mu is held.
func (n *Node) dropAll() {
	for _, l := range n.mu.leases {
		n.end(l)
	}
	clear(n.mu.offers)
	n.mu.epoch++
	for i := range n.mu.done {
		n.free(n.mu.done[i].Data)
		n.mu.done[i].Data = nil
	}
}

// Has implements engine.Offload.
func (n *Node) Has(k kvcache.Key) bool {
	n.mu.Lock()
	offered := len(n.mu.offers[k]) > 0
	n.mu.Unlock()
	return offered || n.cfg.Local != nil && n.cfg.Local.Has(k)
}

// Wants implements engine.Offload.
func (n *Node) Wants(k kvcache.Key) bool {
	n.mu.Lock()
	it := n.mu.items[k]
	wants := it != nil && it.data == nil && n.mu.held < n.cfg.Hold
	n.mu.Unlock()
	return wants || n.cfg.Local != nil && n.cfg.Local.Wants(k)
}

// Buffer implements engine.Offload.
func (n *Node) Buffer(size int) []byte {
	if n.cfg.Local != nil {
		return n.cfg.Local.Buffer(size)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.mu.memory.take(size)
}

// Save implements engine.Offload.
func (n *Node) Save(k kvcache.Key, data []byte) {
	if n.cfg.Local != nil {
		n.hold(k, data, true)
		n.cfg.Local.Save(k, data)
		return
	}
	n.hold(k, data, false)
}

// hold keeps a copy that a lease waits for.
func (n *Node) hold(k kvcache.Key, data []byte, clone bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	it := n.mu.items[k]
	if it == nil || it.data != nil || n.mu.held >= n.cfg.Hold {
		if !clone {
			n.mu.memory.give(data)
		}
		return
	}
	if clone {
		mine := n.mu.memory.take(len(data))
		copy(mine, data)
		data = mine
	}
	it.data = data
	n.mu.held += int64(len(data))
	n.announce()
}

// Fetch implements engine.Offload.
func (n *Node) Fetch(k kvcache.Key, size int) bool {
	if n.cfg.Local != nil && n.cfg.Local.Has(k) {
		return n.cfg.Local.Fetch(k, size)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.closed || n.mu.reading > 0 && n.mu.reading+int64(size) > n.cfg.Queue {
		return false
	}
	offers := n.mu.offers[k]
	if len(offers) == 0 { // its partner has gone meanwhile
		n.mu.done = append(n.mu.done, kvcache.Content{Key: k, External: true})
		n.mu.wake()
		return true
	}
	o := offers[len(offers)-1]
	data := n.mu.memory.take(size)
	n.mu.reading += int64(size)
	o.peer.fetch(job{key: k, data: data, lease: o.lease, epoch: n.mu.epoch})
	return true
}

// free gives memory of a copy back that has come from a partner. n.mu is held.
func (n *Node) free(data []byte) {
	n.mu.reading -= int64(len(data))
	n.mu.memory.give(data)
}

// Fetched implements engine.Offload.
func (n *Node) Fetched(dst []kvcache.Content, most int) []kvcache.Content {
	n.mu.Lock()
	for _, b := range n.mu.lent {
		n.mu.memory.give(b)
	}
	n.mu.lent = n.mu.lent[:0]
	i, before := 0, most
	for i < len(n.mu.done) && (i == 0 || most > 0) {
		c := n.mu.done[i]
		if c.Data != nil {
			n.mu.lent = append(n.mu.lent, c.Data)
			n.mu.reading -= int64(len(c.Data))
		}
		dst, most = append(dst, c), most-len(c.Data)
		i++
	}
	n.mu.done = n.mu.done[:copy(n.mu.done, n.mu.done[i:])]
	n.mu.Unlock()
	if n.cfg.Local != nil && (most > 0 || most == before) {
		dst = n.cfg.Local.Fetched(dst, most)
	}
	return dst
}

// Drop implements engine.Offload.
func (n *Node) Drop() {
	n.mu.Lock()
	n.dropAll()
	n.mu.Unlock()
	if n.cfg.Local != nil {
		n.cfg.Local.Drop()
	}
}

// quiet lets a message through once a minute.
type quiet struct {
	mu   sync.Mutex
	log  *slog.Logger
	last time.Time
}

func (q *quiet) warn(message string, args ...any) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if now := time.Now(); q.last.IsZero() || now.Sub(q.last) > time.Minute {
		q.last = now
		q.log.Warn(message, args...)
	}
}
