// Command maskbench measures the masks of package grammar beside those of llguidance, with the
// schemas and instances of MaskBench (the folder maskbench of
// github.com/guidance-ai/jsonschemabench): which schemas each engine takes and whether it
// judges their instances rightly, and what compiling, masks and tokens cost.
//
//	make maskbench DATA=.../maskbench/data TOKENIZER=.../tokenizer.json
//
// makes an environment for Python with llguidance (requirements.txt), lets prepare.py write
// the cases, and starts this program on one processor:
//
//	maskbench -cases cases.jsonl -tokenizer tokenizer.json -python venv/bin/python
//
// The engines take turns: each measures a few dozen schemas, in an order that changes, and then
// waits while the others measure the same ones. llguidance runs in a process of its own
// (worker.py), through its Python package as MaskBench calls it.
//
// With -coverage nothing is timed and no masks are filled, which takes seconds instead of
// minutes. With -growth the constraints of internal/growth take the place of MaskBench's.
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
	"path/filepath"
	"runtime"
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

// options are the flags.
type options struct {
	cases, tokenizer, python string
	engines, match           string
	files, turn              int
	coverage, growth         bool
	out, lines               string
	limit                    time.Duration
}

func parseFlags(args []string) (*options, error) {
	o := &options{}
	fs := flag.NewFlagSet("maskbench", flag.ContinueOnError)
	fs.StringVar(&o.cases, "cases", "", "file that prepare.py wrote")
	fs.StringVar(&o.tokenizer, "tokenizer", "", "tokenizer.json of the vocabulary")
	fs.StringVar(&o.python, "python", "", "Python with the packages of requirements.txt; without it llguidance is left out")
	fs.StringVar(&o.engines, "engines", "", "engines, with ; between them, of: "+strings.Join(engineNames, "; ")+" (default: all that there are)")
	fs.StringVar(&o.match, "match", "", "only schemas whose id has this in it")
	fs.IntVar(&o.files, "files", 0, "a sample of about so many schemas, evenly spread (default: all)")
	fs.IntVar(&o.turn, "turn", 25, "schemas that an engine measures before the next one has its turn")
	fs.BoolVar(&o.coverage, "coverage", false, "only judge instances; fill no masks and measure no times")
	fs.BoolVar(&o.growth, "growth", false, "measure the constraints of internal/growth, instead of -cases")
	fs.StringVar(&o.out, "out", "", "file for the table, which is printed as well")
	fs.StringVar(&o.lines, "lines", "", "file for what became of each schema in each engine, as lines of JSON")
	fs.DurationVar(&o.limit, "timeout", 2*time.Minute, "longest time that llguidance may take for one schema; then its process is started again")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() > 0:
		return nil, fmt.Errorf("maskbench takes no arguments: %q", fs.Args())
	case o.tokenizer == "" || o.cases == "" && !o.growth:
		return nil, errors.New("-tokenizer and one of -cases and -growth are needed")
	case o.turn < 1 || o.files < 0:
		return nil, errors.New("-turn must be at least 1, and -files must not be negative")
	}
	return o, nil
}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	o, err := parseFlags(args)
	if err != nil {
		return err
	}
	runtime.GOMAXPROCS(1)
	engines, about, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer func() {
		for _, e := range engines {
			err = errors.Join(err, e.close())
		}
	}()
	if o.out != "" {
		f, err := os.Create(o.out)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = io.MultiWriter(out, f)
	}
	if o.growth {
		return growthTable(ctx, out, engines, about)
	}
	cases, err := readCases(o.cases, o.match, o.files)
	if err != nil {
		return err
	}
	s := newSummary(engines)
	if err := o.measure(ctx, cases, engines, s); err != nil {
		return err
	}
	return s.write(out, o, about)
}

// measure lets the engines take turns until all have measured all cases.
func (o *options) measure(ctx context.Context, cases []testCase, engines []engine, s *summary) error {
	lines, err := newLineFile(o.lines)
	if err != nil {
		return err
	}
	for turn := 0; len(cases) > 0; turn++ {
		some := cases[:min(o.turn, len(cases))]
		cases = cases[len(some):]
		results := make([][]*result, len(engines)) // by engine, then by case
		for k := range engines {
			at := (turn + k) % len(engines)
			for i := range some {
				if err := ctx.Err(); err != nil {
					return errors.Join(err, lines.close())
				}
				r, err := engines[at].measure(&some[i])
				if err != nil {
					return errors.Join(fmt.Errorf("%s, %s: %w", engines[at].name(), some[i].id, err), lines.close())
				}
				results[at] = append(results[at], r)
			}
		}
		for i := range some {
			verdicts := judgeAll(&some[i], engines, results, i)
			for at, e := range engines {
				s.add(at, verdicts[at], results[at][i])
				lines.add(line{some[i].id, e.name(), verdicts[at], results[at][i]})
			}
		}
		if turn%40 == 39 {
			log.Printf("%d schemas are left", len(cases))
		}
	}
	return lines.close()
}

// start starts the engines that the flags ask for, and says what they are.
func (o *options) start(ctx context.Context) (engines []engine, about string, err error) {
	wanted := engineNames
	switch {
	case o.engines != "":
		wanted = strings.Split(o.engines, ";")
	case o.growth && o.python != "":
		wanted = []string{plainName, peerName}
	case o.growth:
		wanted = []string{plainName}
	case o.python == "":
		wanted = []string{plainName, servedName}
	}
	peer := ""
	for _, name := range wanted {
		var e engine
		switch name {
		case plainName, servedName:
			// Each has a vocabulary of its own, so that neither finds what the other has built.
			e, err = newWeir(name, o.tokenizer, o.coverage)
		case peerName:
			var p *worker
			if p, err = startWorker(ctx, o.python, o.tokenizer, o.coverage, o.limit); err == nil {
				peer = fmt.Sprintf(" %s %s, whose methods take %.2f µs to call from Python at least (the time of one that does nothing).", peerName, p.version, float64(p.callTime)/1000)
				e = p
			}
		default:
			err = fmt.Errorf("there is no engine %q", name)
		}
		if err != nil {
			for _, e := range engines {
				err = errors.Join(err, e.close())
			}
			return nil, "", err
		}
		engines = append(engines, e)
	}
	pinned := "on one processor"
	if n := runtime.NumCPU(); n != 1 {
		pinned = fmt.Sprintf("not pinned to one of the %d processors", n)
	}
	tok := filepath.Base(filepath.Dir(o.tokenizer)) + "/" + filepath.Base(o.tokenizer)
	return engines, fmt.Sprintf("%s; %s, %s; %s.%s", time.Now().UTC().Format("2006-01-02 15:04 UTC"), machine(), pinned, tok, peer), nil
}
