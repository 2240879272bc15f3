// Package plainfile reads the small files that an operator names: configurations,
// templates, tokenizers, keys. It refuses what is not a regular file, because a device may
// have no end and a named pipe may have no writer, and what is larger than any such file.
package plainfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
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
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && int64(len(b)) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	if err != nil {
		return nil, err
	}
	return b, nil
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
