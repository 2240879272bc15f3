package tilecache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

var (
	errStopped = errors.New("tilecache: stopped")
	errBusy    = errors.New("tilecache: another process writes the same file")
)

// write writes the file of all that was kept and puts it into its place.
func (c *Cache) write() (size int64, err error) {
	read := sync.OnceFunc(c.reading.Done)
	defer read()
	for _, k := range c.kept {
		const numbers = 4 * binary.MaxVarintLen64
		size += int64(len(k.tiles)) + int64(len(k.key)) + numbers + int64(4*(len(k.tiles)/k.piece+1))
	}
	f, err := openPart(strings.TrimSuffix(c.path, ending) + partEnding)
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
		err = errors.Join(err, f.Close())
	}()
	c.removeLeftovers()
	if err := c.makeRoom(size); err != nil {
		return 0, err
	}
	if err := c.writeTo(f); err != nil {
		return 0, err
	}
	read()
	if err := f.Sync(); err != nil {
		return 0, err
	}
	if err := os.Rename(f.Name(), c.path); err != nil {
		return 0, err
	}
	return size, syncDir(c.cfg.Dir)
}

// openPart opens a file to be written and locks it, so that no other process writes it or takes it
// for a leftover. What a process has left in it that was killed is gone.
func openPart(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		return nil, errors.Join(errBusy, err, f.Close())
	}
	// Another process may have renamed it to its place before the lock was ours.
	opened, err := f.Stat()
	if err == nil {
		var named os.FileInfo
		if named, err = os.Stat(path); err == nil && !os.SameFile(opened, named) {
			err = errBusy
		} else if errors.Is(err, os.ErrNotExist) {
			err = errBusy
		}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// step is how many bytes are written between two looks at whether to stop.
const step = 4 << 20

func (c *Cache) writeTo(w io.Writer) error {
	index, at := appendText(nil, c.identity), int64(0)
	for _, k := range c.kept {
		index = appendText(index, k.key)
		for _, n := range []int64{at, int64(len(k.tiles)), int64(k.piece)} {
			index = binary.AppendUvarint(index, uint64(n))
		}
		for piece := range slices.Chunk(k.tiles, k.piece) {
			index = binary.LittleEndian.AppendUint32(index, crc32.Checksum(piece, castagnoli))
		}
		for part := range slices.Chunk(k.tiles, step) {
			select {
			case <-c.stop:
				return errStopped
			default:
			}
			if _, err := w.Write(part); err != nil {
				return err
			}
		}
		at += int64(len(k.tiles))
	}
	if len(index) > maxIndex {
		return fmt.Errorf("an index of %d bytes is too long", len(index))
	}
	if _, err := w.Write(index); err != nil {
		return err
	}
	_, err := w.Write(footer(at, index))
	return err
}

// removeLeftovers removes files that processes which were killed have left.
func (c *Cache) removeLeftovers() {
	parts, _ := filepath.Glob(filepath.Join(c.cfg.Dir, "*"+partEnding)) // the pattern is right
	for _, path := range parts {
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil || strings.TrimSuffix(path, partEnding) == strings.TrimSuffix(c.path, ending) {
			_ = f.Close() // a file that is nil can be closed
			continue
		}
		if lock(f) == nil { // nobody writes it
			_ = os.Remove(path)
		}
		_ = f.Close()
	}
}

// makeRoom removes the files that were used longest ago, until one of this size fits. It removes none
// if all of them together are not enough: the disk is full of something else then.
func (c *Cache) makeRoom(size int64) error {
	if size > c.cfg.Limit {
		return fmt.Errorf("they take %d MiB, and the cache may have %d MiB", size>>20, c.cfg.Limit>>20)
	}
	type old struct {
		path string
		size int64
		used time.Time
	}
	var files []old
	total, others := size, int64(0)
	paths, _ := filepath.Glob(filepath.Join(c.cfg.Dir, "*"+ending))
	for _, path := range paths {
		if info, err := os.Lstat(path); err == nil && info.Mode().IsRegular() && path != c.path {
			files = append(files, old{path, info.Size(), info.ModTime()})
			total, others = total+info.Size(), others+info.Size()
		}
	}
	if err := c.fits(size - others); err != nil {
		return c.fits(size)
	}
	slices.SortFunc(files, func(a, b old) int { return a.used.Compare(b.used) })
	for _, f := range files {
		if total <= c.cfg.Limit && c.fits(size) == nil {
			break
		}
		if err := os.Remove(f.path); err != nil {
			return err
		}
		c.cfg.Log.Info("packed weights that were not used for the longest time are removed", "file", f.path)
		total -= f.size
	}
	return c.fits(size)
}

// fits returns an error if the disk has no room for so many bytes.
func (c *Cache) fits(size int64) error {
	free, err := freeBytes(c.cfg.Dir)
	if err == nil && free >= 0 && free < size+c.cfg.MinFree {
		err = fmt.Errorf("they take %d MiB, and %s has %d MiB free", size>>20, c.cfg.Dir, free>>20)
	}
	return err
}
