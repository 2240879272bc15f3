package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	badger "github.com/dgraph-io/badger/v4"
)

// testConfig has files so small that a test fills several of them.
func testConfig(dir string) Config {
	c := DefaultConfig(dir)
	c.MemTable, c.ValueThreshold, c.ValueLogFile = 1<<20, 4<<10, 8<<20
	c.MinFree, c.MaintainEvery = 0, 0
	c.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	return c
}

// open opens a database that is closed when the test ends.
func open(t testing.TB, cfg Config) *DB {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func set(t testing.TB, d *DB, key, value string) {
	t.Helper()
	if err := d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte(key), []byte(value)); return nil }); err != nil {
		t.Fatal(err)
	}
}

// get is the value of key; "-" if there is none.
func get(t testing.TB, d *DB, key string) (value string) {
	t.Helper()
	err := d.View(func(r *Reader) error {
		v, err := r.Get([]byte(key))
		value = string(v)
		return err
	})
	if errors.Is(err, ErrNotFound) {
		return "-"
	}
	if err != nil {
		t.Fatal(err)
	}
	return value
}

// all returns the keys and values of a range, as key=value.
func all(t testing.TB, d *DB, rg Range) (out []string) {
	t.Helper()
	if err := d.View(func(r *Reader) error {
		return r.Scan(rg, func(k, v []byte) bool {
			out = append(out, string(k)+"="+string(v))
			return true
		})
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

// waitForOpen waits for a database that is being opened again.
func waitForOpen(d *DB) {
	for d.Err() != nil {
		runtime.Gosched()
	}
}

// globbed is the names of files that match a pattern.
func globbed(dir, pattern string) (names []string) {
	paths, _ := filepath.Glob(filepath.Join(dir, pattern))
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	return names
}

// TestReadsAndWrites goes through all that readers and updates can do, and through their errors.
func TestReadsAndWrites(t *testing.T) {
	dir := t.TempDir()
	d := open(t, testConfig(dir))
	big := string(bytes.Repeat([]byte("0123456789abcdef"), 1<<12)) // 64 KiB: in the value log
	set(t, d, "a1", "one")
	set(t, d, "a2", big)
	set(t, d, "a3", "")
	set(t, d, "b1", "other")
	set(t, d, "a1", "two")
	for k, want := range map[string]string{"a1": "two", "a2": big, "a3": "", "b1": "other", "a": "-"} {
		if got := get(t, d, k); got != want {
			t.Errorf("%s = %.20q", k, got)
		}
	}
	for _, c := range []struct {
		rg   Range
		want string
	}{
		{Range{Prefix: []byte("a"), Keys: true}, "[a1= a2= a3=]"},
		{Range{Prefix: []byte("a"), Keys: true, Reverse: true}, "[a3= a2= a1=]"},
		{Range{Prefix: []byte("a"), From: []byte("a2"), Keys: true}, "[a2= a3=]"},
		{Range{Prefix: []byte("a"), From: []byte("a2"), Keys: true, Reverse: true}, "[a2= a1=]"},
		{Range{Prefix: []byte("b")}, "[b1=other]"},
		{Range{Prefix: []byte("c")}, "[]"},
	} {
		if got := fmt.Sprint(all(t, d, c.rg)); got != c.want {
			t.Errorf("%q: %s", c.rg.Prefix, got)
		}
	}
	err := d.Update(context.Background(), func(tx *Tx) error {
		tx.Delete([]byte("a1"))
		tx.Delete([]byte("nothing"))
		if _, err := tx.Get([]byte("a1")); err != nil {
			t.Errorf("an update sees its own deletion: %v", err)
		}
		return nil
	})
	if err != nil || get(t, d, "a1") != "-" {
		t.Errorf("deletion: %v", err)
	}
	boom := errors.New("boom")
	if err := d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte("x"), nil); return boom }); err != boom || get(t, d, "x") != "-" {
		t.Errorf("a failed update: %v", err)
	}
	if err := d.Update(context.Background(), func(tx *Tx) error { panic("boom") }); err == nil {
		t.Error("a panic is no error")
	}
	for _, key := range []string{"", "\x00k", "!badger!x", string(make([]byte, maxKey+1))} {
		if err := d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte(key), nil); return nil }); !errors.Is(err, ErrTooLarge) {
			t.Errorf("key %.10q: %v", key, err)
		}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if err := d.Update(gone, func(tx *Tx) error { t.Error("ran"); return nil }); err != context.Canceled {
		t.Errorf("an update whose context has ended: %v", err)
	}
	if _, err := Open(testConfig(dir)); !errors.Is(err, ErrLocked) {
		t.Errorf("a second process: %v", err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if err := d.Update(context.Background(), func(*Tx) error { return nil }); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	if err := d.View(func(*Reader) error { return nil }); err != ErrClosed {
		t.Errorf("after Close: %v", err)
	}
	d = open(t, testConfig(dir))
	if got := get(t, d, "a2"); got != big {
		t.Errorf("after opening again: %.20q", got)
	}
	if m := d.Damage(); m != nil {
		t.Errorf("damage in a healthy database: %v", m)
	}
}

// TestGroupCommit: one commit serves all updates that wait for it, and every update sees those
// before it.
func TestGroupCommit(t *testing.T) {
	d := open(t, testConfig(t.TempDir()))
	block, blocked := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		_ = d.Update(context.Background(), func(*Tx) error { close(blocked); <-block; return nil })
	})
	<-blocked
	const n = 200
	for range n {
		wg.Go(func() {
			err := d.Update(context.Background(), func(tx *Tx) error {
				v, err := tx.Get([]byte("n"))
				if err != nil && !errors.Is(err, ErrNotFound) {
					return err
				}
				tx.Set([]byte("n"), append(v, 'x'))
				return nil
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for d.Stats().Waiting < n {
	}
	before := d.Stats().Commits
	close(block)
	wg.Wait()
	if got := len(get(t, d, "n")); got != n {
		t.Errorf("%d of %d updates", got, n)
	}
	if c := d.Stats().Commits - before; c != 1 {
		t.Errorf("%d commits", c)
	}
}

// TestQueueIsBounded: when Config.MaxQueue updates wait, another gets ErrBusy.
func TestQueueIsBounded(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.MaxQueue = 2
	d := open(t, cfg)
	block, blocked := make(chan struct{}), make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() { _ = d.Update(context.Background(), func(*Tx) error { close(blocked); <-block; return nil }) })
	<-blocked
	for range 2 {
		wg.Go(func() {
			if err := d.Update(context.Background(), func(*Tx) error { return nil }); err != nil {
				t.Error(err)
			}
		})
	}
	for d.Stats().Waiting < 2 {
	}
	if err := d.Update(context.Background(), func(*Tx) error { return nil }); !errors.Is(err, ErrBusy) {
		t.Errorf("full: %v", err)
	}
	close(block)
	wg.Wait()
}

// TestLargeUpdates: an update that is larger than a transaction is whole as well.
func TestLargeUpdates(t *testing.T) {
	cfg := testConfig(t.TempDir())
	cfg.MaxUpdate = 8 << 20
	d := open(t, cfg)
	rnd := rand.New(rand.NewPCG(1, 2))
	want := map[string]string{}
	err := d.Update(context.Background(), func(tx *Tx) error {
		tx.Delete([]byte("before"))
		for i := range 3000 {
			v := make([]byte, rnd.IntN(2000))
			for j := range v {
				v[j] = byte(rnd.Uint32())
			}
			k := fmt.Sprintf("k%04d", i)
			tx.Set([]byte(k), v)
			want[k] = string(v)
		}
		big := make([]byte, 3<<20)
		tx.Set([]byte("big"), big)
		want["big"] = string(big)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range want {
		if get(t, d, k) != v {
			t.Fatalf("%s differs", k)
		}
	}
	if left := all(t, d, Range{Prefix: []byte{0}, Keys: true}); len(left) > 0 {
		t.Errorf("%d pieces of the journal are left", len(left))
	}
	if err := d.Update(context.Background(), func(tx *Tx) error {
		for i := range 3 {
			tx.Set([]byte{'y', byte(i)}, make([]byte, 3<<20))
		}
		return nil
	}); !errors.Is(err, ErrTooLarge) {
		t.Errorf("beyond MaxUpdate: %v", err)
	}
}

// TestJournalIsRedone: an update whose journal has its end when the process dies is carried
// out when the database is opened. Without the end nothing of it is left.
func TestJournalIsRedone(t *testing.T) {
	cfg := testConfig(t.TempDir())
	d := open(t, cfg)
	set(t, d, "k0001", "before")
	tx := &Tx{Reader: Reader{db: d}}
	for i := range 2000 {
		tx.Set([]byte(fmt.Sprintf("k%04d", i)), bytes.Repeat([]byte{byte(i)}, 500))
	}
	tx.Delete([]byte("gone"))
	set(t, d, "gone", "x")
	if n, err := d.journal(d.gate.db, tx); n < 2 || err != nil {
		t.Fatal(n, err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, cfg)
	if got := len(all(t, d, Range{Prefix: []byte("k"), Keys: true})); got != 2000 || get(t, d, "k0001") != string(bytes.Repeat([]byte{1}, 500)) || get(t, d, "gone") != "-" {
		t.Errorf("%d keys", got)
	}
	tx = &Tx{Reader: Reader{db: d}}
	tx.Set([]byte("late"), nil)
	if _, err := d.journal(d.gate.db, tx); err != nil {
		t.Fatal(err)
	}
	b := batch{d: d, db: d.gate.db} // the end decides: take it back
	b.add(write{key: journalEnd})
	if b.flush(); b.err != nil {
		t.Fatal(b.err)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	d = open(t, cfg)
	if get(t, d, "late") != "-" || len(all(t, d, Range{Prefix: []byte{0}, Keys: true})) != 0 {
		t.Error("an update whose journal had no end is there, or its journal is")
	}
}

func FuzzJournal(f *testing.F) {
	f.Add((&write{key: []byte("k"), value: []byte("v"), expires: 7}).append((&write{key: []byte("gone")}).append(nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		for len(b) > 0 {
			var w write
			rest, err := w.cut(b)
			if err != nil {
				return
			}
			if len(rest) >= len(b) {
				t.Fatal("no progress")
			}
			b = rest
		}
	})
}

// TestExpiry: a value is gone when its time has come.
func TestExpiry(t *testing.T) {
	d := open(t, testConfig(t.TempDir()))
	if err := d.Update(context.Background(), func(tx *Tx) error {
		tx.SetUntil([]byte("past"), []byte("x"), time.Now().Add(-time.Minute))
		tx.SetUntil([]byte("ahead"), []byte("x"), time.Now().Add(time.Hour))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if got := get(t, d, "past") + get(t, d, "ahead"); got != "-x" {
		t.Errorf("got %q", got)
	}
}

// TestUnsyncedValueLog: with SyncWrites, only badger's log says that its value log could not
// be synced.
func TestUnsyncedValueLog(t *testing.T) {
	d := open(t, testConfig(t.TempDir()))
	badgerLog{d}.Errorf("Error while curlf sync: %v\n", errors.New("boom"))
	if err := d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte("k"), nil); return nil }); !errors.Is(err, ErrFailed) {
		t.Errorf("an unsynced commit: %v", err)
	}
	waitForOpen(d)
	set(t, d, "k", "v")
}

// TestLazy: an empty directory is left alone until it is needed, by whichever call. A
// database that is there is opened at once.
func TestLazy(t *testing.T) {
	for name, use := range map[string]func(*DB) error{
		"update": func(d *DB) error {
			return d.Update(t.Context(), func(tx *Tx) error { tx.Set([]byte("k"), []byte("v")); return nil })
		},
		"view": func(d *DB) error { return d.View(func(*Reader) error { return nil }) },
		"none": nil,
	} {
		t.Run(name, func(t *testing.T) {
			cfg := DefaultConfig(filepath.Join(t.TempDir(), "db"))
			cfg.Lazy = true
			d := startLazily(t, cfg)
			if d.begun.Load() || used(cfg.Dir) {
				t.Error("opened before it was needed")
			}
			if use != nil {
				atOnce(t, 8, func() error { return use(d) })
			}
			closeDB(t, d)
			if err := d.Update(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
			if used(cfg.Dir) != (use != nil) {
				t.Errorf("the directory is used: %v", used(cfg.Dir))
			}
			if use != nil {
				d = startLazily(t, cfg)
				<-d.Ready()
				closeDB(t, d)
			}
		})
	}
}

// TestLazyLink: a link to a disk that is not there is an error at once, and no empty directory.
func TestLazyLink(t *testing.T) {
	cfg := DefaultConfig(filepath.Join(t.TempDir(), "db"))
	cfg.Lazy = true
	if err := os.Symlink(filepath.Join(t.TempDir(), "absent", "db"), cfg.Dir); err != nil {
		t.Fatal(err)
	}
	d := startLazily(t, cfg)
	if !d.begun.Load() {
		t.Fatal("it is taken for a database that holds nothing")
	}
	<-d.tried
	if err := d.Err(); err == nil {
		t.Error("it was opened")
	}
	closeDB(t, d)
}

func startLazily(t *testing.T, cfg Config) *DB {
	t.Helper()
	d, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func closeDB(t *testing.T, d *DB) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// atOnce calls f from n goroutines.
func atOnce(t *testing.T, n int, f func() error) {
	t.Helper()
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if err := f(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

// TestBadgersLockError: also where badger takes the lock, the error is ErrLocked.
func TestBadgersLockError(t *testing.T) {
	cfg := testConfig(t.TempDir())
	d := open(t, cfg)
	o := d.options()
	o.BypassLockGuard = false
	if _, err := badger.Open(o); !errors.Is(badgerError(err), ErrLocked) {
		t.Errorf("badger.Open: %v", err)
	}
}
