package weaveapi_test

import (
	"context"
	"fmt"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"weir/calls"
	"weir/server/servertest"
)

// TestCallRights: what each function needs, and that the form of a request is looked at before
// rights (docs/interface/weave.md, W-105, W-106).
func TestCallRights(t *testing.T) {
	s := newCallServer(t)
	s.ok("/call/start", `{"start":`+startOf("a")+`}`, `{"id":"a","trace_id":"t-a"}`)
	reader, other := servertest.Basic("api", "read"), servertest.Basic("api", "lab")
	for _, c := range []struct {
		path, body string
		reader     int // status
	}{
		{"/call/start", `{"start":` + startOf("b") + `}`, 403},
		{"/call/end", `{"end":` + endOf("a") + `}`, 403},
		{"/call/upsert_batch", `{"batch":[{"mode":"end","req":{"end":` + endOf("a") + `}}]}`, 403},
		{"/v2/acme/support/call/start", `{"start":` + startOf("b") + `}`, 403},
		{"/v2/acme/support/call/end", `{"end":` + endOf("a") + `}`, 403},
		{"/v2/acme/support/calls/complete", `{"batch":[` + completeOf("b") + `]}`, 403},
		{"/call/read", `{"project_id":"acme/support","id":"a"}`, 200},
		{"/call/update", `{"project_id":"acme/support","call_id":"a","display_name":"x"}`, 403},
		{"/call/update", `{"project_id":"acme/support","call_id":"a"}`, 403},
		{"/calls/delete", `{"project_id":"acme/support","call_ids":["a"]}`, 403},
	} {
		if status, text := s.post(c.path, c.body, reader); status != c.reader {
			t.Errorf("%s by a reader: %d %s", c.path, status, text)
		}
		if status, text := s.post(c.path, c.body, other); status != 403 {
			t.Errorf("%s by somebody else: %d %s", c.path, status, text)
		}
		if status, text := s.post(c.path, `{"batch":5,"start":5,"end":5}`, other); status != 422 || !strings.Contains(text, `"detail":[{"loc":["body"`) {
			t.Errorf("%s without a form: %d %s", c.path, status, text)
		}
		if status, _, _ := s.Get("POST", c.path, c.body); status != 401 {
			t.Errorf("%s without a key: %d", c.path, status)
		}
		if status, _, _ := s.Get("GET", c.path, "", servertest.Basic("api", "write")); status != 405 {
			t.Errorf("GET %s: %d", c.path, status)
		}
	}
	if got := s.call("a"); got["ended_at"] != nil || got["display_name"] != nil || s.call("b") != nil {
		t.Errorf("%v", got)
	}
}

// TestCallRead: the flags of a read, and what it answers for a call that is not there
// (docs/interface/weave.md, W-120, W-123).
func TestCallRead(t *testing.T) {
	s := newCallServer(t)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("a")+","+completeOf("b", `"trace_id":"t-a","parent_id":"a","inputs":{"text":"xx"}`)+`]}`, "{}")
	read := func(more string) map[string]any {
		t.Helper()
		status, answer, text := (&weaveServer{s.Server}).post("/call/read", `{"project_id":"acme/support","id":"a"`+more+`}`)
		if status != 200 {
			t.Fatalf("%d %s", status, text)
		}
		return answer["call"].(map[string]any)
	}
	if _, ok := read("")["storage_size_bytes"]; ok {
		t.Error("a size without being asked for")
	}
	if n := read(`,"include_costs":true,"include_storage_size":true,"later":[]`)["storage_size_bytes"]; n != 12.0 { // {} {"q":1} 1 {}
		t.Errorf("%v bytes", n)
	}
	if n := read(`,"include_total_storage_size":true`)["total_storage_size_bytes"]; n != 12.0+18 {
		t.Errorf("%v bytes of the trace", n)
	}
	for _, body := range []string{`{"project_id":"acme/support","id":"none"}`, `{"project_id":"acme/b","id":"a"}`, `{"project_id":"acme/support","id":"` + strings.Repeat("x", 300) + `"}`} {
		s.ok("/call/read", body, `{"call":null}`)
	}
	for body, want := range map[string]int{`{"id":"a"}`: 422, `{"project_id":"acme/support"}`: 422, `{"project_id":"acme/support","id":1}`: 422, `{"project_id":"acme/support","id":"a","include_costs":1}`: 422, `[]`: 422, `{`: 422, ``: 422} {
		if status, text := s.post("/call/read", body); status != want {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	all := read("")
	for _, name := range calls.AnswerColumns() {
		if _, ok := all[name]; !ok {
			t.Errorf("an answer has no %s", name)
		}
		delete(all, name)
	}
	if len(all) > 0 {
		t.Errorf("an answer has %v too", all)
	}
}

// TestCallUpdate: the display name of a call (docs/interface/weave.md, W-125).
func TestCallUpdate(t *testing.T) {
	s := newCallServer(t)
	s.ok("/call/start", `{"start":`+startOf("a", `"display_name":"first"`)+`}`, `{"id":"a","trace_id":"t-a"}`)
	for _, c := range []struct {
		body   string
		status int
		want   any
	}{
		{`{"project_id":"acme/support","call_id":"a","display_name":"second","wb_user_id":null}`, 200, "second"},
		{`{"project_id":"acme/support","call_id":"a"}`, 400, "second"},
		{`{"project_id":"acme/support","call_id":"a","display_name":null}`, 400, "second"},
		{`{"project_id":"acme/support","call_id":"a","display_name":7}`, 422, "second"},
		{`{"project_id":"acme/support","call_id":"a","display_name":""}`, 200, nil},
	} {
		if status, text := s.post("/call/update", c.body); status != c.status || status == 200 && text != "{}" {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
		if got := s.call("a")["display_name"]; got != c.want {
			t.Errorf("%s: the name is %v, want %v", c.body, got, c.want)
		}
	}
}

// TestCallDelete: deleted calls are gone at once, with those below them
// (docs/interface/weave.md, W-130).
func TestCallDelete(t *testing.T) {
	s := newCallServer(t)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("a")+","+completeOf("b", `"parent_id":"a"`)+","+completeOf("c")+`]}`, "{}")
	s.ok("/calls/delete", `{"project_id":"acme/support","call_ids":["a","none"],"wb_user_id":null}`, `{"num_deleted":2}`)
	if s.call("a") != nil || s.call("b") != nil || s.call("c") == nil {
		t.Error("other calls are there")
	}
	for body, want := range map[string]int{
		`{"project_id":"acme/support"}`:                                                       422,
		`{"project_id":"acme/support","call_ids":"a"}`:                                        422,
		`{"project_id":"acme/support","call_ids":[1]}`:                                        422,
		`{"project_id":"acme/support","call_ids":[]}`:                                         200,
		`{"project_id":"acme/support","call_ids":["c` + strings.Repeat(`","`, 10_000) + `"]}`: 413,
	} {
		if status, text := s.post("/calls/delete", body); status != want {
			t.Errorf("%.100s: %d %s", body, status, text)
		}
	}
}

// TestCallsErase: an erasure of feedback erases calls as well (docs/interface/weave.md, W-133).
func TestCallsErase(t *testing.T) {
	s := newCallServer(t)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("a")+","+completeOf("b")+`]}`, "{}")
	erase := func(members string, status int, want string) {
		t.Helper()
		if got, text := s.post("/feedback/erase", `{"project_id":"acme/support",`+members+`}`, servertest.Basic("api", "chief")); got != status || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", members, got, text)
		}
	}
	erase(`"platform_user_id":"u-17","dry_run":true`, 200, `{"count":0,"calls":2,"objects":0,"annotation_queues":0,"dry_run":true}`)
	erase(`"platform_user_id":"u-18","confirm":"acme/support"`, 200, `{"count":0,"calls":0,"objects":0,"annotation_queues":0,"dry_run":false}`)
	erase(`"trace_ref":"weave:///acme/support/call/a","confirm":"acme/support"`, 200, `{"count":0,"calls":1,"objects":0,"annotation_queues":0,"dry_run":false}`)
	erase(`"creator":"u-17","before":"2027-01-01","confirm":"acme/support"`, 200, `{"count":0,"calls":1,"objects":0,"annotation_queues":0,"dry_run":false}`)
	if s.call("a") != nil || s.call("b") != nil {
		t.Error("an erased call is there")
	}
}

// TestDamagedCall: who needs a damaged call gets a 503 that names it, others get theirs, and it
// can be deleted (docs/interface/weave.md, W-135).
func TestDamagedCall(t *testing.T) {
	s := newCallServer(t)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("bad")+","+completeOf("good")+`]}`, "{}")
	servertest.Spoil(t, s.stored.Traces, calls.TagRow, func(key []byte) bool { return strings.Contains(string(key), "bad") })
	for path, body := range map[string]string{
		"/call/read":                      `{"project_id":"acme/support","id":"bad"}`,
		"/call/end":                       `{"end":` + endOf("bad") + `}`,
		"/v2/acme/support/calls/complete": `{"batch":[` + completeOf("bad") + `]}`,
	} {
		if status, text := s.post(path, body); status != 503 || !strings.Contains(text, "Call bad is damaged") || !strings.Contains(text, "/calls/delete") {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	if s.call("good") == nil {
		t.Error("another call is not there")
	}
	s.ok("/calls/delete", `{"project_id":"acme/support","call_ids":["bad"]}`, `{"num_deleted":1}`)
	s.ok("/call/read", `{"project_id":"acme/support","id":"bad"}`, `{"call":null}`)
	s.ok("/v2/acme/support/calls/complete", `{"batch":[`+completeOf("bad")+`]}`, "{}")
	h := calls.New(s.stored.Traces)
	if err := h.Check(func(what string) { t.Error(what) }); err != nil {
		t.Error(err)
	}
	s.Log.Reset() // errors were asked for
}

// TestCallIDs: ids are what clients say, whatever it is, and made where they say none
// (docs/interface/weave.md, W-109, W-116).
func TestCallIDs(t *testing.T) {
	s := newCallServer(t)
	for _, id := range []string{"01a2193c-09b1-7ea6-bd61-1ba0390a5979", "chatcmpl-abc", "ü 😀", `a\u0000b`, "0/../x?y", strings.Repeat("x", 256)} {
		s.ok("/call/start", `{"start":`+startOf("K", `"id":"`+id+`"`)+`}`, `{"id":"`+id+`","trace_id":"t-K"}`)
		if got := s.call(id); got == nil || got["inputs"].(map[string]any)["q"] != 1.0 {
			t.Errorf("%s: %v", id, got)
		}
	}
	_, answer, text := (&weaveServer{s.Server}).post("/call/start", `{"start":`+strings.NewReplacer(`"id":"K",`, "", `"trace_id":"t-K"`, `"wb_user_id":"mallory"`).Replace(startOf("K"))+`}`)
	id, _ := answer["id"].(string)
	if len(id) != 36 || len(fmt.Sprint(answer["trace_id"])) != 36 || len(answer) != 2 {
		t.Fatal(text)
	}
	if got := s.call(id); got["trace_id"] != answer["trace_id"] || got["wb_user_id"] != "u-17" {
		t.Errorf("%v", got)
	}
	// The project of a path may be written with escapes.
	bare := strings.Replace(completeOf("e"), `"project_id":"acme/support",`, "", 1)
	s.ok("/v2/acme/"+url.PathEscape("su pport")+"/calls/complete", `{"batch":[`+bare+`]}`, "{}")
	status, answer, text := (&weaveServer{s.Server}).post("/call/read", `{"project_id":"acme/su pport","id":"e"}`)
	if call, _ := answer["call"].(map[string]any); status != 200 || call["id"] != "e" {
		t.Errorf("%d %s", status, text)
	}
}

// TestManyCalls: a batch of many calls is larger than a transaction, and answered in order
// (docs/interface/weave.md, W-103).
func TestManyCalls(t *testing.T) {
	s := newCallServer(t)
	var items, want []string
	for i := range 3000 {
		id := fmt.Sprint("c", i)
		items = append(items, `{"mode":"start","req":{"start":`+startOf(id)+`}}`, `{"mode":"end","req":{"end":`+endOf(id)+`}}`)
		want = append(want, `{"id":"`+id+`","trace_id":"t-`+id+`"}`, "{}")
	}
	s.ok("/call/upsert_batch", `{"batch":[`+strings.Join(items, ",")+`]}`, `{"res":[`+strings.Join(want, ",")+`]}`)
	if got := s.call("c2999"); got == nil || got["ended_at"] == nil {
		t.Errorf("%v", got)
	}
	s.ok("/call/upsert_batch", `{"batch":[]}`, `{"res":[]}`)
	n, err := calls.New(s.stored.Traces).Delete(context.Background(), "acme/support", []string{"c1"})
	if n != 1 || err != nil || s.call("c1") != nil || !reflect.DeepEqual(s.call("c2")["id"], "c2") {
		t.Errorf("%d %v", n, err)
	}
}
