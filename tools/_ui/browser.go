package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// patience is how long a check waits for something to appear.
const patience = 20 * time.Second

// tab is a tab of the browser, with a profile of its own.
type tab struct {
	ctx  context.Context
	stop func()

	mu       sync.Mutex
	problems []string // what the console and the log have told of errors
	expected []string // parts of problems that a check provokes
}

// open opens a tab of a size and leads it to an address.
func open(browser context.Context, address string, width, height int64, dark bool) (*tab, error) {
	ctx, stop := chromedp.NewContext(browser) // a process of its own
	t := &tab{ctx: ctx, stop: stop}
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.problem(e.ExceptionDetails.Error())
		case *runtime.EventConsoleAPICalled:
			if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
				var args []string
				for _, a := range e.Args {
					args = append(args, string(a.Value)+a.Description)
				}
				t.problem(strings.Join(args, " "))
			}
		case *page.EventJavascriptDialogOpening: // nothing of the page opens one
			t.problem("a dialog of a script: " + e.Message)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.LevelError || e.Entry.Level == log.LevelWarning {
				t.problem(e.Entry.Text + " " + e.Entry.URL)
			}
		}
	})
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	return t, chromedp.Run(ctx, log.Enable(), runtime.Enable(), network.Enable(), page.Enable(),
		page.SetInterceptFileChooserDialog(true), // without a screen it is dismissed at once
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}),
		chromedp.EmulateViewport(width, height), chromedp.Navigate(address))
}

func (t *tab) problem(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.problems = append(t.problems, text)
}

// expect says that the next steps provoke problems that contain a text.
func (t *tab) expect(text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected = append(t.expected, text)
}

// complaints are the problems that nobody expected.
func (t *tab) complaints() (rest []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
next:
	for _, p := range t.problems {
		for _, e := range t.expected {
			if strings.Contains(p, e) {
				continue next
			}
		}
		rest = append(rest, p)
	}
	return rest
}

// run runs actions, each of which has to succeed in time.
func (t *tab) run(actions ...chromedp.Action) error {
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	return chromedp.Run(ctx, actions...)
}

// eval evaluates an expression, waits if it is a promise, and stores its value.
func (t *tab) eval(expression string, value any) error {
	return t.run(chromedp.Evaluate(expression, value, func(p *runtime.EvaluateParams) *runtime.EvaluateParams {
		return p.WithAwaitPromise(true).WithUserGesture(true)
	}))
}

// until waits until an expression is true.
func (t *tab) until(expression string) error {
	var ok bool
	err := t.run(chromedp.Poll(expression, &ok, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(patience)))
	if err != nil {
		var text string
		_ = t.eval("document.body.innerText.slice(0, 1500)", &text)
		return fmt.Errorf("%s: %w; the page shows %q", expression, err, text)
	}
	return nil
}

// shows waits until the page shows a text.
func (t *tab) shows(text string) error {
	return t.until(fmt.Sprintf("document.body.textContent.includes(%q)", text))
}

// view shows a view.
func (t *tab) view(at string) error {
	name, _, _ := strings.Cut(at, "/")
	return errors.Join(t.eval(fmt.Sprintf("location.hash = %q; 0", "#/"+at), nil), t.until(fmt.Sprintf("!!document.querySelector('#view-%s h1')", name)))
}

// click clicks the first visible button or link with a text or label.
func (t *tab) click(label string) error {
	find := fmt.Sprintf("(() => { const e = [...document.querySelectorAll('dialog[open] *, *')].find(e => e.matches('button, a, summary, label') && (e.textContent.trim() === %[1]q || e.getAttribute('aria-label') === %[1]q) && e.checkVisibility()); if (!e || e.disabled) return false; e.scrollIntoView({ block: 'center' }); e.click(); return true })()", label)
	if err := t.until(find); err != nil {
		return fmt.Errorf("click %q: %w", label, err)
	}
	return nil
}

// fill types a text into the field that a selector finds, in place of what it holds.
func (t *tab) fill(selector, text string) error {
	focus := fmt.Sprintf("(() => { const e = [...document.querySelectorAll(%q)].find(e => e.checkVisibility()); if (!e) return false; e.focus(); e.select(); return document.activeElement === e })()", selector)
	if err := t.until(focus); err != nil {
		return fmt.Errorf("fill %s: %w", selector, err)
	}
	return t.run(input.InsertText(text))
}

// choose gives a file to the field for files that the page opened last.
func (t *tab) choose(path string) error {
	if err := t.until("!!document.querySelector('input[type=file]')"); err != nil {
		return err
	}
	return t.run(chromedp.SetUploadFiles("input[type=file]", []string{path}, chromedp.ByQuery))
}

// press presses keys, one after the other.
func (t *tab) press(keys ...string) error {
	for _, k := range keys {
		if err := t.run(chromedp.KeyEvent(k)); err != nil {
			return err
		}
	}
	return nil
}

const enter, tabKey, escape = kb.Enter, kb.Tab, kb.Escape

// picture writes what the tab shows to a file.
func (t *tab) picture(path string) error {
	var png []byte
	if err := t.run(chromedp.CaptureScreenshot(&png)); err != nil {
		return err
	}
	return os.WriteFile(path, png, 0o644)
}

// close closes the tab.
func (t *tab) close() { t.stop() }
