package feedbackapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestFeedbackSchema: bodies that are refused for their form (docs/interface/feedback.md,
// F-12, F-40).
func TestFeedbackSchema(t *testing.T) {
	s := newServer(t, nil)
	raw := json.RawMessage("null")
	for _, c := range []struct{ body, want string }{
		{"", "missing body"},
		{" \n", "missing body"},
		{"{", "json_invalid body 1"},
		{`{"a":NaN}`, "json_invalid body 5"},
		{"{} x", "json_invalid body 3"},
		{strings.Repeat("[", 300), "json_invalid body 200"},
		{"[]", "model_attributes_type body"},
		{`"x"`, "model_attributes_type body"},
		{"{}", "missing body project_id, missing body trace_ref, missing body feedback_type, missing body payload, missing body feedback_id"},
		{servertest.Item("trace_ref", nil, "payload", nil, "feedback_id", nil), "missing body trace_ref, missing body payload, missing body feedback_id"}, // F#11
		{servertest.Item("foo", 1, "created_at", "x"), "extra_forbidden body created_at, extra_forbidden body foo"},                                       // F#10
		{servertest.Item("scorer_tags", []int{}), "extra_forbidden body scorer_tags"},
		{servertest.Item("project_id", 5, "trace_ref", raw, "feedback_type", true), "string_type body project_id, string_type body trace_ref, string_type body feedback_type"},
		{servertest.Item("payload", raw), "dict_type body payload"},
		{servertest.Item("payload", []int{1}), "dict_type body payload"},
		{servertest.Item("payload", "x"), "dict_type body payload"},
		{servertest.Item("project_id", "", "feedback_type", "", "feedback_id", ""), "string_too_short body project_id, string_too_short body feedback_type, string_too_short body feedback_id"},
		{servertest.Item("id", "x"), "uuid_parsing body id"},
		{servertest.Item("id", ""), "uuid_parsing body id"},
		{servertest.Item("id", "0199f2c47b1e4c539a603f2d6c1e8b90"), "uuid_parsing body id"},
		{servertest.Item("id", "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b9g"), "uuid_parsing body id"},
		{servertest.Item("id", 5, "creator", 5, "queue_id", []int{}, "platform_user_id", 7), "string_type body id, string_type body creator, string_type body queue_id, string_type body platform_user_id"},
	} {
		status, answer, text := s.post("replace", c.body)
		var got []string
		if list, ok := answer["detail"].([]any); ok {
			for _, e := range list {
				m := e.(map[string]any)
				s := m["type"].(string)
				for _, l := range m["loc"].([]any) {
					s += " " + l.(string)
				}
				if m["msg"] == "" || len(m) != 3 {
					t.Errorf("%v", m)
				}
				got = append(got, s)
			}
		}
		if status != 422 || strings.Join(got, ", ") != c.want {
			t.Errorf("%.80s: %d %.300s", c.body, status, text)
		}
	}
	if s.count() != 0 {
		t.Error("something was stored")
	}
	// The last of repeated names counts, as in Python.
	if status, answer, text := s.post("replace", `{"payload":5,"payload":{"a":1},`+servertest.Item("payload", nil)[1:]); status != 200 || fmt.Sprint(answer["payload"]) != "map[a:1]" {
		t.Errorf("%d %s", status, text)
	}
}

// TestFeedbackDialect: an answer has the names of the dialect in which the request was
// written (docs/interface/feedback.md, F-10).
func TestFeedbackDialect(t *testing.T) {
	s := newServer(t, nil)
	status, answer, text := s.post("replace", servertest.Item("trace_ref", nil, "weave_ref", servertest.CallRef, "wb_user_id", json.RawMessage("null")))
	if status != 200 || answer["wb_user_id"] != "u-17" || answer["platform_user_id"] != nil {
		t.Fatalf("%d %s", status, text)
	}
	rows := s.query(`{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"weave_ref"},{"$literal":"` + servertest.CallRef + `"}]}}}`)
	if row := rows[0].(map[string]any); row["weave_ref"] != servertest.CallRef || row["wb_user_id"] != "u-17" || len(row) != 12 {
		t.Errorf("%v", row)
	}
	if row := s.query(`{"project_id":"acme/support"}`)[0].(map[string]any); row["trace_ref"] != servertest.CallRef || len(row) != 13 {
		t.Errorf("%v", row)
	}
	for header, columns := range map[string]int{"X-Weave-Retry-Id: r1": 12, "X-Weave-Client-Capabilities: trace_id_on_end": 25} {
		_, answer, _ = s.post("query", `{"project_id":"acme/support"}`, header)
		if row := answer["result"].([]any)[0].(map[string]any); row["weave_ref"] != servertest.CallRef || row["wb_user_id"] != "u-17" || len(row) != columns {
			t.Errorf("%v", row)
		}
	}
	for _, body := range []string{
		servertest.Item("weave_ref", servertest.CallRef), servertest.Item("wb_user_id", "u"), servertest.Item("trace_ref", nil, "weave_ref", servertest.CallRef, "platform_user_id", "u"),
	} {
		if status, _, text := s.post("replace", body); status != 422 || !strings.Contains(text, "extra_forbidden") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _, _ := s.post("query", `{"project_id":"acme/support","fields":["weave_ref","trace_ref"]}`); status != 422 {
		t.Errorf("both in a query: %d", status)
	}
}
