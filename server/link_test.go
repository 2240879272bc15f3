package server_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"weir/feedback"
	"weir/server/servertest"
	"weir/store"
)

// meeting is a server that records, with feedback.
type meeting struct {
	*testServer
	*ledger
	book *store.DB
}

func newMeeting(t *testing.T, change func(*servertest.Setup)) *meeting {
	t.Helper()
	cfg := store.DefaultConfig(t.TempDir())
	cfg.MinFree = 0
	db, err := store.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	m := &meeting{book: db}
	m.testServer, m.ledger = recordingHouse(t, func(s *servertest.Setup) {
		s.Config.Feedback = feedback.New(db, feedback.DefaultConfig())
		if change != nil {
			change(s)
		}
	})
	return m
}

// ask gets a completion of acme/support and returns its id.
func (m *meeting) ask(t *testing.T, fields map[string]any) string {
	t.Helper()
	status, answer := m.Chat(fields, "Compat-Project: acme/support")
	var c struct{ ID string }
	if err := json.Unmarshal([]byte(answer), &c); err != nil || status != 200 || c.ID == "" {
		t.Fatalf("%d %s", status, answer)
	}
	return c.ID
}

// say leaves feedback and returns its id.
func (m *meeting) say(t *testing.T, path string, fields ...any) string {
	t.Helper()
	status, answer, _ := m.Get("POST", "/feedback/"+path, item(fields...))
	if status != 200 {
		t.Fatalf("%v: %d %s", fields, status, answer)
	}
	return object(t, answer)["id"].(string)
}

// reward leaves a reward for a completion, in a reference of any scheme.
func (m *meeting) reward(t *testing.T, call string, payload map[string]any, more ...any) string {
	t.Helper()
	return m.say(t, "replace", append([]any{"trace_ref", "weir:///acme/support/call/" + call, "feedback_type", "reward", "payload", payload}, more...)...)
}

// rewards waits until the rewards of all recorded trajectories are those wanted.
func (m *meeting) rewards(t *testing.T, want ...any) {
	t.Helper()
	var got string
	servertest.WaitFor(t, fmt.Sprintf("the rewards %v", want), func() bool {
		status, answer, _ := m.Get("GET", "/v1/preview/models/tiny/trajectories?limit=1000&order=asc", "")
		if status != 200 {
			return false
		}
		var list []any
		for _, e := range object(t, answer)["data"].([]any) {
			list = append(list, e.(map[string]any)["reward"])
		}
		got = fmt.Sprint(list)
		return got == fmt.Sprintf("%v", want)
	})
}

// settled waits until no reward waits.
func (m *meeting) settled(t *testing.T) {
	t.Helper()
	servertest.WaitFor(t, "settling", func() bool { return m.waiting(t) == 0 })
}

func (m *meeting) waiting(t *testing.T) (n int) {
	t.Helper()
	if err := m.book.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{'w'}, Keys: true}, func([]byte, []byte) bool { n++; return true })
	}); err != nil {
		t.Fatal(err)
	}
	return n
}

// The id of a completion is a call id: feedback that names it is found by it, in
// trace_ref and in call_ref.
func TestFeedbackOfAnAnswer(t *testing.T) {
	m := newMeeting(t, nil)
	id := m.ask(t, nil)
	ref := "weave:///acme/support/call/" + id
	byTrace := m.say(t, "replace", "trace_ref", ref, "feedback_type", "wandb.reaction.1", "payload", map[string]any{"emoji": "👍"})
	byCall := m.say(t, "create", "call_ref", ref, "feedback_id", nil)
	m.say(t, "replace", "trace_ref", ref+"0", "call_ref", ref+"0")
	for field, want := range map[string]string{"trace_ref": byTrace, "call_ref": byCall} {
		status, answer, _ := m.Get("POST", "/feedback/query", `{"project_id":"acme/support","fields":["id"],"query":{"$expr":{"$eq":[{"$getField":"`+field+`"},{"$literal":"`+ref+`"}]}}}`)
		if rows := object(t, answer)["result"].([]any); status != 200 || len(rows) != 1 || rows[0].(map[string]any)["id"] != want {
			t.Errorf("%s: %d %s", field, status, answer)
		}
	}
	m.rewards(t, nil) // none of these is a reward
}

// Feedback of the type reward sets the rewards of what was recorded of a completion,
// before and behind the recorder's turn; the latest counts; /rewards sets others.
func TestRewardByFeedback(t *testing.T) {
	m := newMeeting(t, nil)
	first := m.ask(t, map[string]any{"n": 2, "temperature": 1})
	m.reward(t, first, map[string]any{"reward": 1})
	m.rewards(t, 1.0, 1.0)
	second := m.ask(t, nil)
	m.rewards(t, 1.0, 1.0, nil)
	id := m.reward(t, first, map[string]any{"reward": 0.25, "choice": 1, "why": "slow"})
	m.say(t, "create", "feedback_id", nil, "feedback_type", "reward", "payload", map[string]any{"reward": -2.5}, "call_ref", "weave:///acme/support/call/"+second)
	m.rewards(t, 1.0, 0.25, -2.5)

	// In a batch, two on one choice: the later one counts. A replaced one, too.
	ref := `"trace_ref":"a:///acme/support/call/` + second + `","feedback_type":"reward"`
	status, answer, _ := m.Get("POST", "/feedback/batch/create", `{"batch":[{"project_id":"acme/support",`+ref+`,"payload":{"reward":5}},{"project_id":"acme/support",`+ref+`,"payload":{"reward":6}}]}`)
	if status != 200 {
		t.Fatal(answer)
	}
	m.rewards(t, 1.0, 0.25, 6.0)
	m.reward(t, first, map[string]any{"reward": 0.75, "choice": 1}, "feedback_id", id, "id", id)
	m.rewards(t, 1.0, 0.75, 6.0)

	// What sets nothing: other types, other payloads, other projects, other kinds,
	// choices and completions that are not there.
	m.say(t, "replace", "trace_ref", "weir:///acme/support/call/"+first, "feedback_type", "rewards", "payload", map[string]any{"reward": 9})
	for _, p := range []map[string]any{{}, {"reward": "9"}, {"reward": true}, {"reward": nil}, {"reward": 9, "choice": 1.5}, {"reward": 9, "choice": -1}, {"reward": 9, "choice": 7}} {
		m.reward(t, first, p)
	}
	m.reward(t, first, map[string]any{"reward": 9}, "trace_ref", "weir:///acme/other/call/"+first)
	m.reward(t, first, map[string]any{"reward": 9}, "trace_ref", "weir:///acme/support/object/"+first+":v1")
	m.reward(t, "nothing", map[string]any{"reward": 9})
	servertest.WaitFor(t, "all but the unknown", func() bool { return m.waiting(t) == 1 })
	m.rewards(t, 1.0, 0.75, 6.0)

	// A later call counts, and purging the feedback takes nothing back.
	entries := m.recorded(t, "tiny", 3)
	m.reward(t, second, map[string]any{"reward": 7})
	if status, answer, _ := m.Get("POST", "/v1/preview/models/tiny/rewards", fmt.Sprintf(`{"rewards":[{"id":%q,"reward":8}]}`, entries[2]["id"])); status != 200 {
		t.Fatal(answer)
	}
	m.rewards(t, 1.0, 0.75, 8.0)
	m.Get("POST", "/feedback/purge", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"`+id+`"}]}}}`)
	m.reward(t, second, map[string]any{"reward": 10})
	m.rewards(t, 1.0, 0.75, 10.0)
	_, whole := m.list(t, "/v1/preview/models/tiny/metrics")
	if got := whole["data"].([]any)[0].(map[string]any)["metrics"].(map[string]any)["recorded/reward"]; got != (1+0.75+10)/3 {
		t.Errorf("metrics: %v", got)
	}
	// What is set again is not written again.
	servertest.WaitFor(t, "the replaced to go", func() bool { return m.keys(t, 'U') == 0 })
	// A commit can be read before it is counted; behind another update it is counted.
	if err := m.db.Update(t.Context(), func(*store.Tx) error { return nil }); err != nil {
		t.Fatal(err)
	}
	before := m.db.Stats().Commits
	m.reward(t, second, map[string]any{"reward": 10})
	servertest.WaitFor(t, "all but the unknown", func() bool { return m.waiting(t) == 1 })
	if after := m.db.Stats().Commits; after != before {
		t.Errorf("%d commits for nothing", after-before)
	}
	// Deleted trajectories get no reward, and nothing waits for them.
	m.Get("DELETE", "/v1/preview/models/tiny", "")
	m.reward(t, first, map[string]any{"reward": 1})
	servertest.WaitFor(t, "all but the unknown", func() bool { return m.waiting(t) == 1 })
	if n, err := m.ledger.PruneCalls(t.Context()); err != nil || n != 2 || m.keys(t, 'C') != 0 {
		t.Errorf("%d pruned, %v", n, err)
	}
}

// Rewards come before their completions are recorded, and while the archive cannot
// take them: they wait, over a restart too, and are forgotten after a day.
func TestRewardWaits(t *testing.T) {
	m := newMeeting(t, func(s *servertest.Setup) { s.Config.Trajectories.RecordEvery = time.Hour })
	id := m.ask(t, nil)
	m.reward(t, id, map[string]any{"reward": 3})
	m.reward(t, "never", map[string]any{"reward": 3})
	if err := m.Instance.SetRewards(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := m.waiting(t); n != 2 {
		t.Fatalf("%d wait", n)
	}
	m.Stop() // the recorder writes, then the linker sets
	if n := m.waiting(t); n != 1 {
		t.Errorf("%d wait", n)
	}
	after := newMeetingOn(t, m) // which does not wait for a completion
	after.rewards(t, 3.0)
	after.settled(t)
}

// newMeetingOn is a server on the databases of another one that has ended.
func newMeetingOn(t *testing.T, m *meeting) *meeting {
	t.Helper()
	again := &meeting{book: m.book, ledger: m.ledger}
	again.testServer = newServer(t, func(s *servertest.Setup) {
		s.Config.Trajectories.Archive, s.Config.Trajectories.Spool = m.Archive, t.TempDir()
		s.Config.Trajectories.RecordEvery, s.Config.Trajectories.RewardWait = time.Millisecond, -time.Hour
		s.Config.Feedback = feedback.New(m.book, feedback.DefaultConfig())
	})
	return again
}
