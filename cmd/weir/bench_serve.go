package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"weir/bench"
)

// benchServeOptions are the flags of weir bench serve.
type benchServeOptions struct {
	benchLoad
	runs      int
	label     string
	save      bool
	detailed  bool
	dir, file string
	csv, html string
}

func (o *benchServeOptions) bind(f *flagSet) {
	o.bindServer(f)
	o.bindLoad(f)
	f.IntVar(&o.runs, "num-runs", 1, "`number` of runs, one after the other, each with a seed of its own; their mean and variation are reported")
	o.data.bind(f)
	o.bindRequests(f)
	o.bindReport(f)
	f.StringVar(&o.label, "label", "", "`name` of the results (default: that of --backend)")
	f.BoolVar(&o.save, "save-result", false, "save the results in JSON, in a file that is named after the run, or --result-filename")
	f.BoolVar(&o.detailed, "save-detailed", false, "add what is known of each request to that file")
	f.StringVar(&o.dir, "result-dir", "", "`folder` for the file of --save-result")
	f.StringVar(&o.file, "result-filename", "", "`file` for the results in JSON; it saves them without --save-result, too")
	f.StringVar(&o.csv, "save-csv", "", "`file` for a table with a row for each request")
	f.StringVar(&o.html, "save-html", "", "`file` for a report with plots, which needs nothing else to be read")
}

func setupBenchServe(f *flagSet, env *environment) action {
	o := &benchServeOptions{}
	o.bind(f)
	return loadAction(f, env, &o.benchLoad, o.settle, o.run)
}

// loadAction is the action of a command that loads a server: what stands after -- goes to servers that it starts.
func loadAction(f *flagSet, env *environment, l *benchLoad, settle func(*flagSet, []string, func(string) string) error, run func(context.Context, *environment) error) action {
	return func(args []string) error {
		if n := f.ArgsLenAtDash(); n >= 0 {
			args, l.serverArgs = args[:n], args[n:]
		}
		if err := settle(f, args, env.getenv); err != nil {
			return usageError{err}
		}
		return measure(func(ctx context.Context) error { return run(ctx, env) })
	}
}

func (o *benchServeOptions) settle(f *flagSet, args []string, getenv func(string) string) error {
	if err := o.benchLoad.settle(f, args, getenv); err != nil {
		return err
	}
	if o.runs < 1 {
		return fmt.Errorf("--num-runs: %d runs", o.runs)
	}
	o.KeepText = o.detailed
	return nil
}

// run measures, on a server that it starts if it was asked to.
func (o *benchServeOptions) run(ctx context.Context, env *environment) (failure error) {
	stop, err := o.start(ctx)
	if err != nil {
		return err
	}
	defer func() { failure = errors.Join(failure, stop()) }()
	bar := newBenchProgress(env.errOut, o.quiet)
	o.Progress, o.Label, o.Metadata = bar.show, o.label, o.metadataPairs
	s, err := bench.RunSeries(ctx, o.ServeConfig, o.runs, func(i int) {
		if o.runs > 1 {
			bar.begin(fmt.Sprintf("run %d of %d", i+1, o.runs))
		}
	})
	bar.end()
	switch {
	case err != nil && ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return err
	case ctx.Err() != nil:
		err = errInterrupted
	case s.Completed() == 0:
		err = errors.New("every request failed")
	}
	return errors.Join(err, s.WriteText(env.out), s.WriteBenchmark(env.out), o.write(s))
}

// write writes the files that were asked for.
func (o *benchServeOptions) write(s *bench.Series) error {
	result := ""
	if o.save || o.file != "" {
		result = o.fileName(s)
		if err := os.MkdirAll(filepath.Dir(result), 0o755); err != nil {
			return err
		}
	}
	return errors.Join(
		writeFile(result, func(w io.Writer) error { return s.WriteJSON(w, o.detailed) }),
		writeFile(o.csv, s.WriteCSV),
		writeFile(o.html, s.WriteHTML))
}

// fileName is where the results go: by default a name as vLLM makes it.
func (o *benchServeOptions) fileName(s *bench.Series) string {
	name := o.file
	if name == "" {
		label, load, limit := o.label, rateName(o.Rate)+"qps", ""
		if label == "" {
			label = o.backend
		}
		if r := o.Ramp; r.Strategy != "" {
			load = fmt.Sprintf("ramp-up-%s-%sqps-%sqps", r.Strategy, rateName(r.Start), rateName(r.End))
		}
		if o.MaxConcurrency > 0 {
			limit = fmt.Sprintf("-concurrency%d", o.MaxConcurrency)
		}
		first := s.Reports[0]
		name = fmt.Sprintf("%s-%s%s-%s-%s.json", label, load, limit, path.Base(first.Config.Model), first.Date.Format("20060102-150405"))
	}
	return filepath.Join(o.dir, name)
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
