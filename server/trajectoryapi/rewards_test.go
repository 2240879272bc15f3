package trajectoryapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/server/servertest"
	"weir/store"
)

// TestSetRewards: rewards of recorded trajectories can be set, and set again; those of
// logged ones cannot (docs/interface/trajectories.md, T-42).
func TestSetRewards(t *testing.T) {
	h, l := servertest.NewRecording(t, nil)
	for range 3 {
		h.Chat(map[string]any{"n": 2, "temperature": 1}, "Compat-Project: acme/x")
	}
	const path = "/v1/preview/models/tiny"
	var ids []string
	for _, e := range h.Recorded(t, "tiny", 6) {
		ids = append(ids, e["id"].(string))
	}
	set := func(body string) (int, string) {
		t.Helper()
		status, answer, _ := h.Get("POST", path+"/rewards", body)
		return status, answer
	}
	if status, answer := set(fmt.Sprintf(`{"rewards":[{"id":%q,"reward":1},{"id":%q,"reward":0.5},{"id":%q,"reward":-2}]}`, ids[0], ids[1], ids[5])); status != 200 || answer != `{"object":"rewards","updated":3}` {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := set(fmt.Sprintf(`{"rewards":[{"id":%q,"reward":0.25}]}`, ids[0])); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	var got []any
	for i, e := range h.Recorded(t, "tiny", 6) {
		got = append(got, e["reward"])
		if raw := e["trajectory"].(map[string]any); e["id"] != ids[i] || raw["reward"] != e["reward"] || raw["recorded"] != true {
			t.Errorf("%v", e)
		}
	}
	if !slices.Equal(got, []any{0.25, 0.5, nil, nil, nil, -2.0}) {
		t.Errorf("%v", got)
	}
	m, _ := h.List(t, path+"/metrics")
	if m[0]["metrics"].(map[string]any)["recorded/reward"] != (0.25+0.5-2)/3 || m[0]["trajectories"] != 6.0 {
		t.Errorf("%v", m)
	}
	if entries, _ := h.List(t, path+"/trajectories?min_reward=0.3"); len(entries) != 1 || entries[0]["id"] != ids[1] {
		t.Errorf("%v", entries)
	}
	log, _, _ := strings.Cut(ids[0], "/")
	logged := h.LogGroups(t, path, servertest.Group(`{"reward":3}`))
	for body, status := range map[string]int{
		`{"rewards":[]}`: 200, `{`: 422, `[]`: 422, `{}`: 422, `{"rewards":{}}`: 422, `{"rewards":[1]}`: 422, `{"rewards":[{"id":"x","reward":1}]}`: 422,
		fmt.Sprintf(`{"rewards":[{"id":%q}]}`, ids[0]):                                                                       422,
		fmt.Sprintf(`{"rewards":[{"id":%q,"reward":"1"}]}`, ids[0]):                                                          422,
		fmt.Sprintf(`{"rewards":[{"id":"%s/99/0","reward":1}]}`, log):                                                        404,
		fmt.Sprintf(`{"rewards":[{"id":"%s/0/0","reward":1}]}`, logged["id"]):                                                409,
		`{"rewards":[` + strings.Repeat(`{},`, 10_000) + `{}]}`:                                                              422,
		`{"rewards":[` + strings.Repeat(`{},`, 200) + `{}]}`:                                                                 422,
		fmt.Sprintf(`{"rewards":[{"id":%q,"reward":7},{"id":"%s/99/0","reward":1}]}`, ids[2], strings.Split(ids[2], "/")[0]): 404,
	} {
		if got, answer := set(body); got != status || status != 200 && !strings.HasPrefix(answer, `{"detail":`) {
			t.Errorf("%.100s: %d %s, want %d", body, got, answer, status)
		}
	}
	if e := h.Recorded(t, "tiny", 7); e[2]["reward"] != nil {
		t.Error("a request that was refused has set a reward")
	}
	servertest.WaitFor(t, "the replaced blocks to go", func() bool { return l.Keys(t, 'U') == 0 })
	blocks := 0
	if err := l.DB.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{'D'}, Keys: true}, func([]byte, []byte) bool { blocks++; return true })
	}); err != nil || blocks != 3*l.Keys(t, 'B') {
		t.Errorf("%d blocks for %d batches, %v", blocks, l.Keys(t, 'B'), err)
	}
}
