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

// doc.go describes the file.

const (
	fileName = "usage.log"
	lockName = "usage.lock"

	// A file is replaced when it is larger than growth times its sums, plus slack.
	growth    = 4
	slack     = 256 << 10
	slackOpen = 8 << 10 // in place of slack at the start, because the whole file is read then

	maxLine = 4 << 10 // a line with a name of MaxName bytes is shorter
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// journal is the file and what is known of it. Ledger.book guards it.
type journal struct {
	path  string
	lock  *os.File
	file  *os.File
	log   *slog.Logger
	wait  time.Duration // for the lock
	fsync func(*os.File) error

	at      int64 // everything before this offset is in the totals
	size    int64 // of the file, while it is locked; it is more than at if the last line is cut
	compact int64 // the file is replaced when it is larger; 0 if it has not been read yet
	damaged int   // lines that were skipped
	named   bool  // the directory has been synced since the file was created
}

func openJournal(cfg Config) (*journal, error) {
	dir := cfg.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	j := &journal{path: filepath.Join(dir, fileName), log: cfg.Log, wait: cfg.patience, fsync: cfg.fsync}
	var err error
	if j.lock, err = os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return nil, err
	}
	if j.file, err = j.openFile(); err != nil {
		_ = j.lock.Close() // nothing has been written to it
		return nil, err
	}
	return j, nil
}

func (j *journal) openFile() (*os.File, error) {
	return os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
}

// sync makes durable what was written, and the name of a new file.
func (j *journal) sync() error {
	if err := j.fsync(j.file); err != nil || j.named {
		return err
	}
	dir, err := os.Open(filepath.Dir(j.path))
	if err != nil {
		return err
	}
	_ = j.fsync(dir) // some systems cannot
	j.named = true
	return dir.Close()
}

func (j *journal) close() error { return errors.Join(j.file.Close(), j.lock.Close()) }

// append adds to t what other processes have written, then writes what was added here and
// adds that to t as well. After an error nothing of added has been written.
func (j *journal) append(t *totals, added map[string]Counts) (err error) {
	if err := lockFile(j.lock, j.wait); err != nil {
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
			j.compact = 2 * j.at // do not try again at every write
			j.log.Warn("the file of usage counts cannot be replaced by its sums and grows on", "file", j.path, "error", err)
		}
	}
	return nil
}

// follow opens the file again if the name now means another one, or if the file has become
// shorter.
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
	_ = j.file.Close() // everything was written
	j.file, j.at, j.damaged, j.named = f, 0, 0, false
	*t = newTotals(t.limit)
	return nil
}

// read adds the lines from at on to t.
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
		buf = append(buf, "?\n"...) // ends the line that was cut, and damages it: it has been skipped, and if only its end were missing it would now count
	}
	since := t.since
	if since == 0 {
		since = time.Now().Unix()
		buf = appendSince(buf, since)
	}
	// Projects without counts of their own are written as Other.
	names := sortedNames(added)
	buckets := make([]string, len(names))
	free := t.free()
	for i, name := range names {
		buckets[i] = name
		if _, known := t.counts[name]; !known && name != Other {
			if free--; free < 0 {
				buckets[i] = Other
			}
		}
		buf = appendCounts(buf, buckets[i], added[name])
	}
	if n, err := j.file.Write(buf); err != nil {
		if n > 0 {
			err = errors.Join(err, j.file.Truncate(j.size)) // or some of it would count twice
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

// replace puts the sums in the place of the file. If lines were skipped, the old file is
// kept under another name, for inspection.
func (j *journal) replace(t *totals) error {
	next := j.path + ".new"
	data := sums(t)
	if err := j.writeDurably(next, data); err != nil {
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
	_ = j.file.Close() // the name means another file now
	j.file, j.at, j.size, j.damaged, j.named = f, int64(len(data)), int64(len(data)), 0, false
	j.compact = growth*j.at + slack
	return nil
}

// writeDurably writes a file and syncs it.
func (j *journal) writeDurably(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, j.fsync(f), f.Close())
}

// sums is the contents of a file that has nothing but t.
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
	since   int64 // when counting began; if it is not 0 there is nothing else
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

// storable reports whether a name can be written to a line.
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

// parse reads a line, without the newline.
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
