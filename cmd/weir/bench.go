package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"weir/bench"
)

var errInterrupted = errors.New("interrupted")

// measure runs a measurement with a context that a signal ends. The measurement then
// prints what it has. A second signal does nothing more: the program must live until a
// server that it started has ended, which takes seconds at most.
func measure(f func(ctx context.Context) error) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return f(ctx)
}

func setupBenchStart(f *flagSet, env *environment) action {
	c := bench.DefaultStartConfig()
	f.StringVar(&c.Binary, "binary", "", "server `program` that is called as: program serve --host H --port N (default: this one)")
	f.StringVar(&c.Model, "model", "", "`name` of the model in the first request (default: the request names none)")
	f.IntVar(&c.Runs, "runs", c.Runs, "`number` of times that the server is started")
	f.DurationVar(&c.Idle, "idle", c.Idle, "how long the last server is watched while it does nothing; 0 does not watch it")
	file := f.String("json", "", "`file` for the raw numbers")
	return func(args []string) (err error) {
		c.Args = args
		if c.Binary == "" {
			c.Binary = "self"
		}
		if c.Binary, err = programPath(c.Binary); err != nil {
			return err
		}
		if err := c.Validate(); err != nil {
			return usageError{err}
		}
		return measure(func(ctx context.Context) error {
			r, failure := bench.RunStart(ctx, c)
			if ctx.Err() != nil {
				failure = errInterrupted
			}
			if len(r.Health) == 0 {
				return failure
			}
			return errors.Join(failure, r.WriteText(env.out), r.WriteBenchmark(env.out), writeFile(*file, r.WriteJSON))
		})
	}
}

func setupBenchStore(f *flagSet, env *environment) action {
	c := bench.DefaultStoreConfig()
	f.StringArrayVar(&c.Servers, "binary", []string{"self"}, "server `program` that is called as: program serve --host H --port N, with its further arguments after a space; self is this program. Repeat it for several, which take turns")
	f.IntSliceVar(&c.Clients, "clients", c.Clients, "`numbers` of clients that write feedback at the same time, each measured by itself")
	f.DurationVar(&c.Time, "time", c.Time, "how long the clients write in each measurement; 0 skips writing")
	f.IntVar(&c.Rounds, "rounds", c.Rounds, "`number` of times that each of these measurements is made")
	f.IntVar(&c.Callers, "call-clients", c.Callers, "`number` of clients that write calls in batches of 100 at the same time; 0 skips this")
	f.IntVar(&c.Calls, "calls", c.Calls, "number of `calls` that queries search; 0 skips these queries")
	f.IntVar(&c.Rows, "rows", c.Rows, "number of `records` of feedback that queries search; 0 skips queries")
	f.IntVar(&c.Queries, "queries", c.Queries, "`number` of times that each query is asked")
	f.Int64Var(&c.Ingest, "ingest", c.Ingest, "`bytes` of trajectories that are logged in one request; 0 skips logging")
	file := f.String("json", "", "`file` for the raw numbers")
	return func(args []string) error {
		if err := noArguments("bench store", args); err != nil {
			return err
		}
		if c.Time == 0 {
			c.Clients, c.Callers, c.Time = nil, 0, 1
		}
		for i, s := range c.Servers {
			name, more, _ := strings.Cut(s, " ")
			path, err := programPath(name)
			if err != nil {
				return err
			}
			c.Servers[i] = strings.TrimSpace(path + " " + more)
		}
		if err := c.Validate(); err != nil {
			return usageError{err}
		}
		return measure(func(ctx context.Context) error {
			r, failure := bench.RunStore(ctx, c)
			if ctx.Err() != nil {
				failure = errInterrupted
			}
			return errors.Join(failure, r.WriteText(env.out), r.WriteBenchmark(env.out), writeFile(*file, r.WriteJSON))
		})
	}
}

// programPath is the program itself, or the path of this one for "self".
func programPath(program string) (string, error) {
	if program == "self" {
		return os.Executable()
	}
	return program, nil
}

// writeFile writes the results to a file, if its path is not empty.
func writeFile(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	var b strings.Builder
	if err := write(&b); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}
