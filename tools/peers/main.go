// Command peers compares weir with llama.cpp and ik_llama.cpp on this machine: the same
// shapes of models, types of weights and numbers of threads. The engines take turns, and each
// run is a process of its own that takes seconds. Every result is appended to a file, so a
// comparison that was stopped continues where it was, and the table is made from that file.
//
//	go run ./tools/peers --weir ./weir --llama DIR --ik DIR --models DIR
//
// The folders of --llama and --ik hold llama-bench and llama-batched-bench, built for this
// machine. --models holds SHAPE-bf16.gguf, SHAPE-q8_0.gguf and so on, which models.py and
// llama-quantize write. An engine whose folder is not given is left out.
//
// make bench-families is this for experts and hybrids. Streams must not choose the same experts, so
// they need tokens of their own. ik_llama.cpp's llama-batched-bench gives all of them token 0: in
// examples/batched-bench/batched-bench.cpp, std::rand() % llama_n_vocab(model) must take its place
// in the calls of common_batch_add, as llama.cpp has it.
//
// A tier of instructions that the machine could go beyond is measured with builds of the others
// that leave the rest out, with --godebug cpu.avx512f=off for weir, and with a file of results
// of its own.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// quick matches the cells of --quick: the most important ones, which take less than 15
// minutes on two processors.
const quick = `^llama-3\.2-1b/q[48]/.*/(single|streams)$`

// options are the flags.
type options struct {
	programs programs

	shapes, types, threads, only string
	prefills, streams            string
	quick                        bool
	rounds, longRounds           int
	file                         string
	list, table                  bool
	limit                        time.Duration
}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	p := &o.programs
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	fs.StringVar(&p.weir, "weir", "./weir", "weir's binary")
	fs.StringVar(&p.llama, "llama", "", "folder with llama-bench and llama-batched-bench of llama.cpp")
	fs.StringVar(&p.ik, "ik", "", "folder with those of ik_llama.cpp")
	fs.StringVar(&p.models, "models", "models", "folder with the GGUF files")
	fs.StringVar(&p.llamaVersion, "llama-version", "", "name of this build of llama.cpp in the table (default: what it reports itself)")
	fs.StringVar(&p.ikVersion, "ik-version", "", "the same for ik_llama.cpp")
	prefix := fs.String("prefix", "", "program, with arguments, through which every run is started, such as taskset or a lock")
	fs.StringVar(&o.shapes, "shapes", "llama-3.2-1b,qwen3-0.6b", "shapes of models, each with a type of its own if it is SHAPE:TYPE")
	fs.StringVar(&p.godebug, "godebug", "", "GODEBUG for weir, such as cpu.avx512f=off")
	fs.StringVar(&o.types, "types", "q8,q4,bf16", "types of weights: q8, q4, bf16, which weir rounds itself, and q4_k_m, q5_k_m, q6_k, iq4_xs, q8_0, q4_0, mxfp4, for which all engines read the same file")
	fs.StringVar(&o.threads, "threads", "1,2", "numbers of threads")
	fs.IntVar(&o.rounds, "rounds", 5, "how many times each engine measures a cell")
	fs.IntVar(&o.longRounds, "long-rounds", 2, "the same for cells that take minutes: prompts and contexts of 4,096 tokens")
	fs.StringVar(&o.only, "only", "", "regular expression: measure and print only the cells SHAPE/TYPE/THREADS/UNIT that match")
	fs.StringVar(&o.prefills, "prefill", "128,512", "lengths of the prompts of single cells")
	fs.StringVar(&o.streams, "streams", "8,32,64", "numbers of streams of streams cells; results of other lists belong in another file")
	fs.BoolVar(&o.quick, "quick", false, "measure the most important cells, with the largest number of threads: --only "+quick)
	fs.StringVar(&o.file, "results", "peers.jsonl", "file to which results are appended; what is in it is not measured again")
	fs.BoolVar(&o.list, "list", false, "list the cells and about how long they take; measure nothing")
	fs.BoolVar(&o.table, "table", false, "print the table of what is in --results; measure nothing")
	fs.DurationVar(&o.limit, "timeout", 15*time.Minute, "longest time of one run")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("peers takes no arguments: %q", fs.Args())
	}
	p.prefix = strings.Fields(*prefix)
	return o, nil
}

// cells returns the cells that the flags ask for.
func (o *options) cells() ([]cell, error) {
	threads, err := integers(o.threads)
	if err != nil {
		return nil, fmt.Errorf("--threads: %w", err)
	}
	only := o.only
	if o.quick {
		if only != "" {
			return nil, errors.New("--quick is an --only")
		}
		only, threads = quick, threads[len(threads)-1:]
	}
	match, err := regexp.Compile(only)
	if err != nil {
		return nil, fmt.Errorf("--only: %w", err)
	}
	all, err := allCells(strings.Split(o.shapes, ","), strings.Split(o.types, ","), threads)
	if err != nil {
		return nil, err
	}
	prefills, err := integers(o.prefills)
	if err != nil {
		return nil, fmt.Errorf("--prefill: %w", err)
	}
	streams, err := integers(o.streams)
	if err != nil {
		return nil, fmt.Errorf("--streams: %w", err)
	}
	var wanted []cell
	for _, c := range all {
		switch c.unit.name {
		case "single":
			c.unit.prefills = prefills
		case "streams":
			c.unit.batches = streams
		}
		if match.MatchString(c.name()) {
			wanted = append(wanted, c)
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("no cell matches %q", only)
	}
	return wanted, nil
}

// roundsOf is how many times each engine measures a cell.
func (o *options) roundsOf(c cell) int {
	if c.unit.long {
		return o.longRounds
	}
	return o.rounds
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	cells, err := o.cells()
	if err != nil {
		return err
	}
	done, err := readResults(o.file)
	if err != nil {
		return err
	}
	switch {
	case o.list:
		return listCells(out, cells, o.programs.engines(), o.roundsOf, done)
	case o.table:
		return writeTable(out, machine(), cells, done)
	}
	for _, c := range cells {
		for round := range o.roundsOf(c) {
			if err := o.measureRound(ctx, c, round, done); err != nil {
				return err
			}
		}
	}
	return writeTable(out, machine(), cells, done)
}

// measureRound lets every engine measure a cell, unless it has already done so.
func (o *options) measureRound(ctx context.Context, c cell, round int, done *results) error {
	for _, engine := range rotate(o.programs.engines(), round) {
		if done.has(c.name(), engine, round) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		log.Printf("%s, round %d, %s", c.name(), round+1, engine)
		r, err := o.programs.measure(ctx, c, engine, o.limit)
		if err != nil {
			return fmt.Errorf("%s, %s: %w", c.name(), engine, err)
		}
		r.Cell, r.Engine, r.Round = c.name(), engine, round
		if name := o.programs.versionOf(engine); name != "" {
			r.Version = name
		}
		if engine == weir && o.programs.godebug != "" {
			r.Version += " with GODEBUG=" + o.programs.godebug
		}
		if err := done.add(o.file, r); err != nil {
			return err
		}
	}
	return nil
}

// rotate changes the order of the engines from round to round, so that no engine always
// runs after the same other one.
func rotate(engines []string, round int) []string {
	k := round % len(engines)
	return append(append([]string{}, engines[k:]...), engines[:k]...)
}

func integers(list string) (numbers []int, err error) {
	for field := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(field)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a number of 1 or more", field)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}
