//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/internal/testkit"
)

// fullTest fills a small file system of its own.
type fullTest struct {
	d     *DB
	large int // every so many values are large: they go to the value log

	mu           sync.Mutex
	acknowledged []string
	stopped      map[string]int // by whether the error was ErrFull
}

// full is a child with two arguments, a directory and after how many values a large one comes.
// It mounts a file system of 64 MiB there, writes until that is full, and again when there is
// space.
func full(args []string) {
	dir := args[0]
	large, err := strconv.Atoi(args[1])
	if err != nil {
		fmt.Println("error", err)
		return
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		fmt.Println("skip", err)
		return
	}
	if err := fillDisk(dir, large); err != nil {
		fmt.Println("error", err)
	}
}

func fillDisk(dir string, large int) error {
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 12<<20), 0o600); err != nil {
		return err
	}
	cfg := testConfig(filepath.Join(dir, "db"))
	cfg.MinFree = 16 << 20
	d, err := Open(cfg)
	if err != nil {
		return err
	}
	f := &fullTest{d: d, large: large, stopped: map[string]int{}}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() { f.writeUntilRefused(g) })
	}
	wg.Wait()
	fmt.Println("stopped", f.stopped)
	if err := errors.Join(f.check(), os.Remove(ballast)); err != nil {
		return err
	}
	err = d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte("later"), nil); return nil })
	fmt.Println("again", err)
	fmt.Println("closed", d.Close())
	if f.d, err = Open(cfg); err != nil {
		return err
	}
	err = f.check()
	fmt.Println("closed", f.d.Close())
	return err
}

func (f *fullTest) writeUntilRefused(g int) {
	for i := range 20_000 {
		key := fmt.Sprintf("k%d.%d", g, i)
		size := 2000
		if i%f.large == 0 {
			size = 20_000
		}
		err := f.d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte(key), make([]byte, size)); return nil })
		f.mu.Lock()
		if err == nil {
			f.acknowledged = append(f.acknowledged, key)
		} else {
			f.stopped[fmt.Sprint(errors.Is(err, ErrFull))]++
		}
		f.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// check reads everything that was acknowledged.
func (f *fullTest) check() error {
	return f.d.View(func(r *Reader) error {
		for _, key := range f.acknowledged {
			if _, err := r.Get([]byte(key)); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
		}
		return nil
	})
}

// TestReallyFullDisk: on a disk that is really full the process lives on, and nothing that
// was acknowledged is lost. With few large values nearly all that is written goes to tables,
// which badger copies while it compacts them.
func TestReallyFullDisk(t *testing.T) {
	for _, large := range []string{"10", "100000"} {
		t.Run(large, func(t *testing.T) { reallyFull(t, large) })
	}
}

func reallyFull(t *testing.T, large string) {
	cmd := testkit.Child("full", t.TempDir(), large)
	cmd.Stderr = nil // CombinedOutput sets it
	testkit.MayMount(cmd)
	out, err := cmd.CombinedOutput()
	text := string(out)
	if text == "" && err != nil || strings.HasPrefix(text, "skip") {
		t.Skip("no file system can be mounted here: ", text, err)
	}
	if want := "stopped map[true:8]\nagain <nil>\nclosed <nil>\nclosed <nil>\n"; err != nil || text != want {
		t.Errorf("%v\n%s", err, text)
	}
}
