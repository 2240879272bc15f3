package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"weir/bench"
)

// benchProgress shows in one line of a terminal how a load goes. Elsewhere it shows nothing.
type benchProgress struct {
	out              io.Writer
	width            int // of the terminal; 0: there is none, or nothing shall be shown
	title            string
	now              func() time.Time
	requests, events meter
	onScreen         bool
}

func newBenchProgress(out io.Writer, quiet bool) *benchProgress {
	p := &benchProgress{out: out, now: time.Now}
	if f, ok := out.(*os.File); ok && isTerminal(out) && !quiet {
		p.width = 80
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			p.width = w
		}
	}
	return p
}

// begin says what is measured next.
func (p *benchProgress) begin(title string) {
	p.end()
	p.title, p.requests, p.events = title, meter{}, meter{}
}

// show is told how far the load is.
func (p *benchProgress) show(now bench.Progress) {
	if p.width == 0 {
		return
	}
	at := p.now()
	p.requests.add(int64(now.Completed), at)
	p.events.add(int64(now.Outputs), at)
	fmt.Fprintf(p.out, "\r\x1b[K%s", p.line(now))
	p.onScreen = true
}

// line is what the terminal shows.
func (p *benchProgress) line(now bench.Progress) string {
	ended := now.Completed + now.Failed + now.Left
	full := barSize * ended / max(1, now.Total)
	text := fmt.Sprintf("[%s%s] %d/%d", strings.Repeat("=", full), strings.Repeat(" ", barSize-full), ended, now.Total)
	if p.title != "" {
		text = p.title + " " + text
	}
	text += fmt.Sprintf("  %d in flight", now.InFlight)
	if now.Waiting > 0 {
		text += fmt.Sprintf(", %d wait", now.Waiting)
	}
	if now.Failed > 0 {
		text += fmt.Sprintf(", %d failed", now.Failed)
	}
	text += fmt.Sprintf("  %.1f req/s  %.0f tok/s  %v", p.requests.perSecond(), p.events.perSecond(), now.Elapsed.Round(time.Second))
	return text[:min(len(text), max(p.width-1, 0))]
}

// end leaves the line that is on the screen.
func (p *benchProgress) end() {
	if p.onScreen {
		fmt.Fprintln(p.out)
	}
	p.onScreen = false
}
