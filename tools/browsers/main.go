// Command browsers tries with a real browser which web pages may call a server of weir
// (docs/interface/operations.md, section 5).
//
// It starts weir serve in several ways and a Chromium that knows no names but a few that
// lead to this machine, so that nothing leaves it. Pages on localhost, on foreign origins,
// without an origin, and pages whose name is made to lead to the server (DNS rebinding) then
// call the server in every way that a page has: fetch in all its modes, forms, images,
// scripts, frames, links, beacons, workers, WebSockets, redirects, reports (checks.go). For
// each it compares what the page learns with what it may learn, and what the server
// answered with what it has to answer. In the end it looks whether anything was written or
// deleted. The page /docs is opened as well, which must show itself without an error in the
// console.
//
//	go run ./tools/browsers --weir ./weir
//	go run ./tools/browsers --weir ./weir --only rebound --v
//
// The exit status is 1 if anything differs.
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
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:], os.Stdout)
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		log.Fatal(err)
	}
}

// options are the flags.
type options struct {
	weir    string
	browser string
	only    string
	picture string
	verbose bool
}

// hosts are the names that lead to this machine.
var hosts = []string{"evil.example", "good.example", "lan.example", "rebound.example"}

func run(ctx context.Context, args []string, out io.Writer) (err error) {
	var o options
	fs := flag.NewFlagSet("browsers", flag.ContinueOnError)
	fs.StringVar(&o.weir, "weir", "./weir", "weir's binary")
	fs.StringVar(&o.browser, "browser", "", "a Chromium's binary (default: the first of "+strings.Join(candidates, ", ")+")")
	fs.StringVar(&o.only, "only", "", "a text that the names of the checks contain (default: all); others on the same page are made too")
	fs.StringVar(&o.picture, "picture", "", "a file for a picture of the page /docs, as PNG")
	fs.BoolVar(&o.verbose, "v", false, "show every check, and what the browser sent")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("browsers takes no arguments: %q", fs.Args())
	}
	path, err := findBrowser(o.browser)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "weir-pages-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, "page.html")
	if err := os.WriteFile(file, []byte("<!doctype html><title>a file</title><body>"), 0o600); err != nil {
		return err
	}
	from, err := startSite()
	if err != nil {
		return err
	}
	b, err := startBrowser(ctx, path, hosts)
	if err != nil {
		return err
	}
	defer b.stop()
	r := &runner{options: &o, out: out, site: from, browser: b, file: file}
	for _, s := range scenes {
		if err := r.scene(ctx, &s); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
	}
	_, _ = fmt.Fprintf(out, "%d checks in %s, %d failed\n", r.made, b.version, r.failed)
	if r.failed > 0 {
		return errors.New("something is not as it has to be")
	}
	return nil
}

// scene is a server and what is tried on it.
type scene struct {
	name    string
	host    string   // that weir listens on
	flags   []string // of weir serve
	before  string   // JavaScript before the programs
	checks  []check
	after   []check // made after the records were found as they were
	records bool    // seed records, and see whether they are as they were
	page    bool    // look at /docs
}

var scenes = []scene{
	{name: "without keys", host: "127.0.0.1", checks: withoutKeys, after: controls, records: true, page: true},
	{name: "with keys", host: "127.0.0.1", flags: []string{"--api-key", "secret"}, before: key, checks: withKeys, records: true, page: true},
	{name: "with a list of origins", host: "127.0.0.1", flags: []string{"--api-key", "secret", "--allowed-origins", "http://good.example:*,null"}, before: key, checks: withList, page: true},
	{name: "without keys, in a network", host: "0.0.0.0", checks: onNetwork},
}

// runner makes the checks.
type runner struct {
	*options
	out     io.Writer
	site    *site
	browser *browser
	file    string // a page in a file

	server       *server
	before       string // of the scene
	made, failed int
}

// scene tries everything on one server.
func (r *runner) scene(ctx context.Context, s *scene) (err error) {
	if r.server, err = startServer(ctx, r.weir, s.host, s.flags...); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.server.stop()) }()
	r.server.rebound, r.before = "rebound.example", s.before
	if s.records {
		if err := r.server.seed(); err != nil {
			return err
		}
	}
	if err := r.checks(s.checks); err != nil {
		return err
	}
	if s.records {
		r.verdict("nothing was written or deleted", r.server.untouched(), nil)
	}
	if err := r.checks(s.after); err != nil {
		return err
	}
	if s.page {
		return r.docs()
	}
	return nil
}

// checks makes those that were chosen, with the pages that they need. Those before it on the
// same page are made as well, because the browser remembers what it asked for them.
func (r *runner) checks(list []check) error {
	last := -1
	for i := range list {
		if strings.Contains(list[i].name, r.only) {
			last = i
		}
	}
	place, chosen := "", false
	for i := range last + 1 {
		c := list[i]
		if c.page != "" {
			place = c.page
			chosen = slices.ContainsFunc(samePage(list[i:]), func(c check) bool { return strings.Contains(c.name, r.only) })
		}
		if !chosen {
			continue
		}
		// Each check has a page of its own, so that none sees what another left behind.
		c.page = place
		if err := r.check(&c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
	}
	return nil
}

// samePage returns the first of list, and those after it that need no page of their own.
func samePage(list []check) []check {
	n := slices.IndexFunc(list[1:], func(c check) bool { return c.page != "" })
	if n < 0 {
		return list
	}
	return list[:n+1]
}

// check opens a page, runs a program in it, and compares what came of it.
func (r *runner) check(c *check) error {
	replace := strings.NewReplacer("%SITE%", r.site.port, "%PORT%", r.server.port, "%FILE%", filepath.ToSlash(r.file))
	r.server.rebind(false)
	p, err := r.browser.open("about:blank")
	if err != nil {
		return err
	}
	defer p.close()
	for _, address := range strings.Fields(replace.Replace(c.page)) {
		if err := p.navigate(address); err != nil {
			return err
		}
	}
	r.server.rebind(true)
	r.server.take(0, 0) // what the page itself asked for
	r.server.said()
	got, err := p.eval(r.site.program(r.before, c.script, r.server.port))
	if err != nil {
		got = err.Error() // the page learns no reason, but the browser and the relay tell us
	}
	want := strings.Split(c.weir, ", ")
	seen, heads := r.server.take(len(want), 5*time.Second)
	var differs error
	if all := strings.Join(slices.Compact(seen), ", "); got != c.want || all != c.weir {
		differs = fmt.Errorf("the page saw %q, want %q; weir saw %q, want %q", got, c.want, all, c.weir)
		if failures := p.failures(); len(failures) > 0 {
			differs = fmt.Errorf("%w; in the browser: %s", differs, strings.Join(failures, ", "))
		}
		if said := r.server.said(); said != "" {
			differs = fmt.Errorf("%w; the server's log:\n%s", differs, said)
		}
	}
	r.verdict(c.name, differs, heads)
	return nil
}

// verdict reports a check.
func (r *runner) verdict(name string, err error, heads []string) {
	r.made++
	if err != nil {
		r.failed++
		_, _ = fmt.Fprintf(r.out, "FAILED %s: %v\n", name, err)
	} else if r.verbose {
		_, _ = fmt.Fprintln(r.out, "ok    ", name)
	}
	if err != nil || r.verbose {
		for _, h := range heads {
			_, _ = fmt.Fprintln(r.out, "         ", h)
		}
	}
}
