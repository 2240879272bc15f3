package kvstore

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"weir/internal/retry"
	"weir/kvcache"
)

// Config says where copies are kept, and how many.
type Config struct {
	// Identity is everything but salt and tokens that decides the bits of a block.
	Identity string
	Dir      string // "": no files are written
	Size     int64  // most bytes of all files in Dir, whatever their identity
	MinFree  int64  // bytes of the disk that stay free
	Memory   int64  // most bytes that are kept in memory; 0: none
	// Queue is the most memory that holds what waits to be written, and as much again what is being read. One block
	// or state of any size is always let through.
	Queue int64
	Log   *slog.Logger
}

// ErrInUse says that another server uses the folder.
var ErrInUse = errors.New("another server uses this folder")

// Store has copies of blocks and states. All methods may be called by any goroutine.
type Store struct {
	cfg      Config
	identity [16]byte
	lock     *os.File // nil without a folder

	mu struct {
		sync.Mutex
		wake    func()
		index   index
		indexed bool
		memory  memory
		writes  writes
		reads   reads
		stats   Stats
		closed  bool
		epoch   int // of Erase: what was begun in an earlier one is given up
	}
	// files is held while a file is put into its place, and while all are erased.
	files sync.Mutex

	mayWrite, mayRead chan struct{} // capacity 1
	stop              chan struct{}
	writer, others    sync.WaitGroup
	warned            quiet
}

// Stats counts what a store has done.
type Stats struct {
	Files       int   // in the folder
	FileBytes   int64 // that they take
	MemoryItems int   // copies in memory
	MemoryBytes int64

	// The following only grow.
	Saved, SavedBytes   uint64 // copies taken in
	Read, ReadBytes     uint64 // copies given out
	Dropped             uint64 // copies that were not written, because the disk was full or failed, or because of Erase
	WriteErrors         uint64
	Damaged             uint64 // files that were not what they should have been
	Evicted             uint64 // files removed to make room
	FromMemory          uint64 // of Read, those that were in memory
	ReadSeconds         float64
	WriteSeconds        float64
	BytesPerSecondRead  float64 // lately; 0: not known
	BytesPerSecondWrite float64
}

// readers is how many files are read at a time.
const readers = 4

// Open opens a store. The folder is made if need be.
func Open(cfg Config) (*Store, error) {
	sum := sha256.Sum256([]byte(cfg.Identity))
	s := &Store{cfg: cfg, identity: [16]byte(sum[:]), mayWrite: make(chan struct{}, 1), mayRead: make(chan struct{}, 1), stop: make(chan struct{})}
	s.warned.log = cfg.Log
	s.mu.wake = func() {}
	s.mu.index = newIndex()
	s.mu.memory = newMemory(cfg.Memory)
	s.mu.writes.pending = map[kvcache.Key]*writeJob{}
	if cfg.Dir != "" {
		if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
			return nil, err
		}
		lock, err := os.OpenFile(filepath.Join(cfg.Dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		if err := lockFile(lock); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", cfg.Dir, ErrInUse), lock.Close())
		}
		s.lock = lock
		s.others.Go(s.list)
	} else {
		s.mu.indexed = true
	}
	s.writer.Go(s.write)
	for range readers {
		s.others.Go(s.read)
	}
	return s, nil
}

// Notify has wake called when there is memory for Buffer or Fetch again, and when Fetched has something new. It
// must not block.
func (s *Store) Notify(wake func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.wake = wake
}

// Stats returns what was counted so far.
func (s *Store) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.mu.stats
	st.Files, st.FileBytes = s.mu.index.len(), s.mu.index.bytes
	st.MemoryItems, st.MemoryBytes = len(s.mu.memory.items), s.mu.memory.bytes
	st.BytesPerSecondRead, st.BytesPerSecondWrite = s.mu.reads.rate.PerSecond(), s.mu.writes.rate.PerSecond()
	return st
}

// Has reports whether there is a copy, or will be one when what is in the queue has been written. It notes that the copy is of
// use, so that others are removed before it.
func (s *Store) Has(k kvcache.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.index.touch(s.mu.index.find(0, k))
	s.mu.memory.touch(k)
	return s.has(k)
}

func (s *Store) has(k kvcache.Key) bool {
	return s.mu.memory.items[k] != nil || s.mu.index.find(0, k) != 0 || s.mu.writes.pending[k] != nil
}

// Wants reports whether a copy is to be saved, because there is none.
func (s *Store) Wants(k kvcache.Key) bool { return !s.Has(k) }

// Buffer returns memory for Save; nil if too much waits to be written.
func (s *Store) Buffer(n int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil
	}
	return s.mu.writes.buffers.take(n, s.cfg.Queue)
}

// Save takes a copy over that Buffer has made room for.
func (s *Store) Save(k kvcache.Key, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.mu.writes
	if s.mu.closed || s.has(k) {
		w.buffers.give(data)
		return
	}
	s.mu.stats.Saved++
	s.mu.stats.SavedBytes += uint64(len(data))
	s.mu.memory.add(k, data)
	if s.cfg.Dir == "" {
		w.buffers.give(data)
		return
	}
	job := &writeJob{key: k, data: data, epoch: s.mu.epoch}
	w.queue = append(w.queue, job)
	w.pending[k] = job
	signal(s.mayWrite)
}

// Fetch begins to give out a copy of n bytes. It reports false if too much is being read.
func (s *Store) Fetch(k kvcache.Key, n int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.mu.reads
	data := r.buffers.take(n, s.cfg.Queue)
	if data == nil || s.mu.closed {
		r.buffers.give(data)
		return false
	}
	job := readJob{Content: kvcache.Content{Key: k, Data: data}, epoch: s.mu.epoch}
	if kept := s.mu.memory.get(k, n); kept != nil {
		s.gave(copy(data, kept))
		s.mu.stats.FromMemory++
		job.InMemory = true
		r.done = append(r.done, job.Content)
		s.mu.wake()
		return true
	}
	if w := s.mu.writes.pending[k]; w != nil && len(w.data) == n {
		s.gave(copy(data, w.data))
		job.InMemory = true
		r.done = append(r.done, job.Content)
		s.mu.wake()
		return true
	}
	r.queue = append(r.queue, job)
	signal(s.mayRead)
	return true
}

// gave counts a copy of n bytes that is given out.
func (s *Store) gave(n int) {
	s.mu.stats.Read++
	s.mu.stats.ReadBytes += uint64(n)
}

// Fetched appends to dst what Fetch has read since the last call, up to so many bytes, but one at least. What it
// returned before is not valid any more. A copy without Data is not there any more, or was damaged.
func (s *Store) Fetched(dst []kvcache.Content, most int) []kvcache.Content {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.mu.reads
	for _, b := range r.lent {
		r.buffers.give(b)
	}
	r.lent = r.lent[:0]
	n := 0
	for n < len(r.done) && (n == 0 || most > 0) {
		f := r.done[n]
		most -= len(f.Data)
		if f.Data != nil {
			r.lent = append(r.lent, f.Data)
		}
		dst = append(dst, f)
		n++
	}
	r.done = r.done[:copy(r.done, r.done[n:])]
	return dst
}

// Drop forgets all copies at once, those included that are being written or read, without waiting for the disk. The files are
// still there until Erase removes them, which has to follow.
func (s *Store) Drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mu.epoch++
	s.mu.indexed = true // what is being listed is void
	s.mu.index = newIndex()
	s.mu.memory = newMemory(s.cfg.Memory)
	w, r := &s.mu.writes, &s.mu.reads
	for _, job := range w.queue {
		s.mu.stats.Dropped++
		w.buffers.give(job.data)
	}
	w.queue = nil
	clear(w.pending)
	for _, job := range r.queue {
		r.buffers.give(job.Data)
	}
	r.queue = nil
	for i := range r.done {
		r.buffers.give(r.done[i].Data)
		r.done[i].Data = nil
	}
}

// Erase removes all copies, those of other identities included, and returns when no file is left.
func (s *Store) Erase() error {
	s.Drop()
	if s.cfg.Dir == "" {
		return nil
	}
	s.files.Lock()
	defer s.files.Unlock()
	s.Drop() // what was written meanwhile
	var failed error
	for _, folder := range folders(s.cfg.Dir) {
		failed = errors.Join(failed, os.RemoveAll(folder))
	}
	return failed
}

// Close writes what waits to be written, for a time at most, and ends the store.
func (s *Store) Close(most time.Duration) error {
	s.mu.Lock()
	s.mu.closed = true
	s.mu.Unlock()
	signal(s.mayWrite)
	written := make(chan struct{})
	go func() {
		s.writer.Wait()
		close(written)
	}()
	select {
	case <-written:
	case <-time.After(most):
	}
	close(s.stop)
	s.writer.Wait()
	s.others.Wait()
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}

// folder is where the files of this identity are.
func (s *Store) folder() string { return hex.EncodeToString(s.identity[:]) }

// signal wakes a goroutine that waits at c, or the next one that does.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// buffers are memory that is used in turn.
type buffers struct {
	free [][]byte
	out  int64 // bytes that are in use
	held int64 // bytes of free
}

// take returns n bytes; nil if with them more than most would be in use, unless nothing is.
func (b *buffers) take(n int, most int64) []byte {
	if b.out > 0 && b.out+int64(n) > most {
		return nil
	}
	b.out += int64(n)
	for i := len(b.free) - 1; i >= 0; i-- {
		if f := b.free[i]; cap(f) == n {
			b.free = append(b.free[:i], b.free[i+1:]...)
			b.held -= int64(n)
			return f
		}
	}
	for b.held+b.out > most && len(b.free) > 0 { // of other sizes
		b.held -= int64(cap(b.free[0]))
		b.free = b.free[1:]
	}
	return make([]byte, n)
}

// give takes memory back.
func (b *buffers) give(data []byte) {
	if data == nil {
		return
	}
	b.out -= int64(cap(data))
	b.held += int64(cap(data))
	b.free = append(b.free, data[:cap(data)])
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

// reads is what is being read.
type reads struct {
	queue   []readJob
	done    []kvcache.Content
	lent    [][]byte // what Fetched has returned last
	buffers buffers
	active  int       // files that are being read
	mark    time.Time // since when, or since the last one ended
	rate    retry.Rate
}

type readJob struct {
	kvcache.Content
	epoch int
}

// writes is what is being written.
type writes struct {
	queue   []*writeJob
	pending map[kvcache.Key]*writeJob // those that are being written included
	buffers buffers
	rate    retry.Rate
}

type writeJob struct {
	key   kvcache.Key
	data  []byte
	epoch int
}
