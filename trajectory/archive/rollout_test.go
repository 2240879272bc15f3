package archive

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"weir/trajectory"
)

// rollout is a trajectory and the values of which its text was made.
type rollout struct {
	Reward   *float64       `json:"reward,omitempty"`
	Initial  *int64         `json:"initial_policy_version,omitempty"`
	Final    *int64         `json:"final_policy_version,omitempty"`
	Start    string         `json:"start_time,omitempty"`
	Metrics  map[string]any `json:"metrics,omitempty"`
	Metadata map[string]any `json:"metadata,omitempty"`
	Tools    []any          `json:"tools,omitempty"`
	Turns    []any          `json:"messages_and_choices,omitempty"`

	finish []string
	words  string
	split  string
	step   *int64
	log    Receipt
	text   string
}

// randomRollout makes a rollout of few different values, so that filters select some.
func randomRollout(r *rand.Rand) *rollout {
	o := new(rollout)
	number := func() *int64 {
		if r.IntN(3) == 0 {
			return nil
		}
		n := r.Int64N(5)
		return &n
	}
	o.Initial, o.Final = number(), number()
	if r.IntN(4) > 0 {
		x := float64(r.IntN(5)) / 2
		o.Reward = &x
	}
	if r.IntN(2) == 0 {
		o.Start = fmt.Sprintf("2026-01-%02dT00:00:00Z", 1+r.IntN(28))
	}
	o.Metrics = map[string]any{"turns": r.IntN(4)}
	if r.IntN(2) == 0 {
		o.Metrics["won"] = r.IntN(2) == 0
	}
	o.Metadata = map[string]any{"scenario": fmt.Sprintf("s%d", r.IntN(3)), "n": r.IntN(3), "long": strings.Repeat("x", 100*r.IntN(3))}
	if r.IntN(2) == 0 {
		o.Metadata["null"] = nil
	}
	if r.IntN(2) == 0 {
		o.Tools = []any{map[string]any{"type": "function"}}
	}
	o.words = []string{"hay", "needle in hay", "ä \"quoted\""}[r.IntN(3)]
	o.Turns = append(o.Turns, map[string]any{"role": "user", "content": o.words})
	if f := []string{"", "stop", "length"}[r.IntN(3)]; f != "" {
		o.finish = append(o.finish, f)
		o.Turns = append(o.Turns, map[string]any{"message": map[string]any{"content": "x"}, "finish_reason": f})
	}
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	o.text = string(text)
	return o
}

// selected is the reference implementation of Filter. It looks at the values of which the
// text was made.
func (o *rollout) selected(f *Filter) bool {
	return o.inBatches(f) && o.hasNumbers(f) && o.hasTexts(f) && o.hasMetrics(f.Metrics)
}

// inBatches decides the conditions on batches and times.
func (o *rollout) inBatches(f *Filter) bool {
	at := o.log.Received
	if f.ByStart && o.Start != "" {
		at, _ = time.Parse(time.RFC3339, o.Start)
	}
	return (f.Splits == nil || slices.Contains(f.Splits, o.split)) && (f.Log == ID{} || f.Log == o.log.ID) &&
		(f.From.IsZero() || !at.Before(f.From)) && (f.To.IsZero() || at.Before(f.To))
}

// hasNumbers decides the conditions on steps, versions and rewards.
func (o *rollout) hasNumbers(f *Filter) bool {
	version := cmp.Or(o.Final, o.Initial)
	step := cmp.Or(o.step, version)
	reward := 0.0
	if o.Reward != nil {
		reward = *o.Reward
	}
	return (!f.Step.Given || step != nil && *step == f.Step.N) &&
		(!f.MinVersion.Given || version != nil && *version >= f.MinVersion.N) &&
		(!f.MaxVersion.Given || version != nil && *version <= f.MaxVersion.N) &&
		(f.MinReward == nil || reward >= *f.MinReward) && (f.MaxReward == nil || reward <= *f.MaxReward)
}

// hasTexts decides the conditions on tools, texts, finish reasons and metadata.
func (o *rollout) hasTexts(f *Filter) bool {
	if f.Tools != nil && *f.Tools != (len(o.Tools) > 0) || !strings.Contains(o.words, f.Text) {
		return false
	}
	if f.Finish != nil && !slices.ContainsFunc(f.Finish, func(s string) bool { return slices.Contains(o.finish, s) }) {
		return false
	}
	for _, l := range f.Metadata {
		v, ok := o.Metadata[l.Name]
		text := fmt.Sprint(v)
		if v == nil {
			text = "null"
		}
		if !ok || text != l.Value {
			return false
		}
	}
	return true
}

func (o *rollout) hasMetrics(list []Range) bool {
	for _, m := range list {
		v, ok := o.Metrics[m.Name]
		x := 0.0
		switch v := v.(type) {
		case int:
			x = float64(v)
		case bool:
			if v {
				x = 1
			}
		}
		if !ok || m.Min != nil && x < *m.Min || m.Max != nil && x > *m.Max {
			return false
		}
	}
	return true
}

// logRandom logs batches of random rollouts and returns the rollouts in order.
func logRandom(s *testArchive, r *rand.Rand) (all []*rollout) {
	for range 12 {
		split := []string{"train", "val"}[r.IntN(2)]
		var step *int64
		head := ""
		if r.IntN(3) == 0 {
			n := r.Int64N(4)
			step, head = &n, fmt.Sprintf(`"step":%d,`, n)
		}
		var gs []string
		var here []*rollout
		for range r.IntN(5) {
			var ts []string
			for range r.IntN(5) {
				o := randomRollout(r)
				o.split, o.step = split, step
				ts = append(ts, o.text)
				here = append(here, o)
			}
			gs = append(gs, group("", ts...))
		}
		receipt := s.mustLog("t", "m", strings.Replace(batch(split, gs...), "{", "{"+head, 1))
		for _, o := range here {
			o.log = receipt
		}
		all = append(all, here...)
	}
	return all
}

// randomFilter makes a filter of about two conditions.
func randomFilter(r *rand.Rand, all []*rollout) *Filter {
	f := new(Filter)
	float := func() *float64 { x := float64(r.IntN(5)) / 2; return &x }
	o := all[r.IntN(len(all))]
	for _, set := range []func(){
		func() { f.Splits = []string{o.split} },
		func() { f.Splits = []string{"val", "train"} },
		func() { f.Log = o.log.ID },
		func() { f.Step = trajectory.Some(r.Int64N(5)) },
		func() { f.From = o.log.Received },
		func() { f.To = o.log.Received },
		func() { f.ByStart, f.From = true, time.Date(2026, 1, 1+r.IntN(28), 0, 0, 0, 0, time.UTC) },
		func() { f.ByStart, f.To = true, time.Date(2026, 1, 1+r.IntN(28), 0, 0, 0, 0, time.UTC) },
		func() { f.MinVersion = trajectory.Some(r.Int64N(5)) },
		func() { f.MaxVersion = trajectory.Some(r.Int64N(5)) },
		func() { f.MinReward = float() },
		func() { f.MaxReward = float() },
		func() { f.Finish = []string{"stop"} },
		func() { f.Finish = []string{"length", "stop"} },
		func() { yes := r.IntN(2) == 0; f.Tools = &yes },
		func() { f.Metadata = append(f.Metadata, trajectory.Label{Name: "scenario", Value: "s1"}) },
		func() { f.Metadata = append(f.Metadata, trajectory.Label{Name: "n", Value: "2"}) },
		func() { f.Metadata = append(f.Metadata, trajectory.Label{Name: "null", Value: "null"}) },
		func() {
			f.Metadata = append(f.Metadata, trajectory.Label{Name: "long", Value: strings.Repeat("x", 100*r.IntN(3))})
		},
		func() { f.Metrics = append(f.Metrics, Range{"turns", float(), nil}) },
		func() { f.Metrics = append(f.Metrics, Range{"won", nil, float()}) },
		func() { f.Text = []string{"needle", `ä "q`, "thread"}[r.IntN(3)] },
	} {
		if r.IntN(11) == 0 {
			set()
		}
	}
	return f
}
