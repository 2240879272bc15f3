package server_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/server/servertest"
	"weir/store"
)

// recordingHouse records the completions of some projects.
func recordingHouse(t *testing.T, change func(*servertest.Setup)) (*testServer, *ledger) {
	h, l := previewHouse(t, func(s *servertest.Setup) {
		s.Config.Trajectories.Record = []string{"acme/*", "solo/one"}
		s.Config.Trajectories.RecordEvery = time.Millisecond
		if change != nil {
			change(s)
		}
	})
	return h, l
}

// recorded waits for so many recorded trajectories of a model, oldest first.
func (h *testServer) recorded(t *testing.T, model string, n int) (entries []map[string]any) {
	t.Helper()
	path := "/v1/preview/models/" + model + "/trajectories?limit=1000&order=asc&include=raw,messages,logprobs"
	servertest.WaitFor(t, "recording", func() bool {
		status, answer, _ := h.Get("GET", path, "")
		return status == 200 && len(object(t, answer)["data"].([]any)) >= n
	})
	entries, _ = h.list(t, path)
	if len(entries) != n {
		t.Fatalf("%d trajectories, want %d", len(entries), n)
	}
	return entries
}

// A completion of a covered project becomes a trajectory: what was asked, what was
// answered, token ids, log-probabilities, and no reward.
func TestRecord(t *testing.T) {
	h, _ := recordingHouse(t, nil)
	messages := []any{map[string]any{"role": "system", "content": "Be \u2028 brief."}, map[string]any{"role": "user", "content": "Hi"}}
	_, answer := h.Chat(map[string]any{"messages": messages, "n": 2, "temperature": 1, "seed": 5, "return_token_ids": true, "logprobs": true, "tools": []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}}, "Compat-Project: acme/support")
	var want struct {
		ID             string
		PromptTokenIDs []int `json:"prompt_token_ids"`
		Choices        []map[string]any
	}
	if err := json.Unmarshal([]byte(answer), &want); err != nil || len(want.Choices) != 2 {
		t.Fatalf("%v %s", err, answer)
	}
	for i, e := range h.recorded(t, "tiny", 2) {
		raw := e["trajectory"].(map[string]any)
		turns := raw["messages_and_choices"].([]any)
		if len(turns) != 3 || fmt.Sprint(turns[:2]) != fmt.Sprint(messages) || fmt.Sprint(turns[2]) != fmt.Sprint(want.Choices[i]) {
			t.Errorf("%v\nwant\n%v", turns, want.Choices[i])
		}
		if fmt.Sprint(raw["prompt_token_ids"]) != fmt.Sprint(want.PromptTokenIDs) || len(want.PromptTokenIDs) == 0 || raw["tools"] == nil || raw["reward"] != nil {
			t.Errorf("%v", raw)
		}
		if e["reward"] != nil || e["split"] != "recorded" || e["group_index"] != 0.0 || e["trajectory_index"] != float64(i) || e["step"] != nil || e["has_tools"] != true || e["completion_tokens"] == nil || e["start_time"] == nil {
			t.Errorf("%v", e)
		}
		if m := e["metadata"].(map[string]any); m["request_id"] != want.ID || m["project"] != "acme/support" || m["model"] != "tiny" {
			t.Errorf("%v", m)
		}
	}
	// Who has no reward stays out of the reward metrics, and is in no range of them.
	m, _ := h.list(t, "/v1/preview/models/tiny/metrics")
	if fmt.Sprint(m[0]["metrics"]) != "map[recorded/exception_rate:0]" || m[0]["trajectories"] != 2.0 {
		t.Errorf("%v", m)
	}
	if entries, _ := h.list(t, "/v1/preview/models/tiny/trajectories?min_reward=-1"); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
	_, lines, _ := h.Get("GET", "/v1/preview/models/tiny/export", "")
	if strings.Count(lines, `"scored":false`) != 2 {
		t.Errorf("%s", lines)
	}
	if _, lines, _ = h.Get("GET", "/v1/preview/models/tiny/export?format=jsonl-groups", ""); strings.Count(lines, `"reward":null`) != 2 {
		t.Errorf("%s", lines)
	}
	// What is echoed was not made by the model.
	_, answer = h.Chat(map[string]any{"echo": true, "continue_final_message": true, "add_generation_prompt": false,
		"messages": []any{map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": "assistant", "content": "Once upon"}}}, "Compat-Project: acme/support")
	if err := json.Unmarshal([]byte(answer), &want); err != nil {
		t.Fatal(err)
	}
	all := want.Choices[0]["message"].(map[string]any)["content"].(string)
	turns := h.recorded(t, "tiny", 3)[2]["trajectory"].(map[string]any)["messages_and_choices"].([]any)
	made := turns[len(turns)-1].(map[string]any)["message"].(map[string]any)["content"].(string)
	if made == "" || made == all || !strings.HasSuffix(all, made) {
		t.Errorf("%q of %q", made, all)
	}
}

// A stream is recorded as the same request without one is, and answered with the
// same bytes as without being recorded.
func TestRecordStream(t *testing.T) {
	h, _ := recordingHouse(t, nil)
	for _, stream := range []bool{false, true} {
		fields := map[string]any{"stream": stream, "n": 2, "temperature": 1, "seed": 9, "max_tokens": 20, "request_id": "same"}
		_, plain := h.Chat(fields)
		_, kept := h.Chat(fields, "Compat-Project: acme/x")
		if plain != kept {
			t.Errorf("stream %v: recorded\n%s\nelse\n%s", stream, kept, plain)
		}
	}
	entries := h.recorded(t, "tiny", 4)
	text := func(i int) string {
		raw := entries[i]["trajectory"].(map[string]any)
		delete(raw, "start_time")
		b, _ := json.Marshal(raw)
		return string(b)
	}
	for i := range 2 {
		if text(i) != text(i+2) {
			t.Errorf("%s\nstreamed\n%s", text(i), text(i+2))
		}
	}
}

// Who is recorded: covered projects, and who asks; with what engine_xargs say.
func TestRecordOptions(t *testing.T) {
	h, _ := recordingHouse(t, nil)
	ask := func(args map[string]any, headers ...string) (int, string) {
		t.Helper()
		return h.Chat(map[string]any{"engine_xargs": args}, headers...)
	}
	for _, c := range []struct {
		args    map[string]any
		project string
	}{
		{map[string]any{}, "other/x"}, {map[string]any{"policy_version": 3}, "other/x"}, {map[string]any{"a": 1}, "solo/two"}, {map[string]any{"a": 1}, ""},
	} {
		if status, answer := ask(c.args, "Compat-Project: "+c.project); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
	}
	if status, answer := ask(map[string]any{"record_split": "val", "record_group": "g 1", "record_model": "my/agent", "policy_version": 12}); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	if status, _ := ask(map[string]any{"policy_version": 4}, "Compat-Project: solo/one"); status != 200 {
		t.Error(status)
	}
	e := h.recorded(t, "my%2Fagent", 1)[0]
	if e["split"] != "val" || e["initial_policy_version"] != 12.0 || e["final_policy_version"] != 12.0 || e["metadata"].(map[string]any)["record_group"] != "g 1" {
		t.Errorf("%v", e)
	}
	if e := h.recorded(t, "tiny", 1)[0]; e["final_policy_version"] != 4.0 || e["metadata"].(map[string]any)["project"] != "solo/one" {
		t.Errorf("%v", e)
	}
	if entries, _ := h.list(t, "/v1/preview/models/my%2Fagent/trajectories?metadata.record_group=g%201"); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	for _, args := range []map[string]any{{"record_split": ""}, {"record_split": 5}, {"record_model": ".."}, {"record_group": strings.Repeat("x", 129)}, {"record_split": "a", "policy_version": "x"}, {"policy_version": 1.5}} {
		if status, answer := ask(args); status != 400 || !strings.Contains(answer, "engine_xargs") {
			t.Errorf("%v: %d %s", args, status, answer)
		}
	}
}

// Nothing is recorded of what did not finish, nor for a key that may not write.
func TestNotRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "keys:\n  - {id: r, hash: %q, user: u, rights: [read]}\n  - {id: m, hash: %q, user: u, models: [tiny, mine]}\n", keyHash("r"), keyHash("m")), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New([]string{"root"}, file)
	if err != nil {
		t.Fatal(err)
	}
	h, l := recordingHouse(t, func(s *servertest.Setup) { s.Config.Keys = ring; s.TCP = true })
	if status, answer := h.Chat(map[string]any{"engine_xargs": map[string]any{"record_split": "s"}}, "Authorization: Bearer r"); status != 403 {
		t.Errorf("%d %s", status, answer)
	}
	if status, answer := h.Chat(map[string]any{"engine_xargs": map[string]any{"record_model": "another"}}, "Authorization: Bearer m"); status != 403 {
		t.Errorf("%d %s", status, answer)
	}
	body := servertest.Body(t, map[string]any{"stream": true, "max_tokens": 900, "ignore_eos": true})
	r := h.Raw(t)
	r.Send(servertest.Post(len(body), "Authorization: Bearer root", "Compat-Project: acme/x") + body)
	if _, err := r.R.ReadString('}'); err != nil {
		t.Fatal(err)
	}
	r.Close()
	h.Idle()
	h.Stop()
	if n := l.keys(t, 'B'); n > 1 { // the answer may have been complete before the client left
		t.Errorf("%d batches", n)
	}
}

// What has ended is written before the server has stopped; batches gather what
// ends together.
func TestRecordShutdown(t *testing.T) {
	h, l := recordingHouse(t, func(s *servertest.Setup) { s.Config.Trajectories.RecordEvery = time.Hour })
	for range 5 {
		h.Chat(nil, "Compat-Project: acme/x")
	}
	if n := l.keys(t, 'B'); n != 0 {
		t.Errorf("%d batches", n)
	}
	h.Stop()
	if n := l.keys(t, 'B'); n != 1 {
		t.Errorf("%d batches", n)
	}
}

// A store that cannot take them loses records, not answers, and the log says so.
func TestRecordLost(t *testing.T) {
	h, l := recordingHouse(t, nil)
	l.close()
	if status, answer := h.Chat(nil, "Compat-Project: acme/x"); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	servertest.WaitFor(t, "a line in the log", func() bool { return h.Log.Times("chat completions were not recorded") == 1 })
	h.Log.Reset()
}

// Rewards of recorded trajectories can be set, and set again; others keep theirs.
func TestSetRewards(t *testing.T) {
	h, l := recordingHouse(t, nil)
	for range 3 {
		h.Chat(map[string]any{"n": 2, "temperature": 1}, "Compat-Project: acme/x")
	}
	const path = "/v1/preview/models/tiny"
	var ids []string
	for _, e := range h.recorded(t, "tiny", 6) {
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
	for i, e := range h.recorded(t, "tiny", 6) {
		got = append(got, e["reward"])
		if raw := e["trajectory"].(map[string]any); e["id"] != ids[i] || raw["reward"] != e["reward"] || raw["recorded"] != true {
			t.Errorf("%v", e)
		}
	}
	if !slices.Equal(got, []any{0.25, 0.5, nil, nil, nil, -2.0}) {
		t.Errorf("%v", got)
	}
	m, _ := h.list(t, path+"/metrics")
	if m[0]["metrics"].(map[string]any)["recorded/reward"] != (0.25+0.5-2)/3 || m[0]["trajectories"] != 6.0 {
		t.Errorf("%v", m)
	}
	if entries, _ := h.list(t, path+"/trajectories?min_reward=0.3"); len(entries) != 1 || entries[0]["id"] != ids[1] {
		t.Errorf("%v", entries)
	}
	log, _, _ := strings.Cut(ids[0], "/")
	logged := h.log200(t, path, one(`{"reward":3}`))
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
	if e := h.recorded(t, "tiny", 7); e[2]["reward"] != nil {
		t.Error("a request that was servertest.Refused has set a reward")
	}
	servertest.WaitFor(t, "the replaced to go", func() bool { return l.keys(t, 'U') == 0 })
	blocks := 0
	if err := l.db.View(func(r *store.Reader) error {
		return r.Scan(store.Range{Prefix: []byte{'D'}, Keys: true}, func([]byte, []byte) bool { blocks++; return true })
	}); err != nil || blocks != 3*l.keys(t, 'B') {
		t.Errorf("%d blocks for %d batches, %v", blocks, l.keys(t, 'B'), err)
	}
}
