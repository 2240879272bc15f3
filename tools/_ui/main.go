// Command ui leads a headless Chromium through every view of the page of a running weir, as a user would, with
// the mouse and by the keyboard alone, in both color schemes and on a narrow screen, and looks with axe whether everybody can use it. It writes a picture of every view.
//
// It has a module of its own, because weir itself needs no library that drives a browser.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/chromedp/chromedp"
)

// suite is what all checks share.
type suite struct {
	browser  context.Context
	weir     string
	pictures string
	axe      string // the text of axe.min.js; "": it is not run
	dir      string // for data of servers
	failed   int
}

// check is something that a user does, and what has to come of it.
type check struct {
	name string
	do   func(*suite) error
}

func main() {
	weir := flag.String("weir", "./weir", "the binary to test")
	chromium := flag.String("chromium", "chromium", "the browser")
	axe := flag.String("axe", "", "axe.min.js of the package axe-core")
	pictures := flag.String("pictures", "", "the folder that gets a picture of every view")
	only := flag.String("only", "", "run only checks whose names contain this")
	flag.Parse()
	if err := run(*weir, *chromium, *axe, *pictures, *only); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(weir, chromium, axe, pictures, only string) error {
	dir, err := os.MkdirTemp("", "weir-ui")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	s := &suite{weir: weir, pictures: pictures, dir: dir}
	if s.pictures == "" {
		s.pictures = dir
	}
	if axe != "" {
		text, err := os.ReadFile(axe)
		if err != nil {
			return err
		}
		s.axe = string(text)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.Flag("force-color-profile", "srgb"))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // without which it does not start as root
	}
	all, stop := chromedp.NewExecAllocator(context.Background(), options...)
	defer stop()
	s.browser = all
	for _, c := range checks {
		if !strings.Contains(c.name, only) {
			continue
		}
		begun := time.Now()
		if err := c.do(s); err != nil {
			s.failed++
			fmt.Printf("FAIL %s (%.1f s)\n     %v\n", c.name, time.Since(begun).Seconds(), err)
			continue
		}
		fmt.Printf("ok   %s (%.1f s)\n", c.name, time.Since(begun).Seconds())
	}
	if s.failed > 0 {
		return fmt.Errorf("%d checks failed", s.failed)
	}
	return nil
}

// with starts a server, opens a tab on it, and calls f. What the console of the tab tells of errors fails
// the check, and so does what axe finds at the end.
func (s *suite) with(o options, f func(*server, *tab) error) error {
	data, err := os.MkdirTemp(s.dir, "data")
	if err != nil {
		return err
	}
	srv, err := serve(context.Background(), s.weir, o.key, append([]string{"--data-dir", data}, o.args...)...)
	if err != nil {
		return err
	}
	defer srv.stop()
	if o.before != nil {
		if err := o.before(srv); err != nil {
			return err
		}
	}
	if o.width == 0 {
		o.width, o.height = 1360, 860
	}
	t, err := open(s.browser, srv.url+o.path+"/", o.width, o.height, o.dark)
	if err != nil {
		return err
	}
	defer t.close()
	if err := f(srv, t); err != nil {
		_ = t.picture(filepath.Join(s.pictures, "failed.png"))
		return fmt.Errorf("%w; console: %q", err, t.complaints())
	}
	if c := t.complaints(); len(c) > 0 {
		return fmt.Errorf("the console has %q", c)
	}
	return nil
}

// options are those of a server and of a tab on it.
type options struct {
	key           string
	args          []string
	path          string
	width, height int64
	dark          bool
	before        func(*server) error
}

// accessible looks for violations with axe, of WCAG 2.2 at the levels A and AA.
func (s *suite) accessible(t *tab) error {
	if s.axe == "" {
		return nil
	}
	var found string
	if err := t.eval(s.axe+"\n;0", nil); err != nil {
		return err
	}
	err := t.eval(`axe.run(document, { runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'] }).then(r => r.violations.map(v => v.id + ': ' + v.help + ' (' + v.nodes.slice(0, 3).map(n => n.html.slice(0, 160) + ' ' + (n.any[0]?.message ?? '')).join(' | ') + ')').join('\n'))`, &found)
	if err != nil {
		return err
	}
	if found != "" {
		return fmt.Errorf("axe finds:\n%s", found)
	}
	return nil
}

// seen writes a picture and looks for what axe finds.
func (s *suite) seen(t *tab, name string) error {
	if err := t.picture(filepath.Join(s.pictures, name+".png")); err != nil {
		return err
	}
	return s.accessible(t)
}

// steps runs functions until one fails.
func steps(all ...func() error) error {
	for i, f := range all {
		if err := f(); err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
	}
	return nil
}
