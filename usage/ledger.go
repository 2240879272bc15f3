// Package usage counts requests and tokens by project, and remembers them over
// restarts.
//
// Counts are added in memory. A goroutine appends what has been added to a file
// within 100 ms, and makes the file durable (fsync) within a second after that;
// Close does both. So a process that is killed loses what was added in its last
// 100 ms, and a machine that loses power the last second more. Several processes
// may keep their counts in one directory: each sees the sum of what has been
// written. (See file.go for how. Where the system has no flock a directory is for one process.)
package usage

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Counts are what somebody has used.
type Counts struct {
	Requests   uint64
	Prompt     uint64 // tokens; those of Cached are among them
	Cached     uint64
	Completion uint64
}

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Requests + d.Requests, c.Prompt + d.Prompt, c.Cached + d.Cached, c.Completion + d.Completion}
}

// Project is the counts of one project.
type Project struct {
	Name string // "": requests without a project; Other
	Counts
}

// Other collects what has no counts of its own: projects beyond MaxProjects,
// and names that cannot be. No project is called so, for want of a slash.
const Other = "other"

// MaxName bounds a project's name in bytes.
const MaxName = 256

// Config says where counts are kept.
type Config struct {
	Dir string // made if need be; "": in memory only
	// MaxProjects is how many have counts of their own. The names come from
	// clients: without a bound, memory and file would be theirs to fill.
	MaxProjects int
	Log         *slog.Logger // nil: slog.Default()
}

// DefaultConfig keeps counts in memory.
func DefaultConfig() Config { return Config{MaxProjects: 4096} }

const (
	writeAfter = 50 * time.Millisecond // of the first addition: half of what is promised, the rest is for the write
	syncAfter  = time.Second           // of the first write
	retryAfter = time.Second           // of a write that failed
)

// Ledger is the counts. Its methods are for everybody, except that nothing may
// be added after Close.
type Ledger struct {
	cfg  Config
	wake chan struct{} // capacity 1: something was added
	quit chan struct{}
	done chan struct{} // closed when the writer has ended
	end  sync.Once
	last error // of Close

	// added is what the book does not have yet.
	added struct {
		sync.Mutex
		totals
	}
	// book is locked before added.
	book struct {
		sync.Mutex
		totals
		file   *journal // nil: in memory only
		failed bool     // the last write did, and the log says so
	}
}

// Open returns the ledger of cfg.Dir. It only opens files: what is in them is
// read by the writer, so a start does not wait for it.
func Open(cfg Config) (*Ledger, error) {
	if cfg.MaxProjects < 1 {
		return nil, fmt.Errorf("usage: Config.MaxProjects is %d, want at least 1", cfg.MaxProjects)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	l := &Ledger{cfg: cfg, wake: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
	l.added.totals = newTotals(cfg.MaxProjects)
	l.book.totals = newTotals(cfg.MaxProjects)
	if cfg.Dir == "" {
		l.book.since = time.Now().Unix()
		close(l.done)
		return l, nil
	}
	var err error
	if l.book.file, err = openJournal(cfg.Dir, cfg.Log); err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	l.wake <- struct{}{} // reads the file
	go l.write()
	return l, nil
}

// Add counts c for a project. It waits for no file.
func (l *Ledger) Add(project string, c Counts) {
	if !storable(project) {
		project = Other
	}
	l.added.Lock()
	l.added.add(project, c)
	l.added.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// Totals are the counts of every project, sorted by name, with those of all
// processes that share the directory, and the unix second when counting began.
// An error is about the file; the totals are then those of before, and our own.
func (l *Ledger) Totals() (projects []Project, since int64, err error) {
	err = l.flush()
	l.book.Lock()
	defer l.book.Unlock()
	all := newTotals(l.cfg.MaxProjects)
	for name, c := range l.book.counts {
		all.add(name, c)
	}
	l.added.Lock()
	for name, c := range l.added.counts { // since the flush, or it failed
		all.add(name, c)
	}
	l.added.Unlock()
	for name, c := range all.counts {
		projects = append(projects, Project{name, c})
	}
	slices.SortFunc(projects, func(a, b Project) int { return strings.Compare(a.Name, b.Name) })
	return projects, l.book.since, err
}

// Close writes what was added and makes it durable.
func (l *Ledger) Close() error {
	l.end.Do(func() {
		close(l.quit)
		<-l.done
		l.last = l.flush()
		l.book.Lock()
		defer l.book.Unlock()
		if l.book.file != nil {
			l.last = errors.Join(l.last, l.book.file.sync(), l.book.file.close())
		}
	})
	return l.last
}

// write is the goroutine that writes, in groups.
func (l *Ledger) write() {
	defer close(l.done)
	var due, durable <-chan time.Time
	for {
		select {
		case <-l.quit:
			return
		case <-l.wake:
			if due == nil {
				due = time.After(writeAfter)
			}
		case <-due:
			due = nil
			if l.flush() != nil {
				due = time.After(retryAfter)
			}
			if durable == nil {
				durable = time.After(syncAfter)
			}
		case <-durable:
			durable = nil
			l.book.Lock()
			if err := l.book.file.sync(); err != nil {
				l.cfg.Log.Error("usage counts may not be durable", "error", err)
			}
			l.book.Unlock()
		}
	}
}

// flush moves what was added to the book, and to its file.
func (l *Ledger) flush() error {
	l.book.Lock()
	defer l.book.Unlock()
	l.added.Lock()
	added := l.added.counts
	l.added.totals = newTotals(l.cfg.MaxProjects)
	l.added.Unlock()
	if l.book.file == nil {
		for name, c := range added {
			l.book.add(name, c)
		}
		return nil
	}
	err := l.book.file.append(&l.book.totals, added)
	if err != nil {
		l.added.Lock()
		for name, c := range added { // for the next time
			l.added.add(name, c)
		}
		l.added.Unlock()
	}
	if failed := err != nil; failed != l.book.failed {
		l.book.failed = failed
		if failed {
			l.cfg.Log.Error("usage counts cannot be written and are kept in memory", "error", err)
		} else {
			l.cfg.Log.Info("usage counts are written again")
		}
	}
	if err != nil {
		return fmt.Errorf("usage: %w", err)
	}
	return nil
}

// totals are counts by project, of which at most limit have their own.
type totals struct {
	counts map[string]Counts
	limit  int
	since  int64 // unix seconds; 0: not known yet
}

func newTotals(limit int) totals { return totals{counts: map[string]Counts{}, limit: limit} }

// room is how many more projects can have counts of their own.
func (t *totals) room() int {
	if _, others := t.counts[Other]; others {
		return t.limit - len(t.counts) + 1
	}
	return t.limit - len(t.counts)
}

func (t *totals) add(project string, c Counts) {
	if _, known := t.counts[project]; !known && t.room() <= 0 {
		project = Other
	}
	t.counts[project] = t.counts[project].plus(c)
}
