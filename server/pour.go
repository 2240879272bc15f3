package server

import (
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"weir/server/failure"
)

// poured is how much of an answer is held back until it is known to be whole.
const poured = 256 << 10

// pour answers with what write writes. A small answer is sent when it is whole,
// so that an error has its own status; a large one goes out as it is written, and
// when writing fails the connection is cut, so that no client takes a part for all.
// However slowly the client reads, write sees one snapshot and holds little.
func (s *Server) pour(c *call, contentType string, write func(io.Writer) error) {
	r, w := io.Pipe()
	p := &spout{w: w, full: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = guarded(func() error { return write(p) })
		if p.err == nil && p.over {
			p.err = p.flush()
		}
		_ = w.CloseWithError(p.err) // it returns nil, always
	}()
	select {
	case <-p.full:
		c.SetContentType(contentType)
		c.streams = true
		c.SetBodyStream(&download{PipeReader: r, c: c, s: s, spout: p}, -1)
	case <-p.done:
		if p.err != nil {
			s.fail(c, p.err)
			return
		}
		c.SetContentType(contentType)
		c.Response.SetBodyRaw(p.buf)
	}
}

// guarded calls f and turns a panic of it into an error: nobody else would catch it
// on a goroutine of our own.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", failure.ErrPanic, p, debug.Stack())
		}
	}()
	return f()
}

// spout is the writing end of an answer.
type spout struct {
	w    *io.PipeWriter
	buf  []byte
	over bool          // more than poured has come
	full chan struct{} // closed then
	done chan struct{} // closed when everything is written, or cannot be
	err  error
}

func (p *spout) Write(b []byte) (int, error) {
	p.buf = append(p.buf, b...)
	if len(p.buf) < poured {
		return len(b), nil
	}
	if !p.over {
		p.over = true
		close(p.full)
	}
	return len(b), p.flush()
}

func (p *spout) flush() error {
	_, err := p.w.Write(p.buf)
	p.buf = p.buf[:0]
	return err
}

// download is the reading end. fasthttp reads it to its end and closes it.
type download struct {
	*io.PipeReader
	c     *call
	s     *Server
	spout *spout
}

var errCut = errors.New("server: the answer was cut short")

func (d *download) Read(b []byte) (int, error) {
	n, err := d.PipeReader.Read(b)
	if err != nil && err != io.EOF {
		d.s.log.Error("an answer was cut short", "id", d.c.id, "error", err)
		_ = d.c.conn.Conn.Close() // or the chunked body would have an end
		err = errCut
	}
	return n, err
}

// Close is called when the answer is complete, and when the client does not take it.
func (d *download) Close() error {
	_ = d.PipeReader.CloseWithError(failure.ErrGone) // it returns nil, always
	<-d.spout.done
	d.s.settle(d.c)
	d.c.end()
	return nil
}
