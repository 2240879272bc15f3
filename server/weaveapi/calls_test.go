package weaveapi_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"weir/server/servertest"
)

// callServer is a server with calls, and its functions as a test calls them.
type callServer struct {
	*servertest.Server
	stored *servertest.Feedback
}

func newCallServer(t testing.TB) *callServer {
	t.Helper()
	f := servertest.NewWeave(t)
	return &callServer{f.Serve(t, nil), f}
}

// post sends JSON as the writer, or with the headers given.
func (s *callServer) post(path, body string, headers ...string) (status int, text string) {
	s.T.Helper()
	status, text, _ = s.Get("POST", path, body, append([]string{servertest.Basic("api", "write")}, headers...)...)
	return status, text
}

// ok sends JSON that has to be answered with this text.
func (s *callServer) ok(path, body, want string) {
	s.T.Helper()
	if status, text := s.post(path, body); status != 200 || text != want {
		s.T.Errorf("%s %.200s: %d %.300s, want %s", path, body, status, text, want)
	}
}

// call is a call as /call/read answers it; nil if it is not there.
func (s *callServer) call(id string) map[string]any {
	s.T.Helper()
	status, text := s.post("/call/read", `{"project_id":"acme/support","id":"`+id+`"}`)
	var answer struct{ Call map[string]any }
	if err := json.Unmarshal([]byte(text), &answer); status != 200 || err != nil {
		s.T.Fatalf("reading %s: %d %s %v", id, status, text, err)
	}
	return answer.Call
}

// startOf and endOf are the parts of a call, with further members.
func startOf(id string, more ...string) string {
	return `{"project_id":"acme/support","id":"` + id + `","op_name":"weave:///acme/support/op/ask:v1","trace_id":"t-` + id + `","started_at":"2026-03-01T10:00:00.000001Z","attributes":{},"inputs":{"q":1}` + join(more) + `}`
}

func endOf(id string, more ...string) string {
	return `{"project_id":"acme/support","id":"` + id + `","ended_at":"2026-03-01T10:00:01.500Z","summary":{}` + join(more) + `}`
}

func completeOf(id string, more ...string) string {
	return strings.TrimSuffix(startOf(id), "}") + `,"ended_at":"2026-03-01T10:00:02Z","summary":{},"output":1` + join(more) + `}`
}

func join(more []string) string {
	if len(more) == 0 {
		return ""
	}
	return "," + strings.Join(more, ",")
}

// TestCallStartAndEnd: a call begins, runs, and ends, over each of the functions that clients
// use (docs/interface/weave.md, W-101 to W-104, W-120).
func TestCallStartAndEnd(t *testing.T) {
	s := newCallServer(t)
	upsert := func(mode, part string) string {
		return `{"batch":[{"mode":"` + mode + `","req":{"` + mode + `":` + part + `}}]}`
	}
	for _, c := range []struct{ id, start, startBody, startAnswer, end, endBody, endAnswer string }{
		{"a", "/call/start", `{"start":` + startOf("a") + `}`, `{"id":"a","trace_id":"t-a"}`, "/call/end", `{"end":` + endOf("a") + `}`, `{}`},
		{
			"b", "/call/upsert_batch", upsert("start", startOf("b")), `{"res":[{"id":"b","trace_id":"t-b"}]}`,
			"/call/upsert_batch", upsert("end", endOf("b")), `{"res":[{}]}`,
		},
		{
			"c", "/v2/acme/support/call/start", `{"start":` + startOf("c") + `}`, `{"id":"c","trace_id":"t-c"}`,
			"/v2/acme/support/call/end", `{"end":` + endOf("c") + `}`, `{}`,
		},
	} {
		s.ok(c.start, c.startBody, c.startAnswer)
		got := s.call(c.id)
		if got["ended_at"] != nil || got["started_at"] != "2026-03-01T10:00:00.000001Z" || got["wb_user_id"] != "u-17" || got["output"] != nil {
			t.Errorf("%s runs: %v", c.id, got)
		}
		if want := map[string]any{"weave": map[string]any{"status": "running", "trace_name": "ask"}}; !reflect.DeepEqual(got["summary"], want) {
			t.Errorf("%s runs: %v", c.id, got["summary"])
		}
		s.ok(c.end, c.endBody, c.endAnswer)
		got = s.call(c.id)
		if got["ended_at"] != "2026-03-01T10:00:01.500000Z" || got["trace_id"] != "t-"+c.id {
			t.Errorf("%s has ended: %v", c.id, got)
		}
		if want := map[string]any{"weave": map[string]any{"status": "success", "trace_name": "ask", "latency_ms": 1499.0}}; !reflect.DeepEqual(got["summary"], want) {
			t.Errorf("%s has ended: %v", c.id, got["summary"])
		}
	}
}

// TestCallsComplete: a batch of calls that have ended; the project is that of the path if a
// call names none, and a call of another project needs the right to that
// (docs/interface/weave.md, W-104, W-105).
func TestCallsComplete(t *testing.T) {
	s := newCallServer(t)
	bare := strings.Replace(completeOf("y"), `"project_id":"acme/support",`, "", 1)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("x", `"exception":"boom"`)+","+bare+`]}`, "{}")
	if x := s.call("x"); x["exception"] != "boom" || x["summary"].(map[string]any)["weave"].(map[string]any)["status"] != "error" {
		t.Errorf("%v", x)
	}
	if y := s.call("y"); y == nil || y["project_id"] != "acme/support" {
		t.Errorf("%v", y)
	}
	foreign := strings.Replace(completeOf("z"), "acme/support", "lab/x", 1)
	if status, text := s.post("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("w")+","+foreign+`]}`); status != 403 {
		t.Errorf("a call of another project: %d %s", status, text)
	}
	if s.call("w") != nil {
		t.Error("a batch was written in part")
	}
	// The same batch again, as after an answer that was lost, and then with another output.
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+bare+`]}`, "{}")
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+strings.Replace(bare, `"output":1`, `"output":{"a": 2}`, 1)+`]}`, "{}")
	if y := s.call("y"); !reflect.DeepEqual(y["output"], map[string]any{"a": 2.0}) {
		t.Errorf("%v", y)
	}
	s.ok("/v2/acme/support/calls/complete", `{"batch":[]}`, "{}")
}

// TestCallOrder: parts of a call arrive in any order and more than once
// (docs/interface/weave.md, W-110 to W-114).
func TestCallOrder(t *testing.T) {
	start := func(n int) string {
		return fmt.Sprintf(`start {"start":%s}`, startOf("id", fmt.Sprintf(`"thread_id":"s%d"`, n)))
	}
	end := func(n int) string { return fmt.Sprintf(`end {"end":%s}`, endOf("id", fmt.Sprintf(`"output":%d`, n))) }
	rename := func(name string) string {
		return fmt.Sprintf(`update {"project_id":"acme/support","call_id":"id","display_name":"%s"}`, name)
	}
	for _, c := range []struct {
		requests []string
		want     string // thread, output, display name, status
	}{
		{[]string{start(1)}, "s1 <nil> <nil> running"},
		{[]string{end(1)}, "none"},
		{[]string{rename("x")}, "none"},
		{[]string{end(1), start(1)}, "s1 1 <nil> success"},
		{[]string{start(1), start(2)}, "s1 <nil> <nil> running"},
		{[]string{start(1), end(1), end(2)}, "s1 2 <nil> success"},
		{[]string{end(1), end(2), start(1), start(2)}, "s1 2 <nil> success"},
		{[]string{rename("x"), start(1), end(1)}, "s1 1 x success"},
		{[]string{start(1), rename("x"), rename("y")}, "s1 <nil> y running"},
		{[]string{start(1), rename("x"), rename("")}, "s1 <nil> <nil> running"},
	} {
		for _, batch := range []bool{false, true} {
			s := newCallServer(t)
			s.sendParts(t, c.requests, batch)
			got := "none"
			if call := s.call("id"); call != nil {
				got = fmt.Sprint(call["thread_id"], " ", call["output"], " ", call["display_name"], " ", call["summary"].(map[string]any)["weave"].(map[string]any)["status"])
			}
			if got != c.want {
				t.Errorf("%v, batch %v: %s, want %s", c.requests, batch, got, c.want)
			}
		}
	}
}

// sendParts sends requests, each of which is a function below /call/ and a body. With batch starts
// and ends that follow each other are one request.
func (s *callServer) sendParts(t *testing.T, requests []string, batch bool) {
	t.Helper()
	var items []string
	post := func(path, body string) {
		if status, text := s.post(path, body); status != 200 {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	flush := func() {
		if len(items) > 0 {
			post("/call/upsert_batch", `{"batch":[`+strings.Join(items, ",")+`]}`)
		}
		items = nil
	}
	for _, r := range requests {
		what, body, _ := strings.Cut(r, " ")
		if batch && what != "update" {
			items = append(items, `{"req":`+body+`,"mode":"`+what+`"}`)
			continue
		}
		flush()
		post("/call/"+what, body)
	}
	flush()
}
