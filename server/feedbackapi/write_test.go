package feedbackapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestFeedbackCreate: single records and batches are created
// (docs/interface/feedback.md, sections 8.1 and 8.2).
func TestFeedbackCreate(t *testing.T) {
	s := newServer(t, nil)
	const id = "0199f2c4-7b1e-4c53-9a60-3f2d6c1e8b90"
	for range 2 { // the second is a replay
		if status, answer, text := s.post("create", servertest.Item("feedback_id", nil, "id", id)); status != 200 || answer["id"] != id || len(answer) != 4 {
			t.Errorf("%d %s", status, text)
		}
	}
	if status, _, _ := s.post("create", servertest.Item("feedback_id", nil, "id", id, "payload", map[string]any{})); status != 409 || s.count() != 1 {
		t.Errorf("%d, %d rows", status, s.count())
	}
	if status, _, _ := s.post("create", servertest.Item()); status != 422 {
		t.Errorf("feedback_id: %d", status)
	}
	batch := func(items ...string) string { return `{"batch":[` + strings.Join(items, ",") + `]}` }
	n := func(i int) string { return servertest.Item("feedback_id", nil, "payload", map[string]any{"i": i}) }
	for _, c := range []struct {
		body   string
		status int
		text   string
	}{
		{batch(), 200, `{"res":[]}`},
		{"{}", 422, `["body","batch"]`},
		{batch(n(0), `{}`), 422, `["body","batch","1","payload"]`},
		{batch(n(0), n(1), n(2), servertest.Item("feedback_id", nil, "trace_ref", "x")), 400, `{"reason":"batch[3]: Invalid ref`},
		{batch(n(0), servertest.Item("feedback_id", nil, "project_id", "lab/x")), 403, `{"reason":"Forbidden"}`},
		{batch(n(0), servertest.Item("feedback_id", nil, "id", id, "payload", map[string]any{"other": 1})), 409, `{"reason":"batch[1]: `},
		{batch(n(0), servertest.Item("feedback_id", nil, "trace_ref", nil, "weave_ref", servertest.CallRef)), 422, "extra_forbidden"},
		{batch(strings.Split(strings.Repeat("{}|", 10_000)+"{}", "|")...), 413, `{"reason":"Request too large"}`},
	} {
		if status, _, text := s.post("batch/create", c.body); status != c.status || !strings.Contains(text, c.text) {
			t.Errorf("%.60s: %d %.200s", c.body, status, text)
		}
	}
	if s.count() != 1 {
		t.Errorf("%d rows", s.count())
	}
	var many []string
	for i := range 3000 { // more than one transaction
		many = append(many, n(i))
	}
	same := servertest.Item("feedback_id", nil, "id", "0199F2C4-0000-4c53-9a60-3f2d6c1e8b90")
	many = append(many, same, same, servertest.Item("feedback_id", nil, "project_id", "acme/b"))
	status, answer, text := s.post("batch/create", batch(many...))
	res, _ := answer["res"].([]any)
	if status != 200 || len(res) != 3003 || s.count() != 3002 {
		t.Fatalf("%d, %d answers, %d rows: %.200s", status, len(res), s.count(), text)
	}
	for i, r := range res[:3000] {
		if got := r.(map[string]any)["payload"].(map[string]any)["i"]; got != float64(i) {
			t.Fatalf("answer %d is %v", i, got)
		}
	}
	if s.row(res[2999].(map[string]any)["id"].(string)) == nil {
		t.Error("the last row is not there")
	}
}

// TestFeedbackFidelity: a payload comes back as it was sent (docs/interface/feedback.md,
// F-16, F#22).
func TestFeedbackFidelity(t *testing.T) {
	s := newServer(t, nil)
	const payload = `{"z":9007199254740993,"a":1.0,"big":123456789012345678901234567890,"e":1E+2,"neg":-0.0,"s":"\ud83d \u00e9 \/ é 😀 \u2028","n":null,"deep":[[{"x":null}]],"a":2,"empty":{},"\ud800":1}`
	status, _, text := s.post("replace", strings.Replace(servertest.Item("payload", nil), "{", `{"payload": `+strings.ReplaceAll(payload, ",", " ,\n\t")+",", 1))
	if status != 200 || !strings.HasSuffix(text, `"payload":`+payload+"}") {
		t.Fatalf("%d %s", status, text)
	}
	for _, body := range []string{`{"project_id":"acme/support"}`, `{"project_id":"acme/support","fields":["payload"]}`} {
		if _, _, text := s.post("query", body); !strings.Contains(text, payload) {
			t.Errorf("%s", text)
		}
	}
	if _, _, text := s.post("query", `{"project_id":"acme/support","fields":["payload.z","payload.a","payload.s","payload.missing","payload.deep.0.0.x"]}`); text !=
		`{"result":[{"payload.z":9007199254740993,"payload.a":2,"payload.s":"\ud83d \u00e9 \/ é 😀 \u2028","payload.missing":null,"payload.deep.0.0.x":null}],"total_count":1}` {
		t.Errorf("%s", text)
	}
	// A reaction's payload is changed, and the rest of it is not.
	status, _, text = s.post("replace", strings.Replace(servertest.Item("payload", nil, "feedback_type", "wandb.reaction.1"), "{", `{"payload":{"alias":1,"\ud800":9007199254740993,"emoji":"\ud83d\udc4d","x":1.0},`, 1))
	if status != 200 || !strings.HasSuffix(text, `"payload":{"\ud800":9007199254740993,"emoji":"\ud83d\udc4d","x":1.0,"alias":":thumbs_up:","detoned":"👍","detoned_alias":":thumbs_up:"}}`) {
		t.Errorf("%d %s", status, text)
	}
}

// TestFeedbackOnce: idempotency keys (docs/interface/feedback.md, section 11.3).
func TestFeedbackOnce(t *testing.T) {
	s := newServer(t, nil)
	_, _, first := s.post("create", servertest.Item("feedback_id", nil), "Idempotency-Key: k1")
	_, _, again := s.post("create", servertest.Item("feedback_id", nil), "Idempotency-Key: k1")
	if first != again || s.count() != 1 {
		t.Errorf("%s, then %s; %d rows", first, again, s.count())
	}
	if status, _, text := s.post("create", servertest.Item("feedback_id", nil, "payload", map[string]any{}), "Idempotency-Key: k1"); status != 409 {
		t.Errorf("another body: %d %s", status, text)
	}
	for _, header := range [][]string{{"Idempotency-Key: k2"}, {"Idempotency-Key: k3", "X-Weave-Retry-Id: r1"}, {"Idempotency-Key: k1", servertest.Basic("api", "chief")}} {
		for range 2 {
			if status, _, text := s.post("create", servertest.Item("feedback_id", nil), header...); status != 200 {
				t.Errorf("%v: %d %s", header, status, text)
			}
		}
	}
	s.post("replace", servertest.Item(), "Idempotency-Key: k1") // another function
	if n := s.count(); n != 5 {
		t.Errorf("%d rows", n)
	}
	// Keys are in the database, so they outlive the server.
	s.Stop()
	s.Server = s.stored.Serve(t, nil)
	if _, _, again := s.post("create", servertest.Item("feedback_id", nil), "Idempotency-Key: k1"); first != again || s.count() != 5 {
		t.Errorf("after a restart: %s, then %s; %d rows", first, again, s.count())
	}
	if status, _, _ := s.post("create", servertest.Item("feedback_id", nil), "Idempotency-Key: "+strings.Repeat("k", 256)); status != 400 {
		t.Errorf("a key of 256 characters: %d", status)
	}
}

// TestFeedbackRetryID: X-Weave-Retry-Id is no idempotency key. The default client
// of W&B Weave from 0.53 on sends one id with many different writes, and each of
// them is a write of its own.
func TestFeedbackRetryID(t *testing.T) {
	s := newServer(t, nil)
	const header = "X-Weave-Retry-Id: 019a0b5c-1c70-7e7c-9d0a-d2a1b2c3d4e5"
	ids := map[any]bool{}
	for i := range 3 {
		status, answer, text := s.post("create", servertest.Item("feedback_id", nil, "payload", map[string]any{"i": i}), header)
		if status != 200 {
			t.Errorf("create %d: %d %s", i, status, text)
		}
		ids[answer["id"]] = true
	}
	status, answer, text := s.post("create", servertest.Item("feedback_id", nil, "payload", map[string]any{"i": 0}), header) // the same body, too
	if ids[answer["id"]] = true; status != 200 || len(ids) != 4 || s.count() != 4 {
		t.Errorf("%d %s: %d ids, %d rows", status, text, len(ids), s.count())
	}
	for id := range ids {
		if status, _, text := s.post("replace", servertest.Item("feedback_id", id, "payload", map[string]any{"of": id}), header); status != 200 {
			t.Errorf("replace: %d %s", status, text)
		}
	}
	if n := s.count(); n != 4 {
		t.Errorf("%d rows after the replaces", n)
	}
}
