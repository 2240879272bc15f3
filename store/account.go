package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// account says which files a database had at a moment, and how long they were. doc.go
// ("The account") says what it is for. Everything in it was on stable storage before it
// was written.
//
// It is kept in two files with the same text:
//
//	weir account 1
//	serial 17
//	written 2026-11-23T10:00:00Z
//	state running
//	manifest 172 4f1c2b3a 00c0ffee 3      length, its CRC, that of the first set, deletions
//	table 5 0 20971 1f2e3d4c              id, level, length, CRC of its end
//	log 00002.mem 8120 2097152 00000000   name, end of its records, least length, no CRC yet
//	log 000001.vlog 88120 88120 5a6b7c8d  one that is closed: length, CRC of its end
//	going 000003.vlog                     badger was told to delete it
//	sum 89abcdef                          CRC-32C of all lines before
//
// The first line and the last one stay as they are in all versions of the format.
type account struct {
	format   int
	serial   uint64
	written  time.Time
	state    string
	manifest manifestEntry
	tables   map[uint64]tableEntry
	// logs are those of memtables in the order in which they become tables, and then those
	// of values.
	logs  []logEntry
	going []string // logs that badger was told to delete
}

type manifestEntry struct {
	length     int64
	sum, first uint32
	deletions  int
}

type tableEntry struct {
	level int
	size  int64
	sum   uint32
}

type logEntry struct {
	name string
	end  int64  // of its records
	size int64  // what the file has at least; 0 if badger may cut it off after its records
	sum  uint32 // CRC of the bytes before end; 0 unless nothing is written to it any more
}

// accountFormat is the version of the format of a store that this code reads and writes.
const accountFormat = 1

// States of a database at the time of its account.
const (
	stateOpening = "opening" // its files were checked, badger is about to open them
	stateRunning = "running"
	stateClosed  = "closed" // by a clean stop; no file changes until it is opened again
)

var accountNames = [2]string{"ACCOUNT.1", "ACCOUNT.2"}

const accountMagic = "weir account "

func (l *logEntry) memtable() bool { return strings.HasSuffix(l.name, ".mem") }

// text is the account as it is written, in a multiple of 4096 bytes, so that writing it
// over an older one as a rule changes no size.
func (a *account) text() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s%d\nserial %d\nwritten %s\nstate %s\n", accountMagic, a.format, a.serial, a.written.UTC().Format(time.RFC3339Nano), a.state)
	fmt.Fprintf(&b, "manifest %d %08x %08x %d\n", a.manifest.length, a.manifest.sum, a.manifest.first, a.manifest.deletions)
	ids := make([]uint64, 0, len(a.tables))
	for id := range a.tables {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		t := a.tables[id]
		fmt.Fprintf(&b, "table %d %d %d %08x\n", id, t.level, t.size, t.sum)
	}
	for _, l := range a.logs {
		fmt.Fprintf(&b, "log %s %d %d %08x\n", l.name, l.end, l.size, l.sum)
	}
	for _, name := range a.going {
		fmt.Fprintf(&b, "going %s\n", name)
	}
	fmt.Fprintf(&b, "sum %08x\n", crc32.Checksum(b.Bytes(), castagnoli))
	const unit = 4096
	b.Write(bytes.Repeat([]byte{'\n'}, (unit-b.Len()%unit)%unit))
	return b.Bytes()
}

var errAccount = errors.New("store: not a whole account")

// parseAccount reads a text of [account.text]. Of a newer format it reads the number only.
func parseAccount(text []byte) (*account, error) {
	text = bytes.TrimRight(text, "\n")
	at := bytes.LastIndex(text, []byte("\nsum "))
	if at < 0 || !bytes.HasPrefix(text, []byte(accountMagic)) {
		return nil, errAccount
	}
	sum, err := strconv.ParseUint(string(text[at+len("\nsum "):]), 16, 32)
	if err != nil || uint32(sum) != crc32.Checksum(text[:at+1], castagnoli) {
		return nil, errAccount
	}
	a := &account{tables: map[uint64]tableEntry{}}
	for i, line := range strings.Split(string(text[:at]), "\n") {
		if i == 0 {
			if a.format, err = strconv.Atoi(strings.TrimPrefix(line, accountMagic)); err != nil || a.format < 1 {
				return nil, errAccount
			}
			if a.format > accountFormat {
				return a, nil
			}
			continue
		}
		if err := a.parseLine(line); err != nil {
			return nil, fmt.Errorf("%w: %q", errAccount, line)
		}
	}
	return a, nil
}

func (a *account) parseLine(line string) (err error) {
	kind, rest, _ := strings.Cut(line, " ")
	switch kind {
	case "serial":
		a.serial, err = strconv.ParseUint(rest, 10, 64)
	case "written":
		a.written, err = time.Parse(time.RFC3339Nano, rest)
	case "state":
		a.state = rest
	case "manifest":
		m := &a.manifest
		_, err = fmt.Sscanf(rest, "%d %x %x %d", &m.length, &m.sum, &m.first, &m.deletions)
	case "table":
		var id uint64
		var t tableEntry
		_, err = fmt.Sscanf(rest, "%d %d %d %x", &id, &t.level, &t.size, &t.sum)
		a.tables[id] = t
	case "log":
		var l logEntry
		_, err = fmt.Sscanf(rest, "%s %d %d %x", &l.name, &l.end, &l.size, &l.sum)
		a.logs = append(a.logs, l)
	case "going":
		a.going = append(a.going, rest)
	default:
		err = errAccount
	}
	return err
}

// readAccount reads the account of a directory: the newer one of the two copies that are
// whole. It is nil if there is no copy, and then there is no error. A newer format
// is an error that is ErrFormat, two copies that are not whole one that is errAccount.
func readAccount(dir string) (newest *account, err error) {
	found := 0
	for _, name := range accountNames {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if found++; err == nil {
			var a *account
			if a, err = parseAccount(text); err == nil && (newest == nil || cmp.Or(cmp.Compare(a.format, newest.format), cmp.Compare(a.serial, newest.serial)) > 0) {
				newest = a
			}
		}
	}
	switch {
	case newest != nil && newest.format > accountFormat:
		return nil, fmt.Errorf("%w: %s has format %d, and this version of weir reads up to %d", ErrFormat, dir, newest.format, accountFormat)
	case newest == nil && found > 0:
		return nil, errAccount
	}
	return newest, nil
}

// write writes both copies, one after the other, so that one is always whole, and syncs
// them.
func (a *account) write(dir string) error {
	text := a.text()
	for _, name := range accountNames {
		if err := overwrite(filepath.Join(dir, name), text); err != nil {
			return fmt.Errorf("store: writing %s: %w", name, err)
		}
	}
	return nil
}

// overwrite puts text in the place of what a file holds. It writes to the blocks that the
// file has, so that it needs no space on a full disk.
func overwrite(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err == nil {
		_, err = f.WriteAt(text, 0)
	}
	if err == nil && info.Size() > int64(len(text)) {
		err = f.Truncate(int64(len(text)))
	}
	if err == nil {
		err = syncAccount(f)
	}
	return errors.Join(err, f.Close())
}
