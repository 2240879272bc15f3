package batch

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// Output is an output file. Its methods may be called from any goroutine.
type Output struct {
	file  io.Writer
	sync  func() error // nil: there is nothing to sync
	close func() error
	known map[key]bool // custom_ids and ids of what was in the file when it was opened

	mu     sync.Mutex
	failed int // results with errors
	line   []byte
	synced time.Time
	err    error
}

// key is a hash of a custom_id or an id, because texts would take several times the memory.
type key [16]byte

func keyOf(kind byte, text string) (k key) {
	h := sha256.Sum256(append([]byte{kind}, text...))
	copy(k[:], h[:])
	return k
}

// syncEvery is how often a file is synced that is being written. What was written since then
// is computed again after a loss of power; the end of a process loses nothing of it.
const syncEvery = time.Second

// ErrForeign is the error for a file that is not an output of a batch.
var ErrForeign = errors.New("it is not the output of a batch")

// NewOutput returns an output that begins here and is not kept on a disk.
func NewOutput(w io.Writer) *Output {
	return &Output{file: w, close: func() error { return nil }, known: map[key]bool{}}
}

// OpenOutput opens an output file, or makes one. What is in it counts as done. A last line that was cut
// is cut off. A file that another process writes to is an error.
func OpenOutput(path string) (o *Output, err error) {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() { // a pipe or a device
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		o := NewOutput(f)
		o.close = f.Close
		return o, nil
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			err = fmt.Errorf("%s: %w", path, err)
		}
	}()
	if err := lock(f); err != nil {
		return nil, err
	}
	o = NewOutput(f)
	o.sync, o.close = f.Sync, f.Close
	end, err := o.read(f)
	if err != nil {
		return nil, err
	}
	if err := f.Truncate(end); err != nil {
		return nil, err
	}
	_, err = f.Seek(end, io.SeekStart)
	return o, err
}

// read reads what is in a file, and returns where its last whole line ends.
func (o *Output) read(f io.Reader) (end int64, err error) {
	in := bufio.NewReaderSize(f, 1<<20)
	for number := 1; ; number++ {
		line, err := readLine(in)
		if err != nil && err != io.EOF {
			return 0, err
		}
		whole := err == nil
		switch {
		case !whole && !cut(line):
			return 0, fmt.Errorf("line %d: %w", number, ErrForeign)
		case !whole:
			return end, nil
		}
		if !o.note(line) {
			return 0, fmt.Errorf("line %d: %w", number, ErrForeign)
		}
		end += int64(len(line)) + 1
	}
}

// cut reports whether a text may be the beginning of a line that was not written to its end. After
// a loss of power it may be zeros.
func cut(text []byte) bool {
	text = bytes.TrimRight(text, "\x00")
	begin := `{"id":"` + idPrefix
	n := min(len(text), len(begin))
	return string(text[:n]) == begin[:n]
}

// note counts a line as done, and reports whether it is one.
func (o *Output) note(line []byte) bool {
	v := jsontext.Trim(line)
	if jsontext.Check(v, maxDepth) != nil || !is(v, jsontext.Object) {
		return false
	}
	id, custom, bad, response := v.Member("id"), v.Member("custom_id"), v.Member("error"), v.Member("response")
	if !is(id, jsontext.String) || custom == nil {
		return false
	}
	o.known[keyOf('i', id.Text())] = true
	computed := !bad.Given() && is(response, jsontext.Object)
	if computed && is(custom, jsontext.String) {
		o.known[keyOf('c', custom.Text())] = true
	}
	if !computed || string(response.Member("status_code")) != "200" {
		o.failed++
	}
	return true
}

// is reports whether a value is there, of a kind.
func is(v jsontext.Value, kind jsontext.Kind) bool { return len(v) > 0 && v.Kind() == kind }

// Has reports whether the output had the result of a job when it was opened. A line that could not be
// computed and has been mended since is another one.
func (o *Output) Has(j *Job) bool {
	return o.known[keyOf('i', j.ID)] || j.Err == nil && o.known[keyOf('c', j.Line.CustomID)]
}

// Failed returns how many results in the output are errors.
func (o *Output) Failed() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.failed
}

// Add writes a result. After an error it writes nothing more, because the file may end in the middle of a line.
func (o *Output) Add(r *Result) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err != nil {
		return o.err
	}
	o.line = r.Append(o.line[:0])
	if _, o.err = o.file.Write(o.line); o.err != nil {
		return o.err
	}
	if r.Failed() {
		o.failed++
	}
	if now := time.Now(); o.sync != nil && now.Sub(o.synced) >= syncEvery {
		o.err = o.sync()
		o.synced = time.Now()
	}
	return o.err
}

// Close syncs and closes the file.
func (o *Output) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.err
	if o.sync != nil {
		err = errors.Join(err, o.sync())
	}
	return errors.Join(err, o.close())
}

// readLine reads a line without its end. At the end of the input the error is io.EOF, and the
// line is what stands behind the last end of a line.
func readLine(in *bufio.Reader) (line []byte, err error) {
	for {
		piece, err := in.ReadSlice('\n')
		line = append(line, piece...)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == nil {
			line = line[:len(line)-1]
		}
		return line, err
	}
}
