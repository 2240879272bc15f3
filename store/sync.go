package store

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// badger with SyncWrites msyncs two files to a commit: its value log, though few
// commits write to that, and the log of its memtable. A sync of a file that has
// not changed still makes the disk empty its cache. So on Linux badger is opened
// without, and what a commit has changed is synced here, at the two moments at
// which SyncWrites would: the value log before anything points to it, and the
// memtable's log before the commit is visible or answered. badger tells its debug
// log of both, on the goroutine that writes. That every commit has come by here is
// checked (syncer.count), so that another badger cannot go unsynced unnoticed.
//
// A directory is synced when a log was made in it, and only then.

const (
	toldValues  = "Writing to memtable"            // behind the value log
	toldEntries = "Sending updates to subscribers" // behind the memtable's log
)

// syncer makes last what badger writes. But for the atomics and open it belongs to
// badger's writing goroutines, of which there is one at a time.
type syncer struct {
	dir         string
	mem, values newest
	fresh       bool // a log was made whose name may not last yet
	ahead       runway
	file        func(*os.File) error   // datasync
	names       func(dir string) error // syncDir

	// wanted counts who writes to the value log now: a commit, a collection.
	wanted atomic.Int32
	count  atomic.Uint64 // calls of entries
	nanos  atomic.Int64  // in syncs
	failed atomic.Pointer[error]
}

// newest is the newest log of a kind. badger numbers them without gaps.
type newest struct {
	format string // of its path
	id     int
	f      *os.File
	next   string // the path of the one behind it
}

// open looks for the logs of a database that has just been opened.
func (s *syncer) open() error {
	s.close()
	s.failed.Store(nil)
	for _, t := range []struct {
		*newest
		suffix string
		width  int
	}{{&s.mem, ".mem", 5}, {&s.values, ".vlog", 6}} {
		names, err := filepath.Glob(filepath.Join(s.dir, "*"+t.suffix))
		if err != nil {
			return err
		}
		for _, name := range names {
			id, err := strconv.Atoi(strings.TrimSuffix(filepath.Base(name), t.suffix))
			if err != nil {
				return err
			}
			t.id = max(t.id, id)
		}
		t.format = filepath.Join(strings.ReplaceAll(s.dir, "%", "%%"), fmt.Sprintf("%%0%dd%s", t.width, t.suffix))
		if t.f, err = os.OpenFile(fmt.Sprintf(t.format, t.id), os.O_RDWR, 0); err != nil {
			return err
		}
		t.next = fmt.Sprintf(t.format, t.id+1)
	}
	s.fresh = false
	s.ahead.follow(s.mem.f)
	return s.names(s.dir)
}

func (s *syncer) close() {
	for _, t := range []*newest{&s.mem, &s.values} {
		if t.f != nil {
			_ = t.f.Close() // what matters was synced
		}
		*t = newest{}
	}
	s.ahead.follow(nil)
}

// err is why nothing that was written since can be relied on. A sync that failed
// is not tried again: the next one would succeed, because the pages that could not
// be written count as clean.
func (s *syncer) err() error {
	if err := s.failed.Load(); err != nil {
		return *err
	}
	return nil
}

func (s *syncer) fail(err error) {
	if err = fmt.Errorf("store: %w", err); s.failed.CompareAndSwap(nil, &err) {
		// For who opens the directory next. It need not outlast the page cache.
		_ = os.WriteFile(filepath.Join(s.dir, unsyncedName), []byte(filepath.Base(s.values.path())), 0o600)
	}
}

func (t *newest) path() string { return fmt.Sprintf(t.format, t.id) }

// told takes what badger says where it is.
func (s *syncer) told(format string) {
	switch format {
	case toldValues:
		if s.wanted.Load() > 0 {
			s.sync(&s.values)
		}
	case toldEntries:
		s.entries()
		s.count.Add(1)
	}
}

func (s *syncer) entries() {
	s.sync(&s.mem)
	if !s.fresh || s.err() != nil {
		return
	}
	if err := s.names(s.dir); err != nil {
		s.fail(err)
		return
	}
	s.fresh = false
}

// sync makes last what was written to logs of a kind since the last sync.
func (s *syncer) sync(t *newest) {
	if t.f == nil || s.err() != nil {
		return
	}
	began := time.Now()
	defer func() { s.nanos.Add(int64(time.Since(began))) }()
	for {
		f, err := os.OpenFile(t.next, os.O_RDWR, 0)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err == nil {
			err = s.file(t.f) // somebody else's entries may be in it
		}
		if err != nil {
			s.fail(err)
			return
		}
		_ = t.f.Close()
		t.id++
		t.f, t.next, s.fresh = f, fmt.Sprintf(t.format, t.id+1), true
		if t == &s.mem {
			s.ahead.follow(f)
		}
	}
	if t == &s.mem {
		s.ahead.prepare()
	}
	if err := s.file(t.f); err != nil {
		s.fail(err)
	}
}

// runway writes zeros into a log ahead of what badger will write: where a file has
// blocks already, a sync writes the data and nothing of the file system's own,
// which takes about half as long.
type runway struct {
	f      *os.File
	b      []byte // the file
	unmap  func()
	end    int // of badger's records
	zeroed int // up to here the file has blocks
}

// zeroChunk is how much is zeroed at a time.
const zeroChunk = 256 << 10

var noData [zeroChunk]byte

func (z *runway) follow(f *os.File) {
	if z.unmap != nil {
		z.unmap()
	}
	*z = runway{}
	if f == nil || !syncsMaps {
		return
	}
	b, unmap, err := mapFile(f.Name())
	if err != nil {
		return // it is as well without
	}
	*z = runway{f: f, b: b, unmap: unmap, end: logHeader, zeroed: logHeader}
}

// prepare is called between two of badger's writes, so that nobody else writes.
func (z *runway) prepare() {
	if z.f == nil {
		return
	}
	from := z.end
	for {
		end, _, _, ok := headerAt(z.b, z.end)
		if !ok || end > len(z.b) {
			break
		}
		z.end = end
	}
	// Who writes much has the blocks made in the same sync as the data.
	last := z.end - from
	if last > zeroChunk/8 || z.end+2*last <= z.zeroed {
		z.zeroed = max(z.zeroed, z.end)
		return
	}
	at := max(z.end, z.zeroed)
	n := min(zeroChunk, len(z.b)-at)
	if zeros(z.b[at:at+n]) < n {
		z.f = nil // not how badger's logs look: hands off
		return
	}
	n, _ = z.f.WriteAt(noData[:n], int64(at)) // a full disk is found by others
	z.zeroed = at + n
}

// unsyncedName is a file that says that a sync of logs has failed, in a directory:
// those of values from the one it names on, and of memtables.
const unsyncedName = "UNSYNCED"

// refresh writes logs anew that a failed sync has left in memory: the pages that
// were not written count as clean, so that no sync would write them.
func refresh(dir string) error {
	marker := filepath.Join(dir, unsyncedName)
	from, err := os.ReadFile(marker)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	names, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range names {
		name := e.Name()
		if !strings.HasSuffix(name, ".mem") && (!strings.HasSuffix(name, ".vlog") || name < string(from)) {
			continue
		}
		if err := rewrite(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	if err := syncDir(dir); err != nil {
		return err
	}
	return os.Remove(marker)
}

// rewrite puts a copy of a file, which lasts, in its place.
func rewrite(path string) error {
	b, done, err := mapFile(path)
	if err != nil {
		return err
	}
	defer done()
	next := path + ".fresh"
	f, err := os.OpenFile(next, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(bytes.TrimRight(b, "\x00"))
	if err == nil {
		err = f.Truncate(int64(len(b)))
	}
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(next, path)
}

// syncLogs makes last what is found in logs: their contents will be taken as
// committed, and after a crash of the process alone some may be in memory only.
func syncLogs(dir string) error {
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		names, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		for _, name := range names {
			if err := syncFile(name); err != nil {
				return err
			}
		}
	}
	return nil
}
