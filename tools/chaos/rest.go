package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// rest is what a server holds while nobody asks for anything.
type rest struct {
	held       map[string]float64 // gauges that have to be 0, by the beginning of their line
	cached     float64            // bytes of caches
	goroutines int
	files      int // open ones; 0: the system does not tell
	series     int // lines of the metrics
}

// zero lists the gauges that are 0 when all clients have left.
var zero = []string{"weir:memory_reserved_bytes", "vllm:num_requests_running", "vllm:num_requests_waiting{", "vllm:kv_cache_usage_perc"}

// resting reads what the server holds now.
func (s *server) resting(ctx context.Context) (*rest, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.address+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	// The connection of this request counts each time.
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or broken anyway
	r := &rest{held: map[string]float64{}}
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		r.read(lines.Text())
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	if entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", s.cmd.Process.Pid)); err == nil {
		r.files = len(entries)
	}
	return r, lines.Err()
}

// read takes what counts out of a line of the metrics.
func (r *rest) read(line string) {
	if strings.HasPrefix(line, "#") {
		return
	}
	r.series++
	value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
	if err != nil {
		return
	}
	if strings.HasPrefix(line, "go_goroutines ") {
		r.goroutines = int(value)
	}
	if strings.HasPrefix(line, "weir:memory_cached_bytes ") { // these are reserved, too, and given back when others need them
		r.cached = value
	}
	for _, name := range zero {
		if strings.HasPrefix(line, name) {
			r.held[name] = value
		}
	}
}

// The most that a server may hold after all attacks beside what it held before them: pools keep
// some goroutines and files, and projects have series of their own up to a bound.
const (
	moreGoroutines = 100
	moreFiles      = 50
	moreSeries     = 1000
	mostLogLines   = 200
)

// check returns what of it is left over from clients that have left.
func (r *rest) check(before *rest) error {
	var errs []error
	for _, name := range zero {
		value, ok := r.held[name]
		if name == zero[0] {
			value -= r.cached
		}
		if !ok || value != 0 {
			errs = append(errs, fmt.Errorf("%s is %v (there: %v)", name, value, ok))
		}
	}
	for _, n := range []struct {
		what              string
		now, before, more int
	}{
		{"goroutines", r.goroutines, before.goroutines, moreGoroutines},
		{"open files", r.files, before.files, moreFiles},
		{"series of metrics", r.series, before.series, moreSeries},
	} {
		if n.now > n.before+n.more {
			errs = append(errs, fmt.Errorf("%d %s, before the attacks %d", n.now, n.what, n.before))
		}
	}
	return errors.Join(errs...)
}

// settle waits until the server holds as much as before the attacks.
func (s *server) settle(ctx context.Context, before *rest) error {
	var left error
	for range 200 {
		now, err := s.resting(ctx)
		if err != nil {
			return err
		}
		if left = now.check(before); left == nil {
			break
		}
		if !sleep(ctx, 100*time.Millisecond) {
			return ctx.Err()
		}
	}
	if left != nil {
		return fmt.Errorf("all clients have left, and the server still holds: %w", left)
	}
	if n := s.logged(); n > mostLogLines {
		return fmt.Errorf("the attacks made the server log %d lines", n)
	}
	return nil
}
