package recording_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"weir/feedback"
	"weir/metrics"
	"weir/server/recording"
	"weir/server/servertest"
	"weir/store"
)

// rewardServer is a server that records completions, and whose feedback rewards them.
type rewardServer struct {
	*servertest.Server
	archive  *servertest.Archive
	feedback *store.DB
}

func newRewardServer(t *testing.T, change func(*servertest.Setup)) *rewardServer {
	t.Helper()
	m := &rewardServer{feedback: servertest.NewDB(t)}
	m.Server, m.archive = servertest.NewRecording(t, func(s *servertest.Setup) {
		s.Config.Feedback = feedback.New(m.feedback, feedback.DefaultConfig())
		if change != nil {
			change(s)
		}
	})
	return m
}

// ask gets a completion of acme/support and returns its id.
func (m *rewardServer) ask(t *testing.T, fields map[string]any) string {
	t.Helper()
	status, answer := m.Chat(fields, "Compat-Project: acme/support")
	var c struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &c); err != nil || status != 200 || c.ID == "" {
		t.Fatalf("%d %s", status, answer)
	}
	return c.ID
}

// leave leaves feedback and returns its id.
func (m *rewardServer) leave(t *testing.T, path string, fields ...any) string {
	t.Helper()
	status, answer, _ := m.Get("POST", "/feedback/"+path, servertest.Item(fields...))
	if status != 200 {
		t.Fatalf("%v: %d %s", fields, status, answer)
	}
	return servertest.Object(t, answer)["id"].(string)
}

// reward leaves a reward for a completion and returns the id of the feedback.
func (m *rewardServer) reward(t *testing.T, call string, payload map[string]any, more ...any) string {
	t.Helper()
	return m.leave(t, "replace", append([]any{"trace_ref", "weir:///acme/support/call/" + call, "feedback_type", "reward", "payload", payload}, more...)...)
}

// rewards waits until the rewards of all recorded trajectories are those wanted.
func (m *rewardServer) rewards(t *testing.T, want ...any) {
	t.Helper()
	var got string
	servertest.WaitFor(t, fmt.Sprintf("the rewards %v", want), func() bool {
		status, answer, _ := m.Get("GET", "/v1/preview/models/tiny/trajectories?limit=1000&order=asc", "")
		if status != 200 {
			return false
		}
		var list []any
		for _, e := range servertest.Object(t, answer)["data"].([]any) {
			list = append(list, e.(map[string]any)["reward"])
		}
		got = fmt.Sprint(list)
		return got == fmt.Sprintf("%v", want)
	})
}

// settled waits until no reward waits.
func (m *rewardServer) settled(t *testing.T) {
	t.Helper()
	servertest.WaitFor(t, "settling", func() bool { return m.waiting(t) == 0 })
}

// waiting counts the rewards that wait for a record of their completion.
func (m *rewardServer) waiting(t *testing.T) int {
	t.Helper()
	return servertest.KeysIn(t, m.feedback, 'w')
}

// TestFeedbackOfAnAnswer: the id of a completion is the id of a call, so feedback on it is
// found by trace_ref and by call_ref (docs/interface/feedback.md, F-41).
func TestFeedbackOfAnAnswer(t *testing.T) {
	m := newRewardServer(t, nil)
	id := m.ask(t, nil)
	ref := "weave:///acme/support/call/" + id
	byTrace := m.leave(t, "replace", "trace_ref", ref, "feedback_type", "wandb.reaction.1", "payload", map[string]any{"emoji": "👍"})
	byCall := m.leave(t, "create", "call_ref", ref, "feedback_id", nil)
	m.leave(t, "replace", "trace_ref", ref+"0", "call_ref", ref+"0")
	for field, want := range map[string]string{"trace_ref": byTrace, "call_ref": byCall} {
		status, answer, _ := m.Get("POST", "/feedback/query", `{"project_id":"acme/support","fields":["id"],"query":{"$expr":{"$eq":[{"$getField":"`+field+`"},{"$literal":"`+ref+`"}]}}}`)
		if rows := servertest.Object(t, answer)["result"].([]any); status != 200 || len(rows) != 1 || rows[0].(map[string]any)["id"] != want {
			t.Errorf("%s: %d %s", field, status, answer)
		}
	}
	m.rewards(t, nil) // none of these is a reward
}

// TestRewardByFeedback: feedback of the type reward sets the rewards of the trajectories
// that were recorded of a completion. The latest reward counts, whether it came as feedback
// or to /rewards (docs/interface/feedback.md, F-42).
func TestRewardByFeedback(t *testing.T) {
	m := newRewardServer(t, nil)
	first := m.ask(t, map[string]any{"n": 2, "temperature": 1})
	m.reward(t, first, map[string]any{"reward": 1})
	m.rewards(t, 1.0, 1.0)
	second := m.ask(t, nil)
	m.rewards(t, 1.0, 1.0, nil)
	id := m.reward(t, first, map[string]any{"reward": 0.25, "choice": 1, "why": "slow"})
	m.leave(t, "create", "feedback_id", nil, "feedback_type", "reward", "payload", map[string]any{"reward": -2.5}, "call_ref", "weave:///acme/support/call/"+second)
	m.rewards(t, 1.0, 0.25, -2.5)

	// Of two rewards for one choice in a batch the later one counts. Feedback that replaces
	// other feedback counts, too.
	ref := `"trace_ref":"a:///acme/support/call/` + second + `","feedback_type":"reward"`
	status, answer, _ := m.Get("POST", "/feedback/batch/create", `{"batch":[{"project_id":"acme/support",`+ref+`,"payload":{"reward":5}},{"project_id":"acme/support",`+ref+`,"payload":{"reward":6}}]}`)
	if status != 200 {
		t.Fatal(answer)
	}
	m.rewards(t, 1.0, 0.25, 6.0)
	m.reward(t, first, map[string]any{"reward": 0.75, "choice": 1}, "feedback_id", id, "id", id)
	m.rewards(t, 1.0, 0.75, 6.0)

	// Nothing is set by feedback of other types, with other payloads, on other projects and
	// objects, or on choices and completions that do not exist.
	m.leave(t, "replace", "trace_ref", "weir:///acme/support/call/"+first, "feedback_type", "rewards", "payload", map[string]any{"reward": 9})
	for _, p := range []map[string]any{{}, {"reward": "9"}, {"reward": true}, {"reward": nil}, {"reward": 9, "choice": 1.5}, {"reward": 9, "choice": -1}, {"reward": 9, "choice": 7}} {
		m.reward(t, first, p)
	}
	m.reward(t, first, map[string]any{"reward": 9}, "trace_ref", "weir:///acme/other/call/"+first)
	m.reward(t, first, map[string]any{"reward": 9}, "trace_ref", "weir:///acme/support/object/"+first+":v1")
	m.reward(t, "nothing", map[string]any{"reward": 9})
	servertest.WaitFor(t, "all rewards but that of the unknown completion", func() bool { return m.waiting(t) == 1 })
	m.rewards(t, 1.0, 0.75, 6.0)

	// A later request to /rewards counts, and purging the feedback changes no reward.
	entries := m.Recorded(t, "tiny", 3)
	m.reward(t, second, map[string]any{"reward": 7})
	if status, answer, _ := m.Get("POST", "/v1/preview/models/tiny/rewards", fmt.Sprintf(`{"rewards":[{"id":%q,"reward":8}]}`, entries[2]["id"])); status != 200 {
		t.Fatal(answer)
	}
	m.rewards(t, 1.0, 0.75, 8.0)
	m.Get("POST", "/feedback/purge", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"`+id+`"}]}}}`)
	m.reward(t, second, map[string]any{"reward": 10})
	m.rewards(t, 1.0, 0.75, 10.0)
	_, whole := m.List(t, "/v1/preview/models/tiny/metrics")
	if got := whole["data"].([]any)[0].(map[string]any)["metrics"].(map[string]any)["recorded/reward"]; got != (1+0.75+10)/3 {
		t.Errorf("metrics: %v", got)
	}
	// A reward that is set again to the same value is not written again.
	servertest.WaitFor(t, "the replaced blocks to go", func() bool { return m.archive.Keys(t, 'U') == 0 })
	// A commit can be read before it is counted. After another update it is counted.
	if err := m.archive.DB.Update(t.Context(), func(*store.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	before := m.archive.DB.Stats().Commits
	m.reward(t, second, map[string]any{"reward": 10})
	servertest.WaitFor(t, "all rewards but that of the unknown completion", func() bool { return m.waiting(t) == 1 })
	if after := m.archive.DB.Stats().Commits; after != before {
		t.Errorf("%d commits for nothing", after-before)
	}
	// Deleted trajectories get no reward, and nothing waits for them.
	m.Get("DELETE", "/v1/preview/models/tiny", "")
	m.reward(t, first, map[string]any{"reward": 1})
	servertest.WaitFor(t, "all rewards but that of the unknown completion", func() bool { return m.waiting(t) == 1 })
	if n, err := m.archive.PruneCalls(t.Context()); err != nil || n != 2 || m.archive.Keys(t, 'C') != 0 {
		t.Errorf("%d pruned, %v", n, err)
	}
}

// TestRewardWaits: a reward that comes before its completion is recorded waits for it, over
// a restart too, and is forgotten in the end.
func TestRewardWaits(t *testing.T) {
	m := newRewardServer(t, func(s *servertest.Setup) { s.Config.Trajectories.RecordEvery = time.Hour })
	id := m.ask(t, nil)
	m.reward(t, id, map[string]any{"reward": 3})
	m.reward(t, "never", map[string]any{"reward": 3})
	again := recording.NewLinker(recording.Config{
		Archive: m.archive.Archive, Every: time.Hour, RewardWait: time.Hour, Clock: m.Clock(), Log: slog.New(m.Log),
	}, feedback.New(m.feedback, feedback.DefaultConfig()), metrics.New())
	if err := again.Pass(t.Context()); err != nil { // there is nothing to set yet
		t.Fatal(err)
	}
	again.Close()
	if n := m.waiting(t); n != 2 {
		t.Fatalf("%d wait", n)
	}
	m.Stop() // the recorder writes, then the linker sets
	if n := m.waiting(t); n != 1 {
		t.Errorf("%d wait", n)
	}
	after := m.restarted(t)
	after.rewards(t, 3.0)
	after.settled(t)
}

// restarted is a server on the databases of m, which has stopped. It does not wait for
// completions that are not recorded.
func (m *rewardServer) restarted(t *testing.T) *rewardServer {
	t.Helper()
	again := &rewardServer{feedback: m.feedback, archive: m.archive}
	again.Server = servertest.New(t, func(s *servertest.Setup) {
		s.Config.Trajectories.Archive, s.Config.Trajectories.Spool = m.archive.Archive, t.TempDir()
		s.Config.Trajectories.RecordEvery, s.Config.Trajectories.RewardWait = time.Millisecond, -time.Hour
		s.Config.Feedback = feedback.New(m.feedback, feedback.DefaultConfig())
	})
	return again
}

// TestRewardUnset: feedback that sets no reward is kept; its answer says in a header that it
// set none and why, and it is counted (docs/interface/feedback.md, F-42).
func TestRewardUnset(t *testing.T) {
	m := newRewardServer(t, nil)
	id := m.ask(t, map[string]any{"n": 2, "temperature": 1})
	m.Recorded(t, "tiny", 2)
	unset := func() string { return m.Scraped()["weir:rewards_unset_total"] }
	ref := "weir:///acme/support/call/" + id
	count := 0
	for _, c := range []struct {
		ref, payload, want string
	}{
		{ref, `{"reward":1}`, ""}, {ref, `{"reward":0.5,"choice":1}`, ""}, {ref, `{"reward":1,"choice":null}`, ""}, {ref + "0", `{"reward":1,"choice":9}`, ""},
		{ref, `{}`, "the payload has no reward"}, {ref, `{"reward":"1"}`, "the reward is not a finite number"}, {ref, `{"reward":null}`, "the reward is not a finite number"},
		{ref, `{"reward":"NaN"}`, "the reward is not a finite number"}, {ref, `{"reward":1e999}`, "the reward is not a finite number"}, {ref, `{"reward":true}`, "the reward is not a finite number"},
		{ref, `{"reward":1,"choice":1.5}`, "the choice is not an integer of at least 0"}, {ref, `{"reward":1,"choice":-1}`, "the choice is not an integer of at least 0"},
		{ref, `{"reward":1,"choice":"0"}`, "the choice is not an integer of at least 0"}, {ref, `{"reward":1,"choice":2}`, "the completion has no choice 2; its choices are counted from 0, and it has 2"},
		{"weir:///acme/support/op/x:v1", `{"reward":1}`, "neither call_ref nor trace_ref refers to a call"},
		{"weir:///acme/other/call/" + id, `{"reward":1}`, "the completion was made for another project"},
	} {
		for _, path := range []string{"replace", "create"} {
			fields := []any{"trace_ref", c.ref, "feedback_type", "reward", "payload", json.RawMessage(c.payload)}
			if path == "create" {
				fields = append(fields, "feedback_id", nil)
			}
			status, answer, header := m.Get("POST", "/feedback/"+path, servertest.Item(fields...))
			want := c.want
			if want != "" {
				want = "not set: " + want
				count++
			}
			if status != 200 || header.Get("X-Weir-Reward") != want {
				t.Errorf("%s: %d %s, %q, want %q", c.payload, status, answer, header.Get("X-Weir-Reward"), want)
			}
		}
	}
	servertest.WaitFor(t, fmt.Sprintf("%d records that set no reward", count), func() bool { return unset() == fmt.Sprint(count) })
	m.rewards(t, 1, 1)

	item := func(payload string) string {
		return servertest.Item("trace_ref", ref, "feedback_type", "reward", "payload", json.RawMessage(payload), "feedback_id", nil)
	}
	batch := `{"batch":[` + item(`{"reward":1}`) + "," + item(`{"reward":[]}`) + "," + item(`{}`) + `]}`
	if status, answer, header := m.Get("POST", "/feedback/batch/create", batch); status != 200 || header.Get("X-Weir-Reward") != "not set: 2 of 3: the reward is not a finite number" {
		t.Errorf("%d %s %q", status, answer, header.Get("X-Weir-Reward"))
	}
	// NaN is no JSON. Other types have payloads of their own.
	if status, answer, _ := m.Get("POST", "/feedback/create", item(`{}`)[:len(item(`{}`))-1]+`,"x":NaN}`); status != 422 {
		t.Errorf("%d %s", status, answer)
	}
	if _, _, header := m.Get("POST", "/feedback/replace", servertest.Item("trace_ref", ref, "feedback_type", "score", "payload", map[string]any{})); header.Get("X-Weir-Reward") != "" {
		t.Error(header)
	}
}
