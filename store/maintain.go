package store

import (
	"errors"
	"fmt"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// clean is the goroutine that removes garbage from time to time.
func (d *DB) clean() {
	if d.cfg.MaintainEvery == 0 {
		return
	}
	tick := time.NewTicker(d.cfg.MaintainEvery)
	defer tick.Stop()
	var compacted time.Time // zero, because nothing records when it was last done
	for {
		select {
		case <-d.quit:
			return
		case <-tick.C:
		}
		var err error
		if d.cfg.CompactEvery > 0 && time.Since(compacted) >= d.cfg.CompactEvery && d.deleted.Load() {
			compacted = time.Now()
			err = d.Compact()
		} else {
			err = d.collect(0.5) // badger's advice
		}
		if err != nil {
			d.log.Warn("the store could not clean up", "dir", d.cfg.Dir, "error", err)
		}
	}
}

// freeSpaceSoon is the goroutine that removes what was deleted while the disk has too
// little space, so that writes are accepted again.
func (d *DB) freeSpaceSoon() {
	for {
		select {
		case <-d.quit:
			return
		case <-d.scarce:
		}
		if err := d.Compact(); err != nil && !errors.Is(err, ErrClosed) {
			d.log.Warn("the store could not free the space of what was deleted", "dir", d.cfg.Dir, "error", err)
		}
	}
}

// Compact removes everything that was deleted, was replaced or has expired from the
// files. It takes as long as copying what is left. Reads and writes go on, but for the
// moment that it takes to open the database again: badger writes its newest memtable to a
// file only when that is full or the database is closed, and never collects its newest
// value log.
func (d *DB) Compact() error {
	c := task{run: d.flush, done: make(chan error, 1)}
	select {
	case d.tasks <- c:
	case <-d.quit:
		return ErrClosed
	}
	if err := <-c.done; err != nil {
		return err
	}
	d.deleted.Store(false)
	err := d.flatten()
	if err == nil {
		err = d.collect(0.001)
	}
	if err != nil {
		d.deleted.Store(true)
	}
	return err
}

// flush opens the database again. badger's compaction keeps what a reader might still
// see, judging by the newest reader that has finished, so flush begins and ends one.
func (d *DB) flush() error {
	d.gate.db.NewTransaction(false).Discard()
	return d.reopen()
}

func (d *DB) flatten() error {
	db, err := d.settled()
	if err != nil {
		return err
	}
	defer d.gate.leave()
	return db.Flatten(1)
}

// settled enters the database, if it is open and the disk has space to move things.
func (d *DB) settled() (*badger.DB, error) {
	if err := errors.Join(d.Err(), d.checkSpace(true, 0)); err != nil {
		return nil, err
	}
	if db := d.gate.enter(); db != nil {
		return db, nil
	}
	return nil, d.Opening()
}

// collect rewrites the files of the value log of which more than a share is garbage.
func (d *DB) collect(share float64) error {
	for {
		again, err := d.collectOne(share)
		if !again || err != nil {
			return err
		}
		select {
		case <-d.quit:
			return nil
		default:
		}
	}
}

func (d *DB) collectOne(share float64) (again bool, err error) {
	collecting.Lock()
	defer collecting.Unlock()
	if err := d.checkMoving(share); err != nil {
		return false, err
	}
	db, err := d.settled()
	if err != nil {
		return false, err
	}
	d.logs.valueWriters.Add(1)
	defer d.logs.valueWriters.Add(-1)
	// While there is an iterator, badger keeps the files that it has moved values from.
	txn := db.NewTransaction(false)
	it := txn.NewIterator(badger.IteratorOptions{})
	d.removing.Store("")
	err = db.RunValueLogGC(share)
	idle := errors.Is(err, badger.ErrNoRewrite) || errors.Is(err, badger.ErrRejected)
	if !idle {
		if failed := d.logs.settle(); failed != nil {
			// This reader stays, so badger keeps the files for good, and cannot be
			// closed: it would take for durable what it has moved.
			return false, fmt.Errorf("moving values: %w; nothing can be written until the process is started again", failed)
		}
		if failed := d.keeper.collected(d.collectedLogs()...); failed != nil {
			d.log.Warn("the account of the store could not be written", "dir", d.cfg.Dir, "error", failed)
		}
	}
	it.Close()
	txn.Discard()
	d.gate.leave()
	if idle {
		return false, nil
	}
	return err == nil, err
}

// removingMessage is what badger's log says with the number of a value log from which it
// has moved all values, and which it deletes when nobody reads it any more.
const removingMessage = "Removing fid: %d"

// collectedLogs are the value logs that badger may delete after a collection: the one that
// it has named, or all but the newest if it has named none.
func (d *DB) collectedLogs() []string {
	if name, _ := d.removing.Load().(string); name != "" {
		return []string{name}
	}
	names, err := logNames(d.cfg.Dir, ".vlog")
	if err != nil || len(names) == 0 {
		return nil
	}
	return names[:len(names)-1]
}
