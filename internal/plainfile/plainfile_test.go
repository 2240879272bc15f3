package plainfile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// What is not a regular file is refused with a sentence, and nothing blocks or is read
// without end.
func TestOnlyRegularFiles(t *testing.T) {
	dir := t.TempDir()
	pipe, link, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("/dev/zero", link); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{pipe: "a named pipe", link: "a device", dir: "a directory", "/dev/zero": "a device"} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "not a regular file but "+want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	files := Dir(dir)
	if _, err := fs.ReadFile(files, "pipe"); err == nil || !strings.Contains(err.Error(), "a named pipe") {
		t.Errorf("a pipe in a folder: %v", err)
	}
	if b, err := fs.ReadFile(files, "file"); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := fs.ReadFile(files, "none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if _, err := fs.ReadFile(files, "../file"); !errors.Is(err, fs.ErrInvalid) {
		t.Errorf("outside: %v", err)
	}
	if info, err := fs.Stat(files, "file"); err != nil || info.Size() != 4 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := read(file, 3); err == nil || !strings.Contains(err.Error(), "more than 3 bytes") {
		t.Errorf("a file of 4 bytes: %v", err)
	}
	if b, err := read(file, 4); err != nil || string(b) != "text" {
		t.Errorf("%q, %v", b, err)
	}
}

// A link to a file that does not exist is not taken for a file that may be absent.
func TestLinkToNothing(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(dir, "deleted"), filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	_, open := Open(filepath.Join(dir, "link"))
	_, read := fs.ReadFile(Dir(dir), "link")
	_, stat := fs.Stat(Dir(dir), "link")
	for name, err := range map[string]error{"Open": open, "ReadFile": read, "Stat": stat} {
		if err == nil || errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "is a link to a file that does not exist") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLongFile: a file that is too long is refused by its size, before it is read. This one has a
// size of which nothing is on the disk.
func TestLongFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "long")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(1<<40), f.Close()); err != nil {
		t.Skip(err) // a file system without holes
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = Read(path)
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), path+" has more than 268435456 bytes") {
		t.Error(err)
	}
	if taken := after.TotalAlloc - before.TotalAlloc; taken > 1<<20 {
		t.Errorf("%d bytes were allocated", taken)
	}
}
