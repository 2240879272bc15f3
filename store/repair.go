package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	badger "github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
)

// Repaired is the outcome of Repair.
type Repaired struct {
	Rows   int      // records that the database has now
	Faults []string // what was found wrong; none means that nothing was done
	Lost   []string // what could not be read, and so what may be lost
	Aside  string   // the directory as it was found
}

// Repair makes a database of what can be read of the one in cfg.Dir, which nobody has open,
// and puts it in its place. The directory as it was found is kept beside it. Each record
// has the newest version that can be read, and what was deleted stays deleted; but where
// damage has taken the newest version or a deletion itself, nothing tells of it, and an
// older version may be there. It does nothing if nothing is damaged.
//
// It needs as much space again as the database takes. If it is interrupted, the
// directory is as it was.
func Repair(cfg Config) (rep Repaired, err error) {
	if err := cfg.Validate(); err != nil {
		return rep, err
	}
	cfg.Dir = filepath.Clean(cfg.Dir)
	cfg.Lazy, cfg.MaintainEvery = false, 0
	if _, err := os.Stat(cfg.Dir); err != nil {
		return rep, fmt.Errorf("store: %w", err)
	}
	a, err := inspectForRepair(cfg, &rep)
	if err != nil || len(rep.Faults) == 0 {
		return rep, err
	}
	unlock, err := lockDir(cfg.Dir)
	if err != nil {
		return rep, err
	}
	defer unlock()
	fresh := cfg
	fresh.Dir = cfg.Dir + ".repair"
	if err := os.RemoveAll(fresh.Dir); err != nil { // of an attempt that was interrupted
		return rep, fmt.Errorf("store: %w", err)
	}
	r := repair{dir: cfg.Dir, audit: a, values: map[uint32][]byte{}}
	defer r.close()
	if err := r.fill(fresh); err != nil {
		return rep, err
	}
	rep.Lost = r.lost
	if rep.Rows, err = settle(fresh); err != nil {
		return rep, err
	}
	rep.Aside = cfg.Dir + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000")
	return rep, swapDirs(fresh.Dir, cfg.Dir, rep.Aside)
}

// inspectForRepair finds out what is wrong with a database. If its files look whole, it
// reads everything.
func inspectForRepair(cfg Config, rep *Repaired) (*audit, error) {
	unlock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	a, err := auditDir(cfg.Dir)
	unlock()
	switch {
	case errors.Is(err, ErrDamaged):
		rep.Faults = a.faults
		return a, nil
	case err != nil:
		return nil, err
	}
	db, err := Open(cfg)
	if err != nil {
		if errors.Is(err, ErrLocked) || errors.Is(err, ErrFull) {
			return nil, err
		}
		rep.Faults = []string{err.Error()}
		return a, nil
	}
	rep.Rows, err = db.Verify(func(err error) { rep.Faults = append(rep.Faults, err.Error()) })
	if err != nil {
		rep.Faults = append(rep.Faults, err.Error())
	}
	if err := db.Close(); err != nil {
		return nil, err
	}
	if len(rep.Faults) > 0 {
		a, err = auditDir(cfg.Dir) // opening has changed the files
	}
	return a, err
}

// settle opens the new database as usual, which makes its account, and counts its records.
func settle(cfg Config) (rows int, err error) {
	db, err := Open(cfg)
	if err != nil {
		return 0, err
	}
	rows, err = db.Verify(func(fault error) { err = errors.Join(err, fault) })
	return rows, errors.Join(err, db.Close())
}

// swapDirs puts a directory in the place of another, which it moves aside.
func swapDirs(fresh, dir, aside string) error {
	if err := exchange(fresh, dir); err == nil {
		if err := os.Rename(fresh, aside); err != nil {
			return fmt.Errorf("store: %w", err)
		}
		return syncDir(filepath.Dir(dir))
	}
	if err := os.Rename(dir, aside); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	if err := os.Rename(fresh, dir); err != nil {
		return fmt.Errorf("store: %s is whole, and has to be renamed %s by hand: %w", fresh, dir, err)
	}
	return syncDir(filepath.Dir(dir))
}

// repair copies the records of a damaged directory to a new database.
//
// It writes every version of every record that it finds, in any order, under the version
// number that it has: the database then takes the newest by itself. Nothing is discarded
// before everything has been written, or a deletion might be gone before the record that
// it deletes comes.
type repair struct {
	dir    string
	audit  *audit
	values map[uint32][]byte // mapped value logs
	unmap  []func()
	db     *badger.DB
	batch  *badger.WriteBatch
	bytes  int
	absent map[string]uint64 // records without a value: the newest such version of each key
	lost   []string
	err    error
}

// repairBatch is how many bytes are written at a time.
const repairBatch = 8 << 20

func (r *repair) close() {
	for _, unmap := range r.unmap {
		unmap()
	}
}

func (r *repair) lose(format string, args ...any) {
	r.lost = append(r.lost, fmt.Sprintf(format, args...))
}

// fill writes the new database.
func (r *repair) fill(cfg Config) (err error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	d := &DB{cfg: cfg, log: cfg.Log}
	o := d.options()
	o.Logger, o.CompactL0OnClose, o.BypassLockGuard = nil, false, true
	if r.db, err = badger.OpenManaged(o); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer func() { err = errors.Join(err, r.db.Close()) }()
	r.absent = map[string]uint64{}
	r.batch = r.db.NewManagedWriteBatch()
	if err := r.mapValues(); err != nil {
		return err
	}
	if err := r.readTables(); err != nil {
		return err
	}
	if err := r.readMemtables(); err != nil {
		return err
	}
	r.flush()
	r.bury()
	if r.batch != nil {
		r.batch.Cancel()
	}
	return r.err
}

func (r *repair) mapValues() error {
	names, err := logNames(r.dir, ".vlog")
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		id, _ := strconv.ParseUint(strings.TrimSuffix(name, ".vlog"), 10, 32)
		b, done, err := mapFile(filepath.Join(r.dir, name))
		if err != nil {
			r.lose("%s cannot be read: %v", name, err)
			continue
		}
		r.unmap = append(r.unmap, done)
		r.values[uint32(id)] = b
	}
	return nil
}

// readTables reads all tables but those that had been compacted away.
func (r *repair) readTables() error {
	paths, err := filepath.Glob(filepath.Join(r.dir, "*.sst"))
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, path := range paths {
		id, ok := table.ParseFileID(path)
		if !ok || r.compacted(id, path) {
			continue
		}
		if err := r.readTable(path); err != nil {
			r.lose("%s cannot be read: %v", filepath.Base(path), err)
		}
	}
	return r.err
}

// compacted reports whether the records of a table are in others. Reading it nevertheless
// could bring back what was deleted, because compaction removes deletions.
func (r *repair) compacted(id uint64, path string) bool {
	m, known := &r.audit.manifest, r.audit.account
	if _, listed := m.tables[id]; listed {
		return false
	}
	if r.audit.trusted {
		return m.removed[id]
	}
	if known == nil {
		return false
	}
	// The MANIFEST is gone. What the account does not list is older than it and was
	// compacted away, or newer.
	if _, listed := known.tables[id]; listed {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && info.ModTime().Before(known.written.Add(-time.Minute))
}

func (r *repair) readTable(path string) error {
	b, done, err := mapFile(path)
	if err != nil {
		return err
	}
	defer done()
	name := filepath.Base(path)
	blocks, bad, ok := readTable(b, true)
	if !ok {
		end := 0
		blocks, end = findBlocks(b)
		r.lose("%s has no index: its records after byte %d of %d may be lost", name, end, len(b))
	}
	for _, at := range bad {
		r.lose("%s: the records in %d bytes at %d are lost, and may have an older version now", name, at[1], at[0])
	}
	for _, block := range blocks {
		if !eachEntry(block, func(key []byte, v y.ValueStruct) { r.add(key, v.Meta, v.ExpiresAt, v.Value) }) {
			r.lose("%s: a block cannot be decoded", name)
		}
	}
	return nil
}

// findBlocks finds the blocks at the beginning of a table by their checksums, without an
// index, and returns where they end.
func findBlocks(b []byte) (blocks [][]byte, end int) {
	for {
		block, next := nextBlock(b, end)
		if next < 0 {
			return blocks, end
		}
		blocks = append(blocks, block)
		end = next
	}
}

// nextBlock finds the block at an offset. Its end is -1 if there is none.
func nextBlock(b []byte, at int) (block []byte, end int) {
	const longest = 4 << 20
	for end := at + 8; end <= min(len(b), at+longest); end++ {
		n := int(binary.BigEndian.Uint32(b[end-4:]))
		if n < 2 || n > 16 || end-4-n < at || b[end-4-n] != 2<<3 {
			continue
		}
		if block, ok := sealed(b[at:end]); ok && len(block) > 0 {
			return block, end
		}
	}
	return nil, -1
}

// readMemtables reads the logs of memtables as badger does: transactions that are whole.
func (r *repair) readMemtables() error {
	names, err := logNames(r.dir, ".mem")
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	for _, name := range names {
		b, done, err := mapLog(filepath.Join(r.dir, name))
		if err != nil {
			r.lose("%s cannot be read: %v", name, err)
			continue
		}
		r.readMemtable(name, b)
		done()
	}
	return r.err
}

func (r *repair) readMemtable(name string, b []byte) {
	s := inspect(b, true)
	if s.lost() {
		r.lose("%s: the records in %s are lost, and may have an older version now", name, s.where())
	}
	b = bytes.Clone(b)
	for _, p := range s.patches {
		copy(b[p.at:], p.filler)
	}
	var pending []record
	for at := logHeader; at < len(b); {
		rec, ok := recordAt(b, at)
		if !ok {
			if at = resume(b, at); at < 0 {
				return
			}
			pending = nil
			continue
		}
		at = rec.end
		switch {
		case rec.meta&metaEnd != 0:
			for i := range pending {
				r.addRecord(&pending[i])
			}
			pending = pending[:0]
		case rec.meta&metaTxn != 0:
			if len(pending) > 0 && pending[0].txn() != rec.txn() {
				pending = pending[:0]
			}
			pending = append(pending, rec)
		default:
			r.addRecord(&rec)
		}
	}
}

func (r *repair) addRecord(rec *record) {
	r.add(rec.key, rec.meta, rec.expires, rec.val)
}

// add writes a version of a record. Its key ends in the number of the transaction.
func (r *repair) add(key []byte, meta byte, expires uint64, value []byte) {
	version, name := y.ParseTs(key), y.ParseKey(key)
	if r.err != nil || version == 0 || len(name) == 0 || bytes.HasPrefix(name, []byte("!badger!")) || bytes.HasPrefix(name, []byte(fillerKey)) {
		return
	}
	name = bytes.Clone(name)
	if meta&metaDelete != 0 {
		r.put(r.batch.DeleteAt(name, version), len(name))
		return
	}
	if meta&metaPointer != 0 {
		value = r.value(key, value)
	}
	if _, err := unseal(name, value); err != nil {
		r.absent[string(name)] = max(r.absent[string(name)], version)
		return
	}
	e := &badger.Entry{Key: name, Value: bytes.Clone(value), ExpiresAt: expires}
	r.put(r.batch.SetEntryAt(e, version), len(name)+len(value))
}

func (r *repair) put(err error, n int) {
	if err != nil && r.err == nil {
		r.err = fmt.Errorf("store: %w", err)
		return
	}
	if r.bytes += n; r.bytes >= repairBatch {
		r.flush()
	}
}

func (r *repair) flush() {
	if r.err != nil {
		return
	}
	if err := r.batch.Flush(); err != nil {
		r.err = fmt.Errorf("store: %w", err)
		return
	}
	r.batch, r.bytes = r.db.NewManagedWriteBatch(), 0
}

// value reads the value to which a record points; nil if it cannot be read.
func (r *repair) value(key, pointer []byte) []byte {
	if len(pointer) < 12 {
		return nil
	}
	b := r.values[binary.NativeEndian.Uint32(pointer)] // then the length and the offset
	at := int(binary.NativeEndian.Uint32(pointer[8:]))
	if at < logHeader || at >= len(b) {
		return nil
	}
	rec, ok := recordAt(b, at)
	if !ok || !bytes.Equal(rec.key, key) {
		return nil
	}
	return rec.val
}

// bury deletes the records of whose newest version the value is lost. Without that, an
// older version would be taken for the newest.
func (r *repair) bury() {
	var names []string
	for name := range r.absent {
		names = append(names, name)
	}
	slices.Sort(names)
	lost := 0
	txn := r.db.NewTransactionAt(math.MaxUint64, false)
	defer txn.Discard()
	for _, name := range names {
		it := txn.NewKeyIterator([]byte(name), badger.IteratorOptions{AllVersions: true})
		it.Rewind()
		superseded := it.Valid() && it.Item().Version() >= r.absent[name] // by a later version, or a copy in another file
		it.Close()
		if superseded || r.err != nil {
			continue
		}
		lost++
		r.put(r.batch.DeleteAt([]byte(name), r.absent[name]), len(name))
	}
	if lost > 0 {
		r.lose("%d records have no value any more and are left out", lost)
	}
	r.flush()
}
