package trajectoryapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestDamagedBatch: a query that needs a damaged value is 503 and names the batch, whatever
// the value is; queries that do not need it are answered whole; and after the batch has been
// deleted, as the answer says, everything else is there
// (docs/interface/trajectories.md, section 12.3).
func TestDamagedBatch(t *testing.T) {
	const all = "/trajectories /trajectories?q=x /trajectories?limit=1&order=asc /trajectories?log_id=ID /trajectories/ID/0/0 /export /metrics /metrics?group_by=log /logs"
	for _, c := range []struct {
		tag    byte
		stream int // of a block
		needed string
	}{
		{'D', 0, "/trajectories /trajectories?q=x /trajectories?limit=1&order=asc /trajectories?log_id=ID /trajectories/ID/0/0 /export"}, // texts
		{'D', 1, all}, // rows
		{'D', 2, all}, // groups
		{'B', -1, all},
	} {
		testDamagedBatch(t, c.tag, c.stream, strings.Fields(all), strings.Fields(c.needed))
	}
}

func testDamagedBatch(t *testing.T, tag byte, stream int, all, needed []string) {
	t.Helper()
	h, l := servertest.NewTrajectories(t, nil)
	damaged := h.LogGroups(t, servertest.AgentPath, servertest.Group(`{"reward":1,"messages_and_choices":[{"role":"user","content":"x"}]}`))["id"].(string)
	servertest.Spoil(t, l.DB, tag, func(key []byte) bool { return stream < 0 || int(key[17]) == stream })
	h.LogGroups(t, servertest.AgentPath, servertest.Group(`{"reward":2}`))
	h.LogGroups(t, "/v1/preview/models/other", servertest.Group(`{"reward":3}`))
	want := map[string]bool{}
	for _, path := range needed {
		want[path] = true
	}
	for _, path := range all {
		status, answer, header := h.Get("GET", servertest.AgentPath+strings.ReplaceAll(path, "ID", damaged), "")
		switch {
		case want[path] && (status != 503 || !strings.Contains(answer, "DELETE /v1/preview/models/{model_id}/logs/"+damaged) || header.Get("Retry-After") == ""):
			t.Errorf("%c%d, %s: %d %s", tag, stream, path, status, answer)
		case !want[path] && status != 200:
			t.Errorf("%c%d, %s, which needs nothing damaged: %d %s", tag, stream, path, status, answer)
		}
	}
	if entries, _ := h.List(t, "/v1/preview/models/other/trajectories"); len(entries) != 1 {
		t.Errorf("the other model: %v", entries)
	}
	if status, answer, _ := h.Get("DELETE", servertest.AgentPath+"/logs/"+damaged, ""); status != 200 {
		t.Errorf("%c%d: deleting: %d %s", tag, stream, status, answer)
	}
	for _, path := range []string{"/trajectories", "/logs"} {
		if entries, _ := h.List(t, servertest.AgentPath+path); len(entries) != 1 {
			t.Errorf("%c%d, %s after deleting: %v", tag, stream, path, entries)
		}
	}
	h.Log.Reset() // errors were asked for
}
