package messagesapi_test

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"weir/internal/jsontext"
	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

const path = "/v1/messages"

// ask sends a message and wants an answer of status 200.
func ask(t *testing.T, h *servertest.Server, path, body string, headers ...string) jsontext.Value {
	t.Helper()
	status, answer, _ := h.Get("POST", path, body, append([]string{"Content-Type: application/json"}, headers...)...)
	if status != 200 || jsontext.Scan([]byte(answer), 100) != nil {
		t.Fatalf("%d %s", status, answer)
	}
	return jsontext.Value(answer)
}

const hello = `{"model":"tiny","max_tokens":8,"messages":[{"role":"user","content":"Hello"}]}`

// TestMessage: an answer, at both paths and with both ways to send a key (M-1, M-40).
func TestMessage(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k"} })
	for _, key := range [][]string{{"X-Api-Key: k"}, {"Authorization: Bearer k"}} {
		for _, path := range []string{path, path + "?beta=true"} {
			v := ask(t, h, path, hello, key...)
			if v.Member("type").Text() != "message" || v.Member("role").Text() != "assistant" || v.Member("model").Text() != "tiny" || v.Member("stop_reason").Text() != "max_tokens" ||
				!strings.HasPrefix(v.Member("id").Text(), "msg_") || string(v.Member("usage").Member("output_tokens")) != "8" {
				t.Errorf("%s", v)
			}
		}
	}
	status, answer, header := h.Get("POST", path, hello, "Content-Type: application/json", "X-Api-Key: no", "X-Request-Id: r1")
	if want := `{"type":"error","error":{"type":"authentication_error","message":"Unauthorized"},"request_id":"r1"}`; status != 401 || answer != want || header.Get("X-Request-Id") != "r1" {
		t.Errorf("%d %s, want %s", status, answer, want)
	}
}

// TestErrors: errors have the interface's form, with the id of the request, wherever they are found (M-60).
func TestErrors(t *testing.T) {
	h := servertest.New(t, nil)
	for _, c := range []struct {
		method, path, body string
		status             int
		typ, message       string
	}{
		{"POST", path, `{}`, 400, "invalid_request_error", "model: Field required"},
		{"POST", path, strings.Replace(hello, "tiny", "other", 1), 404, "not_found_error", "other"},
		{"POST", path, strings.Replace(hello, `"max`, `"top_p":2,"max`, 1), 400, "invalid_request_error", "top_p"},
		{"POST", path, strings.Replace(hello, "Hello", strings.Repeat("Hello ", 2000), 1), 400, "invalid_request_error", "1024"},
		{"POST", path, strings.Replace(hello, `"max`, `"thread":{"type":"continue","previous_message_id":"msg_x"},"max`, 1), 404, "not_found_error", "There is no thread"},
		{"POST", path + "/batches", `{}`, 404, "not_found_error", "Not Found"},
		{"GET", path, ``, 405, "invalid_request_error", "Method Not Allowed"},
		{"POST", path + "/count_tokens", `{"model":"tiny","messages":[]}`, 400, "invalid_request_error", "at least one message"},
	} {
		status, answer, header := h.Get(c.method, c.path, c.body, "Content-Type: application/json")
		v := jsontext.Value(answer)
		if jsontext.Scan(v, 100) != nil || status != c.status || v.Member("type").Text() != "error" || v.Member("error").Member("type").Text() != c.typ ||
			!strings.Contains(v.Member("error").Member("message").Text(), c.message) || v.Member("request_id").Text() != header.Get("X-Request-Id") || len(v.Member("request_id")) < 10 {
			t.Errorf("%s %s %.100s: %d %.300s", c.method, c.path, c.body, status, answer)
		}
	}
	_, answer, _ := h.Get("POST", path, strings.Replace(hello, `"max`, `"thread":{"type":"continue","previous_message_id":"msg_x"},"max`, 1), "Content-Type: application/json")
	if got := string(jsontext.Value(answer).Member("error").Member("details")); got != `{"error_code":"thread_not_found"}` {
		t.Errorf("details %s", got)
	}
}

// TestHeaders: the id of the request is there under the vendor's name too, and what has no effect is
// named (M-3).
func TestHeaders(t *testing.T) {
	h := servertest.New(t, nil)
	for _, stream := range []string{"", `"stream":true,`} {
		_, _, header := h.Get("POST", path, strings.Replace(hello, `"max`, stream+`"zebra":1,"max`, 1), "Content-Type: application/json", "X-Request-Id: r1")
		if header.Get("Request-Id") != "r1" || header.Get("X-Ignored-Fields") != "zebra" {
			t.Errorf("%v", header)
		}
	}
}

// TestStream: a stream has the text and the counts of the answer that does not stream (M-44).
func TestStream(t *testing.T) {
	h := servertest.New(t, nil)
	body := strings.Replace(hello, `"max`, `"temperature":0,"max`, 1)
	whole := ask(t, h, path, body)
	status, stream, header := h.Get("POST", path, strings.Replace(body, `"max`, `"stream":true,"max`, 1), "Content-Type: application/json")
	if status != 200 || !strings.HasPrefix(header.Get("Content-Type"), "text/event-stream") {
		t.Fatalf("%d %v %s", status, header, stream)
	}
	text, usage, stop, names := "", "", "", ""
	for e := range strings.SplitSeq(strings.TrimSuffix(stream, "\n\n"), "\n\n") {
		name, data, _ := strings.Cut(e, "\ndata: ")
		v := jsontext.Value(data)
		if err := jsontext.Scan(v, 100); err != nil {
			t.Fatalf("%v: %s", err, e)
		}
		if name = strings.TrimPrefix(name, "event: "); !strings.HasSuffix(names, name) {
			names += " " + name
		}
		switch name {
		case "content_block_delta":
			text += v.Member("delta").Member("text").Text()
		case "message_delta":
			usage, stop = string(v.Member("usage")), v.Member("delta").Member("stop_reason").Text()
		}
	}
	want := ""
	for _, b := range whole.Member("content").Elements() {
		want += b.Member("text").Text()
	}
	if text != want || text == "" || stop != "max_tokens" || !strings.Contains(usage, `"output_tokens":8`) {
		t.Errorf("%q, want %q; %s %s", text, want, usage, stop)
	}
	if names != " message_start content_block_start content_block_delta content_block_stop message_delta message_stop" {
		t.Errorf("events%s", names)
	}
}

const ping = "event: ping\ndata: {\"type\": \"ping\"}\n\n"

// TestPing: a stream that is silent is kept open by pings (M-45).
func TestPing(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) {
		s.Config.Heartbeat = 20 * time.Millisecond
	})
	_, release := h.HoldSteps()
	answer := h.Do("POST", path, strings.Replace(hello, `"max_tokens":8`, `"stream":true,"max_tokens":2`, 1), "Content-Type: application/json")
	defer answer.Body.Close()
	begin := make([]byte, len(ping))
	_, err := io.ReadFull(answer.Body, begin)
	release()
	rest, _ := io.ReadAll(answer.Body)
	stream := string(rest)
	if err != nil || string(begin) != ping || answer.StatusCode != 200 || !strings.HasSuffix(stream, "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n") {
		t.Errorf("%v %s %s", err, begin, stream)
	}
}

// TestSecondTurnIsCached: the block of the system prompt that changes with every conversation does
// not keep a turn from using what the last one has computed (M-10, M-43).
func TestSecondTurnIsCached(t *testing.T) {
	h := servertest.New(t, nil)
	turn := func(version, rest string) jsontext.Value {
		return ask(t, h, path, fmt.Sprintf(`{"model":"tiny","max_tokens":4,"system":[{"type":"text","text":"x-anthropic-billing-header: cc_version=2.1.330.%s; cc_entrypoint=cli;"},{"type":"text","text":%q}],"messages":[{"role":"user","content":[{"type":"text","text":"Hello"}]}%s]}`,
			version, strings.Repeat("Be brief. ", 30), rest))
	}
	first := turn("45e", "")
	second := turn("9f1", `,{"role":"assistant","content":"Hi."},{"role":"user","content":"And now?"}`)
	if got := string(first.Member("usage").Member("cache_read_input_tokens")); got != "0" {
		t.Errorf("turn 1: %s cached", got)
	}
	u := second.Member("usage")
	if cached, _ := u.Member("cache_read_input_tokens").Float(); cached < 48 || string(u.Member("cache_creation_input_tokens")) != "0" {
		t.Errorf("turn 2: %s", u)
	}
	in, _ := u.Member("input_tokens").Float()
	cached, _ := u.Member("cache_read_input_tokens").Float()
	count := ask(t, h, path+"/count_tokens", fmt.Sprintf(`{"model":"tiny","system":%q,"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Hi."},{"role":"user","content":"And now?"}]}`, strings.Repeat("Be brief. ", 30)))
	if n, _ := count.Member("input_tokens").Float(); n != in+cached || n == 0 {
		t.Errorf("%s, want %v + %v tokens", count, in, cached)
	}
}

// TestDeferredToolsKeepThePrompt: a tool that a result refers to is sent among the others from then on, as Claude
// Code does, and can be called, and the prompt begins as before (M-32).
func TestDeferredToolsKeepThePrompt(t *testing.T) {
	h := servertest.New(t, nil)
	const (
		others = `{"name":"ToolSearch","description":"Fetches schemas of deferred tools.","input_schema":{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}},
			{"name":"DeferredToolPlaceholder","input_schema":{"type":"object","properties":{}},"defer_loading":true},
			{"name":"Write","description":"Writes a file.","input_schema":{"type":"object","properties":{"content":{"type":"string"}},"required":["content"]}}`
		cron  = `{"name":"CronList","description":"List all cron jobs.","input_schema":{"type":"object","properties":{},"additionalProperties":false},"defer_loading":true},`
		asked = `{"role":"user","content":[{"type":"text","text":"Which jobs are there?"}]}`
		found = asked + `,{"role":"assistant","content":[{"type":"tool_use","id":"toolu_1","name":"ToolSearch","input":{"query":"select:CronList"}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"tool_reference","tool_name":"CronList"}],"cache_control":{"type":"ephemeral"}}]}`
	)
	turn := func(path, more, tools, messages string) jsontext.Value {
		return ask(t, h, path, `{"model":"tiny","system":"Be brief.","tools":[`+tools+`],"messages":[`+messages+`]`+more+`}`)
	}
	first := turn(path, `,"max_tokens":4`, others, asked).Member("usage")
	before, _ := first.Member("input_tokens").Float()
	second := turn(path, `,"max_tokens":64,"tool_choice":{"type":"any"}`, cron+others, found)
	in, _ := second.Member("usage").Member("input_tokens").Float()
	cached, _ := second.Member("usage").Member("cache_read_input_tokens").Float()
	if before < 100 || cached < before-32 { // less a block that is not full, and the beginning of the answer
		t.Errorf("turn 1: %s\nturn 2: %s", first, second.Member("usage"))
	}
	if n, _ := turn(path+"/count_tokens", "", cron+others, found).Member("input_tokens").Float(); n != in+cached {
		t.Errorf("%v tokens are counted of %v + %v", n, in, cached)
	}
	forced := turn(path, `,"max_tokens":64,"tool_choice":{"type":"tool","name":"CronList"}`, cron+others, found)
	if use := string(forced.Member("content")); !strings.Contains(use, `"name":"CronList"`) {
		t.Errorf("%s", use)
	}
}

// TestCountTokens: a prompt is counted that does not fit, with tools, and nothing is computed (M-70).
func TestCountTokens(t *testing.T) {
	h := servertest.New(t, nil)
	long := ask(t, h, path+"/count_tokens?beta=true", fmt.Sprintf(`{"model":"tiny","messages":[{"role":"user","content":%q}]}`, strings.Repeat("Hello ", 3000)))
	if n, _ := long.Member("input_tokens").Float(); n < 3000 {
		t.Errorf("%s", long)
	}
	if h.Engine.Stats().Steps != 0 {
		t.Error("a step was computed")
	}
}

// TestPrefill: an answer goes on from a last message of the assistant (M-16).
func TestPrefill(t *testing.T) {
	h := servertest.New(t, nil)
	v := ask(t, h, path, `{"model":"tiny","max_tokens":4,"messages":[{"role":"user","content":"Hello"},{"role":"assistant","content":"Once upon"}]}`)
	if v.Member("content").Empty() || strings.Contains(string(v.Member("content")), "Once upon") {
		t.Errorf("%s", v)
	}
}

// TestRoom: more tokens than there is room are capped, and the end of the context is told (M-20, M-42).
func TestRoom(t *testing.T) {
	h := servertest.New(t, nil)
	v := ask(t, h, path, `{"model":"tiny","max_tokens":128000,"messages":[{"role":"user","content":"Hello"}]}`)
	if reason := v.Member("stop_reason").Text(); reason != "model_context_window_exceeded" && reason != "end_turn" {
		t.Errorf("%s", v)
	}
}

// TestToolLoop: a call comes back as a block, whole and streamed, and its result goes on in a thread,
// which has the tools and the first question (M-31, M-41, M-44, M-50, M-51).
func TestToolLoop(t *testing.T) {
	h := servertest.New(t, nil)
	const tools = `"tools":[{"name":"add","input_schema":{"type":"object","properties":{"a":{"enum":[2,3]}},"required":["a"],"additionalProperties":false}}]`
	for _, choice := range []string{`{"type":"any","disable_parallel_tool_use":true}`, `{"type":"tool","name":"add","disable_parallel_tool_use":true}`} {
		body := `{"model":"tiny","max_tokens":200,"thread":{"type":"create"},` + tools + `,"tool_choice":` + choice + `,"messages":[{"role":"user","content":"2 + 3?"}]`
		v := ask(t, h, path, body+"}")
		var use jsontext.Value
		for _, b := range v.Member("content").Elements() {
			if b.Member("type").Text() == "tool_use" {
				use = b
			}
		}
		if use == nil || use.Member("name").Text() != "add" || v.Member("stop_reason").Text() != "tool_use" || !strings.Contains("2 3", string(use.Member("input").Member("a"))) {
			t.Fatalf("%s", v)
		}
		next := ask(t, h, path, fmt.Sprintf(`{"model":"tiny","max_tokens":2,"thread":{"type":"continue","previous_message_id":%s},"tool_choice":{"type":"none"},"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":%s,"content":"5"}]}]}`,
			v.Member("id"), use.Member("id")))
		if cached, _ := next.Member("usage").Member("cache_read_input_tokens").Float(); cached < 16 {
			t.Errorf("%s", next)
		}
		_, stream, _ := h.Get("POST", path, body+`,"stream":true}`, "Content-Type: application/json")
		if !strings.Contains(stream, `"content_block":{"type":"tool_use","id":"call_`) || !strings.Contains(stream, `"delta":{"type":"input_json_delta","partial_json":"`) || !strings.Contains(stream, `"stop_reason":"tool_use"`) {
			t.Error(stream)
		}
	}
}

// TestThreadsOfOthers: a key, and a project, has the threads that it began and no others (M-52).
func TestThreadsOfOthers(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"a", "b"} })
	for _, other := range [][]string{{"X-Api-Key: b", "Compat-Project: acme/x"}, {"X-Api-Key: a", "Compat-Project: acme/y"}, {"X-Api-Key: a"}} {
		own := []string{"X-Api-Key: a", "Compat-Project: acme/x"}
		first := ask(t, h, path, strings.Replace(hello, "{", `{"thread":{"type":"create"},`, 1), own...)
		next := strings.Replace(hello, "{", `{"thread":{"type":"continue","previous_message_id":`+string(first.Member("id"))+`},`, 1)
		status, answer, _ := h.Get("POST", path, next, append(other, "Content-Type: application/json")...)
		if status != 404 || !strings.Contains(answer, "thread_not_found") {
			t.Errorf("%v: %d %s", other, status, answer)
		}
		ask(t, h, path, next, own...)
	}
}
