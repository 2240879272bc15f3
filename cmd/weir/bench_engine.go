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
	fs.Var(&numbers{list: &c.Batches}, "batch", "`sequences` that decode together")
	fs.Var(&numbers{list: &c.Contexts}, "context", "`positions` that each of them has before")
	fs.Var(&numbers{list: &c.Prefills}, "prefill", "lengths of prompts in `tokens`; none for these three is no such rows")
	fs.IntVar(&c.Steps, "steps", c.Steps, "decode steps in a repetition")
	fs.IntVar(&c.Repeats, "repeat", c.Repeats, "repetitions; the median is reported, and the range")
	var garbage, kvMemory size
	limits := size(c.Memory)
	fs.Var(&garbage, "garbage", "memory allocated per second beside the steps, so that collections run as under a server's load")
	fs.Var(&limits, "limits-memory", "how much memory is read to measure the machine's speed; 0 measures no limits")
	threads := fs.Int("threads", 0, "computing threads (default: as weir serve)")
	pin := fs.String("cpu-pin", cpu.PinNodes, "bind them to processors: nodes, cores, none or a `list`, as weir serve")
	tier := fs.String("cpu", "", "force a `tier` of instructions: generic, avx2 or avx512 (default: the best there is)")
	dtype := oneOf(fs, "dtype", "type of the weights in memory; auto keeps the stored one", "auto", "float32", "float16", "bfloat16")
	quantization := oneOf(fs, "quantization", "weights of linear layers as integers: 8 or 4 bits in blocks of 32 with a scale, or (w8a8) 8 bits with one scale per row; auto keeps them as --dtype says", "auto", "q8", "q4", "w8a8")
	kvDtype := oneOf(fs, "kv-cache-dtype", "type of keys and values; auto is bfloat16", "auto", "float32", "float16", "bfloat16", "int8")
	fs.Var(&kvMemory, "kv-cache-memory", "memory for keys and values; what needs more is left out (default: what the machine has beside the weights)")
	fs.IntVar(&c.BlockTokens, "block-size", c.BlockTokens, "`tokens` in a KV block, a multiple of 16")
	fs.IntVar(&c.MaxTokens, "max-num-batched-tokens", c.MaxTokens, "most `tokens` of a step: prompts are cut into as many")
	file := fs.String("json", "", "`file` for the numbers")
	profile := fs.String("cpuprofile", "", "`file` for a profile of the measured part, as go tool pprof reads it")
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
	dc.Threads, dc.Pin, dc.WeightType, dc.KVType, dc.Impl = *threads, *pin, formats[*dtype], cacheFormats[cache], *tier
	if f, ok := quantizations[*quantization]; ok {
		dc.WeightType = f
	}
	if err := dc.Validate(); err != nil {
		return usageError{err}
	}
	dc.Threads = dc.ThreadCount()
	runtime.GOMAXPROCS(dc.Threads + 1) // as a server has it

	network, name, err := openNetwork(*dir, *shape)
	if err != nil {
		return err
	}
	defer network.Close()
	packed, available := packedBytes(network, dc.WeightType), memoryAvailable()
	if err := enough(packed, available, memoryLimit()); err != nil {
		return err
	}
	if c.MaxKV = int64(kvMemory); c.MaxKV == 0 && available > 0 {
		c.MaxKV = max(1, available-packed-int64(c.Memory)-1<<30) // beside activations and all else
	}
	perToken, err := cacheBytes(&network.Config, dc.KVType)
	if err != nil {
		return usageError{err}
	}
	opt, _, err := c.Options(&network.Config, float64(perToken))
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
	memory, slots := dev.Memory(), opt.NumBlocks*opt.BlockTokens
	s := compute.Subject{Network: &network.Config, Runner: runner, Stopwatch: watch, Quantized: *quantization != "auto",
		WeightBytes: float64(memory.Weights), KVBytesPerToken: float64(memory.KV) / float64(slots), Threads: dc.Threads}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	r, failure := compute.Run(ctx, s, c, func(x compute.Case) { note("%s, batch %d, context %d", x.Phase, x.Batch, x.Context) })
	note("")
	if ctx.Err() != nil {
		failure = errInterrupted
	}
	if r == nil || len(r.Rows) == 0 {
		return failure
	}
	r.Date, r.Version, r.Model, r.KV = time.Now(), version, name, cache
	r.Weights, r.Processor = weightsName(*quantization, *dtype, *shape), processor()
	r.Device = fmt.Sprintf("CPU, %s, %d threads, %s", impl, dc.Threads, runtime.Version())
	return errors.Join(failure, r.WriteText(out), r.WriteBenchmark(out), writeFile(*file, r.WriteJSON))
}

// weightsName says what weights are stored as in memory.
func weightsName(quantization, dtype, shape string) string {
	switch {
	case quantization != "auto":
		return quantization
	case dtype != "auto":
		return dtype
	case shape != "":
		return "bfloat16" // what random weights are made in
	}
	return "as stored"
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
