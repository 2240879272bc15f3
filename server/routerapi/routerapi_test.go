package routerapi_test

import (
	"strings"
	"testing"

	"weir/internal/jsontext"
	"weir/server/openai"
	"weir/server/routerapi"
	"weir/server/servertest"
)

func TestMain(m *testing.M) { servertest.Main(m) }

// TestLoads: the load is that of the engine, in the sections that were asked for (docs/interface/routers.md, G-1 and G-2).
func TestLoads(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) { s.Model.About = openai.About{Bytes: 1 << 30} })
	held, release := h.HoldSteps()
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		h.Chat(map[string]any{"messages": servertest.UserSays(strings.Repeat("word ", 40))})
	}()
	<-held
	servertest.WaitFor(t, "a sequence that runs", func() bool { return h.Engine.Stats().Running == 1 })
	for _, path := range []string{"/loads", "/v1/loads", "/v1/loads?include=core,disagg,queues,memory", "/v1/loads?include=all", "/loads?model=alias", "/v1/loads?dp_rank=0"} {
		status, answer, _ := h.Get("GET", path, "")
		top := jsontext.Value(answer)
		one := top.Member("loads").Elements()
		for _, l := range one {
			used, _ := l.Member("num_used_tokens").Float()
			room, _ := l.Member("max_total_num_tokens").Float()
			share, _ := l.Member("token_usage").Float()
			if used < 40 || room <= used || share < used/room-1e-6 || share > used/room+1e-6 {
				t.Errorf("%s: %v of %v tokens is %v", path, used, room, share)
			}
			if string(l.Member("num_running_reqs")) != "1" || string(l.Member("num_waiting_reqs")) != "0" || string(l.Member("num_total_reqs")) != "1" {
				t.Errorf("%s: %s", path, l)
			}
			if string(l.Member("memory").Member("weight_gb")) != "1.0" || string(l.Member("queues").Member("waiting")) != "0" {
				t.Errorf("%s: sections %s", path, l)
			}
		}
		if status != 200 || string(top.Member("dp_rank_count")) != "1" || string(top.Member("aggregate").Member("total_running_reqs")) != "1" || !strings.Contains(answer, `"loads":[{"dp_rank":0,`) {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer, _ := h.Get("GET", "/v1/loads?include=core", ""); status != 200 || strings.Contains(answer, `"memory"`) || strings.Contains(answer, `"queues"`) {
		t.Errorf("core: %d %s", status, answer)
	}
	if status, answer, _ := h.Get("GET", "/get_load", ""); status != 200 || !strings.HasPrefix(answer, `{"dp_rank":0,"load":1,"num_reqs":1,"num_waiting_reqs":0,"num_tokens":`) {
		t.Errorf("/get_load: %d %s", status, answer)
	}
	release()
	<-answered
	for query, param := range map[string]string{"include=core,x": "include", "dp_rank=1": "dp_rank"} {
		status, answer, _ := h.Get("GET", "/v1/loads?"+query, "")
		servertest.Refused(t, status, answer, 400, param)
	}
	if status, answer, _ := h.Get("GET", "/loads?model=x", ""); status != 404 {
		t.Errorf("another model: %d %s", status, answer)
	}
}

// TestInfo: what routers read of a server, each fact under one name, with types that they accept (G-3, G-4, G-5).
func TestInfo(t *testing.T) {
	h := servertest.New(t, func(s *servertest.Setup) {
		s.Config.Version, s.Model.About.Family, s.Model.Root = "1.2.3", "Qwen3ForCausalLM", "org/tiny"
	})
	for _, path := range []string{"/server_info", "/get_server_info"} {
		status, answer, _ := h.Get("GET", path, "")
		v := jsontext.Value(answer)
		for name, want := range map[string]string{
			"version": `"1.2.3"`, "model_id": `"tiny"`, "served_model_name": `"tiny"`, "model_path": `"org/tiny"`, "is_embedding": "false", "context_length": "1024", "kv_block_size": "16",
			"tp_size": "1", "dp_size": "1", "disaggregation_mode": `"null"`, "weight_version": `"default"`,
		} {
			if got := string(v.Member(name)); got != want {
				t.Errorf("%s: %s is %s, want %s", path, name, got, want)
			}
		}
		for _, name := range []string{"block_size", "model", "vllm_config", "min_required_weave_python_version"} { // the first two are other names of what is there
			if v.Member(name) != nil {
				t.Errorf("%s: %s is there: %s", path, name, answer)
			}
		}
		if status != 200 {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"/model_info", "/get_model_info"} {
		status, answer, _ := h.Get("GET", path, "")
		v := jsontext.Value(answer)
		if status != 200 || string(v.Member("model_path")) != `"org/tiny"` || string(v.Member("is_generation")) != "true" || string(v.Member("model_type")) != `"Qwen3ForCausalLM"` {
			t.Errorf("%s: %d %s", path, status, answer)
		}
	}
	if status, answer, _ := h.Get("GET", "/kv_event_sources", ""); status != 200 || answer != "{}" {
		t.Errorf("nothing is published: %d %s", status, answer)
	}
	for replay, want := range map[string]string{"": "null", "tcp://127.0.0.1:2": `"tcp://127.0.0.1:2"`} {
		h := servertest.New(t, func(s *servertest.Setup) {
			s.Config.Prefixes.Feed = &routerapi.Feed{Endpoint: "tcp://*:1", Replay: replay, Topic: "kv", HWM: 3, BufferSteps: 4}
		})
		full := `{"0":{"data_parallel_rank":0,"publisher":"zmq","enable_kv_cache_events":true,"endpoint":"tcp://*:1","replay_endpoint":` + want + `,"topic":"kv","hwm":3,"buffer_steps":4}}`
		if status, answer, _ := h.Get("GET", "/kv_event_sources", ""); status != 200 || answer != full {
			t.Errorf("%d %s, want %s", status, answer, full)
		}
	}
}

// generated is an answer of /generate.
type generated struct {
	Text string
	IDs  []int32 `json:"output_ids"`
	Meta struct {
		ID     string
		Finish struct {
			Type    string
			Length  int
			Matched jsontext.RawMessage
		} `json:"finish_reason"`
		Prompt     int       `json:"prompt_tokens"`
		Completion int       `json:"completion_tokens"`
		Scores     [][]any   `json:"output_token_logprobs"`
		Top        [][][]any `json:"output_top_logprobs"`
		Latency    float64   `json:"e2e_latency"`
	} `json:"meta_info"`
}

func generate(t *testing.T, h *servertest.Server, body string) generated {
	t.Helper()
	status, answer, _ := h.Get("POST", "/generate", body)
	if status != 200 {
		t.Fatalf("%s: %d %s", body, status, answer)
	}
	return read(t, answer)
}

func read(t *testing.T, text string) (g generated) {
	t.Helper()
	if err := jsontext.Decode([]byte(text), &g); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return g
}

// TestGenerate: the answer is that of a completion with the same prompt, as text or as tokens, whole or streamed, where each event repeats
// what came before (G-10, G-12, G-13).
func TestGenerate(t *testing.T) {
	h := servertest.New(t, nil)
	status, answer, _ := h.Get("POST", servertest.TextPath, `{"prompt":"Once upon a time","max_tokens":9,"seed":3,"return_token_ids":true,"logprobs":1}`)
	want := jsontext.Value(answer).Member("choices").Elements()
	var text, promptIDs, ids string
	for _, c := range want {
		text, promptIDs, ids = c.Member("text").Text(), string(c.Member("prompt_token_ids")), string(c.Member("token_ids"))
	}
	if status != 200 || text == "" || promptIDs == "" {
		t.Fatalf("%d %s", status, answer)
	}
	const sampling = `,"sampling_params":{"max_new_tokens":9,"sampling_seed":3}`
	for _, prompt := range []string{`"text":"Once upon a time"`, `"input_ids":` + promptIDs} {
		g := generate(t, h, `{`+prompt+sampling+`,"rid":"abc","return_logprob":true,"top_logprobs_num":2,"return_text_in_logprobs":true}`)
		if got, _ := jsontext.Encode(g.IDs); g.Text != text || string(got) != ids || g.Meta.ID != "abc" || g.Meta.Finish.Type != "length" || g.Meta.Finish.Length != 9 || g.Meta.Completion != 9 {
			t.Errorf("%s: %+v, want %q %s", prompt, g, text, ids)
		}
		if len(g.Meta.Scores) != 9 || len(g.Meta.Top) != 9 || len(g.Meta.Top[0]) != 2 || len(g.Meta.Scores[0]) != 3 || g.Meta.Scores[0][1].(float64) != float64(g.IDs[0]) || g.Meta.Scores[0][2] == nil {
			t.Errorf("%s: log-probabilities %v, %v", prompt, g.Meta.Scores, g.Meta.Top)
		}
		_, stream, header := h.Get("POST", "/generate", `{`+prompt+sampling+`,"stream":true,"return_logprob":true}`)
		events, done := strings.CutSuffix(stream, "data: [DONE]\n\n")
		list := strings.Split(strings.TrimSpace(events), "\n\n")
		before := generated{}
		for i, e := range list {
			e, ok := strings.CutPrefix(e, "data: ")
			g := read(t, e)
			if !ok || !strings.HasPrefix(g.Text, before.Text) || len(g.IDs) < len(before.IDs) || len(g.Meta.Scores) != len(g.IDs) || (g.Meta.Finish.Type == "") != (i < len(list)-1) {
				t.Errorf("event %d: %s", i, e)
			}
			before = g
		}
		if !done || len(list) < 5 || before.Text != text || len(before.IDs) != 9 || header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
			t.Errorf("%s: %s", prompt, stream)
		}
	}
	if g := generate(t, h, `{"text":"a"}`); g.Meta.Completion > 128 {
		t.Errorf("without a limit: %d tokens", g.Meta.Completion)
	}
}

// TestGenerateEnds: what an answer says of its end, and constraints (G-11, G-14).
func TestGenerateEnds(t *testing.T) {
	h := servertest.New(t, nil)
	g := generate(t, h, `{"text":"x","sampling_params":{"max_new_tokens":20,"regex":"abc"}}`)
	if g.Text != "abc" || g.Meta.Finish.Type != "stop" || string(g.Meta.Finish.Matched) == "null" {
		t.Errorf("regex: %+v", g)
	}
	g = generate(t, h, `{"text":"x","sampling_params":{"max_new_tokens":20,"regex":"abc","stop":["b"]}}`)
	if g.Text != "a" || string(g.Meta.Finish.Matched) != `"b"` {
		t.Errorf("stop: %+v", g)
	}
	g = generate(t, h, `{"text":"x","sampling_params":{"max_new_tokens":20,"regex":"abc","stop":["b"],"no_stop_trim":true}}`)
	if g.Text != "ab" {
		t.Errorf("no_stop_trim: %+v", g)
	}
	g = generate(t, h, `{"text":"x","sampling_params":{"max_new_tokens":40,"json_schema":"{\"enum\":[\"yes\"]}"}}`)
	if g.Text != `"yes"` {
		t.Errorf("json_schema: %+v", g)
	}
	g = generate(t, h, `{"text":"x","sampling_params":{"max_new_tokens":40,"ebnf":"root ::= \"no\""}}`)
	if g.Text != "no" {
		t.Errorf("ebnf: %+v", g)
	}
	one := generate(t, h, `{"text":"x","sampling_params":{"max_new_tokens":1,"regex":"a"}}`).IDs[0]
	id, _ := jsontext.Encode(one)
	g = generate(t, h, `{"text":"x","sampling_params":{"max_new_tokens":9,"regex":"a+","stop_token_ids":[`+string(id)+`]}}`)
	if string(g.Meta.Finish.Matched) != string(id) {
		t.Errorf("stop token %s: %+v", id, g)
	}
}

// TestGenerateRefused: what would make another answer is refused, and what has no effect is named (G-11, G-15).
func TestGenerateRefused(t *testing.T) {
	h := servertest.New(t, nil)
	for body, want := range map[string]string{
		`{}`: "text: Field required", `{"text":["a","b"]}`: "text: must be one text", `{"text":1}`: "text: must be a string", `{"text":"a","input_ids":[1]}`: "input_ids: the prompt is either",
		`{"input_ids":[[1],[2]]}`: "input_ids: must be the tokens of one prompt", `{"input_ids":[]}`: "input_ids: must not be empty", `{"input_ids":[-1]}`: "input_ids.0: must be at least 0",
		`{"input_ids":[3584]}`: "input_ids.0: must be a token of the model", `{"input_ids":[` + strings.Repeat("5,", 1024) + `5]}`: "input_ids: has more than 1024 tokens",
		`{"text":"a","image_data":"x"}`: "image_data: is not possible here", `{"text":"a","return_hidden_states":true}`: "return_hidden_states", `{"text":"a","lora_path":"x"}`: "lora_path",
		`{"text":"a","sampling_params":{"n":2}}`: "sampling_params.n: must be 1", `{"text":"a","sampling_params":{"max_new_tokens":0}}`: "sampling_params.max_new_tokens: must be at least 1",
		`{"text":"a","sampling_params":{"regex":"a","ebnf":"root ::= \"a\""}}`: "sampling_params.regex: only one of", `{"text":"a","sampling_params":[{}]}`: "sampling_params: must be those of one prompt",
		`{"text":"a","sampling_params":1}`: "sampling_params: must be an object", `{"text":"a","sampling_params":{"stop_regex":"x"}}`: "sampling_params.stop_regex", `{"text":"a","sampling_params":{"top_p":2}}`: "top_p",
		`{"text":"a","return_logprob":true,"logprob_start_len":0}`: "logprob_start_len", `{"text":"a","stream":1}`: "stream: must be a boolean", `{"text":"a","rid":["a"]}`: "rid: must be a string", `{`: "JSON",
	} {
		if status, answer, _ := h.Get("POST", "/generate", body); status != 400 || !strings.Contains(answer, want) {
			t.Errorf("%.60s: %d %s, want %s", body, status, answer, want)
		}
	}
	if status, answer, _ := h.Get("POST", "/generate", `{"text":"a","model":"x"}`); status != 404 {
		t.Errorf("another model: %d %s", status, answer)
	}
	status, answer, header := h.Get("POST", "/generate",
		`{"text":"a","model":"unknown","zeta":1,"alpha":2,"image_data":null,"return_hidden_states":false,"log_metrics":true,"sampling_params":{"max_new_tokens":2,"custom_params":{},"stop":[]}}`)
	if status != 200 || header.Get("X-Ignored-Fields") != "alpha, zeta, sampling_params.custom_params" {
		t.Errorf("%d %v %s", status, header, answer)
	}
}
