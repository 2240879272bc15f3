package feedbackapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestFeedbackPurge: records are removed by their ids alone (docs/interface/feedback.md,
// section 8.4, F#24).
func TestFeedbackPurge(t *testing.T) {
	s := newServer(t, nil)
	var ids []string
	for range 6 {
		id, _ := s.replace()
		ids = append(ids, id)
	}
	eq := func(field, v string) string {
		return `{"$eq":[{"$getField":"` + field + `"},{"$literal":"` + v + `"}]}`
	}
	purge := func(expr string, headers ...string) (int, string) {
		status, _, text := s.post("purge", `{"project_id":"acme/support","query":{"$expr":`+expr+`}}`, headers...)
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
	if status, _, _ := s.post("purge", `{"project_id":"acme/support"}`); status != 422 {
		t.Errorf("no query: %d", status)
	}
	if status, _ := purge(eq("id", ids[0]), servertest.Basic("api", "read")); status != 403 {
		t.Errorf("a reader: %d", status)
	}
	if status, _, _ := s.post("purge", `{"project_id":"acme/b","query":{"$expr":`+eq("id", ids[0])+`}}`); status != 200 || s.count() != 6 {
		t.Errorf("another project: %d, %d rows", status, s.count())
	}
	for i, expr := range []string{
		eq("id", strings.ToUpper(ids[0])), `{"$or":[` + eq("id", ids[1]) + `,` + eq("id", ids[2]) + `,` + eq("id", "none") + `]}`,
		`{"$in":[{"$getField":"id"},[{"$literal":"` + ids[3] + `"},{"$literal":"` + ids[3] + `"}]]}`,
	} {
		status, text := purge(expr)
		if want := []int{5, 3, 2}[i]; status != 200 || text != "{}" || s.count() != want {
			t.Errorf("%s: %d %s, %d rows", expr, status, text, s.count())
		}
	}
}

// TestFeedbackEraseAndGet: a single record is read, and the records of a person or of a
// time are erased (docs/interface/feedback.md, section 8.8).
func TestFeedbackEraseAndGet(t *testing.T) {
	s := newServer(t, nil)
	var ids []string
	for i := range 4 {
		id, _ := s.replace("creator", []string{"ann", "bob"}[i%2])
		ids = append(ids, id)
	}
	chief := servertest.Basic("api", "chief")
	status, text, _ := s.Get("GET", "/feedback/"+strings.ToUpper(ids[0])+"?project_id=acme/support", "", servertest.Basic("api", "read"))
	if status != 200 || !strings.Contains(text, `"id":"`+ids[0]+`"`) || !strings.Contains(text, `"creator":"ann"`) {
		t.Errorf("%d %s", status, text)
	}
	for path, want := range map[string]int{
		ids[0] + "?project_id=acme/b": 404, ids[0]: 422, ids[0] + "?project_id=lab/x": 403, "x?project_id=acme/support": 404,
	} {
		if status, text, _ := s.Get("GET", "/feedback/"+path, "", servertest.Basic("api", "read")); status != want {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
	for _, c := range []struct {
		body, header string
		status       int
		text         string
		left         int
	}{
		{`{"project_id":"acme/support","creator":"ann","confirm":"acme/support"}`, servertest.Basic("api", "write"), 403, "Forbidden", 4},
		{`{"project_id":"acme/support","creator":"ann"}`, chief, 400, "confirm", 4},
		{`{"project_id":"acme/support","confirm":"acme/support"}`, chief, 400, "Nothing", 4},
		{`{"project_id":"acme/support","creator":"ann","before":"nonsense","confirm":"acme/support"}`, chief, 400, "not a date", 4},
		{`{"project_id":"acme/support","creator":"ann","dry_run":true}`, chief, 200, `{"count":2,"dry_run":true}`, 4},
		{`{"project_id":"acme/support","creator":"ann","before":"2020-01-01","confirm":"acme/support"}`, chief, 200, `{"count":0,"dry_run":false}`, 4},
		{`{"project_id":"acme/support","creator":"ann","confirm":"acme/support"}`, chief, 200, `{"count":2,"dry_run":false}`, 2},
		{`{"project_id":"acme/support","before":"2999-01-01","confirm":"acme/support"}`, chief, 200, `{"count":2,"dry_run":false}`, 0},
	} {
		status, _, text := s.post("erase", c.body, c.header)
		if status != c.status || !strings.Contains(text, c.text) || s.count() != c.left {
			t.Errorf("%s: %d %s, %d left", c.body, status, text, s.count())
		}
	}
}
