package grammar

import (
	"container/list"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"weir/internal/memory"
)

// Compiler turns specs into grammars and caches them. It is safe for concurrent
// use; equal specs that are asked for at the same time are compiled once.
//
// Its memory is reserved in an account: that of a compilation, which waits for it, that of
// a grammar in use, which grows with the masks that are built and drops them when there is
// no more, and that of grammars that nobody uses, which are dropped when the account needs
// room, those first that were asked for longest ago.
type Compiler struct {
	voc     *Vocabulary
	cfg     Config
	account *memory.Account
	unused  *memory.Reservation // for the grammars that nobody uses

	// mu is never held while a lock of a machine or a holding is taken, because a machine
	// that grows may need the room of other grammars.
	mu      sync.Mutex
	entries map[string]*list.Element
	recent  *list.List // of *entry, the one asked for last in front
}

type entry struct {
	key  string
	done chan struct{} // closed when g and err are set
	g    *Grammar
	err  error
	ctx  context.Context // ends with ErrAbandoned when nobody waits for the compilation any more, and after it
	end  context.CancelCauseFunc
	el   *list.Element // in Compiler.recent

	// Compiler.mu guards these.
	stage    stage         // of the compilation
	moved    chan struct{} // closed when the stage ends
	users    int           // calls that wait for the result, and those that use it
	finished bool          // g or err is there
	hold     *holding      // of a grammar in use
	kept     int64         // bytes that Compiler.unused has for it; 0: it is in use
	size     int64         // what it took when it was last put down
}

// NewCompiler makes a compiler for the tokens of v. account, which may be nil, is where its
// memory is reserved, and that of the shapes that v keeps.
func NewCompiler(v *Vocabulary, cfg Config, account *memory.Account) (*Compiler, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if account == nil {
		account = memory.New(math.MaxInt64/2, 0)
	}
	c := &Compiler{voc: v, cfg: cfg, account: account, entries: make(map[string]*list.Element), recent: list.New()}
	c.unused = account.Cache(func(n int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.evict(n)
	})
	v.commonShapes.charge(account)
	v.outlinedShapes.charge(account)
	return c, nil
}

// key is a text that is different for specs that differ: a hash, because specifications may
// have megabytes.
func (s *Spec) key() string {
	h := sha256.New()
	fmt.Fprintf(h, "%d %t %t %t %t %d %d %d %d %d ", s.Kind, s.DisableAnyWhitespace, s.DisableAdditionalProperties, s.Strict, s.OneOfAny,
		len(s.WhitespacePattern), len(s.Text), len(s.Prefix), len(s.Schema), len(s.Choices))
	for _, text := range [...]string{s.WhitespacePattern, s.Text, s.Prefix} {
		_, _ = io.WriteString(h, text) // a hash takes everything
	}
	_, _ = h.Write(s.Schema)
	for _, c := range s.Choices {
		fmt.Fprintf(h, "%d ", len(c))
		_, _ = io.WriteString(h, c)
	}
	return string(h.Sum(nil))
}

// join counts the caller among those who wait for the entry of s, or use it.
func (c *Compiler) join(s *Spec) *entry {
	key := s.key()
	c.mu.Lock()
	defer c.mu.Unlock()
	if el := c.entries[key]; el != nil {
		if e := el.Value.(*entry); e.finished || e.users > 0 {
			c.take(e)
			c.recent.MoveToFront(el)
			return e
		}
		c.drop(el) // its compilation was abandoned
	}
	e := &entry{key: key, done: make(chan struct{}), users: 1, moved: make(chan struct{})}
	if s.size() > smallSpec {
		e.stage = waitsLarge
	}
	e.ctx, e.end = context.WithCancelCause(context.Background())
	e.el = c.recent.PushFront(e)
	c.entries[key] = e.el
	return e
}

// take counts a user of e. What a grammar that nobody has used takes is reserved for its
// use from now on. The caller holds mu.
func (c *Compiler) take(e *entry) {
	e.users++
	if !e.finished || e.hold != nil {
		return
	}
	e.hold = &holding{r: c.account.Open()}
	if e.kept > 0 {
		c.unused.Move(e.hold.r, e.kept)
		e.hold.granted.Store(e.kept)
		e.kept = 0
	} else { // it is being put down by another user
		e.hold.r.Force(e.size)
		e.hold.granted.Store(e.size)
	}
	e.g.m.hold.Store(e.hold)
}

// reserve makes sure that e, which the caller uses, has the memory that masks need at least.
func (c *Compiler) reserve(ctx context.Context, e *entry) error {
	c.mu.Lock()
	h := e.hold
	more := max(0, e.size+c.voc.working()-h.granted.Load())
	c.mu.Unlock()
	if more == 0 {
		return nil
	}
	if err := h.r.Grow(ctx, more); err != nil {
		return err
	}
	h.granted.Add(more)
	return nil
}

// leave takes a caller off the count of join. The memory of a grammar that nobody uses any
// more is given back, and it is kept if there is enough.
func (c *Compiler) leave(e *entry) {
	h := c.putDown(e)
	if h == nil {
		return
	}
	size := e.g.Bytes()
	h.close()
	c.keep(e, size)
}

// putDown takes a caller off the count. It returns what is reserved for a grammar that
// nobody uses any more.
func (c *Compiler) putDown(e *entry) *holding {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.users--; e.users > 0 {
		return nil
	}
	if !e.finished {
		e.end(ErrAbandoned)
		if e.stage != runs {
			c.drop(e.el)
		}
		return nil
	}
	h := e.hold
	if e.hold = nil; h != nil {
		e.g.m.hold.Store(nil)
		e.size = max(e.size, h.granted.Load()) // until keep knows better
	}
	return h
}

// keep keeps a grammar that nobody uses, unless there is no memory for it.
func (c *Compiler) keep(e *entry, size int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	el := c.entries[e.key]
	if el == nil || el.Value.(*entry) != e || e.users > 0 || e.kept > 0 {
		return
	}
	e.size = size
	c.evict(c.unused.Held() + size - c.cfg.CacheBytes)
	if size <= c.cfg.CacheBytes && !c.unused.TryGrow(size) {
		c.evict(size)
		if !c.unused.TryGrow(size) {
			size = c.cfg.CacheBytes + 1
		}
	}
	if size > c.cfg.CacheBytes {
		c.drop(el)
		return
	}
	e.kept = size
}

// finish publishes the result of a compilation. It reports whether h is in use.
func (c *Compiler) finish(e *entry, h *holding) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e.finished = true
	c.move(e, ended)
	if e.err != nil || e.users == 0 {
		c.drop(e.el)
		return false
	}
	e.g.of, e.g.entry = c, e
	e.hold, e.size = h, h.granted.Load()-c.voc.working()
	return true
}

// drop removes an entry, unless its key has a newer one. Those who use its grammar keep it.
// The caller holds mu.
func (c *Compiler) drop(el *list.Element) {
	e := el.Value.(*entry)
	c.unused.Shrink(e.kept)
	e.kept = 0
	if c.entries[e.key] == el {
		delete(c.entries, e.key)
		c.recent.Remove(el)
	}
}

// evict drops grammars that nobody uses, those first that were asked for longest ago, until
// they had n bytes. The caller holds mu.
func (c *Compiler) evict(n int64) {
	for el := c.recent.Back(); el != nil && n > 0; {
		before := el.Prev()
		if e := el.Value.(*entry); e.kept > 0 {
			n -= e.kept
			c.drop(el)
		}
		el = before
	}
}

// holding is the memory that is reserved for a grammar that is compiled or in use.
type holding struct {
	mu      sync.Mutex
	r       *memory.Reservation
	granted atomic.Int64 // bytes of r for the grammar; what compiling takes is not among them
	closed  bool
}

// cover reserves n bytes for a grammar, and some more, unless they are reserved already. It
// reports false if there is no room. Nothing is reserved for nil, and for a grammar that
// somebody still builds masks of who has put it down.
func (h *holding) cover(n int64, v *Vocabulary) bool {
	if h == nil || n <= h.granted.Load() {
		return true
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	more := n - h.granted.Load()
	if h.closed || more <= 0 {
		return true
	}
	if more += v.working() / 4; !h.r.TryGrow(more) {
		return false
	}
	h.granted.Add(more)
	return true
}

// close gives everything back.
func (h *holding) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	h.r.Release()
}

// working is how many bytes of masks a grammar in use has room for in any case. With less,
// it would drop its masks again and again while it builds one.
func (v *Vocabulary) working() int64 { return 64<<10 + 16*4*int64(v.words()) }
