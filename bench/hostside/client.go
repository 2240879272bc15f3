package hostside

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"
)

// limitOfExchange is how long a request and its answer may take.
const limitOfExchange = 60 * time.Second

// post is a request as bytes.
func post(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// An exchange sends a request over a connection, reads the answer to its end, and returns how many things the
// answer counts for.
type exchange func(c net.Conn, r *bufio.Reader) (int, error)

// streamed counts the events of an answer with a stream, and hands every piece that it reads to see, unless that
// is nil.
func streamed(request []byte, see func(piece []byte)) exchange {
	return func(c net.Conn, r *bufio.Reader) (events int, err error) {
		if _, err := c.Write(request); err != nil {
			return 0, err
		}
		buf := make([]byte, 64<<10)
		kept := 0 // bytes from the read before, in which an event or the end may begin
		for {
			n, err := c.Read(buf[kept:])
			if err != nil {
				return events, err
			}
			if see != nil {
				see(buf[kept : kept+n])
			}
			all := buf[:kept+n]
			events += bytes.Count(all, eventMark) - bytes.Count(all[:kept], eventMark)
			if bytes.HasSuffix(all, streamEnd) {
				return events, nil
			}
			if bytes.HasPrefix(all, httpPrefix) && !bytes.HasPrefix(all, httpOK) && len(all) > len(httpOK) {
				return events, fmt.Errorf("hostside: the answer is %.200q", all)
			}
			keep := min(len(all), len(streamEnd)-1)
			if marks := bytes.LastIndex(all, eventMark); marks >= 0 && marks+len(eventMark) > len(all)-keep {
				keep = len(all) - marks - len(eventMark)
			}
			kept = copy(buf, all[len(all)-keep:])
		}
	}
}

var (
	eventMark  = []byte("data: ")
	streamEnd  = []byte("\r\n0\r\n\r\n")
	httpPrefix = []byte("HTTP/1.1 ")
	httpOK     = []byte("HTTP/1.1 200")
)

// whole counts an answer that is not a stream as one.
func whole(request []byte) exchange { return answered(request, httpOK) }

// answered is whole for an answer that begins with a given status line.
func answered(request, status []byte) exchange {
	return func(c net.Conn, r *bufio.Reader) (int, error) {
		if _, err := c.Write(request); err != nil {
			return 0, err
		}
		length := -1
		for first := true; ; first = false {
			line, err := r.ReadSlice('\n')
			if err != nil {
				return 0, err
			}
			if first && !bytes.HasPrefix(line, status) {
				return 0, fmt.Errorf("hostside: the answer is %.200q", line)
			}
			if line = bytes.TrimSpace(line); len(line) == 0 {
				break
			}
			if name, value, ok := bytes.Cut(line, []byte(":")); ok && bytes.EqualFold(name, []byte("Content-Length")) {
				if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
					return 0, err
				}
			}
		}
		if length < 0 {
			return 0, errors.New("hostside: an answer without Content-Length")
		}
		_, err := io.CopyN(io.Discard, r, int64(length))
		return 1, err
	}
}

// load makes exchanges over some connections at the same time until the time is over, each to its end. It
// returns what they counted for, and how long it took.
func load(ctx context.Context, address string, conns int, last time.Duration, x exchange) (count int, took time.Duration, err error) {
	var mu sync.Mutex
	var flights sync.WaitGroup
	begin := time.Now()
	for range conns {
		flights.Go(func() {
			n, failure := exchanges(ctx, address, begin.Add(last), x)
			mu.Lock()
			defer mu.Unlock()
			count += n
			err = errors.Join(err, failure)
		})
	}
	flights.Wait()
	return count, time.Since(begin), err
}

// exchanges makes one exchange after the other over one connection.
func exchanges(ctx context.Context, address string, until time.Time, x exchange) (count int, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	r := bufio.NewReader(c)
	for {
		if err := c.SetDeadline(time.Now().Add(limitOfExchange)); err != nil {
			return count, err
		}
		n, err := x(c, r)
		count += n
		if err != nil || !time.Now().Before(until) {
			return count, err
		}
	}
}

// hold opens streams. The connections stay open until closed.
func hold(ctx context.Context, address string, n int, request []byte) (closeAll func(), err error) {
	var open connections
	for range n {
		if _, err := open.send(ctx, address, request); err != nil {
			return open.close, err
		}
	}
	return open.close, nil
}

// connections stay open until they are closed together.
type connections []net.Conn

// send sends a request over a new connection.
func (cs *connections) send(ctx context.Context, address string, request []byte) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	*cs = append(*cs, c)
	_, err = c.Write(request)
	return c, err
}

func (cs connections) close() {
	for _, c := range cs {
		c.Close()
	}
}
