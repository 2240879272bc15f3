package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"weir/bench"
)

const benchSweepAbout = "Puts one load after the other on a server with the OpenAI interface, or on several in turn (--versus), and measures latency and throughput at each. " +
	"With --find-rate it looks for the highest rate at which enough requests meet the conditions of --goodput. " +
	"Never more than one server has a load, all of them get the same schedule, and every cell has a seed of its own, so that no prefix cache answers. Flags after -- are passed to the server that --binary starts."

// benchSweepOptions are the flags of weir bench sweep.
type benchSweepOptions struct {
	benchLoad
	sweep       bench.SweepConfig
	versus      []string
	versusKey   string
	versusModel string
	file        string
	csv, html   string
}

func (o *benchSweepOptions) bind(f *flagSet) {
	o.sweep = bench.DefaultSweepConfig()
	o.bindServer(f)
	f.StringVar(&o.sweep.Name, "name", o.sweep.Name, "`name` of the server in the results")
	f.StringArrayVar(&o.versus, "versus", nil, "another server that takes turns with the first: `URL` or name=URL; repeat it for several")
	f.StringVar(&o.versusModel, "versus-model", "", "`name` of the model of these servers (default: the first of each)")
	f.StringVar(&o.versusKey, "versus-api-key", "", "`key` for these servers")

	f.group("Sweep")
	f.Float64SliceVar(&o.sweep.Rates, "rates", nil, "`requests` per second, each of which is a cell")
	f.IntSliceVar(&o.sweep.Concurrencies, "concurrencies", nil, "numbers of `requests` in flight, each of which is a cell")
	f.IntVar(&o.sweep.Rounds, "rounds", o.sweep.Rounds, "`number` of turns of each server at each cell")
	f.DurationVar(&o.sweep.Time, "cell-time", o.sweep.Time, "how long a cell with a rate sends requests, unless --num-prompts says how many")
	f.IntVar(&o.sweep.PerStream, "prompts-per-stream", o.sweep.PerStream, "`requests` for each stream of a cell with a concurrency, unless --num-prompts says how many in all")
	f.BoolVar(&o.sweep.Search, "find-rate", false, "look for the highest rate at which enough requests meet --goodput")
	f.Float64Var(&o.sweep.Share, "slo-share", o.sweep.Share, "`share` of the requests that must meet it")
	f.Float64Var(&o.sweep.Start, "search-start", o.sweep.Start, "`requests` per second that are tried first")
	f.Float64Var(&o.sweep.Tolerance, "search-tolerance", o.sweep.Tolerance, "how close the highest rate that meets it and the lowest that does not must come, as a `share`")

	o.bindLoad(f)
	o.data.bind(f)
	o.bindRequests(f)
	o.bindReport(f)
	f.StringVar(&o.file, "json", "", "`file` for the results of all cells")
	f.StringVar(&o.csv, "save-csv", "", "`file` for a table with a row for each cell")
	f.StringVar(&o.html, "save-html", "", "`file` for a report with the curves, which needs nothing else to be read")
}

func setupBenchSweep(f *flagSet, env *environment) action {
	o := &benchSweepOptions{}
	o.bind(f)
	return loadAction(f, env, &o.benchLoad, o.settle, o.run)
}

func (o *benchSweepOptions) settle(f *flagSet, args []string, getenv func(string) string) error {
	if err := o.benchLoad.settle(f, args, getenv); err != nil {
		return err
	}
	for _, name := range []string{"request-rate", "max-concurrency"} {
		if f.Changed(name) && (name == "request-rate" || len(o.sweep.Concurrencies) > 0) {
			return fmt.Errorf("--%s: a sweep has --rates and --concurrencies", name)
		}
	}
	if o.SelfTimed = false; !f.Changed("num-prompts") {
		o.NumPrompts = 0
	}
	o.sweep.ServeConfig = o.ServeConfig
	for i, s := range o.versus {
		name, url, named := strings.Cut(s, "=")
		if !named || strings.Contains(name, "://") {
			name, url = fmt.Sprintf("versus-%d", i+1), s
		}
		rival := bench.Rival{Name: name, Target: o.Target}
		rival.BaseURL, rival.Model, rival.APIKey = url, o.versusModel, o.versusKey
		o.sweep.Versus = append(o.sweep.Versus, rival)
	}
	return o.sweep.Validate()
}

// run measures, on a server that it starts if it was asked to.
func (o *benchSweepOptions) run(ctx context.Context, env *environment) (failure error) {
	stop, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, stop()) }()
	bar := newBenchProgress(env.errOut, o.quiet)
	o.sweep.BaseURL, o.sweep.Progress = o.BaseURL, bar.show
	w, err := bench.RunSweep(ctx, o.sweep, bar.begin)
	bar.end()
	switch {
	case w == nil:
		return err
	case w.Interrupted:
		err = errInterrupted
	}
	if w.Empty() {
		return err
	}
	return errors.Join(err, w.WriteText(env.out), w.WriteBenchmark(env.out), writeFile(o.file, w.WriteJSON), writeFile(o.csv, w.WriteCSV), writeFile(o.html, w.WriteHTML))
}
