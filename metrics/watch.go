package metrics

import (
	"math/bits"
	"time"

	dto "github.com/prometheus/client_model/go"

	"weir/engine"
)

// A Spread counts times in cells that are an eighth of an octave wide, so that a percentile is
// found to within 6 %, where the buckets of the series are 1, 2, 5, 10 apart. The first cell has
// what is below a microsecond, the last one what is above some nine hours.
type Spread struct {
	cells [spreadCells]uint64
}

const (
	spreadFirst = 10 // the cells begin at 2^spreadFirst nanoseconds
	spreadCells = (45 - spreadFirst) * 8
)

// cell is the cell of a time.
func cell(d time.Duration) int {
	if d < 1<<spreadFirst {
		return 0
	}
	n := uint64(d)
	octave := bits.Len64(n) - 1
	return min((octave-spreadFirst)*8+int(n>>(octave-3)&7), spreadCells-1)
}

// Add counts a time n times.
func (s *Spread) Add(d time.Duration, n int) { s.cells[cell(d)] += uint64(n) }

// Total is how many times were counted.
func (s *Spread) Total() (n uint64) {
	for _, c := range s.cells {
		n += c
	}
	return n
}

// Since returns what was counted after an earlier moment.
func (s *Spread) Since(before *Spread) (diff Spread) {
	for i := range s.cells {
		diff.cells[i] = s.cells[i] - before.cells[i]
	}
	return diff
}

// Quantile is the time that a part q of all times, 0 to 1, is at most: the middle of its cell. It
// is 0 if there are none.
func (s *Spread) Quantile(q float64) time.Duration {
	total := s.Total()
	if total == 0 {
		return 0
	}
	rank := max(1, uint64(q*float64(total)+0.5))
	for i, n := range s.cells {
		if n >= rank {
			width := time.Duration(1) << (spreadFirst + i/8 - 3)
			return width*time.Duration(8+i%8) + width/2
		}
		rank -= n
	}
	return 0 // not reached: rank is at most total
}

// Waits are the times to first tokens, and between two tokens, while somebody watched.
type Waits struct{ First, Gaps Spread }

func (w *Waits) add(r *engine.Report) {
	for _, d := range r.First {
		w.First.Add(d, 1)
	}
	for _, g := range r.Gaps {
		w.Gaps.Add(g.D, g.N)
	}
}

// Watch has Moment.Waits counted until stop is called, which may be called once. Without anybody
// who watches they cost nothing.
func (m *Metrics) Watch() (stop func()) {
	m.watched.Add(1)
	return func() { m.watched.Add(-1) }
}

// Moment is what was counted of an engine, at one moment.
type Moment struct {
	Waits
	Prompt, Cached, Generated uint64 // tokens
	Finished                  uint64 // choices that have ended, those whose client left not among them
}

// Moment fills in what has been counted by now; false: there is no model yet.
func (m *Metrics) Moment(to *Moment) bool {
	s := m.engine.Load()
	if s == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	*to = Moment{Waits: s.mu.waits, Prompt: s.mu.prompt, Cached: s.mu.cached, Generated: s.mu.generated}
	for _, n := range s.mu.ended {
		to.Finished += n
	}
	return true
}

// Used is what a project has used since the server started.
type Used struct {
	Project                     string // "": requests without one; "other": projects beyond the bound
	Requests, Prompt, Generated uint64
}

// Projects are the projects that have series of their own, all others together, and the requests
// without a project, of which shows returns true, in no order.
func (m *Metrics) Projects(shows func(project string) bool) (list []Used) {
	p := &m.projects
	p.Lock()
	defer p.Unlock()
	for _, c := range p.counts {
		name := c.label
		if name == noProject {
			name = ""
		}
		if shows(name) {
			list = append(list, Used{name, c.requests, c.prompt, c.generated})
		}
	}
	return list
}

// Refused are the counts of refused requests, by reason; reasons without any are left out.
func (m *Metrics) Refused() map[Reason]uint64 {
	counts := map[Reason]uint64{}
	var d dto.Metric
	for _, r := range reasons {
		if m.rejected.WithLabelValues(string(r)).Write(&d) == nil && d.Counter.GetValue() > 0 {
			counts[r] = uint64(d.Counter.GetValue())
		}
	}
	return counts
}
