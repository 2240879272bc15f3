package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A cell is what is measured in one process: a model with some threads, and a
// unit of work.
type cell struct {
	shape, kind string
	threads     int
	unit        unit
}

func (c cell) name() string {
	return fmt.Sprintf("%s/%s/%dT/%s", c.shape, c.kind, c.threads, c.unit.name)
}

// A unit is prompts or streams.
type unit struct {
	name     string
	prefills []int // lengths of prompts
	steps    int   // of decode
	batches  []int // streams; none: one, from an empty context, by llama-bench
	context  int   // of streams
	int8KV   bool
	long     bool // takes minutes
	skip     []string
}

// units: llama-bench measures prompts and one stream, llama-batched-bench the
// rest, whose prompts it must compute first.
var units = []unit{
	{name: "single", prefills: []int{128, 512}, steps: 32},
	{name: "streams", batches: []int{8, 32, 64}, context: 16, steps: 8},
	{name: "prefill-4k", prefills: []int{4096}, long: true},
	{name: "streams-4k", batches: []int{8}, context: 4096, steps: 8, long: true},
	{name: "streams-4k-int8kv", batches: []int{8}, context: 4096, steps: 8, int8KV: true, long: true, skip: []string{"bf16"}},
}

// kinds are weir's flag for a type of weights and the ending of its GGUF file.
var kinds = map[string]struct{ quantization, ending string }{
	"q8": {"q8", "q8_0"}, "q4": {"q4", "q4_0"}, "bf16": {"auto", "bf16"},
}

func allCells(shapes, types []string, threads []int) (cells []cell, err error) {
	for _, shape := range shapes {
		for _, kind := range types {
			if _, ok := kinds[kind]; !ok {
				return nil, fmt.Errorf("--types: %q is none of q8, q4 and bf16", kind)
			}
			for _, n := range threads {
				for _, u := range units {
					// Minutes are spent on the largest number of threads only.
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

// programs says where they are.
type programs struct {
	weir, llama, ik, models string
	llamaVersion, ikVersion string
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

// command is what measures c, with output as parse wants it. file is for
// weir's numbers.
func (p *programs) command(c cell, engine, file string) []string {
	u, n := c.unit, strconv.Itoa(c.threads)
	steps := strconv.Itoa(u.steps)
	if engine == weir {
		args := []string{p.weir, "bench", "engine", "--shape", c.shape, "--threads", n, "--quantization", kinds[c.kind].quantization, "--json", file, "--repeat", "1",
			"--prefill", join(u.prefills), "--context", strconv.Itoa(u.context)}
		switch {
		case len(u.batches) > 0:
			args = append(args, "--batch", join(u.batches), "--steps", steps)
		case u.steps > 0:
			args = append(args, "--batch", "1", "--steps", steps)
		default:
			args = append(args, "--batch", "none")
		}
		if u.int8KV {
			args = append(args, "--kv-cache-dtype", "int8")
		}
		return args
	}
	dir := p.llama
	if engine == ik {
		dir = p.ik
	}
	args := []string{"-m", filepath.Join(p.models, c.shape+"-"+kinds[c.kind].ending+".gguf"), "-t", n, "-b", "2048", "-ub", "512"}
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
	most := u.batches[len(u.batches)-1] * (u.context + u.steps)
	args = append([]string{filepath.Join(dir, "llama-batched-bench")}, append(args, "-tb", n, "-c", strconv.Itoa(most), "-npp", strconv.Itoa(u.context), "-ntg", steps, "-npl", join(u.batches))...)
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

// measure runs one process and reads what it measured.
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
	default: // one of the two writes its table to stderr
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

// rows is how many rates a unit has.
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
