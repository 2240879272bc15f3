// Command peers compares weir with llama.cpp and ik_llama.cpp on this machine: the
// same shapes, types and threads, in alternation, each run seconds long and a
// process of its own. What is measured is appended to a file, so that a run that
// ends goes on where it was, and the table is printed from that file.
//
//	go run ./tools/peers --weir ./weir --llama DIR --ik DIR --models DIR
//
// DIR of --llama and --ik hold llama-bench and llama-batched-bench, built
// natively; --models holds SHAPE-bf16.gguf, SHAPE-q8_0.gguf and SHAPE-q4_0.gguf
// (models.py). A peer whose folder is not given is left out.
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

// quick are the cells of --quick: what matters most, in less than 15 minutes on
// two processors.
const quick = `^llama-3\.2-1b/q[48]/.*/(single|streams)$`

func run(ctx context.Context, args []string, out io.Writer) error {
	fs := flag.NewFlagSet("peers", flag.ContinueOnError)
	p := programs{}
	fs.StringVar(&p.weir, "weir", "./weir", "weir's binary")
	fs.StringVar(&p.llama, "llama", "", "folder with llama.cpp's llama-bench and llama-batched-bench")
	fs.StringVar(&p.ik, "ik", "", "folder with those of ik_llama.cpp")
	fs.StringVar(&p.models, "models", "models", "folder with the GGUF files")
	fs.StringVar(&p.llamaVersion, "llama-version", "", "what the table calls this build of llama.cpp (default: what it says itself)")
	fs.StringVar(&p.ikVersion, "ik-version", "", "the same of ik_llama.cpp")
	prefix := fs.String("prefix", "", "program, with arguments, that every run is started through, such as taskset or a lock")
	shapes := fs.String("shapes", "llama-3.2-1b,qwen3-0.6b", "shapes of models")
	types := fs.String("types", "q8,q4,bf16", "types of weights: q8, q4, bf16")
	threads := fs.String("threads", "1,2", "numbers of threads")
	rounds := fs.Int("rounds", 5, "alternations of every cell")
	long := fs.Int("long-rounds", 2, "alternations of cells that take minutes: prompts of 4,096 tokens, and contexts of it")
	only := fs.String("only", "", "measure and print only cells SHAPE/TYPE/THREADS/UNIT that this regular expression matches")
	fast := fs.Bool("quick", false, "the most important cells, with two threads or the most there are: --only "+quick)
	file := fs.String("results", "peers.jsonl", "file that results are appended to; what is in it is not measured again")
	list := fs.Bool("list", false, "list the cells and how long they take, about; measure nothing")
	table := fs.Bool("table", false, "print the table of what is in --results; measure nothing")
	limit := fs.Duration("timeout", 15*time.Minute, "longest time of one run")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("peers takes no arguments: %q", fs.Args())
	}
	p.prefix = strings.Fields(*prefix)
	counts, err := integers(*threads)
	if err != nil {
		return fmt.Errorf("--threads: %w", err)
	}
	if *fast {
		if *only != "" {
			return errors.New("--quick is an --only")
		}
		*only = quick
		counts = counts[len(counts)-1:]
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("--only: %w", err)
	}
	cells, err := allCells(strings.Split(*shapes, ","), strings.Split(*types, ","), counts)
	if err != nil {
		return err
	}
	var wanted []cell
	for _, c := range cells {
		if match.MatchString(c.name()) {
			wanted = append(wanted, c)
		}
	}
	if len(wanted) == 0 {
		return fmt.Errorf("no cell matches %q", *only)
	}
	done, err := readResults(*file)
	if err != nil {
		return err
	}
	alternations := func(c cell) int {
		if c.unit.long {
			return *long
		}
		return *rounds
	}
	switch {
	case *list:
		return listCells(out, wanted, p.engines(), alternations, done)
	case *table:
		return writeTable(out, machine(), wanted, done)
	}
	for _, c := range wanted {
		for round := range alternations(c) {
			for _, engine := range turn(p.engines(), round) {
				if done.has(c.name(), engine, round) {
					continue
				}
				if err := ctx.Err(); err != nil {
					return err
				}
				log.Printf("%s, round %d, %s", c.name(), round+1, engine)
				r, err := p.measure(ctx, c, engine, *limit)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name(), engine, err)
				}
				r.Cell, r.Engine, r.Round = c.name(), engine, round
				switch {
				case engine == llama && p.llamaVersion != "":
					r.Version = p.llamaVersion
				case engine == ik && p.ikVersion != "":
					r.Version = p.ikVersion
				}
				if err := done.add(*file, r); err != nil {
					return err
				}
			}
		}
	}
	return writeTable(out, machine(), wanted, done)
}

// turn changes the order from round to round, so that nobody always comes after
// the same neighbour.
func turn(engines []string, round int) []string {
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
