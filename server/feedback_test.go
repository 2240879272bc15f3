package server_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"

	"weir/auth"
	"weir/feedback"
	"weir/server/servertest"
	"weir/store"
)

// office is a house with feedback, and clients with several rights.
type office struct {
	*testServer
	db   *store.DB
	keys *auth.Keyring
}

const officeKeys = `keys:
  - {id: writer, user: u-17, hash: "sha256:%x", projects: ["acme/*"], rights: [read, write]}
  - {id: reader, user: u-18, hash: "sha256:%x", projects: ["acme/*"], rights: [read]}
  - {id: other, user: u-19, hash: "sha256:%x", projects: ["lab/*"], rights: [read, write]}
  - {id: chief, user: u-1, hash: "sha256:%x", rights: [read, write, admin]}
  - {id: alice, username: alice, hash: "sha256:%x", projects: ["acme/*"]}
`

func newOffice(t testing.TB, change func(*servertest.Setup)) *office {
	t.Helper()
	dir := t.TempDir()
	sum := func(s string) [32]byte { return sha256.Sum256([]byte(s)) }
	file := filepath.Join(dir, "keys.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, officeKeys, sum("write"), sum("read"), sum("lab"), sum("chief"), sum("pass:word")), 0o600); err != nil {
		t.Fatal(err)
	}
	keys, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	cfg := store.DefaultConfig(filepath.Join(dir, "feedback"))
	cfg.MinFree = 0
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	o := &office{db: db, keys: keys}
	o.start(t, change)
	return o
}

// start starts a server on the office's database.
func (o *office) start(t testing.TB, change func(*servertest.Setup)) {
	o.testServer = newServer(t, func(s *servertest.Setup) {
		s.NoModel = true
		s.Config.Keys, s.Config.Feedback = o.keys, feedback.New(o.db, feedback.DefaultConfig())
		if change != nil {
			change(s)
		}
	})
}

func basic(user, password string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

const callRef = "weave:///acme/support/call/0199f2c4"

// post sends JSON as the writer, or with the headers given.
func (o *office) post(path, body string, headers ...string) (status int, answer map[string]any, text string) {
	o.T.Helper()
	status, text, _ = o.testServer.Get("POST", "/feedback/"+path, body, append([]string{basic("api", "write")}, headers...)...)
	_ = json.Unmarshal([]byte(text), &answer) // not all answers are objects
	return status, answer, text
}

// item is the body of a request: a note, with fields replaced; nil removes one.
func item(fields ...any) string {
	m := map[string]any{"project_id": "acme/support", "trace_ref": callRef, "feedback_type": "custom", "payload": map[string]any{"n": 1}, "feedback_id": "none"}
	for i := 0; i < len(fields); i += 2 {
		if fields[i+1] == nil {
			delete(m, fields[i].(string))
			continue
		}
		m[fields[i].(string)] = fields[i+1]
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// replace sends a replace that has to succeed and returns the new id.
func (o *office) replace(fields ...any) (id string, answer map[string]any) {
	o.T.Helper()
	status, answer, text := o.post("replace", item(fields...))
	if status != 200 {
		o.T.Fatalf("replace %v: %d %s", fields, status, text)
	}
	return answer["id"].(string), answer
}

func (o *office) query(body string) []any {
	o.T.Helper()
	status, answer, text := o.post("query", body)
	if status != 200 {
		o.T.Fatalf("query %s: %d %s", body, status, text)
	}
	return answer["result"].([]any)
}

func (o *office) count() int {
	o.T.Helper()
	return int(o.query(`{"project_id":"acme/support","fields":["count(*)"]}`)[0].(map[string]any)["count(*)"].(float64))
}

// row is a record as a query shows it; nil if there is none.
func (o *office) row(id string) map[string]any {
	o.T.Helper()
	rows := o.query(`{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"` + id + `"}]}}}`)
	if len(rows) == 0 {
		return nil
	}
	return rows[0].(map[string]any)
}

var uuid7 = regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)

// Spec feedback F-20 to F-25, checklist 1 to 5 and 7 to 9.
func TestFeedbackReplace(t *testing.T) {
	o := newOffice(t, nil)
	a, answer := o.replace("creator", "Ann")
	if !uuid7.MatchString(a) || o.count() != 1 {
		t.Fatalf("1: id %s, %d rows", a, o.count())
	}
	if len(answer) != 4 || answer["platform_user_id"] != "u-17" || fmt.Sprint(answer["payload"]) != "map[n:1]" {
		t.Errorf("F-31: %v", answer)
	}
	at := answer["created_at"].(string)
	if !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) || o.row(a)["created_at"] != at {
		t.Errorf("created_at %s, then %v", at, o.row(a)["created_at"])
	}
	b, _ := o.replace("feedback_id", strings.ToUpper(a))
	if b == a || o.count() != 1 || o.row(a) != nil {
		t.Fatalf("2: %s to %s, %d rows", a, b, o.count())
	}
	if row := o.row(b); row["creator"] != nil { // checklist 8
		t.Errorf("8: creator %v", row["creator"])
	}
	c1, first := o.replace("feedback_id", b, "id", strings.ToUpper(b))
	c2, second := o.replace("feedback_id", b, "id", b, "payload", map[string]any{"n": 2})
	if c1 != b || c2 != b || o.count() != 1 || !(first["created_at"].(string) < second["created_at"].(string)) {
		t.Errorf("3: %v, %v, %d rows", first, second, o.count())
	}
	x, _ := o.replace("payload", map[string]any{"row": "x"})
	status, _, text := o.post("replace", item("feedback_id", b, "id", x))
	if status != 409 || text != `{"reason":"Feedback id already exists"}` || o.count() != 2 || fmt.Sprint(o.row(b)["payload"]) != "map[n:2]" || fmt.Sprint(o.row(x)["payload"]) != "map[row:x]" {
		t.Errorf("4: %d %s", status, text)
	}
	const given = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	_, once := o.replace("feedback_id", x, "id", given)
	_, again := o.replace("feedback_id", x, "id", given)
	if fmt.Sprint(once) != fmt.Sprint(again) || o.count() != 2 {
		t.Errorf("5: %v, %v, %d rows", once, again, o.count())
	}
	if status, _, _ := o.post("replace", item("feedback_id", x, "id", given, "payload", map[string]any{"n": 3})); status != 409 {
		t.Errorf("F-25: a replay that is none: %d", status)
	}
	y, _ := o.replace("payload", map[string]any{"row": "y"})
	if status, _, _ := o.post("replace", item("feedback_id", y, "id", given)); status != 409 || o.row(y) == nil {
		t.Errorf("F-25: a row is there to be replaced, so it is no replay: %d", status)
	}
	o.post("purge", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"`+y+`"}]}}}`)
	// Another project's row is out of reach, in either direction.
	o.replace("project_id", "acme/b", "feedback_id", given, "trace_ref", "weave:///acme/b/call/x")
	o.replace("project_id", "acme/b", "feedback_id", "y", "id", given, "trace_ref", "weave:///acme/b/call/x")
	if o.row(given) == nil || o.count() != 2 {
		t.Error("7: a row of another project was touched")
	}
	id, answer := o.replace("platform_user_id", "somebody else")
	if answer["platform_user_id"] != "u-17" || o.row(id)["platform_user_id"] != "u-17" {
		t.Errorf("9: %v", answer)
	}
	// Whoever may write may replace, and is the author from then on (F-30).
	if status, answer, _ := o.post("replace", item("feedback_id", id, "id", id), basic("alice", "pass:word")); status != 200 || answer["platform_user_id"] != "alice" || o.row(id)["platform_user_id"] != "alice" {
		t.Errorf("F-30: %d %v", status, answer)
	}
	// An optional field that is null or empty is not given (F-13).
	id, _ = o.replace("annotation_ref", "", "queue_id", "", "creator", json.RawMessage("null"), "id", json.RawMessage("null"), "call_ref", json.RawMessage("null"))
	for _, name := range []string{"annotation_ref", "queue_id", "creator", "call_ref"} {
		if v := o.row(id)[name]; v != nil {
			t.Errorf("F-13: %s is %v", name, v)
		}
	}
}

// The dialect follows the request (decision 15).
func TestFeedbackDialect(t *testing.T) {
	o := newOffice(t, nil)
	status, answer, text := o.post("replace", item("trace_ref", nil, "weave_ref", callRef, "wb_user_id", json.RawMessage("null")))
	if status != 200 || answer["wb_user_id"] != "u-17" || answer["platform_user_id"] != nil {
		t.Fatalf("%d %s", status, text)
	}
	rows := o.query(`{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"weave_ref"},{"$literal":"` + callRef + `"}]}}}`)
	if row := rows[0].(map[string]any); row["weave_ref"] != callRef || row["wb_user_id"] != "u-17" || len(row) != 25 {
		t.Errorf("%v", row)
	}
	if row := o.query(`{"project_id":"acme/support"}`)[0].(map[string]any); row["trace_ref"] != callRef || len(row) != 13 {
		t.Errorf("%v", row)
	}
	for _, header := range []string{"X-Weave-Retry-Id: r1", "X-Weave-Client-Capabilities: trace_id_on_end"} {
		_, answer, _ = o.post("query", `{"project_id":"acme/support"}`, header)
		if row := answer["result"].([]any)[0].(map[string]any); row["weave_ref"] != callRef || row["wb_user_id"] != "u-17" {
			t.Errorf("%v", row)
		}
	}
	for _, body := range []string{
		item("weave_ref", callRef), item("wb_user_id", "u"), item("trace_ref", nil, "weave_ref", callRef, "platform_user_id", "u"),
	} {
		if status, _, text := o.post("replace", body); status != 422 || !strings.Contains(text, "extra_forbidden") {
			t.Errorf("%s: %d %s", body, status, text)
		}
	}
	if status, _, _ := o.post("query", `{"project_id":"acme/support","fields":["weave_ref","trace_ref"]}`); status != 422 {
		t.Errorf("both in a query: %d", status)
	}
}

// TestFeedbackWeaveColumns: the columns that W&B Weave's clients from 0.52.42 on
// send with every write are taken, kept and answered in their dialect.
func TestFeedbackWeaveColumns(t *testing.T) {
	o := newOffice(t, nil)
	defaults := map[string]any{
		"scorer_tags": []any{}, "scorer_tag_reasons": map[string]any{}, "scorer_tag_confidences": map[string]any{},
		"scorer_ratings": map[string]any{}, "scorer_rating_reasons": map[string]any{}, "scorer_rating_confidences": map[string]any{},
		"span_agent_name": "", "span_agent_version": "", "span_conversation_id": "", "span_trace_id": "", "span_status_code": "", "scorer_trace_id": "",
	}
	given := map[string]any{
		"scorer_tags": []any{"👍", "b"}, "scorer_tag_reasons": map[string]any{"👍": "said so"}, "scorer_tag_confidences": map[string]any{"👍": 1.0},
		"scorer_ratings": map[string]any{"quality": 0.5}, "span_agent_name": "planner", "span_status_code": "OK",
	}
	weave := func(columns ...map[string]any) string {
		fields := []any{"trace_ref", nil, "feedback_id", nil, "weave_ref", callRef, "wb_user_id", json.RawMessage("null")}
		for _, c := range columns {
			for name, v := range c {
				fields = append(fields, name, v)
			}
		}
		return item(fields...)
	}
	check := func(row map[string]any, want map[string]any) {
		t.Helper()
		for name, usual := range defaults {
			v, ok := want[name]
			if !ok {
				v = usual
			}
			if !reflect.DeepEqual(row[name], v) {
				t.Errorf("%s is %#v, want %#v", name, row[name], v)
			}
		}
	}
	create := func(body string) string {
		t.Helper()
		status, answer, text := o.post("create", body)
		if status != 200 {
			t.Fatalf("%s: %d %s", body, status, text)
		}
		return answer["id"].(string)
	}
	get := func(id string, headers ...string) (row map[string]any) {
		t.Helper()
		_, text, _ := o.testServer.Get("GET", "/feedback/"+id+"?project_id=acme/support", "", append(headers, basic("api", "write"))...)
		if err := json.Unmarshal([]byte(text), &row); err != nil {
			t.Fatal(text)
		}
		return row
	}
	const client = "X-Weave-Client-Capabilities: trace_id_on_end"
	plain, full := create(weave(defaults)), create(weave(defaults, given))
	check(get(plain, client), nil)
	check(get(full, client), given)
	if row := get(full); len(row) != 13 || row["trace_ref"] != callRef {
		t.Errorf("in the interface's dialect: %v", row)
	}
	rows := o.query(`{"project_id":"acme/support","fields":["id","scorer_tags","scorer_ratings"],"query":{"$expr":{"$eq":[{"$getField":"span_agent_name"},{"$literal":"planner"}]}}}`)
	if row := rows[0].(map[string]any); len(rows) != 1 || row["id"] != full || !reflect.DeepEqual(row["scorer_tags"], given["scorer_tags"]) || len(row) != 3 {
		t.Errorf("by span_agent_name: %v", rows)
	}
	if status, _, text := o.post("batch/create", `{"batch":[`+weave(given)+`,`+weave()+`]}`); status != 200 {
		t.Errorf("batch: %d %s", status, text)
	}
	if status, _, text := o.post("replace", strings.Replace(weave(given), "{", `{"feedback_id":"`+plain+`",`, 1)); status != 200 {
		t.Errorf("replace: %d %s", status, text)
	}
	for _, c := range []struct{ body, want string }{
		{item("scorer_tags", []string{}), `["body","scorer_tags"],"msg":"Extra inputs are not permitted"`}, // not a name of the interface
		{weave(map[string]any{"scorer_tags": "a"}), `["body","scorer_tags"],"msg":"Input should be a valid list"`},
		{weave(map[string]any{"scorer_tags": []any{1}}), `["body","scorer_tags","0"],"msg":"Input should be a valid string"`},
		{weave(map[string]any{"scorer_ratings": map[string]any{"q": "a"}}), `["body","scorer_ratings","q"],"msg":"Input should be a valid number"`},
		{weave(map[string]any{"scorer_tag_reasons": []any{}}), `["body","scorer_tag_reasons"],"msg":"Input should be a valid dictionary"`},
		{weave(map[string]any{"span_trace_id": 1}), `["body","span_trace_id"],"msg":"Input should be a valid string"`},
	} {
		if status, _, text := o.post("replace", strings.Replace(c.body, "{", `{"feedback_id":"none",`, 1)); status != 422 || !strings.Contains(text, c.want) {
			t.Errorf("%s: %d %s", c.body, status, text)
		}
	}
	if status, _, text := o.post("create", weave(map[string]any{"span_agent_name": strings.Repeat("n", 1<<20)})); status != 400 || !strings.Contains(text, "too large") {
		t.Errorf("columns of a megabyte: %d %s", status, text)
	}
}

// Spec feedback 1: F-2 to F-6, F-15; checklist 12, 13, 18, 19.
func TestFeedbackTransport(t *testing.T) {
	o := newOffice(t, func(s *servertest.Setup) { s.Config.MaxBody, s.Config.MaxBodies = 4<<20, 64<<20 })
	ok := item()
	for _, c := range []struct {
		name   string
		header []string
		body   string
		want   int
		text   string
	}{
		{"18 missing", []string{"Authorization: "}, ok, 401, `{"detail":"Not authenticated"}`},
		{"18 wrong", []string{basic("api", "wrong")}, ok, 401, `{"detail":"Invalid authentication credentials"}`},
		{"18 not base64", []string{"Authorization: Basic !"}, ok, 401, ""},
		{"18 bearer", []string{"Authorization: Bearer write"}, ok, 401, `{"detail":"Invalid authentication credentials"}`},
		{"401 before all", []string{"Authorization: ", "Content-Type: text/plain"}, "{", 401, ""},
		{"empty name", []string{basic("", "write")}, ok, 200, ""},
		{"name and password", []string{basic("alice", "pass:word")}, ok, 200, ""},
		{"another's password", []string{basic("bob", "pass:word")}, ok, 401, ""},
		{"a name's password as a key", []string{basic("api", "pass:word")}, ok, 401, ""},
		{"scheme in any case", []string{strings.Replace(basic("api", "write"), "Basic", "bASIC", 1)}, ok, 200, ""},
		{"19 read only", []string{basic("api", "read")}, ok, 403, `{"reason":"Forbidden"}`},
		{"another's project", []string{basic("api", "lab")}, ok, 403, `{"reason":"Forbidden"}`},
		{"403 before 400", []string{basic("api", "lab")}, item("trace_ref", "bad"), 403, ""},
		{"422 before 403", []string{basic("api", "lab")}, item("trace_ref", nil), 422, ""},
		{"a ref's project", nil, item("call_ref", "weave:///lab/x/call/1"), 403, ""},
		{"a ref's project", []string{basic("api", "chief")}, item("call_ref", "weave:///lab/x/call/1"), 200, ""},
		{"charset", []string{"Content-Type: application/json; charset=utf-8"}, ok, 200, ""},
		{"suffix", []string{"Content-Type: application/vnd.x+json"}, ok, 200, ""},
		{"none", []string{"Content-Type: "}, ok, 200, ""},
		{"form", []string{"Content-Type: application/x-www-form-urlencoded"}, ok, 415, `{"detail":"Unsupported Media Type"}`},
		{"text", []string{"Content-Type: text/plain"}, ok, 415, ""},
		{"byte order mark", nil, "\uFEFF" + ok, 200, ""},
		{"12 payload", nil, item("payload", map[string]any{"s": strings.Repeat("x", 2<<20)}), 400, `{"reason":"Feedback payload too large"}`},
		{"payload below the limit", nil, item("payload", map[string]any{"s": strings.Repeat("x", 1<<20-1<<10)}), 200, ""},
		{"payload above the limit", nil, item("payload", map[string]any{"s": strings.Repeat("x", 1<<20)}), 400, ""},
		{"13 body", nil, item("payload", map[string]any{"s": strings.Repeat("x", 5<<20)}), 413, `{"reason":"Request too large"}`},
		{"413 before 415", []string{"Content-Type: text/plain"}, strings.Repeat("x", 5<<20), 413, ""},
		{"not UTF-8", nil, strings.Replace(ok, "custom", "\xff", 1), 400, `{"reason":"The body is not valid UTF-8"}`},
	} {
		status, text, header := o.testServer.Get("POST", "/feedback/replace", c.body, append([]string{basic("api", "write")}, c.header...)...)
		if status != c.want || c.text != "" && text != c.text {
			t.Errorf("%s: %d %.200s", c.name, status, text)
		}
		if got := header.Get("WWW-Authenticate"); (status == 401) != strings.HasPrefix(got, `Basic realm="`) {
			t.Errorf("%s: WWW-Authenticate %q", c.name, got)
		}
	}
	for _, c := range []struct {
		method, path string
		want         int
		text, allow  string
	}{
		{"GET", "/feedback/replace", 405, `{"detail":"Method Not Allowed"}`, "POST"},
		{"POST", "/feedback/a/b", 404, `{"detail":"Not Found"}`, ""},
		{"POST", "/feedback/", 404, `{"detail":"Not Found"}`, ""},
		{"POST", "/feedback/0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90", 405, "", "GET"},
	} {
		status, text, header := o.testServer.Get(c.method, c.path, "", basic("api", "write"))
		if status != c.want || c.text != "" && text != c.text || header.Get("Allow") != c.allow {
			t.Errorf("%s %s: %d %s", c.method, c.path, status, text)
		}
	}
}

// Decision 25: without keys everything is open here, and feedback is not elsewhere.
func TestFeedbackWithoutKeys(t *testing.T) {
	open, err := auth.New(nil, "")
	if err != nil {
		t.Fatal(err)
	}
	o := newOffice(t, func(s *servertest.Setup) { s.Config.Keys = open })
	for _, header := range []string{"Authorization: ", basic("who", "ever"), "Authorization: Bearer x"} {
		if status, answer, text := o.post("replace", item(), header); status != 200 || answer["platform_user_id"] != "anonymous" {
			t.Errorf("%s: %d %s", header, status, text)
		}
	}
	o.Instance.Transport().Expose()
	if status, _, _ := o.post("replace", item(), "Authorization: "); status != 401 {
		t.Errorf("from elsewhere: %d", status)
	}
	if status, _, _ := o.testServer.Get("GET", "/v1/models", ""); status == 401 {
		t.Error("chat is shut")
	}
	// --api-key: one key opens both, each in its way.
	key, err := auth.New([]string{"k"}, "")
	if err != nil {
		t.Fatal(err)
	}
	o = newOffice(t, func(s *servertest.Setup) { s.Config.Keys = key })
	if status, answer, _ := o.post("replace", item(), basic("api", "k")); status != 200 || answer["platform_user_id"] != "api" {
		t.Errorf("--api-key: %d %v", status, answer)
	}
	if status, _, _ := o.testServer.Get("GET", "/v1/models", "", "Authorization: Bearer k"); status == 401 {
		t.Error("--api-key: chat is shut")
	}
	o = newOffice(t, func(s *servertest.Setup) { s.Config.Keys, s.Config.FeedbackBearer = key, true })
	if status, _, _ := o.post("replace", item(), "Authorization: Bearer k"); status != 200 {
		t.Error("FeedbackBearer has no effect")
	}
}

// Spec F-12, F-40; checklist 10, 11.
func TestFeedbackSchema(t *testing.T) {
	o := newOffice(t, nil)
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
		{item("trace_ref", nil, "payload", nil, "feedback_id", nil), "missing body trace_ref, missing body payload, missing body feedback_id"}, // 11
		{item("foo", 1, "created_at", "x"), "extra_forbidden body created_at, extra_forbidden body foo"},                                       // 10
		{item("scorer_tags", []int{}), "extra_forbidden body scorer_tags"},
		{item("project_id", 5, "trace_ref", raw, "feedback_type", true), "string_type body project_id, string_type body trace_ref, string_type body feedback_type"},
		{item("payload", raw), "dict_type body payload"},
		{item("payload", []int{1}), "dict_type body payload"},
		{item("payload", "x"), "dict_type body payload"},
		{item("project_id", "", "feedback_type", "", "feedback_id", ""), "string_too_short body project_id, string_too_short body feedback_type, string_too_short body feedback_id"},
		{item("id", "x"), "uuid_parsing body id"},
		{item("id", ""), "uuid_parsing body id"},
		{item("id", "0199f2c47b1e4c539a603f2d6c1e8b90"), "uuid_parsing body id"},
		{item("id", "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b9g"), "uuid_parsing body id"},
		{item("id", 5, "creator", 5, "queue_id", []int{}, "platform_user_id", 7), "string_type body id, string_type body creator, string_type body queue_id, string_type body platform_user_id"},
	} {
		status, answer, text := o.post("replace", c.body)
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
	if o.count() != 0 {
		t.Error("something was stored")
	}
	// The last of repeated names counts, as in Python.
	if status, answer, text := o.post("replace", `{"payload":5,"payload":{"a":1},`+item("payload", nil)[1:]); status != 200 || fmt.Sprint(answer["payload"]) != "map[a:1]" {
		t.Errorf("%d %s", status, text)
	}
}

// Spec F-16; checklist 22: what comes back is what was sent.
func TestFeedbackFidelity(t *testing.T) {
	o := newOffice(t, nil)
	const payload = `{"z":9007199254740993,"a":1.0,"big":123456789012345678901234567890,"e":1E+2,"neg":-0.0,"s":"\ud83d \u00e9 \/ é 😀 \u2028","n":null,"deep":[[{"x":null}]],"a":2,"empty":{},"\ud800":1}`
	status, _, text := o.post("replace", strings.Replace(item("payload", nil), "{", `{"payload": `+strings.ReplaceAll(payload, ",", " ,\n\t")+",", 1))
	if status != 200 || !strings.HasSuffix(text, `"payload":`+payload+"}") {
		t.Fatalf("%d %s", status, text)
	}
	for _, body := range []string{`{"project_id":"acme/support"}`, `{"project_id":"acme/support","fields":["payload"]}`} {
		if _, _, text := o.post("query", body); !strings.Contains(text, payload) {
			t.Errorf("%s", text)
		}
	}
	if _, _, text := o.post("query", `{"project_id":"acme/support","fields":["payload.z","payload.a","payload.s","payload.missing","payload.deep.0.0.x"]}`); text !=
		`{"result":[{"payload.z":9007199254740993,"payload.a":2,"payload.s":"\ud83d \u00e9 \/ é 😀 \u2028","payload.missing":null,"payload.deep.0.0.x":null}],"total_count":1}` {
		t.Errorf("%s", text)
	}
	// A reaction's payload is changed, and the rest of it is not.
	status, _, text = o.post("replace", strings.Replace(item("payload", nil, "feedback_type", "wandb.reaction.1"), "{", `{"payload":{"alias":1,"\ud800":9007199254740993,"emoji":"\ud83d\udc4d","x":1.0},`, 1))
	if status != 200 || !strings.HasSuffix(text, `"payload":{"\ud800":9007199254740993,"emoji":"\ud83d\udc4d","x":1.0,"alias":":thumbs_up:","detoned":"👍","detoned_alias":":thumbs_up:"}}`) {
		t.Errorf("%d %s", status, text)
	}
}

// Checklist 6, 14: what is wrong changes nothing.
func TestFeedbackChecksFirst(t *testing.T) {
	o := newOffice(t, nil)
	id, _ := o.replace()
	before := fmt.Sprint(o.row(id))
	for _, fields := range [][]any{
		{"feedback_type", "wandb.note.1", "payload", map[string]any{"note": strings.Repeat("x", 1025)}},
		{"feedback_type", "wandb.reaction.1", "payload", map[string]any{"emoji": "👍👍"}},
		{"trace_ref", "nonsense"}, {"project_id", "acme"}, {"creator", strings.Repeat("x", 257)},
	} {
		status, _, text := o.post("replace", item(append([]any{"feedback_id", id}, fields...)...))
		if status != 400 || !strings.HasPrefix(text, `{"reason":"`) {
			if fields[0] != "project_id" || status != 403 { // which is nobody's project
				t.Errorf("%v: %d %s", fields[:1], status, text)
			}
		}
	}
	if fmt.Sprint(o.row(id)) != before || o.count() != 1 {
		t.Error("the old row has changed")
	}
	if status, _, text := o.post("replace", item("feedback_type", "wandb.note.1", "payload", map[string]any{"note": strings.Repeat("😀", 1024)})); status != 200 {
		t.Errorf("14: %d %s", status, text)
	}
}

// Checklist 21, F-29.
func TestFeedbackConcurrentReplace(t *testing.T) {
	o := newOffice(t, nil)
	const id = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	o.replace("feedback_id", id, "id", id)
	// Whoever reads meanwhile sees one row, never none nor two (F-27).
	over := make(chan struct{})
	var reading sync.WaitGroup
	reading.Go(func() {
		for {
			if n := len(o.query(`{"project_id":"acme/support"}`)); n != 1 {
				t.Errorf("F-27: %d rows are seen", n)
			}
			select {
			case <-over:
				return
			default:
			}
		}
	})
	var wg sync.WaitGroup
	for i := range 64 {
		wg.Go(func() {
			if status, _, text := o.post("replace", item("feedback_id", id, "id", id, "payload", map[string]any{"n": i})); status != 200 {
				t.Errorf("%d %s", status, text)
			}
		})
	}
	wg.Wait()
	close(over)
	reading.Wait()
	if o.count() != 1 || len(o.query(`{"project_id":"acme/support"}`)) != 1 {
		t.Errorf("%d rows", o.count())
	}
	for _, index := range []string{`{"$eq":[{"$getField":"trace_ref"},{"$literal":"` + callRef + `"}]}`, `{"$eq":[{"$getField":"feedback_type"},{"$literal":"custom"}]}`} {
		if n := len(o.query(`{"project_id":"acme/support","query":{"$expr":` + index + `}}`)); n != 1 {
			t.Errorf("%d rows by %s", n, index)
		}
	}
}
