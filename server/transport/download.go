package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"

	"weir/server/failure"
)

// wholeAnswer is how much of an answer is held back until it is known to be complete.
const wholeAnswer = 256 << 10

// downloadBytes is what a download holds beside what its writer reserves: the part that is
// held back, in a slice that doubles as it grows, and pieces of a record as it is read and
// encoded.
const downloadBytes = 3 * wholeAnswer

// Download answers with what write writes. A small answer is sent when it is complete, so
// that an error has its own status. A large one is sent while it is written; if write then
// fails, the connection is closed, so that no client takes a part for the whole. At most
// 256 KiB and one Write are held in memory, however slowly the client reads. write runs on
// a goroutine of its own, in turns with other queries (Turns), and must not use the call.
func (c *Call) Download(contentType string, write func(context.Context, io.Writer) error) {
	held := c.Memory()
	if err := held.Grow(c.ctx, downloadBytes); err != nil {
		c.Fail(err)
		return
	}
	r, w := io.Pipe()
	p := &downloadWriter{w: w, large: make(chan struct{}), done: make(chan struct{})}
	ctx, tenant, turns := c.ctx, c.Tenant(), c.server.turns
	go func() {
		defer close(p.done)
		p.err = guarded(func() error {
			return turns.do(ctx, tenant, func(ctx context.Context, q *turn) error {
				p.turn = q
				return write(q.taking(ctx, held), p)
			})
		})
		p.turn = nil
		if p.err == nil && p.isLarge {
			p.err = p.flush()
		}
		_ = w.CloseWithError(p.err) // it returns nil, always
	}()
	select {
	case <-p.large:
		c.Stream(contentType, &downloadBody{PipeReader: r, call: c, writer: p})
	case <-p.done:
		if p.err != nil {
			c.Fail(p.err)
			return
		}
		c.SetContentType(contentType)
		c.Response.SetBodyRaw(p.buf)
	}
}

// guarded calls f and returns a panic of it as an error. On a goroutine of this package a
// panic would end the process.
func guarded(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v\n%s", failure.ErrPanic, p, debug.Stack())
		}
	}()
	return f()
}

// downloadWriter is the writing end of an answer.
type downloadWriter struct {
	w       *io.PipeWriter
	turn    *turn // of the query; nil: it has ended
	buf     []byte
	isLarge bool          // at least wholeAnswer bytes have been written
	large   chan struct{} // closed when isLarge becomes true
	done    chan struct{} // closed when everything is written, or writing has failed
	err     error
}

func (p *downloadWriter) Write(b []byte) (int, error) {
	p.buf = append(p.buf, b...)
	if len(p.buf) < wholeAnswer {
		return len(b), nil
	}
	if !p.isLarge {
		p.isLarge = true
		close(p.large)
	}
	return len(b), p.flush()
}

// flush sends what is held. The client may be slow, so that others have their turns
// meanwhile.
func (p *downloadWriter) flush() error {
	send := func() error {
		_, err := p.w.Write(p.buf)
		p.buf = p.buf[:0]
		return err
	}
	if p.turn == nil {
		return send()
	}
	return p.turn.outside(send)
}

// downloadBody is the reading end. fasthttp reads it to its end and closes it.
type downloadBody struct {
	*io.PipeReader
	call   *Call
	writer *downloadWriter
}

var errCut = errors.New("server: the answer was cut short")

func (d *downloadBody) Read(b []byte) (int, error) {
	n, err := d.PipeReader.Read(b)
	if err != nil && err != io.EOF {
		d.call.server.log.Error("an answer was cut short", "id", d.call.RequestID, "error", err)
		_ = d.call.conn.socket.Close() // otherwise fasthttp would end the chunked body as if it were complete
		err = errCut
	}
	return n, err
}

// Close waits for the writer and ends the call. It is called when the answer is complete,
// and when the client has stopped reading it.
func (d *downloadBody) Close() error {
	_ = d.PipeReader.CloseWithError(failure.ErrGone) // it returns nil, always
	<-d.writer.done
	d.call.Done()
	return nil
}
