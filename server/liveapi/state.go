package liveapi

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"weir/engine"
	"weir/internal/jsontext"
	"weir/metrics"
	"weir/server/transport"
)

// hello is the first event.
type hello struct {
	Type       string   `json:"type"`
	Version    string   `json:"version"`
	Scope      string   `json:"scope"` // "all" or "own"
	Interval   float64  `json:"interval"`
	Window     float64  `json:"window"`
	StepFields []string `json:"step_fields"`
}

// ending is the last event.
type ending struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
}

// state is what the server does at one moment.
type state struct {
	Type     string                    `json:"type"`
	Time     float64                   `json:"time"` // seconds since 1970
	Engine   *engineState              `json:"engine"`
	Rates    *rates                    `json:"rates"`
	TTFT     *spread                   `json:"ttft"`
	ITL      *spread                   `json:"itl"`
	Counts   counts                    `json:"request_counts"`
	Requests []request                 `json:"requests"`
	LeftOut  int                       `json:"requests_left_out"`
	Projects []project                 `json:"projects"`
	Rejected map[metrics.Reason]uint64 `json:"rejected"`
	Steps    jsontext.RawMessage       `json:"steps"`
}

// engineState are the counts of the engine. Those in the second part only grow.
type engineState struct {
	Running     int      `json:"running"`
	Waiting     int      `json:"waiting"`
	SittingOut  int      `json:"sitting_out"`
	BlocksUsed  int      `json:"kv_blocks_used"`
	BlocksTotal int      `json:"kv_blocks_total"`
	StepAge     *float64 `json:"step_age"` // of the step that is computed, in seconds; null: none is

	Steps         uint64 `json:"steps"`
	Prompt        uint64 `json:"prompt_tokens"`
	Cached        uint64 `json:"cached_tokens"`
	Generated     uint64 `json:"generation_tokens"`
	Finished      uint64 `json:"finished"`
	Preemptions   uint64 `json:"preemptions"`
	PrefixQueries uint64 `json:"prefix_queries"`
	PrefixHits    uint64 `json:"prefix_hits"`
}

// rates are what has happened per second since the state before.
type rates struct {
	Generated float64 `json:"generation_tokens"`
	Prompt    float64 `json:"prompt_tokens"`
	Steps     float64 `json:"steps"`
	Finished  float64 `json:"finished"`
}

// spread are percentiles in seconds; null: there were no times.
type spread struct {
	Count uint64  `json:"count"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
}

// counts are the requests that the viewer may see, by their state.
type counts struct {
	Preparing int `json:"preparing"`
	Waiting   int `json:"waiting"`
	Running   int `json:"running"`
}

// The states of a request.
const (
	preparing = "preparing" // the engine has not accepted it
	waiting   = "waiting"   // no step has computed anything of it
	running   = "running"
)

// request is a request that has not ended. Times are in seconds.
type request struct {
	ID         *string  `json:"id"`
	RequestID  *string  `json:"request_id"`
	Path       string   `json:"path"`
	State      string   `json:"state"`
	Age        float64  `json:"age"`
	Queue      *float64 `json:"queue"`
	TTFT       *float64 `json:"ttft"`
	Project    *string  `json:"project"`
	Key        *string  `json:"key"`
	Model      *string  `json:"model"`
	Prompt     int      `json:"prompt_tokens"`
	Cached     int      `json:"cached_tokens"`
	Output     int      `json:"output_tokens"`
	Background bool     `json:"background"`
}

// project is what a project has used since the server started.
type project struct {
	Project   string `json:"project"`
	Requests  uint64 `json:"requests"`
	Prompt    uint64 `json:"prompt_tokens"`
	Generated uint64 `json:"generation_tokens"`
}

func sortProjects(list []project) {
	slices.SortFunc(list, func(a, b project) int { return strings.Compare(a.Project, b.Project) })
}

// text is a text, or nil for none.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// seconds since 1970, to microseconds.
func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

func describe(o *transport.Ongoing, now time.Time) request {
	r := request{
		ID: text(o.ID), RequestID: text(o.RequestID), Path: o.Path, State: preparing, Age: max(0, now.Sub(o.Begun).Seconds()),
		Project: text(o.Project), Model: text(o.Model), Prompt: o.Prompt, Background: o.Background,
	}
	if o.Who != nil {
		r.Key = text(o.Who.Key)
	}
	if o.Tokens == nil {
		return r
	}
	r.State, r.Cached, r.Output = waiting, o.Tokens.Cached(), o.Tokens.Drawn()
	if o.Tokens.Scheduled() {
		r.State = running
	}
	if queue, first, ok := o.Tokens.Waits(); ok {
		q, f := queue.Seconds(), first.Seconds()
		r.Queue, r.TTFT = &q, &f
	}
	return r
}

func engineOf(st *engine.Stats, m *metrics.Moment, now time.Time) *engineState {
	s := &engineState{
		Running: st.Running, Waiting: st.Waiting, SittingOut: st.SittingOut, BlocksUsed: st.BlocksUsed, BlocksTotal: st.BlocksTotal,
		Steps: st.Steps, Prompt: m.Prompt, Cached: m.Cached, Generated: m.Generated, Finished: m.Finished,
		Preemptions: st.Preemptions, PrefixQueries: st.PrefixQueries, PrefixHits: st.PrefixHits,
	}
	if !st.StepBegan.IsZero() {
		age := max(0, now.Sub(st.StepBegan).Seconds())
		s.StepAge = &age
	}
	return s
}

func ratesOf(before, p *past) *rates {
	d := max(p.at.Sub(before.at).Seconds(), 1e-3)
	per := func(now, then uint64) float64 { return float64(now-then) / d }
	return &rates{per(p.Generated, before.Generated), per(p.Prompt, before.Prompt), per(p.steps, before.steps), per(p.Finished, before.Finished)}
}

func percentiles(s metrics.Spread) *spread {
	n := s.Total()
	if n == 0 {
		return nil
	}
	return &spread{n, s.Quantile(.5).Seconds(), s.Quantile(.9).Seconds(), s.Quantile(.99).Seconds()}
}

// stepFields are what the numbers of a step are, in their order.
var stepFields = []string{
	"step", "time", "kind", "failed", "sequences", "prefill_tokens", "decode_tokens", "waiting", "running", "kv_blocks_used", "preemptions",
	"plan_us", "draw_us", "wait_us", "book_us",
}

// appendStep writes a step as a list, because there are hundreds in a second.
func appendStep(dst []byte, r *engine.StepRecord) []byte {
	dst = strconv.AppendUint(append(dst, '['), r.Step, 10)
	dst = strconv.AppendFloat(append(dst, ','), seconds(r.Planned), 'f', 6, 64)
	dst = append(append(append(dst, `,"`...), r.Kind...), `",`...)
	failed := 0
	if r.State == engine.StepFailed {
		failed = 1
	}
	for i, n := range [...]int64{
		int64(failed), int64(r.Sequences), int64(r.Prefill), int64(r.Decode), int64(r.Waiting), int64(r.Running), int64(r.BlocksUsed), int64(r.Preemptions),
		r.Plan.Microseconds(), r.Draw.Microseconds(), r.Wait.Microseconds(), r.Book.Microseconds(),
	} {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = strconv.AppendInt(dst, n, 10)
	}
	return append(dst, ']')
}
