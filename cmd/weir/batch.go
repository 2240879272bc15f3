package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"weir/auth"
	"weir/batch"
	"weir/server"
	"weir/server/transport"
)

const batchAbout = `Answers the requests in a file, as fast as the machine computes them, and writes their answers to another. Both have the form of OpenAI's batches: a line of the input is {"custom_id": "…", "method": "POST", "url": "/v1/chat/completions", "body": {…}}, and a line of the output is {"id": "…", "custom_id": "…", "response": {"status_code": 200, "request_id": "…", "body": {…}}, "error": null}. Answers are in the order in which they are ready. url is /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/responses, or one of those that score: /score, /rerank, /classify, /pooling.

An output file that is there already is gone on with: what is in it is not computed again, and a last line that was cut is dropped. So a run that was interrupted is finished by the same command. Ctrl-C lets the requests in flight end; a second one stops at once.

A line that cannot be answered gets a line in the output that says why, and the others go on. The exit status is 0 if the output has an answer with status 200 for every line, 1 if not, and 2 if weir was called wrongly.`

// batchOptions are the flags of weir batch.
type batchOptions struct {
	input, output string
	inFlight      int
	maxLine       size
	memory        size
	maxLogprobs   int
	logLevel      string
	model         modelOptions
	engine        engineOptions
	answers       answerOptions

	heapIsLimited bool
	withoutEffect func() []string
}

func (o *batchOptions) bind(f *flagSet) {
	o.maxLine = 32 << 20
	f.group("Batch")
	f.StringVarP(&o.input, "input-file", "i", "", "`file` with a request in each line; - is the standard input")
	f.StringVarP(&o.output, "output-file", "o", "", "`file` that answers are appended to; - is the standard output")
	f.IntVar(&o.inFlight, "max-in-flight", 0, "largest `number` of requests that are prepared or computed at the same time (default: twice --max-num-seqs)")
	f.Var(&o.maxLine, "max-body-size", "largest line of the input")
	f.Var(&o.memory, "memory-limit", "most memory that all requests in flight together may hold (default: four fifths of what the machine or its control group leaves beside the weights and the KV cache)")
	f.IntVar(&o.maxLogprobs, "max-logprobs", 20, "largest `number` that top_logprobs and prompt_logprobs may ask for; -1 allows the whole vocabulary")
	f.oneOf(&o.logLevel, "log-level", "least level of the messages that are logged to standard error", "warn", "info", "debug", "error")
	o.model.bind(f)
	f.StringVar(&o.model.path, "model", "", "`folder` of the model, or its name on the hub; the same as the argument MODEL")
	o.engine.bind(f)
	f.group("Answers")
	o.answers.bind(f, &o.model.reasoningParser)
	o.withoutEffect = bindVLLM(f)
	f.alias(vllmAliases)
}

func setupBatch(f *flagSet, env *environment) action {
	o := &batchOptions{}
	o.bind(f)
	return func(args []string) error {
		dir, err := o.model.folder(args)
		if err != nil {
			return err
		}
		if err := o.validate(f); err != nil {
			return err
		}
		o.heapIsLimited = env.getenv("GOMEMLIMIT") != ""
		log, err := newLog(env.errOut, o.logLevel)
		if err != nil {
			return usageError{err}
		}
		for _, line := range o.withoutEffect() {
			log.Info(line)
		}
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
		defer signal.Stop(signals)
		return o.run(dir, env, log, signals)
	}
}

// validate refuses flags that make no sense, before a model is loaded.
func (o *batchOptions) validate(f *flagSet) error {
	if o.engine.maxTokens > 0 && !f.given["max-num-seqs"] {
		o.engine.maxSeqs = min(o.engine.maxSeqs, o.engine.maxTokens)
	}
	switch {
	case o.input == "" || o.output == "":
		return usageError{errors.New("batch needs the file of requests, -i FILE, and one for the answers, -o FILE")}
	case strings.Contains(o.input, "://") || strings.Contains(o.output, "://"):
		return usageError{errors.New("batch reads and writes files, not URLs: download the input, and upload the output, with another program")}
	case o.inFlight < 0:
		return usageError{fmt.Errorf("--max-in-flight %d: it takes 1 or more", o.inFlight)}
	}
	in, err := os.Stat(o.input)
	if err != nil && o.input != "-" {
		return err
	}
	if out, err := os.Stat(o.output); err == nil && in != nil && os.SameFile(in, out) {
		return usageError{fmt.Errorf("%s is both the input and the output", o.input)}
	}
	return nil
}

// open opens both files. total is how many lines the input has, or 0 if it is not known.
func (o *batchOptions) open(env *environment) (in *batch.Input, out *batch.Output, total int, closeInput func() error, err error) {
	source, closeInput := env.in, func() error { return nil }
	if o.input != "-" {
		f, err := os.Open(o.input)
		if err != nil {
			return nil, nil, 0, nil, err
		}
		source, closeInput = f, f.Close
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			if total, err = countLines(f); err == nil {
				_, err = f.Seek(0, io.SeekStart)
			}
			if err != nil {
				_ = f.Close()
				return nil, nil, 0, nil, err
			}
		}
	}
	if o.output == "-" {
		out = batch.NewOutput(env.out)
	} else if out, err = batch.OpenOutput(o.output); err != nil {
		_ = closeInput()
		return nil, nil, 0, nil, err
	}
	return batch.NewInput(source, int(o.maxLine)), out, total, closeInput, nil
}

// countLines counts the lines that are not blank.
func countLines(r io.Reader) (n int, err error) {
	in := bufio.NewReaderSize(r, 1<<20)
	for blank := true; ; {
		piece, err := in.ReadSlice('\n')
		blank = blank && len(bytes.TrimSpace(piece)) == 0
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		if !blank {
			n++
		}
		blank = true
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// serverConfig is that of the server that answers.
func (o *batchOptions) serverConfig(log *slog.Logger) server.Config {
	c := server.DefaultConfig()
	c.UseProcessors(processors)
	c.Version, c.Log = version, log
	c.MaxBody, c.MaxBodies = int(o.maxLine), max(c.MaxBodies, int64(o.maxLine))
	o.answers.apply(&c.Answers)
	c.MaxLogprobs = o.maxLogprobs
	c.Limits.Prompts = min(c.Limits.Prompts, o.engine.maxLive)
	c.Limits.Choices = min(c.Limits.Choices, o.engine.maxLive)
	c.Memory = planMemory(int64(o.memory), memoryLimit(), 0).requests
	return c
}

// errBatchInterrupted is the error of a run that a signal has ended.
var errBatchInterrupted = errors.New("interrupted: the same command goes on where this one has stopped")

// run computes a batch.
func (o *batchOptions) run(dir string, env *environment, log *slog.Logger, signals <-chan os.Signal) (err error) {
	in, out, total, closeInput, err := o.open(env)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close(), closeInput()) }()
	if dir, err = o.model.locate(dir, env, log); err != nil {
		return err
	}
	p, err := startInProcess(dir, &o.model, &o.engine, o.serverConfig(log))
	if err != nil {
		return err
	}
	defer p.stop()
	memory := planMemory(int64(o.memory), memoryLimit(), p.engine.hostBytes)
	if !o.heapIsLimited {
		defer memory.limitHeap(p.engine.hostBytes)()
	}
	r := &batchRun{out: out, progress: newBatchProgress(env.errOut, total, p.engine.engine.Stats)}
	ctx, abort := context.WithCancelCause(context.Background())
	defer abort(nil)
	stop, drain := context.WithCancelCause(context.Background())
	defer drain(nil)
	ended := make(chan struct{})
	defer close(ended)
	go func() {
		select {
		case err := <-p.failed:
			abort(fmt.Errorf("the engine has failed: %w", err))
			return
		case <-signals:
			r.progress.say("stopping: requests in flight may end, a second signal stops at once")
			drain(errBatchInterrupted)
		case <-ended:
			return
		}
		select {
		case <-signals:
			abort(errBatchInterrupted)
		case <-ended:
		}
	}()
	pool := o.pool(p)
	err = pool.Run(ctx, stop, func() (*batch.Job, error) { return r.next(in) }, r.put)
	r.progress.end()
	if err != nil {
		return err
	}
	if failed := out.Failed(); failed > 0 {
		return fmt.Errorf("%d of the answers in the output are errors", failed)
	}
	return nil
}

// pool keeps steps of the engine full: while some requests are computed, as many others are prepared.
func (o *batchOptions) pool(p *inProcess) *batch.Pool {
	pool := &batch.Pool{InFlight: o.inFlight, Bytes: 256 << 20, NewID: func() string { return "batch-" + transport.RandomHex(16) }}
	if pool.InFlight == 0 {
		pool.InFlight = max(2, min(2*o.engine.maxSeqs, o.engine.maxLive))
	}
	pool.Do = func(ctx context.Context, l *batch.Line, requestID string) batch.Outcome {
		a := p.server.Transport().Do(ctx, &transport.Errand{Path: l.URL, Body: l.Body, RequestID: requestID, Who: auth.Anonymous})
		return batch.Outcome(a)
	}
	return pool
}

// batchRun is the state of a run.
type batchRun struct {
	out      *batch.Output
	progress *batchProgress
}

// next returns the next job whose result is not in the output yet.
func (r *batchRun) next(in *batch.Input) (*batch.Job, error) {
	for {
		job, err := in.Next()
		if err != nil || !r.out.Has(job) {
			return job, err
		}
		r.progress.skipped.Add(1)
		r.progress.show()
	}
}

func (r *batchRun) put(result *batch.Result) error {
	if err := r.out.Add(result); err != nil {
		return err
	}
	r.progress.done.Add(1)
	if result.Failed() {
		r.progress.failed.Add(1)
	}
	r.progress.show()
	return nil
}
