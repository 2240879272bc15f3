package liveapi

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/valyala/fasthttp"

	"weir/engine"
	"weir/internal/jsontext"
	"weir/metrics"
	"weir/server/failure"
	"weir/server/transport"
)

// viewer is the body of an answer. It belongs to the goroutine of the connection.
type viewer struct {
	h     *Handlers
	call  *transport.Call // its RequestCtx is not touched here
	sees  sight
	every time.Duration
	left  int // states until the end; 0: there is no end
	begin bool
	ended bool

	ticker *time.Ticker // nil: nothing has been sent
	from   *engine.Engine
	step   uint64 // the newest that was sent
	past   []past // the newest of some seconds, the oldest first

	steps    []engine.StepRecord
	requests []transport.Ongoing
	buf      []byte
	rest     []byte // of buf, for Read
}

// past is what was counted at the time of an earlier state.
type past struct {
	at    time.Time
	steps uint64
	metrics.Moment
}

// window is how far percentiles look back.
const window = 10 * time.Second

// SupportsBodyWriteTo makes fasthttp call WriteTo, so that an event is one write.
func (v *viewer) SupportsBodyWriteTo() bool { return true }

// WriteTo writes the events.
func (v *viewer) WriteTo(w io.Writer) (n int64, err error) {
	for {
		piece := v.next()
		if piece == nil {
			return n, nil
		}
		m, err := w.Write(piece)
		n += int64(m)
		if err != nil {
			return n, err
		}
	}
}

// Read returns the same bytes as WriteTo, in pieces that fit into p.
func (v *viewer) Read(p []byte) (int, error) {
	if len(v.rest) == 0 {
		if v.rest = v.next(); v.rest == nil {
			return 0, io.EOF
		}
	}
	n := copy(p, v.rest)
	v.rest = v.rest[n:]
	return n, nil
}

// Close ends the call. It is called when the stream has ended, and also when it could not be written.
func (v *viewer) Close() error {
	if v.ticker != nil {
		v.ticker.Stop()
	}
	v.call.Done()
	return nil
}

var _ fasthttp.BodyWriterTo = (*viewer)(nil)

// next waits for the next event and returns it; nil: there is none.
func (v *viewer) next() []byte {
	v.buf = v.buf[:0]
	switch {
	case v.ended:
		return nil
	case v.begin:
		v.begin = false
		v.ticker = time.NewTicker(v.every)
		v.event(hello{"hello", v.h.cfg.Version, v.scope(), v.every.Seconds(), window.Seconds(), stepFields})
		v.state()
		return v.buf
	}
	select {
	case <-v.ticker.C:
	case <-v.h.cfg.HTTP.DrainBegins():
		return v.end("draining")
	case <-v.call.Context().Done():
		if errors.Is(context.Cause(v.call.Context()), failure.ErrGone) {
			v.ended = true
			return nil
		}
		return v.end("draining")
	}
	if !v.h.cfg.HTTP.Holds(v.sees.who, "") {
		return v.end("key")
	}
	v.state()
	return v.buf
}

func (v *viewer) scope() string {
	if v.sees.all {
		return "all"
	}
	return "own"
}

// end makes the last event.
func (v *viewer) end(reason string) []byte {
	v.ended = true
	v.event(ending{"end", reason})
	v.call.Settle()
	return v.buf
}

// state appends a state, and the end if it is the last one.
func (v *viewer) state() {
	v.event(v.look(time.Now()))
	if v.left > 0 {
		if v.left--; v.left == 0 {
			v.end("count")
		}
	}
}

// event appends an event.
func (v *viewer) event(e any) {
	text, err := jsontext.Encode(e)
	if err != nil { // no float is out of range, and there is nothing else that can fail
		return
	}
	v.buf = append(append(append(v.buf, "data: "...), text...), "\n\n"...)
}

// look gathers a state. now is read from the clock of the machine, which rates need.
func (v *viewer) look(now time.Time) *state {
	s := &state{Type: "state", Time: seconds(v.h.cfg.HTTP.Now()), Projects: []project{}, Rejected: v.h.cfg.Counts.Refused(), Steps: jsontext.RawMessage("[]")}
	v.list(s)
	for _, p := range v.h.cfg.Counts.Projects(v.sees.project) {
		s.Projects = append(s.Projects, project(p))
	}
	sortProjects(s.Projects)
	e := v.h.cfg.Engine()
	if e != v.from { // the first one, or another
		v.from, v.step, v.past = e, 0, nil
	}
	if e == nil {
		return s
	}
	st := e.Stats()
	p := past{at: now, steps: st.Steps}
	v.h.cfg.Counts.Moment(&p.Moment)
	s.Engine = engineOf(&st, &p.Moment, now)
	if n := len(v.past); n > 0 {
		s.Rates = ratesOf(&v.past[n-1], &p)
		s.TTFT, s.ITL = percentiles(p.First.Since(&v.past[0].First)), percentiles(p.Gaps.Since(&v.past[0].Gaps))
	}
	v.remember(p)
	if v.sees.all {
		s.Steps = v.newSteps(e)
	}
	return s
}

// remember keeps what percentiles and rates are counted from. There is one entry for a second, at
// least, so that their number is bounded whatever the interval is.
func (v *viewer) remember(p past) {
	if n := len(v.past); n > 1 && p.at.Sub(v.past[n-2].at) < time.Second {
		v.past[n-1] = p
	} else {
		v.past = append(v.past, p)
	}
	for len(v.past) > 2 && p.at.Sub(v.past[1].at) >= window {
		v.past = append(v.past[:0], v.past[1:]...)
	}
}

// list adds the requests that the viewer may see, the oldest first.
func (v *viewer) list(s *state) {
	v.requests = v.h.cfg.HTTP.Ongoing(v.requests[:0], v.sees.request)
	now := v.h.cfg.HTTP.Now()
	s.Requests = make([]request, 0, min(len(v.requests), mostRequests))
	for i := range v.requests {
		r := describe(&v.requests[i], now)
		switch r.State {
		case preparing:
			s.Counts.Preparing++
		case waiting:
			s.Counts.Waiting++
		default:
			s.Counts.Running++
		}
		if i < mostRequests {
			s.Requests = append(s.Requests, r)
		}
	}
	s.LeftOut = len(v.requests) - len(s.Requests)
	clear(v.requests) // so that streams that have ended are not held
}

// newSteps is the list of the steps that have ended since the last state.
func (v *viewer) newSteps(e *engine.Engine) jsontext.RawMessage {
	v.steps = e.StepsAfter(v.steps[:0], v.step)
	list := []byte{'['}
	for i := range v.steps {
		r := &v.steps[i]
		if r.State == engine.StepInFlight {
			break // it comes when it has ended, and those after it then
		}
		if len(list) > 1 {
			list = append(list, ',')
		}
		list = appendStep(list, r)
		v.step = r.Step
	}
	return append(list, ']')
}
