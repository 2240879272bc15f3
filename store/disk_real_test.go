//go:build linux

package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"weir/internal/testkit"
)

// full fills a small file system of its own.
func full(args []string) {
	dir := args[0]
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=64m"); err != nil {
		fmt.Println("skip", err)
		return
	}
	ballast := filepath.Join(dir, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 12<<20), 0o600); err != nil {
		fmt.Println("error", err)
		return
	}
	cfg := testConfig(filepath.Join(dir, "db"))
	cfg.MinFree = 16 << 20
	d, err := Open(cfg)
	if err != nil {
		fmt.Println("error", err)
		return
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	acked, stopped := map[string]bool{}, map[string]int{}
	for g := range 8 {
		wg.Go(func() {
			for i := 0; i < 20_000; i++ {
				key := fmt.Sprintf("k%d.%d", g, i)
				size := 2000
				if i%10 == 0 {
					size = 20_000 // to the value log
				}
				err := d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte(key), []byte(strings.Repeat("x", size))); return nil })
				mu.Lock()
				if err == nil {
					acked[key] = true
				} else {
					stopped[fmt.Sprint(errors.Is(err, ErrFull))]++
				}
				mu.Unlock()
				if err != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	fmt.Println("stopped", stopped)
	check := func() {
		for key := range acked {
			if err := d.View(func(r *Reader) error { _, err := r.Get([]byte(key)); return err }); err != nil {
				fmt.Println("error", key, err)
				return
			}
		}
	}
	check()
	if err := os.Remove(ballast); err != nil {
		fmt.Println("error", err)
	}
	err = d.Update(context.Background(), func(tx *Tx) error { tx.Set([]byte("later"), nil); return nil })
	fmt.Println("again", err)
	fmt.Println("closed", d.Close())
	if d, err = Open(cfg); err != nil {
		fmt.Println("error", err)
		return
	}
	check()
	fmt.Println("closed", d.Close())
}

// A disk that is really full: nobody dies of it, nothing acknowledged is lost.
func TestReallyFullDisk(t *testing.T) {
	cmd := testkit.Child("full", t.TempDir())
	cmd.Stderr = nil // CombinedOutput sets it
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	text := string(out)
	if text == "" && err != nil || strings.HasPrefix(text, "skip") {
		t.Skip("no file system can be mounted here: ", text, err)
	}
	if want := "stopped map[true:8]\nagain <nil>\nclosed <nil>\nclosed <nil>\n"; err != nil || text != want {
		t.Errorf("%v\n%s", err, text)
	}
}
