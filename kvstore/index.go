package kvstore

import (
	"encoding/hex"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir/kvcache"
)

// index knows the files of the folder, in the order in which they were used.
type index struct {
	at      map[place]int32
	entries []entry // entry 0 is the head of the ring of used ones, oldest first
	spare   []int32 // entries that are not used
	bytes   int64
	others  []string // folders of other identities; number 0 is our own
}

// place names a file: the number of the folder, and the key.
type place struct {
	folder int32
	key    kvcache.Key
}

type entry struct {
	place
	size       int64
	prev, next int32
}

func newIndex() index {
	return index{at: map[place]int32{}, entries: make([]entry, 1), others: []string{""}}
}

func (x *index) len() int { return len(x.at) }

// find is the entry of a file; 0: there is none.
func (x *index) find(folder int32, k kvcache.Key) int32 { return x.at[place{folder, k}] }

// oldest is the entry that was used longest ago; 0: there is none.
func (x *index) oldest() int32 { return x.entries[0].next }

// add adds a file as the one used last, or with old as the one used longest ago.
func (x *index) add(p place, size int64, old bool) {
	if x.at[p] != 0 {
		return
	}
	i := int32(len(x.entries))
	if n := len(x.spare); n > 0 {
		i, x.spare = x.spare[n-1], x.spare[:n-1]
	} else {
		x.entries = append(x.entries, entry{})
	}
	x.entries[i] = entry{place: p, size: size}
	x.at[p] = i
	x.bytes += size
	if old {
		x.link(i, 0)
	} else {
		x.link(i, x.entries[0].prev)
	}
}

// link inserts i into the ring after prev.
func (x *index) link(i, prev int32) {
	next := x.entries[prev].next
	x.entries[i].prev, x.entries[i].next = prev, next
	x.entries[prev].next, x.entries[next].prev = i, i
}

func (x *index) unlink(i int32) {
	e := &x.entries[i]
	x.entries[e.prev].next, x.entries[e.next].prev = e.next, e.prev
}

// touch makes i, if it is not 0, the one used last.
func (x *index) touch(i int32) {
	if i != 0 {
		x.unlink(i)
		x.link(i, x.entries[0].prev)
	}
}

// remove forgets a file.
func (x *index) remove(i int32) {
	if i == 0 {
		return
	}
	x.unlink(i)
	e := &x.entries[i]
	delete(x.at, e.place)
	x.bytes -= e.size
	x.spare = append(x.spare, i)
}

const (
	blockEnding = ".kv"
	stateEnding = ".state"
	partEnding  = ".part"
)

// diskBlock is what file systems round the size of a file up to.
const diskBlock = 4096

// onDisk is about what a file of so many bytes takes.
func onDisk(n int64) int64 { return (n + diskBlock - 1) / diskBlock * diskBlock }

// path is where a file is.
func (s *Store) path(folder string, k kvcache.Key) string {
	name, ending := hex.EncodeToString(k.Hash[:]), blockEnding
	if k.State {
		ending = stateEnding
	}
	return filepath.Join(s.cfg.Dir, folder, name[:2], name[2:]+ending)
}

// parseName is the key of a file with this name in this folder.
func parseName(folder, name string) (k kvcache.Key, ok bool) {
	text, isBlock := strings.CutSuffix(name, blockEnding)
	if !isBlock {
		if text, k.State = strings.CutSuffix(name, stateEnding); !k.State {
			return k, false
		}
	}
	hash, err := hex.DecodeString(folder + text)
	if err != nil || len(hash) != len(k.Hash) || hex.EncodeToString(hash) != folder+text {
		return k, false
	}
	k.Hash = kvcache.Hash(hash)
	return k, true
}

// folders are the folders of identities in dir.
func folders(dir string) (list []string) {
	names, _ := os.ReadDir(dir) // what cannot be read is empty
	for _, d := range names {
		if b, err := hex.DecodeString(d.Name()); d.IsDir() && err == nil && len(b) == 16 {
			list = append(list, filepath.Join(dir, d.Name()))
		}
	}
	return list
}

// found is a file that was there when the folder was opened.
type found struct {
	place
	size int64
	used time.Time
}

// list reads which files there are, and removes what processes that were killed have left of others.
func (s *Store) list() {
	s.mu.Lock()
	epoch := s.mu.epoch
	s.mu.Unlock()
	begun := time.Now()
	var files []found
	names := []string{""}
	for _, path := range folders(s.cfg.Dir) {
		number := int32(0)
		if name := filepath.Base(path); name != s.folder() {
			number = int32(len(names))
			names = append(names, name)
		}
		files = s.listFolder(files, path, number)
	}
	slices.SortStableFunc(files, func(a, b found) int { return b.used.Compare(a.used) }) // the one used last comes first
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.epoch != epoch {
		return
	}
	s.mu.index.others = names
	for _, f := range files {
		s.mu.index.add(f.place, f.size, true)
	}
	s.mu.indexed = true
	s.mu.wake()
	signal(s.mayWrite)
	if len(files) > 0 {
		s.cfg.Log.Info("copies of KV blocks are there from an earlier start", "files", len(files), "megabytes", s.mu.index.bytes>>20, "seconds", time.Since(begun).Seconds())
	}
}

// listFolder appends the files of an identity.
func (s *Store) listFolder(files []found, path string, number int32) []found {
	parts, _ := os.ReadDir(path) // what cannot be read is not found
	for _, part := range parts {
		select {
		case <-s.stop:
			return files
		default:
		}
		dir := filepath.Join(path, part.Name())
		names, _ := os.ReadDir(dir)
		for _, d := range names {
			if strings.HasSuffix(d.Name(), partEnding) {
				s.removePart(filepath.Join(dir, d.Name()))
				continue
			}
			k, ok := parseName(part.Name(), d.Name())
			info, err := d.Info()
			if ok && err == nil && info.Mode().IsRegular() {
				files = append(files, found{place{number, k}, onDisk(info.Size()), info.ModTime()})
			}
		}
	}
	return files
}

// removePart removes a file that was not written to its end. The one that is being written now belongs to this process.
func (s *Store) removePart(path string) {
	s.files.Lock()
	defer s.files.Unlock()
	_ = os.Remove(path)
}

// Secret returns a secret of 32 bytes that stays the same as long as the folder does, for salts that have to
// be the same after a restart. The file is for this user only; one that others can read is refused.
func Secret(dir string) (secret [32]byte, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return secret, err
	}
	path := filepath.Join(dir, "secret")
	if secret, err = readSecret(path); err == nil || !os.IsNotExist(err) {
		return secret, err
	}
	if err := makeSecret(dir, path); err != nil && !os.IsExist(err) {
		return secret, err
	}
	return readSecret(path)
}

func readSecret(path string) (secret [32]byte, err error) {
	info, err := os.Lstat(path)
	if err != nil {
		return secret, err
	}
	if !info.Mode().IsRegular() || exposed(info.Mode()) {
		return secret, &fs.PathError{Op: "read", Path: path, Err: errExposed}
	}
	b, err := os.ReadFile(path)
	if err == nil && len(b) != len(secret) {
		err = &fs.PathError{Op: "read", Path: path, Err: errForeign}
	}
	copy(secret[:], b)
	return secret, err
}
