package store

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestMain lets the test binary be its own victim.
func TestMain(m *testing.M) {
	switch os.Getenv("STORE_TEST_CHILD") {
	case "load":
		load()
	case "limit":
		limit()
	case "full":
		full()
	default:
		os.Exit(m.Run())
	}
}

// load writes until it is killed. Every tenth update is larger than a transaction.
func load() {
	d, err := Open(testConfig(os.Getenv("STORE_TEST_DIR")))
	if err != nil {
		fmt.Println("error", err)
		return
	}
	from, _ := strconv.Atoi(os.Getenv("STORE_TEST_FROM"))
	fmt.Println("open")
	var mu sync.Mutex
	for g := range 8 {
		go func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d.%d.%d", from, g, i)
				parts, size := 3, 100
				if i%10 == 5 {
					parts, size = 300, 1000
				}
				err := d.Update(context.Background(), func(tx *Tx) error {
					for j := range parts {
						tx.Set([]byte(fmt.Sprintf("u/%s/%d", id, j)), []byte(strings.Repeat(id+",", size/len(id))))
					}
					return nil
				})
				if err != nil {
					fmt.Println("error", err)
					return
				}
				mu.Lock()
				os.Stdout.WriteString("ack " + id + " " + strconv.Itoa(parts) + "\n")
				mu.Unlock()
			}
		}()
	}
	select {}
}

func child(t *testing.T, mode, dir string, more ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), "STORE_TEST_CHILD="+mode, "STORE_TEST_DIR="+dir), more...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// rounds is how often the tests of crashes kill: make crash sets it.
func rounds(t *testing.T, usual int) int {
	if n, err := strconv.Atoi(os.Getenv("WEIR_CRASH_ROUNDS")); err == nil {
		return n
	}
	if testing.Short() {
		return 2
	}
	return usual
}

// kill -9 under load: every acknowledged update is there, every update is there
// as a whole or not at all, and the database opens each time.
func TestKill(t *testing.T) {
	dir := t.TempDir()
	acked := map[string]int{}
	for round := range rounds(t, 20) {
		cmd, out := child(t, "load", dir, "STORE_TEST_FROM="+strconv.Itoa(round))
		timer := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
		quota := 20 + 37*round%200 // acknowledgements before the kill
		n := 0
		for out.Scan() {
			f := strings.Fields(out.Text())
			switch f[0] {
			case "ack":
				acked[f[1]], _ = strconv.Atoi(f[2])
				if n++; n == quota {
					_ = cmd.Process.Kill()
				}
			case "error":
				t.Fatalf("round %d: %s", round, out.Text())
			}
		}
		timer.Stop()
		_ = cmd.Wait()
		d, err := Open(testConfig(dir))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		found := map[string]int{}
		for _, kv := range all(t, d, Range{Prefix: []byte("u/")}) {
			key, value, _ := strings.Cut(kv, "=")
			id := strings.Split(key, "/")[1]
			if !strings.HasPrefix(value, id+",") {
				t.Fatalf("round %d: %s is %.20q", round, key, value)
			}
			found[id]++
		}
		for id, parts := range acked {
			if found[id] != parts {
				t.Fatalf("round %d: the acknowledged update %s has %d parts of %d", round, id, found[id], parts)
			}
		}
		for id, parts := range found {
			if parts != 3 && parts != 300 {
				t.Fatalf("round %d: %s is torn: %d parts", round, id, parts)
			}
		}
		if left := all(t, d, Range{Prefix: []byte{0}, Keys: true}); len(left) > 0 {
			t.Fatalf("round %d: %d pieces of a journal are left", round, len(left))
		}
		if m := d.Damage(); len(m) > 0 {
			t.Fatalf("round %d: a crash is taken for damage: %v", round, m)
		}
		if err := d.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// limit writes until a limit on the size of files stops it, has the limit
// lifted, and goes on.
func limit() {
	signal.Ignore(syscall.SIGXFSZ)
	d, err := Open(testConfig(os.Getenv("STORE_TEST_DIR")))
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

// A disk that does not take a write: the update fails, so do those after it,
// and when the disk takes writes again the database does, too, with everything
// that was acknowledged.
func TestFailedWrite(t *testing.T) {
	cmd, out := child(t, "limit", t.TempDir())
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var got []string
	for out.Scan() {
		if !strings.HasPrefix(out.Text(), "time=") {
			got = append(got, out.Text())
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if want := "[stopped true true again true done <nil>]"; fmt.Sprint(got) != want {
		t.Errorf("%v", got)
	}
}

// Little space on the disk: writes are refused, reads and, down to half of it,
// deletions go on; and so do writes when there is space again.
func TestFullDisk(t *testing.T) {
	cfg := testConfig(t.TempDir())
	var free uint64 = 100
	var mu sync.Mutex
	cfg.free = func(string) (uint64, error) { mu.Lock(); defer mu.Unlock(); return free, nil }
	have := func(n uint64) { mu.Lock(); defer mu.Unlock(); free = n }
	cfg.MinFree = 50
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
	have(24)
	if err := deletion("b"); !errors.Is(err, ErrFull) {
		t.Errorf("deletion: %v", err)
	}
	if got := get(t, d, "b"); got != "1" {
		t.Errorf("b = %s", got)
	}
	have(50)
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
	if _, err := Open(cfg); !errors.Is(err, ErrFull) {
		t.Errorf("opening: %v", err)
	}
}

// What was deleted is off the disk once Compact has run (spec feedback 11.4).
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
