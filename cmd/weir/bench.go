package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"weir/bench"
)

func benchMain(args []string, env func(string) string, out, errOut io.Writer) error {
	what := ""
	if len(args) > 0 {
		what, args = args[0], args[1:]
	}
	// A signal ends the measurement, which prints what it has. A second one does
	// nothing more: the program must live until a server that it started has ended,
	// which takes seconds at most.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch what {
	case "start":
		return benchStart(ctx, args, env, out, errOut)
	case "serve":
		return benchServe(ctx, args, env, out, errOut)
	case "store":
		return benchStore(ctx, args, env, out, errOut)
	case "engine":
		return benchEngine(ctx, args, env, out, errOut)
	}
	return usageError{fmt.Errorf("bench measures start, serve, store or engine, not %q", what)}
}

var errInterrupted = errors.New("interrupted")

func benchStart(ctx context.Context, args []string, env func(string) string, out, errOut io.Writer) error {
	c := bench.DefaultStartConfig()
	fs := pflag.NewFlagSet("weir bench start", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.StringVar(&c.Binary, "binary", "", "server `program` that takes serve --host H --port N (default: this one)")
	fs.StringVar(&c.Model, "model", "", "`name` of the model in the first request (default: none is named)")
	fs.IntVar(&c.Runs, "runs", c.Runs, "how often the server is started")
	fs.DurationVar(&c.Idle, "idle", c.Idle, "how long the last one is watched doing nothing; 0 is not at all")
	file := fs.String("json", "", "`file` for the raw numbers")
	fs.Usage = func() {
		fmt.Fprintf(out, "weir bench start [flags] [-- ARGUMENTS OF SERVE] measures the time from the start of a server to its first answers.\n\n%s", fs.FlagUsages())
	}
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	c.Args = rest
	if c.Binary == "" {
		if c.Binary, err = os.Executable(); err != nil {
			return err
		}
	}
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	r, failure := bench.RunStart(ctx, c)
	if ctx.Err() != nil {
		failure = errInterrupted
	}
	if len(r.Health) == 0 {
		return failure
	}
	return errors.Join(failure, r.WriteText(out), r.WriteBenchmark(out), writeFile(*file, r.WriteJSON))
}

func benchStore(ctx context.Context, args []string, env func(string) string, out, errOut io.Writer) error {
	c := bench.DefaultStoreConfig()
	fs := pflag.NewFlagSet("weir bench store", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.StringArrayVar(&c.Servers, "binary", []string{"self"}, "server `program` that takes serve --host H --port N, with further arguments behind a space; self is this one. Repeated, the servers take turns")
	fs.IntSliceVar(&c.Clients, "clients", c.Clients, "how many write feedback at a time, for each `number`")
	fs.DurationVar(&c.Time, "time", c.Time, "how long they write; 0 is not at all")
	fs.IntVar(&c.Rounds, "rounds", c.Rounds, "how often")
	fs.IntVar(&c.Rows, "rows", c.Rows, "`records` of feedback that queries are asked over; 0 asks none")
	fs.IntVar(&c.Queries, "queries", c.Queries, "how often each query is asked")
	fs.Int64Var(&c.Ingest, "ingest", c.Ingest, "`bytes` of trajectories that are logged in one request; 0 logs none")
	file := fs.String("json", "", "`file` for the raw numbers")
	fs.Usage = func() {
		fmt.Fprintf(out, "weir bench store [flags] measures how fast feedback is written and found, and trajectories are logged.\n\n%s", fs.FlagUsages())
	}
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return usageError{fmt.Errorf("bench store takes no arguments: %q", rest)}
	}
	if c.Time == 0 {
		c.Clients, c.Time = nil, 1
	}
	for i, s := range c.Servers {
		if more, self := strings.CutPrefix(s, "self"); self && (more == "" || more[0] == ' ') {
			exe, err := os.Executable()
			if err != nil {
				return err
			}
			c.Servers[i] = exe + more
		}
	}
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	r, failure := bench.RunStore(ctx, c)
	if ctx.Err() != nil {
		failure = errInterrupted
	}
	return errors.Join(failure, r.WriteText(out), r.WriteBenchmark(out), writeFile(*file, r.WriteJSON))
}

func benchServe(ctx context.Context, args []string, env func(string) string, out, errOut io.Writer) (failure error) {
	c := bench.DefaultServeConfig()
	fs := pflag.NewFlagSet("weir bench serve", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	fs.StringVar(&c.BaseURL, "base-url", c.BaseURL, "`URL` of the server")
	binary := fs.String("binary", "", "start the server `program` for the run, on a free port, with the arguments behind --; self is this program")
	fs.StringVar(&c.Model, "model", "", "`name` of the model (default: the server's first)")
	fs.StringVar(&c.APIKey, "api-key", "", "`key` for the server (default: $OPENAI_API_KEY)")
	endpoint := oneOf(fs, "endpoint", "what is called", "chat", "completions")
	fs.IntVar(&c.NumPrompts, "num-prompts", c.NumPrompts, "how many requests are sent")
	fs.Float64Var(&c.Rate, "request-rate", c.Rate, "`requests` per second; inf sends all at once")
	fs.Float64Var(&c.Burstiness, "burstiness", c.Burstiness, "shape of the gamma distribution of the times between requests: 1 is a Poisson process, less is bursts, inf is even")
	fs.IntVar(&c.MaxConcurrency, "max-concurrency", 0, "most `requests` in flight: others then wait to be sent (default: no limit, requests wait for nothing)")
	fs.Uint64Var(&c.Seed, "seed", 0, "seed of the schedule and of random prompts")
	fs.IntVar(&c.Warmups, "warmups", 0, "`requests` that are sent before and not measured; also --num-warmups")
	fs.IntVar(&c.Warmups, "num-warmups", 0, "")
	dataset := oneOf(fs, "dataset-name", "where prompts come from", "random", "prompts")
	path := fs.String("dataset-path", "", "`file` of --dataset-name prompts: lines of {\"prompt\": …, \"output_len\": …}")
	fs.IntVar(&c.Random.InputLen, "random-input-len", c.Random.InputLen, "`tokens` of a random prompt, about: it is made of words that are one token nearly everywhere")
	fs.IntVar(&c.Random.OutputLen, "random-output-len", c.Random.OutputLen, "`tokens` of an answer to it")
	fs.IntVar(&c.Random.PrefixLen, "random-prefix-len", 0, "`tokens` before it that all random prompts share")
	fs.Float64Var(&c.Random.RangeRatio, "random-range-ratio", 0, "`r` in [0, 1): lengths are drawn from [len*(1-r), len*(1+r)]")
	fs.BoolVar(&c.IgnoreEOS, "ignore-eos", false, "let answers be as long as they may; with random prompts this is so anyway")
	temperature := fs.Float64("temperature", 0, "sampling temperature (default: the server's)")
	extra := fs.String("extra-body", "", "`JSON` object whose fields are added to every request, or replace what is there")
	metrics := fs.StringSlice("percentile-metrics", c.Metrics, "which of ttft, tpot, itl, e2el are reported")
	fs.Float64SliceVar(&c.Percentiles, "metric-percentiles", c.Percentiles, "which percentiles of them")
	goodput := fs.StringSlice("goodput", nil, "`conditions` in ms for a good request: ttft:500 tpot:50 e2el:10000")
	wait := fs.Int("ready-check-timeout-sec", 0, "`seconds` to wait for a server that does not answer yet")
	file := fs.String("save-result", "", "`file` for the results in JSON")
	detailed := fs.Bool("save-detailed", false, "with what is known of each request")
	_ = fs.MarkHidden("num-warmups")
	fs.Usage = func() {
		fmt.Fprintf(out, "weir bench serve [flags] [-- ARGUMENTS OF SERVE] puts a load on a server of the OpenAI interface and measures its answers.\n\n%s", fs.FlagUsages())
	}
	rest, err := parse(fs, args, env)
	if err != nil {
		return err
	}
	var serverArgs []string
	if n := fs.ArgsLenAtDash(); n >= 0 {
		rest, serverArgs = rest[:n], rest[n:]
	}
	// vLLM's --goodput takes all conditions that follow it.
	if len(rest) > 0 && len(*goodput) == 0 {
		return usageError{fmt.Errorf("bench serve takes no arguments: %q", rest)}
	}
	if *binary == "" && len(serverArgs) > 0 {
		return usageError{fmt.Errorf("arguments of serve are for a server that --binary starts: %q", serverArgs)}
	}
	if c.Goodput, err = bench.ParseGoodput(append(*goodput, rest...)); err != nil {
		return usageError{err}
	}
	if *endpoint == "completions" {
		c.Endpoint = bench.Completions
	}
	if fs.Changed("temperature") {
		c.Temperature = temperature
	}
	if c.APIKey == "" {
		c.APIKey = env("OPENAI_API_KEY")
	}
	c.ExtraBody, c.Metrics, c.KeepText = json.RawMessage(*extra), *metrics, *detailed
	c.ReadyTimeout = time.Duration(*wait) * time.Second
	switch {
	case *dataset == "random" && *path != "":
		return usageError{errors.New("--dataset-path is for --dataset-name prompts")}
	case *dataset == "random":
		c.IgnoreEOS = true
	default:
		if c.Prompts, err = readPrompts(*path); err != nil {
			return usageError{err}
		}
	}
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	if *binary != "" {
		child, err := launch(ctx, *binary, serverArgs)
		if err != nil {
			return err
		}
		c.BaseURL = child.URL
		defer func() { failure = errors.Join(failure, child.Stop(ctx)) }()
	}
	r, err := bench.RunServe(ctx, c)
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	case r.Interrupted:
		err = errInterrupted
	case r.Completed == 0:
		err = errors.New("every request failed")
	}
	write := func(w io.Writer) error { return r.WriteJSON(w, *detailed) }
	return errors.Join(err, r.WriteText(out), r.WriteBenchmark(out), writeFile(*file, write))
}

// launch starts a server to put a load on.
func launch(ctx context.Context, binary string, args []string) (*bench.Child, error) {
	if binary == "self" {
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		binary = self
	}
	child, err := bench.Launch(ctx, binary, args, bench.DefaultStartConfig().Limit)
	if err != nil && ctx.Err() != nil {
		return nil, errInterrupted
	}
	return child, err
}

func readPrompts(path string) ([]bench.Prompt, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("--dataset-path: %w", err)
	}
	defer f.Close()
	return bench.ReadPrompts(f)
}

// writeFile writes what was measured to a file, if one is wanted.
func writeFile(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
