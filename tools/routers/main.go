// Command routers puts routers that exist in front of several weir processes, sends chats with shared prefixes through them, and then kills one
// process and drains another in the middle. It fails if a chat fails that did not run on the killed process.
//
//	go run ./tools/routers --weir ./weir --only smg --workers 2
//
// The routers are Python packages, in the versions of pins.txt, which it installs into environments of their own.
package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// options are the flags.
type options struct {
	weir, python, venvs string
	chats, clients      int
	dir                 string // for data and logs
}

func main() {
	var o options
	flag.StringVar(&o.weir, "weir", "./weir", "the `binary`")
	flag.StringVar(&o.python, "python", "python3", "the `interpreter` that makes environments")
	flag.StringVar(&o.venvs, "venvs", "build/routers", "the `folder` of the environments")
	flag.IntVar(&o.chats, "chats", 2000, "chats of each run")
	flag.IntVar(&o.clients, "clients", 16, "chats that are in flight")
	only := flag.String("only", "", "`names` of routers, separated by commas (default: all)")
	sizes := flag.String("workers", "2,4", "`numbers` of processes, separated by commas")
	flag.Parse()
	if err := run(&o, *only, *sizes); err != nil {
		fmt.Fprintln(os.Stderr, "routers:", err)
		os.Exit(1)
	}
}

func run(o *options, only, sizes string) (err error) {
	if o.dir, err = os.MkdirTemp("", "weir-routers"); err != nil {
		return err
	}
	var errs []error
	for _, r := range routers {
		if only != "" && !slices.Contains(strings.Split(only, ","), r.name) {
			continue
		}
		if err := r.install(o); err != nil {
			return err
		}
		for text := range strings.SplitSeq(sizes, ",") {
			n, err := strconv.Atoi(text)
			if err != nil || n < 2 {
				return fmt.Errorf("--workers %q: it takes numbers from 2 on", sizes)
			}
			for _, policy := range r.policies {
				if err := try(o, r, policy, n); err != nil {
					errs = append(errs, fmt.Errorf("%s, %s, %d processes: %w", r.name, policy, n, err))
				}
			}
		}
	}
	if len(errs) == 0 {
		return os.RemoveAll(o.dir)
	}
	return errors.Join(append(errs, fmt.Errorf("the logs are in %s", o.dir))...)
}

// prefixesPerWorker is for how many prefixes each process has room, and how many there are for each.
const prefixesPerWorker = 6

// try runs one router with one policy in front of n processes.
func try(o *options, r *router, policy string, n int) (err error) {
	f := &fleet{o: o}
	defer func() { err = errors.Join(err, f.stop()) }()
	for range n {
		if err := f.add(); err != nil {
			return err
		}
	}
	url, err := f.front(r, policy)
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%s, %s, %d processes", r.name, policy, n)
	if n == 2 && policy == r.policies[0] {
		direct, behind, err := overhead(f.workers[0].url, url)
		if err != nil {
			return err
		}
		fmt.Printf("%s: one chat at a time takes %v at a process and %v behind the router (medians)\n", name, direct, behind)
	}
	l := &load{url: url, prefixes: prefixesPerWorker * n, clients: o.clients}
	l.run(o.chats)
	fmt.Printf("%s: %d of %d chats answered, %.1f %% of the prompts' tokens cached, %.0f chats/s, median %v, 99 %% below %v\n",
		name, l.answered, o.chats, 100*float64(l.cached)/float64(max(1, l.prompt)), float64(o.chats)/l.took.Seconds(), l.quantile(0.5), l.quantile(0.99))
	if len(l.failures) > 0 {
		return fmt.Errorf("%d chats failed, such as: %w", len(l.failures), l.failures[0].err)
	}
	if policy != r.policies[0] {
		return nil
	}
	return f.disturb(o, name, url)
}

// disturb kills a process and drains another while chats stream.
func (f *fleet) disturb(o *options, name, url string) error {
	n := len(f.workers)
	first, last := f.workers[0], f.workers[n-1]
	var killed, drained time.Time
	var stopped chan error
	l := &load{url: url, prefixes: prefixesPerWorker * n, clients: o.clients, stream: true}
	var wrong error
	l.at = map[int]func(){
		o.chats / 4: func() {
			killed = time.Now()
			wrong = cmp.Or(wrong, first.kill())
		},
		o.chats / 2: func() { wrong = cmp.Or(wrong, f.restart(first)) },
		o.chats * 3 / 4: func() {
			drained = time.Now()
			stopped = last.drain()
		},
	}
	l.run(o.chats)
	if wrong != nil {
		return wrong
	}
	if err := <-stopped; err != nil {
		return fmt.Errorf("the drained process: %w", err)
	}
	inFlight, others := 0, 0
	for _, x := range l.failures {
		if x.began.Before(killed) {
			inFlight++
			continue
		}
		others++
		wrong = cmp.Or(wrong, fmt.Errorf("a chat that began %v after the kill and %v after the drain failed: %w", x.began.Sub(killed), x.began.Sub(drained), x.err))
	}
	fmt.Printf("%s: with one process killed, started again, and another drained, %d of %d streams were whole; %d of the killed process were cut, %d others failed\n", name, l.answered, o.chats, inFlight, others)
	return wrong
}
