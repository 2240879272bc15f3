package recording_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"weir/auth"
	"weir/server/servertest"
)

// TestRecord: a completion of a covered project becomes a trajectory with the request, the
// answer, token ids and log-probabilities, and without a reward
// (docs/interface/trajectories.md, T-40, T-41).
func TestRecord(t *testing.T) {
	h, _ := servertest.NewRecording(t, nil)
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
	for i, e := range h.Recorded(t, "tiny", 2) {
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
	// A trajectory without a reward is in no metric and in no range of rewards.
	m, _ := h.List(t, "/v1/preview/models/tiny/metrics")
	if fmt.Sprint(m[0]["metrics"]) != "map[recorded/exception_rate:0]" || m[0]["trajectories"] != 2.0 {
		t.Errorf("%v", m)
	}
	if entries, _ := h.List(t, "/v1/preview/models/tiny/trajectories?min_reward=-1"); len(entries) != 0 {
		t.Errorf("%v", entries)
	}
	_, lines, _ := h.Get("GET", "/v1/preview/models/tiny/export", "")
	if strings.Count(lines, `"scored":false`) != 2 {
		t.Errorf("%s", lines)
	}
	if _, lines, _ = h.Get("GET", "/v1/preview/models/tiny/export?format=jsonl-groups", ""); strings.Count(lines, `"reward":null`) != 2 {
		t.Errorf("%s", lines)
	}
	// Echoed text was not made by the model, so it is not recorded as the answer.
	_, answer = h.Chat(map[string]any{"echo": true, "continue_final_message": true, "add_generation_prompt": false,
		"messages": []any{map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": "assistant", "content": "Once upon"}}}, "Compat-Project: acme/support")
	if err := json.Unmarshal([]byte(answer), &want); err != nil {
		t.Fatal(err)
	}
	all := want.Choices[0]["message"].(map[string]any)["content"].(string)
	turns := h.Recorded(t, "tiny", 3)[2]["trajectory"].(map[string]any)["messages_and_choices"].([]any)
	made := turns[len(turns)-1].(map[string]any)["message"].(map[string]any)["content"].(string)
	if made == "" || made == all || !strings.HasSuffix(all, made) {
		t.Errorf("%q of %q", made, all)
	}
}

// TestRecordStream: a stream is recorded as the same request without a stream is, and its
// answer has the same bytes as if it were not recorded.
func TestRecordStream(t *testing.T) {
	h, _ := servertest.NewRecording(t, nil)
	for _, stream := range []bool{false, true} {
		fields := map[string]any{"stream": stream, "n": 2, "temperature": 1, "seed": 9, "max_tokens": 20, "request_id": "same"}
		_, plain := h.Chat(fields)
		_, kept := h.Chat(fields, "Compat-Project: acme/x")
		if plain != kept {
			t.Errorf("stream %v: recorded\n%s\nelse\n%s", stream, kept, plain)
		}
	}
	entries := h.Recorded(t, "tiny", 4)
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

// TestRecordOptions: what is recorded are the completions of covered projects and those
// that ask for it in engine_xargs, with the names that engine_xargs has.
func TestRecordOptions(t *testing.T) {
	h, _ := servertest.NewRecording(t, nil)
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
	e := h.Recorded(t, "my%2Fagent", 1)[0]
	if e["split"] != "val" || e["initial_policy_version"] != 12.0 || e["final_policy_version"] != 12.0 || e["metadata"].(map[string]any)["record_group"] != "g 1" {
		t.Errorf("%v", e)
	}
	if e := h.Recorded(t, "tiny", 1)[0]; e["final_policy_version"] != 4.0 || e["metadata"].(map[string]any)["project"] != "solo/one" {
		t.Errorf("%v", e)
	}
	if entries, _ := h.List(t, "/v1/preview/models/my%2Fagent/trajectories?metadata.record_group=g%201"); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	for _, args := range []map[string]any{{"record_split": ""}, {"record_split": 5}, {"record_model": ".."}, {"record_group": strings.Repeat("x", 129)}, {"record_split": "a", "policy_version": "x"}, {"policy_version": 1.5}} {
		if status, answer := ask(args); status != 400 || !strings.Contains(answer, "engine_xargs") {
			t.Errorf("%v: %d %s", args, status, answer)
		}
	}
}

// TestNotRecorded: a completion that did not finish is not recorded, and neither is that of
// a key that may not write.
func TestNotRecorded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "keys:\n  - {id: r, hash: %q, user: u, rights: [read]}\n  - {id: m, hash: %q, user: u, models: [tiny, mine]}\n", servertest.KeyHash("r"), servertest.KeyHash("m")), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New([]string{"root"}, file)
	if err != nil {
		t.Fatal(err)
	}
	h, l := servertest.NewRecording(t, func(s *servertest.Setup) { s.Config.Keys = ring; s.TCP = true })
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
	if n := l.Keys(t, 'B'); n > 1 { // the answer may have been complete before the client left
		t.Errorf("%d batches", n)
	}
}

// TestRecordShutdown: completions that have ended are written before the server has
// stopped, those that ended together in one batch.
func TestRecordShutdown(t *testing.T) {
	h, l := servertest.NewRecording(t, func(s *servertest.Setup) { s.Config.Trajectories.RecordEvery = time.Hour })
	for range 5 {
		h.Chat(nil, "Compat-Project: acme/x")
	}
	if n := l.Keys(t, 'B'); n != 0 {
		t.Errorf("%d batches", n)
	}
	h.Stop()
	if n := l.Keys(t, 'B'); n != 1 {
		t.Errorf("%d batches", n)
	}
}

// TestRecordLost: a store that cannot take records loses them, but no answers, and the log
// says so.
func TestRecordLost(t *testing.T) {
	h, l := servertest.NewRecording(t, nil)
	l.Close()
	if status, answer := h.Chat(nil, "Compat-Project: acme/x"); status != 200 {
		t.Errorf("%d %s", status, answer)
	}
	servertest.WaitFor(t, "a line in the log", func() bool { return h.Log.Times("chat completions were not recorded") == 1 })
	h.Log.Reset()
}

// TestRecordSettings: a recording has what its request asked for, the defaults of the model
// for what it left open, and the alternatives of tokens that the answer has
// (docs/interface/trajectories.md, T-44). ART takes no objects and arrays as metadata.
func TestRecordSettings(t *testing.T) {
	h, _ := servertest.NewRecording(t, nil)
	all := map[string]any{
		"n": 2, "temperature": 0.7, "top_p": 0.9, "top_k": 40, "min_p": 0.05, "seed": 7, "frequency_penalty": 0.1, "presence_penalty": -0.2, "repetition_penalty": 1.1,
		"max_tokens": 9, "min_tokens": 2, "stop": "never said", "stop_token_ids": []int{3, 4}, "include_stop_str_in_output": true, "ignore_eos": true,
		"repetition_detection": map[string]any{"max_pattern_size": 20, "min_pattern_size": 3, "min_count": 4}, "logprobs": true, "top_logprobs": 4, "return_token_ids": true,
	}
	_, answer := h.Chat(all, "Compat-Project: acme/a")
	var want struct {
		Fingerprint any `json:"system_fingerprint"`
		Choices     []map[string]any
	}
	if err := json.Unmarshal([]byte(answer), &want); err != nil || len(want.Choices) != 2 {
		t.Fatal(err, answer)
	}
	for i, e := range h.Recorded(t, "tiny", 2) {
		have := e["metadata"].(map[string]any)
		for name, value := range map[string]any{
			"n": 2.0, "choice": float64(i), "temperature": 0.7, "top_p": 0.9, "top_k": 40.0, "min_p": 0.05, "seed": 7.0, "frequency_penalty": 0.1, "presence_penalty": -0.2,
			"repetition_penalty": 1.1, "max_tokens": 9.0, "min_tokens": 2.0, "stop": `["never said"]`, "stop_token_ids": `[3,4]`, "include_stop_str_in_output": true, "ignore_eos": true,
			"repetition_detection": `{"max_pattern_size":20,"min_count":4,"min_pattern_size":3}`, "top_logprobs": 4.0, "echo": false, "system_fingerprint": want.Fingerprint,
		} {
			if have[name] != value {
				t.Errorf("%s: %v, want %v", name, have[name], value)
			}
		}
		for name, v := range have {
			switch v.(type) {
			case map[string]any, []any:
				t.Errorf("%s: %v", name, v)
			}
		}
		checkTurn(t, e, want.Choices[i])
	}
	if entries, _ := h.List(t, "/v1/preview/models/tiny/trajectories?metadata.temperature=0.7&metadata.choice=1"); len(entries) != 1 {
		t.Errorf("%v", entries)
	}
	// A stream is recorded with the same alternatives.
	all["stream"], all["request_id"] = true, "again"
	h.Chat(all, "Compat-Project: acme/a")
	entries := h.Recorded(t, "tiny", 4)
	for i := range 2 {
		if whole, streamed := fmt.Sprint(lastTurn(entries[i])), fmt.Sprint(lastTurn(entries[i+2])); whole != streamed {
			t.Errorf("%s\nstreamed\n%s", whole, streamed)
		}
	}
	// What a request leaves open is the model's default, and a seed that it does not give is
	// not there. Without log-probabilities in the answer there are no alternatives.
	h.Chat(map[string]any{"temperature": servertest.Remove, "max_tokens": 3}, "Compat-Project: acme/a")
	e := h.Recorded(t, "tiny", 5)[4]
	have := e["metadata"].(map[string]any)
	if have["temperature"] == nil || have["top_p"] != 1.0 || have["n"] != 1.0 || have["top_logprobs"] != nil || have["seed"] != nil || have["stop"] != nil {
		t.Errorf("%v", have)
	}
	if text := fmt.Sprint(e["trajectory"]); !strings.Contains(text, "top_logprobs:[]") {
		t.Error(text)
	}
}

// lastTurn is the last of the messages and choices of a recorded trajectory.
func lastTurn(e map[string]any) map[string]any {
	turns := e["trajectory"].(map[string]any)["messages_and_choices"].([]any)
	return turns[len(turns)-1].(map[string]any)
}

// checkTurn compares the last turn of a recorded trajectory with a choice of an answer that has
// four alternatives for each token.
func checkTurn(t *testing.T, e, want map[string]any) {
	t.Helper()
	choice := lastTurn(e)
	if fmt.Sprint(choice) != fmt.Sprint(want) {
		t.Errorf("%v\nwant\n%v", choice, want)
	}
	for _, token := range choice["logprobs"].(map[string]any)["content"].([]any) {
		if top := token.(map[string]any)["top_logprobs"].([]any); len(top) != 4 {
			t.Errorf("%d alternatives", len(top))
		}
	}
}
