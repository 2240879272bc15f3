package feedbackapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/server/servertest"
)

// TestMembersOfLaterVersions: what a later client of Weave sends is kept and answered to Weave's
// clients as it was sent, and is in the log once; in the interface's own dialect it is 422
// (docs/interface/feedback.md, F-17).
func TestMembersOfLaterVersions(t *testing.T) {
	s := newServer(t, nil)
	const client = "X-Weave-Client-Capabilities: x"
	later := map[string]any{"judge_panel": json.RawMessage(`{"b": 1.0,"a":[12345678901234567890]}`), "judge_id": nil, "scorer_tags": []any{"t"}}
	id := s.createWeave(t, weaveDefaults, later)
	s.createWeave(t, weaveDefaults, map[string]any{"judge_panel": 1})
	_, text, _ := s.Get("GET", "/feedback/"+id+"?project_id=acme/support", "", client, servertest.Basic("api", "write"))
	if !strings.Contains(text, `"judge_panel":{"b":1.0,"a":[12345678901234567890]}`) || !strings.Contains(text, `"scorer_tags":["t"]`) {
		t.Error(text)
	}
	if status, _, text := s.post("query", `{"project_id":"acme/support"}`, client); status != 200 || strings.Count(text, "judge_panel") != 2 {
		t.Error(text)
	}
	if lines := s.Log.Lines("feedback has a member that this version of weir does not know; it is kept"); len(lines) != 1 || lines[0]["name"] != "judge_panel" {
		t.Errorf("the log has %v", lines)
	}
	if status, _, text := s.post("create", servertest.Item("feedback_id", nil, "judge_panel", 1)); status != 422 || !strings.Contains(text, "extra_forbidden") {
		t.Errorf("in the interface's dialect: %d %s", status, text)
	}
	many := map[string]any{}
	for i := range 65 {
		many[fmt.Sprint("m", i)] = i
	}
	if status, _, _ := s.post("create", weaveItem(many)); status != 422 {
		t.Errorf("65 unknown members: %d", status)
	}
}

// TestRetryID: clients of Weave leave one id in the headers of different writes, which are
// different writes all the same (docs/interface/feedback.md, section 11.3).
func TestRetryID(t *testing.T) {
	s := newServer(t, nil)
	for i := range 3 {
		if status, _, text := s.post("create", weaveItem(map[string]any{"payload": map[string]any{"n": i}}), "X-Weave-Retry-Id: 0199f2c4-0000-7000-8000-000000000009"); status != 200 {
			t.Fatal(text)
		}
	}
	if n := s.count(); n != 3 {
		t.Errorf("%d records", n)
	}
}

// TestSpreadsheets: a text that a spreadsheet could take for a formula gets an apostrophe, and
// numbers and raw exports do not (docs/interface/feedback.md, F-18).
func TestSpreadsheets(t *testing.T) {
	s := newServer(t, nil)
	for _, text := range []string{"=1+1", "+1", "-1", "@x", "\tx", "\rx", "plain", "a=b", ""} {
		s.post("create", servertest.Item("feedback_id", nil, "payload", map[string]any{"s": text, "n": -1.5}))
	}
	csv := func(path string) string {
		_, text, _ := s.Get("POST", "/feedback/"+path, `{"project_id":"acme/support","fields":["payload.s","payload.n"]}`, servertest.Basic("api", "read"), "Accept: text/csv")
		return strings.ReplaceAll(text, "\r\n", "|")
	}
	if got := csv("export"); got != "payload.s,payload.n|'=1+1,-1.5|'+1,-1.5|'-1,-1.5|'@x,-1.5|'\tx,-1.5|\"'\rx\",-1.5|plain,-1.5|a=b,-1.5|,-1.5|" {
		t.Errorf("%q", got)
	}
	if got := csv("export?raw=true"); !strings.HasPrefix(got, "payload.s,payload.n|=1+1,-1.5|+1,") || strings.Contains(got, "'") {
		t.Errorf("%q", got)
	}
}

// TestUnknownFunctions: a path below /feedback/ that is no function and no id is 404
// (docs/interface/feedback.md, F-1).
func TestUnknownFunctions(t *testing.T) {
	s := newServer(t, nil)
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"POST", "/feedback/anything", 404}, {"GET", "/feedback/anything?project_id=acme/support", 404}, {"POST", "/feedback/query/x", 404}, {"GET", "/feedback/query", 405},
		{"GET", "/feedback/0199f2c4-0000-7000-8000-000000000002?project_id=acme/support", 404}, {"POST", "/feedback/0199f2c4-0000-7000-8000-000000000002", 405},
	} {
		if status, text, _ := s.Get(c.method, c.path, "", servertest.Basic("api", "write")); status != c.want {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
}

// TestSpanRefs: references to spans of agents, and ops as triggers
// (docs/interface/feedback.md, sections 5.1 and 5.2).
func TestSpanRefs(t *testing.T) {
	s := newServer(t, nil)
	s.createWeave(t, map[string]any{"weave_ref": "weave:///acme/support/agent_span/00f067aa0ba902b7"})
	s.createWeave(t, map[string]any{
		"feedback_type": "wandb.agent_monitor", "runnable_ref": "weave:///acme/support/op/score:v1", "call_ref": servertest.CallRef, "trigger_ref": "weave:///acme/support/op/watch:v1",
	})
	if status, _, text := s.post("create", weaveItem(map[string]any{"trigger_ref": servertest.CallRef})); status != 400 || !strings.Contains(text, "want a reference to op or object") {
		t.Errorf("%d %s", status, text)
	}
}

// TestAggregate: scores are summed up by bucket and group
// (docs/interface/feedback.md, section 8.9).
func TestAggregate(t *testing.T) {
	s := newServer(t, nil)
	score := func(agent, kind string, ratings map[string]any, tags ...any) {
		s.createWeave(t, weaveDefaults, map[string]any{
			"weave_ref": "weave:///acme/support/" + kind + "/x", "feedback_type": "wandb.agent_monitor", "runnable_ref": "weave:///acme/support/object/" + agent + ":v1",
			"call_ref": servertest.CallRef, "trigger_ref": "weave:///acme/support/object/monitor:v1", "span_agent_name": agent, "scorer_ratings": ratings, "scorer_tags": tags,
		})
	}
	score("a", "agent_turn", map[string]any{"q": 1, "r": 0.5}, "slow", "rude")
	score("a", "agent_turn", map[string]any{"q": 3}, "slow")
	score("b", "agent_conversation", map[string]any{})
	s.createWeave(t, weaveDefaults)
	now := time.Now().UnixMilli()
	ask := func(rest string) (int, string) {
		t.Helper()
		status, _, text := s.post("aggregate", fmt.Sprintf(`{"project_id":"acme/support","after_ms":0,"before_ms":%d%s}`, now+100_000, rest))
		_, buckets, _ := strings.Cut(text, `"buckets":`)
		if status != 200 {
			return status, text
		}
		return status, buckets
	}
	row := func(group string, total, scored int, tags, counts, sums string) string {
		return fmt.Sprintf(`{"time_bucket_start_ms":null,"group":{%s},"total_count":%d,"scored_count":%d,"tag_counts":{%s},"rating_counts":{%s},"rating_sums":{%s}}`, group, total, scored, tags, counts, sums)
	}
	both := row("", 2, 2, `"rude":1,"slow":2`, `"q":2,"r":1`, `"q":4,"r":0.5`)
	for rest, want := range map[string]string{
		``: row("", 4, 2, `"rude":1,"slow":2`, `"q":2,"r":1`, `"q":4,"r":0.5`),
		`,"feedback_types":["wandb.agent"],"group_by":["span_agent_name"]`: row(`"span_agent_name":"a"`, 2, 2, `"rude":1,"slow":2`, `"q":2,"r":1`, `"q":4,"r":0.5`) + "," + row(`"span_agent_name":"b"`, 1, 0, "", "", ""),
		`,"tags":["slow","x"]`:                              both,
		`,"span_types":["agent_turn"]`:                      both,
		`,"span_agent_names":["a"],"rating_min":0`:          both,
		`,"rating_min":2,"rating_max":3`:                    row("", 1, 1, `"slow":1`, `"q":1`, `"q":3`),
		`,"scorer_ids":["weave:///acme/support/object/b*"]`: row("", 1, 0, "", "", ""),
		`,"monitor_ids":["weave:///acme/support/object/monitor:v1"],"group_by":["scorer_id"],"span_agent_names":["b"]`: row(`"scorer_id":"weave:///acme/support/object/b:v1"`, 1, 0, "", "", ""),
		`,"monitor_ids":["none"]`: "",
	} {
		if status, got := ask(rest); status != 200 || got != "["+want+"]}" {
			t.Errorf("%s: %d\n%s\nwant\n%s", rest, status, got, want)
		}
	}
	if status, got := ask(`,"time_bucket_seconds":3600`); status != 400 || !strings.Contains(got, "Too many time buckets") {
		t.Errorf("%d %s", status, got)
	}
	status, _, text := s.post("aggregate", fmt.Sprintf(`{"project_id":"acme/support","after_ms":%d,"before_ms":%d,"time_bucket_seconds":60}`, now-60_000, now+60_000))
	if status != 200 || !strings.Contains(text, fmt.Sprintf(`"time_bucket_start_ms":%d`, now)) && !strings.Contains(text, fmt.Sprintf(`"time_bucket_start_ms":%d`, now-60_000)) {
		t.Errorf("%d %s", status, text)
	}
	for rest, want := range map[string]int{`,"group_by":["x"]`: 422, `,"x":1`: 422, `,"tags":"x"`: 422, `,"time_bucket_seconds":0`: 400} {
		if status, text := ask(rest); status != want {
			t.Errorf("%s: %d %s", rest, status, text)
		}
	}
	if status, _, _ := s.post("aggregate", `{"project_id":"lab/x","after_ms":0,"before_ms":1}`); status != 403 {
		t.Errorf("another team's project: %d", status)
	}
	if status, _, _ := s.post("payload_schema", `{"project_id":"acme/support","start":"2026-01-01","sample_limit":5001}`); status != 400 {
		t.Errorf("sample_limit: %d", status)
	}
	if status, _, _ := s.post("payload_schema", `{"project_id":"acme/support","start":"2026-01-01","sample_limit":0}`); status != 400 {
		t.Errorf("sample_limit 0: %d", status)
	}
}
