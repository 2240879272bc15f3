package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"sync"
	"time"

	badger "github.com/dgraph-io/badger/v4"

	"weir/internal/retry"
)

// update is one call of Update. Its error is sent to done, once.
type update struct {
	ctx  context.Context
	f    func(*Tx) error
	done chan error
}

// intake holds the updates that wait for the writer. The writer takes all of them at
// once, so the size of a commit follows the load, with nothing to tune.
type intake struct {
	full chan struct{} // something is there

	mu struct {
		sync.Mutex
		list    []*update
		most    int
		closed  bool
		writing int        // updates that were taken and are not written yet
		speed   retry.Rate // of updates that are written
	}
}

func (in *intake) init(most int) {
	in.full = make(chan struct{}, 1)
	in.mu.most = most
}

func (in *intake) push(u *update) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	switch {
	case in.mu.closed:
		return ErrClosed
	case len(in.mu.list) >= in.mu.most:
		ahead := len(in.mu.list) + in.mu.writing
		return retry.After(ErrBusy, retry.Time(float64(ahead), in.mu.speed.PerSecond()))
	}
	in.mu.list = append(in.mu.list, u)
	select {
	case in.full <- struct{}{}:
	default:
	}
	return nil
}

func (in *intake) take() []*update {
	in.mu.Lock()
	defer in.mu.Unlock()
	list := in.mu.list
	in.mu.list, in.mu.writing = nil, len(list)
	return list
}

// wrote notes that what was taken last has been written in a time; 0: it was refused.
func (in *intake) wrote(took time.Duration) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.speed.Add(float64(in.mu.writing), took)
	in.mu.writing = 0
}

func (in *intake) waiting() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return len(in.mu.list)
}

func (in *intake) close() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.mu.closed = true
}

// task is something else that the writer's goroutine does between two commits.
type task struct {
	run  func() error
	done chan error
}

// How often a database that cannot be opened, or has failed, is tried again.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 2 * time.Second
)

// writerState is what the writer's goroutine remembers between two events.
type writerState struct {
	batching batching
	retry    *time.Timer // to open the database
	wait     time.Duration
	logged   string     // the newest error that the log has
	reopened chan error // opening runs on its own goroutine, so that updates are refused meanwhile
}

// tryLater opens the database again after a pause.
func (w *writerState) tryLater(wait time.Duration) {
	w.wait = wait
	w.retry.Reset(wait)
}

// run is the writer's goroutine.
func (d *DB) run() {
	w := writerState{batching: batching{most: time.Millisecond}, retry: time.NewTimer(0), reopened: make(chan error, 1)}
	defer w.retry.Stop()
	for {
		select {
		case <-d.quit:
			refuse(d.in.take(), ErrClosed)
			return
		case <-d.in.full:
			d.writeWaiting(&w)
		case <-w.retry.C:
			d.opening.Go(func() { w.reopened <- d.reopen() })
		case err := <-w.reopened:
			d.opened(&w, err)
		case t := <-d.tasks:
			d.runTask(&w, t)
		}
	}
}

// writeWaiting writes the updates that wait, or refuses them while nothing can be written.
func (d *DB) writeWaiting(w *writerState) {
	if err := d.Err(); err != nil {
		refuse(d.in.take(), err)
		d.in.wrote(0)
		return
	}
	w.batching.wait(&d.in)
	list := d.in.take()
	began := time.Now()
	err := d.write(list)
	took := time.Since(began)
	d.in.wrote(took)
	w.batching.wrote(len(list), d.in.waiting(), took)
	if err != nil {
		d.count.failures.Add(1)
		d.log.Error("the store failed to write; it will be opened anew", "dir", d.cfg.Dir, "error", err)
		d.setErr(err)
		w.tryLater(retryFirst)
	}
}

// opened takes the outcome of an attempt to open the database.
func (d *DB) opened(w *writerState, err error) {
	err = unopened(err)
	d.setErr(err)
	d.once.Do(func() { close(d.tried) })
	if err != nil {
		if w.logged != err.Error() && !d.gate.open() {
			w.logged = err.Error()
			d.log.Error("the store cannot be opened; trying again", "dir", d.cfg.Dir, "error", err)
		}
		if d.gate.open() {
			d.openOnce.Do(func() { close(d.ready) }) // for reading
		}
		w.tryLater(min(max(2*w.wait, retryFirst), retryMost))
		return
	}
	if w.logged != "" {
		d.log.Info("the store is open", "dir", d.cfg.Dir)
	}
	w.logged = ""
	d.openOnce.Do(func() { close(d.ready) })
}

// unopened makes an error of opening one of those that this package names.
func unopened(err error) error {
	for _, known := range []error{ErrOpening, ErrClosed, ErrBusy, ErrFull, ErrFailed, ErrLocked, ErrCorrupt, ErrDamaged, ErrFormat, ErrUnopened} {
		if err == nil || errors.Is(err, known) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", ErrUnopened, err)
}

func (d *DB) runTask(w *writerState, t task) {
	if err := d.Err(); err != nil {
		t.done <- err
		return
	}
	err := t.run()
	if t.done <- err; err != nil && !d.gate.open() {
		d.setErr(err)
		w.tryLater(retryFirst)
	}
}

func refuse(list []*update, err error) {
	for _, u := range list {
		u.done <- err
	}
}

// reopen closes the database, if it is open, and opens it.
func (d *DB) reopen() error {
	if err := os.MkdirAll(d.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := d.checkSpace(true, 0); err != nil {
		return d.openForReading(err) // opening writes; a database that is open still serves readers
	}
	if d.gate.open() {
		if err := d.checkClosing(); err != nil {
			return err
		}
	}
	if err := d.drain(d.cfg.drainTime); err != nil {
		return err
	}
	if err := d.closeBadger(); err != nil {
		d.log.Warn("the store did not close well", "dir", d.cfg.Dir, "error", err)
	}
	db, err := d.openBadger()
	if err == nil {
		if err = d.redo(db); err != nil {
			err = errors.Join(err, db.Close())
			d.unlock()
			db = nil
		}
	}
	d.gate.swap(db)
	return err
}

// checkSpace returns ErrFull if the disk has too little space to write more bytes, or to delete.
func (d *DB) checkSpace(deletion bool, more int64) error {
	free, err := d.cfg.free(d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	need := d.cfg.MinFree
	if deletion {
		need /= 4
	} else {
		need = max(need, d.compacting())
	}
	need = max(need, d.leastSpace()) + uint64(more)
	if free < need {
		return fmt.Errorf("%w: %d MiB, less than %d MiB", ErrFull, free>>20, need>>20)
	}
	return nil
}

// group is the updates of one transaction of badger's.
type group struct {
	txn *badger.Txn
	size
	done []*update
}

// write runs updates and commits them. An error means that badger has failed.
func (d *DB) write(list []*update) error {
	db := d.gate.db // while there is no error, only this goroutine closes it
	g := group{txn: db.NewTransaction(true)}
	var failed error
	for _, u := range list {
		if failed != nil {
			u.done <- failed
			continue
		}
		tx, err := d.try(u, &g)
		if err != nil {
			u.done <- err
			continue
		}
		if !g.within(tx.size, d.cfg.MemTable) {
			failed = d.commit(&g)
			g = group{txn: db.NewTransaction(true)}
		}
		switch {
		case failed != nil:
			u.done <- failed
		case !g.within(tx.size, d.cfg.MemTable):
			failed = d.writeAhead(db, tx)
			u.done <- failed
			g.txn.Discard()
			g = group{txn: db.NewTransaction(true)}
		default:
			if failed = g.take(tx); failed != nil {
				u.done <- failed
				continue
			}
			g.done = append(g.done, u)
		}
	}
	if failed != nil {
		g.txn.Discard()
		refuse(g.done, failed)
		return failed
	}
	return d.commit(&g)
}

// try runs an update's function and checks what it wants to write, so that afterwards
// only badger can fail.
func (d *DB) try(u *update, g *group) (tx *Tx, err error) {
	if u.ctx.Err() != nil {
		return nil, context.Cause(u.ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: panic in an update: %v\n%s", p, debug.Stack())
		}
	}()
	tx = &Tx{Reader: Reader{txn: g.txn, db: d}}
	if err := u.f(tx); err != nil {
		return nil, err
	}
	if tx.bytes > d.cfg.MaxUpdate {
		return nil, ErrTooLarge
	}
	for _, w := range tx.writes {
		if len(w.key) == 0 || len(w.key) > maxKey || w.key[0] == 0 || w.key[0] == '!' || int64(len(w.value)) > d.cfg.ValueLogFile/2 {
			return nil, fmt.Errorf("%w: key of %d bytes, value of %d", ErrTooLarge, len(w.key), len(w.value))
		}
	}
	if len(tx.writes) > 0 {
		// What goes through the journal is written twice.
		err = d.checkSpace(!tx.sets && tx.drops, g.bytes+2*tx.bytes)
	}
	if err == nil && tx.drops && d.checkSpace(false, 0) != nil {
		select { // what is deleted is to free space at once
		case d.scarce <- struct{}{}:
		default:
		}
	}
	return tx, err
}

// maxKey bounds keys in bytes. badger's own bound is 65000.
const maxKey = 16 << 10

func (g *group) take(tx *Tx) error {
	for _, w := range tx.writes {
		if w.value == nil || w.expires > 0 {
			tx.db.deleted.Store(true)
		}
		if err := w.into(g.txn); err != nil {
			return fmt.Errorf("%w: %w", ErrFailed, err)
		}
	}
	g.bytes += tx.bytes
	g.table += tx.table
	g.n += tx.n
	g.large = g.large || tx.large
	return nil
}

func (w *write) into(txn *badger.Txn) error {
	if w.value == nil {
		return txn.Delete(w.key)
	}
	return txn.SetEntry(&badger.Entry{Key: w.key, Value: w.value, ExpiresAt: w.expires})
}

// commit commits a group, syncs it and answers its updates.
func (d *DB) commit(g *group) error {
	err := d.sync(g.txn, g.size)
	for _, u := range g.done {
		u.done <- err
	}
	if err == nil {
		d.count.updates.Add(uint64(len(g.done)))
		d.count.bytes.Add(uint64(g.bytes))
	}
	return err
}

// sync commits a transaction of size s and returns when it is on stable storage.
func (d *DB) sync(txn *badger.Txn, s size) error {
	defer txn.Discard()
	if s.n == 0 {
		return nil
	}
	if s.large {
		d.logs.valueWriters.Add(1)
		defer d.logs.valueWriters.Add(-1)
	}
	began := time.Now()
	seen := d.logs.seen()
	err := txn.Commit()
	if err == nil {
		err = d.logs.check(seen)
	}
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrFailed, err)
		d.setErr(err) // before any update is answered
		return err
	}
	d.keeper.tabled.Add(s.table)
	d.count.commits.Add(1)
	d.count.commitNanos.Add(int64(time.Since(began)))
	return nil
}
