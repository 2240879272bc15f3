//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"weir/internal/testkit"
)

// TestMain lets the test binary be the process that is killed or runs out of disk.
func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func([]string){"load": load, "limit": limit, "full": full})
}

// load is a child with the arguments directory and round. It writes until it is killed,
// and prints the name and the number of parts of each acknowledged update. Every tenth
// update is larger than a transaction of badger's.
func load(args []string) {
	d, err := Open(testConfig(args[0]))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	for g := range 8 {
		go func() {
			for i := 0; ; i++ {
				parts, size := 3, 100
				if i%10 == 5 {
					parts, size = 300, 600
				}
				name := fmt.Sprintf("%s.%d.%d", args[1], g, i)
				if err := writeParts(d, name, parts, size); err != nil {
					fmt.Println("error", err)
					return
				}
				fmt.Println(name, parts)
			}
		}()
	}
	select {}
}

// writeParts is an update that writes some parts, each of which repeats the name.
func writeParts(d *DB, name string, parts, size int) error {
	return d.Update(context.Background(), func(tx *Tx) error {
		for j := range parts {
			tx.Set(fmt.Appendf(nil, "u/%s/%d", name, j), []byte(strings.Repeat(name+",", size/len(name))))
		}
		return nil
	})
}

// TestKill: kill -9 under load. Every acknowledged update is there, every update is there
// as a whole or not at all, and the database opens each time.
func TestKill(t *testing.T) {
	const perFolder = 40 // so that thousands of rounds do not read more and more
	var dir string
	var acknowledged map[string]int // update: its parts
	for round := range testkit.CrashRounds(20) {
		if round%perFolder == 0 {
			dir, acknowledged = t.TempDir(), map[string]int{}
		}
		testkit.Crash{
			Role: "load", Args: []string{dir, strconv.Itoa(round)},
			Lines: 20 + 37*round%200, After: time.Duration(round%4) * time.Millisecond,
		}.Run(t, func(line string) {
			name, parts, _ := strings.Cut(line, " ")
			acknowledged[name], _ = strconv.Atoi(parts)
		})
		checkUpdates(t, dir, acknowledged)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
}

// checkUpdates opens a database that load has written and looks for its updates.
func checkUpdates(t *testing.T, dir string, acknowledged map[string]int) {
	t.Helper()
	d, err := Open(testConfig(dir))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int{}
	for _, kv := range all(t, d, Range{Prefix: []byte("u/")}) {
		key, value, _ := strings.Cut(kv, "=")
		name := strings.Split(key, "/")[1]
		if !strings.HasPrefix(value, name+",") {
			t.Errorf("%s is %.20q", key, value)
		}
		found[name]++
	}
	for name, parts := range acknowledged {
		if found[name] != parts {
			t.Errorf("the acknowledged update %s has %d parts of %d", name, found[name], parts)
		}
	}
	for name, parts := range found {
		if parts != 3 && parts != 300 {
			t.Errorf("the update %s is torn: it has %d parts", name, parts)
		}
	}
	if left := all(t, d, Range{Prefix: []byte{0}, Keys: true}); len(left) > 0 {
		t.Errorf("%d pieces of a journal are left", len(left))
	}
	if m := d.Damage(); len(m) > 0 {
		t.Errorf("the crash is taken for damage: %v", m)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

// limit is a child with the argument directory. It writes until a limit on the size of
// files stops it, lifts the limit, and goes on.
func limit(args []string) {
	signal.Ignore(syscall.SIGXFSZ)
	d, err := Open(testConfig(args[0]))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	setLimit := func(n uint64) {
		var l syscall.Rlimit
		_ = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &l)
		l.Cur = min(n, l.Max)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &l); err != nil {
			fmt.Println("error", err)
		}
	}
	write := func(i int) error {
		return d.Update(context.Background(), func(tx *Tx) error {
			tx.Set([]byte(fmt.Sprintf("k%06d", i)), make([]byte, 2000))
			return nil
		})
	}
	setLimit(1 << 20) // a new log is 2 MiB
	n := 0
	for ; err == nil && n < 5000; n++ {
		err = write(n)
	}
	fmt.Println("stopped", errors.Is(err, ErrFailed), errors.Is(write(n), ErrFailed))
	setLimit(1 << 62)
	for d.Err() != nil {
		time.Sleep(time.Millisecond)
	}
	fmt.Println("again", write(n) == nil)
	for i := range n - 1 {
		if err := d.View(func(r *Reader) error { _, err := r.Get([]byte(fmt.Sprintf("k%06d", i))); return err }); err != nil {
			fmt.Println("error", i, n, err)
			return
		}
	}
	fmt.Println("done", d.Close())
}

// TestFailedWrite: if the disk does not take a write, the update fails, and so do those after
// it. When the disk takes writes again the database does so too, and has everything that
// was acknowledged.
func TestFailedWrite(t *testing.T) {
	out, err := testkit.Child("limit", t.TempDir()).Output()
	if err != nil {
		t.Error(err)
	}
	var got []string
	for line := range strings.Lines(string(out)) {
		got = append(got, strings.TrimSpace(line))
	}
	if want := "[stopped true true again true done <nil>]"; fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}

// TestFullDisk: with little space on the disk writes are refused. Reads go on, and so do
// deletions down to a quarter of that space, also after a restart. When there is space
// again writes go on. Without space the database is closed without being written to.
func TestFullDisk(t *testing.T) {
	cfg := testConfig(t.TempDir())
	var free uint64 = 100 << 20
	var mu sync.Mutex
	cfg.free = func(string) (uint64, error) { mu.Lock(); defer mu.Unlock(); return free, nil }
	have := func(n uint64) { mu.Lock(); defer mu.Unlock(); free = n << 20 }
	cfg.MinFree = 50 << 20
	d := open(t, cfg)
	set(t, d, "a", "1")
	set(t, d, "b", "1")
	write := func() error {
		return d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte("c"), nil); return nil })
	}
	deletion := func(key string) error {
		return d.Update(context.Background(), func(tx *Tx) error {
			tx.Delete([]byte(key))
			tx.Set([]byte("note of "+key), nil)
			return nil
		})
	}
	have(49)
	if err := write(); !errors.Is(err, ErrFull) {
		t.Errorf("write: %v", err)
	}
	if err := deletion("a"); err != nil {
		t.Errorf("deletion: %v", err)
	}
	have(11)
	if err := deletion("b"); !errors.Is(err, ErrFull) {
		t.Errorf("deletion: %v", err)
	}
	if got := get(t, d, "b"); got != "1" {
		t.Errorf("b = %s", got)
	}
	have(51)
	if err := write(); err != nil {
		t.Errorf("write: %v", err)
	}
	have(0)
	if err := d.Compact(); !errors.Is(err, ErrFull) {
		t.Errorf("compaction: %v", err)
	}
	if got := get(t, d, "b"); got != "1" {
		t.Errorf("b = %s", got)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
	// What badger has left open is what a process that ended leaves behind.
	crashed := t.TempDir()
	if err := os.CopyFS(crashed, os.DirFS(cfg.Dir)); err != nil {
		t.Fatal(err)
	}
	cfg.Dir = crashed
	d, err := Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	<-d.Ready()
	if got := get(t, d, "b"); got != "1" {
		t.Errorf("after a start without space b = %s", got)
	}
	if err := errors.Join(write(), d.Err()); !errors.Is(err, ErrFull) {
		t.Errorf("write: %v", err)
	}
	have(100)
	for errors.Is(d.Err(), ErrFull) {
		runtime.Gosched()
	}
	if err := errors.Join(write(), d.Close()); err != nil {
		t.Error(err)
	}
	d = open(t, cfg)
	if got := get(t, d, "b") + get(t, d, "a"); got != "1-" {
		t.Errorf("at the end b, a = %s", got)
	}
}

// TestCompactRemovesBytes: what was deleted is not on the disk any more after Compact.
func TestCompactRemovesBytes(t *testing.T) {
	cfg := testConfig(t.TempDir())
	d := open(t, cfg)
	for i, size := range []int{100, 100, 20_000, 20_000} { // in tables and in the value log
		set(t, d, fmt.Sprint("k", i), strings.Repeat(fmt.Sprintf("secret%d ", i), size/8))
	}
	if err := d.Update(context.Background(), func(tx *Tx) error {
		tx.Delete([]byte("k0"))
		tx.Delete([]byte("k2"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if err := d.Compact(); err != nil {
		t.Fatal(err)
	}
	names, _ := filepath.Glob(filepath.Join(cfg.Dir, "*"))
	found := map[string]bool{}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 4 {
			if strings.Contains(string(b), fmt.Sprintf("secret%d ", i)) {
				found[fmt.Sprint(i, filepath.Ext(name))] = true
			}
		}
	}
	for i, want := range []bool{false, true, false, true} {
		got := false
		for k := range found {
			got = got || k[0] == byte('0'+i)
		}
		if got != want {
			t.Errorf("secret%d on disk: %v, want %v (%v)", i, got, want, found)
		}
	}
	if get(t, d, "k1") == "-" || get(t, d, "k3") == "-" {
		t.Error("what was not deleted is gone")
	}
}
