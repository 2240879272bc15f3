package benchapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/internal/jsontext"
)

// measure measures the points of a run, one after the other, and keeps it.
func (h *Handlers) measure(ctx context.Context, r *run, url, key string) {
	// The system kills the process of a point when this thread ends, and with it when the server is
	// killed (see bind), so that the thread has to be this goroutine's.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var failure error
	dir, err := os.MkdirTemp("", "weir-bench-")
	if err != nil {
		failure = err
	} else {
		defer func() { _ = os.RemoveAll(dir) }()
	}
	for i, n := range r.Load.Concurrencies {
		if failure != nil || ctx.Err() != nil {
			break
		}
		h.mu.Lock()
		r.Current = &n
		h.mu.Unlock()
		var p point
		if p, failure = h.point(ctx, &r.Load, n, r.Load.Seed+uint64(i), filepath.Join(dir, strconv.Itoa(i)+".json"), url, key); failure == nil {
			h.mu.Lock()
			r.Points = append(slices.Clip(r.Points), p)
			h.mu.Unlock()
		}
	}
	h.end(ctx, r, failure)
}

// end says how a run ended, and keeps it.
func (h *Handlers) end(ctx context.Context, r *run, failure error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.cfg.Now().Unix()
	r.Ended, r.Current, r.Status = &now, nil, completed
	say := func(status, text string) { r.Status, r.Error = status, &text }
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		say(failed, fmt.Sprintf("The run took longer than %d seconds.", r.Load.Seconds))
	case ctx.Err() != nil:
		r.Status = cancelled
	case failure != nil:
		say(failed, failure.Error())
	}
	h.cancel = nil
	if err := h.keep(r); err != nil {
		h.cfg.Log.Error("a run of /v1/bench cannot be kept", "id", r.ID, "error", err)
	}
}

// point measures so many requests in flight.
func (h *Handlers) point(ctx context.Context, l *load, n int, seed uint64, file, url, key string) (p point, err error) {
	count := strconv.Itoa
	args := append(slices.Clone(h.cfg.Command[1:]), "bench", "serve", "--insecure", "--base-url", url,
		"--max-concurrency", count(n), "--num-prompts", count(max(l.Requests, n)), "--random-input-len", count(l.Input), "--random-output-len", count(l.Output),
		"--seed", strconv.FormatUint(seed, 10), "--percentile-metrics", "ttft,tpot,itl,e2el", "--metric-percentiles", "50,90,99", "--result-filename", file)
	cmd := exec.CommandContext(ctx, h.cfg.Command[0], args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME")}
	if key != "" {
		cmd.Env = append(cmd.Env, "OPENAI_API_KEY="+key)
	}
	output := &tail{}
	cmd.Stdout, cmd.Stderr = io.Discard, output
	cmd.WaitDelay = 5 * time.Second
	bind(cmd)
	if err := cmd.Run(); err != nil {
		if text := output.text(); text != "" {
			return p, errors.New(text)
		}
		return p, err
	}
	f, err := os.Open(file)
	if err != nil {
		return p, err
	}
	defer func() { _ = f.Close() }()
	report, err := io.ReadAll(io.LimitReader(f, maxReport+1))
	if err != nil {
		return p, err
	}
	if len(report) > maxReport || jsontext.Check(report, maxDepth) != nil || jsontext.Trim(report).Kind() != jsontext.Object {
		return p, errors.New("the report cannot be read")
	}
	return point{n, jsontext.RawMessage(jsontext.AppendCompact(nil, jsontext.Trim(report)))}, nil
}

// tail keeps the end of what a process says.
type tail struct{ b []byte }

func (t *tail) Write(p []byte) (int, error) {
	const kept = 1000
	t.b = append(t.b, p...)
	t.b = t.b[max(0, len(t.b)-kept):]
	return len(p), nil
}

func (t *tail) text() string {
	return strings.ToValidUTF8(string(bytes.TrimSpace(t.b)), "�")
}

// load reads the runs that are kept. Those that an earlier process had begun have failed. h.mu is locked.
func (h *Handlers) load() {
	if h.loaded {
		return
	}
	h.loaded = true
	if h.cfg.Dir == "" {
		return
	}
	names, err := filepath.Glob(filepath.Join(h.cfg.Dir, "bench_*.json"))
	if err != nil {
		return // the pattern is right
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		r := &run{}
		if err == nil {
			err = jsontext.Decode(text, r)
		}
		if err != nil || r.ID+".json" != filepath.Base(name) {
			h.cfg.Log.Warn("a run of /v1/bench cannot be read", "file", name, "error", err)
			continue
		}
		h.runs = append(h.runs, r)
	}
	slices.SortStableFunc(h.runs, func(a, b *run) int { return int(a.Created - b.Created) })
	for len(h.runs) > maxRuns {
		h.forget(0)
	}
}

// keep writes a run to the folder. h.mu is locked.
func (h *Handlers) keep(r *run) error {
	if h.cfg.Dir == "" {
		return nil
	}
	text, err := jsontext.Encode(r)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(h.cfg.Dir, 0o700); err != nil {
		return err
	}
	file := filepath.Join(h.cfg.Dir, r.ID+".json")
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// forget drops the run at a place. h.mu is locked.
func (h *Handlers) forget(at int) {
	r := h.runs[at]
	h.runs = slices.Delete(h.runs, at, at+1)
	if h.cfg.Dir != "" {
		if err := os.Remove(filepath.Join(h.cfg.Dir, r.ID+".json")); err != nil && !errors.Is(err, os.ErrNotExist) {
			h.cfg.Log.Warn("a run of /v1/bench cannot be deleted", "id", r.ID, "error", err)
		}
	}
}
