package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/term"

	"weir/engine"
)

// batchProgress shows how a batch goes: in one line of a terminal, and elsewhere with a line now and
// then. Its methods may be called from any goroutine.
type batchProgress struct {
	total   int          // lines; 0: it is not known how many
	skipped atomic.Int64 // that were in the output before
	done    atomic.Int64 // that are computed
	failed  atomic.Int64 // of done, those with errors

	out   io.Writer
	width int // of the terminal; 0: there is none
	stats func() engine.Stats
	now   func() time.Time
	begun time.Time

	mu               sync.Mutex
	requests, tokens meter
	shown            time.Time
	onScreen         bool
}

func newBatchProgress(out io.Writer, total int, stats func() engine.Stats) *batchProgress {
	p := &batchProgress{total: total, out: out, stats: stats, now: time.Now, begun: time.Now()}
	p.shown = p.begun
	if f, ok := out.(*os.File); ok && isTerminal(out) {
		p.width = 80
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			p.width = w
		}
	}
	return p
}

// show is called when something is done. Mostly it shows nothing.
func (p *batchProgress) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	s := p.stats()
	p.requests.add(p.done.Load(), now)
	p.tokens.add(int64(s.PromptTokens+s.GenerationTokens), now)
	switch {
	case p.width > 0 && now.Sub(p.shown) >= redraw:
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.line())
		p.onScreen = true
	case p.width == 0 && now.Sub(p.shown) >= relog:
		fmt.Fprintln(p.out, p.text())
	default:
		return
	}
	p.shown = now
}

// say prints a sentence.
func (p *batchProgress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.onScreen {
		fmt.Fprintln(p.out)
		p.onScreen = false
	}
	fmt.Fprintln(p.out, text)
}

// end says what has been done.
func (p *batchProgress) end() {
	took := p.now().Sub(p.begun)
	s := p.stats()
	text := fmt.Sprintf("%d answers in %s, of %d tokens of prompts and %d of output", p.done.Load(), took.Round(time.Millisecond*100), s.PromptTokens, s.GenerationTokens)
	if n := p.failed.Load(); n > 0 {
		text += fmt.Sprintf("; %d of them are errors", n)
	}
	if n := p.skipped.Load(); n > 0 {
		text += fmt.Sprintf("; %d were there before", n)
	}
	if p.width > 0 {
		p.mu.Lock()
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.line())
		p.onScreen = true
		p.mu.Unlock()
	}
	p.say(text)
}

// text is what a line of a log says.
func (p *batchProgress) text() string {
	done := p.done.Load() + p.skipped.Load()
	text := fmt.Sprintf("%d lines done", done)
	if p.total > 0 {
		text = fmt.Sprintf("%d of %d lines done", done, p.total)
	}
	return text + p.tail()
}

// tail has the rates, errors and the time that is left.
func (p *batchProgress) tail() string {
	text := ""
	rate := p.requests.perSecond()
	if rate > 0 {
		text = fmt.Sprintf(", %.1f requests/s, %.0f tokens/s", rate, p.tokens.perSecond())
		if left := int64(p.total) - p.done.Load() - p.skipped.Load(); left > 0 {
			text += fmt.Sprintf(", %s left", time.Duration(float64(left)/rate*1e9).Round(time.Second))
		}
	}
	if n := p.failed.Load(); n > 0 {
		text += fmt.Sprintf(", %d errors", n)
	}
	return text
}

// line is what a terminal shows.
func (p *batchProgress) line() string {
	line := p.text()
	if p.total > 0 {
		done := p.done.Load() + p.skipped.Load()
		share := min(1, float64(done)/float64(p.total))
		full := int(share * barSize)
		line = fmt.Sprintf("%d/%d [%s%s] %3.0f %%%s", done, p.total, strings.Repeat("=", full), strings.Repeat(" ", barSize-full), 100*share, strings.ReplaceAll(p.tail(), ", ", "  "))
	}
	return line[:min(len(line), max(p.width-1, 0))]
}
