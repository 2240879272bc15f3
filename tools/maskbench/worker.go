package main

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	"weir/internal/jsontext"
)

// workerSource is the program that runs llguidance.
//
//go:embed worker.py
var workerSource string

// worker is llguidance in a process of its own. It is asked with a line of JSON and answers
// with one.
type worker struct {
	start    func() *exec.Cmd
	limit    time.Duration
	version  string
	callTime int64 // of a method that does nothing, in nanoseconds

	cmd     *exec.Cmd
	in      io.WriteCloser
	answers chan []byte // closed when the process has ended
}

func startWorker(ctx context.Context, python, tokenizerFile string, coverage bool, limit time.Duration) (*worker, error) {
	if python == "" {
		return nil, errors.New("llguidance needs -python")
	}
	w := &worker{limit: limit, start: func() *exec.Cmd {
		return exec.CommandContext(ctx, python, "-c", workerSource, tokenizerFile, fmt.Sprint(coverage))
	}}
	return w, w.begin()
}

// begin starts the process and waits until it is ready.
func (w *worker) begin() error {
	w.cmd = w.start()
	w.cmd.Stderr = os.Stderr
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := w.cmd.Start(); err != nil {
		return err
	}
	answers := make(chan []byte)
	w.answers = answers
	go func() {
		defer close(answers)
		lines := bufio.NewScanner(out)
		lines.Buffer(nil, 256<<20)
		for lines.Scan() {
			answers <- bytes.Clone(lines.Bytes())
		}
	}()
	var hello struct {
		Version string `json:"version"`
		Call    int64  `json:"call_ns"`
	}
	line, ok := <-answers
	if !ok {
		return fmt.Errorf("llguidance does not start: %w", w.cmd.Wait())
	}
	if err := jsontext.Decode(line, &hello); err != nil {
		return err
	}
	w.version, w.callTime = hello.Version, hello.Call
	return nil
}

func (w *worker) name() string { return peerName }

func (w *worker) measure(c *testCase) (*result, error) { return w.ask(c.line) }

// ask returns the answer to a line. If the process dies or takes too long, the schema
// counts as refused, and a new process takes the place of the old one.
func (w *worker) ask(question []byte) (*result, error) {
	if _, err := w.in.Write(append(bytes.Clone(question), '\n')); err != nil {
		return nil, err
	}
	select {
	case line, ok := <-w.answers:
		if !ok {
			_ = w.in.Close() // the process has ended
			return &result{Error: fmt.Sprintf("the process ended: %v", w.cmd.Wait())}, w.begin()
		}
		r := &result{}
		return r, jsontext.Decode(line, r)
	case <-time.After(w.limit):
		_ = w.cmd.Process.Kill()
		for range w.answers { // until the process has ended
		}
		_ = w.cmd.Wait()
		return &result{Error: fmt.Sprintf("took longer than %v", w.limit)}, w.begin()
	}
}

func (w *worker) close() error {
	err := w.in.Close()
	for range w.answers {
	}
	return errors.Join(err, w.cmd.Wait())
}
