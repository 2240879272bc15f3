package recording_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"weir/auth"
	"weir/backend/sim"
	"weir/calls"
	"weir/objects"
	"weir/queues"
	"weir/server"
	"weir/server/servertest"
	"weir/store"
)

// The rules that comments name are those of docs/interface/trajectories.md.

// callServer is a server that writes the completions of acme/* as calls.
type callServer struct {
	*servertest.Server
	archive *servertest.Archive
	traces  *store.DB
	calls   *calls.Store
}

func newCallServer(t *testing.T, change func(*servertest.Setup)) *callServer {
	t.Helper()
	m := &callServer{traces: servertest.NewDB(t)}
	m.calls = calls.New(m.traces)
	m.Server, m.archive = servertest.NewRecording(t, func(s *servertest.Setup) {
		s.Config.Weave = server.Weave{Calls: m.calls, Objects: objects.New(m.traces), Queues: queues.New(m.traces)}
		if change != nil {
			change(s)
		}
	})
	return m
}

// call waits for a call of acme/support.
func (m *callServer) call(t *testing.T, id string) map[string]any {
	t.Helper()
	var rec *calls.Record
	servertest.WaitFor(t, "the call "+id, func() (there bool) {
		var err error
		rec, err = m.calls.Get("acme/support", id)
		return err == nil && rec != nil
	})
	return servertest.Object(t, string(rec.AppendJSON(nil, calls.NoSizes)))
}

// counted waits until n completions are counted as calls. Calls are counted after they are
// written, so a call may be there before it is counted.
func (m *callServer) counted(t *testing.T, n string) {
	t.Helper()
	servertest.WaitFor(t, n+" counted calls", func() bool { return m.Scraped()["weir:completion_calls_total"] == n })
}

const acme = "Compat-Project: acme/support"

// TestCompletionIsCall: a completion is a call with the id of its answer; its inputs are the
// request, and its output is the answer as the client got it, also of a stream (T-45).
func TestCompletionIsCall(t *testing.T) {
	m := newCallServer(t, nil)
	tools := []any{map[string]any{"type": "function", "function": map[string]any{"name": "f"}}}
	for name, more := range map[string]map[string]any{
		"plain": {}, "choices": {"n": 2, "temperature": 1, "seed": 3}, "logprobs": {"logprobs": true, "top_logprobs": 2, "return_token_ids": true},
		"tools": {"tools": tools, "metadata": map[string]any{"a": 1}, "unknown": []any{1, "x"}, "documents": []any{map[string]any{"text": strings.Repeat("y", 70<<10)}}},
	} {
		t.Run(name, func(t *testing.T) {
			more["request_id"], more["max_tokens"] = name, 7
			status, answer := m.Chat(more, acme)
			if status != 200 {
				t.Fatal(answer)
			}
			want := servertest.Object(t, answer)
			checkCall(t, m.call(t, "chatcmpl-"+name), more, want)
			// Streamed it is the same, but for what says that it was streamed and when.
			more["stream"], more["request_id"] = true, name+"2"
			m.Chat(more, acme)
			streamed := m.call(t, "chatcmpl-"+name+"2")["output"].(map[string]any)
			for _, key := range []string{"choices", "model", "object", "system_fingerprint", "prompt_token_ids"} {
				if fmt.Sprint(streamed[key]) != fmt.Sprint(want[key]) {
					t.Errorf("%s streamed is %v, want %v", key, streamed[key], want[key])
				}
			}
		})
	}
	m.counted(t, "8")
}

// checkCall compares the call of a completion with the members of its request and with its
// answer.
func checkCall(t *testing.T, c, request, answer map[string]any) {
	t.Helper()
	if c["op_name"] != "chat.completions" || c["trace_id"] != answer["id"] || c["exception"] != nil || c["started_at"] == nil || c["ended_at"] == nil || c["parent_id"] != nil || c["wb_user_id"] != "anonymous" {
		t.Errorf("%v", c)
	}
	if fmt.Sprint(c["output"]) != fmt.Sprint(answer) {
		t.Errorf("%v\nwant\n%v", c["output"], answer)
	}
	inputs := c["inputs"].(map[string]any)
	for field, v := range request {
		if field == "documents" { // it is too long
			v = nil
		}
		if have := inputs[field]; fmt.Sprint(have) != fmt.Sprint(v) {
			t.Errorf("the input %s is %v, want %v", field, have, v)
		}
	}
	if list, ok := inputs["messages"].([]any); !ok || len(list) != 1 || inputs["model"] != "tiny" {
		t.Errorf("%v", inputs)
	}
	usage, summary := answer["usage"].(map[string]any), c["summary"].(map[string]any)
	have := summary["usage"].(map[string]any)["tiny"].(map[string]any)
	if have["requests"] != 1.0 || have["prompt_tokens"] != usage["prompt_tokens"] || have["completion_tokens"] != usage["completion_tokens"] || have["total_tokens"] != usage["total_tokens"] {
		t.Errorf("%v", summary)
	}
}

// TestWhichCompletionsAreCalls: without a project there is nowhere to put a call, a project that
// is not recorded has none, and a request that asks for its recording is one (T-45).
func TestWhichCompletionsAreCalls(t *testing.T) {
	m := newCallServer(t, nil)
	m.Chat(map[string]any{"request_id": "none", "engine_xargs": map[string]any{"record_split": "s"}})
	m.Chat(map[string]any{"request_id": "other"}, "Compat-Project: lab/x")
	m.Chat(map[string]any{"request_id": "asked", "engine_xargs": map[string]any{"record_split": "s", "record_group": "g"}}, "Compat-Project: lab/x")
	servertest.WaitFor(t, "the call that was asked for", func() bool {
		rec, err := m.calls.Get("lab/x", "chatcmpl-asked")
		return err == nil && rec != nil && strings.Contains(string(rec.AppendJSON(nil, calls.NoSizes)), `{"weir":{"model":"tiny","split":"s","group":"g"}}`)
	})
	if rec, err := m.calls.Get("lab/x", "chatcmpl-other"); rec != nil || err != nil {
		t.Errorf("%v %v", rec, err)
	}
	m.counted(t, "1")
}

// TestFailedCompletionIsCall: a request that failed, or whose client left, is a call with an
// exception, and no trajectory (T-45).
func TestFailedCompletionIsCall(t *testing.T) {
	m := newCallServer(t, func(s *servertest.Setup) { s.TCP = true })
	m.Chat(map[string]any{"request_id": "good"}, acme)
	m.call(t, "chatcmpl-good")
	var left atomic.Int32 // calls of the backend until it fails
	m.SetHook(func(sim.Call, int) error {
		if left.Add(-1) == 0 {
			return errors.New("the device is gone")
		}
		return nil
	})
	for i, steps := range []int32{1, 1, 8} {
		stream := i > 0
		id := fmt.Sprintf("failed-%d", i)
		left.Store(steps)
		_, answer := m.Chat(map[string]any{"request_id": id, "stream": stream, "max_tokens": 50, "ignore_eos": true}, acme)
		if begun := strings.Contains(answer, `"choices"`); begun != (steps > 1) || strings.Contains(answer, `"finish_reason":"`) {
			t.Fatalf("it did not fail, or not then: %s", answer)
		}
		c := m.call(t, "chatcmpl-"+id)
		if text, _ := c["exception"].(string); text == "" || !strings.Contains(answer, text) || c["output"] != nil || c["summary"].(map[string]any)["status_counts"].(map[string]any)["error"] != 1.0 {
			t.Errorf("%v\nof\n%s", c, answer)
		}
	}
	m.SetHook(nil)
	m.Log.Reset()
	for _, stream := range []bool{false, true} {
		id := fmt.Sprintf("left-%v", stream)
		body := servertest.Body(t, map[string]any{"request_id": id, "stream": stream, "max_tokens": 50, "ignore_eos": true})
		var steps atomic.Int32
		held := make(chan struct{})
		m.SetHook(func(sim.Call, int) error { // the answer does not go on until its client has left
			if steps.Add(1) == 5 {
				<-held
			}
			return nil
		})
		r := m.Raw(t)
		r.Send(servertest.Post(len(body), acme) + body)
		servertest.WaitFor(t, "a step", func() bool { return steps.Load() >= 5 })
		r.Close()
		c := m.call(t, "chatcmpl-"+id)
		close(held)
		if c["exception"] != "The client has left." || c["output"] != nil {
			t.Errorf("%v", c)
		}
		servertest.WaitFor(t, "the end of the request", m.NoBlocks)
	}
	m.SetHook(nil)
	m.Stop()
	if n := m.archive.Keys(t, 'C'); n != 1 {
		t.Errorf("%d trajectories", n)
	}
}

// TestCallsOnStop: what has ended is written before the server has stopped (T-46).
func TestCallsOnStop(t *testing.T) {
	m := newCallServer(t, func(s *servertest.Setup) { s.Config.Trajectories.RecordEvery = time.Hour })
	const n = 250 // more than one chunk
	for i := range n {
		m.Chat(map[string]any{"request_id": fmt.Sprint(i), "max_tokens": 1}, acme)
	}
	m.Stop()
	for i := range n {
		if rec, err := m.calls.Get("acme/support", fmt.Sprintf("chatcmpl-%d", i)); rec == nil || err != nil {
			t.Fatalf("%d: %v", i, err)
		}
	}
	if n := m.archive.Keys(t, 'B'); n != 1 {
		t.Errorf("%d batches", n)
	}
}

// TestCallsLost: a database that cannot take calls loses them, but no answers and no
// trajectories; the log and a metric say so (T-46). One that is refused loses no others.
func TestCallsLost(t *testing.T) {
	m := newCallServer(t, func(s *servertest.Setup) { s.Config.Trajectories.RecordEvery = 50 * time.Millisecond })
	m.Chat(map[string]any{"request_id": strings.Repeat("x", 400)}, acme) // longer than ids of calls
	m.Chat(map[string]any{"request_id": "good"}, acme)
	m.call(t, "chatcmpl-good")
	servertest.WaitFor(t, "one that is lost", func() bool { return m.Scraped()["weir:completion_calls_lost_total"] == "1" })
	if err := m.traces.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if status, answer := m.Chat(nil, acme); status != 200 {
			t.Errorf("%d %s", status, answer)
		}
		m.Idle()
	}
	servertest.WaitFor(t, "all that are lost", func() bool { return m.Scraped()["weir:completion_calls_lost_total"] == "3" })
	m.Recorded(t, "tiny", 4)
	if n := m.Log.Times("chat completions were not written as calls"); n < 1 || n > 2 {
		t.Errorf("%d lines in the log", n)
	}
	m.Log.Reset()
}

// TestCallKeys: who may not write cannot replace a call by choosing its id, and a call has the
// name of whoever asked (T-45).
func TestCallKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "keys:\n  - {id: r, hash: %q, user: reads, rights: [read]}\n  - {id: w, hash: %q, user: writes}\n", servertest.KeyHash("r"), servertest.KeyHash("w")), 0o600); err != nil {
		t.Fatal(err)
	}
	ring, err := auth.New(nil, file)
	if err != nil {
		t.Fatal(err)
	}
	m := newCallServer(t, func(s *servertest.Setup) { s.Config.Keys = ring })
	ask := func(key, id string, tokens int) {
		t.Helper()
		if status, answer := m.Chat(map[string]any{"request_id": id, "max_tokens": tokens}, acme, "Authorization: Bearer "+key); status != 200 {
			t.Fatal(answer)
		}
	}
	limit := func(id string) string {
		c := m.call(t, "chatcmpl-"+id)
		return fmt.Sprint(c["wb_user_id"], c["inputs"].(map[string]any)["max_tokens"])
	}
	ask("r", "mine", 2)
	if have := limit("mine"); have != "reads2" {
		t.Error(have)
	}
	ask("w", "theirs", 3)
	limit("theirs")
	ask("r", "theirs", 4)
	ask("r", "last", 5)
	limit("last")
	if have := limit("theirs"); have != "writes3" {
		t.Error(have)
	}
	ask("w", "mine", 6)
	servertest.WaitFor(t, "a call that is replaced", func() bool { return limit("mine") == "writes6" })
}

// TestCallsWait: a call for which there is no memory now is written later, once (T-46).
func TestCallsWait(t *testing.T) {
	m := newCallServer(t, func(s *servertest.Setup) {
		s.Config.Memory, s.Config.MaxBody, s.Config.MemoryWait = 64<<20, 4<<20, time.Millisecond
		s.Config.Trajectories.RecordEvery = 100 * time.Millisecond
	})
	m.Chat(map[string]any{"request_id": "waits"}, acme)
	account := m.Instance.Transport().Memory()
	all := account.Open()
	for n := account.Limit(); n > 0; n /= 2 { // as much as there is
		for all.TryGrow(n) {
		}
	}
	servertest.WaitFor(t, "attempts to write it", func() bool { return account.Stats().Full >= 4 })
	if rec, err := m.calls.Get("acme/support", "chatcmpl-waits"); err != nil || rec != nil {
		t.Fatal(rec, err)
	}
	all.Release()
	m.call(t, "chatcmpl-waits")
	m.Recorded(t, "tiny", 1)
	if m.Scraped()["weir:completion_calls_total"] != "1" || m.Scraped()["weir:completion_calls_lost_total"] != "0" {
		t.Error("it was not written once")
	}
}
