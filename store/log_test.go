package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4/y"
)

// replay is what badger takes from the log of a memtable. It is a reference implementation
// of logFile.iterate in memtable.go there.
func replay(b []byte) map[string]string {
	out, pending := map[string]string{}, map[string]string{}
	apply := func(m map[string]string, r record) {
		key := string(y.ParseKey(r.key))
		if r.meta&metaDelete != 0 {
			m[key] = "\x00deleted"
			return
		}
		m[key] = string(r.val)
	}
	var txn uint64
	for at := logHeader; ; {
		r, ok := recordAt(b, at)
		if !ok {
			return out
		}
		at = r.end
		switch {
		case r.meta&metaTxn != 0:
			if txn == 0 {
				txn = r.txn()
			}
			if txn != r.txn() {
				return out
			}
			apply(pending, r)
		case r.meta&metaEnd != 0:
			n, err := strconv.ParseUint(string(r.val), 10, 64)
			if err != nil || n != txn {
				return out
			}
			maps.Copy(out, pending)
			clear(pending)
			txn = 0
		default:
			if txn != 0 {
				return out
			}
			apply(out, r)
		}
	}
}

func mend(b []byte) []byte {
	b = bytes.Clone(b)
	for _, p := range inspect(b, true).patches {
		copy(b[p.at:], p.filler)
	}
	return b
}

// crashed returns the directory of a database that was killed, and its contents.
func crashed(t testing.TB, cfg Config, updates int) (dir string, want map[string]string) {
	t.Helper()
	d := open(t, cfg)
	want = map[string]string{}
	for i := range updates {
		if err := d.Update(context.Background(), func(tx *Tx) error {
			for j := range 1 + i%3 {
				k, v := fmt.Sprintf("key %d/%d", i, j), strings.Repeat("v", i*j*7)+strconv.Itoa(i)
				tx.Set([]byte(k), []byte(v))
				want[k] = v
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	return dir, want
}

func onlyLog(t testing.TB, dir string) string {
	t.Helper()
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	return logs[0]
}

// logOf is the log of a database that was killed: its bytes with some room after the last
// record, where the records end, and what badger replays from it.
func logOf(t *testing.T, updates int) (b []byte, end int, whole map[string]string) {
	t.Helper()
	dir, _ := crashed(t, testConfig(t.TempDir()), updates)
	b, err := os.ReadFile(onlyLog(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	end = len(trimZeros(b))
	return b[:end+4096], end, replay(b)
}

// owners are the keys of the records that the bytes of a log belong to. It is "" for bytes
// of the header and of records that end a transaction.
func owners(t *testing.T, b []byte, end int) []string {
	t.Helper()
	owner := make([]string, end)
	for at := logHeader; at < end; {
		r, ok := recordAt(b, at)
		if !ok {
			t.Fatalf("no record at %d", at)
		}
		for ; at < r.end; at++ {
			if r.meta&metaTxn != 0 {
				owner[at] = string(y.ParseKey(r.key))
			}
		}
	}
	return owner
}

// withoutFillers deletes the keys of filler records.
func withoutFillers(m map[string]string) map[string]string {
	for pad := range 3 {
		delete(m, fillerKey+"..."[:pad])
	}
	return m
}

// TestOneBadByteCostsOneRecord: every byte of a log, changed in turn, costs no record but
// its own. badger alone would drop all records that follow.
func TestOneBadByteCostsOneRecord(t *testing.T) {
	b, end, whole := logOf(t, 12)
	if p := inspect(b, true).patches; p != nil {
		t.Fatalf("damage in a healthy log: %+v", p)
	}
	owner := owners(t, b, end)
	lost := 0
	for i := range end {
		want := maps.Clone(whole)
		delete(want, owner[i])
		for _, flip := range []byte{1, 0x40, 0xff} {
			bad := bytes.Clone(b)
			bad[i] ^= flip
			if i >= logHeader {
				lost += len(whole) - len(replay(bad))
			}
			if got := withoutFillers(replay(mend(bad))); !maps.Equal(got, want) {
				t.Fatalf("byte %d of %d (record of %q) with %#x: %d records left, want %d", i, end, owner[i], flip, len(got), len(want))
			}
		}
	}
	if lost < 10*end {
		t.Errorf("without repair only %d records are lost: the test shows nothing", lost)
	}
}

// touched is how many records, of those that do not end a transaction, have bytes in a
// range.
func touched(b []byte, from, to, end int) (n int) {
	for at := logHeader; at < end; {
		r, _ := recordAt(b, at)
		if at < to && r.end > from && r.meta&metaTxn != 0 {
			n++
		}
		at = r.end
	}
	return n
}

// TestLargerDamage: a run of bytes that were overwritten costs no more than the records
// that it touches.
func TestLargerDamage(t *testing.T) {
	b, end, whole := logOf(t, 30)
	for _, with := range []byte{0, 0x40, 0x80, 0xff} {
		for at := logHeader; at < end; at += 13 {
			for _, n := range []int{2, 37, 300} {
				bad := bytes.Clone(b)
				copy(bad[at:min(at+n, end)], bytes.Repeat([]byte{with}, n))
				kept := 0
				for k, v := range withoutFillers(replay(mend(bad))) {
					if whole[k] != v {
						t.Fatalf("%q = %q was never written", k, v)
					}
					kept++
				}
				// At the very end nothing distinguishes damage from a record that a crash has cut off.
				if lost := len(whole) - kept; lost > touched(b, at, at+n, end) && at+n < end-40 {
					t.Fatalf("%d bytes %#x at %d of %d: %d of %d records are lost", n, with, at, end, lost, len(whole))
				}
			}
		}
	}
}

// TestCutOffTransaction: a record that a crash has cut off is not damage, and no reason to
// keep half of its transaction.
func TestCutOffTransaction(t *testing.T) {
	b, end, _ := logOf(t, 9)
	for cut := logHeader; cut < end; cut++ {
		torn := bytes.Clone(b[:end+64])
		clear(torn[cut:])
		p := inspect(torn, true).patches
		if len(p) == 0 {
			continue
		}
		// Only a cut in the record that ends a transaction may be bridged.
		if len(p) > 1 || b[p[0].at] != metaEnd {
			t.Fatalf("cut at %d: %+v", cut, p)
		}
	}
}

// TestLeadingAndTrailingZeros: runs of zeros are found to the byte, also across chunks.
func TestLeadingAndTrailingZeros(t *testing.T) {
	for _, n := range []int{0, 1, 7, zeroChunk - 1, zeroChunk, zeroChunk + 1, 3*zeroChunk + 5} {
		zeros := make([]byte, n)
		if got := leadingZeros(append(bytes.Clone(zeros), 1, 0)); got != n {
			t.Errorf("%d zeros before a byte: %d", n, got)
		}
		if got := leadingZeros(zeros); got != n {
			t.Errorf("%d zeros: %d", n, got)
		}
		if got := len(trimZeros(append([]byte{0, 1}, zeros...))); got != 2 {
			t.Errorf("%d zeros after two bytes: %d are left", n, got)
		}
		if got := len(trimZeros(zeros)); got != 0 {
			t.Errorf("%d zeros: %d are left", n, got)
		}
	}
}

// TestDamagedLog: a log that has lost a record is refused. Repair brings back all others, and
// keeps the log as it was.
func TestDamagedLog(t *testing.T) {
	cfg := testConfig(t.TempDir())
	dir, want := crashed(t, cfg, 20)
	log := onlyLog(t, dir)
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("key 10/1"))
	b[at+3] ^= 1
	if err := os.WriteFile(log, b, 0o600); err != nil {
		t.Fatal(err)
	}
	// A crash between two system calls leaves this. badger would not open the directory.
	if err := os.WriteFile(filepath.Join(dir, "00099.mem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = dir
	if _, err := Open(cfg); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), filepath.Base(log)) {
		t.Fatalf("opening: %v", err)
	}
	rep, err := Repair(cfg)
	if err != nil || rep.Rows != len(want)-1 || len(rep.Lost) != 1 {
		t.Fatalf("repair: %+v, %v", rep, err)
	}
	kept, err := os.ReadFile(filepath.Join(rep.Aside, filepath.Base(log)))
	if err != nil || !bytes.Equal(kept, b) {
		t.Errorf("the copy: %v", err)
	}
	d := open(t, cfg)
	for k, v := range want {
		if got := get(t, d, k); k == "key 10/1" && got != "-" || k != "key 10/1" && got != v {
			t.Errorf("%s = %q, want %q", k, got, v)
		}
	}
}

// TestOpensDamagedValueLog: badger would cut off the newest value log in the same way.
func TestOpensDamagedValueLog(t *testing.T) {
	cfg := testConfig(t.TempDir())
	d := open(t, cfg)
	value := func(i int) string { return strings.Repeat(strconv.Itoa(i%10), int(cfg.ValueThreshold)) }
	for i := range 10 {
		set(t, d, fmt.Sprint("k", i), value(i))
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "*.vlog"))
	b, err := os.ReadFile(logs[len(logs)-1])
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(b, []byte("444444"))
	b[at+2] = 'x'
	if err := os.WriteFile(logs[len(logs)-1], b, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = dir
	d = open(t, cfg)
	if len(d.Damage()) != 1 {
		t.Errorf("damage: %v", d.Damage())
	}
	for i := range 10 {
		if i == 4 {
			err := d.View(func(r *Reader) error { _, err := r.Get([]byte("k4")); return err })
			if err == nil {
				t.Error("the damaged value was read")
			}
			continue
		}
		if got := get(t, d, fmt.Sprint("k", i)); got != value(i) {
			t.Errorf("k%d = %.10q", i, got)
		}
	}
	rows, damaged := 0, 0
	scan := func(rg Range) error {
		rows = 0
		return d.View(func(r *Reader) error { return r.Scan(rg, func(_, _ []byte) bool { rows++; return true }) })
	}
	if err := scan(Range{Prefix: []byte("k")}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("a scan over a damaged value: %v", err)
	}
	if err := scan(Range{Prefix: []byte("k"), Damaged: func([]byte, error) { damaged++ }}); err != nil || rows != 9 || damaged != 1 {
		t.Errorf("%d rows of 9, %d damaged: %v", rows, damaged, err)
	}
	if d.Stats().Corrupt == 0 {
		t.Error("nothing was counted")
	}
}

func FuzzInspect(f *testing.F) {
	key := y.KeyWithTs([]byte("k"), 7)
	whole := appendRecord(make([]byte, logHeader), metaTxn, key, []byte("value"))
	whole = append(whole, endOf(7, 0)...)
	f.Add(whole, true)
	f.Add(append(bytes.Clone(whole), whole[logHeader:]...), true)
	f.Add(bytes.Repeat([]byte{0x40, 0, 9, 1, 0}, 40), false)
	f.Fuzz(func(t *testing.T, b []byte, wal bool) {
		for _, p := range inspect(b, wal).patches {
			if p.at < 0 || len(p.filler) < p.length || p.at+len(p.filler) > len(b) {
				t.Fatalf("%+v of %d bytes", p, len(b))
			}
		}
	})
}

// tableTest is a database with one table, of which a byte is changed.
type tableTest struct {
	*testing.T
	cfg    Config
	name   string // of the table
	whole  []byte
	values map[string]string
}

func newTableTest(t *testing.T) *tableTest {
	c := &tableTest{T: t, cfg: testConfig(t.TempDir()), values: map[string]string{}}
	d := open(t, c.cfg)
	for i := range 300 {
		c.values[fmt.Sprintf("key%03d", i)] = strings.Repeat(strconv.Itoa(i), 20)
	}
	if err := d.Update(t.Context(), func(tx *Tx) error {
		for k, v := range c.values {
			tx.Set([]byte(k), []byte(v))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	tables := globbed(c.cfg.Dir, "*.sst")
	if len(tables) != 1 {
		t.Fatal(tables)
	}
	c.name = tables[0]
	var err error
	if c.whole, err = os.ReadFile(filepath.Join(c.cfg.Dir, c.name)); err != nil {
		t.Fatal(err)
	}
	return c
}

// repaired repairs a copy of the database in which a byte of the table is changed, and
// returns what is in it.
func (c *tableTest) repaired(at int) (found []string) {
	c.Helper()
	broken := c.cfg
	broken.Dir = filepath.Join(c.TempDir(), "db")
	if err := os.CopyFS(broken.Dir, os.DirFS(c.cfg.Dir)); err != nil {
		c.Fatal(err)
	}
	bad := bytes.Clone(c.whole)
	bad[at] ^= 0x10
	if err := os.WriteFile(filepath.Join(broken.Dir, c.name), bad, 0o600); err != nil {
		c.Fatal(err)
	}
	if _, err := Open(broken); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), c.name) {
		c.Errorf("byte %d: opening: %v", at, err)
	}
	if _, err := Repair(broken); err != nil {
		c.Fatalf("byte %d: repair: %v", at, err)
	}
	d := open(c, broken)
	found = all(c, d, Range{Prefix: []byte("key")})
	for _, kv := range found {
		if k, v, _ := strings.Cut(kv, "="); c.values[k] != v {
			c.Errorf("byte %d: %s is %.20q", at, k, v)
		}
	}
	return found
}

// TestDamagedTables: a bad byte in a table is found wherever it is. Repair reads nothing
// wrong, and loses no more than the block with that byte.
func TestDamagedTables(t *testing.T) {
	c := newTableTest(t)
	end := len(c.whole)
	at := []int{end - 1, end - 3, end - 6, end - 11}
	for i := range 10 {
		at = append(at, i*end/10)
	}
	whole := 0
	for _, at := range at {
		lost := len(c.values) - len(c.repaired(at))
		if lost > 70 { // a block has 4 KiB
			t.Errorf("byte %d: %d of %d records are lost", at, lost, len(c.values))
		}
		if lost == 0 {
			whole++
		}
	}
	if whole < 4 || whole > 7 {
		t.Errorf("%d of %d bytes cost nothing; those of the index do", whole, len(at))
	}
}

func FuzzTable(f *testing.F) {
	block := []byte("\x00\x00\x09\x00k\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00value")
	block = append(binary.NativeEndian.AppendUint32(block, 0), 0, 0, 0, 1)
	f.Add(block)
	f.Fuzz(func(t *testing.T, b []byte) {
		eachEntry(b, func([]byte, y.ValueStruct) {})
		cutSealed(b)
		if index, ok := indexOf(b); ok {
			index.OffsetsLength()
		}
	})
}
