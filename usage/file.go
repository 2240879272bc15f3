package usage

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
)

// The file is lines of text, each with a checksum of its own:
//
//	6b0c6a2f since 1772900000
//	50f0a4d3 add 3 120 64 210 team/project
//	0f3e3c1a add 1 15 0 5 -
//
// which are requests, prompt, cached and completion tokens; "-" is no project.
// Totals are the sums. Nothing is ever changed in place, so damage stays where
// it is: a line that was cut (a process died in the middle of a write) or
// altered is skipped, counted and logged, and the next line is good again.
//
// Whoever appends holds an exclusive lock on another file beside it, and first
// reads what others have appended. When the file has grown to a multiple of its
// sums it is replaced by them, under the same lock; the others notice that the
// name means another file now and read that.

const (
	fileName = "usage.log"
	lockName = "usage.lock"

	// A file is replaced when it is larger than so many times its sums, and this.
	growth    = 4
	slack     = 256 << 10
	slackOpen = 8 << 10 // at the start: what is read then is read at every start

	maxLine = 4 << 10 // a line with a name of MaxName bytes is shorter
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journal is the file and what is known of it. Ledger.book's lock is its lock.
type journal struct {
	path string
	lock *os.File
	file *os.File
	log  *slog.Logger

	at      int64 // everything before is in the totals
	size    int64 // of the file, while it is locked; more than at: the last line is cut
	compact int64 // replace the file when it is larger; 0: it has not been read yet
	damaged int   // lines skipped
	listed  bool  // the directory's entry is durable, too
}

func openJournal(dir string, log *slog.Logger) (*journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &journal{path: filepath.Join(dir, fileName), log: log}
	var err error
	if j.lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if j.file, err = j.openFile(); err != nil {
		_ = j.lock.Close() // nothing was written to it
		return nil, err
	}
	return j, nil
}

func (j *journal) openFile() (*os.File, error) {
	return os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// sync makes what was written durable, and the name of a new file.
func (j *journal) sync() error {
	if err := j.file.Sync(); err != nil || j.listed {
		return err
	}
	dir, err := os.Open(filepath.Dir(j.path))
	if err != nil {
		return err
	}
	_ = dir.Sync() // not every system can
	j.listed = true
	return dir.Close()
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// append adds to t what others have written, then writes what was added here
// and adds that. After an error nothing of added has been written.
func (j *journal) append(t *totals, added map[string]Counts) (err error) {
	if err := lockFile(j.lock); err != nil {
		return fmt.Errorf("%s: %w", j.lock.Name(), err)
	}
	defer func() { err = errors.Join(err, unlockFile(j.lock)) }()
	if err := j.follow(t); err != nil {
		return err
	}
	if err := j.read(t); err != nil {
		return err
	}
	if len(added) > 0 || t.since == 0 {
		if err := j.writeLines(t, added); err != nil {
			return err
		}
	}
	if j.compact == 0 {
		j.compact = growth*int64(len(sums(t))) + slackOpen
	}
	if j.at > j.compact {
		if err := j.replace(t); err != nil {
			j.compact = 2 * j.at // not at every write
			j.log.Warn("the file of usage counts cannot be replaced by its sums and grows on", "file", j.path, "error", err)
		}
	}
	return nil
}

// follow opens the file anew if the name means another one by now, or ours is
// not what it was.
func (j *journal) follow(t *totals) error {
	ours, err := j.file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(j.path)
	if err == nil && os.SameFile(ours, named) && named.Size() >= j.at {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := j.openFile()
	if err != nil {
		return err
	}
	_ = j.file.Close() // nothing of ours is unwritten
	j.file, j.at, j.damaged, j.listed = f, 0, 0, false
	*t = newTotals(t.limit)
	return nil
}

// read adds the lines behind at to t.
func (j *journal) read(t *totals) error {
	damaged := 0
	defer func() {
		if damaged > 0 {
			j.damaged += damaged
			j.log.Warn("damaged lines in the file of usage counts were skipped", "file", j.path, "lines", damaged)
		}
	}()
	r := bufio.NewReaderSize(io.NewSectionReader(j.file, j.at, math.MaxInt64-j.at), 16*maxLine)
	for pos := j.at; ; {
		line, err := r.ReadSlice('\n')
		pos += int64(len(line))
		long := false
		for err == bufio.ErrBufferFull {
			line, err = r.ReadSlice('\n')
			pos += int64(len(line))
			long = true
		}
		if err == io.EOF {
			j.size = pos
			return nil
		}
		if err != nil {
			return err
		}
		j.at = pos
		if line = line[:len(line)-1]; len(line) == 0 && !long {
			continue
		}
		if rec, ok := parse(line); ok && !long {
			rec.addTo(t)
		} else {
			damaged++
		}
	}
}

// writeLines appends added, in one write.
func (j *journal) writeLines(t *totals, added map[string]Counts) error {
	var buf []byte
	cut := j.size > j.at
	if cut {
		buf = append(buf, "?\n"...) // ends what somebody could not end, and spoils it should only the end be missing: it was skipped
	}
	since := t.since
	if since == 0 {
		since = time.Now().Unix()
		buf = appendSince(buf, since)
	}
	// What has no counts of its own goes to the file as what it counts for.
	names := sortedNames(added)
	buckets := make([]string, len(names))
	room := t.room()
	for i, name := range names {
		buckets[i] = name
		if _, known := t.counts[name]; !known && name != Other {
			if room--; room < 0 {
				buckets[i] = Other
			}
		}
		buf = appendCounts(buf, buckets[i], added[name])
	}
	if n, err := j.file.Write(buf); err != nil {
		if n > 0 {
			err = errors.Join(err, j.file.Truncate(j.size)) // or a part would count twice
		}
		return err
	}
	if cut {
		j.damaged++
		j.log.Warn("the file of usage counts ended in the middle of a line, which was skipped", "file", j.path)
	}
	t.since = since
	for i, name := range names {
		t.add(buckets[i], added[name])
	}
	j.at = j.size + int64(len(buf))
	j.size = j.at
	return nil
}

// replace puts the sums in the file's place. Where lines were skipped the old
// file stays, for whoever wants to look.
func (j *journal) replace(t *totals) error {
	next := j.path + ".new"
	data := sums(t)
	if err := writeDurably(next, data); err != nil {
		return err
	}
	if j.damaged > 0 {
		kept := j.path + ".damaged"
		if err := os.Remove(kept); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err := os.Link(j.path, kept); err != nil {
			return err
		}
	}
	if err := os.Rename(next, j.path); err != nil {
		return err
	}
	f, err := j.openFile()
	if err != nil {
		return err
	}
	_ = j.file.Close() // it is not the file any more
	j.file, j.at, j.size, j.damaged, j.listed = f, int64(len(data)), int64(len(data)), 0, false
	j.compact = growth*j.at + slack
	return nil
}

func writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Sync(), f.Close())
}

// sums is a file with nothing but t.
func sums(t *totals) []byte {
	buf := appendSince(nil, t.since)
	for _, name := range sortedNames(t.counts) {
		buf = appendCounts(buf, name, t.counts[name])
	}
	return buf
}

func sortedNames(counts map[string]Counts) []string {
	names := make([]string, 0, len(counts))
	for name := range counts {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// record is one line.
type record struct {
	since   int64 // not 0: when counting began; nothing else
	project string
	Counts
}

func (r *record) addTo(t *totals) {
	if r.since == 0 {
		t.add(r.project, r.Counts)
	} else if t.since == 0 || r.since < t.since {
		t.since = r.since
	}
}

const none = "-"

// storable reports whether a name can stand in a line.
func storable(name string) bool {
	if len(name) > MaxName || name == none {
		return false
	}
	for _, b := range []byte(name) {
		if b <= ' ' || b >= 0x7f {
			return false
		}
	}
	return true
}

func appendSince(dst []byte, since int64) []byte {
	return checked(dst, fmt.Appendf(nil, "since %d", since))
}

func appendCounts(dst []byte, project string, c Counts) []byte {
	if project == "" {
		project = none
	}
	return checked(dst, fmt.Appendf(nil, "add %d %d %d %d %s", c.Requests, c.Prompt, c.Cached, c.Completion, project))
}

func checked(dst, text []byte) []byte {
	return fmt.Appendf(dst, "%08x %s\n", crc32.Checksum(text, castagnoli), text)
}

// parse reads a line without its end.
func parse(line []byte) (r record, ok bool) {
	sum, text, _ := bytes.Cut(line, []byte{' '})
	crc, err := strconv.ParseUint(string(sum), 16, 32)
	if err != nil || len(sum) != 8 || uint32(crc) != crc32.Checksum(text, castagnoli) {
		return r, false
	}
	f := bytes.Split(text, []byte{' '})
	switch {
	case len(f) == 2 && string(f[0]) == "since":
		r.since, err = strconv.ParseInt(string(f[1]), 10, 64)
		return r, err == nil && r.since > 0
	case len(f) == 6 && string(f[0]) == "add":
		for i, n := range []*uint64{&r.Requests, &r.Prompt, &r.Cached, &r.Completion} {
			if *n, err = strconv.ParseUint(string(f[1+i]), 10, 64); err != nil {
				return record{}, false
			}
		}
		if r.project = string(f[5]); r.project == none {
			r.project = ""
		} else if r.project == "" || !storable(r.project) {
			return record{}, false
		}
		return r, true
	}
	return r, false
}
