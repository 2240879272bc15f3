package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// modest is the constraint of well-behaved clients who ask for structured outputs.
const modest = `,"response_format":{"type":"json_schema","json_schema":{"name":"story","schema":{"type":"object","properties":{
	"title":{"type":"string","maxLength":40},"year":{"type":"integer","minimum":1900,"maximum":2100},
	"genre":{"enum":["comedy","drama","horror"]},"lines":{"type":"array","items":{"type":"string","maxLength":60},"minItems":8,"maxItems":20}},
	"required":["title","year","genre","lines"],"additionalProperties":false}}}`

// neighbours are clients that stream one answer after the other, some of them plain text and
// some under a constraint. Each asks the same question with the same seed all the time, so
// that every answer must be the same.
type neighbours struct {
	cancel context.CancelFunc
	done   sync.WaitGroup

	mu     sync.Mutex
	gaps   []time.Duration // between events
	first  time.Duration   // the longest wait for a first token
	ended  int             // complete answers
	failed error           // the first that went wrong
}

// phase sums up what the neighbours saw.
type phase struct {
	p999, longest, firstToken time.Duration
	events, answers           int
}

// startNeighbours lets clients stream until stop: so many plain ones, and so many that have a
// constraint.
func startNeighbours(ctx context.Context, address string, plain, structured int) *neighbours {
	ctx, cancel := context.WithCancel(ctx)
	g := &neighbours{cancel: cancel}
	for i := range plain + structured {
		more := `,"ignore_eos":true`
		if i >= plain {
			more = modest
		}
		g.done.Add(1)
		go func() {
			defer g.done.Done()
			// A thread of its own is woken by the system; a goroutine might wait for one.
			runtime.LockOSThread()
			g.stream(ctx, address, i, more)
		}()
	}
	return g
}

func (g *neighbours) stop() {
	g.cancel()
	g.done.Wait()
}

// phase returns what happened since the last call, and begins the next one.
func (g *neighbours) phase() (p phase) {
	g.mu.Lock()
	defer g.mu.Unlock()
	p = phase{firstToken: g.first, events: len(g.gaps), answers: g.ended}
	if len(g.gaps) > 0 {
		slices.Sort(g.gaps)
		p.p999 = g.gaps[len(g.gaps)*999/1000]
		p.longest = g.gaps[len(g.gaps)-1]
	}
	g.gaps, g.first, g.ended = g.gaps[:0], 0, 0
	return p
}

// broken returns what went wrong with a stream; nil: nothing.
func (g *neighbours) broken() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.failed
}

// stream asks the question of client i, with more fields, until ctx ends or something goes wrong.
func (g *neighbours) stream(ctx context.Context, address string, i int, more string) {
	client := &http.Client{Transport: &http.Transport{}}
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"Tell me story number %d."}],"stream":true,"max_tokens":200,"temperature":0.8,"seed":%d%s}`, i, i+1, more)
	var want [sha256.Size]byte
	for n := 0; ctx.Err() == nil; n++ {
		got, err := g.answer(ctx, client, "http://"+address+"/v1/chat/completions", body)
		if err == nil && n > 0 && got != want {
			err = errors.New("the same question with the same seed got another answer")
		}
		want = got
		if err != nil && ctx.Err() == nil {
			g.mu.Lock()
			g.failed = errors.Join(g.failed, fmt.Errorf("client %d, answer %d: %w", i, n, err))
			g.mu.Unlock()
			return
		}
	}
}

// answer streams one answer and returns a hash of its text.
func (g *neighbours) answer(ctx context.Context, client *http.Client, url, body string) (sum [sha256.Size]byte, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return sum, err
	}
	req.Header.Set("Content-Type", "application/json")
	last := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return sum, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or broken anyway
	if resp.StatusCode != http.StatusOK {
		return sum, fmt.Errorf("status %d", resp.StatusCode)
	}
	h, events, done := sha256.New(), 0, false
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		now := time.Now()
		if events > 0 {
			g.note(events, now.Sub(last))
			last = now
		}
		events++
		if done = string(data) == "[DONE]"; !done {
			if bytes.Contains(data, []byte(`"error"`)) {
				return sum, fmt.Errorf("an error in the stream: %s", data)
			}
			h.Write(text(data))
		}
	}
	if err := lines.Err(); err != nil {
		return sum, err
	}
	if !done {
		return sum, errors.New("the stream ended without [DONE]")
	}
	g.mu.Lock()
	g.ended++
	g.mu.Unlock()
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// note books the time before an event. Event 0 has the role and comes at once; the first
// token comes with event 1, whose time is that since the request was sent.
func (g *neighbours) note(event int, gap time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if event == 1 {
		g.first = max(g.first, gap)
		return
	}
	g.gaps = append(g.gaps, gap)
}

// text is the part of a chunk that has to be the same in every answer: all from its choices
// on, without the id and the time.
func text(chunk []byte) []byte {
	if i := bytes.Index(chunk, []byte(`"choices"`)); i >= 0 {
		return chunk[i:]
	}
	return nil
}

// from returns a client whose connections come from a loopback address of their own, so that
// the server takes it for another client than the neighbours. (Linux has all of 127.0.0.0/8.)
func from(address string) *http.Client {
	d := dialer(address)
	return &http.Client{Transport: &http.Transport{DialContext: d.DialContext, MaxIdleConnsPerHost: 256}}
}

func dialer(address string) *net.Dialer {
	d := &net.Dialer{Timeout: 10 * time.Second}
	if runtime.GOOS == "linux" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(address)}
	}
	return d
}
