package feedbackapi_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"weir/server/servertest"
)

// weaveDefaults are the columns that W&B Weave's clients from 0.52.42 on send with every
// write, with the values of a write that says nothing in them.
var weaveDefaults = map[string]any{
	"scorer_tags": []any{}, "scorer_tag_reasons": map[string]any{}, "scorer_tag_confidences": map[string]any{},
	"scorer_ratings": map[string]any{}, "scorer_rating_reasons": map[string]any{}, "scorer_rating_confidences": map[string]any{},
	"span_agent_name": "", "span_agent_version": "", "span_conversation_id": "", "span_trace_id": "", "span_status_code": "", "scorer_trace_id": "",
}

// weaveColumns are values of some of these columns.
var weaveColumns = map[string]any{
	"scorer_tags": []any{"👍", "b"}, "scorer_tag_reasons": map[string]any{"👍": "said so"}, "scorer_tag_confidences": map[string]any{"👍": 1.0},
	"scorer_ratings": map[string]any{"quality": 0.5}, "span_agent_name": "planner", "span_status_code": "OK",
}

// weaveItem is a new record as Weave's clients write it, with columns.
func weaveItem(columns ...map[string]any) string {
	fields := []any{"trace_ref", nil, "feedback_id", nil, "weave_ref", servertest.CallRef, "wb_user_id", json.RawMessage("null")}
	for _, c := range columns {
		for name, v := range c {
			fields = append(fields, name, v)
		}
	}
	return servertest.Item(fields...)
}

// createWeave creates a record, which has to succeed, and returns its id.
func (s *feedbackServer) createWeave(t *testing.T, columns ...map[string]any) string {
	t.Helper()
	status, answer, text := s.post("create", weaveItem(columns...))
	if status != 200 {
		t.Fatalf("%v: %d %s", columns, status, text)
	}
	return answer["id"].(string)
}

// get reads a record by its id.
func (s *feedbackServer) get(t *testing.T, id string, headers ...string) map[string]any {
	t.Helper()
	_, text, _ := s.Get("GET", "/feedback/"+id+"?project_id=acme/support", "", append(headers, servertest.Basic("api", "write"))...)
	return servertest.Object(t, text)
}

// checkColumns compares Weave's columns of a record; those that want lacks have the default.
func checkColumns(t *testing.T, row, want map[string]any) {
	t.Helper()
	for name, v := range weaveDefaults {
		if w, ok := want[name]; ok {
			v = w
		}
		if !reflect.DeepEqual(row[name], v) {
			t.Errorf("%s is %#v, want %#v", name, row[name], v)
		}
	}
}

// TestFeedbackWeaveColumns: the columns that W&B Weave's clients from 0.52.42 on send with
// every write are taken, kept and answered in their dialect.
func TestFeedbackWeaveColumns(t *testing.T) {
	s := newServer(t, nil)
	const client = "X-Weave-Client-Capabilities: trace_id_on_end"
	plain, full := s.createWeave(t, weaveDefaults), s.createWeave(t, weaveDefaults, weaveColumns)
	checkColumns(t, s.get(t, plain, client), nil)
	checkColumns(t, s.get(t, full, client), weaveColumns)
	if row := s.get(t, full); len(row) != 13 || row["trace_ref"] != servertest.CallRef {
		t.Errorf("in the interface's dialect: %v", row)
	}
	rows := s.query(`{"project_id":"acme/support","fields":["id","scorer_tags","scorer_ratings"],"query":{"$expr":{"$eq":[{"$getField":"span_agent_name"},{"$literal":"planner"}]}}}`)
	if row := rows[0].(map[string]any); len(rows) != 1 || row["id"] != full || !reflect.DeepEqual(row["scorer_tags"], weaveColumns["scorer_tags"]) || len(row) != 3 {
		t.Errorf("by span_agent_name: %v", rows)
	}
	if status, _, text := s.post("batch/create", `{"batch":[`+weaveItem(weaveColumns)+`,`+weaveItem()+`]}`); status != 200 {
		t.Errorf("batch: %d %s", status, text)
	}
	if status, _, text := s.post("replace", strings.Replace(weaveItem(weaveColumns), "{", `{"feedback_id":"`+plain+`",`, 1)); status != 200 {
		t.Errorf("replace: %d %s", status, text)
	}
}

// TestFeedbackWeaveColumnsRefused: columns of the wrong type, in the interface's dialect, or
// too large are refused.
func TestFeedbackWeaveColumnsRefused(t *testing.T) {
	s := newServer(t, nil)
	for _, c := range []struct{ body, want string }{
		{servertest.Item("scorer_tags", []string{}), `["body","scorer_tags"],"msg":"Extra inputs are not permitted"`}, // not a name of the interface
		{weaveItem(map[string]any{"scorer_tags": "a"}), `["body","scorer_tags"],"msg":"Input should be a valid list"`},
		{weaveItem(map[string]any{"scorer_tags": []any{1}}), `["body","scorer_tags","0"],"msg":"Input should be a valid string"`},
		{weaveItem(map[string]any{"scorer_ratings": map[string]any{"q": "a"}}), `["body","scorer_ratings","q"],"msg":"Input should be a valid number"`},
		{weaveItem(map[string]any{"scorer_tag_reasons": []any{}}), `["body","scorer_tag_reasons"],"msg":"Input should be a valid dictionary"`},
		{weaveItem(map[string]any{"span_trace_id": 1}), `["body","span_trace_id"],"msg":"Input should be a valid string"`},
	} {
		if status, _, text := s.post("replace", strings.Replace(c.body, "{", `{"feedback_id":"none",`, 1)); status != 422 || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
	large := map[string]any{"span_agent_name": strings.Repeat("n", 1<<20)}
	if status, _, text := s.post("create", weaveItem(large)); status != 400 || !strings.Contains(text, "too large") {
		t.Errorf("columns of a megabyte: %d %s", status, text)
	}
}
