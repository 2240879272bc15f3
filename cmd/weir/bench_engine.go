package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"time"

	"weir/bench/compute"
	"weir/device/cpu"
	"weir/model"
	"weir/models"
)

// benchEngineOptions are the flags of weir bench engine.
type benchEngineOptions struct {
	compute.Config
	cpuOptions
	dir, shape string
	garbage    size
	limits     size
	kvMemory   size
	file       string
	profile    string
}

func (o *benchEngineOptions) bind(f *flagSet) {
	o.Config = compute.DefaultConfig()
	o.limits = size(o.Memory)
	f.group("What is measured")
	f.StringVar(&o.dir, "model", "", "`folder` of the model, or its name on the hub (default: the bundled one)")
	f.StringVar(&o.shape, "shape", "", "measure a model with the `shape` of a published one and random weights, without reading a file: "+strings.Join(compute.Shapes(), ", "))
	f.Var(&numbers{list: &o.Batches}, "batch", "`numbers` of sequences that decode together")
	f.Var(&numbers{list: &o.Contexts}, "context", "`numbers` of positions that each of these sequences has before the first step")
	f.Var(&numbers{list: &o.Prefills}, "prefill", "lengths of prompts in `tokens`; none, here and in the two flags above, leaves these rows out")
	f.IntVar(&o.Steps, "steps", o.Steps, "`number` of decode steps in a repetition")
	f.IntVar(&o.Repeats, "repeat", o.Repeats, "`number` of repetitions; the median of their rates and the range are reported")
	f.Var(&o.garbage, "garbage", "memory that is allocated per second beside the steps, so that garbage collections run as under the load of a server")
	f.Var(&o.limits, "limits-memory", "how much memory is read to measure the machine's memory speed; 0 measures no limits of the machine")
	f.group("Device and types")
	o.cpuOptions.bind(f)
	f.group("Sizes")
	f.Var(&o.kvMemory, "kv-cache-memory", "memory for keys and values; rows that need more are left out (default: what the machine has besides the weights)")
	f.IntVar(&o.BlockTokens, "block-size", o.BlockTokens, "`tokens` in a block of the KV cache, a multiple of 16")
	f.IntVar(&o.MaxTokens, "max-num-batched-tokens", o.MaxTokens, "largest number of `tokens` in a step; longer prompts are cut into several steps")
	f.group("Results")
	f.StringVar(&o.file, "json", "", "`file` for the numbers")
	f.StringVar(&o.profile, "cpuprofile", "", "`file` for a CPU profile of the measured part, in the format of go tool pprof")
}

// settle completes the configuration after the flags have been parsed.
func (o *benchEngineOptions) settle(args []string) error {
	if err := noArguments("bench engine", args); err != nil {
		return err
	}
	if o.dir != "" && o.shape != "" {
		return usageError{errors.New("--model and --shape are two models")}
	}
	o.Garbage, o.Memory = int(o.garbage), int(o.limits)
	if err := o.Validate(); err != nil {
		return usageError{err}
	}
	return nil
}

// setupBenchEngine measures the CPU device below the engine.
func setupBenchEngine(f *flagSet, env *environment) action {
	o := &benchEngineOptions{}
	o.bind(f)
	return func(args []string) error {
		if err := o.settle(args); err != nil {
			return err
		}
		return measure(func(ctx context.Context) error { return o.run(ctx, env) })
	}
}

func (o *benchEngineOptions) run(ctx context.Context, env *environment) error {
	c, cacheType, err := o.config()
	if err != nil {
		return err
	}
	c.Threads = c.ThreadCount()
	runtime.GOMAXPROCS(c.Threads + 1) // as in a server
	network, name, err := o.openModel(env)
	if err != nil {
		return err
	}
	defer network.Close()
	if network.Config.Network.Whole || network.Config.Network.Head == model.NoHead {
		return usageError{fmt.Errorf("%s draws no tokens, and bench engine measures steps that do", network.Config.Architecture)}
	}
	perToken, err := o.fit(network, &c)
	if err != nil {
		return err
	}
	opt, _, err := o.Options(&network.Config, float64(perToken))
	if err != nil {
		return usageError{err}
	}
	note := progressLine(env.errOut)
	opt.Progress = func(done, total int64) { note("loading %.0f%%", 100*float64(done)/float64(total)) }
	dev, err := cpu.Open(c)
	if err != nil {
		return err
	}
	tier := dev.Impl()
	watch := compute.Watch(dev, dev)
	runner, err := model.NewRunner(ctx, watch, network, opt)
	if err != nil {
		return err
	}
	defer runner.Close()
	subject := compute.Subject{Network: &network.Config, Runner: runner, Stopwatch: watch, Quantized: o.quantization != "auto" || len(quantizedTensors(network)) > 0 && o.dtype != "float32",
		WeightBytes: float64(dev.WeightBytes()), KVBytesPerToken: float64(perToken), Threads: c.Threads}
	stopProfile, err := startProfile(o.profile)
	if err != nil {
		return err
	}
	r, failure := compute.Run(ctx, subject, o.Config, func(x compute.Case) { note("%s, batch %d, context %d", x.Phase, x.Batch, x.Context) })
	failure = errors.Join(failure, stopProfile())
	note("")
	if ctx.Err() != nil {
		failure = errInterrupted
	}
	if r == nil || len(r.Rows) == 0 {
		return failure
	}
	r.Date, r.Version, r.Model, r.KV = time.Now(), version, name, cacheType
	r.Weights, r.Processor = weightsName(o.quantization, o.dtype, o.shape), processorName()
	r.Device = fmt.Sprintf("CPU, %s, %d threads, %s", tier, c.Threads, runtime.Version())
	return errors.Join(failure, r.WriteText(env.out), r.WriteBenchmark(env.out), writeFile(o.file, r.WriteJSON))
}

// fit refuses weights that the machine's memory cannot hold, sets how much memory
// there is for keys and values, and returns how many bytes a position takes of it.
func (o *benchEngineOptions) fit(network *model.Model, c *cpu.Config) (perToken int64, err error) {
	if _, err := o.checkQuantized(quantizedTensors(network), *c); err != nil {
		return 0, err
	}
	packed, err := packedBytes(network, *c)
	if err != nil {
		return 0, usageError{err}
	}
	available := memoryAvailable()
	if err := checkMemory(packed, available, memoryLimit()); err != nil {
		return 0, err
	}
	if o.MaxKV = int64(o.kvMemory); o.MaxKV == 0 && available > 0 {
		o.MaxKV = max(1, available-packed-int64(o.Memory)-1<<30) // 1 GiB is for activations and all else
	}
	if o.MaxKV > 0 && len(o.Batches) > 0 { // states are allocated besides
		o.MaxKV = max(1, o.MaxKV-network.Config.StateBytes()*int64(1+slices.Max(o.Batches)))
	}
	if perToken, err = cacheBytes(&network.Config, c.KVType, 0); err != nil {
		return 0, usageError{err}
	}
	return perToken, nil
}

// progressLine returns a function that shows a note in one line of a terminal. It
// does nothing if w is not a terminal.
func progressLine(w io.Writer) func(format string, args ...any) {
	if !isTerminal(w) {
		return func(string, ...any) {}
	}
	return func(format string, args ...any) { fmt.Fprintf(w, "\r%-60s", fmt.Sprintf(format, args...)) }
}

// startProfile begins to write a CPU profile, if path is not empty.
func startProfile(path string) (stop func() error, err error) {
	if path == "" {
		return func() error { return nil }, nil
	}
	f, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() error {
		pprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// weightsName names the type of the weights in memory.
func weightsName(quantization, dtype, shape string) string {
	switch {
	case quantization != "auto":
		return quantization
	case dtype != "auto":
		return dtype
	case shape != "":
		return "bfloat16" // the type of random weights
	}
	return "as stored"
}

// openModel opens what is measured. A model on the hub is downloaded and keeps its name there.
func (o *benchEngineOptions) openModel(env *environment) (m *model.Model, name string, err error) {
	log, err := newLog(env.errOut, "warn")
	if err != nil {
		return nil, "", err
	}
	var from modelOptions
	if o.dir, err = from.locate(o.dir, env, log); err != nil {
		return nil, "", err
	}
	if m, name, err = openNetwork(o.dir, o.shape); len(from.names) > 0 {
		name = from.names[0]
	}
	return m, name, err
}

// openNetwork makes a model of a shape, or opens the model in dir or the bundled one.
func openNetwork(dir, shape string) (m *model.Model, name string, err error) {
	switch {
	case shape != "":
		if m, err = compute.Synthetic(shape); err != nil {
			return nil, "", usageError{err}
		}
		return m, shape + " (random weights)", nil
	case dir != "":
		m, err = model.Open(dir)
		return m, filepath.Base(filepath.Clean(dir)), err
	}
	m, err = model.OpenFS(models.Bundled())
	return m, models.Name, err
}

// processorName is the model name of the machine's processor, if the system tells it.
func processorName() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err == nil {
		for line := range bytes.Lines(info) {
			if key, value, ok := strings.Cut(string(line), ":"); ok && strings.TrimSpace(key) == "model name" {
				return strings.TrimSpace(value)
			}
		}
	}
	return runtime.GOARCH
}
