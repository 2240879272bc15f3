package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"weir/internal/retry"
)

// DB is a database. Its methods may be called from any goroutine.
type DB struct {
	cfg Config
	log *slog.Logger
	in  intake

	gate  gate
	state struct {
		sync.Mutex
		err    error     // why nothing is written now; nil: all is well
		since  time.Time // when opening began; zero: it has not
		damage []Damage  // found when opening
		doubts []string  // likewise
	}
	ready    chan struct{} // closed when first open
	tried    chan struct{} // closed after the first attempt to open
	quit     chan struct{} // closed by Close
	once     sync.Once     // of tried
	openOnce sync.Once     // of ready
	begun    atomic.Bool   // opening has begun
	ended    sync.WaitGroup
	// opening is waited for separately, and not without end: while the disk takes no
	// writes, closing badger, which comes first, does not end.
	opening sync.WaitGroup
	tasks   chan task
	scarce  chan struct{} // something has been deleted while the disk has too little space

	logs   syncer
	keeper keeper
	unlock func() // releases the lock of the directory; set while badger is open
	// readOnly says that badger is open for reading alone (reading.go). Whoever opens and
	// closes badger uses it.
	readOnly bool
	deleted  atomic.Bool // something has been deleted since Compact last ran
	// What badger has said in its log: that it left out a table when it was opened, and
	// which file of the value log it has been collecting.
	ignored  atomic.Bool
	removing atomic.Value
	count    counters
}

type counters struct {
	commits, updates, bytes, corrupt, failures atomic.Uint64
	commitNanos                                atomic.Int64
}

// Stats are figures since the start.
type Stats struct {
	Commits, Updates uint64
	Bytes            uint64        // keys and values written
	Committing       time.Duration // spent in commits
	Syncing          time.Duration // and of that in syncs of files
	Corrupt          uint64        // damaged values met
	Failures         uint64        // commits that failed
	Doubts           int           // parts of files that were written after the last account before a crash
	Waiting          int           // updates in the queue
	LSM, ValueLog    int64         // size of the files in bytes
}

// Start begins to open the database of cfg and returns at once. Until it is open, Update
// and View return ErrOpening. If it cannot be opened, Err returns the reason and further
// attempts follow. With Config.Lazy an empty directory is left alone until the first call
// of Update or View, which waits up to two seconds for the database.
func Start(cfg Config) (*DB, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.free == nil {
		cfg.free = freeSpace
	}
	if cfg.datasync == nil {
		cfg.datasync = datasync
	}
	if cfg.syncDir == nil {
		cfg.syncDir = syncDir
	}
	if cfg.accountEvery == 0 {
		cfg.accountEvery = time.Second
	}
	if cfg.drainTime == 0 {
		cfg.drainTime = time.Second
	}
	if cfg.messages == (messages{}) {
		cfg.messages = badgerMessages
	}
	d := &DB{cfg: cfg, log: cfg.Log, ready: make(chan struct{}), tried: make(chan struct{}), quit: make(chan struct{}), tasks: make(chan task), scarce: make(chan struct{}, 1)}
	d.in.init(cfg.MaxQueue)
	d.logs.dir, d.logs.file, d.logs.names, d.logs.messages = cfg.Dir, cfg.datasync, cfg.syncDir, cfg.messages
	d.keeper = keeper{dir: cfg.Dir, logs: &d.logs, sync: syncAccount, name: cfg.syncDir, now: time.Now}
	d.state.err = ErrOpening
	d.deleted.Store(true) // the process before may have deleted something
	if !cfg.Lazy || used(cfg.Dir) {
		d.begin()
	}
	return d, nil
}

// used reports whether dir holds a database, or may hold one that cannot be seen: a link that
// leads nowhere is that of a disk which is not there.
func used(dir string) bool {
	names, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		_, err = os.Lstat(dir)
		return err == nil
	}
	return len(names) > 0 || err != nil
}

// begin opens the database, unless that has begun or it is closed.
func (d *DB) begin() {
	d.state.Lock()
	defer d.state.Unlock()
	if d.state.err == ErrClosed || d.begun.Swap(true) {
		return
	}
	d.state.since = time.Now()
	d.ended.Go(d.run)
	d.ended.Go(d.clean)
	d.ended.Go(d.keep)
	d.ended.Go(d.freeSpaceSoon)
}

// wake opens a lazy database that is needed now, and waits for it.
func (d *DB) wake() {
	if !d.cfg.Lazy {
		return
	}
	select {
	case <-d.tried:
		return
	default:
	}
	d.begin()
	select {
	case <-d.tried:
	case <-d.quit:
	case <-time.After(wakeTime):
	}
}

// wakeTime is how long Update and View wait for a lazy database.
const wakeTime = 2 * time.Second

// Open opens the database of cfg and waits for it. The error is ErrLocked if another
// process has the directory, ErrFull if the disk has less than Config.MinFree,
// ErrDamaged if acknowledged records are lost, and ErrFormat if a newer version of weir
// wrote them.
func Open(cfg Config) (*DB, error) {
	cfg.Lazy = false
	d, err := Start(cfg)
	if err != nil {
		return nil, err
	}
	<-d.tried
	if err := d.Err(); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Used reports whether the database is open or is being opened. With Config.Lazy one that holds nothing
// and was not needed yet is not.
func (d *DB) Used() bool { return d.begun.Load() }

// Ready is closed once the database has been opened.
func (d *DB) Ready() <-chan struct{} { return d.ready }

// Err is the reason why nothing can be written now, or nil.
func (d *DB) Err() error {
	d.state.Lock()
	defer d.state.Unlock()
	if d.state.err == ErrOpening {
		return d.openingFor()
	}
	return d.state.err
}

// Opening returns ErrOpening, with the time after which to try again. How far the opening is
// cannot be told, so that is the time that it has taken already.
func (d *DB) Opening() error {
	d.state.Lock()
	defer d.state.Unlock()
	return d.openingFor()
}

// openingFor is Opening. The lock is held.
func (d *DB) openingFor() error {
	if d.state.since.IsZero() {
		return ErrOpening
	}
	return retry.After(ErrOpening, max(1, time.Since(d.state.since)))
}

func (d *DB) setErr(err error) {
	d.state.Lock()
	defer d.state.Unlock()
	if d.state.err != ErrClosed {
		d.state.err = err
	}
}

// Damage lists what was found damaged when the database was opened.
func (d *DB) Damage() []Damage {
	d.state.Lock()
	defer d.state.Unlock()
	return append([]Damage(nil), d.state.damage...)
}

// Doubts lists what was written between the last account of the files and a crash. Whether
// it is complete cannot be known; doc.go ("The account") says why.
func (d *DB) Doubts() []string {
	d.state.Lock()
	defer d.state.Unlock()
	return append([]string(nil), d.state.doubts...)
}

// Stats returns a copy of the figures.
func (d *DB) Stats() Stats {
	s := Stats{
		Commits: d.count.commits.Load(), Updates: d.count.updates.Load(), Bytes: d.count.bytes.Load(),
		Committing: time.Duration(d.count.commitNanos.Load()), Syncing: time.Duration(d.logs.nanos.Load()), Corrupt: d.count.corrupt.Load(), Failures: d.count.failures.Load(),
		Waiting: d.in.waiting(), Doubts: len(d.Doubts()),
	}
	for _, pattern := range []string{"*.sst", "*.mem"} {
		s.LSM += sizes(d.cfg.Dir, pattern)
	}
	s.ValueLog = sizes(d.cfg.Dir, "*.vlog")
	return s
}

func sizes(dir, pattern string) (n int64) {
	names, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, name := range names {
		if info, err := os.Stat(name); err == nil {
			n += allocated(info)
		}
	}
	return n
}

// View calls f with a snapshot of everything that has been acknowledged, and returns its
// error. A damaged file that makes badger panic is reported as ErrCorrupt.
func (d *DB) View(f func(*Reader) error) (err error) {
	d.wake()
	db := d.gate.enter()
	if db == nil {
		if err := d.Err(); err != nil {
			return err
		}
		return d.Opening()
	}
	defer d.gate.leave()
	txn := db.NewTransaction(false)
	defer txn.Discard()
	r := &Reader{txn: txn, db: d}
	// badger trusts its tables, so it may panic when it reads a damaged one, and also
	// after a failed write, when it has no memtable.
	defer func() {
		if !r.inside {
			return
		}
		if p := recover(); p != nil {
			fault := fmt.Errorf("%w: %v\n%s", ErrCorrupt, p, debug.Stack())
			d.corrupt(nil, fault)
			err = fault
		}
	}()
	return f(r)
}

// Update calls f, which reads and writes, and returns when its writes are on stable
// storage. f runs on the writer's goroutine, so it must be short, and it must not keep tx.
// If f returns an error, nothing is written and Update returns the error. Updates happen
// one after the other. If ctx ends before f has begun, f is not called.
//
// Errors: ErrBusy, ErrFull and ErrOpening say that nothing was written. After ErrFailed
// the update may or may not have happened. ErrTooLarge: see Config.MaxUpdate. ErrClosed.
func (d *DB) Update(ctx context.Context, f func(tx *Tx) error) error {
	d.wake()
	u := &update{ctx: ctx, f: f, done: make(chan error, 1)}
	if err := d.in.push(u); err != nil {
		return err
	}
	return <-u.done
}

// Close waits for the updates that have begun, refuses the others, and closes
// the database.
func (d *DB) Close() error {
	d.state.Lock()
	again := d.state.err == ErrClosed
	d.state.err = ErrClosed
	d.state.Unlock()
	if !again {
		d.in.close()
		close(d.quit)
	}
	d.ended.Wait()
	closed := make(chan error, 1)
	go func() {
		d.opening.Wait()
		err := d.drain(closeTime)
		if err == nil {
			err = d.closeForGood()
			d.gate.swap(nil)
		}
		closed <- err
	}()
	select {
	case err := <-closed:
		return err
	case <-time.After(closeTime):
		return fmt.Errorf("store: %s does not close; what was acknowledged is in its logs", d.cfg.Dir)
	}
}

// closeTime is how long Close waits for badger and for readers.
const closeTime = 10 * time.Second

// drain waits for readers to finish, and keeps new ones waiting.
func (d *DB) drain(within time.Duration) error {
	if !d.gate.drain(within) {
		return fmt.Errorf("%w: a reader takes longer than %v", ErrBusy, within)
	}
	return nil
}

// closeForGood closes badger's database, unless the disk has too little space for what
// badger writes then, into mapped files: it would be a fatal signal. Everything is in its
// logs, so it is left to the end of the process, and keeps the lock until then.
func (d *DB) closeForGood() error {
	if d.gate.db == nil {
		return nil
	}
	if err := d.checkClosing(); err != nil {
		d.log.Warn("the store is not closed; its logs are replayed at the next start", "dir", d.cfg.Dir, "error", err)
		if err := d.keeper.leave(); err != nil { // what is in the logs is durable without it
			d.log.Warn("the account of the store could not be written", "dir", d.cfg.Dir, "error", err)
		}
		return nil
	}
	return d.closeBadger()
}

// closeBadger closes badger's database, which nobody reads, and lets other processes
// have the directory.
func (d *DB) closeBadger() error {
	if d.gate.db == nil {
		return nil
	}
	d.keeper.pause()
	synced := d.logs.err() == nil
	err := d.gate.db.Close()
	if err == nil && synced && !d.readOnly {
		err = d.keeper.finish()
	}
	d.readOnly = false
	d.unlock()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return nil
}

// openBadger opens badger's database for reading and writing.
func (d *DB) openBadger() (*badger.DB, error) {
	return d.openWith(d.options(), nil)
}

// openWith takes the directory's lock, checks the files, calls prepare, if there is one,
// and opens badger's database.
func (d *DB) openWith(o badger.Options, prepare func() error) (db *badger.DB, err error) {
	unlock, err := lockDir(d.cfg.Dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	a, damage, err := d.checkFiles()
	if err == nil && prepare != nil {
		err = prepare()
	}
	if err != nil {
		return nil, err
	}
	for _, m := range damage {
		d.log.Error("a log of the store is damaged", "dir", d.cfg.Dir, "damage", m.String())
	}
	db, err = badger.Open(o)
	if err != nil {
		return nil, badgerError(err)
	}
	if d.ignored.Swap(false) {
		err = fmt.Errorf("%w: badger has left out a table of %s; run weir store repair", ErrDamaged, d.cfg.Dir)
	} else if !o.ReadOnly {
		if err = d.logs.open(); err == nil {
			err = d.keeper.opened()
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store: %w", err), db.Close())
	}
	a.judgeStrays(db)
	for _, note := range a.notes {
		d.log.Warn("after a crash, what was written to the store since its last account cannot be checked", "dir", d.cfg.Dir, "part", note)
	}
	d.unlock = unlock
	d.state.Lock()
	d.state.damage = append(d.state.damage, damage...)
	d.state.doubts = append(d.state.doubts, a.notes...)
	d.state.Unlock()
	return db, nil
}

// checkFiles checks the files against the account, repairs what can be repaired without
// loss, and writes that they are about to be opened.
func (d *DB) checkFiles() (a *audit, damage []Damage, err error) {
	if err := rewriteUnsynced(d.cfg.Dir); err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	if a, err = auditDir(d.cfg.Dir); err != nil {
		return nil, nil, err
	}
	if err := a.tidy(); err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	if damage, err = mendDir(d.cfg.Dir); err != nil {
		return nil, nil, err
	}
	if err := syncLogs(d.cfg.Dir); err != nil {
		return nil, nil, fmt.Errorf("store: %w", err)
	}
	return a, damage, d.keeper.begin(a)
}

// keep is the goroutine that writes the account once a second.
func (d *DB) keep() {
	tick := time.NewTicker(d.cfg.accountEvery)
	defer tick.Stop()
	logged := ""
	for {
		select {
		case <-d.quit:
			return
		case <-tick.C:
		}
		err := d.keeper.tick()
		if err != nil && logged != err.Error() {
			logged = err.Error()
			d.log.Warn("the account of the store could not be written", "dir", d.cfg.Dir, "error", err)
		}
	}
}

// badgerError is an error of badger.Open. Where badger locks the directory itself, only
// the text tells that another process has it.
func badgerError(err error) error {
	if strings.Contains(err.Error(), "Another process is using this Badger database") {
		return fmt.Errorf("%w: %w", ErrLocked, err)
	}
	return fmt.Errorf("store: %w", err)
}

func (d *DB) options() badger.Options {
	o := badger.DefaultOptions(d.cfg.Dir)
	o.SyncWrites = !syncsMaps || d.logs.outside.Load() // otherwise sync.go does it
	o.MemTableSize, o.ValueThreshold, o.ValueLogFileSize = d.cfg.MemTable, d.cfg.ValueThreshold, d.cfg.ValueLogFile
	o.BypassLockGuard = locksDir // openBadger has locked the directory, for as long as badger is open
	o.NumMemtables = 2
	o.NumCompactors = 2
	o.NumLevelZeroTables, o.NumLevelZeroTablesStall = 4, 12
	o.CompactL0OnClose = true // Compact relies on it: nothing else makes badger compact a single level
	o.DetectConflicts = false // there is one writer
	o.MetricsEnabled = false
	// Tables are mapped and not compressed, so they need no cache of blocks, for which
	// badger would take 256 MiB.
	o.Compression, o.BlockCacheSize, o.IndexCacheSize = options.None, 0, 0
	o.Logger = badgerLog{d}
	return o
}

// corrupt counts and reports a damaged value.
func (d *DB) corrupt(key []byte, err error) {
	d.count.corrupt.Add(1)
	d.log.Error("the store has met a damaged record", "dir", d.cfg.Dir, "key", fmt.Sprintf("%q", key), "error", err)
}

// badgerLog receives badger's log. Three of its messages have a meaning for the store.
type badgerLog struct{ d *DB }

func (l badgerLog) Errorf(format string, args ...any) {
	if strings.Contains(format, "while curlf sync") {
		l.d.logs.badgerFailed(fmt.Errorf("badger: "+strings.TrimSpace(format), args...)) // the commit succeeds, so this is the only sign
	}
	if strings.HasPrefix(format, "Ignoring table") { // and all its records; again this is the only sign
		l.d.ignored.Store(true)
	}
	l.d.log.Error("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l badgerLog) Warningf(format string, args ...any) {
	l.d.log.Warn("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

func (l badgerLog) Infof(format string, args ...any) {
	if format == removingMessage && len(args) == 1 {
		l.d.removing.Store(fmt.Sprintf("%06d.vlog", args[0]))
	}
}

func (l badgerLog) Debugf(format string, _ ...any) { l.d.logs.notice(format) }
