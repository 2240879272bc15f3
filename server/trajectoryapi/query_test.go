package trajectoryapi_test

import (
	"fmt"
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestBadQueries: queries that are refused (docs/interface/trajectories.md, section 11).
func TestBadQueries(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	logBatches(t, h, 1)
	for _, c := range []struct{ path, name, code string }{
		{"/trajectories?limit=0", "limit", "greater_than_equal"}, {"/trajectories?limit=1001", "limit", "less_than_equal"}, {"/trajectories?limit=x", "limit", "int_parsing"},
		{"/trajectories?order=up", "order", "enum"}, {"/trajectories?after=x", "after", "value_error"}, {"/trajectories?after=" + strings.Repeat("0", 36) + "/0/0", "after", "value_error"},
		{"/trajectories?include=all", "include", "enum"}, {"/trajectories?min_reward=x", "min_reward", "float_parsing"}, {"/trajectories?max_reward=nan", "max_reward", "float_parsing"},
		{"/trajectories?min_policy_version=1.5", "min_policy_version", "int_parsing"}, {"/trajectories?step=", "step", "int_parsing"}, {"/trajectories?after_time=now", "after_time", "datetime_parsing"},
		{"/trajectories?before_time=", "before_time", "datetime_parsing"}, {"/trajectories?time_field=x", "time_field", "enum"}, {"/trajectories?log_id=x", "log_id", "uuid_parsing"},
		{"/trajectories?has_tools=maybe", "has_tools", "bool_parsing"}, {"/trajectories?metric.a.min=x", "metric.a.min", "float_parsing"}, {"/trajectories?metric.a=1", "metric.a", "extra_forbidden"},
		{"/trajectories?splt=train", "splt", "extra_forbidden"}, {"/trajectories?format=jsonl", "format", "extra_forbidden"}, {"/export?limit=3", "limit", "extra_forbidden"},
		{"/export?format=csv", "format", "enum"}, {"/export?logprobs=x", "logprobs", "bool_parsing"}, {"/metrics?group_by=week", "group_by", "enum"}, {"/logs?after=x", "after", "value_error"},
	} {
		status, answer, _ := h.Get("GET", servertest.AgentPath+c.path, "")
		want := fmt.Sprintf(`{"loc":["query",%q],`, c.name)
		if status != 422 || !strings.Contains(answer, want) || !strings.Contains(answer, `"type":"`+c.code+`"`) {
			t.Errorf("%s: %d %s", c.path, status, answer)
		}
	}
	if status, answer, _ := h.Get("GET", "/v1/preview/models?split=x", ""); status != 422 {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer, _ := h.Get("GET", "/v1/preview/models?after=x", ""); status != 422 {
		t.Errorf("%d %s", status, answer)
	}
	// A misspelt filter deletes nothing.
	if status, answer, _ := h.Get("DELETE", servertest.AgentPath+"/trajectories?confirm=m&splt=train", ""); status != 422 {
		t.Errorf("%d %s", status, answer)
	}
	if entries, _ := h.List(t, servertest.AgentPath+"/trajectories"); len(entries) != 6 {
		t.Errorf("%d entries", len(entries))
	}
}

// TestQueryFilters: every filter of docs/interface/trajectories.md, section 11.
func TestQueryFilters(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	first := h.LogGroups(t, servertest.AgentPath, `{"split":"train","step":3,"trajectory_groups":[{"trajectories":[
		{"reward":0.5,"metrics":{"turns":2,"won":true},"metadata":{"scenario":"a b","n":1.0},"tools":[{}],"initial_policy_version":7,"start_time":"2026-01-02T03:04:05Z"},
		{"reward":2,"messages_and_choices":[{"role":"user","content":"needle"},{"finish_reason":"length","message":{}}],"final_policy_version":9}]}]}`)
	second := h.LogGroups(t, servertest.AgentPath, `{"split":"a/b","trajectory_groups":[{"trajectories":[{"final_policy_version":3}]}]}`)
	received := second["received_at"].(string)
	for query, want := range map[string]int{
		"": 3, "split=train": 2, "split=train&split=a/b": 3, "split=Train": 0, "step=3": 3, "step=9": 0, "min_policy_version=8": 1, "max_policy_version=7": 2,
		"min_reward=0.5": 2, "max_reward=0": 1, "min_reward=0.6&max_reward=3": 1, "log_id=" + first["id"].(string): 2, "metadata.scenario=a%20b": 1, "metadata.n=1.0": 1, "metadata.n=1": 0,
		"metric.turns.min=2": 1, "metric.turns.max=1": 0, "metric.won.min=1&metric.turns.max=2": 1, "finish_reason=length": 1, "finish_reason=length&finish_reason=stop": 1, "has_tools=true": 1, "has_tools=0": 2,
		"q=needle": 1, "q=thread": 0, "after_time=2020-01-01": 3, "before_time=2020-01-01": 0, "after_time=" + received: 1, "before_time=" + received: 2,
		"time_field=start_time&before_time=2026-02-01": 1, "time_field=start_time&after_time=2026-02-01": 2, "time_field=received_at&before_time=2026-02-01": 0,
	} {
		entries, _ := h.List(t, servertest.AgentPath+"/trajectories?"+query)
		if len(entries) != want {
			t.Errorf("%s: %d entries, want %d", query, len(entries), want)
		}
		_, lines, _ := h.Get("GET", servertest.AgentPath+"/export?"+query, "")
		if n := strings.Count(lines, "\n"); n != want {
			t.Errorf("export %s: %d lines, want %d", query, n, want)
		}
		if status, answer, _ := h.Get("DELETE", servertest.AgentPath+"/trajectories?dry_run=1&"+query, ""); status != 200 || servertest.Object(t, answer)["trajectories"] != float64(want) {
			t.Errorf("dry run of %s: %d %s, want %d", query, status, answer, want)
		}
	}
}
