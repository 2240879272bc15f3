package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"weir/backend"
	"weir/backend/sim"
	"weir/bench/hostside"
	"weir/models"
	"weir/tokenizer"
)

const benchSimAbout = "Measures what a server does besides computing, over the simulated device: streamed events, small chats, steps of the engine, refusals, and the memory of idle streams. " +
	"Each figure has a reference beside it, which is measured in the same run with the same client: a loop over sockets, a bare handler of fasthttp, or the simulated device itself."

// referenceCommand is what weir bench sim calls for the references that answer over sockets.
const referenceCommand = "__bench-references"

// benchSimOptions are the flags of weir bench sim.
type benchSimOptions struct {
	hostside.Config
	file string
}

func setupBenchSim(f *flagSet, env *environment) action {
	o := &benchSimOptions{Config: hostside.DefaultConfig()}
	f.IntVar(&o.Streams, "streams", o.Streams, "`number` of streams or connections at a time")
	f.IntVar(&o.Tokens, "tokens", o.Tokens, "`tokens` of each streamed answer")
	f.DurationVar(&o.Time, "time", o.Time, "how long each measurement sends requests")
	f.IntVar(&o.Rounds, "rounds", o.Rounds, "`number` of turns of the server and of its reference; the medians are reported")
	f.IntVar(&o.Idle, "idle-streams", o.Idle, "`number` of streams whose memory is measured; 0 leaves this out")
	f.IntVar(&o.Refused, "refusals", o.Refused, "`number` of requests that a full server refuses")
	f.StringSliceVar(&o.Only, "only", nil, "measure only these `figures`: "+strings.Join(hostside.Figures, ", "))
	f.Var(&numbers{list: &o.Steps}, "sequences", "`numbers` of sequences whose steps are measured")
	f.StringVar(&o.file, "json", "", "`file` for the numbers")
	return func(args []string) error {
		if n := f.ArgsLenAtDash(); n >= 0 {
			args, o.Flags = args[:n], args[n:]
		}
		if len(args) > 0 {
			return usageError{fmt.Errorf("bench sim takes no arguments: %q", args)}
		}
		if err := o.Validate(); err != nil {
			return usageError{err}
		}
		return measure(func(ctx context.Context) error { return o.run(ctx, env) })
	}
}

func (o *benchSimOptions) run(ctx context.Context, env *environment) error {
	note := progressLine(env.errOut)
	o.Progress = func(what string) { note("%s", what) }
	src, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		return err
	}
	if o.Tokenizer, err = tokenizer.Load(src); err != nil {
		return err
	}
	o.Backend = func(spec backend.Spec) (backend.Backend, error) { return sim.NewPaced(spec, sim.Instant()) }
	o.Server, o.Reference = simServer, simReference
	r, failure := hostside.Run(ctx, o.Config)
	note("")
	if ctx.Err() != nil {
		failure = errInterrupted
	}
	if r == nil || len(r.Rows) == 0 {
		return failure
	}
	r.Machine = fmt.Sprintf("weir %s, %s, %d processors, %s", version, processorName(), runtime.GOMAXPROCS(0), runtime.Version())
	return errors.Join(failure, r.WriteText(env.out), r.WriteBenchmark(env.out), writeFile(o.file, r.WriteJSON))
}

// simServer starts this program as a server over the simulated device.
func simServer(ctx context.Context, flags ...string) (hostside.Process, error) {
	child, err := launch(ctx, "self", append([]string{"--device", "sim", "--log-level", "error"}, flags...))
	if err != nil {
		return hostside.Process{}, err
	}
	return hostside.Process{Address: strings.TrimPrefix(child.URL, "http://"), PID: child.PID(), Stop: func() error { return child.Stop(ctx) }}, nil
}

// simReference starts this program as the references.
func simReference(ctx context.Context) (in io.WriteCloser, out io.Reader, p hostside.Process, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, nil, p, err
	}
	cmd := exec.CommandContext(ctx, self, referenceCommand)
	if in, err = cmd.StdinPipe(); err != nil {
		return nil, nil, p, err
	}
	if out, err = cmd.StdoutPipe(); err != nil {
		return nil, nil, p, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, nil, p, err
	}
	return in, out, hostside.Process{PID: cmd.Process.Pid, Stop: cmd.Wait}, nil
}
