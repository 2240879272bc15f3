package weaveapi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"weir/server/servertest"
)

// send sends a request with a method, as the writer or with the headers given, and returns
// the answer.
func (s *callServer) send(method, path, body string, status int, headers ...string) map[string]any {
	s.T.Helper()
	got, text, _ := s.Get(method, path, body, append([]string{servertest.Basic("api", "write")}, headers...)...)
	if got != status {
		s.T.Fatalf("%s %s %.200s: %d %s", method, path, body, got, text)
	}
	var answer map[string]any
	_ = json.Unmarshal([]byte(text), &answer) // not all answers are objects
	return answer
}

// queue makes a queue and returns the path of it.
func (s *callServer) queue(name string) (path, id string) {
	s.T.Helper()
	id = s.send("POST", "/annotation_queues", `{"project_id":"acme/support","name":"`+name+`","scorer_refs":["weave:///acme/support/object/x:y"],"wb_user_id":null}`, 200)["id"].(string)
	return "/annotation_queues/" + id, id
}

// TestQueues: the functions of a queue (docs/interface/weave.md, W-300 to W-304).
func TestQueues(t *testing.T) {
	s := newCallServer(t)
	path, id := s.queue("Errors")
	_, second := s.queue("other")
	q := s.send("GET", path+"?project_id=acme%2Fsupport", "", 200)["queue"].(map[string]any)
	for name, want := range map[string]any{"id": id, "project_id": "acme/support", "name": "Errors", "description": "", "created_by": "u-17", "deleted_at": nil} {
		if q[name] != want {
			t.Errorf("%s is %v, want %v", name, q[name], want)
		}
	}
	if fmt.Sprint(q["scorer_refs"]) != "[weave:///acme/support/object/x:y]" || q["created_at"] != q["updated_at"] {
		t.Errorf("%v", q)
	}
	q = s.send("PUT", path, `{"project_id":"acme/support","name":null,"description":"why","scorer_refs":[]}`, 200)["queue"].(map[string]any)
	if q["name"] != "Errors" || q["description"] != "why" || fmt.Sprint(q["scorer_refs"]) != "[]" || q["created_at"] == q["updated_at"] {
		t.Errorf("%v", q)
	}
	for members, want := range map[string]string{
		"":                                       second + " " + id,
		`,"name":"RROR"`:                         id,
		`,"limit":1`:                             second,
		`,"limit":1,"offset":1`:                  id,
		`,"name":"none"`:                         "",
		`,"sort_by":[` + by("name", "asc") + `]`: id + " " + second,
		`,"sort_by":[` + by("unknown", "asc") + `,` + by("updated_at", "desc") + `]`: id + " " + second,
	} {
		status, text := s.post("/annotation_queues/query", `{"project_id":"acme/support"`+members+`}`)
		var ids []string
		for line := range strings.Lines(text) {
			var one struct{ ID string }
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatal(err, text)
			}
			ids = append(ids, one.ID)
		}
		if got := strings.Join(ids, " "); status != 200 || got != want {
			t.Errorf("%s: %d %s, want %s", members, status, got, want)
		}
	}
	q = s.send("DELETE", path+"?project_id=acme/support", "", 200)["queue"].(map[string]any)
	if q["id"] != id || q["deleted_at"] == nil {
		t.Errorf("%v", q)
	}
	s.send("GET", path+"?project_id=acme/support", "", 404)
	s.send("DELETE", path+"?project_id=acme/support", "", 404)
	s.send("PUT", path, `{"project_id":"acme/support","name":"x"}`, 404)
}

func by(field, direction string) string {
	return `{"field":"` + field + `","direction":"` + direction + `"}`
}

// TestQueueItems: calls are added to a queue and annotated (docs/interface/weave.md, W-310 to
// W-315).
func TestQueueItems(t *testing.T) {
	s := newCallServer(t)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("a")+","+completeOf("b")+","+completeOf("c")+`]}`, "{}")
	path, id := s.queue("q")
	s.ok(path+"/items", `{"project_id":"acme/support","call_ids":["b","a","none","b"],"display_fields":["inputs.q"]}`, `{"added_count":2,"duplicates":1}`)
	s.ok(path+"/items", `{"project_id":"acme/support","call_ids":["c","a"],"display_fields":[]}`, `{"added_count":1,"duplicates":1}`)
	list := s.send("POST", path+"/items/query", `{"project_id":"acme/support","include_position":true}`, 200)["items"].([]any)
	if len(list) != 3 {
		t.Fatalf("%v", list)
	}
	first := list[0].(map[string]any)
	for name, want := range map[string]any{
		"project_id": "acme/support", "queue_id": id, "call_id": "b", "call_started_at": "2026-03-01T10:00:00.000001Z", "call_ended_at": "2026-03-01T10:00:02.000000Z",
		"call_op_name": "weave:///acme/support/op/ask:v1", "call_trace_id": "t-b", "added_by": "u-17", "created_by": "u-17", "annotation_state": "unstarted",
		"annotator_user_id": nil, "deleted_at": nil, "position_in_queue": 1.0,
	} {
		if first[name] != want {
			t.Errorf("%s is %v, want %v", name, first[name], want)
		}
	}
	item := path + "/items/" + first["id"].(string) + "/progress"
	set := func(state string, status int, headers ...string) {
		t.Helper()
		answer := s.send("POST", item, `{"project_id":"acme/support","annotation_state":"`+state+`"}`, status, headers...)
		if it, ok := answer["item"].(map[string]any); status == 200 && (!ok || it["annotation_state"] != state || it["annotator_user_id"] == nil) {
			t.Errorf("%s: %v", state, answer)
		}
	}
	set("unstarted", 400)
	set("in_progress", 200)
	set("in_progress", 200)
	set("skipped", 200)
	set("completed", 400)
	set("in_progress", 400)
	s.send("POST", path+"/items/none/progress", `{"project_id":"acme/support","annotation_state":"skipped"}`, 404)
	alice := servertest.Basic("alice", "pass:word")
	set("in_progress", 200, alice) // another annotator, who is the latest
	s.ok("/annotation_queues/stats", `{"project_id":"acme/support","queue_ids":["`+id+`","none"]}`,
		`{"stats":[{"queue_id":"`+id+`","total_items":3,"completed_items":1},{"queue_id":"none","total_items":0,"completed_items":0}]}`)
	list = s.send("POST", path+"/items/query", `{"project_id":"acme/support","filter":{"annotation_states":["in_progress"]}}`, 200)["items"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["annotator_user_id"] != "alice" || list[0].(map[string]any)["position_in_queue"] != nil {
		t.Errorf("%v", list)
	}
}

// TestQueueRights: reading needs the right to read, everything else the right to write
// (docs/interface/weave.md, W-300); what is wrong with the form comes first.
func TestQueueRights(t *testing.T) {
	s := newCallServer(t)
	path, _ := s.queue("q")
	for _, c := range []struct {
		method, path, body string
		reads              bool
	}{
		{"POST", "/annotation_queues", `{"project_id":"acme/support","name":"n","scorer_refs":[]}`, false},
		{"POST", "/annotation_queues/query", `{"project_id":"acme/support"}`, true},
		{"POST", "/annotation_queues/stats", `{"project_id":"acme/support","queue_ids":[]}`, true},
		{"GET", path + "?project_id=acme/support", "", true},
		{"PUT", path, `{"project_id":"acme/support"}`, false},
		{"POST", path + "/items", `{"project_id":"acme/support","call_ids":[],"display_fields":[]}`, false},
		{"POST", path + "/items/query", `{"project_id":"acme/support"}`, true},
		{"POST", path + "/items/x/progress", `{"project_id":"acme/support","annotation_state":"skipped"}`, false},
		{"DELETE", path + "?project_id=acme/support", "", false},
	} {
		status := 403
		if c.reads {
			status = 200
		}
		s.send(c.method, c.path, c.body, status, servertest.Basic("api", "read"))
		s.send(c.method, c.path, c.body, 403, servertest.Basic("api", "lab"))
		s.send(c.method, strings.TrimSuffix(c.path, "?project_id=acme/support"), `{"x":1}`, 422)
	}
}

// TestQueuesErase: an erasure reaches queues (docs/interface/weave.md, W-320).
func TestQueuesErase(t *testing.T) {
	s := newCallServer(t)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("a")+`]}`, "{}")
	path, _ := s.queue("q")
	s.ok(path+"/items", `{"project_id":"acme/support","call_ids":["a"],"display_fields":[]}`, `{"added_count":1,"duplicates":0}`)
	answer := s.send("POST", "/feedback/erase", `{"project_id":"acme/support","platform_user_id":"u-17","confirm":"acme/support"}`, 200, servertest.Basic("api", "chief"))
	if answer["annotation_queues"] != 2.0 || answer["calls"] != 1.0 {
		t.Errorf("%v", answer)
	}
}

// TestDamagedQueue: what is damaged is a 503, and only that (docs/interface/weave.md, W-321).
func TestDamagedQueue(t *testing.T) {
	s := newCallServer(t)
	bad, id := s.queue("bad")
	good, _ := s.queue("good")
	servertest.Spoil(t, s.stored.Traces, 'U', func(key []byte) bool { return strings.Contains(string(key), id) })
	if text := fmt.Sprint(s.send("GET", bad+"?project_id=acme/support", "", 503)); !strings.Contains(text, "Annotation queue "+id+" is damaged") {
		t.Error(text)
	}
	s.send("GET", good+"?project_id=acme/support", "", 200)
	s.Log.Reset() // errors were asked for
}
