package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cell is what is measured in one process: a model, a number of threads, and a unit of
// work.
type cell struct {
	shape, kind string
	threads     int
	unit        unit
}

func (c cell) name() string {
	return fmt.Sprintf("%s/%s/%dT/%s", c.shape, c.kind, c.threads, c.unit.name)
}

// A unit of work is prompts or streams.
type unit struct {
	name     string
	prefills []int    // lengths of prompts
	steps    int      // decode steps
	batches  []int    // numbers of streams; none: one stream from an empty context, by llama-bench
	context  int      // positions that each stream has before the first step
	int8KV   bool     // keys and values of 8 bits
	long     bool     // takes minutes
	skip     []string // types of weights that it is not measured with
}

// units of work. llama-bench measures prompts and single streams. llama-batched-bench
// measures the rest; it has to compute the prompts of its streams first.
var units = []unit{
	{name: "single", prefills: []int{128, 512}, steps: 32},
	{name: "streams", batches: []int{8, 32, 64}, context: 16, steps: 8},
	{name: "prefill-4k", prefills: []int{4096}, long: true},
	{name: "streams-4k", batches: []int{8}, context: 4096, steps: 8, long: true},
	{name: "streams-4k-int8kv", batches: []int{8}, context: 4096, steps: 8, int8KV: true, long: true, skip: []string{"bf16"}},
}

// kinds are the types of weights, each with its value of weir's --quantization and the ending
// of its GGUF file. Those without a value are measured with one file for all engines; of the
// others weir makes weights of its own.
var kinds = map[string]struct{ quantization, ending string }{
	"q8": {"q8", "q8_0"}, "q4": {"q4", "q4_0"}, "bf16": {"auto", "bf16"},
	"q4_k_m": {"", "q4_k_m"}, "q5_k_m": {"", "q5_k_m"}, "q6_k": {"", "q6_k"}, "iq4_xs": {"", "iq4_xs"}, "q8_0": {"", "q8_0"}, "q4_0": {"", "q4_0"}, "mxfp4": {"", "mxfp4"},
}

// allCells lists the cells of all shapes and types. A shape may have a type of its own, SHAPE:TYPE.
func allCells(shapes, types []string, threads []int) (cells []cell, err error) {
	for _, shape := range shapes {
		types := types
		if name, kind, ok := strings.Cut(shape, ":"); ok {
			shape, types = name, []string{kind}
		}
		for _, kind := range types {
			if _, ok := kinds[kind]; !ok {
				return nil, fmt.Errorf("--types: %q is none of %s", kind, strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
			}
			for _, n := range threads {
				for _, u := range units {
					// Long units are measured with the largest number of threads only.
					if !slices.Contains(u.skip, kind) && (!u.long || n == slices.Max(threads)) {
						cells = append(cells, cell{shape, kind, n, u})
					}
				}
			}
		}
	}
	return cells, nil
}

// The engines that are compared.
const (
	weir  = "weir"
	llama = "llama.cpp"
	ik    = "ik_llama.cpp"
)

// programs says where the engines are and how they are started.
type programs struct {
	weir, llama, ik, models string
	llamaVersion, ikVersion string
	godebug                 string // for weir
	prefix                  []string
}

func (p *programs) engines() []string {
	list := []string{weir}
	if p.llama != "" {
		list = append(list, llama)
	}
	if p.ik != "" {
		list = append(list, ik)
	}
	return list
}

// versionOf is the name that a flag gives to the build of an engine, or "".
func (p *programs) versionOf(engine string) string {
	switch engine {
	case llama:
		return p.llamaVersion
	case ik:
		return p.ikVersion
	}
	return ""
}

// command is the command line that measures c with an engine, with the output that parsing
// expects. weir writes its numbers to file.
func (p *programs) command(c cell, engine, file string) []string {
	switch {
	case engine == weir:
		return p.weirCommand(c, file)
	case engine == ik:
		return p.llamaCommand(c, p.ik, engine)
	}
	return p.llamaCommand(c, p.llama, engine)
}

// file is the GGUF file of c.
func (p *programs) file(c cell) string {
	return filepath.Join(p.models, c.shape+"-"+kinds[c.kind].ending+".gguf")
}

func (p *programs) weirCommand(c cell, file string) []string {
	u := c.unit
	args := []string{p.weir, "bench", "engine", "--model", p.file(c)}
	if q := kinds[c.kind].quantization; q != "" {
		args = []string{p.weir, "bench", "engine", "--shape", c.shape, "--quantization", q}
	}
	args = append(args, "--threads", strconv.Itoa(c.threads), "--json", file, "--repeat", "1", "--prefill", join(u.prefills), "--context", strconv.Itoa(u.context))
	switch {
	case len(u.batches) > 0:
		args = append(args, "--batch", join(u.batches), "--steps", strconv.Itoa(u.steps))
	case u.steps > 0:
		args = append(args, "--batch", "1", "--steps", strconv.Itoa(u.steps))
	default:
		args = append(args, "--batch", "none")
	}
	if u.int8KV {
		args = append(args, "--kv-cache-dtype", "int8")
	}
	return args
}

// llamaCommand is the command line of llama.cpp or of ik_llama.cpp, whose programs in dir
// are called alike.
func (p *programs) llamaCommand(c cell, dir, engine string) []string {
	u, n, steps := c.unit, strconv.Itoa(c.threads), strconv.Itoa(c.unit.steps)
	args := []string{"-m", p.file(c), "-t", n, "-b", "2048", "-ub", "512"}
	if u.int8KV {
		args = append(args, "-ctk", "q8_0", "-ctv", "q8_0")
		if engine == llama {
			args = append(args, "-fa", "on")
		}
	}
	if len(u.batches) == 0 {
		args = append([]string{filepath.Join(dir, "llama-bench")}, append(args, "-p", join(u.prefills), "-n", steps, "-r", "1", "-o", "json")...)
		if engine == ik {
			args = append(args, "-rtr", "1")
		}
		return args
	}
	positions := u.batches[len(u.batches)-1] * (u.context + u.steps)
	args = append([]string{filepath.Join(dir, "llama-batched-bench")}, append(args, "-tb", n, "-c", strconv.Itoa(positions), "-npp", strconv.Itoa(u.context), "-ntg", steps, "-npl", join(u.batches))...)
	if engine == ik {
		args = append(args, "-rtr")
	}
	return args
}

func join(list []int) string {
	if len(list) == 0 {
		return "none"
	}
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
}

// measure runs one process and reads its results.
func (p *programs) measure(ctx context.Context, c cell, engine string, limit time.Duration) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	file, err := os.CreateTemp("", "weir-peers-*.json")
	if err != nil {
		return result{}, err
	}
	file.Close()
	defer os.Remove(file.Name())
	args := append(append([]string{}, p.prefix...), p.command(c, engine, file.Name())...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.WaitDelay = 10 * time.Second
	if engine == weir && p.godebug != "" {
		cmd.Env = append(cmd.Environ(), "GODEBUG="+p.godebug)
	}
	var out, all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &all
	start := time.Now()
	if err := cmd.Run(); err != nil {
		return result{}, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, tail(all.String()))
	}
	r := result{Time: start.UTC(), Seconds: time.Since(start).Seconds()}
	switch {
	case engine == weir:
		var numbers []byte
		if numbers, err = os.ReadFile(file.Name()); err == nil {
			err = r.parseWeir(numbers)
		}
	case len(c.unit.batches) == 0:
		err = r.parseBench(out.Bytes())
	default: // llama.cpp writes its table to standard output, ik_llama.cpp to standard error
		err = r.parseBatched(out.String() + all.String())
	}
	if err == nil && len(r.Rows) != c.unit.rows() {
		err = fmt.Errorf("%d rows, not %d", len(r.Rows), c.unit.rows())
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, tail(out.String()+all.String()))
	}
	return r, nil
}

// rows is how many rates a unit measures.
func (u unit) rows() int {
	n := len(u.prefills) + len(u.batches)
	if len(u.batches) == 0 && u.steps > 0 {
		n++
	}
	return n
}

func tail(text string) string {
	const most = 2000
	return text[max(0, len(text)-most):]
}
