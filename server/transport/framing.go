package transport

import (
	"bytes"
	"net"
	"sync"

	"weir/server/failure"
)

// framing is what a connection knows of the request that is being read from it. It stands
// before the parser of fasthttp, for two reasons. That parser is lenient where RFC 9112
// demands or allows a refusal, and where a proxy in front may understand a request in
// another way, so that one client smuggles requests into the connection of others. And it
// reads ahead: here no byte behind a request passes before that request is answered, so
// that it can never be taken for a part of it.
//
// It checks the ends of all lines, the names of fields, Content-Length, Transfer-Encoding
// and the framing of chunks, and it finds "close" in all lists of Connection, where fasthttp
// looks at the last one alone and for nothing beside it; everything else is left to fasthttp.
type framing struct {
	phase   phase
	bad     error // why the request is refused; nil: nothing is wrong so far
	chunked bool
	last    bool   // the client wants the connection to be closed after it
	length  int64  // Content-Length; below 0: there is none
	left    int64  // bytes of the body, or of the chunk
	digits  int    // of the size of a chunk
	extra   int    // bytes of chunk extensions
	rest    []byte // read from the connection, behind the request
	buffer  *[]byte

	// The line that is being read. No line that is looked at is longer than kept.
	line [64]byte
	kept int  // bytes of it in line
	size int  // all its bytes
	cr   bool // its newest byte is a carriage return
}

type phase uint8

const (
	beforeRequest phase = iota // also between two requests
	inHead
	inBody
	inChunkSize
	inChunkPadding
	inChunkExtension
	inChunkSizeEnd // LF
	inChunk
	inChunkEnd // CR
	inChunkEnd2
	inTrailer
	refused // nothing passes any more
)

// maxExtensions bounds the bytes of chunk extensions in a body, which nobody uses.
const maxExtensions = 16 << 10

// heldBack has the buffers of bytes behind a request.
var heldBack = sync.Pool{New: func() any { b := make([]byte, 0, 16<<10); return &b }}

// Read reads a part of the present request. If the request has ended, it begins the next.
func (c *conn) Read(p []byte) (int, error) {
	if c.secure != nil {
		return c.readSecure(p)
	}
	return c.readRequest(p)
}

// between reports whether a request has ended, or none has begun.
func (f *framing) between() bool { return f.phase == beforeRequest && f.size == 0 }

// readRequest is Read without what TLS adds to it.
func (c *conn) readRequest(p []byte) (int, error) {
	f := &c.framing
	if f.phase == refused {
		return 0, f.bad
	}
	begins := f.phase == beforeRequest
	if len(f.rest) > 0 {
		if begins && !c.conns.work(c) {
			return 0, net.ErrClosed
		}
		n := f.pass(p[:copy(p, f.rest)])
		if f.rest = f.rest[n:]; len(f.rest) == 0 {
			f.forget()
		}
		return n, f.end(n)
	}
	n, err := c.Conn.Read(p)
	if n == 0 {
		return 0, err
	}
	c.conns.received.Add(uint64(n))
	if begins && !c.conns.work(c) {
		return 0, net.ErrClosed
	}
	used := f.pass(p[:n])
	if used < n && f.phase != refused {
		f.buffer = heldBack.Get().(*[]byte)
		*f.buffer = append((*f.buffer)[:0], p[used:n]...)
		f.rest = *f.buffer
	}
	return used, f.end(used)
}

// end is the error of a read that passed n bytes. What is refused passes as far as it was
// right, so that fasthttp finds the request and it can be answered.
func (f *framing) end(n int) error {
	if n == 0 {
		return f.bad
	}
	return nil
}

// forget gives back the buffer of what is behind the request.
func (f *framing) forget() {
	if f.buffer != nil {
		heldBack.Put(f.buffer)
		f.rest, f.buffer = nil, nil
	}
}

// refuse lets nothing pass any more.
func (f *framing) refuse(err error) {
	f.phase = refused
	if f.bad == nil {
		f.bad = err
	}
}

// pass returns how many of the bytes belong to the present request and are framed
// correctly.
func (f *framing) pass(b []byte) int {
	for n := 0; n < len(b); {
		switch f.phase {
		case beforeRequest, inHead, inTrailer:
			n += f.lines(b[n:])
		case inBody, inChunk:
			m := min(int64(len(b)-n), f.left)
			n += int(m)
			if f.left -= m; f.left > 0 {
				continue
			}
			if f.phase == inChunk {
				f.phase = inChunkEnd
				continue
			}
			f.phase = beforeRequest
		default:
			f.chunkByte(b[n])
			n++
		}
		if f.between() || f.phase == refused {
			return n
		}
	}
	return len(b)
}

// lines reads lines of the head or of a trailer, as far as the end of it.
func (f *framing) lines(b []byte) (n int) {
	for n < len(b) {
		piece := b[n:]
		if f.phase == beforeRequest && f.size == 0 && !begins(piece[0]) {
			f.refuse(failure.ErrNotHTTP)
			return n
		}
		i := bytes.IndexByte(piece, '\n')
		if i >= 0 {
			piece = piece[:i+1]
		}
		n += len(piece)
		f.checkReturns(piece)
		f.kept += copy(f.line[f.kept:], piece)
		f.size += len(piece)
		f.cr = piece[len(piece)-1] == '\r'
		if i < 0 {
			return n
		}
		if f.size > 2 {
			f.text(f.line[:min(f.kept, f.size-2)], f.size-2 > len(f.line))
			f.kept, f.size = 0, 0
			continue
		}
		f.kept, f.size = 0, 0
		switch f.phase {
		case inHead:
			f.headEnds()
			return n
		case inTrailer:
			if f.phase = beforeRequest; f.bad != nil {
				f.phase = refused
			}
			return n
		}
		// An empty line before a request is skipped (RFC 9112, section 2.2).
	}
	return n
}

// begins reports whether a byte may be the first of a request, or of an empty line before
// it. A client that speaks another protocol, such as TLS, may never send the end of a line,
// and would wait for an answer until the time for headers has passed.
func begins(b byte) bool { return ' ' <= b && b < 0x7f || b == '\r' || b == '\n' }

// checkReturns checks that in a piece of a line CR stands before its LF and nowhere else.
func (f *framing) checkReturns(piece []byte) {
	last := len(piece) - 1
	at := bytes.IndexByte(piece, '\r')
	switch {
	case piece[last] != '\n':
		if f.cr || at >= 0 && at != last {
			f.bad = failure.ErrNotHTTP
		}
	case last == 0:
		if !f.cr {
			f.bad = failure.ErrNotHTTP
		}
	case f.cr || at != last-1:
		f.bad = failure.ErrNotHTTP
	}
}

// text looks at a line that is not empty. If it is cut it was too long to be kept.
func (f *framing) text(line []byte, cut bool) {
	if f.phase == beforeRequest {
		f.phase, f.chunked, f.last, f.length, f.extra = inHead, false, false, -1, 0
		return
	}
	colon := bytes.IndexByte(line, ':')
	name := line
	if colon >= 0 {
		name = line[:colon]
	}
	if len(name) == 0 || colon < 0 && !cut || !isToken(name) {
		f.bad = failure.ErrNotHTTP // also a line that continues the one before, which begins with a space
		return
	}
	if f.phase == inTrailer || colon < 0 {
		return
	}
	value := bytes.Trim(line[colon+1:], " \t")
	switch {
	case len(name) == len("content-length") && bytes.EqualFold(name, []byte("content-length")):
		length, ok := parseLength(value)
		if !ok || cut || f.length >= 0 {
			f.bad = failure.ErrNotHTTP
			return
		}
		f.length = length
	case len(name) == len("transfer-encoding") && bytes.EqualFold(name, []byte("transfer-encoding")):
		if cut || f.chunked || !bytes.EqualFold(value, []byte("chunked")) {
			f.bad = failure.ErrNotHTTP
			return
		}
		f.chunked = true
	case len(name) == len("connection") && bytes.EqualFold(name, []byte("connection")):
		f.last = f.last || lists(value, "close")
	}
}

// lists reports whether an element of a list is a name, in any case.
func lists(value []byte, name string) bool {
	for element := range bytes.SplitSeq(value, []byte(",")) {
		if bytes.EqualFold(bytes.Trim(element, " \t"), []byte(name)) {
			return true
		}
	}
	return false
}

// parseLength parses a Content-Length, which has digits only.
func parseLength(value []byte) (n int64, ok bool) {
	const most = 18 // digits that fit
	if len(value) == 0 || len(value) > most {
		return 0, false
	}
	for _, c := range value {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}

// headEnds finds out what follows the head.
func (f *framing) headEnds() {
	if f.chunked && f.length >= 0 {
		f.bad = failure.ErrNotHTTP // RFC 9112, section 6.1
	}
	switch {
	case f.bad != nil:
		f.phase = refused
	case f.chunked:
		f.beginChunk()
	case f.length > 0:
		f.phase, f.left = inBody, f.length
	default:
		f.phase = beforeRequest
	}
}

func (f *framing) beginChunk() { f.phase, f.left, f.digits = inChunkSize, 0, 0 }

// chunkByte reads a byte of what is between the data of chunks (RFC 9112, section 7.1).
func (f *framing) chunkByte(b byte) {
	switch f.phase {
	case inChunkSize:
		const most = 15 // digits that fit
		if d, ok := hexDigit(b); ok && f.digits < most {
			f.left = f.left<<4 | int64(d)
			f.digits++
			return
		}
		if f.digits > 0 {
			f.behindChunkSize(b)
			return
		}
	case inChunkPadding, inChunkExtension:
		if f.extra++; f.extra <= maxExtensions {
			f.behindChunkSize(b)
			return
		}
	case inChunkSizeEnd:
		if b == '\n' {
			if f.phase = inChunk; f.left == 0 {
				f.phase = inTrailer
			}
			return
		}
	case inChunkEnd:
		if b == '\r' {
			f.phase = inChunkEnd2
			return
		}
	case inChunkEnd2:
		if b == '\n' {
			f.beginChunk()
			return
		}
	}
	f.refuse(failure.ErrBrokenBody)
}

// behindChunkSize reads a byte between the digits of a chunk's size and the end of the line.
func (f *framing) behindChunkSize(b byte) {
	switch {
	case b == '\r':
		f.phase = inChunkSizeEnd
	case b == '\n':
		f.refuse(failure.ErrBrokenBody)
	case f.phase == inChunkExtension:
	case b == ';' && f.phase == inChunkSize:
		f.phase = inChunkExtension
	case b == ' ' || b == '\t': // some senders pad the size
		f.phase = inChunkPadding
	default:
		f.refuse(failure.ErrBrokenBody)
	}
}

func hexDigit(b byte) (int, bool) {
	switch {
	case '0' <= b && b <= '9':
		return int(b - '0'), true
	case 'a' <= b|0x20 && b|0x20 <= 'f':
		return int(b|0x20-'a') + 10, true
	}
	return 0, false
}

// tokenBytes has true for the bytes that the name of a field may have (RFC 9110, section
// 5.6.2).
var tokenBytes = func() (t [256]bool) {
	for c := range 256 {
		b := byte(c)
		t[c] = '0' <= b && b <= '9' || 'a' <= b|0x20 && b|0x20 <= 'z' || b != 0 && bytes.IndexByte([]byte("!#$%&'*+-.^_`|~"), b) >= 0
	}
	return t
}()

func isToken(name []byte) bool {
	for _, c := range name {
		if !tokenBytes[c] {
			return false
		}
	}
	return true
}
