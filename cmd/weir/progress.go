package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"time"

	"golang.org/x/term"

	"weir/hub"
)

// pullProgress shows how a download goes: in one line of a terminal, and elsewhere with a line
// for each file and one now and then.
type pullProgress struct {
	out      io.Writer
	width    int          // of the terminal; 0: there is none
	log      *slog.Logger // for lines elsewhere; nil: out
	now      func() time.Time
	rate     meter
	shown    time.Time
	last     hub.Progress
	onScreen bool
}

// How often the progress is shown.
const (
	redraw  = 100 * time.Millisecond
	relog   = 10 * time.Second
	barSize = 24
)

func newPullProgress(out io.Writer, log *slog.Logger) *pullProgress {
	p := &pullProgress{out: out, log: log, now: time.Now}
	if f, ok := out.(*os.File); ok && isTerminal(out) {
		p.width = 80
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			p.width = w
		}
	}
	return p
}

// show is told of the progress. It is called often and mostly does nothing.
func (p *pullProgress) show(now hub.Progress) {
	if now.File == "" {
		return
	}
	at := p.now()
	p.rate.add(now.Done, at)
	begun := now.File != p.last.File || now.Waiting != p.last.Waiting || now.Check != p.last.Check
	ended := now.Ended && !p.last.Ended
	p.last = now
	switch {
	case p.width > 0 && (begun || ended || at.Sub(p.shown) >= redraw):
		fmt.Fprintf(p.out, "\r\x1b[K%s", p.line())
		p.shown, p.onScreen = at, true
	case p.width == 0 && (begun || at.Sub(p.shown) >= relog && !ended):
		p.note()
		p.shown = at
	}
}

// end leaves the line that is on the screen.
func (p *pullProgress) end() {
	if p.onScreen {
		fmt.Fprintln(p.out)
	}
	p.onScreen = false
}

// doing says what is done with the file.
func doing(p hub.Progress) string {
	switch {
	case p.Waiting:
		return "waiting for another process that downloads"
	case p.Check:
		return "checking"
	}
	return "downloading"
}

// note writes a line where there is no terminal.
func (p *pullProgress) note() {
	l := p.last
	rate, left := p.rate.perSecond(), p.left()
	if p.log != nil && p.log.Enabled(context.Background(), slog.LevelInfo) {
		p.log.Info(doing(l), "file", l.File, "number", l.Number, "of_files", l.Files, "megabytes", l.Done/1e6, "of", l.Total/1e6,
			"megabytes_per_second", fmt.Sprintf("%.1f", rate/1e6), "left", left)
		return
	}
	if p.log != nil {
		return
	}
	number := ""
	if !l.Check { // what is checked is not counted
		number = fmt.Sprintf(" (%d of %d)", l.Number, l.Files)
	}
	fmt.Fprintf(p.out, "%s %s%s, %s of %s", doing(l), l.File, number, decimal(l.Done), decimal(l.Total))
	if left > 0 {
		fmt.Fprintf(p.out, ", %s/s, %v left", decimal(int64(rate)), left)
	}
	fmt.Fprintln(p.out)
}

// left is how long the rest takes; 0: that is not known.
func (p *pullProgress) left() time.Duration {
	rate := p.rate.perSecond()
	if rate <= 0 || p.last.Done >= p.last.Total {
		return 0
	}
	return time.Duration(float64(p.last.Total-p.last.Done) / rate * 1e9).Round(time.Second)
}

// line is what a terminal shows: the file, a bar, the part of all bytes, the rate and the time
// left.
func (p *pullProgress) line() string {
	l := p.last
	share := 0.0
	if l.Total > 0 {
		share = min(1, max(0, float64(l.Done)/float64(l.Total)))
	}
	full := int(share * barSize)
	tail := fmt.Sprintf(" [%s%s] %3.0f %%  %s of %s", strings.Repeat("=", full), strings.Repeat(" ", barSize-full), 100*share, decimal(l.Done), decimal(l.Total))
	if left := p.left(); left > 0 {
		tail += fmt.Sprintf("  %s/s  %v left", decimal(int64(p.rate.perSecond())), left)
	}
	head := l.File
	if l.Files > 1 {
		head = fmt.Sprintf("%d/%d %s", l.Number, l.Files, l.File)
	}
	if l.Waiting || l.Check {
		head = doing(l) + " " + head
	}
	room := max(p.width-1-len(tail), 0)
	if len(head) > room {
		head = head[max(0, len(head)-room):]
	}
	line := head + tail
	return line[:min(len(line), max(p.width-1, 0))]
}

// meter measures a rate over the last seconds.
type meter struct {
	marks []mark // of the last seconds, the oldest first
}

type mark struct {
	done int64
	at   time.Time
}

// The window of the rate, and how far its marks are apart.
const (
	meterWindow = 8 * time.Second
	meterStep   = 250 * time.Millisecond
)

func (m *meter) add(done int64, at time.Time) {
	if n := len(m.marks); n > 0 && done < m.marks[n-1].done {
		m.marks = m.marks[:0] // another count
	}
	if n := len(m.marks); n > 1 && at.Sub(m.marks[n-2].at) < meterStep {
		m.marks[n-1] = mark{done, at}
	} else {
		m.marks = append(m.marks, mark{done, at})
	}
	for len(m.marks) > 2 && at.Sub(m.marks[1].at) > meterWindow {
		m.marks = m.marks[1:]
	}
}

// perSecond is the rate; 0: it is not known.
func (m *meter) perSecond() float64 {
	if len(m.marks) < 2 {
		return 0
	}
	first, last := m.marks[0], m.marks[len(m.marks)-1]
	seconds := last.at.Sub(first.at).Seconds()
	if seconds < 0.2 {
		return 0
	}
	return float64(last.done-first.done) / seconds
}

// decimal prints a number of bytes as networks and disks are sold.
func decimal(n int64) string {
	for _, u := range []struct {
		size float64
		name string
	}{{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if v := float64(n) / u.size; v >= 0.9995 {
			if v >= 99.95 {
				return fmt.Sprintf("%.0f %s", v, u.name)
			}
			return fmt.Sprintf("%.1f %s", v, u.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}
