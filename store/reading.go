package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	badger "github.com/dgraph-io/badger/v4"
)

// openForReading opens the database without writing to the disk, which has too little space
// to open it otherwise; full says so, and is returned. badger's own mode for reading creates
// no files, flushes nothing and compacts nothing. Updates are refused with ErrFull, and
// DB.run tries again until there is space.
func (d *DB) openForReading(full error) error {
	if d.gate.open() {
		return full
	}
	if _, err := os.Stat(filepath.Join(d.cfg.Dir, manifestName)); err != nil {
		return full // there is nothing to read
	}
	if err := d.drain(d.cfg.drainTime); err != nil {
		return err
	}
	db, err := d.openReadOnly()
	d.gate.swap(db)
	if err == nil {
		d.log.Warn("too little space left on the disk; the store is opened for reading alone", "dir", d.cfg.Dir, "error", full)
		return full
	}
	for _, worse := range []error{ErrDamaged, ErrFormat, ErrLocked} {
		if errors.Is(err, worse) {
			return err
		}
	}
	return fmt.Errorf("%w; and it cannot be read: %w", full, err)
}

// openReadOnly is openBadger without anything that needs space.
func (d *DB) openReadOnly() (*badger.DB, error) {
	db, err := d.openWith(d.options().WithReadOnly(true), d.prepareReading)
	if err != nil {
		return nil, err
	}
	// A large update that a crash has interrupted has happened, but is not carried out.
	err = db.View(func(txn *badger.Txn) error {
		if _, err := txn.Get(journalEnd); !errors.Is(err, badger.ErrKeyNotFound) {
			return errors.Join(errors.New("store: an update is not finished, and there is no space to finish it"), err)
		}
		return nil
	})
	if err != nil {
		err = errors.Join(err, db.Close())
		d.unlock()
		return nil, err
	}
	d.readOnly = true
	return db, nil
}

// prepareReading cuts off what follows the records of the memtables' logs, as badger does
// when it may write. When it may not, it refuses to open logs that are longer than their
// records. The account is written before, in its own place, or it would take the logs for cut.
func (d *DB) prepareReading() error {
	names, err := filepath.Glob(filepath.Join(d.cfg.Dir, "*.mem"))
	if err != nil {
		return err
	}
	for _, name := range names {
		b, done, err := mapLog(name)
		if err != nil {
			return err
		}
		s, size := inspect(b, true), cap(b)
		done()
		if s.done < size {
			if err := os.Truncate(name, int64(s.done)); err != nil {
				return err
			}
		}
	}
	return nil
}

// leastSpace is how much free space is needed to open a database for writing even if
// Config.MinFree is less: badger then writes memtables to tables, through mapped files,
// where a full disk is a fatal signal.
func (d *DB) leastSpace() uint64 { return 2 * uint64(d.cfg.MemTable) }

// compacting is how much free space badger needs for its memtables and a compaction of the newest
// tables, which it begins whenever there are enough of them, and when it is closed. The tables are
// mapped files as well. What was committed since the tables were counted may be in tables by now.
func (d *DB) compacting() uint64 {
	return uint64(4*d.cfg.MemTable + d.keeper.upper.Load() + d.keeper.tabled.Load())
}

// checkClosing returns ErrFull if the disk has too little space for what badger writes when
// it is closed.
func (d *DB) checkClosing() error {
	if d.readOnly {
		return nil
	}
	need := max(d.cfg.MinFree/4, d.compacting())
	if free, err := d.cfg.free(d.cfg.Dir); err == nil && free < need {
		return fmt.Errorf("%w to close the store: %d MiB, less than %d MiB", ErrFull, free>>20, need>>20)
	}
	return nil
}
