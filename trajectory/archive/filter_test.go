package archive

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/trajectory"
)

// rollout is a trajectory as the twin of the filters sees it.
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

// invent makes a rollout; values repeat, so that filters find some.
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

// selected is the dumb twin of Filter: it looks at the rollout as it was made.
func (o *rollout) selected(f *Filter) bool {
	version := o.Final
	if version == nil {
		version = o.Initial
	}
	step := o.step
	if step == nil {
		step = version
	}
	at := o.log.Received
	if f.ByStart && o.Start != "" {
		at, _ = time.Parse(time.RFC3339, o.Start)
	}
	reward := 0.0
	if o.Reward != nil {
		reward = *o.Reward
	}
	ok := (f.Splits == nil || slices.Contains(f.Splits, o.split)) && (f.Log == ID{} || f.Log == o.log.ID) &&
		(!f.Step.Given || step != nil && *step == f.Step.N) &&
		(f.From.IsZero() || !at.Before(f.From)) && (f.To.IsZero() || at.Before(f.To)) &&
		(!f.MinVersion.Given || version != nil && *version >= f.MinVersion.N) && (!f.MaxVersion.Given || version != nil && *version <= f.MaxVersion.N) &&
		(f.MinReward == nil || reward >= *f.MinReward) && (f.MaxReward == nil || reward <= *f.MaxReward) &&
		(f.Tools == nil || *f.Tools == (len(o.Tools) > 0)) && strings.Contains(o.words, f.Text)
	if f.Finish != nil {
		ok = ok && slices.ContainsFunc(f.Finish, func(s string) bool { return slices.Contains(o.finish, s) })
	}
	for _, l := range f.Metadata {
		v, there := o.Metadata[l.Name]
		text := fmt.Sprint(v)
		if v == nil {
			text = "null"
		}
		ok = ok && there && text == l.Value
	}
	for _, m := range f.Metrics {
		v, there := o.Metrics[m.Name]
		x := 0.0
		switch v := v.(type) {
		case int:
			x = float64(v)
		case bool:
			if v {
				x = 1
			}
		}
		ok = ok && there && (m.Min == nil || x >= *m.Min) && (m.Max == nil || x <= *m.Max)
	}
	return ok
}

// fill logs some batches of rollouts and returns these in order.
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

// Every filter, alone and together, selects what its twin selects.
func TestFilters(t *testing.T) {
	s := newTestArchive(t)
	r := rand.New(rand.NewPCG(3, 4))
	all := logRandom(s, r)
	hits := 0
	for range 1500 {
		f := randomFilter(r, all)
		var want []string
		for _, o := range all {
			if o.selected(f) {
				want = append(want, o.text)
			}
		}
		hits += len(want)
		var got []string
		for _, text := range s.texts("t", "m", f) {
			if _, text, _ := strings.Cut(text, " "); strings.HasPrefix(text, "{") {
				got = append(got, text)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("%+v: %d trajectories, want %d", f, len(got), len(want))
		}
	}
	if hits < 1500 {
		t.Errorf("only %d hits: the test shows nothing", hits)
	}
}

// What is deleted by a filter is gone, what is not stays as it was (checklist 30).
func TestDelete(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	for range 6 {
		s := newTestArchive(t)
		all := logRandom(s, r)
		f := randomFilter(r, all)
		var rest []string
		selected := 0
		for _, o := range all {
			if o.selected(f) {
				selected++
			} else {
				rest = append(rest, o.text)
			}
		}
		trajectories := func() (list []string) {
			for _, text := range s.texts("t", "m", &Filter{}) {
				if at, text, _ := strings.Cut(text, " "); at != "group" {
					list = append(list, text)
				}
			}
			return list
		}
		before := len(trajectories())
		if n, err := s.Archive.Delete(t.Context(), "t", "m", f, true); err != nil || n != selected || len(trajectories()) != before {
			t.Fatalf("dry: %d %v, want %d", n, err, selected)
		}
		if n, err := s.Archive.Delete(t.Context(), "t", "m", f, false); err != nil || n != selected {
			t.Fatalf("%d %v, want %d", n, err, selected)
		}
		equal(t, trajectories(), rest)
		s.until("swept", func() bool { return s.keys(tagMarker) == 0 })
		s.reopen()
		equal(t, trajectories(), rest)
	}
}

func TestDeleteBatchAndModel(t *testing.T) {
	s := newTestArchive(t)
	a := s.mustLog("t", "m", bigBody(1))
	s.mustLog("t", "m", batch("train", group("", `{"reward":5}`)))
	s.mustLog("t", "n", batch("train", group("", `{"reward":6}`)))
	s.mustLog("u", "m", batch("train", group("", `{"reward":7}`)))
	if _, err := s.DeleteBatch(t.Context(), "u", "m", a.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if n, err := s.DeleteBatch(t.Context(), "t", "m", a.ID); err != nil || n != a.Counts {
		t.Errorf("%+v %v", n, err)
	}
	if _, err := s.DeleteBatch(t.Context(), "t", "m", a.ID); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	equal(t, s.texts("t", "m", &Filter{}), []string{"group 0 {}", `0/0 {"reward":5}`})
	s.until("swept", func() bool { return s.keys(tagMarker) == 0 && s.keys(tagBlock) == 9 })

	for range removeAtOnce/100 + 3 {
		s.mustLog("t", "m", batch("train", group("", `{}`)))
	}
	if n, err := s.DeleteModel(t.Context(), "t", "m"); err != nil || n.Trajectories != removeAtOnce/100+4 {
		t.Errorf("%+v %v", n, err)
	}
	if _, err := s.DeleteModel(t.Context(), "t", "m"); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
	if len(s.texts("t", "m", &Filter{})) != 0 || len(s.texts("t", "n", &Filter{})) != 2 || len(s.texts("u", "m", &Filter{})) != 2 {
		t.Error("too much or too little is gone")
	}
	s.until("swept", func() bool { return s.keys(tagMarker) == 0 && s.keys(tagBlock) == 6 })
	if _, err := s.Archive.Delete(t.Context(), "t", "m", &Filter{}, false); !errors.Is(err, ErrNotFound) {
		t.Error(err)
	}
}

// Two that change one batch: the second is told, and nothing is lost.
func TestChangedByOthers(t *testing.T) {
	s := newTestArchive(t)
	r := s.mustLog("t", "m", batch("train", group("", `{"reward":1}`, `{"reward":2}`)))
	var old *Batch
	if err := s.View("t", func(v *View) (err error) {
		old, err = v.Batch("m", r.ID)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	one := 1.0
	if n, err := s.Archive.Delete(t.Context(), "t", "m", &Filter{MaxReward: &one}, false); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	all := func(*Contents, *Row, *trajectory.Trajectory) (bool, error) { return true, nil }
	if err := s.rewrite(t.Context(), "t", old, all); !errors.Is(err, ErrChanged) && !errors.Is(err, ErrDamaged) {
		t.Errorf("%v", err) // or its blocks are swept already
	}
	equal(t, s.texts("t", "m", &Filter{}), []string{"group 0 {}", `0/1 {"reward":2}`})
}

// A process that ends between a change and its sweep leaves nothing either.
func TestReplacedIsSweptLater(t *testing.T) {
	s := newTestArchive(t)
	r := s.mustLog("t", "m", batch("train", group("", `{"reward":1}`, `{"reward":2}`)))
	s.Archive.stop()
	s.Archive.ended.Wait() // no sweeper
	one := 1.0
	if n, err := s.Archive.Delete(t.Context(), "t", "m", &Filter{MaxReward: &one}, false); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if s.keys(tagBlock) != 6 || s.keys(tagMarker) != 1 {
		t.Errorf("%d blocks, %d markers", s.keys(tagBlock), s.keys(tagMarker))
	}
	s.reopen()
	s.until("swept", func() bool { return s.keys(tagBlock) == 3 && s.keys(tagMarker) == 0 })
	equal(t, s.texts("t", "m", &Filter{}), []string{"group 0 {}", `0/1 {"reward":2}`})
	s.Archive.stop()
	s.Archive.ended.Wait()
	if _, err := s.DeleteBatch(t.Context(), "t", "m", r.ID); err != nil {
		t.Fatal(err)
	}
	s.reopen()
	s.until("swept", func() bool { return s.keys(tagBlock) == 0 && s.keys(tagMarker) == 0 })
}

func TestRecords(t *testing.T) {
	x := &Row{Group: 1 << 40, Index: 3, text: textRange{1 << 50, 7}, Facts: trajectory.Facts{
		Reward: -0.1, Scored: true, Initial: trajectory.Some(-1 << 63), Final: trajectory.Some(1<<63 - 1), Start: time.Unix(-5, 999).UTC(), Tools: true,
		Finish: []string{"", "stop"}, Choices: 2, Tokens: trajectory.Some(0), Metrics: []trajectory.Score{{Name: "", Value: 1e300}, {Name: "b"}},
		Metadata: []trajectory.Label{{Name: "a", Value: "x"}, {Name: "b", Value: "c"}},
	}}
	g := &GroupRow{Index: 5, Trajectories: 6, Exceptions: 7, Scored: 2, Mean: 0.1, Deviation: 0.2, Metrics: []trajectory.Score{{Name: "j", Value: 1}}, text: textRange{3, 4}}
	for _, want := range []*Row{x, {}, {Facts: trajectory.Facts{Start: time.Unix(0, 0).UTC()}}} {
		b := want.append(nil)
		var got Row
		if err := got.parse(b); err != nil || !reflect.DeepEqual(&got, want) {
			t.Errorf("%+v %v, want %+v", got, err, want)
		}
		for n := range b {
			if got.parse(b[:n]) == nil {
				t.Errorf("cut at %d: no error", n)
			}
		}
		if got.parse(append(b, 0)) == nil {
			t.Error("too long: no error")
		}
	}
	var got GroupRow
	if err := got.parse(g.append(nil)); err != nil || !reflect.DeepEqual(&got, g) {
		t.Errorf("%+v %v, want %+v", got, err, g)
	}
	if len(rowLabel(strings.Repeat("x", 1000))) != longLabel || rowLabel(strings.Repeat("x", 1000)) == rowLabel(strings.Repeat("x", 1001)) || rowLabel("short") != "short" {
		t.Error("label")
	}
}

// Records from a damaged disk are an error or a record, never a panic.
func FuzzRecords(f *testing.F) {
	f.Add((&Row{Facts: trajectory.Facts{Scored: true, Finish: []string{"stop"}, Metadata: []trajectory.Label{{Name: "a", Value: "b"}}}}).append(nil))
	f.Add((&GroupRow{Metrics: []trajectory.Score{{Name: "a", Value: 1}}}).append(nil))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var r Row
		var g GroupRow
		_, _ = r.parse(b), g.parse(b)
		_, _ = decodeBatch("m", ID{}, b)
	})
}
