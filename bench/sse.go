package bench

import (
	"bytes"
	"errors"
	"io"
)

// Limits on one answer.
const (
	maxEvent  = 1 << 20  // bytes of one event
	maxStream = 1 << 30  // bytes of a stream
	maxError  = 64 << 10 // bytes of an answer that is not a stream
)

var (
	errEventSize  = errors.New("an event of more than 1 MiB")
	errStreamSize = errors.New("an answer of more than 1 GiB")
)

// eventReader cuts a stream into server-sent events. What it returns points into its
// buffer, which it keeps from one stream to the next.
//
//	buf   …taken│begin  one event  │line│scan …│end   free…
//
// The event that is being read begins at begin, and its last, unfinished line at line.
// Between line and scan there is no line feed. Lines end with LF or CR LF.
type eventReader struct {
	buf                    []byte
	begin, line, scan, end int
	lo, hi                 int    // data of the event so far: buf[lo:hi]; lo < 0: none
	joined                 []byte // data of an event with several data lines
	several                bool   // this event has several
	total                  int    // bytes of the stream so far
}

func (r *eventReader) reset() {
	if r.buf == nil {
		r.buf = make([]byte, 16<<10)
	}
	*r = eventReader{buf: r.buf, joined: r.joined, lo: -1}
}

// fill reads once from src. Events that were returned before are no longer valid.
func (r *eventReader) fill(src io.Reader) error {
	if r.begin > 0 {
		n := r.begin
		copy(r.buf, r.buf[n:r.end])
		r.begin, r.line, r.scan, r.end = 0, r.line-n, r.scan-n, r.end-n
		if r.lo >= 0 {
			r.lo, r.hi = r.lo-n, r.hi-n
		}
	}
	if r.end == len(r.buf) {
		if r.end >= maxEvent {
			return errEventSize
		}
		r.buf = append(r.buf, make([]byte, r.end)...)
	}
	n, err := src.Read(r.buf[r.end:])
	r.end += n
	if r.total += n; r.total > maxStream {
		return errStreamSize
	}
	return err
}

// next returns the data of the next complete event, if there is one.
func (r *eventReader) next() (data []byte, ok bool) {
	for {
		n := bytes.IndexByte(r.buf[r.scan:r.end], '\n')
		if n < 0 {
			r.scan = r.end
			return nil, false
		}
		from, to := r.line, r.scan+n
		r.line, r.scan = to+1, to+1
		if to > from && r.buf[to-1] == '\r' {
			to--
		}
		switch line := r.buf[from:to]; {
		case len(line) == 0:
			r.begin = r.line
			if r.lo < 0 {
				continue // a blank line without data keeps the connection open
			}
			data = r.buf[r.lo:r.hi]
			if r.several {
				data = r.joined
			}
			r.lo, r.several = -1, false
			return data, true
		case bytes.HasPrefix(line, dataField):
			from += len(dataField)
			if from < to && r.buf[from] == ' ' {
				from++
			}
			r.data(from, to)
		}
	}
}

var dataField = []byte("data:")

// data takes in the data line buf[from:to].
func (r *eventReader) data(from, to int) {
	if r.lo < 0 {
		r.lo, r.hi = from, to
		return
	}
	if !r.several {
		r.joined, r.several = append(r.joined[:0], r.buf[r.lo:r.hi]...), true
	}
	r.joined = append(append(r.joined, '\n'), r.buf[from:to]...)
}
