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

// Child is a server that was started in order to be measured.
type Child struct {
	URL string // http://127.0.0.1:PORT

	began time.Time // just before the process was started
	cmd   *exec.Cmd
	wrote tail
	ended chan struct{} // closed when the process has ended
	err   error         // how it ended, once ended is closed; nil: with status 0

	limit, stopLimit time.Duration // longest time for starting, and for stopping
}

// Launch calls binary as: binary serve --host 127.0.0.1 --port N args…, with a free
// port, and waits until GET /health answers 200. It gives up after limit. The child must
// be stopped with Stop.
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
			err = nil // the request failed because the server had ended
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
	// What the server keeps on disk is removed after the measurement.
	data, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	c := &Child{URL: "http://" + address, ended: make(chan struct{}), limit: limit, stopLimit: limit}
	c.cmd = exec.Command(binary, append([]string{"serve", "--host", "127.0.0.1", "--port", strconv.Itoa(port)}, args...)...)
	c.cmd.Env = append(os.Environ(), "XDG_DATA_HOME="+data)
	c.cmd.Stderr = &c.wrote
	c.cmd.WaitDelay = stopGrace // a process that the server started may hold standard error open
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

// freePort returns a port that was free a moment ago.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// within returns a context that ends with ctx, with the child, or after its limit.
func (c *Child) within(ctx context.Context) (context.Context, context.CancelFunc) {
	alive, forget := c.alive(ctx)
	limited, cancel := context.WithTimeoutCause(alive, c.limit, fmt.Errorf("no answer within %v", c.limit))
	return limited, func() { cancel(); forget() }
}

// alive returns a context that ends with ctx or with the child.
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

// PID is the number of the child's process.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// stopGrace is how long a server may take to stop after an interrupt.
const stopGrace = 5 * time.Second

// Stop sends SIGTERM to the child and waits until it has ended, for at most its limit, or
// for a few seconds once ctx has ended. Then it kills the child. It is an error if the
// child had ended by itself, does not end in time, or ends with a status other than 0.
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
	case err != nil: // this system does not have the signal
		_ = c.cmd.Process.Kill() // it fails only if the process has ended
		<-c.ended
		return nil
	}
	limit := time.NewTimer(c.stopLimit)
	defer limit.Stop()
	select {
	case <-c.ended:
	case <-limit.C:
		return c.kill(c.stopLimit)
	case <-ctx.Done():
		grace := min(stopGrace, c.stopLimit)
		limit.Reset(grace)
		select {
		case <-c.ended:
		case <-limit.C:
			return c.kill(grace)
		}
	}
	if c.err != nil {
		return fmt.Errorf("stopping: %w: %s", c.err, &c.wrote)
	}
	return nil
}

func (c *Child) kill(after time.Duration) error {
	_ = c.cmd.Process.Kill() // it fails only if the process has ended
	<-c.ended
	return fmt.Errorf("the server did not stop within %v of SIGTERM: %s", after, &c.wrote)
}

// poller asks a server that is starting until it answers.
type poller struct {
	base      string
	transport http.Transport
}

func newPoller(base string) *poller { return &poller{base: base} }

func (p *poller) close() { p.transport.CloseIdleConnections() }

// pollPause is the time between two attempts. It bounds the error of the measured time,
// and leaves the processor to the server.
const pollPause = 200 * time.Microsecond

// await repeats a request until the answer is a complete 200. While the server does not
// listen or answers 503, it is too early; any other answer is an error.
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

// tail is a writer that keeps the last tailSize bytes.
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
