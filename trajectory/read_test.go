package trajectory

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"

	"weir/internal/jsontext"
)

// heap is a sink that keeps everything.
type heap struct {
	trajectories []Trajectory
	groups       []Group
}

func (h *heap) Trajectory(t *Trajectory) error {
	c := *t
	c.Text = bytes.Clone(t.Text)
	h.trajectories = append(h.trajectories, c)
	return nil
}

func (h *heap) Group(g *Group) error {
	c := *g
	c.Text = bytes.Clone(g.Text)
	h.groups = append(h.groups, c)
	return nil
}

func read(body string) (*heap, Envelope, error) {
	h := new(heap)
	e, err := Read(strings.NewReader(body), DefaultLimits(), h)
	return h, e, err
}

// example is a body with everything that docs/interface/trajectories.md, section 2, describes.
func example(t testing.TB) string {
	t.Helper()
	b, err := os.ReadFile("testdata/example.json")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

func one(trajectory string) string {
	return `{"split":"train","trajectory_groups":[{"trajectories":[` + trajectory + `]}]}`
}

func TestExample(t *testing.T) {
	body := example(t)
	h, e, err := read(body)
	if err != nil {
		t.Fatal(err)
	}
	if want := (Counts{1, 1, 1}); e.Counts != want || e.Split != "train" || e.Step.Given || e.Bytes != int64(len(body)) {
		t.Errorf("%+v", e)
	}
	var in struct {
		Groups []struct {
			Trajectories []json.RawMessage
		} `json:"trajectory_groups"`
	}
	if err := json.Unmarshal([]byte(body), &in); err != nil {
		t.Fatal(err)
	}
	var want bytes.Buffer
	if err := json.Compact(&want, in.Groups[0].Trajectories[0]); err != nil {
		t.Fatal(err)
	}
	got := h.trajectories[0]
	if string(got.Text) != want.String() {
		t.Errorf("text\n%s, want\n%s", got.Text, want.String())
	}
	got.Text = nil
	if want := (Trajectory{Facts: Facts{
		Reward: 0.75, Scored: true, Initial: Some(12), Final: Some(12), Finish: []string{"stop"}, Choices: 1, Tokens: Some(2),
		Metrics:  []Score{{"duration", 8.41}, {"max_tile", 512}, {"invalid_move", 0}},
		Metadata: []Label{{"scenario_id", "seed-881"}, {"attempt", "3"}, {"note", "null"}},
	}}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v\nwant\n%+v", got, want)
	}
	g := h.groups[0]
	if g.Trajectories != 1 || g.Exceptions != 1 || !reflect.DeepEqual(g.Metrics, []Score{{"judge_score", 0.9}}) {
		t.Errorf("%+v", g)
	}
	if want := `{"exceptions":[{"type":"<class 'TimeoutError'>","message":"rollout timed out","traceback":"Traceback ..."}],"metadata":{"scenario_id":"seed-881"},"metrics":{"judge_score":0.9},"logs":[]}`; string(g.Text) != want {
		t.Errorf("group\n%s, want\n%s", g.Text, want)
	}
}

// What is accepted, by the rows of docs/interface/trajectories.md, section 14.
func TestAccepted(t *testing.T) {
	for name, body := range map[string]string{
		"2 empty trajectory":        one(`{}`),
		"3 empty group":             `{"split":"s","trajectory_groups":[{}]}`,
		"3 only exceptions":         `{"split":"s","trajectory_groups":[{"exceptions":[{"type":"a","message":"b","traceback":"c"}]}]}`,
		"3 no groups":               `{"split":"s","trajectory_groups":[]}`,
		"3 no trajectories":         `{"split":"s","trajectory_groups":[{"trajectories":[]}]}`,
		"4 generation A":            one(`{"messages_and_choices":[],"tools":null,"additional_histories":[],"reward":0.0,"initial_policy_version":null,"final_policy_version":null,"metrics":{},"metadata":{},"logs":[],"start_time":null}`),
		"8 split behind":            `{"trajectory_groups":[{"trajectories":[{}]}],"split":"train"}`,
		"9 unknown members":         `{"x":{"y":[1]},"split":"s","trajectory_groups":[{"z":1,"trajectories":[{"auto_metrics":{},"exchanges":{"chat_completions":[]},"q":0}]}]}`,
		"10 metrics":                one(`{"metrics":{"a":true,"b":3,"c":2.5,"d":false}}`),
		"11 nested metadata":        one(`{"metadata":{"a":{"b":[1,null]},"c":[]}}`),
		"12 version 3.0":            one(`{"initial_policy_version":3.0,"final_policy_version":3e0}`),
		"13 start_time":             one(`{"start_time":"2026-03-04T09:15:27.412345678901+02:00"}`),
		"15 history":                one(`{"additional_histories":[{"messages_and_choices":[{"role":"user"}],"tools":null},{},{"tools":[{}]}]}`),
		"16 split ../../x":          `{"split":"../../x","trajectory_groups":[]}`,
		"16 split emoji":            `{"split":"🦊","trajectory_groups":[]}`,
		"16 escaped emoji":          `{"split":"\ud83e\udd8a","trajectory_groups":[]}`,
		"split of 128 characters":   `{"split":"` + strings.Repeat("ä", 128) + `","trajectory_groups":[]}`,
		"29 lone surrogate":         one(`{"metadata":{"s":"\ud83d","n":9223372036854775807,"z":1e-400}}`),
		"reward below zero":         one(`{"reward":-1e300}`),
		"reward underflows":         one(`{"reward":1e-400}`),
		"step":                      `{"split":"s","trajectory_groups":[],"step":3}`,
		"step null":                 `{"split":"s","trajectory_groups":[],"step":null}`,
		"body's model_id":           `{"model_id":17,"split":"s","trajectory_groups":[]}`,
		"keys with escapes":         `{"\u0073plit":"s","trajectory\u005fgroups":[{"tr\u0061jectories":[{"rew\u0061rd":1}]}]}`,
		"white space":               " \r\n\t{ \"split\" : \"s\" , \"trajectory_groups\" : [ { \"trajectories\" : [ { } , { \"reward\" : 1 } ] } , { } ] } \n",
		"group metrics of any kind": `{"split":"s","trajectory_groups":[{"metrics":{"a":"text"},"logs":[1],"metadata":{}}]}`,
	} {
		if _, _, err := read(body); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// What is refused: causes and places of docs/interface/trajectories.md, section 3.
func TestRefused(t *testing.T) {
	const first = "body.trajectory_groups.0.trajectories.0."
	for name, c := range map[string]struct {
		body string
		want []string // type@loc
	}{
		"empty body":           {"", []string{"missing@body"}},
		"white space":          {" \n", []string{"missing@body"}},
		"cut":                  {`{"split":"s"`, []string{"json_invalid@body.12"}},
		"trailing garbage":     {`{"split":"s","trajectory_groups":[]} x`, []string{"json_invalid@body.37"}},
		"two values":           {`{"split":"s","trajectory_groups":[]}{}`, []string{"json_invalid@body.36"}},
		"NaN":                  {one(`{"reward":NaN}`), []string{"json_invalid@body.65"}},
		"minus Infinity":       {one(`{"reward":-Infinity}`), []string{"json_invalid@body.66"}},
		"byte order mark":      {"\ufeff{}", []string{"json_invalid@body.0"}},
		"bad UTF-8":            {one("{\"logs\":[\"\xff\"]}"), []string{"json_invalid@body.65"}},
		"bad escape":           {one(`{"logs":["\x"]}`), []string{"json_invalid@body.65"}},
		"control character":    {one("{\"logs\":[\"\n\"]}"), []string{"json_invalid@body.65"}},
		"comma at the end":     {one(`{},`), []string{"json_invalid@body.58"}},
		"leading zero":         {one(`{"reward":01}`), []string{"json_invalid@body.66"}},
		"too deep":             {one(`{"metadata":` + strings.Repeat(`[`, 200) + strings.Repeat(`]`, 200) + `}`), []string{"json_invalid@body.262"}},
		"array":                {`[]`, []string{"model_attributes_type@body"}},
		"null":                 {`null`, []string{"model_attributes_type@body"}},
		"nothing in it":        {`{}`, []string{"missing@body.split", "missing@body.trajectory_groups"}},
		"8 no split":           {`{"trajectory_groups":[]}`, []string{"missing@body.split"}},
		"no groups":            {`{"split":"s"}`, []string{"missing@body.trajectory_groups"}},
		"split null":           {`{"split":null,"trajectory_groups":[]}`, []string{"string_type@body.split"}},
		"split number":         {`{"split":1,"trajectory_groups":[]}`, []string{"string_type@body.split"}},
		"split empty":          {`{"split":"","trajectory_groups":[]}`, []string{"string_too_short@body.split"}},
		"split long":           {`{"split":"` + strings.Repeat("x", 129) + `","trajectory_groups":[]}`, []string{"string_too_long@body.split"}},
		"split control":        {`{"split":"a\u0007","trajectory_groups":[]}`, []string{"value_error@body.split"}},
		"split surrogate":      {`{"split":"a\ud83d","trajectory_groups":[]}`, []string{"value_error@body.split"}},
		"step text":            {`{"split":"s","trajectory_groups":[],"step":"3"}`, []string{"int_type@body.step"}},
		"step 3.5":             {`{"split":"s","trajectory_groups":[],"step":3.5}`, []string{"int_from_float@body.step"}},
		"step -1":              {`{"split":"s","trajectory_groups":[],"step":-1}`, []string{"greater_than_equal@body.step"}},
		"groups null":          {`{"split":"s","trajectory_groups":null}`, []string{"list_type@body.trajectory_groups"}},
		"groups object":        {`{"split":"s","trajectory_groups":{}}`, []string{"list_type@body.trajectory_groups"}},
		"groups twice":         {`{"split":"s","trajectory_groups":[],"trajectory_groups":[]}`, []string{"value_error@body.trajectory_groups"}},
		"group not an object":  {`{"split":"s","trajectory_groups":[1,null,[]]}`, []string{"model_attributes_type@body.trajectory_groups.0", "model_attributes_type@body.trajectory_groups.1", "model_attributes_type@body.trajectory_groups.2"}},
		"trajectories null":    {`{"split":"s","trajectory_groups":[{"trajectories":null}]}`, []string{"list_type@body.trajectory_groups.0.trajectories"}},
		"trajectories twice":   {`{"split":"s","trajectory_groups":[{"trajectories":[],"trajectories":[{}]}]}`, []string{"value_error@body.trajectory_groups.0.trajectories"}},
		"group containers":     {`{"split":"s","trajectory_groups":[{"exceptions":{},"metadata":[],"metrics":null,"logs":""}]}`, []string{"list_type@body.trajectory_groups.0.exceptions", "dict_type@body.trajectory_groups.0.metadata", "dict_type@body.trajectory_groups.0.metrics", "list_type@body.trajectory_groups.0.logs"}},
		"trajectory":           {one(`1,"x",null,[]`), []string{"model_attributes_type@body.trajectory_groups.0.trajectories.0", "model_attributes_type@body.trajectory_groups.0.trajectories.1", "model_attributes_type@body.trajectory_groups.0.trajectories.2", "model_attributes_type@body.trajectory_groups.0.trajectories.3"}},
		"5 reward null":        {one(`{"reward":null}`), []string{"float_type@" + first + "reward"}},
		"5 reward text":        {one(`{"reward":"0.5"}`), []string{"float_type@" + first + "reward"}},
		"5 reward true":        {one(`{"reward":true}`), []string{"float_type@" + first + "reward"}},
		"5 reward overflow":    {one(`{"reward":1e400}`), []string{"float_type@" + first + "reward"}},
		"6 two trajectories":   {one(`{"reward":null},{},{"logs":1}`), []string{"float_type@" + first + "reward", "list_type@body.trajectory_groups.0.trajectories.2.logs"}},
		"10 metric text":       {one(`{"metrics":{"a":1,"b":"x","c":null,"d":1e999}}`), []string{"float_type@" + first + "metrics.b", "float_type@" + first + "metrics.c", "float_type@" + first + "metrics.d"}},
		"metrics null":         {one(`{"metrics":null}`), []string{"dict_type@" + first + "metrics"}},
		"metadata null":        {one(`{"metadata":null}`), []string{"dict_type@" + first + "metadata"}},
		"12 version 3.5":       {one(`{"initial_policy_version":3.5}`), []string{"int_from_float@" + first + "initial_policy_version"}},
		"12 version text":      {one(`{"final_policy_version":"3"}`), []string{"int_type@" + first + "final_policy_version"}},
		"version true":         {one(`{"final_policy_version":true}`), []string{"int_type@" + first + "final_policy_version"}},
		"version 2^63":         {one(`{"final_policy_version":9223372036854775808}`), []string{"int_type@" + first + "final_policy_version"}},
		"13 start_time":        {one(`{"start_time":"yesterday"}`), []string{"datetime_parsing@" + first + "start_time"}},
		"13 start_time number": {one(`{"start_time":5}`), []string{"datetime_type@" + first + "start_time"}},
		"14 turns":             {one(`{"messages_and_choices":[5,{},null,[]]}`), []string{"dict_type@" + first + "messages_and_choices.0", "dict_type@" + first + "messages_and_choices.2", "dict_type@" + first + "messages_and_choices.3"}},
		"turns null":           {one(`{"messages_and_choices":null}`), []string{"list_type@" + first + "messages_and_choices"}},
		"tools":                {one(`{"tools":{}}`), []string{"list_type@" + first + "tools"}},
		"tool":                 {one(`{"tools":[{},1]}`), []string{"dict_type@" + first + "tools.1"}},
		"histories":            {one(`{"additional_histories":null}`), []string{"list_type@" + first + "additional_histories"}},
		"history":              {one(`{"additional_histories":[1,{"messages_and_choices":[2],"tools":3}]}`), []string{"dict_type@" + first + "additional_histories.0", "dict_type@" + first + "additional_histories.1.messages_and_choices.0", "list_type@" + first + "additional_histories.1.tools"}},
		"logs":                 {one(`{"logs":["a",1]}`), []string{"string_type@" + first + "logs.1"}},
		"missing comes last":   {`{"trajectory_groups":[{"trajectories":[{"reward":null}]}]}`, []string{"float_type@" + first + "reward", "missing@body.split"}},
		"syntax wins":          {`{"trajectory_groups":[{"trajectories":[{"reward":null}]}]`, []string{"json_invalid@body.57"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, r := range []io.Reader{strings.NewReader(c.body), iotest.OneByteReader(strings.NewReader(c.body))} {
				_, err := Read(r, DefaultLimits(), new(heap))
				var bad *Invalid
				if !errors.As(err, &bad) {
					t.Fatalf("error %v", err)
				}
				var got []string
				for _, d := range bad.Details {
					got = append(got, d.Type+"@"+strings.Join(d.Loc, "."))
					if d.Msg == "" {
						t.Error("no msg")
					}
				}
				if !reflect.DeepEqual(got, c.want) {
					t.Errorf("%q, want %q", got, c.want)
				}
			}
		})
	}
}

// Not more than 100 details, and the rest is not read (docs/interface/trajectories.md, section 3).
func TestEnoughDetails(t *testing.T) {
	for name, body := range map[string]string{
		"trajectories": one(strings.Repeat(`{"reward":null},`, 150) + `{}`),
		"metrics":      one(`{"metrics":{"a":` + strings.Repeat(`"","b":`, 150) + `""}}`),
		"turns":        one(`{"messages_and_choices":[` + strings.Repeat(`1,`, 150) + `1]}`),
		"groups":       `{"split":"s","trajectory_groups":[` + strings.Repeat(`1,`, 150) + `1]}`,
	} {
		r := strings.NewReader(body + strings.Repeat(" ", 10*jsontext.Window))
		_, err := Read(r, DefaultLimits(), new(heap))
		var bad *Invalid
		if !errors.As(err, &bad) || len(bad.Details) != MaxDetails {
			t.Errorf("%s: %v", name, err)
		}
		if r.Len() == 0 {
			t.Errorf("%s: read to the end", name)
		}
	}
}

// A bad trajectory after 10,000 good ones: the error says so, and the sink got
// nothing after it (docs/interface/trajectories.md, section 14).
func TestNothingAfterAnError(t *testing.T) {
	h, _, err := read(one(strings.Repeat(`{},`, 10_000) + `{"reward":"x"},{},{}`))
	var bad *Invalid
	if !errors.As(err, &bad) || bad.Details[0].Loc[4] != "10000" {
		t.Errorf("%v", err)
	}
	if len(h.trajectories) != 10_000 || len(h.groups) != 0 {
		t.Errorf("%d trajectories, %d groups", len(h.trajectories), len(h.groups))
	}
}

func TestLimits(t *testing.T) {
	l := Limits{Trajectory: 100, Trajectories: 3, Depth: 200}
	text := `{"logs":["` + strings.Repeat("x", 100-len(`{"logs":[""]}`)) + `"]}`
	for name, c := range map[string]struct {
		body string
		want error
	}{
		"fits":                {one(text), nil},
		"fits without spaces": {one(strings.Replace(text, ":", strings.Repeat(" ", 3*jsontext.Window)+":", 1)), nil},
		"one byte more":       {one(strings.Replace(text, "x", "xx", 1)), ErrTooLarge},
		"much more":           {one(strings.Replace(text, "x", strings.Repeat("x", 3*jsontext.Window), 1)), ErrTooLarge},
		"group":               {`{"split":"s","trajectory_groups":[{"logs":["` + strings.Repeat("x", 60) + `"],"l":["` + strings.Repeat("x", 60) + `"]}]}`, ErrTooLarge},
		"name":                {`{"` + strings.Repeat("x", 101) + `":1}`, ErrTooLarge},
		"three":               {one(`{},{},{}`), nil},
		"four":                {one(`{},{},{},{}`), ErrTooMany},
		"four in groups":      {`{"split":"s","trajectory_groups":[{"trajectories":[{},{}]},{"trajectories":[{},{}]}]}`, ErrTooMany},
		"four groups":         {`{"split":"s","trajectory_groups":[{},{},{},{}]}`, ErrTooMany},
	} {
		if _, err := Read(strings.NewReader(c.body), l, new(heap)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	// The buffer is asked for before it grows, and never holds more than was granted.
	granted, errMemory := int64(0), errors.New("no memory")
	l = DefaultLimits()
	l.Reserve = func(n int64) error {
		if granted+n > 1<<20 {
			return errMemory
		}
		granted += n
		return nil
	}
	large := one(`{"logs":["` + strings.Repeat("x", 900_000) + `"]},{}`)
	if _, err := Read(strings.NewReader(large), l, new(heap)); !errors.Is(err, errMemory) && err != nil {
		t.Error(err)
	} else if granted == 0 || granted > 1<<20 || err == nil && granted < 900_000 {
		t.Errorf("%d bytes granted, %v", granted, err)
	}
	granted = 0
	if _, err := Read(strings.NewReader(one(`{"logs":["`+strings.Repeat("x", 1<<20)+`"]}`)), l, new(heap)); !errors.Is(err, errMemory) {
		t.Error(err)
	}
	for _, bad := range []Limits{{}, {Trajectory: 1, Trajectories: 1, Depth: 4}, {Trajectory: -1, Trajectories: 1, Depth: 9}} {
		if bad.Validate() == nil {
			t.Errorf("%d, %d, %d is valid", bad.Trajectory, bad.Trajectories, bad.Depth)
		}
	}
	if err := DefaultLimits().Validate(); err != nil {
		t.Error(err)
	}
}

var errSink = errors.New("disk full")

// broken fails on what it is told to.
type broken struct{ trajectory, group error }

func (b broken) Trajectory(*Trajectory) error { return b.trajectory }
func (b broken) Group(*Group) error           { return b.group }

func TestErrorsOfOthers(t *testing.T) {
	body := example(t)
	for _, s := range []broken{{trajectory: errSink}, {group: errSink}} {
		if _, err := Read(strings.NewReader(body), DefaultLimits(), s); !errors.Is(err, errSink) {
			t.Errorf("%+v: %v", s, err)
		}
	}
	// Wherever the body is cut by an error, that error is what comes out.
	for n := range len(body) {
		r := io.MultiReader(strings.NewReader(body[:n]), iotest.ErrReader(errSink))
		if _, err := Read(r, DefaultLimits(), new(heap)); !errors.Is(err, errSink) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if _, err := Read(strings.NewReader(body[:n]), DefaultLimits(), new(heap)); err == nil {
			t.Fatalf("cut at %d: accepted", n)
		}
	}
	if _, err := Read(stuck{}, DefaultLimits(), new(heap)); !errors.Is(err, io.ErrNoProgress) {
		t.Error(err)
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// What is exact stays exact (docs/interface/trajectories.md, section 14), wherever the windows end.
func TestExact(t *testing.T) {
	const exact = `{"metadata":{"big":123456789012345678901234567890,"one":1.0,"s":"\ud83d","pair":"\ud83d\ude00","raw":"😀ä","esc":"\/\u0041","z":1e-400,"z2":-0.0,"n":9223372036854775807},"metadata2":null,"reward":1.50,"reward":2.0}`
	for pad := range 300 {
		body := one(`{"logs":["` + strings.Repeat("x", jsontext.Window-350+pad) + `"]},` + exact)
		for _, r := range []io.Reader{strings.NewReader(body), iotest.HalfReader(strings.NewReader(body)), iotest.DataErrReader(strings.NewReader(body))} {
			h := new(heap)
			if _, err := Read(r, DefaultLimits(), h); err != nil {
				t.Fatal(err)
			}
			if got := string(h.trajectories[1].Text); got != exact {
				t.Fatalf("pad %d: %s", pad, got)
			}
			if h.trajectories[1].Reward != 2 {
				t.Errorf("the last of two members counts: %v", h.trajectories[1].Reward)
			}
		}
	}
}

// A member that is there a million times costs a million steps, not their square.
func TestManyNames(t *testing.T) {
	var b strings.Builder
	for i := range 200_000 {
		fmt.Fprintf(&b, `"m%d":%d,`, i, i)
	}
	b.WriteString(`"m7":0.5`)
	h, _, err := read(one(`{"metrics":{` + b.String() + `},"metadata":{` + b.String() + `}}`))
	if err != nil {
		t.Fatal(err)
	}
	f := h.trajectories[0].Facts
	if len(f.Metrics) != 200_000 || f.Metrics[7] != (Score{"m7", 0.5}) || len(f.Metadata) != 200_000 || f.Metadata[7].Value != "0.5" {
		t.Errorf("%d %v", len(f.Metrics), f.Metrics[7])
	}
}

// A large body passes through little memory: one trajectory and a window.
func TestMemory(t *testing.T) {
	rollout := `{"logs":["` + strings.Repeat("x", 100_000) + `"]},`
	read := func(n int) float64 {
		body := `{"split":"s","trajectory_groups":[{"trajectories":[` + strings.Repeat(rollout, n) + `{}]}]}`
		return testing.AllocsPerRun(1, func() {
			if _, err := Read(strings.NewReader(body), DefaultLimits(), broken{}); err != nil {
				t.Fatal(err)
			}
		})
	}
	few, many := read(10), read(300)
	if more := (many - few) / 290; more > 10 {
		t.Errorf("%v allocations for each trajectory", more)
	}
}
