//go:build linux

package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"weir/hub/hubtest"
	"weir/internal/testkit"
)

const (
	smallDisk    = "96m" // leastFree and room for the file below
	fullFileSize = 16 << 20
)

// fullDisk is a child with two arguments, the address of a hub and a folder. It mounts a small file
// system there, which gets full in the middle of a download, and prints what each download says.
func fullDisk(args []string) {
	endpoint, dir := args[0], args[1]
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+smallDisk); err != nil {
		fmt.Println("skip", err)
		return
	}
	h, err := New(Config{Endpoint: endpoint, Cache: filepath.Join(dir, "hub"), Connections: 3})
	if err != nil {
		fmt.Println("error", err)
		return
	}
	ref, _ := Parse("org/name")
	ballast := filepath.Join(dir, "ballast")
	get := func(begun func(p Progress)) {
		m, err := h.Get(context.Background(), ref, Options{Progress: begun})
		fmt.Println(errors.Is(err, ErrNoSpace), err)
		if err == nil {
			text, err := os.ReadFile(m.Path())
			fmt.Println(hubtest.SHA256(string(text)), err)
		}
	}
	filled := false
	get(func(p Progress) {
		if p.Done >= fullFileSize/4 && !filled {
			filled = true
			fillDisk(ballast)
		}
	})
	get(nil) // the disk is still full
	if err := os.Remove(ballast); err != nil {
		fmt.Println("error", err)
	}
	get(nil)
	// A disk on which not even a folder can be made.
	h.config.Cache = filepath.Join(dir, "another", "hub")
	fillDisk(ballast)
	get(nil)
}

// fillDisk writes a file until the disk has no byte left.
func fillDisk(path string) {
	f, err := os.Create(path)
	for size := 1 << 20; err == nil && size > 0; size /= 2 {
		for err == nil {
			_, err = f.Write(make([]byte, size))
		}
		if errors.Is(err, syscall.ENOSPC) {
			err = nil
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
		fmt.Println("error", err)
	}
}

// TestReallyFullDisk: a disk that gets full in the middle of a download ends it with one sentence
// that says how much is missing; what has come stays, and is not asked for again when there is room.
func TestReallyFullDisk(t *testing.T) {
	s := hubtest.Start()
	defer s.Close()
	repo := ggufRepo()
	text := noise(fullFileSize, 5)
	repo.Files["m-Q4_K_M.gguf"] = text
	s.Add("org/name", repo)
	dir := t.TempDir()
	cmd := testkit.Child("fullDisk", s.HubURL, dir)
	cmd.Stderr = io.Discard
	testkit.MayMount(cmd)
	out, err := cmd.Output()
	said := string(out)
	if said == "" && err != nil || strings.HasPrefix(said, "skip") {
		t.Skip("no file system can be mounted here: ", said, err)
	}
	want := regexp.MustCompile(`^true the disk of \S+ is full: (\d+) MB of org/name are still missing, and what has come is kept; make room \(weir list, weir rm\) and start again \(.*no space left on device\)
true org/name needs (\d+) MB more on the disk of \S+, and 0 MB are free: make room .*
false <nil>
` + hubtest.SHA256(text) + ` <nil>
true org/name needs .* MB more on the disk of .*
$`)
	m := want.FindStringSubmatch(said)
	if err != nil || m == nil {
		t.Fatalf("%v\n%s\nwant\n%v", err, said, want)
	}
	missing := number(m[1]) * 1_000_000 // rounded up
	if missing < 1 || missing >= fullFileSize {
		t.Errorf("%d bytes are said to be missing", missing)
	}
	if came := int64(asked(s.Calls())); came > fullFileSize+missing {
		t.Errorf("%d bytes were asked for, of a file of %d of which %d were missing", came, fullFileSize, missing)
	}
}

func init() { roles["fullDisk"] = fullDisk }
