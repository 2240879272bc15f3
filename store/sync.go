package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// With SyncWrites, badger syncs two files for each commit: its value log, which few
// commits write to, and the log of its memtable. Even a sync of an unchanged file makes
// the disk flush its cache. So on Linux badger is opened without SyncWrites, and the
// syncer syncs what a commit has changed, at the two moments at which badger would: the
// value log before any pointer to it is written, and the memtable's log before the commit
// becomes visible or is acknowledged.
//
// The syncer recognizes the two moments by what badger writes to its debug log, on the
// goroutine that writes. doc.go ("Syncs") says why there is no better signal. After each
// commit DB.sync checks that both messages came (syncer.seen). If one did not, the commit
// fails, and the database is opened again with SyncWrites and stays so (syncer.outside):
// a badger with other messages makes commits slower, but loses nothing.
//
// The directory is synced only when a log has been created in it.

// messages are the texts of badger's debug log that mark the two moments.
type messages struct {
	valuesWritten  string // the value log is written, the memtable's log is not
	entriesWritten string // the memtable's log is written, the commit is not visible yet
}

var badgerMessages = messages{
	valuesWritten:  "Writing to memtable",
	entriesWritten: "Sending updates to subscribers",
}

// syncer makes durable what badger writes to its logs.
type syncer struct {
	dir      string
	file     func(*os.File) error   // datasync
	names    func(dir string) error // syncDir
	messages messages

	mu          sync.Mutex // guards the fields down to the next empty line
	mem, values newestLog
	rotated     map[int]int64 // where the synced records of memtables' logs before the newest end, by number
	unnamed     bool          // a log has been created and the directory not been synced since
	ahead       preallocator

	// outside says that badger syncs by itself, because it did not send the messages
	// before. settle then syncs once more after each commit, because badger only logs a
	// failed sync of its value log, and does not sync the directory.
	outside atomic.Bool
	// valueWriters is how many now write to the value log: a commit, a collection.
	valueWriters   atomic.Int32
	valuesWritten  atomic.Uint64 // how often the messages came
	entriesWritten atomic.Uint64
	nanos          atomic.Int64 // spent in syncs
	failed         atomic.Pointer[error]
}

// newestLog is the newest log of a kind. badger numbers logs without gaps.
type newestLog struct {
	format string // of its path
	id     int
	f      *os.File
	next   string // the path of the log that will follow it
	end    int64  // of its records that are on stable storage
}

func (t *newestLog) path() string { return fmt.Sprintf(t.format, t.id) }

// open looks for the logs of a database that has just been opened.
func (s *syncer) open() error {
	s.close()
	s.failed.Store(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.mem.find(s.dir, ".mem", 5); err != nil {
		return err
	}
	if err := s.values.find(s.dir, ".vlog", 6); err != nil {
		return err
	}
	s.unnamed, s.rotated = false, map[int]int64{}
	s.preallocate()
	return s.names(s.dir)
}

// preallocate begins to write ahead of badger in a new log of a memtable. It must be
// sure when badger does not write, so it needs the messages.
func (s *syncer) preallocate() {
	if s.outside.Load() {
		s.ahead.follow(nil)
		return
	}
	s.ahead.follow(s.mem.f)
}

// find opens the log with the highest number, which has width digits in its name.
func (t *newestLog) find(dir, suffix string, width int) error {
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return err
	}
	for _, name := range names {
		id, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), suffix))
		if err != nil {
			return err
		}
		t.id = max(t.id, id)
	}
	t.format = filepath.Join(strings.ReplaceAll(dir, "%", "%%"), fmt.Sprintf("%%0%dd%s", width, suffix))
	t.next, t.end = fmt.Sprintf(t.format, t.id+1), logHeader
	t.f, err = os.OpenFile(t.path(), os.O_RDWR, 0)
	return err
}

func (s *syncer) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, t := range []*newestLog{&s.mem, &s.values} {
		if t.f != nil {
			_ = t.f.Close() // what matters was synced
		}
		*t = newestLog{}
	}
	s.ahead.follow(nil)
}

// err is the reason why nothing that was written since then can be relied on. A failed
// sync is never repeated: the next one would succeed without writing anything, because
// the kernel marks the pages that it could not write as clean.
func (s *syncer) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

// fail is called with the lock.
func (s *syncer) fail(err error) {
	if err = fmt.Errorf("store: %w", err); s.failed.CompareAndSwap(nil, &err) {
		markUnsynced(s.dir, s.values.path())
	}
}

// badgerFailed takes the error of a sync of badger's own.
func (s *syncer) badgerFailed(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fail(err)
}

// notice takes a message of badger's debug log, on the goroutine that has sent it.
func (s *syncer) notice(message string) {
	if s.outside.Load() {
		return
	}
	switch message {
	case s.messages.valuesWritten:
		if s.valueWriters.Load() > 0 {
			s.locked(func() { s.sync(&s.values, nil) })
		}
		s.valuesWritten.Add(1)
	case s.messages.entriesWritten:
		s.locked(func() {
			s.sync(&s.mem, s.ahead.prepare)
			s.syncNames()
		})
		s.entriesWritten.Add(1)
	}
}

// locked calls f with the lock and adds its time to that of syncs.
func (s *syncer) locked(f func()) {
	began := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.nanos.Add(int64(time.Since(began)))
}

// seen is how often each message came. It tells whether badger has sent both messages
// between two calls.
func (s *syncer) seen() [2]uint64 { return [2]uint64{s.valuesWritten.Load(), s.entriesWritten.Load()} }

// check is called after a commit, with what seen returned before it. It reports the
// failed sync, if there was one, or that badger has not sent its messages.
func (s *syncer) check(before [2]uint64) error {
	if s.outside.Load() {
		return s.settle()
	}
	if err := s.err(); err != nil {
		return err
	}
	if now := s.seen(); now[0] == before[0] || now[1] == before[1] {
		s.outside.Store(true)
		return errors.New("store: badger did not say when it had written; from now on it syncs by itself, which is slower")
	}
	return nil
}

// settle syncs the newest log of each kind, and the directory if need be. Any goroutine
// may call it.
func (s *syncer) settle() error {
	s.locked(func() {
		s.sync(&s.values, nil)
		s.sync(&s.mem, nil)
		s.syncNames()
	})
	return s.err()
}

// syncNames syncs the directory if a log has been created in it.
func (s *syncer) syncNames() {
	if !s.unnamed || s.err() != nil {
		return
	}
	if err := s.names(s.dir); err != nil {
		s.fail(err)
		return
	}
	s.unnamed = false
}

// sync makes durable what was written to the logs of a kind since the last sync. It calls
// before, if there is one, when the newest log is known and has not been synced yet.
func (s *syncer) sync(t *newestLog, before func()) {
	if t.f == nil || s.err() != nil {
		return
	}
	for more := true; more; {
		var err error
		if more, err = s.advance(t); err != nil {
			s.fail(err)
			return
		}
	}
	if before != nil {
		before()
	}
	end := s.written(t)
	if err := s.file(t.f); err != nil {
		s.fail(err)
		return
	}
	t.end = end
}

// written is where the records of the newest log of a kind end. badger does not write to
// it meanwhile.
func (s *syncer) written(t *newestLog) int64 {
	if t == &s.mem && s.ahead.f != nil {
		return int64(s.ahead.end)
	}
	return walk(t.f, t.end)
}

// rotatedMost is how many logs of memtables rotated remembers. badger has at most three
// memtables, and so about as many logs.
const rotatedMost = 64

// rotatedEnd is where the records of a log of a memtable ended when the next one was begun.
// It is 0 if that is not known, and a collection may have written further records since.
func (s *syncer) rotatedEnd(id int) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.rotated[id]
}

// positions are the numbers of the newest logs and where their durable records end.
func (s *syncer) positions() (mem, values newestLog) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mem, s.values
}

// advance goes to the next log of a kind, if badger has created one. It syncs the one
// before, because entries of other commits and of a collection may be in it.
func (s *syncer) advance(t *newestLog) (advanced bool, err error) {
	f, err := os.OpenFile(t.next, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = s.file(t.f)
	}
	if err != nil {
		return false, err
	}
	_ = t.f.Close() // it has just been synced
	if t == &s.mem {
		s.rotated[t.id] = t.end
		delete(s.rotated, t.id-rotatedMost)
	}
	t.id++
	t.f, t.next, t.end, s.unnamed = f, fmt.Sprintf(t.format, t.id+1), logHeader, true
	if t == &s.mem {
		s.preallocate()
	}
	return true, nil
}

// walk goes over the records of a log from an offset on, and returns where they end. It
// reads their headers alone.
func walk(f *os.File, at int64) int64 {
	var head [2 + 3*binary.MaxVarintLen64]byte
	for {
		n, _ := f.ReadAt(head[:], at) // an error is the end of the file
		end, _, _, ok := headerAt(head[:n], 0)
		if !ok {
			return at
		}
		at += int64(end)
	}
}
