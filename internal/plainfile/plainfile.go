// Package plainfile reads the small files that an operator names: configurations,
// templates, tokenizers, keys. It refuses what is not a regular file, because a device may
// have no end and a named pipe may have no writer, and what is larger than any such file.
//
// Files of proc, sysfs and the like are regular ones by their mode, but some of them block or
// have no end as devices do. They are known by the type of their file system, on Linux. What a
// file system of another type gives (a FUSE may do the same, but may just as well hold a model)
// is judged by what comes: a file whose size is 0 has nothing in it, and the next bytes of any
// file have to come within a time. A reading that is given up leaves a goroutine behind, which
// ends when the file gives something or the process ends.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// Most is the size of the largest file that Read accepts, in bytes. The largest
// tokenizer.json in use have some 40 MB.
const Most = 256 << 20

// ErrNotRegular is wrapped by the errors for what is not a regular file.
var ErrNotRegular = errors.New("not a regular file")

// Open opens a regular file for reading. Anything else, such as a directory, a device or a
// named pipe, is refused at once.
func Open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer would block
	if err != nil {
		return nil, dangling(path, err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is %w but %s", path, ErrNotRegular, kind(info.Mode()))
	}
	if err == nil {
		if name := kernels(f); name != "" {
			err = fmt.Errorf("%s is %w but one of %s, which the kernel makes up when it is read", path, ErrNotRegular, name)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// dangling returns another error than that a file does not exist for a link to one that does
// not: what may be absent would be passed over, although somebody put it there, such as a
// chat template in a cache of a model hub from which files were deleted.
func dangling(path string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		if info, err := os.Lstat(path); err == nil && info.Mode()&fs.ModeSymlink != 0 {
			return fmt.Errorf("%s is a link to a file that does not exist", path)
		}
	}
	return err
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}

// Read reads a regular file of at most Most bytes.
func Read(path string) ([]byte, error) { return read(path, Most) }

func read(path string, most int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	return all(f, path, most)
}

// patience is how long a file may take to give its next bytes. A network file system that is
// slow, or whose server is started again, takes less.
const patience = 30 * time.Second

// file is what all needs of a file.
type file interface {
	io.ReadCloser
	Stat() (fs.FileInfo, error)
}

// all reads a file of at most so many bytes, and closes it.
func all(f file, path string, most int64) ([]byte, error) {
	came, ended := make(chan struct{}, 1), make(chan outcome, 1)
	go func() {
		defer f.Close()
		if info, err := f.Stat(); err == nil && info.Size() > most {
			ended <- outcome{err: tooLong(path, most)}
			return
		}
		b, err := io.ReadAll(io.LimitReader(&reading{f, came}, most+1))
		if err == nil {
			err = honest(f, path, len(b))
		}
		ended <- outcome{b, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		select {
		case o := <-ended:
			switch {
			case o.err != nil:
				return nil, o.err
			case int64(len(o.text)) > most:
				return nil, tooLong(path, most)
			}
			return o.text, nil
		case <-came:
			timer.Reset(patience)
		case <-timer.C:
			return nil, fmt.Errorf("%s gives nothing for %v when it is read", path, patience)
		}
	}
}

func tooLong(path string, most int64) error {
	return fmt.Errorf("%s has more than %d bytes", path, most)
}

type outcome struct {
	text []byte
	err  error
}

// reading is a file that tells when it has given something.
type reading struct {
	file
	came chan<- struct{}
}

func (r *reading) Read(p []byte) (int, error) {
	n, err := r.file.Read(p)
	select {
	case r.came <- struct{}{}:
	default:
	}
	return n, err
}

// honest returns an error for a file that has something in it although its size is 0, also now
// that it has been read: it is made up when it is read.
func honest(f file, path string, n int) error {
	info, err := f.Stat()
	if err == nil && n > 0 && info.Size() == 0 {
		err = fmt.Errorf("%s is %w: its size is 0, but it gives %d bytes when it is read", path, ErrNotRegular, n)
	}
	return err
}

// Dir is os.DirFS, but fs.ReadFile reads its files as Read does.
func Dir(path string) fs.FS { return dir{os.DirFS(path), path} }

type dir struct {
	fs.FS
	path string
}

func (d dir) Stat(name string) (fs.FileInfo, error) {
	info, err := fs.Stat(d.FS, name)
	return info, dangling(filepath.Join(d.path, filepath.FromSlash(name)), err)
}

func (d dir) ReadFile(name string) ([]byte, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	return Read(filepath.Join(d.path, filepath.FromSlash(name)))
}
