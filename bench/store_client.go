package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
)

// connection is an HTTP/1.1 connection that is kept open. It is used in place of
// net/http's client, whose goroutines would take more of the machine than the measured
// servers do.
type connection struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
	host string
}

func dial(ctx context.Context, url string) (*connection, error) {
	host := strings.TrimPrefix(url, "http://")
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", host)
	if err != nil {
		return nil, err
	}
	return &connection{conn: conn, in: bufio.NewReaderSize(conn, 16<<10), host: host}, nil
}

func (c *connection) close() { _ = c.conn.Close() } // nothing is waiting to be written

// head writes the head of a POST request to c.out.
func (c *connection) head(path string, length int) {
	c.out = append(c.out[:0], "POST "...)
	c.out = append(append(c.out, path...), " HTTP/1.1\r\nHost: "...)
	c.out = append(append(c.out, c.host...), "\r\nContent-Type: application/json\r\nContent-Length: "...)
	c.out = append(strconv.AppendInt(c.out, int64(length), 10), "\r\n\r\n"...)
}

// post sends a request and returns the body of the answer. An answer that is not 200 is an
// error.
func (c *connection) post(path string, body []byte) ([]byte, error) {
	c.head(path, len(body))
	c.out = append(c.out, body...)
	if _, err := c.conn.Write(c.out); err != nil {
		return nil, err
	}
	return c.answer()
}

// answer reads the answer to the request that was sent.
func (c *connection) answer() ([]byte, error) {
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", resp.Status, text[:min(len(text), 200)])
	}
	return text, err
}
