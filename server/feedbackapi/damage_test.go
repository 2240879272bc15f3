package feedbackapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestDamagedRecord: a query that needs a damaged record is 503 and names it, one that does
// not is answered whole, and after it has been purged, as the answer says, everything else is
// there (docs/interface/feedback.md, section 11.2).
func TestDamagedRecord(t *testing.T) {
	f := servertest.NewFeedback(t)
	h := f.Serve(t, nil)
	const damaged = "0199f2c4-0000-7000-8000-000000000001"
	for _, id := range []string{damaged, "0199f2c4-0000-7000-8000-000000000002", "0199f2c4-0000-7000-8000-000000000003"} {
		if status, answer, _ := h.Get("POST", "/feedback/create", servertest.Item("id", id, "feedback_id", nil), servertest.Basic("api", "write")); status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
	}
	servertest.Spoil(t, f.DB, 'r', func([]byte) bool { return true })
	ask := func(method, path, body string) (int, string) {
		t.Helper()
		status, answer, _ := h.Get(method, path, body, servertest.Basic("api", "write"))
		return status, answer
	}
	for _, q := range []struct{ method, path, body string }{
		{"POST", "/feedback/query", `{"project_id":"acme/support"}`},
		{"POST", "/feedback/query", `{"project_id":"acme/support","sort_by":[{"field":"payload.n","direction":"asc"}]}`},
		{"POST", "/feedback/query", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"` + damaged + `"}]}}}`},
		{"POST", "/feedback/export", `{"project_id":"acme/support"}`},
		{"POST", "/feedback/stats", `{"project_id":"acme/support","start":"2020-01-01","metrics":[{"json_path":"n"}]}`},
		{"GET", "/feedback/" + damaged + "?project_id=acme%2Fsupport", ""},
	} {
		if status, answer := ask(q.method, q.path, q.body); status != 503 || !strings.Contains(answer, damaged) || !strings.Contains(answer, "purge") {
			t.Errorf("%s %s %s: %d %s", q.method, q.path, q.body, status, answer)
		}
	}
	if status, answer := ask("GET", "/feedback/0199f2c4-0000-7000-8000-000000000002?project_id=acme%2Fsupport", ""); status != 200 {
		t.Errorf("another record: %d %s", status, answer)
	}
	if status, answer := ask("POST", "/feedback/purge", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"`+damaged+`"}]}}}`); status != 200 {
		t.Errorf("purging: %d %s", status, answer)
	}
	for _, where := range []string{"", `,"query":{"$expr":{"$eq":[{"$getField":"feedback_type"},{"$literal":"custom"}]}}`} {
		status, answer := ask("POST", "/feedback/query", `{"project_id":"acme/support"`+where+`}`)
		if status != 200 || strings.Count(answer, `"trace_ref"`) != 2 || !strings.Contains(answer, `"total_count":2`) {
			t.Errorf("after purging: %d %s", status, answer)
		}
	}
	h.Log.Reset() // errors were asked for
}
