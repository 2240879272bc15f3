package plainfile

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"
)

// TestFilesOfTheKernel: files of proc and sysfs are regular ones by their mode. Some of them
// block and some have no end, so none is read, whatever link leads to it.
func TestFilesOfTheKernel(t *testing.T) {
	if _, err := os.Stat("/proc/self"); err != nil {
		t.Skip("there is no /proc")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"/proc/kmsg", "/proc/self/environ", "/proc/self/ns/net", "/sys/devices/system/cpu/online", "environ"} {
		name := filepath.Base(to)
		if to == name { // a link to a link
			name = "again"
		}
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
		// Who may not open a file at all is told that.
		if _, err := fs.ReadFile(Dir(dir), name); !errors.Is(err, fs.ErrPermission) && (!errors.Is(err, ErrNotRegular) || !strings.Contains(err.Error(), "the kernel makes up")) {
			t.Errorf("%s: %v", to, err)
		}
	}
	// A link of proc may well lead to a file of another file system.
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := os.Symlink("/proc/self/fd", filepath.Join(dir, "descriptors")); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, n := range names {
		link := filepath.Join(dir, "descriptors", n.Name())
		if to, _ := os.Readlink(link); to == file {
			b, err := Read(link)
			if found = true; err != nil || string(b) != "text" {
				t.Errorf("%s: %q, %v", link, b, err)
			}
		}
	}
	if !found {
		t.Error("the descriptor of the file was not found")
	}
}

// TestEmptyFile: a file with nothing in it is a file as any other.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if b, err := Read(path); err != nil || len(b) > 0 {
		t.Errorf("%q, %v", b, err)
	}
}

// made is a file of a size that gives what comes from a channel, and ends with the channel.
type made struct {
	size   int
	gives  chan string
	closed chan struct{}
}

func (m *made) Read(p []byte) (int, error) {
	text, more := <-m.gives
	if !more {
		return 0, io.EOF
	}
	return copy(p, text), nil
}

func (m *made) Close() error { close(m.closed); return nil }

func (m *made) Stat() (fs.FileInfo, error) {
	return fstest.MapFS{"x": {Data: make([]byte, m.size)}}.Stat("x")
}

// TestFilesOfOtherKinds: what a file gives decides where the type of its file system does not.
func TestFilesOfOtherKinds(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int
		gives []string
		end   bool
		want  string // in the error; "": it is read
	}{
		{"an ordinary one", 6, []string{"one", "two"}, true, ""},
		{"one that grows meanwhile", 3, []string{"one", "two"}, true, ""},
		{"one without a size", 0, []string{"one"}, true, "its size is 0, but it gives 3 bytes when it is read"},
		{"one that gives nothing", 0, nil, false, "gives nothing for 30s"},
		{"one that stops", 9, []string{"one", "two"}, false, "gives nothing for 30s"},
		{"one that is too long", 9, []string{"one", "two", "three"}, false, "has more than 9 bytes"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &made{size: c.size, gives: make(chan string), closed: make(chan struct{})}
			go func() {
				for _, text := range c.gives {
					f.gives <- text
				}
				if c.end {
					close(f.gives)
				}
			}()
			b, err := all(f, "the file", 9)
			if whole := strings.Join(c.gives, ""); c.want == "" && (err != nil || string(b) != whole) {
				t.Errorf("%s: %q, %v", c.name, b, err)
			} else if c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "the file ") || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("%s: %q, %v; want %s", c.name, b, err, c.want)
			}
			if !c.end {
				close(f.gives) // and what was given up ends
			}
			<-f.closed
		})
	}
}
