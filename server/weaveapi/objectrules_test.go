package weaveapi_test

import (
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"weir/objects"
	"weir/server/servertest"
)

// TestEmptyProject: a request whose project has no name is refused, whatever it is for, so
// that nobody writes or reads without a right.
func TestEmptyProject(t *testing.T) {
	s := newServer(t, nil)
	for path, body := range map[string]string{
		"/obj/create": `{"obj":{"project_id":"","object_id":"x","val":1}}`, "/obj/read": `{"project_id":"","object_id":"x","digest":"v0"}`, "/obj/delete": `{"project_id":"","object_id":"x"}`,
		"/objs/query": `{"project_id":""}`, "/table/create": `{"table":{"project_id":"","rows":[{}]}}`, "/table/create_from_digests": `{"project_id":"","row_digests":[]}`,
		"/table/update": `{"project_id":"","base_digest":"x","updates":[]}`, "/table/query": `{"project_id":"","digest":"x"}`, "/table/query_stream": `{"project_id":"","digest":"x"}`,
		"/table/query_stats": `{"project_id":"","digest":"x"}`, "/table/query_stats_batch": `{"project_id":"","digests":["x"]}`, "/file/content": `{"project_id":"","digest":"x"}`,
		"/files/query_stats": `{"project_id":""}`, "/call/start": `{"start":` + strings.Replace(startOf("a"), "acme/support", "", 1) + `}`,
		"/call/end": `{"end":` + strings.Replace(endOf("a"), "acme/support", "", 1) + `}`, "/call/read": `{"project_id":"","id":"a"}`, "/call/update": `{"project_id":"","call_id":"a","display_name":"x"}`,
		"/calls/delete": `{"project_id":"","call_ids":["a"]}`, "/calls/stream_query": `{"project_id":""}`, "/calls/query_stats": `{"project_id":""}`,
		"/call/upsert_batch": `{"batch":[{"mode":"start","req":{"start":` + strings.Replace(startOf("a"), "acme/support", "", 1) + `}}]}`,
	} {
		for _, who := range []string{"read", "write"} {
			if status, _, text := s.post(path, body, servertest.Basic("api", who)); status < 400 || status >= 500 {
				t.Errorf("%s as %s: %d %s", path, who, status, text)
			}
		}
	}
	// Members of a form are not read as those of JSON are.
	var form strings.Builder
	w := multipart.NewWriter(&form)
	_ = w.WriteField("project_id", "")
	_ = w.WriteField("file", "x")
	_ = w.Close()
	if status, text, _ := s.Get("POST", "/file/create", form.String(), servertest.Basic("api", "read"), "Content-Type: "+w.FormDataContentType()); status != 400 {
		t.Errorf("a form: %d %s", status, text)
	}
}

// TestObjectsErase: an erasure of feedback erases objects as well
// (docs/interface/weave.md, W-231).
func TestObjectsErase(t *testing.T) {
	s := newServer(t, nil)
	s.publish("o", "1")
	s.post("/table/create", `{"table":{"project_id":"acme/a","rows":[{"x":1},{"x":2}]}}`)
	erase := func(members string, want string) {
		t.Helper()
		if got, _, text := s.post("/feedback/erase", `{"project_id":"acme/a",`+members+`}`, servertest.Basic("api", "chief")); got != 200 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s", members, got, text)
		}
	}
	erase(`"platform_user_id":"u-17","dry_run":true`, `"objects":4`)
	erase(`"platform_user_id":"u-18","confirm":"acme/a"`, `"objects":0`)
	erase(`"trace_ref":"weave:///acme/a/call/a","confirm":"acme/a"`, `"objects":0`)
	erase(`"creator":"u-17","before":"2020-01-01","confirm":"acme/a"`, `"objects":0`)
	erase(`"creator":"u-17","confirm":"acme/a"`, `"objects":4`)
	if status, _, text := s.object("o", "latest"); status != 404 {
		t.Errorf("an erased object: %d %s", status, text)
	}
}

// TestDamagedObject: who needs a damaged object gets a 503 that names it, others get theirs,
// and it can be published again, or deleted (docs/interface/weave.md, W-234).
func TestDamagedObject(t *testing.T) {
	f := servertest.NewWeave(t)
	s := &weaveServer{f.Serve(t, nil)}
	bad := s.publish("bad", "1")
	s.publish("good", "2")
	spoil := func(tag byte) {
		servertest.Spoil(t, f.Traces, tag, func(key []byte) bool { return strings.Contains(string(key), "bad") })
	}
	spoil('P')
	if status, _, text := s.object("bad", "v0"); status != 503 || !strings.Contains(text, "object bad:"+bad) {
		t.Errorf("%d %s", status, text)
	}
	if status, obj, text := s.object("good", "v0"); status != 200 || obj["val"] != 2.0 {
		t.Errorf("%d %s", status, text)
	}
	s.publish("bad", "1")
	if status, obj, text := s.object("bad", "v0"); status != 200 || obj["val"] != 1.0 {
		t.Errorf("published again: %d %s", status, text)
	}
	for _, tag := range []byte{'O', 'P'} {
		spoil(tag)
		if status, _, text := s.post("/obj/delete", `{"project_id":"acme/a","object_id":"bad"}`); status != 200 || text != `{"num_deleted":1}` {
			t.Errorf("%c: %d %s", tag, status, text)
		}
		s.publish("bad", fmt.Sprint(tag))
	}
	faults := 0
	if _, err := objects.New(f.Traces).Mend(t.Context()); err != nil {
		t.Error(err)
	}
	if err := objects.New(f.Traces).Check(func(string) { faults++ }); err != nil || faults > 0 {
		t.Errorf("%d faults, %v", faults, err)
	}
}
