package kvstore

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/cespare/xxhash/v2"

	"weir/kvcache"
)

const (
	magic      = "weirkvb1"
	headerSize = len(magic) + 16 + 16 + 8
)

var (
	errForeign = errors.New("it is not what its name says")
	errExposed = errors.New("it has to be a file that only its owner can read (mode 0600)")
	errStopped = errors.New("kvstore: stopped")
	errFull    = errors.New("the disk is full")
)

// header is what stands before the data of a file.
func (s *Store) header(k kvcache.Key, data []byte) []byte {
	b := append(make([]byte, 0, headerSize), magic...)
	b = append(b, s.identity[:]...)
	b = append(b, k.Hash[:]...)
	if k.State {
		b[len(b)-1] ^= 1 << 7
	}
	h := xxhash.New()
	_, _ = h.Write(b) // never fails
	_, _ = h.Write(data)
	return binary.LittleEndian.AppendUint64(b, h.Sum64())
}

// readFile reads a file of exactly len(data) bytes of data, and compares all that it should be.
func (s *Store) readFile(k kvcache.Key, data []byte) error {
	f, err := os.Open(s.path(s.folder(), k))
	if err != nil {
		return err
	}
	defer f.Close()
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(f, head); err != nil {
		return fmt.Errorf("%w: its header is cut", errForeign)
	}
	if _, err := io.ReadFull(f, data); err != nil {
		return fmt.Errorf("%w: it is cut", errForeign)
	}
	if n, _ := f.Read(make([]byte, 1)); n > 0 {
		return fmt.Errorf("%w: it is too long", errForeign)
	}
	if !bytes.Equal(head, s.header(k, data)) {
		return fmt.Errorf("%w: another checksum", errForeign)
	}
	return nil
}

// writeFile writes a file and puts it into its place, if nothing was erased meanwhile.
func (s *Store) writeFile(job *writeJob) error {
	path := s.path(s.folder(), job.key)
	s.files.Lock()
	defer s.files.Unlock()
	if !s.current(job.epoch) {
		return errStopped
	}
	part := path + partEnding
	f, err := os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(path), 0o700); err == nil {
			f, err = os.OpenFile(part, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		}
	}
	if err != nil {
		return err
	}
	_, err = f.Write(s.header(job.key, job.data))
	if err == nil {
		_, err = f.Write(job.data)
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(part, path)
	}
	if err != nil {
		_ = os.Remove(part) // err says more
	}
	return err
}

// current reports whether nothing was erased since an epoch.
func (s *Store) current(epoch int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.epoch == epoch
}

// write is the goroutine that writes.
func (s *Store) write() {
	for {
		job, stop := s.nextWrite()
		if stop {
			return
		}
		if job == nil {
			select {
			case <-s.mayWrite:
				continue
			case <-s.stop:
				return
			}
		}
		begun := time.Now()
		err := s.makeRoom(onDisk(int64(headerSize + len(job.data))))
		if err == nil {
			err = s.writeFile(job)
		}
		s.wrote(job, err, time.Since(begun))
	}
}

// nextWrite is what is to be written next; nil: there is nothing yet. stop says that nothing will come any more.
func (s *Store) nextWrite() (job *writeJob, stop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w := &s.mu.writes
	select {
	case <-s.stop:
		return nil, true
	default:
	}
	if len(w.queue) == 0 {
		return nil, s.mu.closed
	}
	if !s.mu.indexed && !s.mu.closed { // how many files there are is not known
		return nil, false
	}
	job = w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return job, false
}

// wrote books a file that was written, or was not.
func (s *Store) wrote(job *writeJob, err error, took time.Duration) {
	if err != nil && !errors.Is(err, errStopped) {
		s.warned.warn("copies of KV blocks are not written", "error", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, st := &s.mu.writes, &s.mu.stats
	if w.pending[job.key] == job {
		delete(w.pending, job.key)
	}
	st.WriteSeconds += took.Seconds()
	switch {
	case err == nil && job.epoch == s.mu.epoch:
		s.mu.index.add(place{0, job.key}, onDisk(int64(headerSize+len(job.data))), false)
		w.rate.Add(float64(len(job.data)), took)
	case errors.Is(err, errStopped):
		st.Dropped++
	default:
		st.Dropped++
		st.WriteErrors++
	}
	w.buffers.give(job.data)
	s.mu.wake()
}

// makeRoom removes the files that were used longest ago until one that takes so much fits. Where the disk is full of something
// else, no more goes for a file than it takes.
func (s *Store) makeRoom(size int64) error {
	if size > s.cfg.Size {
		return fmt.Errorf("one takes %d bytes, and all may take %d", size, s.cfg.Size)
	}
	for s.fileBytes()+size > s.cfg.Size {
		if _, err := s.removeOldest(); err != nil {
			return err
		}
	}
	for made := int64(0); ; {
		free, err := freeBytes(s.cfg.Dir)
		if err != nil || free < 0 || free >= size+s.cfg.MinFree {
			return err
		}
		if made >= size {
			return errFull
		}
		n, err := s.removeOldest()
		if err != nil {
			return errors.Join(errFull, err)
		}
		made += n
	}
}

func (s *Store) fileBytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.mu.index.bytes
}

// removeOldest removes the file that was used longest ago, and returns what it took.
func (s *Store) removeOldest() (size int64, err error) {
	s.mu.Lock()
	x := &s.mu.index
	i := x.oldest()
	if i == 0 {
		s.mu.Unlock()
		return 0, errors.New("there is nothing to remove")
	}
	e := x.entries[i]
	folder := x.others[e.folder]
	x.remove(i)
	s.mu.stats.Evicted++
	s.mu.Unlock()
	if e.folder == 0 {
		folder = s.folder()
	}
	if err := os.Remove(s.path(folder, e.key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	return e.size, nil
}

// read is one of the goroutines that read.
func (s *Store) read() {
	for {
		job, ok := s.nextRead()
		if !ok {
			select {
			case <-s.mayRead:
				continue
			case <-s.stop:
				return
			}
		}
		s.readOne(job)
	}
}

// nextRead is what is to be read next.
func (s *Store) nextRead() (job readJob, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := &s.mu.reads
	if len(r.queue) == 0 || s.mu.closed {
		return job, false
	}
	job = r.queue[0]
	r.queue = r.queue[:copy(r.queue, r.queue[1:])]
	if len(r.queue) > 0 {
		signal(s.mayRead) // for another reader
	}
	if r.active++; r.active == 1 {
		r.mark = time.Now()
	}
	return job, true
}

// readOne reads a file, and removes it if it is not what it should be.
func (s *Store) readOne(job readJob) {
	err := s.readFile(job.Key, job.Data)
	now := time.Now()
	path := s.path(s.folder(), job.Key)
	switch {
	case err == nil:
		_ = os.Chtimes(path, now, now) // another order of removal does no harm
	case !errors.Is(err, fs.ErrNotExist):
		s.warned.warn("a copy of KV blocks is damaged, and they are computed anew", "file", path, "error", err)
		_ = os.Remove(path)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r, st := &s.mu.reads, &s.mu.stats
	took := now.Sub(r.mark)
	r.mark = now
	r.active--
	st.ReadSeconds += took.Seconds()
	at := s.mu.index.find(0, job.Key)
	switch {
	case job.epoch != s.mu.epoch:
		r.buffers.give(job.Data)
		job.Data = nil
	case err != nil:
		if !errors.Is(err, fs.ErrNotExist) {
			st.Damaged++
		}
		s.mu.index.remove(at)
		r.buffers.give(job.Data)
		job.Data = nil
	default:
		s.gave(len(job.Data))
		r.rate.Add(float64(len(job.Data)), took)
		s.mu.index.touch(at)
		s.mu.memory.add(job.Key, job.Data)
	}
	r.done = append(r.done, job.Content)
	s.mu.wake()
}

// makeSecret makes the file of a secret, whole or not at all.
func makeSecret(dir, path string) error {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // never fails (crypto/rand)
	f, err := os.CreateTemp(dir, "secret*"+partEnding)
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(secret)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Link(f.Name(), path) // fails if another process was quicker, whose secret it is then
}
