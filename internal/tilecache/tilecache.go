package tilecache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"
)

const (
	ending     = ".tiles"
	partEnding = ".part"
)

// Config says where files are kept, and how many.
type Config struct {
	Dir   string
	Limit int64 // bytes of all files in Dir together; those that were used longest ago go
	// MinFree is how many bytes of the disk stay free.
	MinFree int64
	Log     *slog.Logger
}

// Cache has the tiles of one model. Keep, Save and Close belong to one goroutine; what Find returns
// may be called by several at a time.
type Cache struct {
	cfg      Config
	identity string
	path     string

	file    *os.File // nil: there is none
	entries map[string]entry
	missed  atomic.Bool // something was not found or was damaged
	told    sync.Once   // that the file is damaged

	kept    []kept
	stop    chan struct{}
	reading sync.WaitGroup // of the tiles
	writing sync.WaitGroup // of a file
}

// entry is where the tiles of a key are in a file.
type entry struct {
	at, size, piece int64
	sums            []uint32
}

// kept is tiles in memory.
type kept struct {
	key   string
	piece int
	tiles []byte
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Open opens the file of an identity, if there is one. It never fails: without a file that can be
// read nothing is found.
func Open(cfg Config, identity string) *Cache {
	name := sha256.Sum256([]byte(identity))
	c := &Cache{cfg: cfg, identity: identity, stop: make(chan struct{}), path: filepath.Join(cfg.Dir, hex.EncodeToString(name[:16])+ending)}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		cfg.Log.Warn("the cache of packed weights cannot be used", "error", err)
		return c
	}
	f, err := os.Open(c.path)
	if errors.Is(err, fs.ErrNotExist) {
		return c
	}
	if err == nil {
		if c.entries, err = readIndex(f, identity); err == nil {
			c.file = f
			return c
		}
		_ = f.Close() // err says more
	}
	c.damaged(err)
	return c
}

// damaged tells the log once.
func (c *Cache) damaged(err error) {
	c.missed.Store(true)
	c.told.Do(func() {
		c.cfg.Log.Warn("the cache of packed weights is damaged, and they are packed anew", "file", c.path, "error", err)
	})
}

// Find returns a function that reads piece i of the tiles of a key into dst, or nil if there are no
// tiles of this size under it. The function reports false if the piece is damaged.
func (c *Cache) Find(key string, piece, size int) func(i int, dst []byte) bool {
	e, ok := c.entries[key]
	if !ok || e.size != int64(size) || e.piece != int64(piece) {
		c.missed.Store(true)
		return nil
	}
	return func(i int, dst []byte) bool {
		if _, err := c.file.ReadAt(dst, e.at+int64(i)*e.piece); err != nil {
			c.damaged(err)
			return false
		}
		if crc32.Checksum(dst, castagnoli) != e.sums[i] {
			c.damaged(fmt.Errorf("piece %d of %.200q has another checksum", i, key))
			return false
		}
		return true
	}
}

// Keep remembers the tiles of a key, for Save. They do not change until Close.
func (c *Cache) Keep(key string, piece int, tiles []byte) {
	c.kept = append(c.kept, kept{key, piece, tiles})
}

// Save writes a file of all that was kept, in the background, if some of it was not found.
// Otherwise it notes that the file was used.
func (c *Cache) Save() {
	c.closeFile()
	if len(c.kept) == 0 {
		return
	}
	if !c.missed.Load() {
		now := time.Now()
		_ = os.Chtimes(c.path, now, now) // another order of removal does no harm
		return
	}
	c.reading.Add(1)
	c.writing.Go(func() {
		begun := time.Now()
		switch size, err := c.write(); {
		case errors.Is(err, errStopped), errors.Is(err, errBusy):
		case err != nil:
			c.cfg.Log.Warn("packed weights are not kept for the next start", "error", err)
		default:
			c.cfg.Log.Info("packed weights are kept for the next start", "file", c.path, "megabytes", size>>20, "seconds", fmt.Sprintf("%.1f", time.Since(begun).Seconds()))
		}
	})
}

// Wait returns when Save has written its file.
func (c *Cache) Wait() { c.writing.Wait() }

// Close returns when the tiles are not read any more. A file that is written then is given up, but one
// whose bytes the system has goes on to its place.
func (c *Cache) Close() {
	select {
	case <-c.stop:
	default:
		close(c.stop)
	}
	c.reading.Wait()
	c.closeFile()
	c.kept = nil
}

func (c *Cache) closeFile() {
	if c.file != nil {
		_ = c.file.Close() // it was only read
		c.file, c.entries = nil, nil
	}
}
