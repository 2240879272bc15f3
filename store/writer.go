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
)

// update is one call of Update. done gets its error, once.
type update struct {
	ctx  context.Context
	f    func(*Tx) error
	done chan error
}

// intake is the updates that wait for the writer. The writer takes all of them
// at once, so that a commit's size follows the load with nothing to tune.
type intake struct {
	full chan struct{} // something is there

	mu struct {
		sync.Mutex
		list   []*update
		most   int
		closed bool
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
		return ErrBusy
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
	in.mu.list = nil
	return list
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

// crowd guesses how many updates come at a time. Clients that write one record
// after the other fall into two halves, of which one is written while the other
// waits, so that every sync serves half of what it could. If the writer waits for
// the others, for less than a sync takes, they all share it. A crowd that does not
// come in that time is larger: while one part of it is synced, another has work for
// the processors, so waiting for it is left alone for longer and longer.
type crowd struct {
	size  int           // of the last group, and those who came meanwhile
	took  time.Duration // to commit a group, on average
	most  time.Duration // to wait
	timer *time.Timer
	pause int // commits without waiting, of those that follow a wait in vain
	left  int // of them
}

const (
	leastCrowd = 4 // are worth waiting for
	mostPause  = 1024
)

func (c *crowd) gather(in *intake) {
	switch {
	case c.size < leastCrowd || in.waiting() >= c.size:
		return
	case c.left > 0:
		c.left--
		return
	}
	most := min(c.took/2, c.most)
	if c.timer == nil {
		c.timer = time.NewTimer(most)
	} else {
		c.timer.Reset(most)
	}
	defer c.timer.Stop()
	for in.waiting() < c.size {
		select {
		case <-in.full:
		case <-c.timer.C:
			c.pause = min(2*c.pause+1, mostPause)
			c.left = c.pause
			return
		}
	}
	c.pause /= 2
}

func (c *crowd) saw(written, waiting int, took time.Duration) {
	c.size = written + waiting
	c.took += (took - c.took) / 8
}

// chore is something else that the writer's goroutine does between commits.
type chore struct {
	run  func() error
	done chan error
}

// How often a database that cannot be opened, or has failed, is tried again.
const (
	retryFirst = 20 * time.Millisecond
	retryMost  = 2 * time.Second
)

// run is the writer's goroutine.
func (d *DB) run() {
	retry := time.NewTimer(0)
	defer retry.Stop()
	wait := retryFirst
	said := ""                      // the newest error that the log has
	reopened := make(chan error, 1) // opening runs beside, so that updates are refused meanwhile
	crowd := crowd{most: time.Millisecond}
	for {
		select {
		case <-d.quit:
			refuse(d.in.take(), ErrClosed)
			return
		case <-d.in.full:
			if err := d.Err(); err != nil {
				refuse(d.in.take(), err)
				continue
			}
			crowd.gather(&d.in)
			list := d.in.take()
			began := time.Now()
			err := d.write(list)
			crowd.saw(len(list), d.in.waiting(), time.Since(began))
			if err != nil {
				d.count.failures.Add(1)
				d.log.Error("the store failed to write; it will be opened anew", "dir", d.cfg.Dir, "error", err)
				d.setErr(err)
				wait = retryFirst
				retry.Reset(wait)
			}
		case <-retry.C:
			d.opening.Go(func() { reopened <- d.reopen() })
		case err := <-reopened:
			d.setErr(err)
			d.once.Do(func() { close(d.tried) })
			if err != nil {
				if said != err.Error() {
					said = err.Error()
					d.log.Error("the store cannot be opened; trying again", "dir", d.cfg.Dir, "error", err)
				}
				wait = min(2*wait, retryMost)
				retry.Reset(wait)
				continue
			}
			said = ""
			select {
			case <-d.ready:
				d.log.Info("the store is open again", "dir", d.cfg.Dir)
			default:
				close(d.ready)
			}
		case c := <-d.chores:
			if err := d.Err(); err != nil {
				c.done <- err
				continue
			}
			err := c.run()
			if c.done <- err; err != nil && !d.gate.open() {
				d.setErr(err)
				retry.Reset(retryFirst)
			}
		}
	}
}

func refuse(list []*update, err error) {
	for _, u := range list {
		u.done <- err
	}
}

// reopen closes the database, should it be open, and opens it.
func (d *DB) reopen() error {
	if err := os.MkdirAll(d.cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := d.room(false); err != nil {
		return err // opening writes, too; and if there is an old one, it still serves readers
	}
	if err := d.drain(drainTime); err != nil {
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

// drainTime is how long readers may be kept waiting for another one.
const drainTime = time.Second

// room reports whether there is space on the disk to write, or to delete.
func (d *DB) room(deletion bool) error {
	free, err := d.cfg.free(d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	need := d.cfg.MinFree
	if deletion {
		need /= 2
	}
	if free < need {
		return fmt.Errorf("%w: %d MiB, less than %d MiB", ErrFull, free>>20, need>>20)
	}
	return nil
}

// group is the updates of one transaction.
type group struct {
	txn *badger.Txn
	size
	done []*update
}

// write runs updates and commits them. An error says that badger has failed.
func (d *DB) write(list []*update) error {
	db := d.gate.db // it is closed by nobody else while there is no error
	g := group{txn: db.NewTransaction(true)}
	var failed error
	for _, u := range list {
		if failed != nil {
			u.done <- failed
			continue
		}
		tx, err := d.try(u, g.txn)
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

// try runs an update's function. What is wrong with it is found here: from then
// on only badger can fail.
func (d *DB) try(u *update, txn *badger.Txn) (tx *Tx, err error) {
	if u.ctx.Err() != nil {
		return nil, context.Cause(u.ctx)
	}
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("store: panic in an update: %v\n%s", p, debug.Stack())
		}
	}()
	tx = &Tx{Reader: Reader{txn: txn, db: d}}
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
		err = d.room(!tx.sets && (tx.drops || len(tx.writes) == 0))
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

// commit makes a group last and answers its updates.
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

// sync commits a transaction of a size and returns when it is on stable storage.
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
		d.setErr(err) // before anybody hears of it
		return err
	}
	d.count.commits.Add(1)
	d.count.commitNanos.Add(int64(time.Since(began)))
	return nil
}
