package export

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"weir/trajectory/archive"
)

// TestJSONL checks docs/interface/trajectories.md, section 13.1.
func TestJSONL(t *testing.T) {
	a := newArchive(t, first, other)
	text := export(t, a, &archive.Filter{}, Options{Format: JSONL})
	if n := strings.Count(text, "\n"); n != 4 {
		t.Errorf("%d lines", n)
	}
	// Texts are, byte for byte, what was sent.
	for _, exact := range []string{`"trajectory":` + rollout + "}\n", `"trajectory":` + plain + "}\n", `,"group":{"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]},"trajectory":`, `"trajectory":{}}` + "\n"} {
		if !strings.Contains(text, exact) {
			t.Errorf("%s is not in\n%s", exact, text)
		}
	}
	list := objects(t, text)
	for i, want := range []struct {
		group, index float64
		split        string
		step         any
	}{{0, 0, "train", 3.0}, {0, 1, "train", 3.0}, {0, 0, "../val", nil}, {0, 1, "../val", 4.0}} {
		m := list[i]
		if m["group_index"] != want.group || m["trajectory_index"] != want.index || m["split"] != want.split || m["step"] != want.step || m["model_id"] != "a/m" ||
			m["id"] != fmt.Sprintf("%s/%v/%v", m["log_id"], want.group, want.index) {
			t.Errorf("%d: %v", i, m)
		}
		if _, err := time.Parse(time.RFC3339Nano, m["received_at"].(string)); err != nil {
			t.Error(err)
		}
	}
	half := 0.5
	if text := export(t, a, &archive.Filter{MaxReward: &half, Splits: []string{"train"}}, Options{Format: JSONL}); strings.Count(text, "\n") != 1 || !strings.Contains(text, plain) {
		t.Errorf("%s", text)
	}
	if text := export(t, a, &archive.Filter{}, Options{Format: JSONL, DropLogprobs: true}); strings.Contains(text, "logprobs") || !strings.Contains(text, `"reward":1.50`) {
		t.Errorf("%s", text)
	}
	if text := export(t, a, &archive.Filter{Splits: []string{"none"}}, Options{Format: JSONL}); text != "" {
		t.Errorf("%s", text)
	}
}

// TestGroups checks ART's JSONL, whose reader requires all members of a trajectory
// (docs/interface/trajectories.md, section 13.2).
func TestGroups(t *testing.T) {
	a := newArchive(t, first, other)
	text := export(t, a, &archive.Filter{}, Options{Format: Groups})
	want := `{"trajectories":[` + rollout[:len(rollout)-1] + `,"additional_histories":[]},` +
		plain[:len(plain)-1] + `,"metrics":{},"metadata":{},"tools":null,"additional_histories":[],"logs":[]}],"exceptions":[{"type":"e"}],"metadata":{"id":1.0},"metrics":{"judge":0.5},"logs":["g",5]}
{"trajectories":[],"exceptions":[{}]}
{"trajectories":[{"messages_and_choices":[],"reward":0.0,"metrics":{},"metadata":{},"tools":null,"additional_histories":[],"logs":[]},{"reward":2,"exchanges":{"chat_completions":[{}]},"initial_policy_version":4,"messages_and_choices":[],"metrics":{},"metadata":{},"tools":null,"additional_histories":[],"logs":[]}]}
`
	if text != want {
		t.Errorf("%s, want\n%s", text, want)
	}
	objects(t, text)
}
