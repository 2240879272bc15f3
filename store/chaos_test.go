package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4/y"
)

// damagedFolders is how many folders TestDamagedFolders damages: a few, or as many as the
// environment variable WEIR_DAMAGED_FOLDERS says (make chaos-store).
func damagedFolders(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_DAMAGED_FOLDERS")); err == nil {
		return n
	}
	if testing.Short() {
		return usual / 4
	}
	return usual
}

// folder is a directory of a database that nobody has open, and what is in it.
type folder struct {
	dir     string
	state   string            // how it came about
	rows    map[string]string // acknowledged
	history map[string][]string
	homes   map[string]*home
}

// home is where the newest version of a record is.
type home struct {
	version uint64
	deleted bool
	copies  [][]string // the files that each copy of it is in: a table or log, and a value log
}

// writer makes folders from one database, and remembers what it has acknowledged.
type folderWriter struct {
	testing.TB
	rnd     *rand.Rand
	cfg     Config
	db      *DB
	rows    map[string]string
	history map[string][]string
	n       int
}

func (w *folderWriter) open() {
	w.Helper()
	var err error
	if w.db, err = Open(w.cfg); err != nil {
		w.Fatal(err)
	}
}

func (w *folderWriter) close() {
	w.Helper()
	if err := w.db.Close(); err != nil {
		w.Fatal(err)
	}
}

// write makes some updates, each of some records.
func (w *folderWriter) write(updates int) {
	w.Helper()
	for range updates {
		w.n++
		change := map[string]string{}
		for range 1 + w.rnd.IntN(4) {
			key := fmt.Sprintf("k%03d", w.rnd.IntN(300))
			change[key] = w.value(key)
		}
		if err := w.db.Update(context.Background(), func(tx *Tx) error {
			for key, value := range change {
				if value == "" {
					tx.Delete([]byte(key))
				} else {
					tx.Set([]byte(key), []byte(value))
				}
			}
			return nil
		}); err != nil {
			w.Fatal(err)
		}
		for key, value := range change {
			if delete(w.rows, key); value != "" {
				w.rows[key] = value
				w.history[key] = append(w.history[key], value)
			}
		}
	}
}

// value is a new value for a key; "" deletes it.
func (w *folderWriter) value(key string) string {
	size := 20 + w.rnd.IntN(600)
	switch w.rnd.IntN(12) {
	case 0:
		return ""
	case 1, 2:
		size = 4200 + w.rnd.IntN(6000) // in the value log
	}
	text := fmt.Sprintf("%s of update %d,", key, w.n)
	return strings.Repeat(text, 1+size/len(text))
}

// take copies the directory as it is now.
func (w *folderWriter) take(state string) *folder {
	w.Helper()
	f := &folder{dir: w.TempDir(), state: state, rows: map[string]string{}, history: map[string][]string{}}
	if err := os.CopyFS(f.dir, os.DirFS(w.cfg.Dir)); err != nil {
		w.Fatal(err)
	}
	for key, value := range w.rows {
		f.rows[key] = value
	}
	for key, values := range w.history {
		f.history[key] = slices.Clone(values)
	}
	f.findHomes(w)
	return f
}

// account writes the account, as it is written once a second.
func (w *folderWriter) account() {
	w.Helper()
	if err := w.db.keeper.tick(); err != nil {
		w.Fatal(err)
	}
}

// newFolders makes folders as a clean stop and as crashes leave them.
func newFolders(t testing.TB, seed uint64) (list []*folder) {
	cfg := testConfig(t.TempDir())
	cfg.ValueLogFile, cfg.accountEvery = 1<<20, 1<<40
	w := &folderWriter{TB: t, rnd: rand.New(rand.NewPCG(seed, 1)), cfg: cfg, rows: map[string]string{}, history: map[string][]string{}}
	w.open()
	w.write(30)
	w.account()
	list = append(list, w.take("crash, all in the first log"))
	w.write(15)
	list = append(list, w.take("crash after the last account"))
	w.close()
	list = append(list, w.take("clean stop, one table"))
	w.open()
	w.write(900)
	w.account()
	list = append(list, w.take("crash, tables and logs"))
	w.close()
	w.open()
	w.write(200)
	if err := w.db.Compact(); err != nil {
		t.Fatal(err)
	}
	w.write(40)
	w.account()
	list = append(list, w.take("crash after a compaction"))
	w.close()
	list = append(list, w.take("clean stop, tables of several levels"))
	return list
}

// findHomes reads the files of a folder without badger.
func (f *folder) findHomes(t testing.TB) {
	f.homes = map[string]*home{}
	var m manifest
	b, err := os.ReadFile(filepath.Join(f.dir, manifestName))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.read(b); err != nil {
		t.Fatal(err)
	}
	for id := range m.tables {
		name := fmt.Sprintf("%06d.sst", id)
		b, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		blocks, _, _ := readTable(b, true)
		for _, block := range blocks {
			eachEntry(block, func(key []byte, v y.ValueStruct) { f.at(name, key, v.Meta, v.Value) })
		}
	}
	for _, name := range globbed(f.dir, "*.mem") {
		b, err := os.ReadFile(filepath.Join(f.dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for at := logHeader; ; {
			r, ok := recordAt(b, at)
			if !ok {
				break
			}
			at = r.end
			f.at(name, r.key, r.meta, r.val)
		}
	}
}

func (f *folder) at(file string, key []byte, meta byte, value []byte) {
	name, version := string(y.ParseKey(key)), y.ParseTs(key)
	h := f.homes[name]
	if h == nil || version > h.version {
		h = &home{version: version, deleted: meta&metaDelete != 0}
		f.homes[name] = h
	}
	if version < h.version {
		return
	}
	files := []string{file}
	if meta&metaPointer != 0 {
		log := fmt.Sprintf("%06d.vlog", binary.NativeEndian.Uint32(value))
		if files = append(files, log); len(globbed(f.dir, log)) == 0 {
			return // it has been collected, and another copy points to where the value is now
		}
	}
	h.copies = append(h.copies, files)
}

// survives reports whether a copy of the newest version of a record is in files that are
// not damaged.
func (f *folder) survives(key string, damaged []string) bool {
	h := f.homes[key]
	if h == nil {
		return true // it was deleted, and nothing is left of it
	}
	return slices.ContainsFunc(h.copies, func(files []string) bool {
		return !slices.ContainsFunc(files, func(name string) bool { return slices.Contains(damaged, name) })
	})
}

// damageOnce damages a random file of a directory, and says how.
func damageOnce(rnd *rand.Rand, dir string) (name, what string, err error) {
	var names []string
	for _, e := range must(os.ReadDir(dir)) {
		if !e.IsDir() {
			names = append(names, e.Name())
		}
	}
	name = names[rnd.IntN(len(names))]
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		return name, "", err
	}
	used := len(trimZeros(b))
	kind := rnd.IntN(6)
	if used == 0 {
		kind = 1
	}
	switch kind {
	case 0:
		return name, "deleted", os.Remove(path)
	case 1:
		return name, "emptied", os.Truncate(path, 0)
	case 2:
		n := rnd.IntN(used)
		return name, fmt.Sprintf("cut to %d of %d (%d)", n, len(b), used), os.Truncate(path, int64(n))
	case 3:
		from := rnd.IntN(used)
		clear(b[from:])
		what = fmt.Sprintf("zeros from %d of %d (%d) on", from, len(b), used)
	case 4:
		clear(b)
		what = "all zeros"
	default:
		at := rnd.IntN(used)
		b[at] ^= 1 << rnd.IntN(8)
		what = fmt.Sprintf("a bit of byte %d of %d (%d)", at, len(b), used)
	}
	return name, what, os.WriteFile(path, b, 0o600)
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// damageTest is one damaged folder.
type damageTest struct {
	*testing.T
	*folder
	cfg     Config
	damaged []string
	what    string
}

// TestDamagedFolders damages files of folders at random. A damaged folder opens with
// everything; or is refused with ErrDamaged; or opens and says that something may be lost,
// or reading what is lost is an error. A value is never wrong, and a record never missing
// without a word. Repair then brings back every record that is in files without damage.
func TestDamagedFolders(t *testing.T) {
	const perSeed = 60
	outcomes := map[string]int{}
	var folders []*folder
	for round := range damagedFolders(40) {
		if round%perSeed == 0 {
			folders = newFolders(t, uint64(round))
		}
		rnd := rand.New(rand.NewPCG(uint64(round), 2))
		c := &damageTest{T: t, folder: folders[rnd.IntN(len(folders))]}
		dir := filepath.Join(t.TempDir(), "db")
		c.cfg = testConfig(dir)
		if err := os.CopyFS(dir, os.DirFS(c.dir)); err != nil {
			t.Fatal(err)
		}
		for range 1 + rnd.IntN(5)/4 {
			name, what, err := damageOnce(rnd, dir)
			if err != nil {
				t.Fatal(err)
			}
			c.damaged = append(c.damaged, name)
			c.what += name + " " + what + "; "
		}
		outcome := c.run()
		outcomes[outcome]++
		if t.Failed() {
			t.Fatalf("round %d: %s (%s): %s", round, c.what, c.state, outcome)
		}
		if err := os.RemoveAll(filepath.Dir(dir)); err != nil {
			t.Fatal(err)
		}
	}
	t.Log(outcomes)
}

// run opens the folder, and repairs it if it is refused.
func (c *damageTest) run() (outcome string) {
	d, err := Open(c.cfg)
	switch {
	case errors.Is(err, ErrDamaged):
		c.checkRepaired()
		return "refused and repaired"
	case err != nil:
		c.Errorf("opening: %v", err)
		return "error"
	}
	defer func() {
		if err := d.Close(); err != nil {
			c.Errorf("closing: %v", err)
		}
	}()
	reported := len(d.Doubts()) > 0 || len(d.Damage()) > 0
	missing, errs := 0, 0
	for key := range c.history {
		got, err := read(d, key)
		switch want := c.rows[key]; {
		case err != nil && errors.Is(err, ErrCorrupt):
			errs++
		case err != nil:
			c.Errorf("%s: %v", key, err)
		case got == want:
		case got != "" && !slices.Contains(c.history[key], got):
			c.Errorf("%s = %.40q was never written", key, got)
		default:
			missing++
		}
	}
	n := 0
	err = d.View(func(r *Reader) error {
		return r.Scan(Range{Prefix: []byte("k")}, func(_, _ []byte) bool { n++; return true })
	})
	switch {
	case missing > 0 && !reported:
		c.Errorf("%d records are not what was acknowledged, and nothing says so", missing)
	case errs > 0 && err == nil:
		c.Errorf("%d records cannot be read, and a scan has no error", errs)
	case errs == 0 && missing == 0 && (err != nil || n != len(c.rows)):
		c.Errorf("a scan finds %d of %d: %v", n, len(c.rows), err)
	}
	switch {
	case errs > 0:
		return "opened, with errors on reading"
	case missing > 0:
		return "opened, loss reported"
	case reported:
		return "opened, nothing lost, possible loss reported"
	}
	return "opened, nothing lost"
}

// read is the value of a key; "" if there is none.
func read(d *DB, key string) (value string, err error) {
	err = d.View(func(r *Reader) error {
		v, err := r.Get([]byte(key))
		value = string(v)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return "", nil
	}
	return value, err
}

// checkRepaired repairs the folder and looks for what was in files without damage.
func (c *damageTest) checkRepaired() {
	rep, err := Repair(c.cfg)
	if err != nil {
		c.Errorf("repair: %v", err)
		return
	}
	d, err := Open(c.cfg)
	if err != nil {
		c.Errorf("opening after repair: %v", err)
		return
	}
	rows := 0
	for key := range c.history {
		got, err := read(d, key)
		if got != "" {
			rows++
		}
		switch want := c.rows[key]; {
		case err != nil:
			c.Errorf("after repair: %s: %v", key, err)
		case got == want:
		case c.survives(key, c.damaged):
			c.Errorf("after repair: %s = %.40q, want %.40q from %v", key, got, want, c.homes[key])
		case got != "" && !slices.Contains(c.history[key], got):
			c.Errorf("after repair: %s = %.40q was never written", key, got)
		}
	}
	if rows != rep.Rows || len(rep.Faults) == 0 || rep.Aside == "" {
		c.Errorf("repair says %+v; there are %d records", rep, rows)
	}
	if err := d.Close(); err != nil {
		c.Error(err)
	}
	if err := fs.WalkDir(os.DirFS(rep.Aside), ".", func(string, fs.DirEntry, error) error { return nil }); err != nil {
		c.Error(err)
	}
}

// TestRepairFindsBlocksWithoutIndex: a table without its index still has its records.
func TestRepairFindsBlocksWithoutIndex(t *testing.T) {
	c := newTableTest(t)
	blocks, _, ok := readTable(c.whole, true)
	found, _ := findBlocks(c.whole)
	if !ok || len(found) < len(blocks) {
		t.Fatalf("%d blocks of %d", len(found), len(blocks))
	}
	for i, block := range blocks {
		if !bytes.Equal(found[i], block) {
			t.Errorf("block %d differs", i)
		}
	}
}
