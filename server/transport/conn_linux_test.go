package transport

import (
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"
)

// TestSendBuffer: the system keeps only so much of the answers that a client does not read.
func TestSendBuffer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	nc, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = nc.Close() }()
	watch := newWatcher(slog.New(slog.DiscardHandler))
	defer watch.close()
	if _, err := newConnections(watch, time.Second, 10, time.Now).accept(nc, nil); err != nil {
		t.Fatal("there is no place")
	}
	raw, err := nc.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	size := 0
	if cerr := raw.Control(func(fd uintptr) {
		size, err = syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_SNDBUF)
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	if size != 2*sendBuffer {
		t.Errorf("the system keeps %d bytes, want %d", size, 2*sendBuffer)
	}
}
