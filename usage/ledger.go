package usage

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// Counts are what a project has used.
type Counts struct {
	Requests   uint64
	Prompt     uint64 // tokens, including those of Cached
	Cached     uint64 // prompt tokens that were found in the prefix cache
	Completion uint64
}

func (c Counts) plus(d Counts) Counts {
	return Counts{c.Requests + d.Requests, c.Prompt + d.Prompt, c.Cached + d.Cached, c.Completion + d.Completion}
}

// Project is the counts of one project.
type Project struct {
	Name string // "" for requests without a project; or Other
	Counts
}

// Other has the counts of projects beyond MaxProjects, and of names that are not valid. No
// project has this name, because the names of projects contain a slash.
const Other = "other"

// MaxName bounds the name of a project in bytes.
const MaxName = 256

// Config says where counts are kept.
type Config struct {
	Dir string // created if need be; "" keeps counts in memory only
	// MaxProjects is how many projects have counts of their own. Clients choose the
	// names, so without a bound they could fill memory and disk.
	MaxProjects int
	Log         *slog.Logger // nil: slog.Default()

	// tests set these
	patience time.Duration        // how long to wait for the lock
	fsync    func(*os.File) error // nil: (*os.File).Sync
}

// DefaultConfig keeps counts in memory.
func DefaultConfig() Config { return Config{MaxProjects: 4096} }

const (
	writeAfter = 50 * time.Millisecond // after the first addition; half of what doc.go promises is left for the write
	syncAfter  = time.Second           // after the first write
	retryAfter = time.Second           // after a write that failed
)

// Ledger holds the counts. Its methods may be called from any goroutine, but Add not after
// Close.
type Ledger struct {
	cfg  Config
	wake chan struct{} // capacity 1: something was added
	quit chan struct{}
	done chan struct{} // closed when the writer has ended
	end  sync.Once
	last error // the result of Close

	// added has the counts that the book does not have yet.
	added struct {
		sync.Mutex
		totals
	}
	// book is locked before added.
	book struct {
		sync.Mutex
		totals
		file   *journal // nil: counts are in memory only
		failed bool     // the last write failed, and that has been logged
	}
}

// Open returns the ledger of cfg.Dir. It only opens the files. The ledger's goroutine reads
// them, so that the start of a process does not wait for that.
func Open(cfg Config) (*Ledger, error) {
	if cfg.MaxProjects < 1 {
		return nil, fmt.Errorf("usage: Config.MaxProjects is %d, want at least 1", cfg.MaxProjects)
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.patience == 0 {
		cfg.patience = time.Second
	}
	if cfg.fsync == nil {
		cfg.fsync = (*os.File).Sync
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
	if l.book.file, err = openJournal(cfg); err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	l.wake <- struct{}{} // to read the file
	go l.write()
	return l, nil
}

// Add adds c to the counts of a project. It does not wait for the file.
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

// Totals returns the counts of every project, sorted by name, as all processes that share
// the directory have written them, and when counting began, in Unix seconds. If the file
// cannot be read or written, the error says so, and the totals are those that were read
// before, and what this process has added since.
func (l *Ledger) Totals() (projects []Project, since int64, err error) {
	err = l.flush()
	l.book.Lock()
	defer l.book.Unlock()
	all := newTotals(l.cfg.MaxProjects)
	for name, c := range l.book.counts {
		all.add(name, c)
	}
	l.added.Lock()
	for name, c := range l.added.counts { // added after the flush, or the flush failed
		all.add(name, c)
	}
	l.added.Unlock()
	for name, c := range all.counts {
		projects = append(projects, Project{name, c})
	}
	slices.SortFunc(projects, func(a, b Project) int { return strings.Compare(a.Name, b.Name) })
	return projects, l.book.since, err
}

// Close writes what was added and syncs the file.
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

// write is the goroutine that writes and syncs the file.
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

// flush moves what was added to the book and to its file.
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
		for name, c := range added { // for the next attempt
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

// totals are counts by project. At most limit projects have counts of their own.
type totals struct {
	counts map[string]Counts
	limit  int
	since  int64 // in Unix seconds; 0 if not known yet
}

func newTotals(limit int) totals { return totals{counts: map[string]Counts{}, limit: limit} }

// free is how many more projects can have counts of their own.
func (t *totals) free() int {
	if _, others := t.counts[Other]; others {
		return t.limit - len(t.counts) + 1
	}
	return t.limit - len(t.counts)
}

func (t *totals) add(project string, c Counts) {
	if _, known := t.counts[project]; !known && t.free() <= 0 {
		project = Other
	}
	t.counts[project] = t.counts[project].plus(c)
}
