package chat

import (
	"container/list"
	"crypto/sha256"
	"sync"

	"weir/internal/memory"
)

const (
	// maxCached and maxCachedBytes bound the cache of templates from requests, in number
	// and in bytes of source. A client with a template of its own mostly sends the same one
	// every time.
	maxCached      = 32
	maxCachedBytes = 1 << 20

	// compiledByte is what a compiled template takes at most for each byte of its source.
	// TestCompiledSizes measures it.
	compiledByte = 100
)

// templateCache keeps the templates from requests that were used last, by the hash of
// their source. The zero value is an empty cache.
type templateCache struct {
	mu struct {
		sync.Mutex
		entries map[[sha256.Size]byte]*list.Element // of *cached
		order   list.List                           // the one that was used last is at the front
		bytes   int
		memory  *memory.Reservation // of the compiled templates; nil: they are not counted
	}
}

// setMemory makes an account count what the cache holds from now on. It is called once, before
// there are entries.
func (c *templateCache) setMemory(account *memory.Account) {
	held := account.Cache(func(n int64) {
		c.mu.Lock()
		defer c.mu.Unlock()
		for freed := int64(0); freed < n && c.mu.order.Len() > 0; {
			freed += c.drop()
		}
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.memory = held
}

type cached struct {
	key  [sha256.Size]byte
	size int
	t    *compiled
}

// get returns the compiled template, from the cache if it is there. Two requests may
// compile the same template at the same time, which costs less than waiting for each
// other.
func (c *templateCache) get(source string) (*compiled, error) {
	key := sha256.Sum256([]byte(source))
	if t := c.find(key); t != nil {
		return t, nil
	}
	t, err := compile(source)
	if err != nil {
		return nil, err
	}
	c.add(&cached{key, len(source), t})
	return t, nil
}

func (c *templateCache) find(key [sha256.Size]byte) *compiled {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.mu.entries[key]
	if e == nil {
		return nil
	}
	c.mu.order.MoveToFront(e)
	return e.Value.(*cached).t
}

func (c *templateCache) add(entry *cached) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.mu.entries == nil {
		c.mu.entries = map[[sha256.Size]byte]*list.Element{}
	}
	if c.mu.entries[entry.key] != nil {
		return
	}
	if c.mu.memory != nil && !c.mu.memory.TryGrow(compiledByte*int64(entry.size)) {
		return
	}
	c.mu.entries[entry.key] = c.mu.order.PushFront(entry)
	c.mu.bytes += entry.size
	for c.mu.order.Len() > maxCached || c.mu.bytes > maxCachedBytes {
		c.drop()
	}
}

// drop removes the template that was used longest ago, and returns the bytes that it gives
// back. The caller holds mu.
func (c *templateCache) drop() int64 {
	oldest := c.mu.order.Remove(c.mu.order.Back()).(*cached)
	delete(c.mu.entries, oldest.key)
	c.mu.bytes -= oldest.size
	n := compiledByte * int64(oldest.size)
	if c.mu.memory != nil {
		c.mu.memory.Shrink(n)
	}
	return n
}
