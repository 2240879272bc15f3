//go:build linux

package tilecache

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"weir/internal/testkit"
)

func TestMain(m *testing.M) {
	testkit.Main(m, map[string]func([]string){"fullDisk": fullDisk})
}

// fullDisk is a child with one argument, a folder. It mounts a file system of 16 MiB there, and prints
// what the cache leaves on it and says.
func fullDisk(args []string) {
	dir := args[0]
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16m"); err != nil {
		fmt.Println("skip", err)
		return
	}
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	cfg := Config{Dir: filepath.Join(dir, "cache"), Limit: 1 << 30, Log: slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: noTime}))}
	show := func() {
		files, err := os.ReadDir(cfg.Dir)
		var names []string
		for _, f := range files {
			names = append(names, filepath.Ext(f.Name()))
		}
		fmt.Println(names, err)
	}
	keep := func(identity string, size int) {
		c := Open(cfg, identity)
		c.Find("key", 1<<20, size)
		c.Keep("key", 1<<20, make([]byte, size))
		c.Save()
		c.Wait()
		c.Close()
		show()
	}
	keep("small", 2<<20)
	// The cache believes that there is room: somebody else takes it while the file is written.
	cfg.MinFree = -1 << 40
	keep("large", 20<<20)
	// Nothing is left of the disk, also no room for a file.
	ballast, err := os.Create(filepath.Join(dir, "ballast"))
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		fmt.Println(err)
	}
	keep("large", 5<<20)
	// The cache knows that: nothing that it may remove makes room enough, so nothing is removed.
	cfg.MinFree = 0
	keep("large", 5<<20)
	if c := Open(cfg, "small"); c.Find("key", 1<<20, 2<<20) == nil {
		fmt.Println("what was kept is lost")
	}
	fmt.Println(errors.Join(os.Remove(ballast.Name()), ballast.Close()))
	keep("large", 5<<20)
}

// TestReallyFullDisk: on a disk that is really full nothing is kept, the log says so, no file is left that is
// not whole, and what was kept before stays.
func TestReallyFullDisk(t *testing.T) {
	cmd := testkit.Child("fullDisk", t.TempDir())
	cmd.Stderr = io.Discard
	testkit.MayMount(cmd)
	out, err := cmd.Output()
	said := string(out)
	if said == "" && err != nil || strings.HasPrefix(said, "skip") {
		t.Skip("no file system can be mounted here: ", said, err)
	}
	const not = "level=WARN msg=\"packed weights are not kept for the next start\" error="
	for _, want := range []string{
		"level=INFO msg=\"packed weights are kept for the next start\" ", "[.tiles] <nil>\n",
		not, "no space left on device\"\n[.tiles] <nil>\n",
		not, "no space left on device\"\n[.tiles] <nil>\n",
		not + "\"they take 5 MiB, and ", " has 0 MiB free\"\n[.tiles] <nil>\n<nil>\n",
		"level=INFO msg=\"packed weights are kept for the next start\" ", "[.tiles .tiles] <nil>\n",
	} {
		var ok bool
		if _, said, ok = strings.Cut(said, want); !ok {
			t.Fatalf("%v: %q is missing in its place:\n%s", err, want, out)
		}
	}
	if said != "" || err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
