package weights

import (
	"errors"
	"fmt"
	"io/fs"

	"weir/internal/plainfile"
)

// Mapping is the bytes of one file of a checkpoint. They are read-only.
type Mapping struct {
	Data    []byte
	File    *File // nil: Data is memory
	release func() error
}

// Map maps a regular file into memory, or reads it on a system without memory mapping. A
// function that reads Data defers CatchFault, because the file may be cut.
func Map(path string) (Mapping, error) {
	f, err := plainfile.Open(path)
	if errors.Is(err, plainfile.ErrNotRegular) {
		return Mapping{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return Mapping{}, fmt.Errorf("weights: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return Mapping{}, fmt.Errorf("weights: %w", errors.Join(err, f.Close()))
	}
	if size := info.Size(); size < prefixBytes || int64(int(size)) != size {
		_ = f.Close() // nothing was written
		if size < prefixBytes {
			return Mapping{}, damaged(path, "%d bytes are too few for weights: the file is truncated", size)
		}
		return Mapping{}, damaged(path, "%d bytes are more than this machine can map", size)
	}
	m, err := mapFile(f, int(info.Size()))
	if err != nil {
		return Mapping{}, fmt.Errorf("weights: map %s: %w", path, err)
	}
	return m, nil
}

// Read is Map for a file system that has no files to map, such as one embedded in the binary.
func Read(fsys fs.FS, name string) (Mapping, error) {
	b, err := fs.ReadFile(fsys, name)
	if err != nil {
		return Mapping{}, fmt.Errorf("weights: %w", err)
	}
	return Mapping{Data: b}, nil
}

// Close unmaps the file.
func (m Mapping) Close() error {
	if m.release == nil {
		return nil
	}
	return m.release()
}
