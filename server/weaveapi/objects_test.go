package weaveapi_test

import (
	"bytes"
	"fmt"
	"mime/multipart"
	"strings"
	"testing"

	"weir/server/servertest"
)

// publish creates a version of an object and returns its digest.
func (s *weaveServer) publish(id, value string) string {
	s.T.Helper()
	status, answer, text := s.post("/obj/create", `{"obj":{"project_id":"acme/a","object_id":"`+id+`","val":`+value+`}}`)
	if status != 200 || answer["object_id"] != id {
		s.T.Fatalf("%s: %d %s", value, status, text)
	}
	return answer["digest"].(string)
}

// object reads a version.
func (s *weaveServer) object(id, digest string) (status int, obj map[string]any, text string) {
	s.T.Helper()
	status, answer, text := s.post("/obj/read", `{"project_id":"acme/a","object_id":"`+id+`","digest":"`+digest+`"}`)
	obj, _ = answer["obj"].(map[string]any)
	return status, obj, text
}

// TestObjects: versions are numbered, found by digest, number and "latest", and a version that
// is published again becomes the latest (docs/interface/weave.md, W-200, W-202 and W-203).
func TestObjects(t *testing.T) {
	s := newServer(t, nil)
	one, two := s.publish("o", `{"b":1, "a":[1.0]}`), s.publish("o", `{"b":2}`)
	if one != s.publish("p", `{"a":[1.0],"b":1}`) || one == two {
		t.Errorf("digests %s, %s", one, two)
	}
	for digest, want := range map[string]string{one: one, "v0": one, "v1": two, "latest": two} {
		status, obj, text := s.object("o", digest)
		if status != 200 || obj["digest"] != want {
			t.Errorf("%s: %d %s", digest, status, text)
		}
	}
	_, obj, text := s.object("o", "v0")
	if obj["version_index"] != 0.0 || obj["is_latest"] != 0.0 || obj["kind"] != "object" || obj["base_object_class"] != nil || obj["wb_user_id"] != "u-17" || !strings.Contains(text, `"val":{"b":1,"a":[1.0]}`) {
		t.Error(text)
	}
	s.publish("o", `{"a":[1.0],"b":1}`)
	if _, obj, text := s.object("o", "latest"); obj["digest"] != one || obj["version_index"] != 0.0 || obj["is_latest"] != 1.0 {
		t.Error(text)
	}
	if _, obj, _ := s.object("o", "v1"); obj["is_latest"] != 0.0 {
		t.Error("two versions are the latest")
	}
	op := s.publish("f", `{"_type":"CustomWeaveType","weave_type":{"type":"Op"},"files":{}}`)
	if _, obj, _ := s.object("f", op); obj["kind"] != "op" {
		t.Error("an op is an object")
	}
	s.publish("m", `{"_type":"M","_class_name":"M","_bases":["Model","Object","BaseModel"],"k":1}`)
	if _, obj, text := s.object("m", "latest"); obj["base_object_class"] != "Model" || obj["leaf_object_class"] != "M" {
		t.Error(text)
	}
	for body, want := range map[string]int{
		`{"obj":{"project_id":"acme/a","object_id":"x","val":1,"expected_digest":"` + one + `"}}`:    409,
		`{"obj":{"project_id":"acme/a","object_id":"x","val":1,"builtin_object_class":"Provider"}}`:  400,
		`{"obj":{"project_id":"acme/a","object_id":"x","val":{},"builtin_object_class":"Provider"}}`: 200,
		`{"obj":{"project_id":"acme/a","object_id":"x/y","val":1}}`:                                  400,
		`{"obj":{"project_id":"acme","object_id":"x","val":1}}`:                                      403,
		`{"obj":{"project_id":"lab/a","object_id":"x","val":1}}`:                                     403,
		`{"obj":{"project_id":"acme/a","object_id":"x"}}`:                                            422,
		`{"obj":{"project_id":"acme/a","object_id":"x","val":null,"new":true},"also":1}`:             200,
		`{"obj":1}`: 422,
	} {
		if status, _, text := s.post("/obj/create", body); status != want {
			t.Errorf("%s: %d %s, want %d", body, status, text, want)
		}
	}
	if status, _, _ := s.post("/obj/create", `{"obj":{"project_id":"acme/a","object_id":"x","val":1}}`, servertest.Basic("api", "read")); status != 403 {
		t.Errorf("a reader: %d", status)
	}
}

// TestObjectQueries: objects by kind, name, class and latest version, in both orders
// (docs/interface/weave.md, W-204).
func TestObjectQueries(t *testing.T) {
	s := newServer(t, nil)
	s.publish("b", `1`)
	s.publish("a", `{"_type":"M","_class_name":"M","_bases":["Model","Object","BaseModel"]}`)
	s.publish("b", `2`)
	s.publish("f", `{"_type":"Op"}`)
	ask := func(rest string) string {
		t.Helper()
		status, answer, text := s.post("/objs/query", `{"project_id":"acme/a"`+rest+`}`)
		if status != 200 {
			t.Fatalf("%s: %d %s", rest, status, text)
		}
		var out []string
		for _, o := range answer["objs"].([]any) {
			m := o.(map[string]any)
			out = append(out, fmt.Sprint(m["object_id"], m["version_index"]))
		}
		return strings.Join(out, " ")
	}
	for rest, want := range map[string]string{
		``:                               "b0 a0 b1 f0",
		`,"filter":{"latest_only":true}`: "a0 b1 f0",
		`,"filter":{"is_op":true}`:       "f0",
		`,"filter":{"is_op":false,"aliases":["latest"]}`:                                                 "a0 b1",
		`,"filter":{"object_ids":["b","z","b"]}`:                                                         "b0 b1",
		`,"filter":{"base_object_classes":["Model"]}`:                                                    "a0",
		`,"filter":{"leaf_object_classes":["M","N"]}`:                                                    "a0",
		`,"filter":{"exclude_base_object_classes":["Model"]}`:                                            "",
		`,"sort_by":[{"field":"object_id","direction":"asc"}]`:                                           "a0 b0 b1 f0",
		`,"sort_by":[{"field":"created_at","direction":"desc"}],"limit":2`:                               "f0 b1",
		`,"sort_by":[{"field":"object_id","direction":"desc"}]`:                                          "f0 b0 b1 a0",
		`,"sort_by":[{"field":"object_id","direction":"asc"},{"field":"created_at","direction":"desc"}]`: "a0 b1 b0 f0",
		`,"sort_by":[{"field":"kind","direction":"desc"}]`:                                               "b0 a0 b1 f0",
		`,"limit":2,"offset":1`:                                                                          "a0 b1",
		`,"metadata_only":true,"filter":{"object_ids":["a"]},"include_x":"soon"`:                         "a0",
	} {
		if got := ask(rest); got != want {
			t.Errorf("%s: %q, want %q", rest, got, want)
		}
	}
	if status, _, text := s.post("/objs/query", `{"project_id":"acme/a","filter":{"tags":["x"]}}`); status != 501 {
		t.Errorf("tags: %d %s", status, text)
	}
	if status, _, _ := s.post("/objs/query", `{"project_id":"lab/a"}`); status != 403 {
		t.Errorf("another team's project: %d", status)
	}
}

// TestObjectDeletion: a deleted version is 404 with the time, and the one before becomes the
// latest (docs/interface/weave.md, W-205).
func TestObjectDeletion(t *testing.T) {
	s := newServer(t, nil)
	for i := range 3 {
		s.publish("o", fmt.Sprint(i))
	}
	remove := func(digests string) (int, string) {
		status, _, text := s.post("/obj/delete", `{"project_id":"acme/a","object_id":"o"`+digests+`}`)
		return status, text
	}
	if status, text := remove(`,"digests":["v9"]`); status != 404 {
		t.Errorf("%d %s", status, text)
	}
	if status, text := remove(`,"digests":["latest","v2"]`); status != 200 || text != `{"num_deleted":1}` {
		t.Errorf("%d %s", status, text)
	}
	if status, _, text := s.object("o", "v2"); status != 404 || !strings.Contains(text, `"deleted_at":"20`) || !strings.Contains(text, "o:v2 was deleted at") {
		t.Errorf("%d %s", status, text)
	}
	if _, obj, text := s.object("o", "latest"); obj["version_index"] != 1.0 {
		t.Error(text)
	}
	if digest := s.publish("o", "2"); digest == "" {
		t.Error("it cannot be published again")
	}
	if _, obj, text := s.object("o", "latest"); obj["version_index"] != 3.0 || obj["deleted_at"] != nil {
		t.Error(text)
	}
	if status, text := remove(""); status != 200 || text != `{"num_deleted":3}` {
		t.Errorf("%d %s", status, text)
	}
	if status, _ := remove(""); status != 404 {
		t.Errorf("nothing is left: %d", status)
	}
}

// TestTables: tables of rows and of digests, changes, pages and orders
// (docs/interface/weave.md, W-210 to W-212).
func TestTables(t *testing.T) {
	s := newServer(t, nil)
	status, answer, text := s.post("/table/create", `{"table":{"project_id":"acme/a","rows":[{"n":3,"t":"a"},{"n":1},{"n":2,"t":"b"},{"n":1}]}}`)
	if status != 200 {
		t.Fatal(text)
	}
	digest, rows := answer["digest"].(string), answer["row_digests"].([]any)
	if len(rows) != 4 || rows[1] != rows[3] || len(digest) != 64 {
		t.Fatal(text)
	}
	if status, answer, text := s.post("/table/create_from_digests", fmt.Sprintf(`{"project_id":"acme/a","row_digests":[%q,%q,%q,%q],"expected_digest":%q}`, rows[0], rows[1], rows[2], rows[3], digest)); status != 200 || answer["digest"] != digest {
		t.Errorf("%d %s", status, text)
	}
	ask := func(digest, rest string) string {
		t.Helper()
		status, answer, text := s.post("/table/query", `{"project_id":"acme/a","digest":"`+digest+`"`+rest+`}`)
		if status != 200 {
			t.Fatalf("%s: %d %s", rest, status, text)
		}
		var out []string
		for _, r := range answer["rows"].([]any) {
			m := r.(map[string]any)
			out = append(out, fmt.Sprint(m["original_index"], ":", m["val"].(map[string]any)["n"]))
		}
		return strings.Join(out, " ")
	}
	for rest, want := range map[string]string{
		"": "0:3 1:1 2:2 3:1", `,"limit":2,"offset":1`: "1:1 2:2",
		`,"sort_by":[{"field":"n","direction":"asc"}]`:                                                       "1:1 3:1 2:2 0:3",
		`,"sort_by":[{"field":"t","direction":"desc"},{"field":"n","direction":"asc"}]`:                      "2:2 0:3 1:1 3:1",
		fmt.Sprintf(`,"filter":{"row_digests":[%q]}`, rows[1]):                                               "1:1 3:1",
		fmt.Sprintf(`,"filter":{"row_digests":[%q]},"sort_by":[{"field":"t.x","direction":"asc"}]`, rows[0]): "0:3",
	} {
		if got := ask(digest, rest); got != want {
			t.Errorf("%s: %s, want %s", rest, got, want)
		}
	}
	if got := ask("none", ""); got != "" {
		t.Errorf("a table that is not there has %s", got)
	}
	status, answer, text = s.post("/table/update", `{"project_id":"acme/a","base_digest":"`+digest+`","updates":[{"append":{"row":{"n":9}}},{"pop":{"index":0}},{"insert":{"index":1,"row":{"n":7}}}]}`)
	if status != 200 || len(answer["updated_row_digests"].([]any)) != 3 {
		t.Fatal(text)
	}
	changed := answer["digest"].(string)
	if got := ask(changed, ""); got != "0:1 1:7 2:2 3:1 4:9" {
		t.Error(got)
	}
	if _, _, text := s.post("/table/query_stats", `{"project_id":"acme/a","digest":"`+changed+`"}`); text != `{"count":5}` {
		t.Error(text)
	}
	if _, _, text := s.post("/table/query_stats_batch", `{"project_id":"acme/a","digests":["none","`+digest+`"],"include_storage_size":true}`); text != `{"tables":[{"count":4,"digest":"`+digest+`","storage_size_bytes":44}]}` {
		t.Error(text)
	}
	if _, _, text := s.post("/table/query_stream", `{"project_id":"acme/a","digest":"`+digest+`","limit":2}`); strings.Count(text, "\n") != 2 {
		t.Error(text)
	}
	for _, c := range []struct {
		path, body string
		want       int
	}{
		{"/table/create", `{"table":{"project_id":"acme/a","rows":[1]}}`, 422},
		{"/table/create", `{"table":{"project_id":"acme/a","rows":[{}],"expected_digest":"x"}}`, 409},
		{"/table/update", `{"project_id":"acme/a","base_digest":"none","updates":[]}`, 404},
		{"/table/update", `{"project_id":"acme/a","base_digest":"` + digest + `","updates":[{"pop":{"index":4}}]}`, 400},
		{"/table/update", `{"project_id":"acme/a","base_digest":"` + digest + `","updates":[{"shift":{}}]}`, 422},
		{"/table/query", `{"project_id":"acme/a","digest":"x","sort_by":[{"field":"a..b","direction":"asc"}]}`, 400},
		{"/table/query_stats", `{"project_id":"acme/a","digest":"none"}`, 404},
	} {
		if status, _, text := s.post(c.path, c.body); status != c.want {
			t.Errorf("%s %s: %d %s", c.path, c.body, status, text)
		}
	}
}

// TestRefs: references lead into objects, through tables and through other references
// (docs/interface/weave.md, W-220).
func TestRefs(t *testing.T) {
	s := newServer(t, nil)
	_, answer, _ := s.post("/table/create", `{"table":{"project_id":"acme/a","rows":[{"q":1},{"q":2}]}}`)
	table, row := answer["digest"].(string), answer["row_digests"].([]any)[1].(string)
	ds := s.publish("ds", `{"rows":"weave:///acme/a/table/`+table+`"}`)
	s.publish("o", `{"list":[{"x y":null},"weave:///acme/a/object/ds:`+ds+`"],"k":{"a":1}}`)
	read := func(refs ...string) (int, string) {
		status, _, text := s.post("/refs/read_batch", `{"refs":["`+strings.Join(refs, `","`)+`"]}`)
		return status, text
	}
	const o = "weave:///acme/a/object/o:latest"
	if status, text := read(o+"/attr/k/key/a", o+"/key/list/index/0", o+"/attr/list/index/0/key/x%20y", "weir:///acme/a/object/ds:v0/attr/rows/id/"+row,
		o+"/attr/list/index/1/attr/rows/index/0/key/q"); status != 200 || text != `{"vals":[1,{"x y":null},null,{"q":2},1]}` {
		t.Errorf("%d %s", status, text)
	}
	for ref, want := range map[string]int{
		o + "/attr/none": 404, "weave:///acme/a/object/none:v0": 404, "weave:///lab/a/object/o:v0": 403, "nonsense": 400, "weave:///acme/a/call/x": 400, o + "/attr": 400,
		"weave:///acme/a/table/" + table: 400, o + "/attr/list/index/9": 404, o + "/attr/k/index/0": 404, o + "/who/k": 400,
	} {
		if status, text := read(ref); status != want {
			t.Errorf("%s: %d %s, want %d", ref, status, text, want)
		}
	}
	s.publish("loop", `{"x":"weave:///acme/a/object/loop:v0/attr/x"}`)
	if status, text := read("weave:///acme/a/object/loop:v0/attr/x/attr/y"); status != 400 || !strings.Contains(text, "too many other refs") {
		t.Errorf("a loop: %d %s", status, text)
	}
	if status, _, _ := s.post("/obj/delete", `{"project_id":"acme/a","object_id":"o"}`); status != 200 {
		t.Error(status)
	}
	if status, text := read("weave:///acme/a/object/o:v0"); status != 200 || text != `{"vals":[null]}` {
		t.Errorf("a deleted object: %d %s", status, text)
	}
}

// TestFiles: files come in forms and are named by their digests
// (docs/interface/weave.md, W-213).
func TestFiles(t *testing.T) {
	s := newServer(t, nil)
	send := func(path string, fields map[string]string, headers ...string) (int, string) {
		t.Helper()
		var body bytes.Buffer
		w := multipart.NewWriter(&body)
		for _, name := range []string{"project_id", "expected_digest", "file", "more"} {
			v, ok := fields[name]
			switch {
			case !ok:
			case name == "file":
				p, _ := w.CreateFormFile("file", "obj.py")
				_, _ = p.Write([]byte(v))
			default:
				_ = w.WriteField(name, v)
			}
		}
		_ = w.Close()
		status, text, _ := s.Get("POST", path, body.String(), append([]string{servertest.Basic("api", "write"), "Content-Type: " + w.FormDataContentType()}, headers...)...)
		return status, text
	}
	const content = "\x00def f():\r\n--"
	status, text := send("/file/create", map[string]string{"project_id": "acme/a", "file": content, "more": "x"})
	if status != 200 || !strings.HasPrefix(text, `{"digest":"`) {
		t.Fatalf("%d %s", status, text)
	}
	named := strings.TrimSuffix(strings.TrimPrefix(text, `{"digest":"`), `"}`)
	if status, again := send("/files/create", map[string]string{"project_id": "acme/a", "file": content, "expected_digest": named}); status != 200 || again != text {
		t.Errorf("%d %s", status, again)
	}
	for _, path := range []string{"/file/content", "/files/content"} {
		if status, _, got := s.post(path, `{"project_id":"acme/a","digest":"`+named+`"}`); status != 200 || got != content {
			t.Errorf("%s: %d %q", path, status, got)
		}
	}
	if _, _, text := s.post("/files/query_stats", `{"project_id":"acme/a"}`); text != fmt.Sprintf(`{"total_size_bytes":%d}`, len(content)) {
		t.Error(text)
	}
	for want, fields := range map[int]map[string]string{
		409: {"project_id": "acme/a", "file": "x", "expected_digest": named}, 422: {"project_id": "acme/a"}, 403: {"project_id": "lab/a", "file": "x"}, 400: {"project_id": "acme/a", "file": "x", "expected_digest": strings.Repeat("x", 5000)},
	} {
		if status, text := send("/file/create", fields); status != want {
			t.Errorf("%v: %d %s", fields, status, text)
		}
	}
	if status, _, _ := s.post("/file/content", `{"project_id":"acme/a","digest":"none"}`); status != 404 {
		t.Errorf("no such file: %d", status)
	}
	if status, _, _ := s.post("/file/create", `{}`); status != 415 {
		t.Errorf("JSON in place of a form: %d", status)
	}
	if status, text := send("/file/create", map[string]string{"project_id": "acme/a", "file": "x"}, "Origin: http://127.0.0.1", "Sec-Fetch-Site: same-origin"); status != 415 {
		t.Errorf("a form of a web page: %d %s", status, text)
	}
}
