package server_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// docs/interface/feedback.md, section 11.3: idempotency keys.
func TestFeedbackOnce(t *testing.T) {
	o := newOffice(t, nil)
	_, _, first := o.post("create", item("feedback_id", nil), "Idempotency-Key: k1")
	_, _, again := o.post("create", item("feedback_id", nil), "Idempotency-Key: k1")
	if first != again || o.count() != 1 {
		t.Errorf("%s, then %s; %d rows", first, again, o.count())
	}
	if status, _, text := o.post("create", item("feedback_id", nil, "payload", map[string]any{}), "Idempotency-Key: k1"); status != 409 {
		t.Errorf("another body: %d %s", status, text)
	}
	for _, header := range [][]string{{"Idempotency-Key: k2"}, {"Idempotency-Key: k3", "X-Weave-Retry-Id: r1"}, {"Idempotency-Key: k1", basic("api", "chief")}} {
		for range 2 {
			if status, _, text := o.post("create", item("feedback_id", nil), header...); status != 200 {
				t.Errorf("%v: %d %s", header, status, text)
			}
		}
	}
	o.post("replace", item(), "Idempotency-Key: k1") // another function
	if n := o.count(); n != 5 {
		t.Errorf("%d rows", n)
	}
	// Keys are in the database, so they outlive the server.
	o.Stop()
	o.start(t, nil)
	if _, _, again := o.post("create", item("feedback_id", nil), "Idempotency-Key: k1"); first != again || o.count() != 5 {
		t.Errorf("after a restart: %s, then %s; %d rows", first, again, o.count())
	}
	if status, _, _ := o.post("create", item("feedback_id", nil), "Idempotency-Key: "+strings.Repeat("k", 256)); status != 400 {
		t.Errorf("a key of 256 characters: %d", status)
	}
}

// TestFeedbackRetryID: X-Weave-Retry-Id is no idempotency key. The default client
// of W&B Weave from 0.53 on sends one id with many different writes, and each of
// them is a write of its own.
func TestFeedbackRetryID(t *testing.T) {
	o := newOffice(t, nil)
	const header = "X-Weave-Retry-Id: 019a0b5c-1c70-7e7c-9d0a-d2a1b2c3d4e5"
	ids := map[any]bool{}
	for i := range 3 {
		status, answer, text := o.post("create", item("feedback_id", nil, "payload", map[string]any{"i": i}), header)
		if status != 200 {
			t.Errorf("create %d: %d %s", i, status, text)
		}
		ids[answer["id"]] = true
	}
	status, answer, text := o.post("create", item("feedback_id", nil, "payload", map[string]any{"i": 0}), header) // the same body, too
	if ids[answer["id"]] = true; status != 200 || len(ids) != 4 || o.count() != 4 {
		t.Errorf("%d %s: %d ids, %d rows", status, text, len(ids), o.count())
	}
	for id := range ids {
		if status, _, text := o.post("replace", item("feedback_id", id, "payload", map[string]any{"of": id}), header); status != 200 {
			t.Errorf("replace: %d %s", status, text)
		}
	}
	if n := o.count(); n != 4 {
		t.Errorf("%d rows after the replaces", n)
	}
}

// docs/interface/feedback.md, section 8.1, 8.2.
func TestFeedbackCreate(t *testing.T) {
	o := newOffice(t, nil)
	const id = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	for range 2 { // the second is a replay
		if status, answer, text := o.post("create", item("feedback_id", nil, "id", id)); status != 200 || answer["id"] != id || len(answer) != 4 {
			t.Errorf("%d %s", status, text)
		}
	}
	if status, _, _ := o.post("create", item("feedback_id", nil, "id", id, "payload", map[string]any{})); status != 409 || o.count() != 1 {
		t.Errorf("%d, %d rows", status, o.count())
	}
	if status, _, _ := o.post("create", item()); status != 422 {
		t.Errorf("feedback_id: %d", status)
	}
	batch := func(items ...string) string { return `{"batch":[` + strings.Join(items, ",") + `]}` }
	n := func(i int) string { return item("feedback_id", nil, "payload", map[string]any{"i": i}) }
	for _, c := range []struct {
		body   string
		status int
		text   string
	}{
		{batch(), 200, `{"res":[]}`},
		{"{}", 422, `["body","batch"]`},
		{batch(n(0), `{}`), 422, `["body","batch","1","payload"]`},
		{batch(n(0), n(1), n(2), item("feedback_id", nil, "trace_ref", "x")), 400, `{"reason":"batch[3]: Invalid ref`},
		{batch(n(0), item("feedback_id", nil, "project_id", "lab/x")), 403, `{"reason":"Forbidden"}`},
		{batch(n(0), item("feedback_id", nil, "id", id, "payload", map[string]any{"other": 1})), 409, `{"reason":"batch[1]: `},
		{batch(n(0), item("feedback_id", nil, "trace_ref", nil, "weave_ref", callRef)), 422, "extra_forbidden"},
		{batch(strings.Split(strings.Repeat("{}|", 10_000)+"{}", "|")...), 413, `{"reason":"Request too large"}`},
	} {
		if status, _, text := o.post("batch/create", c.body); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%.60s: %d %.200s", c.body, status, text)
		}
	}
	if o.count() != 1 {
		t.Errorf("%d rows", o.count())
	}
	var many []string
	for i := range 3000 { // more than one transaction
		many = append(many, n(i))
	}
	same := item("feedback_id", nil, "id", "0199F2C4-0000-4c53-9a60-3f2d6c1e8b90")
	many = append(many, same, same, item("feedback_id", nil, "project_id", "acme/b"))
	status, answer, text := o.post("batch/create", batch(many...))
	res, _ := answer["res"].([]any)
	if status != 200 || len(res) != 3003 || o.count() != 3002 {
		t.Fatalf("%d, %d answers, %d rows: %.200s", status, len(res), o.count(), text)
	}
	for i, r := range res[:3000] {
		if got := r.(map[string]any)["payload"].(map[string]any)["i"]; got != float64(i) {
			t.Fatalf("answer %d is %v", i, got)
		}
	}
	if o.row(res[2999].(map[string]any)["id"].(string)) == nil {
		t.Error("the last row is not there")
	}
}

// docs/interface/feedback.md, section 8.4; checklist 24.
func TestFeedbackPurge(t *testing.T) {
	o := newOffice(t, nil)
	var ids []string
	for range 6 {
		id, _ := o.replace()
		ids = append(ids, id)
	}
	eq := func(field, v string) string {
		return `{"$eq":[{"$getField":"` + field + `"},{"$literal":"` + v + `"}]}`
	}
	purge := func(expr string, headers ...string) (int, string) {
		status, _, text := o.post("purge", `{"project_id":"acme/support","query":{"$expr":`+expr+`}}`, headers...)
		return status, text
	}
	const only = `{"reason":"Can only purge feedback by specifying one or more feedback ids"}`
	for _, expr := range []string{
		eq("feedback_type", "custom"), `{"$or":[` + eq("id", ids[0]) + `,` + eq("creator", "x") + `]}`, `{"$not":[` + eq("id", ids[0]) + `]}`,
		`{"$eq":[{"$literal":"` + ids[0] + `"},{"$getField":"id"}]}`, `{"$and":[` + eq("id", ids[0]) + `]}`, `{"$in":[{"$getField":"creator"},[{"$literal":"x"}]]}`,
	} {
		if status, text := purge(expr); status != 400 || text != only {
			t.Errorf("%s: %d %s", expr, status, text)
		}
	}
	if status, _ := purge(`{"$or":[]}`); status != 400 {
		t.Errorf("empty $or: %d", status)
	}
	if status, _, _ := o.post("purge", `{"project_id":"acme/support"}`); status != 422 {
		t.Errorf("no query: %d", status)
	}
	if status, _ := purge(eq("id", ids[0]), basic("api", "read")); status != 403 {
		t.Errorf("a reader: %d", status)
	}
	if status, _, _ := o.post("purge", `{"project_id":"acme/b","query":{"$expr":`+eq("id", ids[0])+`}}`); status != 200 || o.count() != 6 {
		t.Errorf("another project: %d, %d rows", status, o.count())
	}
	for i, expr := range []string{
		eq("id", strings.ToUpper(ids[0])), `{"$or":[` + eq("id", ids[1]) + `,` + eq("id", ids[2]) + `,` + eq("id", "none") + `]}`,
		`{"$in":[{"$getField":"id"},[{"$literal":"` + ids[3] + `"},{"$literal":"` + ids[3] + `"}]]}`,
	} {
		status, text := purge(expr)
		if want := []int{5, 3, 2}[i]; status != 200 || text != "{}" || o.count() != want {
			t.Errorf("%s: %d %s, %d rows", expr, status, text, o.count())
		}
	}
}

// docs/interface/feedback.md, section 8.8.
func TestFeedbackEraseAndGet(t *testing.T) {
	o := newOffice(t, nil)
	var ids []string
	for i := range 4 {
		id, _ := o.replace("creator", []string{"ann", "bob"}[i%2])
		ids = append(ids, id)
	}
	chief := basic("api", "chief")
	status, text, _ := o.testServer.Get("GET", "/feedback/"+strings.ToUpper(ids[0])+"?project_id=acme/support", "", basic("api", "read"))
	if status != 200 || !strings.Contains(text, `"id":"`+ids[0]+`"`) || !strings.Contains(text, `"creator":"ann"`) {
		t.Errorf("%d %s", status, text)
	}
	for path, want := range map[string]int{
		ids[0] + "?project_id=acme/b": 404, ids[0]: 422, ids[0] + "?project_id=lab/x": 403, "x?project_id=acme/support": 404,
	} {
		if status, text, _ := o.testServer.Get("GET", "/feedback/"+path, "", basic("api", "read")); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, c := range []struct {
		body, header string
		status       int
		text         string
		left         int
	}{
		{`{"project_id":"acme/support","creator":"ann","confirm":"acme/support"}`, basic("api", "write"), 403, "Forbidden", 4},
		{`{"project_id":"acme/support","creator":"ann"}`, chief, 400, "confirm", 4},
		{`{"project_id":"acme/support","confirm":"acme/support"}`, chief, 400, "Nothing", 4},
		{`{"project_id":"acme/support","creator":"ann","before":"nonsense","confirm":"acme/support"}`, chief, 400, "not a date", 4},
		{`{"project_id":"acme/support","creator":"ann","dry_run":true}`, chief, 200, `{"count":2,"dry_run":true}`, 4},
		{`{"project_id":"acme/support","creator":"ann","before":"2020-01-01","confirm":"acme/support"}`, chief, 200, `{"count":0,"dry_run":false}`, 4},
		{`{"project_id":"acme/support","creator":"ann","confirm":"acme/support"}`, chief, 200, `{"count":2,"dry_run":false}`, 2},
		{`{"project_id":"acme/support","before":"2999-01-01","confirm":"acme/support"}`, chief, 200, `{"count":2,"dry_run":false}`, 0},
	} {
		status, _, text := o.post("erase", c.body, c.header)
		if status != c.status || !strings.Contains(text, c.text) || o.count() != c.left {
			t.Errorf("%s: %d %s, %d left", c.body, status, text, o.count())
		}
	}
}

// Before the store is open, and when it is closed, clients are told to come again.
func TestFeedbackUnavailable(t *testing.T) {
	o := newOffice(t, nil)
	if err := o.db.Close(); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"replace", "query"} {
		status, text, header := o.testServer.Get("POST", "/feedback/"+path, map[string]string{"replace": item(), "query": `{"project_id":"acme/support"}`}[path], basic("api", "write"))
		if status != 503 || header.Get("Retry-After") == "" || !strings.HasPrefix(text, `{"reason":`) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	none := newServer(t, func(s *servertest.Setup) { s.NoModel = true })
	if status, text, _ := none.Get("POST", "/feedback/replace", item()); status != 404 {
		t.Errorf("without feedback: %d %s", status, text)
	}
}

// A large answer streams; a client that leaves stops it; and what the server
// logs of a request is nothing of what it says (docs/interface/feedback.md, section 11.4).
func TestFeedbackLargeAnswer(t *testing.T) {
	o := newOffice(t, nil)
	var items []string
	for i := range 200 {
		items = append(items, item("feedback_id", nil, "payload", map[string]any{"i": i, "s": strings.Repeat("secret", 2000)}))
	}
	if status, _, text := o.post("batch/create", `{"batch":[`+strings.Join(items, ",")+`]}`); status != 200 {
		t.Fatal(text)
	}
	if rows := o.query(`{"project_id":"acme/support"}`); len(rows) != 200 || rows[199].(map[string]any)["payload"].(map[string]any)["i"] != 199.0 {
		t.Errorf("%d rows", len(rows))
	}
	_, lines, _ := o.testServer.Get("POST", "/feedback/export", `{"project_id":"acme/support","fields":["payload.i"],"sort_by":[{"field":"payload.i","direction":"desc"}]}`, basic("api", "read"))
	if n := strings.Count(lines, "\n"); n != 200 || !strings.HasPrefix(lines, `{"payload.i":199}`+"\n") {
		t.Errorf("%d lines: %.100s", n, lines)
	}
	resp := o.Do("POST", "/feedback/export", `{"project_id":"acme/support"}`, basic("api", "read"))
	if resp.Header.Get("Content-Type") != "application/x-ndjson" {
		t.Errorf("%v", resp.Header)
	}
	if _, err := resp.Body.Read(make([]byte, 100)); err != nil {
		t.Error(err)
	}
	resp.Body.Close() // what was begun must end: the house looks for leaks
	_, csv, _ := o.testServer.Get("POST", "/feedback/export", `{"project_id":"acme/support","fields":["payload.i","creator","payload"],"limit":1}`, basic("api", "read"), "Accept: text/csv")
	if !strings.HasPrefix(csv, "payload.i,creator,payload\r\n0,,\"{\"\"i\"\":0,") {
		t.Errorf("%.100s", csv)
	}
	servertest.WaitFor(t, "three exports counted", func() bool {
		return o.testServer.Scraped()[`http_requests_total{handler="/feedback/export",method="POST",status="2xx"}`] == "3"
	})
	if strings.Contains(o.Log.Text(), "secret") {
		t.Error("the log has a payload")
	}
}
