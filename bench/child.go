package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Child is a server that was started to be measured.
type Child struct {
	URL string // http://127.0.0.1:PORT

	began time.Time // just before the process
	cmd   *exec.Cmd
	wrote tail
	ended chan struct{} // closed when the process has ended
	err   error         // how, for those who have seen ended closed; nil: with status 0
	limit time.Duration // for it to start and to stop
}

// Launch calls binary as: binary serve --host 127.0.0.1 --port N args…, with a
// port that is free, and waits until GET /health answers 200, or for limit. The
// child must be stopped with Stop.
func Launch(ctx context.Context, binary string, args []string, limit time.Duration) (*Child, error) {
	c, err := launch(binary, args, limit)
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	limited, cancel := c.within(ctx)
	defer cancel()
	poll := newPoller(c.URL)
	defer poll.close()
	if err := poll.await(limited, http.MethodGet, "/health", nil); err != nil {
		poll.close()
		stopped := c.stop(ctx)
		if errors.Is(stopped, errByItself) {
			err = nil // whatever failed, failed for that
		}
		return nil, fmt.Errorf("bench: %w", errors.Join(err, stopped))
	}
	return c, nil
}

func launch(binary string, args []string, limit time.Duration) (*Child, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	// A load is nobody's usage: what the server keeps goes away with it.
	data, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c := &Child{URL: "http://" + address, ended: make(chan struct{}), limit: limit}
	c.cmd = exec.Command(binary, append([]string{"serve", "--host", "127.0.0.1", "--port", strconv.Itoa(port)}, args...)...)
	c.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+data)
	c.cmd.Stderr = &c.wrote
	c.cmd.WaitDelay = stopGrace // a process of its own may hold standard error open
	c.began = time.Now()
	if err := c.cmd.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(data))
	}
	go func() {
		c.err = errors.Join(c.cmd.Wait(), os.RemoveAll(data))
		close(c.ended)
	}()
	return c, nil
}

// freePort is a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// within is ctx as long as the child runs, for at most its limit.
func (c *Child) within(ctx context.Context) (context.Context, context.CancelFunc) {
	alive, forget := c.alive(ctx)
	limited, cancel := context.WithTimeoutCause(alive, c.limit, fmt.Errorf("no answer within %v", c.limit))
	return limited, func() { cancel(); forget() }
}

// alive is ctx as long as the child runs.
func (c *Child) alive(ctx context.Context) (context.Context, context.CancelFunc) {
	alive, cancel := context.WithCancelCause(ctx)
	go func() {
		select {
		case <-c.ended:
			cancel(errByItself)
		case <-alive.Done():
		}
	}()
	return alive, func() { cancel(nil) }
}

var errByItself = errors.New("the server ended by itself")

// stopGrace is how long a server may take to end when the measurement was
// interrupted.
const stopGrace = 5 * time.Second

// Stop ends the child with SIGTERM and waits for it: for its limit, or for a few
// seconds once ctx has ended. Then it is killed. It is an error if it had ended
// by itself, does not end in time, or ends with another status than 0.
func (c *Child) Stop(ctx context.Context) error {
	if err := c.stop(ctx); err != nil {
		return fmt.Errorf("bench: %w", err)
	}
	return nil
}

func (c *Child) stop(ctx context.Context) error {
	switch err := c.cmd.Process.Signal(syscall.SIGTERM); {
	case errors.Is(err, os.ErrProcessDone):
		<-c.ended
		if ctx.Err() != nil {
			return nil // the signal that ended ctx may have reached the child too
		}
		return fmt.Errorf("%w: %s: %s", errByItself, c.cmd.ProcessState, &c.wrote)
	case err != nil: // this system has no such signal
		_ = c.cmd.Process.Kill() // the error is that it has ended
		<-c.ended
		return nil
	}
	limit := time.NewTimer(c.limit)
	defer limit.Stop()
	select {
	case <-c.ended:
	case <-limit.C:
		return c.kill(c.limit)
	case <-ctx.Done():
		limit.Reset(min(stopGrace, c.limit))
		select {
		case <-c.ended:
		case <-limit.C:
			return c.kill(min(stopGrace, c.limit))
		}
	}
	if c.err != nil {
		return fmt.Errorf("stopping: %w: %s", c.err, &c.wrote)
	}
	return nil
}

func (c *Child) kill(after time.Duration) error {
	_ = c.cmd.Process.Kill() // the error is that it has ended
	<-c.ended
	return fmt.Errorf("the server did not stop within %v of SIGTERM: %s", after, &c.wrote)
}

// poller asks a server that is coming up.
type poller struct {
	base      string
	transport http.Transport
}

func newPoller(base string) *poller { return &poller{base: base} }

func (p *poller) close() { p.transport.CloseIdleConnections() }

// pollPause is the time between two attempts: it bounds the error of a
// measurement without taking a processor from the server.
const pollPause = 200 * time.Microsecond

// await repeats a request until the answer is a complete 200. An answer other
// than that it is too early is an error.
func (p *poller) await(ctx context.Context, method, path string, body []byte) error {
	for ; ; nap(pollPause) {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		req, err := http.NewRequestWithContext(ctx, method, p.base+path, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := p.transport.RoundTrip(req)
		if err != nil {
			continue // not listening yet
		}
		answer, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
		resp.Body.Close()
		switch {
		case err != nil:
		case resp.StatusCode == http.StatusOK:
			return nil
		case resp.StatusCode != http.StatusServiceUnavailable:
			return fmt.Errorf("%s %s: %s", method, path, refusal(resp, answer))
		}
	}
}

// tail keeps the end of what a process writes.
type tail struct {
	mu   sync.Mutex
	text []byte
}

const tailSize = 2 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.text = append(t.text, p...)
	if n := len(t.text) - tailSize; n > 0 {
		t.text = append(t.text[:0], t.text[n:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
