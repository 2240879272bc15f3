package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"weir/bench"
	"weir/internal/jsontext"
)

// benchServeOptions are the flags of weir bench serve. Most of them are fields of the
// configuration already; the others are translated by settle.
type benchServeOptions struct {
	bench.ServeConfig
	binary      string // server to start; "": one is running
	endpoint    string
	dataset     string
	datasetPath string
	temperature float64
	extraBody   string
	goodput     []string
	wait        int // seconds
	file        string
	detailed    bool
	serverArgs  []string // the arguments after --
}

func (o *benchServeOptions) bind(f *flagSet) {
	o.ServeConfig = bench.DefaultServeConfig()
	f.group("Server")
	f.StringVar(&o.BaseURL, "base-url", o.BaseURL, "`URL` of the server")
	f.StringVar(&o.binary, "binary", "", "server `program` to start for the run on a free port, with the arguments after --; self is this program")
	f.StringVar(&o.Model, "model", "", "`name` of the model (default: the server's first)")
	f.StringVar(&o.APIKey, "api-key", "", "`key` for the server (default: $OPENAI_API_KEY)")
	f.oneOf(&o.endpoint, "endpoint", "function that is called", "chat", "completions")
	f.IntVar(&o.wait, "ready-check-timeout-sec", 0, "`seconds` to wait for a server that does not answer yet")

	f.group("Load")
	f.IntVar(&o.NumPrompts, "num-prompts", o.NumPrompts, "`number` of requests")
	f.Float64Var(&o.Rate, "request-rate", o.Rate, "`requests` per second; inf sends all of them at once")
	f.Float64Var(&o.Burstiness, "burstiness", o.Burstiness, "`shape` of the gamma distribution of the times between requests: 1 is a Poisson process, less comes in bursts, inf is even")
	f.IntVar(&o.MaxConcurrency, "max-concurrency", 0, "largest number of `requests` in flight; the others wait before they are sent (default: no limit, and no request waits)")
	f.Uint64Var(&o.Seed, "seed", 0, "`seed` of the schedule and of random prompts")
	f.IntVar(&o.Warmups, "warmups", 0, "number of `requests` that are sent before the run and not measured; also --num-warmups")
	f.IntVar(&o.Warmups, "num-warmups", 0, "")
	_ = f.MarkHidden("num-warmups") // vLLM's name of it

	f.group("Prompts and requests")
	f.oneOf(&o.dataset, "dataset-name", "where prompts come from: random words, or the file of --dataset-path", "random", "prompts")
	f.StringVar(&o.datasetPath, "dataset-path", "", "`file` for --dataset-name prompts, with lines of {\"prompt\": …, \"output_len\": …}")
	f.IntVar(&o.Random.InputLen, "random-input-len", o.Random.InputLen, "approximate length of a random prompt in `tokens`; it consists of words that are one token in nearly every vocabulary")
	f.IntVar(&o.Random.OutputLen, "random-output-len", o.Random.OutputLen, "length of the answer to a random prompt in `tokens`")
	f.IntVar(&o.Random.PrefixLen, "random-prefix-len", 0, "`tokens` that all random prompts begin with, in addition to their own")
	f.Float64Var(&o.Random.RangeRatio, "random-range-ratio", 0, "`r` in [0, 1): lengths are drawn from [len*(1-r), len*(1+r)]")
	f.BoolVar(&o.IgnoreEOS, "ignore-eos", false, "let answers continue to their length limit; with random prompts this is always so")
	f.Float64Var(&o.temperature, "temperature", 0, "sampling `temperature` (default: the server's)")
	f.StringVar(&o.extraBody, "extra-body", "", "`JSON` object whose fields are added to every request or replace its own")

	f.group("Results")
	f.StringSliceVar(&o.Metrics, "percentile-metrics", o.Metrics, "which `metrics` are reported: ttft, tpot, itl, e2el")
	f.Float64SliceVar(&o.Percentiles, "metric-percentiles", o.Percentiles, "which `percentiles` of them are reported")
	f.StringSliceVar(&o.goodput, "goodput", nil, "`conditions` in milliseconds that make a request a good one: ttft:500 tpot:50 e2el:10000")
	f.StringVar(&o.file, "save-result", "", "`file` for the results in JSON")
	f.BoolVar(&o.detailed, "save-detailed", false, "add what is known of each request to --save-result")
}

func setupBenchServe(f *flagSet, env *environment) action {
	o := &benchServeOptions{}
	o.bind(f)
	return func(args []string) error {
		if err := o.settle(f, args, env.getenv); err != nil {
			return usageError{err}
		}
		return measure(func(ctx context.Context) error { return o.run(ctx, env.out) })
	}
}

// settle completes the configuration after the flags have been parsed.
func (o *benchServeOptions) settle(f *flagSet, args []string, getenv func(string) string) (err error) {
	if n := f.ArgsLenAtDash(); n >= 0 {
		args, o.serverArgs = args[:n], args[n:]
	}
	// vLLM's --goodput takes all conditions that follow it, so arguments after it are
	// conditions.
	if len(args) > 0 && len(o.goodput) == 0 {
		return fmt.Errorf("bench serve takes no arguments: %q", args)
	}
	if o.binary == "" && len(o.serverArgs) > 0 {
		return fmt.Errorf("arguments after -- are for a server that --binary starts: %q", o.serverArgs)
	}
	if o.Goodput, err = bench.ParseGoodput(append(o.goodput, args...)); err != nil {
		return err
	}
	if o.endpoint == "completions" {
		o.Endpoint = bench.Completions
	}
	if f.Changed("temperature") {
		o.Temperature = &o.temperature
	}
	if o.APIKey == "" {
		o.APIKey = getenv("OPENAI_API_KEY")
	}
	o.ExtraBody, o.KeepText = jsontext.RawMessage(o.extraBody), o.detailed
	o.ReadyTimeout = time.Duration(o.wait) * time.Second
	if err := o.choosePrompts(); err != nil {
		return err
	}
	return o.Validate()
}

// choosePrompts reads the data set, unless prompts are random.
func (o *benchServeOptions) choosePrompts() (err error) {
	if o.dataset != "random" {
		o.Prompts, err = readPrompts(o.datasetPath)
		return err
	}
	if o.datasetPath != "" {
		return errors.New("--dataset-path is for --dataset-name prompts")
	}
	o.IgnoreEOS = true
	return nil
}

// startIfAsked starts a server to be measured, if binary names one, and sets url to where it is. stop ends it; it does nothing
// for a server that runs already.
func startIfAsked(ctx context.Context, binary string, args []string, url *string) (stop func() error, err error) {
	if binary == "" {
		return func() error { return nil }, nil
	}
	child, err := launch(ctx, binary, args)
	if err != nil {
		return nil, err
	}
	*url = child.URL
	return func() error { return child.Stop(ctx) }, nil
}

// run measures, on a server that it starts if it was asked to.
func (o *benchServeOptions) run(ctx context.Context, out io.Writer) (failure error) {
	stop, err := startIfAsked(ctx, o.binary, o.serverArgs, &o.BaseURL)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, stop()) }()
	r, err := bench.RunServe(ctx, o.ServeConfig)
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
	write := func(w io.Writer) error { return r.WriteJSON(w, o.detailed) }
	return errors.Join(err, r.WriteText(out), r.WriteBenchmark(out), writeFile(o.file, write))
}

// launch starts the server that is measured.
func launch(ctx context.Context, binary string, args []string) (*bench.Child, error) {
	program, err := programPath(binary)
	if err != nil {
		return nil, err
	}
	child, err := bench.Launch(ctx, program, args, bench.DefaultStartConfig().Limit)
	if err != nil && ctx.Err() != nil {
		return nil, errInterrupted
	}
	return child, err
}
