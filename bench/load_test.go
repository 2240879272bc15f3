package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestServeReopens: a kept connection that ends before the first byte of an answer is opened again, once,
// and counted. At one stream that is every second request of a server that closes its connections
// after a stream without saying so.
func TestServeReopens(t *testing.T) {
	p := steady(1, 3, 10*msec, 10*msec)
	p.quits = true
	f, prompts := plansInTurn(p, p, p, p, p, p)
	r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.MaxConcurrency = 1 })
	if r.Completed != 6 || r.Failed != 0 || r.Generator.Reopened != 3 || len(f.bodies) != 6 || f.conns != 6 {
		t.Errorf("%d completed, %d failed, %d opened again, %d requests, %d connections, %v", r.Completed, r.Failed, r.Generator.Reopened, len(f.bodies), f.conns, r.Errors)
	}
	if !slices.Equal(r.TTFT, Samples{10, 10, 10, 10, 10, 10}) {
		t.Errorf("%v", r.TTFT)
	}

	// If the second connection ends as well, the request has failed. Later ones are tried again.
	f, prompts = plansInTurn(p, p, p)
	f.mute = 1
	r = mustMeasure(t, f, prompts, func(c *ServeConfig) { c.MaxConcurrency = 1 })
	if r.Completed != 1 || r.Failed != 2 || r.Generator.Reopened != 2 || f.conns != 4 || r.Errors[0].Text != "EOF" {
		t.Errorf("%d completed, %d failed, %d opened again, %d connections, %v", r.Completed, r.Failed, r.Generator.Reopened, f.conns, r.Errors)
	}

	// Once a byte has come, nothing is sent again.
	cut := plan{steps: []step{{10 * msec, token}}, cut: true}
	f, prompts = plansInTurn(cut, cut)
	r = mustMeasure(t, f, prompts, nil)
	if r.Failed != 2 || r.Generator.Reopened != 0 || len(f.bodies) != 2 {
		t.Errorf("%d failed, %d opened again, %d requests", r.Failed, r.Generator.Reopened, len(f.bodies))
	}
}

// TestServeLeaves: clients leave when the seed says, which is no failure and part of no latency.
func TestServeLeaves(t *testing.T) {
	const n = 40
	var plans []plan
	for range n {
		plans = append(plans, steady(1, 30, 100*msec, 10*msec))
	}
	for _, leave := range []Leave{{Percent: 100}, {Percent: 40}, {Percent: 40, Within: 300 * msec}} {
		f, prompts := plansInTurn(plans...)
		for i := range prompts {
			prompts[i].OutputLen = 30
		}
		r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.Leave, c.Seed = leave, 5 })
		left := 0
		lengths := slices.Repeat([]int{30}, n)
		for i, d := range leave.departures(lengths, rand.New(rand.NewPCG(5, leaveStream))) {
			o := &r.outcomes[i]
			if o.left != d.leaves {
				t.Fatalf("%+v: request %d: %v, want %v", leave, i, o.left, d)
			}
			if !d.leaves {
				continue
			}
			left++
			stayed := o.last - o.sent
			switch {
			case leave.Within > 0 && stayed != d.after:
				t.Errorf("request %d was left after %v, not %v", i, stayed, d.after)
			case leave.Within == 0 && d.events == 0 && stayed != 0:
				t.Errorf("request %d was left after %v, not at once", i, stayed)
			case leave.Within == 0 && d.events > 0 && stayed != 100*msec+max(0, time.Duration(d.events-2))*10*msec: // the role and the first token come together
				t.Errorf("request %d was left after %v, not after %d events", i, stayed, d.events)
			}
		}
		if r.Left != left || r.Completed != n-left || r.Failed != 0 || len(r.TTFT) != n-left || float64(left) < leave.Percent/100*n*0.6 {
			t.Errorf("%+v: %d left of %d, %d completed, %d failed", leave, r.Left, left, r.Completed, r.Failed)
		}
	}
}

// TestDepartures: the share that leaves, and the moments, are those that were asked for.
func TestDepartures(t *testing.T) {
	const n = 20000
	leave := Leave{Percent: 30}
	count, events := 0, map[int]int{}
	for _, d := range leave.departures(slices.Repeat([]int{4}, n), rand.New(rand.NewPCG(1, 2))) {
		if d.leaves {
			count++
			events[d.events]++
		}
	}
	if math.Abs(float64(count)/n-0.3) > 0.015 || len(events) != 5 {
		t.Errorf("%d of %d leave, %v", count, n, events)
	}
	for k, got := range events {
		if k < 0 || k > 4 || math.Abs(float64(got)-float64(count)/5) > 150 {
			t.Errorf("%d leave after %d events", got, k)
		}
	}
}

// TestServeConversations: a turn is sent with the whole history, as long after the answer to the one before as
// its user thinks; the conversation ends with a turn that fails. Conversations begin by the schedule.
func TestServeConversations(t *testing.T) {
	good := steady(1, 2, 100*msec, 50*msec) // 150 ms
	f, prompts := plansInTurn(good, good, good)
	broken := plan{status: 500}
	f.plans["b"] = broken
	list := []Prompt{prompts[0], prompts[1], prompts[2], {Text: "b", OutputLen: 1}, {Text: "never", OutputLen: 1}}
	for _, i := range []int{1, 2, 4} {
		list[i].Follows, list[i].Think = true, time.Duration(i)*time.Second
	}
	r := mustMeasure(t, f, list, func(c *ServeConfig) { evenly(2)(c) })
	var sent []time.Duration
	for i := range r.outcomes {
		sent = append(sent, r.outcomes[i].sent)
	}
	want := []time.Duration{500 * msec, 1650 * msec, 3800 * msec, 1000 * msec}
	if !slices.Equal(sent, want) || r.Completed != 3 || r.Failed != 1 || r.Unsent != 1 {
		t.Errorf("sent at %v, %d completed, %d failed, %d unsent", sent, r.Completed, r.Failed, r.Unsent)
	}
	var got []string
	for _, b := range f.bodies {
		got = append(got, fmt.Sprint(b["messages"]))
	}
	slices.Sort(got)
	const first, second, third = "map[content:[map[text:0 type:text]] role:user]", "map[content:[map[text:1 type:text]] role:user]", "map[content:[map[text:2 type:text]] role:user]"
	const answer = "map[content:xx role:assistant]"
	wantBodies := []string{"[" + first + "]", "[" + first + " " + answer + " " + second + "]", "[" + first + " " + answer + " " + second + " " + answer + " " + third + "]", "[map[content:[map[text:b type:text]] role:user]]"}
	slices.Sort(wantBodies)
	if !slices.Equal(got, wantBodies) {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
	// Completions have the history as a text.
	f, prompts = plansInTurn(good)
	f.plans["0xxmore"] = good
	r = mustMeasure(t, f, []Prompt{prompts[0], {Text: "more", OutputLen: 1, Follows: true}}, func(c *ServeConfig) { c.Endpoint = Completions })
	if r.Completed != 2 || f.bodies[1]["prompt"] != "0xxmore" {
		t.Errorf("%v", f.bodies)
	}
}

// TestRamp: the rate of each request is that of its place in the ramp.
func TestRamp(t *testing.T) {
	even := Load{NumPrompts: 3, Burstiness: math.Inf(1)}
	for want, ramp := range map[string]Ramp{"[1s 1.5s 1.833333333s]": {"linear", 1, 3}, "[1s 1.5s 1.75s]": {"exponential", 1, 4}} {
		even.Ramp = ramp
		if got := fmt.Sprint(even.schedule(3, nil)); got != want {
			t.Errorf("%+v: %s, want %s", ramp, got, want)
		}
	}
	// The mean of many schedules is the even one, and the intervals vary as the burstiness says.
	for _, burstiness := range []float64{0.5, 1, 4} {
		const n, seeds = 50, 2000
		load := Load{Burstiness: burstiness, Ramp: Ramp{"linear", 5, 50}}
		last, ratios := 0.0, []float64(nil)
		for seed := range uint64(seeds) {
			due := load.schedule(n, rand.New(rand.NewPCG(seed, 1)))
			last += due[n-1].Seconds() / seeds
			ratios = append(ratios, (due[9]-due[8]).Seconds()*load.Ramp.rate(9, n))
		}
		want := 0.0
		for i := range n {
			want += 1 / load.Ramp.rate(i, n)
		}
		mean, cv := meanAndCV(ratios)
		if math.Abs(last/want-1) > 0.02 || math.Abs(mean-1) > 0.12 || math.Abs(cv*math.Sqrt(burstiness)-1) > 0.1 {
			t.Errorf("burstiness %v: it ends at %v, not %v; intervals of mean %v, coefficient of variation %v", burstiness, last, want, mean, cv)
		}
	}
	for _, bad := range []Ramp{{"cubic", 1, 2}, {"linear", 0, 2}, {"linear", 3, 2}, {"exponential", 1, math.Inf(1)}, {"linear", 1e-9, 1}} {
		c := DefaultServeConfig()
		c.Ramp = bad
		if err := c.Validate(); err == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
	c := DefaultServeConfig()
	c.Ramp, c.Rate = Ramp{"linear", 1, 2}, 5
	if err := c.Validate(); err == nil {
		t.Error("a ramp and a rate are accepted")
	}
}

// TestServeSelfTimed: the times of a trace are when its requests are sent.
func TestServeSelfTimed(t *testing.T) {
	p := steady(1, 1, 10*msec, 0)
	f, prompts := plansInTurn(p, p, p)
	for i := range prompts {
		prompts[i].At = time.Duration(i*i) * time.Second
	}
	r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.SelfTimed = true })
	for i := range r.outcomes {
		if r.outcomes[i].sent != prompts[i].At {
			t.Errorf("request %d was sent at %v", i, r.outcomes[i].sent)
		}
	}
	if !slices.Equal(r.Scheduled.TTFT, Samples{10, 10, 10}) {
		t.Errorf("%v", r.Scheduled)
	}
}

// TestServeScheduled: where requests wait for a place, latencies from the schedule have the wait, and those
// from sending do not.
func TestServeScheduled(t *testing.T) {
	p := steady(1, 2, 300*msec, 100*msec) // 400 ms
	f, prompts := plansInTurn(p, p, p)
	r := mustMeasure(t, f, prompts, func(c *ServeConfig) {
		evenly(10)(c)
		c.MaxConcurrency = 1
		c.Metrics = []string{"client_queue_time", "e2el_including_client_queue"}
	})
	// Due at 100, 200 and 300 ms, sent at 100, 500 and 900 ms.
	for name, c := range map[string]struct{ got, want Samples }{
		"TTFT": {r.TTFT, Samples{300, 300, 300}}, "E2EL": {r.E2EL, Samples{400, 400, 400}},
		"TTFT from the schedule": {r.Scheduled.TTFT, Samples{300, 600, 900}}, "E2EL from the schedule": {r.Scheduled.E2EL, Samples{400, 700, 1000}},
		"queue": {r.samples("client_queue_time"), Samples{0, 300, 600}}, "E2EL with the queue": {r.samples("e2el_including_client_queue"), Samples{400, 700, 1000}},
	} {
		if !slices.Equal(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.MaxConcurrency = 1 }); len(r.Scheduled.TTFT) != 0 {
		t.Errorf("a closed loop has %v", r.Scheduled)
	}
}

// TestSteadyReference: the steady state of random runs, against the number of requests in flight in every
// millisecond.
func TestSteadyReference(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		limit := 1 + rnd.IntN(5)
		_, plans := randomAnswers(rnd)
		f, prompts := plansInTurn(plans...)
		r := mustMeasure(t, f, prompts, func(c *ServeConfig) { c.MaxConcurrency = limit })
		begin, end := referenceFull(r.outcomes, limit) // 95 % of 5 and less is all of them
		w := r.Steady
		if begin < 0 {
			if w != nil {
				t.Errorf("seed %d: %+v, but there were never %d", seed, w, limit)
			}
			continue
		}
		if w == nil || w.Begin != time.Duration(begin)*msec || w.End != time.Duration(end)*msec {
			t.Fatalf("seed %d: %+v, want %d to %d ms", seed, w, begin, end)
		}
		completed, inside, tokens := referenceWindow(r.outcomes, w.Begin, w.End)
		if w.Completed != completed || math.Abs(w.OutputTokens-tokens) > 1e-6 || len(w.E2EL) != inside {
			t.Errorf("seed %d: %+v, want %d completed, %v tokens, %d inside", seed, w, completed, tokens, inside)
		}
	}
	if w := steadyWindow(nil, 4); w != nil {
		t.Errorf("%+v", w)
	}
}

// referenceFull is the first millisecond in which so many requests were in flight, and the one after the last.
func referenceFull(outcomes []outcome, limit int) (begin, end int) {
	begin, end = -1, -1
	for at := range 40000 {
		flying := 0
		for i := range outcomes {
			if o := &outcomes[i]; o.sent <= time.Duration(at)*msec && time.Duration(at)*msec < o.last {
				flying++
			}
		}
		if flying >= limit && begin < 0 {
			begin = at
		}
		if flying >= limit {
			end = at + 1
		}
	}
	return begin, end
}

// referenceWindow counts the requests that completed within a time, those of them that began within it too, and
// the tokens that arrived.
func referenceWindow(outcomes []outcome, begin, end time.Duration) (completed, inside int, tokens float64) {
	for i := range outcomes {
		o := &outcomes[i]
		if !o.completed() {
			continue
		}
		events := []time.Duration{o.first}
		for _, gap := range o.gaps {
			events = append(events, events[len(events)-1]+gap)
		}
		for _, at := range events {
			if at > begin && at <= end {
				tokens += float64(o.tokens()) / float64(len(events))
			}
		}
		if o.last > begin && o.last <= end {
			completed++
			if o.sent >= begin {
				inside++
			}
		}
	}
	return completed, inside, tokens
}

// TestServeChunks: where events carry several tokens, or the generator could not keep up, the report says so.
func TestServeChunks(t *testing.T) {
	p := plan{steps: []step{{10 * msec, role}, {10 * msec, token}, {10 * msec, token + usageEvent(1, 8) + "data: [DONE]\n\n"}}}
	f, prompts := plansInTurn(p)
	r := mustMeasure(t, f, prompts, nil)
	if r.Generator.tokensPerEvent() != 4 || len(r.Generator.Warnings) != 1 || !strings.Contains(r.Generator.Warnings[0], "an event carried 4.0 tokens") {
		t.Errorf("%v %q", r.Generator.tokensPerEvent(), r.Generator.Warnings)
	}
	for want, g := range map[string]Generator{"woken up late, p99 15 ms": {Processors: 2, Wakeups: Samples{15}}, "the clock was set or stood still during the run: it moved -5s": {Processors: 2, ClockSlip: -5 * time.Second}} {
		r := Report{Config: ServeConfig{Load: Load{NumPrompts: 9}}, Generator: g}
		if r.addWarnings(); len(r.Generator.Warnings) != 1 || !strings.Contains(r.Generator.Warnings[0], want) {
			t.Errorf("%q, want %q", r.Generator.Warnings, want)
		}
	}
	f, prompts = plansInTurn(steady(1, 2, msec, msec))
	r = mustMeasure(t, f, prompts, func(c *ServeConfig) { c.NumPrompts = 3 })
	if r.Repeats != 2 || !strings.Contains(strings.Join(r.Generator.Warnings, " "), "2 prompts were the same") {
		t.Errorf("%d %q", r.Repeats, r.Generator.Warnings)
	}
}

// TestEventOutput: which events carry something of an answer.
func TestEventOutput(t *testing.T) {
	for text, want := range map[string]bool{
		`{"choices":[{"delta":{"content":"x"}}]}`:                          true,
		`{"choices":[{"delta":{"role":"assistant","content":""}}]}`:        false,
		`{"choices":[{"delta":{"reasoning":"x","content":null}}]}`:         true,
		`{"choices":[{"delta":{"reasoning_content":"x"}}]}`:                true,
		`{"choices":[{"delta":{"reasoning":null,"tool_calls":null}}]}`:     false,
		`{"choices":[{"delta":{"tool_calls":[{"index":0}]}}]}`:             true,
		`{"choices":[{"delta":{"tool_calls":[]}}]}`:                        false,
		`{"choices":[{"text":"x"}]}`:                                       true,
		`{"choices":[{"text":""}]}`:                                        false,
		`{"choices":[{"delta":{},"finish_reason":"length"}]}`:              false,
		`{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`: false,
	} {
		var e event
		if !e.parse([]byte(text)) || e.output != want {
			t.Errorf("%s: %v", text, e.output)
		}
	}
}

// TestServeCounts: lengths come from the server's tokenizer if it has one.
func TestServeCounts(t *testing.T) {
	for answer, want := range map[string]int{`{"count":3,"tokens":[1,2,3]}`: 3, "": 2, `{"tokens":null}`: 2} {
		f, prompts := plansInTurn(steady(1, 1, 0, 0))
		if answer != "" {
			f.token = []byte(answer)
		}
		var got int
		mustMeasure(t, f, prompts, func(c *ServeConfig) { c.Data = counting{&got} })
		if got != want {
			t.Errorf("%s: %d tokens, want %d", answer, got, want)
		}
	}
}

// counting is a data set that counts the tokens of a text of 7 bytes.
type counting struct{ n *int }

func (counting) validate() error { return nil }
func (c counting) draw(n int, d *drawing) ([]Prompt, error) {
	*c.n = d.count("7 bytes")
	return InTurn([]Prompt{{Text: "0", OutputLen: 1}}).draw(n, d)
}

// TestServeProgress: the progress ends with what the report says.
func TestServeProgress(t *testing.T) {
	p := steady(1, 40, 100*msec, 50*msec)
	f, prompts := plansInTurn(p, p, plan{status: 400}, p)
	var told []Progress
	r, err := measure(t, f, prompts, func() (context.Context, context.CancelFunc) { return context.WithCancel(context.Background()) }, func(c *ServeConfig) {
		c.MaxConcurrency = 2
		c.Progress = func(p Progress) { told = append(told, p) }
	})
	if err != nil {
		t.Fatal(err)
	}
	last := told[len(told)-1]
	if last.Completed != r.Completed || last.Failed != 1 || last.Total != 4 || last.Outputs != 120 || last.InFlight != 0 || last.Waiting != 0 {
		t.Errorf("%+v", last)
	}
	if len(told) < 10 || told[1].InFlight != 2 || told[1].Waiting != 2 {
		t.Errorf("%d times, %+v", len(told), told[1])
	}
}
