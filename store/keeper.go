package store

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4/table"
)

// keeper writes the account of a database: when it is opened, once a second while
// something changes, before a file of the value log is deleted, and when it is closed. It
// never touches what the writer's goroutine uses but for a lock that is held to copy a few
// numbers.
type keeper struct {
	dir  string
	logs *syncer
	sync func(*os.File) error // of the MANIFEST
	name func(dir string) error
	now  func() time.Time

	upper  atomic.Int64 // bytes of the tables of the first two levels that are not empty, by the last account
	tabled atomic.Int64 // bytes that were committed to memtables since then

	mu       sync.Mutex // guards what follows
	active   bool       // badger has the files open
	last     *account   // as it is on the disk
	manifest manifest
	file     os.FileInfo         // the MANIFEST, as it was read last
	queue    []string            // logs of memtables that are not tables yet, in their order
	newest   int                 // the number of the newest of them
	closed   map[string]logEntry // logs to which nothing is written any more
	going    map[string]bool
	at       keeperState // of the last account
}

// keeperState tells whether anything has changed.
type keeperState struct {
	mem, values       int
	memEnd, valuesEnd int64
	manifest          int64
	modified          time.Time
	going             int
}

// begin takes over the account of a directory whose audit found no faults, and writes that
// badger is about to open it.
func (k *keeper) begin(a *audit) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.manifest, k.file = a.account, a.manifest, nil
	k.queue, k.newest, k.closed, k.going = nil, 0, map[string]logEntry{}, map[string]bool{}
	if k.last == nil {
		k.last = &account{}
	}
	for _, name := range k.last.going {
		k.going[name] = true
	}
	next := k.next(stateOpening)
	for _, l := range a.logs {
		if l.end <= logHeader || k.going[l.name] {
			continue // badger deletes it
		}
		if l.memtable() {
			k.queue = append(k.queue, l.name)
			k.closed[l.name] = l
		}
		if !l.memtable() && l.size > 0 {
			l = k.describeValueLog(l.name)
		}
		next.logs = append(next.logs, l)
	}
	k.describeTables(next)
	return k.store(next)
}

// next is an account that follows the last one.
func (k *keeper) next(state string) *account {
	m := &k.manifest
	return &account{format: accountFormat, serial: k.last.serial + 1, written: k.now(), state: state,
		manifest: manifestEntry{m.length, m.sum, m.first, m.deletions}, tables: map[uint64]tableEntry{}, going: slices.Sorted(maps.Keys(k.going))}
}

func (k *keeper) store(a *account) error {
	if err := a.write(k.dir); err != nil {
		return err
	}
	k.last = a
	k.upper.Store(a.upper())
	return nil
}

// opened begins to keep the account while badger has the files open.
func (k *keeper) opened() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = true
	return k.write(stateRunning, true)
}

// tick writes the account if anything has changed.
func (k *keeper) tick() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.active {
		return nil
	}
	return k.write(stateRunning, false)
}

// pause is called before badger closes the files. The account stays as it is.
func (k *keeper) pause() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.active = false
}

// upper is how many bytes the tables of the first two levels have that are not empty.
func (a *account) upper() int64 {
	levels := map[int]int64{}
	for _, t := range a.tables {
		levels[t.level] += t.size
	}
	for level := 1; level < 8; level++ {
		if levels[level] > 0 {
			return levels[0] + levels[level]
		}
	}
	return levels[0]
}

// leave is called instead of finish when badger is not closed.
func (k *keeper) leave() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	err := k.write(stateRunning, false)
	k.active = false
	return err
}

// finish is called when badger has closed the files and everything is on stable storage.
func (k *keeper) finish() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.write(stateClosed, true)
}

// collected says that badger was told to delete a file of the value log, as soon as nobody
// reads it. It must be called before badger can delete it.
func (k *keeper) collected(names ...string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, name := range names {
		k.going[name] = true
	}
	return k.write(stateRunning, true)
}

// write writes an account of the files as they are now. The caller has the lock.
func (k *keeper) write(state string, always bool) error {
	mem, values := k.logs.positions()
	for name := range k.going {
		if _, err := os.Stat(filepath.Join(k.dir, name)); errors.Is(err, fs.ErrNotExist) {
			delete(k.going, name)
		}
	}
	at := keeperState{mem: mem.id, values: values.id, memEnd: mem.end, valuesEnd: values.end, going: len(k.going)}
	info, err := os.Stat(filepath.Join(k.dir, manifestName))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	at.manifest, at.modified = info.Size(), info.ModTime()
	if at == k.at && !always {
		return nil
	}
	tabled := k.tabled.Load() // what is committed from now on may be in no table of this account
	// First the memtables, then the MANIFEST: what has become a table by now is in it.
	k.enqueue(&mem)
	if err := k.readManifest(); err != nil {
		return err
	}
	next := k.next(state)
	k.describeTables(next)
	if state == stateClosed {
		if k.queue, err = logNames(k.dir, ".mem"); err != nil { // badger has deleted them, unless it failed
			return fmt.Errorf("store: %w", err)
		}
	}
	k.describeMemtables(next, &mem)
	if err := k.describeValues(next, &values); err != nil {
		return err
	}
	if err := k.store(next); err != nil {
		return err
	}
	k.at = at
	k.tabled.Add(-tabled)
	return nil
}

// enqueue adds the logs of memtables that badger has begun since the last time. It numbers
// them without gaps.
func (k *keeper) enqueue(mem *newestLog) {
	if mem.f == nil {
		return
	}
	if k.newest == 0 {
		k.newest = mem.id - 1
	}
	for k.newest < mem.id {
		k.newest++
		k.queue = append(k.queue, fmt.Sprintf("%05d.mem", k.newest))
	}
}

// readManifest reads what badger has added to the MANIFEST, and makes it durable.
func (k *keeper) readManifest() error {
	f, err := os.OpenFile(filepath.Join(k.dir, manifestName), os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if k.file != nil && !os.SameFile(k.file, info) {
		// badger has written it anew. How many memtables have become tables since then is
		// not known, so nothing is said of them any more.
		k.manifest, k.queue = manifest{}, nil
	}
	flushes, length := k.manifest.flushes, k.manifest.length
	b, err := io.ReadAll(io.NewSectionReader(f, length, info.Size()-length))
	if err == nil {
		_, err = k.manifest.read(b) // what badger is writing now is read the next time
	}
	if err == nil && (k.manifest.length > length || k.file == nil) {
		err = errors.Join(k.sync(f), k.name(k.dir))
	}
	if err != nil {
		return fmt.Errorf("store: %s: %w", manifestName, err)
	}
	k.file = info
	k.queue = k.queue[min(k.manifest.flushes-flushes, len(k.queue)):]
	return nil
}

// describeTables adds the tables of the MANIFEST. What is known of a table never changes.
func (k *keeper) describeTables(next *account) {
	for id, level := range k.manifest.tables {
		t, ok := k.last.tables[id]
		if !ok {
			path := table.NewFilename(id, k.dir)
			info, err := os.Stat(path)
			if err == nil {
				t.size = info.Size()
				t.sum, err = tailSum(path, t.size)
			}
			if err != nil || t.size == 0 {
				continue // it has been compacted away just now
			}
		}
		t.level = level
		next.tables[id] = t
	}
}

// describeMemtables adds the logs of memtables.
func (k *keeper) describeMemtables(next *account, mem *newestLog) {
	for _, name := range k.queue {
		l, ok := k.closed[name]
		if !ok {
			l = k.describeMemtable(name, mem)
		}
		next.logs = append(next.logs, l)
	}
	maps.DeleteFunc(k.closed, func(name string, l logEntry) bool { return l.memtable() && !slices.Contains(k.queue, name) })
}

func (k *keeper) describeMemtable(name string, mem *newestLog) logEntry {
	l := logEntry{name: name, end: logHeader}
	path := filepath.Join(k.dir, name)
	if info, err := os.Stat(path); err == nil {
		l.size = info.Size()
	}
	if name == filepath.Base(mem.path()) {
		l.end = mem.end
		return l
	}
	for _, e := range k.last.logs {
		if e.name == name {
			l.end = e.end
		}
	}
	if f, err := os.Open(path); err == nil { // else badger has just deleted it
		// Walking over the log from the last account on would read up to 100,000 headers.
		id, _ := strconv.Atoi(strings.TrimSuffix(name, ".mem"))
		l.end = walk(f, max(l.end, k.logs.rotatedEnd(id)))
		_ = f.Close()
		k.closed[name] = l
	}
	return l
}

// describeValues adds the value logs up to the newest one that is known to be synced.
func (k *keeper) describeValues(next *account, values *newestLog) error {
	names, err := logNames(k.dir, ".vlog")
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		id, _ := strconv.Atoi(strings.TrimSuffix(name, ".vlog"))
		switch {
		case k.going[name] || id > values.id && next.state != stateClosed:
		case id == values.id && next.state != stateClosed:
			next.logs = append(next.logs, logEntry{name: name, end: values.end})
		default:
			if l := k.describeValueLog(name); l.end > logHeader {
				next.logs = append(next.logs, l)
			}
		}
	}
	return nil
}

// describeValueLog describes a value log to which nothing is written any more.
func (k *keeper) describeValueLog(name string) (l logEntry) {
	if l, ok := k.closed[name]; ok {
		return l
	}
	path := filepath.Join(k.dir, name)
	info, err := os.Stat(path)
	if err != nil || info.Size() <= logHeader {
		return logEntry{}
	}
	l = logEntry{name: name, end: info.Size(), size: info.Size()}
	if l.sum, err = tailSum(path, l.end); err != nil {
		return logEntry{}
	}
	k.closed[name] = l
	return l
}
