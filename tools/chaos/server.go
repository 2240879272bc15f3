package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"
)

// server is a weir serve in a process of its own.
type server struct {
	address string // host:port
	cmd     *exec.Cmd
	ended   chan error
	group   group // nil: none could be made
	dir     string
	limit   int64 // what it may hold, in bytes

	mu    sync.Mutex
	last  []string // lines of its log
	lines int      // of its log, all of them
}

// group is a control group with a bound on memory.
type group interface {
	procs() string // file to which a process writes its id to enter the group
	remove()       // it must be empty
}

const keptLines = 40

// startServer starts a server and waits until it is ready.
func startServer(ctx context.Context, o *options) (*server, error) {
	dir, err := os.MkdirTemp("", "weir-chaos-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, limit: o.memory << 20, ended: make(chan error, 1)}
	args := append([]string{"serve", "--port", "0", "--data-dir", dir}, strings.Fields(o.serve)...)
	if s.group, err = newGroup(s.limit); err == nil {
		s.cmd = exec.CommandContext(ctx, "/bin/sh", append([]string{"-c", `echo $$ > "$0" && exec "$@"`, s.group.procs(), o.weir}, args...)...)
	} else {
		// Without a group the server is told its bound. Beside it there are the program
		// itself, the weights and the KV cache, which is given a size here.
		const kv, program = 256, 128
		args = append(args, "--kv-cache-memory", fmt.Sprintf("%dMiB", kv), "--memory-limit", fmt.Sprintf("%dMiB", o.memory-kv-program))
		s.cmd = exec.CommandContext(ctx, o.weir, args...)
	}
	log, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	ready := make(chan struct{})
	go s.watch(bufio.NewScanner(log), ready)
	select {
	case <-ready:
		return s, nil
	case err := <-s.ended:
		s.ended <- err
		s.stop()
		return nil, fmt.Errorf("the server ended before it was ready: %w\n%s", err, s.tail())
	}
}

// watch reads the log, so that a full pipe does not stop the server.
func (s *server) watch(lines *bufio.Scanner, ready chan struct{}) {
	for lines.Scan() {
		line := lines.Text()
		if m := listening.FindStringSubmatch(line); m != nil {
			s.address = m[1]
		}
		if strings.Contains(line, "msg=ready") {
			close(ready)
		}
		s.mu.Lock()
		s.lines++
		if s.last = append(s.last, line); len(s.last) > keptLines {
			s.last = s.last[1:]
		}
		s.mu.Unlock()
	}
	s.ended <- s.cmd.Wait()
}

// tail returns the end of the log.
func (s *server) tail() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.last, "\n")
}

// logged returns the number of lines of the log so far.
func (s *server) logged() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines
}

// stop ends the server and removes its files.
func (s *server) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
	if s.group != nil {
		s.group.remove()
	}
	_ = os.RemoveAll(s.dir)
}

// memory returns the most that the server has held and what it may hold, in bytes. It fails
// if the server has ended.
func (s *server) memory() (most, allowed int64, err error) {
	select {
	case err := <-s.ended:
		s.ended <- err
		return 0, 0, fmt.Errorf("the server ended: %w", err)
	default:
	}
	// The group counts cached pages of files, too, which the system takes back when it needs
	// memory. The resident memory of the process is what the server itself holds.
	most, err = highWater(s.cmd.Process.Pid)
	return most, s.limit, err
}

// highWater is the highest resident memory of a process so far, in bytes.
func highWater(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(status) {
		if rest, ok := bytes.CutPrefix(line, []byte("VmHWM:")); ok {
			kib, err := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
			return kib << 10, err
		}
	}
	return 0, errors.New("the system does not tell a process's highest resident memory")
}

// forgetPeak makes memory begin again, where the system can do that.
func (s *server) forgetPeak() {
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.cmd.Process.Pid), []byte("5"), 0) // else the peak is that of the whole run
}

// fill stores the records that attacks with queries search.
func fill(ctx context.Context, address string) error {
	for batch := range 10 {
		var b strings.Builder
		b.WriteString(`{"batch":[`)
		for i := range 2000 {
			if i > 0 {
				b.WriteByte(',')
			}
			fmt.Fprintf(&b, `{"project_id":"acme/support","weave_ref":"weave:///acme/support/call/%d-%d","feedback_type":"note","payload":{"note":"record %d","n":%d,"tags":["a","b"]}}`, batch, i, i, i)
		}
		b.WriteString(`]}`)
		if err := fillBatch(ctx, address, b.String()); err != nil {
			return err
		}
	}
	return nil
}

// fillBatch sends one batch, again and again while the database is still being opened.
func fillBatch(ctx context.Context, address, body string) error {
	for {
		code, text, err := post(ctx, http.DefaultClient, "http://"+address+"/feedback/batch/create", body)
		switch {
		case err != nil:
			return err
		case code == http.StatusOK:
			return nil
		case code != http.StatusServiceUnavailable:
			return fmt.Errorf("storing feedback is answered with %d: %s", code, text)
		}
		if !sleep(ctx, 50*time.Millisecond) {
			return ctx.Err()
		}
	}
}
