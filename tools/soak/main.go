// Command soak starts weir over the simulated device, lets clients come and go for a long time, and
// fails if the server then holds more than it did after the first minutes: memory, goroutines, KV blocks.
//
//	go run ./tools/soak --weir ./weir --time 1h
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// What the server may hold more at the end than after the first quarter. A heap grows and shrinks with
// its garbage; a leak grows with the time.
const (
	moreMemory     = 1.10
	moreBytes      = 32 << 20
	moreGoroutines = 16
)

func main() {
	weir, long, clients := flag.String("weir", "./weir", "the `binary`"), flag.Duration("time", time.Hour, "how long the load lasts"), flag.Int("clients", 32, "how many requests are in flight")
	flag.Parse()
	if err := run(*weir, *long, *clients); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(weir string, long time.Duration, clients int) (err error) {
	data, err := os.MkdirTemp("", "weir-soak")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	s, err := start(weir, data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop()) }()
	ctx, cancel := context.WithTimeout(context.Background(), long)
	defer cancel()
	var load sync.WaitGroup
	var sent, failed atomic.Int64
	for n := range clients {
		load.Go(func() {
			rnd := rand.New(rand.NewPCG(uint64(n), 7))
			for ctx.Err() == nil {
				sent.Add(1)
				if err := s.client(ctx, rnd); err != nil && ctx.Err() == nil {
					failed.Add(1)
					fmt.Println("a request failed:", err)
				}
			}
		})
	}
	memory, err := s.watch(ctx, long, &sent)
	load.Wait()
	if err != nil {
		return err
	}
	if n := failed.Load(); n > 0 {
		return fmt.Errorf("%d of %d requests failed", n, sent.Load())
	}
	return errors.Join(flat(memory), s.idle())
}

// server is the process under load.
type server struct {
	url string
	cmd *exec.Cmd
}

// start starts weir and waits until it is ready.
func start(weir, data string) (*server, error) {
	cmd := exec.Command(weir, "serve", "--device", "sim", "--port", "0", "--data-dir", data, "--max-num-queued-tokens", "200000", "--max-queue-time", "30s")
	out, err := cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s, ready := &server{cmd: cmd}, make(chan bool, 1)
	go func() {
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, rest, ok := strings.Cut(lines.Text(), "msg=listening url="); ok {
				s.url, _, _ = strings.Cut(rest, " ")
				ready <- true
			}
		}
		ready <- false
	}()
	if !<-ready {
		return nil, errors.Join(errors.New("weir does not start"), cmd.Wait())
	}
	for range 600 {
		if resp, err := http.Get(s.url + "/ready"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return s, nil
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	return nil, errors.Join(errors.New("weir is not ready within a minute"), s.stop())
}

func (s *server) stop() error {
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		return err
	}
	return s.cmd.Wait()
}

// client sends one request of a mixture, and leaves in the middle of every fifth answer.
func (s *server) client(ctx context.Context, rnd *rand.Rand) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	text := strings.Repeat("a word ", 1+rnd.IntN(100))
	path, body := "/v1/chat/completions", fmt.Sprintf(`{"stream": true, "max_tokens": %d, "messages": [{"role": "user", "content": %q}]}`, 1+rnd.IntN(200), text)
	switch rnd.IntN(5) {
	case 0:
		body = strings.Replace(body, `"stream": true`, `"n": 2`, 1)
	case 1:
		body = strings.Replace(body, `"stream": true`, `"stream": true, "response_format": {"type": "json_object"}`, 1)
	case 2:
		path, body = "/v1/messages", fmt.Sprintf(`{"model": "weir-tiny", "max_tokens": 50, "messages": [{"role": "user", "content": %q}]}`, text)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Compat-Project", fmt.Sprint("soak/", rnd.IntN(3)))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK && resp.StatusCode != http.StatusServiceUnavailable {
		text, _ := io.ReadAll(resp.Body)
		return fmt.Errorf("%s: %s %s", path, resp.Status, text)
	}
	if rnd.IntN(5) == 0 {
		_, _ = io.CopyN(io.Discard, resp.Body, 1+rnd.Int64N(2000))
		return nil // and leaves
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return err
}

// watch notes how much memory the server holds, until ctx ends.
func (s *server) watch(ctx context.Context, long time.Duration, sent *atomic.Int64) (memory []int64, err error) {
	tick := time.NewTicker(max(time.Second, long/240))
	defer tick.Stop()
	for began := time.Now(); ; {
		select {
		case <-ctx.Done():
			return memory, nil
		case <-tick.C:
		}
		n, err := s.resident()
		if err != nil {
			return nil, err
		}
		memory = append(memory, n)
		if len(memory)%20 == 1 {
			fmt.Printf("%8v  %5d MiB  %d requests\n", time.Since(began).Round(time.Second), n>>20, sent.Load())
		}
	}
}

// resident returns the memory of the process, as Linux tells it.
func (s *server) resident() (int64, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(text, []byte("VmRSS:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("the system does not tell the memory of a process")
	}
	n, err := strconv.ParseInt(string(fields[0]), 10, 64)
	return n << 10, err
}

// flat returns an error if the last quarter of the samples is larger than the second.
func flat(memory []int64) error {
	q := len(memory) / 4
	if q == 0 {
		return errors.New("too few samples: let it run for longer")
	}
	median := func(part []int64) int64 {
		part = slices.Clone(part)
		slices.Sort(part)
		return part[len(part)/2]
	}
	early, late := median(memory[q:2*q]), median(memory[len(memory)-q:])
	fmt.Printf("memory: %d MiB in the second quarter, %d MiB in the last\n", early>>20, late>>20)
	if float64(late) > moreMemory*float64(early)+moreBytes {
		return fmt.Errorf("the memory grows: from %d to %d MiB", early>>20, late>>20)
	}
	return nil
}

// idle returns an error if a server without clients holds something.
func (s *server) idle() (err error) {
	http.DefaultClient.CloseIdleConnections()
	for range 100 {
		if err = s.holds(); err == nil {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return err
}

func (s *server) holds() error {
	resp, err := http.Get(s.url + "/metrics")
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return err
	}
	for _, c := range []struct {
		series string
		most   float64
	}{{"vllm:num_requests_running{", 0}, {"vllm:num_requests_waiting{", 0}, {"vllm:kv_cache_usage_perc{", 0}, {"go_goroutines ", 64 + moreGoroutines}} {
		_, rest, found := strings.Cut(string(text), "\n"+c.series)
		line, _, _ := strings.Cut(rest, "\n")
		value, err := strconv.ParseFloat(line[strings.LastIndexByte(line, ' ')+1:], 64)
		if !found || err != nil || value > c.most {
			return fmt.Errorf("%s%s, want at most %v", c.series, line, c.most)
		}
	}
	return nil
}
