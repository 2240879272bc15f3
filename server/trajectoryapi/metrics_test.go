package trajectoryapi_test

import (
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"weir/server/servertest"
)

// TestMetricsRoute: the example of docs/interface/trajectories.md, section 10, for each
// split, log, version and time.
func TestMetricsRoute(t *testing.T) {
	h, _ := servertest.NewTrajectories(t, nil)
	r := h.LogGroups(t, servertest.AgentPath, `{"split":"train","trajectory_groups":[
		{"trajectories":[{"reward":0,"final_policy_version":1,"metrics":{"turns":2}},{"reward":1,"final_policy_version":2}],"metrics":{"judge":0.5}},
		{"trajectories":[{"reward":1,"final_policy_version":2},{"reward":1},{"reward":1}],"exceptions":[{}]}]}`)
	h.LogGroups(t, servertest.AgentPath, `{"split":"val","trajectory_groups":[{"exceptions":[{},{}]}]}`)
	entries, _ := metrics(t, h, "")
	if len(entries) != 2 || entries[0]["split"] != "train" || entries[0]["key"] != nil {
		t.Fatalf("%v", entries)
	}
	want := map[string]any{"train/reward": 0.8, "train/reward_std_dev": 0.25, "train/exception_rate": 1.0 / 6, "train/turns": 2.0, "train/group/judge": 0.5}
	if !reflect.DeepEqual(entries[0]["metrics"], want) || entries[0]["zero_spread_groups"] != 0.5 || entries[0]["groups"] != 2.0 || entries[0]["trajectories"] != 5.0 || entries[0]["exceptions"] != 1.0 {
		t.Errorf("%v", entries[0])
	}
	if !reflect.DeepEqual(entries[0]["reward"], map[string]any{"min": 0.0, "p10": 0.4, "p50": 1.0, "p90": 1.0, "max": 1.0}) {
		t.Errorf("%v", entries[0]["reward"])
	}
	if !reflect.DeepEqual(entries[1]["metrics"], map[string]any{"val/exception_rate": 1.0}) || entries[1]["reward"] != nil {
		t.Errorf("%v", entries[1])
	}
	logs, _ := h.List(t, servertest.AgentPath+"/logs?order=asc")
	if !reflect.DeepEqual(logs[0]["metrics"], want) || logs[0]["id"] != r["id"] || logs[0]["bytes"] != r["bytes"] {
		t.Errorf("%v", logs[0])
	}
	if entries, _ = metrics(t, h, "?group_by=log"); len(entries) != 2 || entries[0]["key"] != r["id"] {
		t.Errorf("%v", entries)
	}
	if entries, _ = metrics(t, h, "?group_by=day&split=train"); len(entries) != 1 || len(entries[0]["key"].(string)) != len(time.DateOnly) {
		t.Errorf("%v", entries)
	}
	if entries, _ = metrics(t, h, "?group_by=hour&split=train"); len(entries) != 1 || !strings.HasSuffix(entries[0]["key"].(string), ":00:00Z") {
		t.Errorf("%v", entries)
	}
	entries, _ = metrics(t, h, "?group_by=policy_version&split=train")
	if len(entries) != 3 || entries[0]["key"] != nil || entries[1]["key"] != 1.0 || entries[2]["key"] != 2.0 || entries[2]["trajectories"] != 2.0 || entries[2]["exceptions"] != 1.0 || entries[0]["exceptions"] != 0.0 {
		t.Errorf("%v", entries)
	}
	if entries, _ = metrics(t, h, "?min_reward=1"); len(entries) != 1 || entries[0]["trajectories"] != 4.0 {
		t.Errorf("%v", entries)
	}
	// Metrics of any name and value are JSON.
	h.LogGroups(t, servertest.AgentPath, fmt.Sprintf(`{"split":"a\"b","trajectory_groups":[{"trajectories":[{"metrics":{"\u0007\"":1e308}},{"metrics":{"\u0007\"":%g}}]}]}`, math.MaxFloat64))
	metrics(t, h, "")
}

func metrics(t *testing.T, h *servertest.Server, query string) ([]map[string]any, map[string]any) {
	t.Helper()
	return h.List(t, servertest.AgentPath+"/metrics"+query)
}
