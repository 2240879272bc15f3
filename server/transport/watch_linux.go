package transport

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// epoll is a kernel queue besides that of the Go runtime, which reports hang-ups alone. Each
// connection is in it from accept to close, so that a request needs no system call for it.
//
// The file descriptor of the queue is itself in the queue of the Go runtime. So waiting
// blocks a goroutine and not a thread, and closing the file ends the wait.
type epoll struct {
	w    *watcher
	file *os.File
	raw  syscall.RawConn
}

func (w *watcher) newSource() source {
	if !w.peeks {
		e, err := newEpoll(w)
		if err == nil {
			return e
		}
		w.log.Warn("no kernel queue to watch connections with; peeking instead", "error", err)
	}
	return newPeeker(w)
}

func newEpoll(w *watcher) (*epoll, error) {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("epoll_create1", err)
	}
	if err := unix.SetNonblock(fd, true); err != nil { // so that NewFile adds it to the runtime's queue
		unix.Close(fd)
		return nil, os.NewSyscallError("fcntl", err)
	}
	e := &epoll{w: w, file: os.NewFile(uintptr(fd), "epoll")}
	if e.raw, err = e.file.SyscallConn(); err != nil {
		e.file.Close()
		return nil, err
	}
	w.running.Go(e.run)
	return e, nil
}

// add puts a connection into the queue. Closing its file descriptor removes it. RDHUP
// reports a half-close, which counts as leaving; hang-ups and errors are always reported.
// Edge-triggered reports suffice, because a client that has left does not come back, and all
// bytes that have come are read.
func (e *epoll) add(id uint64, raw syscall.RawConn, arrivals bool) error {
	events := uint32(unix.EPOLLRDHUP | unix.EPOLLET)
	if arrivals {
		events |= unix.EPOLLIN
	}
	var err error
	err1 := e.raw.Control(func(queue uintptr) {
		err2 := raw.Control(func(fd uintptr) {
			ev := unix.EpollEvent{Events: events, Fd: int32(uint32(id)), Pad: int32(uint32(id >> 32))}
			err = os.NewSyscallError("epoll_ctl", unix.EpollCtl(int(queue), unix.EPOLL_CTL_ADD, int(fd), &ev))
		})
		if err2 != nil {
			err = err2
		}
	})
	if err1 != nil {
		return err1
	}
	return err
}

func (e *epoll) run() {
	var events [64]unix.EpollEvent
	for {
		var n int
		var werr error
		err := e.raw.Read(func(fd uintptr) bool {
			for {
				n, werr = unix.EpollWait(int(fd), events[:], 0)
				if werr != unix.EINTR {
					return n != 0 // also on an error
				}
			}
		})
		if err != nil {
			return // closed
		}
		if werr != nil {
			e.w.log.Error("the queue that watches connections failed", "error", werr)
			return
		}
		for _, ev := range events[:n] {
			id := uint64(uint32(ev.Fd)) | uint64(uint32(ev.Pad))<<32
			if ev.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0 {
				e.w.left(id)
			} else {
				e.w.arrived(id)
			}
		}
	}
}

func (e *epoll) close() { e.file.Close() }
