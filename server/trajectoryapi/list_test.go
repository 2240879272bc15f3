package trajectoryapi_test

import (
	"encoding/json"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"weir/server/servertest"
)

// logBatches logs batches of 3 groups of 2 and returns the ids of the trajectories in order.
func logBatches(t *testing.T, h *servertest.Server, batches int) (ids []string) {
	t.Helper()
	for b := range batches {
		var groups []string
		for g := range 3 {
			groups = append(groups, fmt.Sprintf(`{"trajectories":[{"reward":%d,"final_policy_version":%d},{"reward":%d,"metadata":{"g":"%d"}}]}`, b, b, g, g))
		}
		split := []string{"train", "val"}[b%2]
		r := h.LogGroups(t, servertest.AgentPath, fmt.Sprintf(`{"split":"%s","trajectory_groups":[%s]}`, split, strings.Join(groups, ",")))
		for g := range 3 {
			for i := range 2 {
				ids = append(ids, fmt.Sprintf("%s/%d/%d", r["id"], g, i))
			}
		}
	}
	return ids
}

// TestPages: pages of every size, in both directions, with and without filters, hold the
// whole list, once and in order.
func TestPages(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	ids := logBatches(t, h, 5)
	odd := slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !strings.HasSuffix(id, "/1/1") })
	for _, filter := range []struct {
		query string
		want  []string
	}{{"", ids}, {"&metadata.g=1", odd}, {"&split=none", nil}} {
		backwards := slices.Clone(filter.want)
		slices.Reverse(backwards)
		for order, want := range map[string][]string{"asc": filter.want, "desc": backwards} {
			for _, limit := range []int{1, 2, 5, 6, 7, 29, 30, 31, 1000} {
				if got := pages(t, h, order, limit, filter.query); !slices.Equal(got, want) {
					t.Fatalf("%s, %s, limit %d: %q, want %q", filter.query, order, limit, got, want)
				}
			}
		}
	}
	// The default: the newest 20.
	entries, whole := h.List(t, servertest.AgentPath+"/trajectories")
	if len(entries) != 20 || entries[0]["id"] != ids[29] || whole["has_more"] != true {
		t.Errorf("%d entries", len(entries))
	}
	// A cursor of a batch that is gone still says where to go on.
	log, _, _ := strings.Cut(ids[14], "/")
	if status, answer, _ := h.Get("DELETE", servertest.AgentPath+"/logs/"+log, ""); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if entries, _ := h.List(t, servertest.AgentPath+"/trajectories?order=asc&after="+url.QueryEscape(ids[14])); len(entries) != 12 || entries[0]["id"] != ids[18] {
		t.Errorf("%v", entries)
	}
}

// pages goes through all pages of a list of trajectories and returns their ids.
func pages(t *testing.T, h *servertest.Server, order string, limit int, query string) (ids []string) {
	t.Helper()
	for after := ""; ; {
		path := fmt.Sprintf("%s/trajectories?limit=%d&order=%s%s", servertest.AgentPath, limit, order, query)
		if after != "" {
			path += "&after=" + url.QueryEscape(after)
		}
		entries, whole := h.List(t, path)
		more := whole["has_more"].(bool)
		if len(entries) == 0 {
			if whole["first_id"] != nil || whole["last_id"] != nil || more {
				t.Errorf("%v", whole)
			}
			return ids
		}
		if len(entries) > limit || whole["object"] != "list" || whole["first_id"] != entries[0]["id"] || whole["last_id"] != entries[len(entries)-1]["id"] {
			t.Fatalf("%v", whole)
		}
		for _, e := range entries {
			ids = append(ids, e["id"].(string))
		}
		if !more {
			return ids
		}
		after = whole["last_id"].(string)
	}
}

// TestListEntries: the fields of a trajectory in a list, with each value of include.
func TestListEntries(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	h.LogGroups(t, servertest.AgentPath, servertest.ExampleLog(t))
	entries, _ := h.List(t, servertest.AgentPath+"/trajectories")
	e := entries[0]
	for name, want := range map[string]string{
		"messages":          `[{"role":"system","content":"You play 2048.","trainable":false},{"role":"user","content":"board: ...","trainable":false},{"role":"assistant","content":"up","refusal":null,"annotations":null,"audio":null,"function_call":null,"tool_calls":null,"trainable":true,"finish_reason":"stop"}]`,
		"metrics":           `{"duration":8.41,"max_tile":512,"invalid_move":false}`,
		"metadata":          `{"scenario_id":"seed-881","attempt":3,"note":null}`,
		"finish_reasons":    `["stop"]`,
		"has_tools":         `false`,
		"step":              `12`,
		"trajectory":        `null`,
		"object":            `"trajectory"`,
		"group_index":       `0`,
		"model_id":          `"m"`,
		"reward":            `0.75`,
		"received_at":       `"` + e["received_at"].(string) + `"`,
		"completion_tokens": `2`,
	} {
		var w any
		if err := json.Unmarshal([]byte(want), &w); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(e[name], w) {
			t.Errorf("%s: %v, want %v", name, e[name], w)
		}
	}
	entries, _ = h.List(t, servertest.AgentPath+"/trajectories?include=logprobs")
	if m := entries[0]["messages"].([]any)[2].(map[string]any); m["logprobs"] == nil {
		t.Errorf("%v", m)
	}
	entries, _ = h.List(t, servertest.AgentPath+"/trajectories?include=raw,messages")
	if entries[0]["messages"] == nil || entries[0]["trajectory"] == nil {
		t.Errorf("%v", entries[0])
	}
	h.LogGroups(t, servertest.AgentPath, servertest.Group(`{"exchanges":{"chat_completions":[{}]}}`, `{"messages_and_choices":[{}]}`))
	entries, _ = h.List(t, servertest.AgentPath+"/trajectories?limit=2&order=desc")
	if entries[1]["messages"] != nil || !reflect.DeepEqual(entries[0]["messages"], []any{map[string]any{"trainable": false}}) {
		t.Errorf("%v", entries)
	}
}

// TestLists: the lists of batches and of models.
func TestLists(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	ids := logBatches(t, h, 3)
	for _, name := range []string{"a", "z%2Fz"} {
		h.LogGroups(t, "/v1/preview/models/"+name, `{"split":"s","trajectory_groups":[{"exceptions":[{}]}]}`)
	}
	entries, whole := h.List(t, "/v1/preview/models?order=asc&limit=2")
	if len(entries) != 2 || entries[0]["id"] != "a" || entries[1]["id"] != "m" || whole["has_more"] != true || whole["last_id"] != "m" {
		t.Errorf("%v", whole)
	}
	m := entries[1]
	if m["logs"] != 3.0 || m["trajectories"] != 18.0 || m["groups"] != 9.0 || m["min_policy_version"] != 0.0 || m["max_policy_version"] != 2.0 || !reflect.DeepEqual(m["splits"], []any{"train", "val"}) ||
		m["first_received_at"].(string) >= m["last_received_at"].(string) || entries[0]["min_policy_version"] != nil {
		t.Errorf("%v", m)
	}
	if entries, _ := h.List(t, "/v1/preview/models?order=asc&after=m"); len(entries) != 1 || entries[0]["id"] != "z/z" {
		t.Errorf("%v", entries)
	}
	if entries, _ := h.List(t, "/v1/preview/models"); len(entries) != 3 || entries[0]["id"] != "z/z" {
		t.Errorf("%v", entries)
	}
	var logs []string
	for _, id := range ids {
		if log, _, _ := strings.Cut(id, "/"); !slices.Contains(logs, log) {
			logs = append(logs, log)
		}
	}
	entries, whole = h.List(t, servertest.AgentPath+"/logs?limit=2")
	if len(entries) != 2 || entries[0]["id"] != logs[2] || whole["has_more"] != true {
		t.Errorf("%v", whole)
	}
	if entries, whole = h.List(t, servertest.AgentPath+"/logs?limit=2&after="+logs[1]); len(entries) != 1 || entries[0]["id"] != logs[0] || whole["has_more"] != false {
		t.Errorf("%v", whole)
	}
	if entries, _ = h.List(t, servertest.AgentPath+"/logs?split=val"); len(entries) != 1 || entries[0]["id"] != logs[1] {
		t.Errorf("%v", entries)
	}
}
