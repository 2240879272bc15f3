package hostside

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"
)

// refusalsCap is the most choices that the server accepts, all of which wait for a step that takes idleStep.
const refusalsCap = 8

// refusals measures how long requests take that a full server refuses: what a client waits, in which the server's
// own time is contained, together with that of the same number of connections to a bare handler.
func (m *measurement) refusals(ctx context.Context) (err error) {
	profile, err := m.profile(idleStep)
	if err != nil {
		return err
	}
	p, err := m.server(ctx, "--sim-profile", profile, "--max-num-queued", strconv.Itoa(refusalsCap))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Stop()) }()
	m.c.Progress("filling a server")
	leave, err := fill(ctx, p.Address, post(chatPath, m.chatBody(1, false)))
	defer leave()
	if err != nil {
		return err
	}
	m.c.Progress(fmt.Sprintf("%d refusals", m.c.Refused))
	ours, took, err := waits(ctx, p.Address, m.c.Streams, m.c.Refused, answered(post(chatPath, m.chatBody(1, false)), httpFull))
	if err != nil {
		return err
	}
	beside, _, err := waits(ctx, m.web, m.c.Streams, m.c.Refused, answered(post("/", m.chatBody(1, false)), httpOK))
	if err != nil {
		return err
	}
	m.report.Rows = append(m.report.Rows, Row{"refusal by a full server, p99", "ms", ours[len(ours)*99/100], beside[len(beside)*99/100], "a bare handler of fasthttp that answers as many chats",
		fmt.Sprintf("as the client sees it; p50 %.2f ms, longest %.2f ms, %.0f refusals/s, %d on %d connections", ours[len(ours)/2], ours[len(ours)-1], float64(len(ours))/took.Seconds(), len(ours), m.c.Streams)})
	return nil
}

var httpFull = []byte("HTTP/1.1 503")

// fill sends requests over connections of their own, which stay open, until the server refuses one.
func fill(ctx context.Context, address string, request []byte) (leave func(), err error) {
	const most, patience = 64 * refusalsCap, 100 * time.Millisecond
	var open connections
	for range most {
		c, err := open.send(ctx, address, request)
		if err != nil {
			return open.close, err
		}
		if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return open.close, err
		}
		if n, _ := c.Read(make([]byte, 1<<10)); n > 0 {
			return open.close, nil
		}
	}
	return open.close, errors.New("hostside: the server is never full")
}

// waits makes n exchanges over some connections at the same time, one after the other on each, and returns how long
// each took in milliseconds, in ascending order, and all of them together.
func waits(ctx context.Context, address string, conns, n int, x exchange) (each []float64, took time.Duration, err error) {
	var mu sync.Mutex
	var flights sync.WaitGroup
	begin := time.Now()
	for i := range conns {
		flights.Go(func() {
			own, failure := timed(ctx, address, (n+i)/conns, x) // the shares come to n
			mu.Lock()
			defer mu.Unlock()
			each = append(each, own...)
			err = errors.Join(err, failure)
		})
	}
	flights.Wait()
	took = time.Since(begin)
	slices.Sort(each)
	if err == nil && len(each) == 0 {
		err = errors.New("hostside: no request was sent")
	}
	return each, took, err
}

// timed makes n exchanges over one connection, and returns how long each took.
func timed(ctx context.Context, address string, n int, x exchange) (each []float64, err error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Close() })
	defer stop()
	if err := c.SetDeadline(time.Now().Add(limitOfExchange)); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	for range n {
		begin := time.Now()
		if _, err := x(c, r); err != nil {
			return each, err
		}
		each = append(each, micros(time.Since(begin))/1000)
	}
	return each, nil
}
