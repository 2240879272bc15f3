// Command chaos attacks a server of weir and measures what well-behaved clients notice.
//
// It starts weir serve, lets a few clients stream answers all the time, and lets one kind of
// attacker after the other loose beside them: requests for huge answers, bodies that come a
// byte at a time, clients that leave, clients that never read, grammars that are hard to
// compile, and so on (attacks.go). For each attacker it reports
//
//   - the gaps between the events of the well-behaved streams: the 99.9th percentile and the
//     longest, and the same of a quiet phase just before,
//   - the longest time that a well-behaved client waited for its first token,
//   - whether a stream broke, or had other tokens than in the quiet phase,
//   - with which statuses the attacker was answered,
//   - the most memory that the server held,
//   - whether it holds as much as before the attacks when all clients have left: memory of
//     requests, KV blocks, goroutines, files, series of metrics; and how much it has logged.
//
// Every figure is the median of several runs, and each run has a server of its own. The
// attackers run in a process of their own, with a low priority, because client and server
// share the machine. The server runs in a control group with a bound on its memory where one
// can be made (Linux, as root); otherwise its highest resident memory is compared with what
// --memory-limit allows.
//
//	go run ./tools/chaos --weir ./weir
//	go run ./tools/chaos --weir ./weir --only drip,unread --runs 1
//	go run ./tools/chaos --weir ./weir --only hostile --plain 16 --structured 16 --attack 60s
//
// The exit status is 1 if a stream broke, a token changed, a status was one that the attack
// must not get, or the server died. Times are reported and never judged.
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
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(log.Ltime)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// options are the flags.
type options struct {
	weir   string
	serve  string // further arguments of weir serve, separated by spaces
	only   string
	runs   int
	quiet  time.Duration
	attack time.Duration
	memory int64 // MiB, of the control group
	list   bool

	plain, structured int // well-behaved clients

	attacker string // of the process that attacks: the name of the attack
	server   string // of the process that attacks: the address of the server
}

func run(ctx context.Context, args []string, out io.Writer) error {
	o := options{}
	fs := flag.NewFlagSet("chaos", flag.ContinueOnError)
	fs.StringVar(&o.weir, "weir", "./weir", "weir's binary")
	fs.StringVar(&o.serve, "serve", "--device sim --sim-profile h100-llama-8b", "what the server is started with; \"\" serves the bundled model on the processor")
	fs.StringVar(&o.only, "only", "", "names of attacks, separated by commas (default: all)")
	fs.IntVar(&o.runs, "runs", 5, "runs, of which the median is reported")
	fs.DurationVar(&o.quiet, "quiet", 3*time.Second, "length of the quiet phase before each attack")
	fs.DurationVar(&o.attack, "attack", 5*time.Second, "length of an attack")
	fs.Int64Var(&o.memory, "memory", 2048, "bound on the server's memory in MiB")
	fs.IntVar(&o.plain, "plain", 4, "well-behaved clients that stream plain text")
	fs.IntVar(&o.structured, "structured", 2, "well-behaved clients that stream under a constraint")
	fs.BoolVar(&o.list, "list", false, "list the attacks")
	fs.StringVar(&o.attacker, "attacker", "", "(used by the program itself) attack --server until standard input ends")
	fs.StringVar(&o.server, "server", "", "(used by the program itself) address of the server to attack")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("chaos takes no arguments: %q", fs.Args())
	}
	if o.attacker != "" {
		return attackUntilEnd(ctx, o.attacker, o.server, out)
	}
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	if o.list {
		for _, a := range chosen {
			_, _ = fmt.Fprintf(out, "%-12s %s\n", a.name, a.what)
		}
		return nil
	}
	if o.runs < 1 || o.quiet <= 0 || o.attack <= 0 || o.memory < 256 || o.plain < 0 || o.structured < 0 || o.plain+o.structured == 0 {
		return errors.New("--runs must be at least 1, --quiet and --attack more than 0, --memory at least 256, --plain and --structured together at least 1")
	}
	results, err := measure(ctx, &o, chosen)
	if err != nil {
		return err
	}
	return report(out, &o, results)
}

// choose returns the attacks with these names, separated by commas; "" is all.
func choose(only string) ([]attack, error) {
	if only == "" {
		return attacks, nil
	}
	var chosen []attack
	for name := range strings.SplitSeq(only, ",") {
		a, ok := find(name)
		if !ok {
			return nil, fmt.Errorf("there is no attack %q; --list lists them", name)
		}
		chosen = append(chosen, a)
	}
	return chosen, nil
}

func find(name string) (attack, bool) {
	for _, a := range attacks {
		if a.name == name {
			return a, true
		}
	}
	return attack{}, false
}

// measure runs every attack in every run.
func measure(ctx context.Context, o *options, chosen []attack) (map[string][]result, error) {
	results := make(map[string][]result)
	for i := range o.runs {
		log.Printf("run %d of %d", i+1, o.runs)
		if err := measureRun(ctx, o, chosen, results); err != nil {
			return nil, err
		}
	}
	return results, nil
}

// measureRun starts a server and attacks it in turn.
func measureRun(ctx context.Context, o *options, chosen []attack, results map[string][]result) error {
	s, err := startServer(ctx, o)
	if err != nil {
		return err
	}
	defer s.stop()
	if err := fill(ctx, s.address); err != nil {
		return err
	}
	before, err := s.resting(ctx)
	if err != nil {
		return err
	}
	good := startNeighbours(ctx, s.address, o.plain, o.structured)
	defer good.stop()
	for _, a := range chosen {
		r, err := measureAttack(ctx, o, s, good, a)
		if err != nil {
			return fmt.Errorf("%s: %w\n%s", a.name, err, s.tail())
		}
		log.Printf("%-12s longest gap %v (quiet %v), first token %v of %d, memory %d MiB, %v", a.name, r.attack.longest.Round(time.Millisecond),
			r.quiet.longest.Round(time.Millisecond), r.attack.firstToken.Round(time.Millisecond), r.attack.answers, r.memory>>20, r.statuses)
		results[a.name] = append(results[a.name], r)
	}
	good.stop()
	if err := s.settle(ctx, before); err != nil {
		return fmt.Errorf("%w\n%s", err, s.tail())
	}
	return nil
}

// result is what one attack did in one run.
type result struct {
	quiet, attack phase
	statuses      statuses
	memory        int64 // highest of the server during the attack, in bytes
	allowed       int64 // what it may hold, in bytes
}

// measureAttack measures a quiet phase, the attack, and waits until the attackers are gone.
func measureAttack(ctx context.Context, o *options, s *server, good *neighbours, a attack) (r result, err error) {
	good.phase() // forgets what came after the last attack
	if !sleep(ctx, o.quiet) {
		return r, ctx.Err()
	}
	r.quiet = good.phase()
	s.forgetPeak()
	stop, err := startAttacker(ctx, a.name, s.address)
	if err != nil {
		return r, err
	}
	if !sleep(ctx, o.attack) {
		_, _ = stop()
		return r, ctx.Err()
	}
	r.attack = good.phase()
	if r.statuses, err = stop(); err != nil {
		return r, err
	}
	if r.memory, r.allowed, err = s.memory(); err != nil {
		return r, err
	}
	if broken := good.broken(); broken != nil {
		return r, fmt.Errorf("a well-behaved stream broke: %w", broken)
	}
	if err := r.statuses.check(a); err != nil || o.attack < longAttack {
		return r, err
	}
	return r, r.statuses.checkEdge(a)
}

// longAttack is the length of an attack from which on some of its requests have been answered.
const longAttack = 3 * time.Second

// sleep reports whether ctx is still alive after the time.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

var listening = regexp.MustCompile(`msg=listening url=http://(\S+)`)
