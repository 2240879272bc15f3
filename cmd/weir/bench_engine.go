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
	"strings"
	"time"

	"github.com/spf13/pflag"

	"weir/bench/compute"
	"weir/device/cpu"
	"weir/model"
	"weir/models"
)

// benchEngine measures the device under the engine, with steps of its own.
func benchEngine(ctx context.Context, args []string, env func(string) string, out, errOut io.Writer) error {
	c := compute.DefaultConfig()
	fs := pflag.NewFlagSet("weir bench engine", pflag.ContinueOnError)
	fs.SetOutput(errOut)
	dir := fs.String("model", "", "`folder` of the model (default: the bundled one)")
	shape := fs.String("shape", "", "measure a model in the shape of a published one, with random weights and without a file: "+strings.Join(compute.Shapes(), ", "))
	fs.IntSliceVar(&c.Batches, "batch", c.Batches, "`sequences` that decode together")
	fs.IntSliceVar(&c.Contexts, "context", c.Contexts, "`positions` that each of them has before")
	fs.IntSliceVar(&c.Prefills, "prefill", c.Prefills, "lengths of prompts in `tokens`")
	fs.IntVar(&c.Steps, "steps", c.Steps, "decode steps in a repetition")
	fs.IntVar(&c.Repeats, "repeat", c.Repeats, "repetitions; the median is reported, and the range")
	var garbage, kvMemory size
	limits := size(c.Memory)
	fs.Var(&garbage, "garbage", "memory allocated per second beside the steps, so that collections run as under a server's load")
	fs.Var(&limits, "limits-memory", "how much memory is read to measure the machine's speed; 0 measures no limits")
	threads := fs.Int("threads", 0, "computing threads (default: one per processor)")
	tier := fs.String("cpu", "", "force a `tier` of instructions: generic, avx2 or avx512 (default: the best there is)")
	dtype := oneOf(fs, "dtype", "type of the weights in memory; auto keeps the stored one", "auto", "float32", "float16", "bfloat16")
	kvDtype := oneOf(fs, "kv-cache-dtype", "type of keys and values; auto is bfloat16", "auto", "float32", "float16", "bfloat16")
	fs.Var(&kvMemory, "kv-cache-memory", "memory for keys and values; what needs more is left out (default: what the machine has beside the weights)")
	fs.IntVar(&c.BlockTokens, "block-size", c.BlockTokens, "`tokens` in a KV block, a multiple of 16")
	fs.IntVar(&c.MaxTokens, "max-num-batched-tokens", c.MaxTokens, "most `tokens` of a step: prompts are cut into as many")
	file := fs.String("json", "", "`file` for the numbers")
	fs.Usage = func() {
		fmt.Fprintf(out, "weir bench engine [flags] measures prefill and decode without a server, beside what the machine can do, measured in the same run.\n\n%s", fs.FlagUsages())
	}
	rest, err := parse(fs, args, env)
	switch {
	case err != nil:
		return err
	case len(rest) > 0:
		return usageError{fmt.Errorf("bench engine takes no arguments: %q", rest)}
	case *dir != "" && *shape != "":
		return usageError{errors.New("--model and --shape are two models")}
	}
	c.Garbage, c.Memory = int(garbage), int(limits)
	if err := c.Validate(); err != nil {
		return usageError{err}
	}
	cache := *kvDtype
	if cache == "auto" {
		cache = "bfloat16"
	}
	dc := cpu.Default()
	dc.Threads, dc.WeightType, dc.KVType, dc.Impl = *threads, formats[*dtype].compute, formats[cache].compute, *tier
	if err := dc.Validate(); err != nil {
		return usageError{err}
	}
	if dc.Threads == 0 {
		dc.Threads = runtime.GOMAXPROCS(0)
	}
	runtime.GOMAXPROCS(dc.Threads + 1) // as a server has it

	network, name, err := openNetwork(*dir, *shape)
	if err != nil {
		return err
	}
	defer network.Close()
	stored := network.WeightBytes()
	if c.MaxKV = int64(kvMemory); c.MaxKV == 0 {
		// Beside the weights, as stored and as the device has them, and all else.
		if limit := memoryLimit(); limit > 0 {
			c.MaxKV = max(1, limit-2*stored-2<<30)
		}
	}
	perToken := float64(network.Config.KVBytesPerToken(formats[cache].stored))
	opt, _, err := c.Options(&network.Config, perToken)
	if err != nil {
		return usageError{err}
	}
	note := func(format string, args ...any) {
		if terminal(errOut) {
			fmt.Fprintf(errOut, "\r%-60s", fmt.Sprintf(format, args...))
		}
	}
	opt.Progress = func(done, total int64) { note("loading %.0f%%", 100*float64(done)/float64(total)) }
	dev, err := cpu.Open(dc)
	if err != nil {
		return err
	}
	impl := dev.Impl()
	watch := compute.Watch(dev)
	runner, err := model.NewRunner(ctx, watch, network, opt)
	if err != nil {
		return err
	}
	defer runner.Close()
	s := compute.Subject{Network: &network.Config, Runner: runner, Stopwatch: watch, WeightBytes: float64(dev.Memory().Weights), KVBytesPerToken: perToken, Threads: dc.Threads}
	r, failure := compute.Run(ctx, s, c, func(x compute.Case) { note("%s, batch %d, context %d", x.Phase, x.Batch, x.Context) })
	note("")
	if ctx.Err() != nil {
		failure = errInterrupted
	}
	if r == nil || len(r.Rows) == 0 {
		return failure
	}
	r.Date, r.Version, r.Model, r.KV = time.Now(), version, name, cache
	r.Weights, r.Processor = *dtype, processor()
	if r.Weights == "auto" {
		r.Weights = "stored"
		if *shape != "" {
			r.Weights = "bfloat16"
		}
	}
	r.Device = fmt.Sprintf("CPU, %s, %d threads, %s", impl, dc.Threads, runtime.Version())
	return errors.Join(failure, r.WriteText(out), r.WriteBenchmark(out), writeFile(*file, r.WriteJSON))
}

// openNetwork opens the model in dir, or makes one of a shape, or opens the
// bundled one.
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

// processor is the model name of the machine's processor, where the system
// tells.
func processor() string {
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
