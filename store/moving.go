package store

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"sync"
)

// collecting is held while a database moves values: two databases of one process are mostly
// on the same disk, and would both count on the same free space.
var collecting sync.Mutex

// checkMoving returns ErrFull if the disk has too little space for the next collection. badger
// copies the values that are left in a log before it deletes the log, to a mapped file, where a
// full disk is a fatal signal. What is needed to delete and to open the database stays free.
func (d *DB) checkMoving(share float64) error {
	free, err := d.cfg.free(d.cfg.Dir)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if need := max(d.cfg.MinFree/4, d.leastSpace()) + d.moving(share); free < need {
		return fmt.Errorf("%w to move the values that are left: %d MiB, less than %d MiB", ErrFull, free>>20, need>>20)
	}
	return nil
}

// moving returns the most bytes that badger moves in the next collection. It takes the value log
// that has most garbage, if that is more than a share of it, by its own estimates in the file
// DISCARD: pairs of the number of a log and of bytes. These grow only when a compaction has found
// a record that is garbage, so what they leave is at least what is moved.
func (d *DB) moving(share float64) uint64 {
	estimates, err := os.ReadFile(filepath.Join(d.cfg.Dir, "DISCARD"))
	if err != nil {
		return 2 * uint64(d.cfg.ValueLogFile) // a log may be longer than it should by what was written last
	}
	var most, size uint64
	for e := estimates; len(e) >= 16; e = e[16:] {
		log, garbage := binary.BigEndian.Uint64(e), binary.BigEndian.Uint64(e[8:])
		if log == 0 {
			break // the end of the list
		}
		if garbage <= most {
			continue
		}
		info, err := os.Stat(filepath.Join(d.cfg.Dir, fmt.Sprintf("%06d.vlog", log)))
		if err != nil {
			continue // badger passes over logs that it has deleted
		}
		most, size = garbage, uint64(info.Size())
	}
	if float64(most) < share*float64(size) {
		return 0
	}
	return size - min(most, size)
}
