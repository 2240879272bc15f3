package kvevents

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// This file has as much of ZMTP 3.1, the protocol of ZeroMQ (https://rfc.zeromq.org/spec/37), as a publisher needs: without
// encryption, and with small messages from the other side only.

const (
	flagMore, flagLong, flagCommand = 1, 2, 4

	// maxFrame is the longest frame that is taken from a peer: a topic, or a number.
	maxFrame = 4096
	// maxFrames is the most frames of a message.
	maxFrames = 8
	// handshakeTime is how long a peer may take to say what it is.
	handshakeTime = 10 * time.Second
	// writeTime is how long it may take to take a message.
	writeTime = 30 * time.Second
)

var errTooLong = errors.New("a frame or a message is too long")

// wire is a connection to a peer.
type wire struct {
	net.Conn
	r *bufio.Reader
	w *bufio.Writer
}

func newWire(c net.Conn) *wire {
	return &wire{c, bufio.NewReaderSize(c, 4096), bufio.NewWriterSize(c, 64<<10)}
}

// greeting is what both sides send first.
func greeting() []byte {
	g := make([]byte, 64)
	g[0], g[9] = 0xff, 0x7f
	g[10], g[11] = 3, 1 // the version
	copy(g[12:], "NULL")
	return g
}

// handshake says that this side is a socket of one kind, and returns that of the other side.
func (w *wire) handshake(kind string) (peer string, err error) {
	_ = w.SetDeadline(time.Now().Add(handshakeTime))
	if _, err := w.Write(greeting()); err != nil {
		return "", err
	}
	var g [64]byte
	if _, err := io.ReadFull(w.r, g[:]); err != nil {
		return "", err
	}
	if g[0] != 0xff || g[9]&1 == 0 || g[10] < 3 || string(g[12:17]) != "NULL\x00" {
		return "", errors.New("the other side does not speak ZMTP 3 without encryption")
	}
	ready := appendProperty(append([]byte{5}, "READY"...), "Socket-Type", kind)
	if kind == "ROUTER" {
		ready = appendProperty(ready, "Identity", "")
	}
	if err := w.frame(flagCommand, ready); err != nil {
		return "", err
	}
	if err := w.w.Flush(); err != nil {
		return "", err
	}
	flags, body, err := w.read()
	if err != nil {
		return "", err
	}
	name, rest := cutCommand(body)
	if flags&flagCommand == 0 || name != "READY" {
		return "", fmt.Errorf("the other side sent %q instead of READY", name)
	}
	_ = w.SetDeadline(time.Time{})
	return property(rest, "Socket-Type"), nil
}

func appendProperty(b []byte, name, value string) []byte {
	b = append(append(b, byte(len(name))), name...)
	return append(binary.BigEndian.AppendUint32(b, uint32(len(value))), value...)
}

// property finds the value of a property.
func property(b []byte, want string) string {
	for len(b) > 0 {
		n := int(b[0])
		if len(b) < 1+n+4 {
			return ""
		}
		name := string(b[1 : 1+n])
		size := binary.BigEndian.Uint32(b[1+n:])
		if b = b[1+n+4:]; uint64(size) > uint64(len(b)) {
			return ""
		}
		if name == want {
			return string(b[:size])
		}
		b = b[size:]
	}
	return ""
}

// cutCommand splits a command into its name and the rest.
func cutCommand(b []byte) (name string, rest []byte) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return "", nil
	}
	return string(b[1 : 1+b[0]]), b[1+b[0]:]
}

// frame buffers a frame.
func (w *wire) frame(flags byte, body []byte) error {
	var head [9]byte
	n := 2
	if head[0], head[1] = flags, byte(len(body)); len(body) > 255 {
		head[0] |= flagLong
		binary.BigEndian.PutUint64(head[1:], uint64(len(body)))
		n = 9
	}
	_, _ = w.w.Write(head[:n]) // an error stays with the writer
	_, err := w.w.Write(body)
	return err
}

// send buffers a message.
func (w *wire) send(parts ...[]byte) error {
	for i, p := range parts {
		flags := byte(flagMore)
		if i == len(parts)-1 {
			flags = 0
		}
		if err := w.frame(flags, p); err != nil {
			return err
		}
	}
	return nil
}

// flush writes what is buffered.
func (w *wire) flush() error {
	_ = w.SetWriteDeadline(time.Now().Add(writeTime))
	return w.w.Flush()
}

// read reads a frame.
func (w *wire) read() (flags byte, body []byte, err error) {
	var head [9]byte
	if _, err := io.ReadFull(w.r, head[:2]); err != nil {
		return 0, nil, err
	}
	size := uint64(head[1])
	if flags = head[0]; flags&flagLong != 0 {
		if _, err := io.ReadFull(w.r, head[2:]); err != nil {
			return 0, nil, err
		}
		size = binary.BigEndian.Uint64(head[1:])
	}
	if size > maxFrame {
		return 0, nil, errTooLong
	}
	body = make([]byte, size)
	_, err = io.ReadFull(w.r, body)
	return flags, body, err
}

// receive reads a message or a command; a message has no name.
func (w *wire) receive() (command string, parts [][]byte, err error) {
	for {
		flags, body, err := w.read()
		switch {
		case err != nil:
			return "", nil, err
		case flags&flagCommand != 0:
			name, rest := cutCommand(body)
			return name, [][]byte{rest}, nil
		case len(parts) == maxFrames:
			return "", nil, errTooLong
		}
		if parts = append(parts, body); flags&flagMore == 0 {
			return "", parts, nil
		}
	}
}
