package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// appendTrajectory appends a conversation of about 8 KB, similar to those of agents.
func appendTrajectory(dst []byte, n int) []byte {
	dst = fmt.Appendf(dst, `{"reward":%d.5,"metrics":{"duration":8.41,"turns":6},"metadata":{"scenario_id":"seed-%d"},"messages_and_choices":[{"role":"system","content":"You are a careful assistant."}`, n%7, n)
	for turn := range 6 {
		dst = fmt.Appendf(dst, `,{"role":"user","content":"%s (%d)"},{"finish_reason":"stop","index":0,"logprobs":{"content":[`, strings.Repeat("What does the log say about request number seven? ", 4), n)
		for i := range 12 {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = fmt.Appendf(dst, `{"token":"token_id:%d","bytes":[84,104],"logprob":-0.%07d,"top_logprobs":[]}`, 1000+(n*31+turn*7+i)%30000, (n*7919+i*104729+turn)%10_000_000)
		}
		dst = fmt.Appendf(dst, `],"refusal":null},"message":{"role":"assistant","content":"%s\n%d","tool_calls":null}}`, strings.Repeat("It was answered after 12 ms with \\\"200\\\"; ", 4), n)
	}
	return append(dst, `]}`...)
}

// trajectoryBody is the body of a log request of about a given size. It is made while it is
// sent: the same thousand trajectories again and again, in groups of eight.
type trajectoryBody struct {
	groups [][]byte
	next   int    // the group that comes next
	left   int64  // bytes to go
	rest   []byte // what was begun and is not read yet
	closed bool   // rest is the end of the body
}

func newTrajectoryBody(size int64) *trajectoryBody {
	f := &trajectoryBody{left: size, rest: []byte(`{"trajectory_groups":[`)}
	for g := range 128 {
		group := []byte(`,{"trajectories":[`)
		for i := range 8 {
			if i > 0 {
				group = append(group, ',')
			}
			group = appendTrajectory(group, g*8+i)
		}
		f.groups = append(f.groups, append(group, `]}`...))
	}
	return f
}

func (f *trajectoryBody) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if len(f.rest) == 0 && !f.more() {
			break
		}
		k := copy(p[n:], f.rest)
		f.rest = f.rest[k:]
		n += k
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// more puts the next piece of the body into f.rest; false means that the body has ended.
func (f *trajectoryBody) more() bool {
	switch {
	case f.closed:
		return false
	case f.left <= 0:
		f.rest, f.closed = []byte(`],"split":"train"}`), true
		return true
	}
	f.rest = f.groups[f.next%len(f.groups)]
	if f.left -= int64(len(f.rest)); f.next == 0 {
		f.rest = f.rest[1:] // no comma before the first group
	}
	f.next++
	return true
}

// run logs trajectories of about size bytes in one request.
func (x *Ingest) run(ctx context.Context, c *Child, size int64) error {
	memory, err := residentMemory(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	x.StartMemory = memory
	sent := &countingReader{r: newTrajectoryBody(size)}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.URL+"/v1/preview/models/bench/log", sent)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	transport := &http.Transport{WriteBufferSize: 256 << 10}
	defer transport.CloseIdleConnections()
	begin := time.Now()
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxError))
	if err != nil {
		return err
	}
	took := time.Since(begin)
	if resp.StatusCode != http.StatusOK {
		x.Error = fmt.Sprintf("%s: %s", resp.Status, bytes.TrimSpace(text))
		return nil
	}
	x.Bytes, x.PerSecond = sent.n, float64(sent.n)/1e6/took.Seconds()
	x.PeakMemory, err = peakMemory(c.cmd.Process.Pid)
	return err
}

// countingReader counts the bytes that are read through it.
type countingReader struct {
	r io.Reader
	n int64
}

func (c *countingReader) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += int64(n)
	return n, err
}
