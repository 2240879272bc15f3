package hub

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"weir/internal/plainfile"
)

// A span is the bytes from one offset to before another.
type span struct{ from, to int64 }

// add puts a span into a sorted list of spans that do not touch.
func add(list []span, s span) []span {
	if s.from >= s.to {
		return list
	}
	i, _ := slices.BinarySearchFunc(list, s.from, func(e span, from int64) int {
		if e.to < from {
			return -1
		}
		return 1
	})
	j := i
	for ; j < len(list) && list[j].from <= s.to; j++ {
		s.from, s.to = min(s.from, list[j].from), max(s.to, list[j].to)
	}
	return slices.Replace(list, i, j, s)
}

// total is how many bytes the spans have.
func total(list []span) (n int64) {
	for _, s := range list {
		n += s.to - s.from
	}
	return n
}

// An assembly is a file that is put together from parts that come in any order. Beside it is a
// journal of what has been written, so that another process can go on.
type assembly struct {
	file, journal *os.File
	size          int64

	mu    sync.Mutex
	grown *sync.Cond // of mu
	have  []span     // written
	taken []span     // somebody is fetching them; may touch each other
	ended bool
}

// journalHead begins a journal of a file of so many bytes.
func journalHead(size int64) string { return fmt.Sprintf("weir parts 1 %d\n", size) }

// openAssembly opens the file and the journal, which need not exist.
func openAssembly(path, journal string, size int64) (a *assembly, err error) {
	a = &assembly{size: size}
	a.grown = sync.NewCond(&a.mu)
	if a.file, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666); err != nil {
		return nil, err
	}
	info, err := a.file.Stat()
	if err == nil {
		a.have = readJournal(journal, size, info.Size())
		err = a.begin(journal)
	}
	if err != nil {
		return nil, errors.Join(err, a.file.Close())
	}
	return a, nil
}

// begin gives the file its size and writes the journal anew.
func (a *assembly) begin(journal string) (err error) {
	if err = a.file.Truncate(a.size); err != nil {
		return err
	}
	if a.journal, err = os.OpenFile(journal, os.O_WRONLY|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o666); err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString(journalHead(a.size))
	for _, s := range a.have {
		fmt.Fprintf(&b, "%d %d\n", s.from, s.to)
	}
	if _, err = a.journal.WriteString(b.String()); err != nil {
		err = errors.Join(err, a.journal.Close())
	}
	return err
}

// readJournal reads which parts of a file of so many bytes have been written. length is the file's
// own: what is behind it is not there, whatever the journal says. A line that is cut off or wrong
// ends the reading.
func readJournal(path string, size, length int64) (have []span) {
	text, err := plainfile.Read(path)
	if err != nil {
		return nil
	}
	rest, ok := bytes.CutPrefix(text, []byte(journalHead(size)))
	if !ok {
		return nil
	}
	for lines := bufio.NewScanner(bytes.NewReader(rest)); lines.Scan(); {
		from, to, _ := strings.Cut(lines.Text(), " ")
		s := span{number(from), number(to)}
		if s.from < 0 || s.to > min(size, length) || s.from >= s.to {
			break
		}
		have = add(have, s)
	}
	return have
}

func number(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// close ends the work on the file, which stays where it is.
func (a *assembly) close() error {
	a.end()
	return errors.Join(a.file.Close(), a.journal.Close())
}

// end wakes whoever waits for parts that will not come.
func (a *assembly) end() {
	a.mu.Lock()
	a.ended = true
	a.mu.Unlock()
	a.grown.Broadcast()
}

// reset forgets all parts.
func (a *assembly) reset() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.have, a.taken, a.ended = nil, nil, false
	err := errors.Join(a.file.Truncate(0), a.file.Truncate(a.size), a.journal.Truncate(0))
	if err == nil {
		_, err = a.journal.WriteString(journalHead(a.size))
	}
	return err
}

// missing is how many bytes have not been written.
func (a *assembly) missing() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.size - total(a.have)
}

// missingParts is how many spans have not been written.
func (a *assembly) missingParts() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(gaps(a.have, span{0, a.size}))
}

// gaps returns what of a span is not among others, which are sorted.
func gaps(busy []span, in span) (list []span) {
	at := in.from
	for _, s := range busy {
		if s.to <= at {
			continue
		}
		if s.from >= in.to {
			break
		}
		if s.from > at {
			list = append(list, span{at, s.from})
		}
		at = s.to
	}
	if at < in.to {
		list = append(list, span{at, in.to})
	}
	return list
}

// A lease is a part of the file that one goroutine fetches.
type lease struct {
	a    *assembly
	at   int64 // what is written next
	part span
}

// claim takes the first part that nobody has, of at most so many bytes; nil if there is none.
func (a *assembly) claim(most int64) *lease {
	a.mu.Lock()
	defer a.mu.Unlock()
	busy := slices.Clone(a.have)
	for _, s := range a.taken {
		busy = add(busy, s)
	}
	free := gaps(busy, span{0, a.size})
	if len(free) == 0 {
		return nil
	}
	part := span{free[0].from, min(free[0].to, free[0].from+most)}
	a.taken = append(a.taken, part)
	return &lease{a, part.from, part}
}

// write writes the next bytes of the part.
func (l *lease) write(p []byte) error {
	if err := l.a.store(span{l.at, l.at + int64(len(p))}, p); err != nil {
		return err
	}
	l.at += int64(len(p))
	return nil
}

// release gives back what has not been written. A lease that is nil has nothing.
func (l *lease) release() {
	if l == nil {
		return
	}
	l.a.mu.Lock()
	defer l.a.mu.Unlock()
	l.a.taken = slices.DeleteFunc(l.a.taken, func(s span) bool { return s == l.part })
}

// store writes bytes, and notes that they are there.
func (a *assembly) store(s span, p []byte) error {
	if _, err := a.file.WriteAt(p, s.from); err != nil {
		return err
	}
	if _, err := a.journal.WriteString(fmt.Sprintf("%d %d\n", s.from, s.to)); err != nil {
		return err
	}
	a.mu.Lock()
	a.have = add(a.have, s)
	a.mu.Unlock()
	a.grown.Broadcast()
	return nil
}

// fill writes those of the bytes at an offset that have not been written.
func (a *assembly) fill(at int64, p []byte) (n int, err error) {
	a.mu.Lock()
	free := gaps(a.have, span{at, at + int64(len(p))})
	a.mu.Unlock()
	for _, s := range free {
		if err := a.store(s, p[s.from-at:s.to-at]); err != nil {
			return n, err
		}
		n += int(s.to - s.from)
	}
	return n, nil
}

// follow hashes the file from its beginning, as its parts come.
func (a *assembly) follow(into hash.Hash) error {
	buf := make([]byte, 1<<20)
	for at := int64(0); at < a.size; {
		to := a.reached(at)
		if to == at {
			return context.Canceled
		}
		n := min(to-at, int64(len(buf)))
		if _, err := a.file.ReadAt(buf[:n], at); err != nil {
			return err
		}
		into.Write(buf[:n])
		at += n
	}
	return nil
}

// reached waits until the file is whole beyond an offset, and returns how far it is. It returns
// the offset if it will not be.
func (a *assembly) reached(at int64) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		if len(a.have) > 0 && a.have[0].from == 0 && a.have[0].to > at {
			return a.have[0].to
		}
		if a.ended {
			return at
		}
		a.grown.Wait()
	}
}

// A digest is the hash that a file has to have.
type digest struct {
	git bool   // SHA-1 of git's object; otherwise SHA-256
	hex string // "": unknown
}

// digestOf finds out what hash a blob has to have, by its etag and what the hub lists of the file,
// which may be nil.
func digestOf(etag string, f *remoteFile) digest {
	switch {
	case f != nil && f.SHA256 != "":
		return digest{hex: f.SHA256}
	case hexSHA256.MatchString(etag):
		return digest{hex: etag}
	case commitHash.MatchString(etag):
		return digest{git: true, hex: etag}
	case f != nil && commitHash.MatchString(f.Blob):
		return digest{git: true, hex: f.Blob}
	}
	return digest{}
}

// start begins a hash of a file of so many bytes. Git hashes "blob ", the size and a zero byte
// before the file.
func (d digest) start(size int64) hash.Hash {
	if !d.git {
		return sha256.New()
	}
	h := sha1.New()
	fmt.Fprintf(h, "blob %d\x00", size)
	return h
}

// matches tells whether a hash is the one that the file has to have.
func (d digest) matches(h hash.Hash) bool {
	return d.hex == "" || hex.EncodeToString(h.Sum(nil)) == d.hex
}

// checkFile reads a file and tells whether it is what it has to be.
func (d digest) checkFile(ctx context.Context, path string, read func(n int)) (bool, error) {
	f, err := plainfile.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return false, err
	}
	h := d.start(info.Size())
	buf := make([]byte, 1<<20)
	for {
		n, err := f.Read(buf)
		h.Write(buf[:n])
		read(n)
		switch {
		case err == io.EOF:
			return d.matches(h), nil
		case err != nil:
			return false, err
		case ctx.Err() != nil:
			return false, context.Cause(ctx)
		}
	}
}
