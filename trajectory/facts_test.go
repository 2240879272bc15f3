package trajectory

import (
	"math"
	"reflect"
	"testing"
	"time"

	"weir/internal/jsontext"
)

func facts(t *testing.T, text string) Facts {
	t.Helper()
	f, err := Describe(Value(text), nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return f
}

// A choice has a message and a finish_reason (docs/interface/trajectories.md, section 2.4).
func TestChoices(t *testing.T) {
	for _, c := range []struct {
		turn    string
		choices int
		finish  []string
		tokens  Int
	}{
		{`{"role":"assistant","content":"x"}`, 0, nil, Int{}},
		{`{"role":"assistant","content":"x","finish_reason":"stop"}`, 0, nil, Int{}},
		{`{"message":{}}`, 0, nil, Int{}},
		{`{"message":null,"finish_reason":"stop"}`, 0, nil, Int{}},
		{`{"message":{},"finish_reason":"stop"}`, 1, []string{"stop"}, Int{}},
		{`{"finish_reason":null,"message":{}}`, 1, nil, Int{}},
		{`{"finish_reason":"length","message":{},"logprobs":{"content":[{},{},{}]}}`, 1, []string{"length"}, Some(3)},
		{`{"finish_reason":"length","message":{},"logprobs":{"content":null,"refusal":null},"token_ids":[1,2]}`, 1, []string{"length"}, Some(2)},
		{`{"finish_reason":"stop","message":{},"logprobs":null,"token_ids":[]}`, 1, []string{"stop"}, Some(0)},
		{`{"finish_reason":"stop","message":{},"token_ids":[1]},{"role":"tool"},{"finish_reason":"length","message":{},"token_ids":[1]},{"finish_reason":"stop","message":{},"token_ids":[2]}`, 3, []string{"stop", "length"}, Some(3)},
		{`{"finish_reason":"stop","message":{},"token_ids":[1]},{"finish_reason":"stop","message":{}}`, 2, []string{"stop"}, Int{}},
	} {
		f := facts(t, `{"messages_and_choices":[`+c.turn+`]}`)
		if f.Choices != c.choices || !reflect.DeepEqual(f.Finish, c.finish) || f.Tokens != c.tokens {
			t.Errorf("%s: %d %q %v", c.turn, f.Choices, f.Finish, f.Tokens)
		}
		trainable := 0
		for _, turn := range Turns(Value(`[`+c.turn+`]`), nil) {
			if turn.Choice {
				trainable++
			}
		}
		if trainable != c.choices {
			t.Errorf("%s: Turns finds %d choices", c.turn, trainable)
		}
	}
}

func TestVersions(t *testing.T) {
	for text, want := range map[string]Int{
		`null`: {}, `3`: Some(3), `3.0`: Some(3), `-1`: Some(-1), `30e-1`: Some(3), `1e3`: Some(1000),
		`9223372036854775807`: Some(math.MaxInt64), `-9223372036854775808`: Some(math.MinInt64), `-9.223372036854775808e18`: Some(math.MinInt64),
	} {
		if f := facts(t, `{"final_policy_version":`+text+`}`); f.Final != want || f.Version() != want {
			t.Errorf("%s: %v, want %v", text, f.Final, want)
		}
	}
	for _, text := range []string{`9.3e18`, `1e400`, `-1e400`, `true`, `[]`, `0.1`} {
		if _, err := Describe(Value(`{"final_policy_version":`+text+`}`), nil); err == nil {
			t.Errorf("%s is accepted", text)
		}
	}
	if f := facts(t, `{"initial_policy_version":4}`); f.Version() != Some(4) {
		t.Errorf("%v", f.Version())
	}
	if f := facts(t, `{"initial_policy_version":4,"final_policy_version":5}`); f.Version() != Some(5) {
		t.Errorf("%v", f.Version())
	}
}

// Forms of start_time (docs/interface/trajectories.md, section 2.6).
func TestParseTime(t *testing.T) {
	at := func(s string) time.Time {
		x, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	for text, want := range map[string]string{
		"2026-03-04T09:15:27Z":                "2026-03-04T09:15:27Z",
		"2026-03-04t09:15:27z":                "2026-03-04T09:15:27Z",
		"2026-03-04 09:15:27":                 "2026-03-04T09:15:27Z",
		"2026-03-04T09:15:27.4":               "2026-03-04T09:15:27.4Z",
		"2026-03-04T09:15:27.412345678912345": "2026-03-04T09:15:27.412345678Z",
		"2026-03-04T09:15:27+02:00":           "2026-03-04T07:15:27Z",
		"2026-03-04 09:15:27.5-00:30":         "2026-03-04T09:45:27.5Z",
		"2026-03-04":                          "2026-03-04T00:00:00Z",
	} {
		got, ok := ParseTime(text)
		if !ok || !got.Equal(at(want)) {
			t.Errorf("%s: %v %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "now", "2026-3-4", "2026-02-30", "2026-03-04T", "2026-03-04T09:15", "2026-03-04T25:00:00Z", "2026-03-04_09:15:27Z", "2026-03-04T09:15:27,5Z", "2026-03-04T09:15:27 +02:00", "1772900000", "2026-03-04T09:15:27Zx", "26-03-04T09:15:27Z"} {
		if x, ok := ParseTime(text); ok {
			t.Errorf("%q: %v", text, x)
		}
	}
}

// The example of docs/interface/trajectories.md, section 10, and the definitions around it.
func TestStats(t *testing.T) {
	var s Stats
	score := func(r float64, metrics ...Score) {
		s.Trajectory(&Facts{Reward: r, Scored: true, Metrics: metrics, Tokens: Some(5)})
	}
	score(0, Score{"turns", 2})
	score(1, Score{"turns", 4}, Score{"won", 1})
	s.Group(0, []Score{{"judge", 0.5}})
	score(1)
	score(1)
	score(1)
	s.Group(1, []Score{{"judge", 1}})
	s.Group(0, []Score{{"judge", 100}}) // without trajectories: does not count
	got := s.Summary()
	if want := (Counts{3, 5, 1}); got.Counts != want {
		t.Errorf("%+v", got.Counts)
	}
	want := []Score{{"exception_rate", 1.0 / 6}, {"group/judge", 0.75}, {"reward", 0.8}, {"reward_std_dev", 0.25}, {"turns", 3}, {"won", 1}}
	if !reflect.DeepEqual(got.Metrics, want) {
		t.Errorf("%v, want %v", got.Metrics, want)
	}
	if *got.Reward != (Distribution{Min: 0, P10: 0.4, P50: 1, P90: 1, Max: 1}) || *got.Flat != 0.5 || *got.Tokens != 25 || *got.Truncated != 0 {
		t.Errorf("%+v %v %v %v", *got.Reward, *got.Flat, *got.Tokens, *got.Truncated)
	}

	s = Stats{}
	if got := s.Summary(); got.Reward != nil || got.Metrics != nil || got.Flat != nil || got.Tokens != nil {
		t.Errorf("of nothing: %+v", got)
	}
	// Who has no reward yet stays out of the reward metrics.
	s.Trajectory(&Facts{})
	s.Trajectory(&Facts{Scored: true, Reward: 4, Finish: []string{"length"}, Metrics: []Score{{"reward", 17}, {"inf", math.MaxFloat64}}})
	s.Trajectory(&Facts{Metrics: []Score{{"inf", math.MaxFloat64}}})
	s.Group(0, nil)
	got = s.Summary()
	if want := []Score{{"exception_rate", 0}, {"reward", 4}, {"reward_std_dev", 0}}; !reflect.DeepEqual(got.Metrics, want) {
		t.Errorf("%v, want %v", got.Metrics, want)
	}
	if got.Tokens != nil || *got.Truncated != 1.0/3 || got.Flat != nil {
		t.Errorf("%+v", got)
	}
	s = Stats{}
	s.Group(3, nil)
	if got := s.Summary(); !reflect.DeepEqual(got.Metrics, []Score{{"exception_rate", 1}}) {
		t.Errorf("%v", got.Metrics)
	}
}

func TestWithoutLogprobs(t *testing.T) {
	for in, want := range map[string]string{
		`{}`: `{}`,
		`{"messages_and_choices":[{"logprobs":1,"message":{"logprobs":2}},{"a":1,"logprobs":{"content":[{}]},"b":2},5,{"b":1,"logprobs":0}],"logprobs":7,"metadata":{"logprobs":3}}`: `{"messages_and_choices":[{"message":{"logprobs":2}},{"a":1,"b":2},5,{"b":1}],"logprobs":7,"metadata":{"logprobs":3}}`,
		`{"additional_histories":[{"messages_and_choices":[{"logprobs":1}],"tools":[{"logprobs":1}]},{}],"reward":1.0}`:                                                              `{"additional_histories":[{"messages_and_choices":[{}],"tools":[{"logprobs":1}]},{}],"reward":1.0}`,
		`{"messages_and_choices":[{"log\u0070robs":"a,\"}","x\"":"\ud83d"}]}`:                                                                                                        `{"messages_and_choices":[{"x\"":"\ud83d"}]}`,
		`{"messages_and_choices":null,"additional_histories":{}}`:                                                                                                                    `{"messages_and_choices":null,"additional_histories":{}}`,
	} {
		if got := string(AppendWithoutLogprobs(nil, Value(in), nil)); got != want {
			t.Errorf("%s\n%s, want\n%s", in, got, want)
		}
	}
}

func TestMessages(t *testing.T) {
	turns := Turns(mustCompact(t, `[{"role":"user","content":[{"type":"text","text":"a "},{"type":"image_url"},{"text":"b"}]},
		{"finish_reason":"stop","message":{"role":"assistant","content":null,"tool_calls":[{"id":"1"}]}},{"role":"tool","content":"c\u0041","tool_call_id":"1","tool_calls":[]}]`), nil)
	if len(turns) != 3 {
		t.Fatal(len(turns))
	}
	a, b, c := turns[0].Open(nil), turns[1].Open(nil), turns[2].Open(nil)
	if a.Role != "user" || a.Text || a.Content != nil || turns[0].Plain(nil) != "a b" {
		t.Errorf("%+v", a)
	}
	if b.Role != "assistant" || !b.Text || b.Content != nil || string(b.ToolCalls) != `[{"id":"1"}]` || !turns[1].Choice {
		t.Errorf("%+v", b)
	}
	if c.Role != "tool" || *c.Content != "cA" || *c.ToolCallID != "1" || c.ToolCalls != nil || turns[2].Plain(nil) != "cA" {
		t.Errorf("%+v", c)
	}
	for _, text := range []string{`{"messages_and_choices":[{"content":"hay needle"}]}`, `{"messages_and_choices":[{"finish_reason":null,"message":{"content":[{"text":"nee\u0064le"}]}}]}`} {
		if !Contains(Value(text), "needle", nil) || Contains(Value(text), "thread", nil) {
			t.Errorf("%s", text)
		}
	}
	if Contains(Value(`{"logs":["needle"]}`), "needle", nil) || len(Turns(nil, nil)) != 0 {
		t.Error("found where there is nothing")
	}
	p := Take(Value(`{"tools":[],"metrics":{"a":1},"metadata":null,"logs":["x"],"exchanges":{},"additional_histories":[],"tools":[{}]}`), nil)
	if string(p.Tools) != `[{}]` || !p.Metadata.Empty() || p.Turns != nil || !p.Turns.Empty() || p.Logs.Empty() || string(p.Exchanges) != `{}` {
		t.Errorf("%+v", p)
	}
}

func mustCompact(t *testing.T, s string) Value {
	t.Helper()
	v, err := jsontext.Compact([]byte(s), 100)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
