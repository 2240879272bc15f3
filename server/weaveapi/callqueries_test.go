package weaveapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestCallQueries: the functions over HTTP, with feedback of both schemes
// (docs/interface/weave.md, W-180, W-183 and W-185).
func TestCallQueries(t *testing.T) {
	s := newServer(t, nil)
	for _, id := range []string{"one", "two"} {
		if status, _, text := s.post("/v2/acme/a/calls/complete", `{"batch":[{"project_id":"acme/a","id":"`+id+`","op_name":"f","trace_id":"`+id+`","started_at":"2026-05-01T00:00:00Z",
			"ended_at":"2026-05-01T00:00:01Z","attributes":{},"inputs":{"n":"`+id+`"},"output":1,"summary":{}}]}`); status != 200 {
			t.Fatal(text)
		}
	}
	for _, ref := range []string{"weave:///acme/a/call/one", "weir:///acme/a/call/one", "weave:///acme/a/call/two2"} {
		if status, _, text := s.post("/feedback/create", `{"project_id":"acme/a","weave_ref":"`+ref+`","feedback_type":"custom","payload":{}}`); status != 200 {
			t.Fatal(text)
		}
	}
	ask := func(body string, headers ...string) (int, string) {
		status, text, header := s.Get("POST", "/calls/stream_query", body, append([]string{servertest.Basic("api", "read")}, headers...)...)
		if status == 200 && header.Get("Content-Type") != "application/jsonl" {
			t.Errorf("type %s", header.Get("Content-Type"))
		}
		return status, text
	}
	status, text := ask(`{"project_id":"acme/a"}`)
	if status != 200 || strings.Count(text, "\n") != 2 {
		t.Errorf("%d %s", status, text)
	}
	status, text = ask(`{"project_id":"acme/a","include_feedback":true,"filter":{"trace_ids":["one"]}}`)
	if status != 200 || strings.Count(text, `"feedback_type":"custom"`) != 2 || strings.Count(text, "\n") != 1 {
		t.Errorf("%d %s", status, text)
	}
	for body, want := range map[string]int{`{"project_id":"lab/a"}`: 403, `{}`: 422, `{"project_id":"acme/a","offset":-1}`: 400, `[`: 422} {
		if status, text := ask(body); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _ := ask(`{"project_id":"acme/a"}`, "Accept: text/csv"); status != 406 {
		t.Errorf("CSV: %d", status)
	}
	if _, _, text := s.post("/calls/query_stats", `{"project_id":"acme/a","limit":1}`); text != `{"count":1,"has_more":true,"total_storage_size_bytes":null}` {
		t.Error(text)
	}
	if _, _, text := s.post("/calls/query_stats", `{"project_id":"acme/a","include_total_storage_size":true}`); !strings.HasPrefix(text, `{"count":2,"has_more":false,"total_storage_size_bytes":`) {
		t.Error(text)
	}
	if status, _, _ := s.post("/calls/query_stats", `{"project_id":"lab/a"}`); status != 403 {
		t.Errorf("another team's project: %d", status)
	}
}

// TestCallsOutside: queries of calls look at feedback and follow references, which the caller has
// to have the right to read (docs/interface/weave.md, W-186 and W-187).
func TestCallsOutside(t *testing.T) {
	s := newServer(t, nil)
	ref := func(project, key string) string {
		status, answer, text := s.post("/obj/create", `{"obj":{"project_id":"`+project+`","object_id":"m","val":{"name":"`+project+`"}}}`, servertest.Basic("api", key))
		if status != 200 {
			t.Fatal(text)
		}
		return "weave:///" + project + "/object/m:" + answer["digest"].(string)
	}
	own, others := ref("acme/a", "write"), ref("lab/a", "lab")
	for id, inputs := range map[string]string{"one": own, "two": others, "three": "weave:///acme/a/object/none:v0"} {
		if status, _, text := s.post("/v2/acme/a/calls/complete", `{"batch":[{"project_id":"acme/a","id":"`+id+`","op_name":"f","trace_id":"`+id+`","started_at":"2026-05-01T00:00:00Z",
			"ended_at":"2026-05-01T00:00:01Z","attributes":{},"inputs":{"m":"`+inputs+`"},"output":1,"summary":{}}]}`); status != 200 {
			t.Fatal(text)
		}
	}
	if status, _, text := s.post("/feedback/create", `{"project_id":"acme/a","weave_ref":"weave:///acme/a/call/two","feedback_type":"custom","payload":{"score":5}}`); status != 200 {
		t.Fatal(text)
	}
	for members, want := range map[string]string{
		`"query":{"$expr":{"$eq":[{"$getField":"feedback.[custom].payload.score"},{"$literal":5}]}}`:                               "two",
		`"expand_columns":["inputs.m"],"query":{"$expr":{"$eq":[{"$getField":"inputs.m.name"},{"$literal":"acme/a"}]}}`:            "one",
		`"expand_columns":["inputs.m"],"query":{"$expr":{"$eq":[{"$getField":"inputs.m.name"},{"$literal":"lab/a"}]}}`:             "",
		`"expand_columns":["inputs.m"],"filter":{"call_ids":["two","three"]}`:                                                      "three two",
		`"query":{"$expr":{"$gt":[{"$getField":"feedback.[custom].payload.score"},{"$literal":4}]}},"filter":{"call_ids":["one"]}`: "",
	} {
		status, _, text := s.post("/calls/stream_query", `{"project_id":"acme/a",`+members+`}`)
		var ids []string
		for line := range strings.Lines(text) {
			id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
			ids = append(ids, id)
		}
		if status != 200 || strings.Join(ids, " ") != want || strings.Contains(text, `"lab/a"`) {
			t.Errorf("%s: %d %v, want %s: %s", members, status, ids, want, text)
		}
	}
}
