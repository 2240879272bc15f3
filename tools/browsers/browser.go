package main

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"weir/internal/jsontext"
)

// browser is a Chromium that obeys the Chrome DevTools protocol over a pair of pipes
// (https://chromedevtools.github.io/devtools-protocol): JSON messages that end in a zero
// byte. Few of its functions are needed here, so there is no library for it.
type browser struct {
	cmd     *exec.Cmd
	dir     string // its profile
	to      *os.File
	version string

	mu     sync.Mutex
	last   int
	calls  map[int]chan<- message
	pages  map[string]*page // by session
	broken error            // why nothing is read any more
}

// message is a call, its answer, or an event.
type message struct {
	ID        int                 `json:"id,omitempty"`
	SessionID string              `json:"sessionId,omitempty"`
	Method    string              `json:"method,omitempty"`
	Params    jsontext.RawMessage `json:"params,omitempty"`
	Result    jsontext.RawMessage `json:"result,omitempty"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// patience is how long the browser may take for anything.
const patience = 30 * time.Second

// candidates are the names that Chromium's binary has in various systems.
var candidates = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chromium-headless-shell", "chrome-headless-shell", "microsoft-edge"}

// findBrowser returns the path of a browser. name may be empty.
func findBrowser(name string) (string, error) {
	names := candidates
	if name != "" {
		names = []string{name}
	}
	for _, n := range names {
		if path, err := exec.LookPath(n); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("there is no browser by the name of %s; install Chromium or name one with --browser", strings.Join(names, ", "))
}

// startBrowser starts a browser that knows the names in hosts, all of which lead to this
// machine, and no other name or service.
func startBrowser(ctx context.Context, path string, hosts []string) (*browser, error) {
	dir, err := os.MkdirTemp("", "weir-browser-")
	if err != nil {
		return nil, err
	}
	rules := make([]string, 0, len(hosts)+2)
	for _, h := range hosts {
		rules = append(rules, "MAP "+h+" 127.0.0.1")
	}
	rules = append(rules, "MAP * ~NOTFOUND", "EXCLUDE localhost", "EXCLUDE 127.0.0.1", "EXCLUDE [::1]")
	args := []string{
		"--headless", "--remote-debugging-pipe", "--user-data-dir=" + dir, "--host-resolver-rules=" + strings.Join(rules, ", "),
		"--no-first-run", "--no-default-browser-check", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-default-apps", "--disable-extensions", "--disable-gpu", "--disable-dev-shm-usage", "--window-size=1000,1400",
	}
	if os.Geteuid() == 0 {
		args = append(args, "--no-sandbox") // without which it does not start as root
	}
	fromUs, to, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	from, toUs, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	b := &browser{dir: dir, to: to, calls: map[int]chan<- message{}, pages: map[string]*page{}}
	b.cmd = exec.CommandContext(ctx, path, append(args, "about:blank")...)
	b.cmd.ExtraFiles = []*os.File{fromUs, toUs} // 3 and 4 there
	err = b.cmd.Start()
	_, _ = fromUs.Close(), toUs.Close()
	if err != nil {
		return nil, err
	}
	go b.read(bufio.NewReader(from))
	var v struct{ Product string }
	err = b.call("", "Browser.getVersion", nil, &v)
	b.version = v.Product
	return b, err
}

// stop ends the browser and removes its profile.
func (b *browser) stop() {
	_ = b.call("", "Browser.close", nil, nil) // it may have ended
	_ = b.to.Close()
	_ = b.cmd.Wait()
	_ = os.RemoveAll(b.dir)
}

// read hands out answers and events until the browser ends.
func (b *browser) read(r *bufio.Reader) {
	for {
		text, err := r.ReadBytes(0)
		var m message
		if err == nil {
			err = jsontext.Decode(text[:len(text)-1], &m)
		}
		b.mu.Lock()
		if err != nil {
			b.broken = fmt.Errorf("the browser ended: %w", err)
			for id, c := range b.calls {
				delete(b.calls, id)
				close(c)
			}
			for _, p := range b.pages {
				p.wake()
			}
			b.mu.Unlock()
			return
		}
		answer := b.calls[m.ID]
		delete(b.calls, m.ID)
		p := b.pages[m.SessionID]
		b.mu.Unlock()
		switch {
		case answer != nil:
			answer <- m
		case p != nil:
			p.event(&m)
		}
	}
}

// call calls a function of the protocol in a session, and stores what it returns.
func (b *browser) call(session, method string, params map[string]any, result any) error {
	text, err := jsontext.Encode(params)
	if err != nil {
		return err
	}
	answer := make(chan message, 1)
	b.mu.Lock()
	if b.broken != nil {
		defer b.mu.Unlock()
		return b.broken
	}
	b.last++
	id := b.last
	b.calls[id] = answer
	b.mu.Unlock()
	if params == nil {
		text = nil
	}
	text, err = jsontext.Encode(message{ID: id, SessionID: session, Method: method, Params: text})
	if err != nil {
		return err
	}
	if _, err := b.to.Write(append(text, 0)); err != nil {
		return err
	}
	var m message
	ok := true
	select {
	case m, ok = <-answer:
	case <-time.After(patience):
		return fmt.Errorf("%s: no answer in %s", method, patience)
	}
	switch {
	case !ok:
		return b.broken
	case m.Error != nil:
		return fmt.Errorf("%s: %s", method, m.Error.Message)
	case result == nil:
		return nil
	}
	return jsontext.Decode(m.Result, result)
}

// page is a tab of the browser.
type page struct {
	browser *browser
	target  string
	session string

	mu       sync.Mutex
	loads    int
	problems []string // messages of the console and the log that tell of errors
	failed   []string // why requests of the page had no answer, or not all of it
	change   chan struct{}
}

// open opens a page and waits until it is loaded.
func (b *browser) open(address string) (*page, error) {
	var target struct{ TargetID string }
	if err := b.call("", "Target.createTarget", map[string]any{"url": "about:blank"}, &target); err != nil {
		return nil, err
	}
	var session struct{ SessionID string }
	if err := b.call("", "Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &session); err != nil {
		return nil, err
	}
	p := &page{browser: b, target: target.TargetID, session: session.SessionID, change: make(chan struct{}, 1)}
	b.mu.Lock()
	b.pages[p.session] = p
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		if err := b.call(p.session, domain+".enable", nil, nil); err != nil {
			return nil, err
		}
	}
	return p, p.navigate(address)
}

// navigate leads the page to an address, as if the user had typed it, and waits until it is
// loaded.
func (p *page) navigate(address string) error {
	p.mu.Lock()
	before := p.loads
	p.mu.Unlock()
	var result struct{ ErrorText string }
	if err := p.browser.call(p.session, "Page.navigate", map[string]any{"url": address}, &result); err != nil {
		return err
	}
	if result.ErrorText != "" {
		return fmt.Errorf("%s: %s", address, result.ErrorText)
	}
	for {
		p.mu.Lock()
		loaded := p.loads > before
		p.mu.Unlock()
		if loaded {
			return nil
		}
		p.browser.mu.Lock()
		err := p.browser.broken
		p.browser.mu.Unlock()
		if err != nil {
			return err
		}
		select {
		case <-p.change:
		case <-time.After(patience):
			return fmt.Errorf("%s: not loaded in %s", address, patience)
		}
	}
}

func (p *page) wake() {
	select {
	case p.change <- struct{}{}:
	default:
	}
}

// event takes an event of the page.
func (p *page) event(m *message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch m.Method {
	case "Page.loadEventFired":
		p.loads++
		p.wake()
	case "Network.loadingFailed":
		var e struct{ ErrorText, BlockedReason string }
		if jsontext.Decode(m.Params, &e) == nil {
			p.failed = append(p.failed, strings.TrimSpace(e.ErrorText+" "+e.BlockedReason))
		}
	case "Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded":
		var e struct {
			Type  string
			Entry struct{ Level string }
		}
		if jsontext.Decode(m.Params, &e) == nil && e.Type != "log" && e.Entry.Level != "info" && e.Entry.Level != "verbose" {
			p.problems = append(p.problems, string(m.Params))
		}
	}
}

// console returns what the console and the log of the page have told of errors.
func (p *page) console() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.problems
}

// failures returns why requests of the page had no answer, or not all of it. A program in the
// page learns no more than that there was a network error.
func (p *page) failures() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failed
}

// eval runs a program in the page, as if a user had touched the page before, and returns
// its value as text. If the value is a promise, it waits for it.
func (p *page) eval(program string) (string, error) {
	var result struct {
		Result           struct{ Value jsontext.RawMessage }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	params := map[string]any{"expression": program, "awaitPromise": true, "returnByValue": true, "userGesture": true}
	if err := p.browser.call(p.session, "Runtime.evaluate", params, &result); err != nil {
		return "", err
	}
	if e := result.ExceptionDetails; e != nil {
		return "", fmt.Errorf("%s %s", e.Text, e.Exception.Description)
	}
	var text string
	if jsontext.Decode(result.Result.Value, &text) == nil {
		return text, nil
	}
	return string(result.Result.Value), nil
}

// picture writes the page as a PNG file.
func (p *page) picture(path string) (err error) {
	var result struct{ Data string }
	if err := p.browser.call(p.session, "Page.captureScreenshot", map[string]any{"format": "png"}, &result); err != nil {
		return err
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	_, err = io.Copy(f, base64.NewDecoder(base64.StdEncoding, strings.NewReader(result.Data)))
	return err
}

// close closes the page.
func (p *page) close() {
	_ = p.browser.call("", "Target.closeTarget", map[string]any{"targetId": p.target}, nil)
	p.browser.mu.Lock()
	delete(p.browser.pages, p.session)
	p.browser.mu.Unlock()
}
