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

// replay is what badger takes from a log of transactions: its logFile.iterate,
// without its speed.
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
	for _, p := range inspect(b, true) {
		copy(b[p.at:], p.filler)
	}
	return b
}

// crashed is the directory of a database that was killed, with its keys and values.
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

// Every byte of a log, flipped in turn, costs no other record than its own
// (decision 13: badger would drop all that come behind).
func TestOneBadByteCostsOneRecord(t *testing.T) {
	dir, _ := crashed(t, testConfig(t.TempDir()), 12)
	b, err := os.ReadFile(onlyLog(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	whole := replay(b)
	end := len(bytes.TrimRight(b, "\x00"))
	b = b[:end+4096]
	if p := inspect(b, true); p != nil {
		t.Fatalf("damage in a healthy log: %+v", p)
	}
	owner := make([]string, end) // of each byte: the key of its record
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
	lost := 0
	for i := range end {
		for _, flip := range []byte{1, 0x40, 0xff} {
			bad := bytes.Clone(b)
			bad[i] ^= flip
			if i >= logHeader {
				lost += len(whole) - len(replay(bad))
			}
			got := replay(mend(bad))
			delete(got, fillerKey)
			for pad := range 3 {
				delete(got, fillerKey+"..."[:pad])
			}
			want := maps.Clone(whole)
			if i < 8 {
				want = whole
			} else if owner[i] != "" {
				delete(want, owner[i])
			}
			if !maps.Equal(got, want) {
				t.Fatalf("byte %d of %d (record of %q) with %#x: %d records left, want %d", i, end, owner[i], flip, len(got), len(want))
			}
		}
	}
	if lost < 10*end {
		t.Errorf("badger alone loses only %d records: the test tests nothing", lost)
	}
}

// The same with larger damage: a run of bytes overwritten.
func TestLargerDamage(t *testing.T) {
	dir, _ := crashed(t, testConfig(t.TempDir()), 30)
	b, err := os.ReadFile(onlyLog(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	whole := replay(b)
	end := len(bytes.TrimRight(b, "\x00"))
	b = b[:end+4096]
	for _, with := range []byte{0, 0x40, 0x80, 0xff} {
		for at := logHeader; at < end; at += 13 {
			for _, n := range []int{2, 37, 300} {
				bad := bytes.Clone(b)
				touched := 0
				for i := at; i < min(at+n, end); i++ {
					bad[i] = with
				}
				for o := logHeader; o < end; {
					r, _ := recordAt(b, o)
					if o < at+n && r.end > at && r.meta&metaTxn != 0 {
						touched++
					}
					o = r.end
				}
				got := replay(mend(bad))
				kept := 0
				for k, v := range got {
					if whole[k] == v {
						kept++
					} else if !strings.HasPrefix(k, fillerKey) {
						t.Fatalf("%q = %q was never written", k, v)
					}
				}
				// At the very end nothing tells damage from a record cut off by a crash.
				if kept < len(whole)-touched && at+n < end-40 {
					t.Fatalf("%d bytes %#x at %d of %d: %d of %d records left, %d touched", n, with, at, end, kept, len(whole), touched)
				}
			}
		}
	}
}

// A record that a crash cut off is no damage, and no reason to keep half of its
// transaction.
func TestCutOffTransaction(t *testing.T) {
	dir, _ := crashed(t, testConfig(t.TempDir()), 9)
	b, err := os.ReadFile(onlyLog(t, dir))
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(b, "\x00"))
	for cut := logHeader; cut < end; cut++ {
		torn := bytes.Clone(b[:end+64])
		clear(torn[cut:])
		p := inspect(torn, true)
		if len(p) == 0 {
			continue
		}
		// Only a cut within a transaction's last record may be bridged.
		if len(p) > 1 || b[p[0].at] != metaEnd {
			t.Fatalf("cut at %d: %+v", cut, p)
		}
	}
}

// The database opens, says what it found, and keeps a copy.
func TestOpensDamagedLogs(t *testing.T) {
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
	// What a crash between two system calls leaves behind; badger would not open.
	if err := os.WriteFile(filepath.Join(dir, "00099.mem"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = dir
	d := open(t, cfg)
	damage := d.Damage()
	if len(damage) != 1 || damage[0].Offset > at || damage[0].Offset+damage[0].Length <= at {
		t.Fatalf("damage: %v", damage)
	}
	kept, err := os.ReadFile(damage[0].Copy)
	if err != nil || !bytes.Equal(kept, bytes.TrimRight(b, "\x00")) {
		t.Errorf("the copy: %v", err)
	}
	for k, v := range want {
		if got := get(t, d, k); k == "key 10/1" && got != "-" || k != "key 10/1" && got != v {
			t.Errorf("%s = %q, want %q", k, got, v)
		}
	}
}

// The newest file of the value log is cut off in the same way.
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
	if got := len(all(t, d, Range{Prefix: []byte("k")})); got != 9 {
		t.Errorf("%d rows of 9", got)
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
		for _, p := range inspect(b, wal) {
			if p.at < 0 || len(p.filler) < p.length || p.at+len(p.filler) > len(b) {
				t.Fatalf("%+v of %d bytes", p, len(b))
			}
		}
	})
}

// A bad byte in a table is found, wherever it is; nothing wrong is read, and what
// the damage does not touch still is, unless the table's index is what it hit.
func TestDamagedTables(t *testing.T) {
	cfg := testConfig(t.TempDir())
	d := open(t, cfg)
	want := map[string]string{}
	for i := range 300 {
		k, v := fmt.Sprintf("key%03d", i), strings.Repeat(strconv.Itoa(i), 20)
		set(t, d, k, v)
		want[k] = v
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	tables, err := filepath.Glob(filepath.Join(cfg.Dir, "*.sst"))
	if err != nil || len(tables) != 1 {
		t.Fatal(tables, err)
	}
	whole, err := os.ReadFile(tables[0])
	if err != nil {
		t.Fatal(err)
	}
	refused, mended := 0, 0
	at := []int{len(whole) - 1, len(whole) - 3, len(whole) - 6, len(whole) - 11}
	for i := range 30 {
		at = append(at, i*len(whole)/30)
	}
	for _, at := range at {
		broken := cfg
		broken.Dir = t.TempDir()
		if err := os.CopyFS(broken.Dir, os.DirFS(cfg.Dir)); err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(whole)
		bad[at] ^= 0x10
		if err := os.WriteFile(filepath.Join(broken.Dir, filepath.Base(tables[0])), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := Open(broken)
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("byte %d: %v", at, err)
			}
			refused++
			continue
		}
		if len(d.Damage()) != 1 {
			t.Errorf("byte %d: damage %v", at, d.Damage())
		}
		mended++
		found := 0
		if err := d.View(func(r *Reader) error {
			return r.Scan(Range{Prefix: []byte("key")}, func(k, v []byte) bool {
				if want[string(k)] != string(v) {
					t.Errorf("byte %d: %s is %.20q", at, k, v)
				}
				found++
				return true
			})
		}); err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
		if lost := len(want) - found; lost < 1 || lost > 70 { // a block has 4 KiB
			t.Errorf("byte %d: %d of %d records are lost", at, lost, len(want))
		}
		set(t, d, "more", "x")
		if err := d.Close(); err != nil {
			t.Errorf("byte %d: %v", at, err)
		}
	}
	if mended < 25 || refused < 4 {
		t.Errorf("%d times mended, %d times refused", mended, refused)
	}
}

func FuzzTable(f *testing.F) {
	block := []byte("\x00\x00\x09\x00k\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00value")
	block = append(binary.NativeEndian.AppendUint32(block, 0), 0, 0, 0, 1)
	f.Add(block)
	f.Fuzz(func(t *testing.T, b []byte) {
		rebuild([][]byte{b})
		cutSealed(b)
		if index, ok := indexOf(b); ok {
			index.OffsetsLength()
		}
	})
}
