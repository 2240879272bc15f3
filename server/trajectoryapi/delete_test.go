package trajectoryapi_test

import (
	"strings"
	"testing"

	"weir/server/servertest"
)

// TestDeleteRoutes: each way to delete, and what is left
// (docs/interface/trajectories.md, T#30).
func TestDeleteRoutes(t *testing.T) {
	h, l := servertest.NewTrajectories(t, nil)
	ids := logBatches(t, h, 3)
	log, _, _ := strings.Cut(ids[0], "/")
	status, answer, _ := h.Get("DELETE", servertest.AgentPath+"/logs/"+log, "")
	if m := servertest.Object(t, answer); status != 200 || m["id"] != log || m["deleted"] != true || m["trajectories"] != 6.0 {
		t.Errorf("%d %s", status, answer)
	}
	for _, path := range []string{"/logs/" + log, "/logs/x"} {
		if status, answer, _ := h.Get("DELETE", servertest.AgentPath+path, ""); status != 404 {
			t.Errorf("%d %s", status, answer)
		}
	}
	for query, want := range map[string]string{"": "missing", "?confirm=M": "value_error"} {
		if status, answer, _ := h.Get("DELETE", servertest.AgentPath+"/trajectories"+query, ""); status != 422 || !strings.Contains(answer, `["query","confirm"]`) || !strings.Contains(answer, want) {
			t.Errorf("%d %s", status, answer)
		}
	}
	status, answer, _ = h.Get("DELETE", servertest.AgentPath+"/trajectories?confirm=m&metadata.g=1", "")
	if status != 200 || answer != `{"object":"trajectories.deleted","trajectories":2,"dry_run":false}` {
		t.Errorf("%d %s", status, answer)
	}
	entries, _ := h.List(t, servertest.AgentPath+"/trajectories?order=asc")
	if len(entries) != 10 || entries[0]["id"] != ids[6] || entries[3]["id"] != ids[10] {
		t.Errorf("%d entries", len(entries))
	}
	status, answer, _ = h.Get("DELETE", servertest.AgentPath, "")
	if m := servertest.Object(t, answer); status != 200 || m["id"] != "m" || m["deleted"] != true || m["trajectories"] != 10.0 {
		t.Errorf("%d %s", status, answer)
	}
	for _, path := range []string{"/trajectories", "/export", "/logs", "/metrics"} {
		if status, answer, _ := h.Get("GET", servertest.AgentPath+path, ""); status != 404 || answer != `{"detail":"Not found"}` {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	servertest.WaitFor(t, "the blocks to go", func() bool { return l.Keys(t, 'D') == 0 && l.Keys(t, 'U') == 0 })
}
