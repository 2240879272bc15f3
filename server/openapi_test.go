package server_test

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/feedback"
	"weir/pooling"
	"weir/server"
	"weir/server/batchesapi"
	"weir/server/benchapi"
	"weir/server/failure"
	"weir/server/feedbackapi"
	"weir/server/liveapi"
	"weir/server/responsesapi"
	"weir/server/servertest"
	"weir/server/trajectoryapi"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// document is /openapi.json as the server gives it.
type document struct {
	schemas *jsonschema.Compiler
	paths   map[string]any
}

func (h *testServer) document(t *testing.T, headers ...string) *document {
	t.Helper()
	status, answer, header := h.Get("GET", "/openapi.json", "", headers...)
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(answer))
	if err != nil || status != 200 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v", status, err)
	}
	d := &document{jsonschema.NewCompiler(), v.(map[string]any)["paths"].(map[string]any)}
	if err := d.schemas.AddResource("openapi.json", v); err != nil {
		t.Fatal(err)
	}
	return d
}

// check holds a text against what stands at the members of the document: the
// path, the method, and then the request's or a response's.
func (d *document) check(t *testing.T, text, media string, members ...string) {
	t.Helper()
	at := any(d.paths)
	pointer := "openapi.json#/paths"
	for _, m := range append(members, "content", media, "schema") {
		next, ok := at.(map[string]any)[m]
		if !ok {
			if m == "content" && text == "" {
				return // and none is described
			}
			t.Errorf("%v: %q is not described: %.200s", members, m, text)
			return
		}
		at = next
		pointer += "/" + url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(m))
	}
	s, err := d.schemas.Compile(pointer)
	if err != nil {
		t.Fatal(err)
	}
	if media != "application/json" && media != "text/event-stream" {
		text = strconv.Quote("") // of which JSON Schema only says that it is one
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		t.Errorf("%v: %v in %.200s", members, err, text)
		return
	}
	if err := s.Validate(value); err != nil {
		t.Errorf("%v: %v\n%.2000s", members, err, text)
	}
}

// TestOpenAPIRoutes: the document has every path and method of the server, and
// says which want a key.
func TestOpenAPIRoutes(t *testing.T) {
	t.Parallel()
	h, d := newDocumented(t)
	want := h.Instance.AllRoutes()
	if have := slices.Sorted(maps.Keys(d.paths)); !slices.Equal(have, slices.Sorted(maps.Keys(want))) {
		t.Errorf("paths %v", have)
	}
	for path, r := range want {
		ops, _ := d.paths[path].(map[string]any)
		if have := strings.ToUpper(strings.Join(slices.Sorted(maps.Keys(ops)), " ")); have != r.Methods {
			t.Errorf("%s: %s, want %s", path, have, r.Methods)
		}
		for method, op := range ops {
			security, given := op.(map[string]any)["security"]
			open := given && len(security.([]any)) == 0
			face := server.InterfaceOf(path)
			if want := map[failure.Interface]string{failure.Feedback: "[map[] map[basic:[]]]", failure.Trajectories: "[map[] map[bearer:[]]]"}[face]; !face.Generates() && fmt.Sprint(security) != want {
				t.Errorf("%s %s: %v, want %s", method, path, security, want)
			}
			_, refused := op.(map[string]any)["responses"].(map[string]any)["401"]
			if open != r.Open || refused == r.Open {
				t.Errorf("%s %s: open %v, 401 %v", method, path, open, refused)
			}
		}
	}
}

// newDocumented returns a server with all functions.
func newDocumented(t *testing.T) (*testServer, *document) {
	recording, _ := servertest.NewRecording(t, func(s *servertest.Setup) {
		s.Config.Feedback = feedback.New(servertest.NewDB(t), feedback.DefaultConfig())
		s.Config.Functions = server.Functions{Dev: true, TokenizerInfo: true}
		s.Config.Batches = batchesapi.NewStore(servertest.NewDB(t), 0, 0)
		s.Config.Bench = &server.Bench{Command: []string{"none"}, URL: func() string { return "" }}
	})
	h := &testServer{recording}
	return h, h.document(t)
}

// TestOpenAPIMatchesServer: what a server lacks is not in its document, and everything else
// is. What is there is found out by asking.
func TestOpenAPIMatchesServer(t *testing.T) {
	t.Parallel()
	_, all := newDocumented(t)
	h := newServer(t, nil)
	d := h.document(t)
	if len(d.paths) >= len(all.paths) {
		t.Errorf("%d paths without stores and switches, %d with them", len(d.paths), len(all.paths))
	}
	for path, methods := range all.paths {
		for method := range methods.(map[string]any) {
			asked := strings.NewReplacer("{id}", "tiny", "{", "", "}", "").Replace(path)
			if path == liveapi.Path {
				asked += "?count=1" // it has no end otherwise
			}
			status, answer, _ := h.Get(strings.ToUpper(method), asked, "")
			_, has := d.paths[path]
			if there := status != 404 || strings.Contains(answer, `"param":"response_id"`); there != has {
				t.Errorf("%s %s is answered with %d %.100s; in the document: %v", method, path, status, answer, has)
			}
		}
	}
}

// TestDocs: the page is there without a key, loads nothing from elsewhere, and goes together
// with the document.
func TestDocs(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.APIKeys = []string{"k"} })
	status, page, header := h.Get("GET", "/docs", "", "")
	if status != 200 || !strings.Contains(page, "fetch('openapi.json')") || regexp.MustCompile(`(src|href)="?(https?:)?//`).MatchString(page) {
		t.Errorf("%d %.200s", status, page)
	}
	if policy := header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || !strings.Contains(policy, "script-src 'sha256-") || header.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("policy %q, headers %v", policy, header)
	}
	without := newServer(t, func(s *servertest.Setup) { s.Config.Functions.NoDocs = true })
	for _, path := range []string{"/docs", "/openapi.json"} {
		if status, _, _ := without.Get("GET", path, ""); status != 404 {
			t.Errorf("%s with NoDocs: %d", path, status)
		}
	}
}

// TestOpenAPIAnswers: what is sent and answered is what the document says, for
// every function, every status that can be had easily, and both forms of answers.
func TestOpenAPIAnswers(t *testing.T) {
	t.Parallel()
	stored := feedback.New(servertest.NewDB(t), feedback.DefaultConfig())
	responses := responsesapi.NewStore(servertest.NewDB(t), 0, 0)
	recording, archive := servertest.NewRecording(t, func(s *servertest.Setup) {
		s.Config.Feedback = stored
		s.Config.Functions = server.Functions{Dev: true, TokenizerInfo: true, LoadTracking: true, Settings: map[string]string{"a": "b"}}
		s.Config.APIKeys = []string{"k"}
		s.Config.Responses = responses
		s.Config.Bench = &server.Bench{Command: []string{"none"}, URL: func() string { return "" }}
		s.Model.Fingerprint = "fp_1"
	})
	const key = "Authorization: Bearer k"
	h := &testServer{recording}
	d := h.document(t, key)
	chat := func(fields map[string]any) string { return servertest.Body(t, fields) }
	text := func(fields map[string]any) string { return servertest.TextBody(t, fields) }
	everything := map[string]any{"logprobs": true, "top_logprobs": 3, "return_token_ids": true, "n": 2, "temperature": 0.5, "seed": 1, "stop": []string{"e"}, "logit_bias": map[string]any{"5": 1}, "min_tokens": 0,
		"user": nil, "tools": nil, "tool_choice": "none", "repetition_detection": map[string]any{"max_pattern_size": 4, "min_count": 3}, "cache_salt": "s", "engine_xargs": map[string]any{"a": []any{1, "b"}},
		"chat_template_kwargs": map[string]any{"x": 1}, "truncate_prompt_tokens": -1, "top_p": 0.9, "top_k": 40, "min_p": 0.01, "documents": []any{map[string]any{"a": 1}}, "request_id": "r", "stop_token_ids": []int{300}}
	streams := map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}}
	both := maps.Clone(everything)
	maps.Copy(both, streams)
	texts := map[string]any{"prompt": []string{"a", "b"}, "logprobs": 2, "echo": true, "return_token_ids": true, "n": 2, "temperature": 1, "stop": "e"}
	textStream := maps.Clone(texts)
	maps.Copy(textStream, streams)
	pass := []string{servertest.Basic("api", "k")}
	reward := servertest.Item("feedback_type", "reward", "payload", map[string]any{"reward": 1})
	row := servertest.Object(t, func() string {
		_, answer, _ := h.Get("POST", "/feedback/create", servertest.Item("feedback_id", nil), pass[0])
		return answer
	}())["id"].(string)
	log := h.LogGroups(t, servertest.AgentPath, servertest.ExampleLog(t), key)["id"].(string)
	gone := h.LogGroups(t, servertest.AgentPath, servertest.ExampleLog(t), key)["id"].(string)
	h.LogGroups(t, "/v1/preview/models/gone", servertest.Group(`{}`), key)
	h.Chat(nil, key, "Compat-Project: acme/x")
	servertest.WaitFor(t, "a record", func() bool { return archive.Keys(t, 'C') == 1 })
	recorded := servertest.Object(t, func() string {
		_, answer, _ := h.Get("GET", "/v1/preview/models/tiny/trajectories", "", key)
		return answer
	}())["data"].([]any)[0].(map[string]any)["id"].(string)
	respond := func(body string) string {
		_, answer, _ := h.Get("POST", responsesapi.Path, body, key)
		return responsesapi.Path + "/" + servertest.Object(t, answer)["id"].(string)
	}
	kept, dropped := respond(`{"input":"x","max_output_tokens":5}`), respond(`{"input":"x","max_output_tokens":5}`)
	const response = responsesapi.Path + "/{id}"
	const message = `{"model":"tiny","max_tokens":4,"system":[{"type":"text","text":"Be brief."}],"messages":[{"role":"user","content":"Hi"}],"stop_sequences":["e"],"output_config":{"effort":"low"}}`
	const span = `{"project_id":"acme/support","start":"2026-01-01"`
	const model = trajectoryapi.Prefix + "/{model_id}"
	seen := map[string]bool{}
	const unknown = "0199f2c4-0000-7000-8000-00000000dead"
	for _, c := range []struct {
		method, path, template, body string
		status                       int
		headers                      []string
	}{
		{"POST", servertest.ChatPath, "", chat(nil), 200, nil}, {"POST", servertest.ChatPath, "", chat(everything), 200, nil}, {"POST", servertest.ChatPath, "", chat(map[string]any{"prompt_logprobs": 2}), 200, nil},
		{"POST", servertest.ChatPath, "", chat(streams), 200, nil}, {"POST", servertest.ChatPath, "", chat(both), 200, nil},
		{"POST", servertest.ChatPath, "", "{", 400, nil}, {"POST", servertest.ChatPath, "", chat(map[string]any{"model": "x"}), 404, nil}, {"POST", servertest.ChatPath, "", chat(nil), 401, []string{""}},
		{"POST", servertest.ChatPath, "", chat(map[string]any{"messages": servertest.UserSays([]any{map[string]any{"type": "file"}})}), 501, nil},
		{"POST", servertest.ChatPath, "", chat(map[string]any{"allowed_token_ids": []int{servertest.EndOfTurn}, "min_tokens": 3}), 400, nil},
		{"POST", servertest.TextPath, "", text(nil), 200, nil}, {"POST", servertest.TextPath, "", text(texts), 200, nil}, {"POST", servertest.TextPath, "", text(textStream), 200, nil}, {"POST", servertest.TextPath, "", text(streams), 200, nil},
		{"POST", servertest.TextPath, "", text(map[string]any{"prompt": [][]int{{5}, {6}}, "prompt_logprobs": 1, "max_tokens": 0, "echo": true}), 200, nil},
		{"POST", servertest.TextPath, "", text(map[string]any{"suffix": "x"}), 400, nil}, {"POST", servertest.TextPath, "", text(map[string]any{"model": "x"}), 404, nil}, {"POST", servertest.TextPath, "", text(nil), 401, []string{""}},
		{"POST", servertest.ChatPath + "/render", "", chat(everything), 200, nil}, {"POST", servertest.ChatPath + "/render", "", chat(streams), 200, nil}, {"POST", servertest.TextPath + "/render", "", text(textStream), 200, nil}, {"POST", servertest.TextPath + "/render", "", "{}", 400, nil},
		{"GET", "/v1/models", "", "", 200, nil}, {"GET", "/v1/models/tiny", "/v1/models/{id}", "", 200, nil}, {"GET", "/v1/models/none", "/v1/models/{id}", "", 404, nil}, {"GET", "/v1/models", "", "", 401, []string{""}},
		{"POST", responsesapi.Path, "", `{"input":"x","max_output_tokens":5}`, 200, nil}, {"POST", responsesapi.Path, "", `{"input":[{"role":"user","content":"x"}],"max_output_tokens":5,"stream":true,"store":false,"top_logprobs":2,"metadata":{"a":"b"},"tools":[{"type":"web_search"}]}`, 200, nil},
		{"POST", responsesapi.Path, "", `{}`, 400, nil}, {"POST", responsesapi.Path, "", `{"input":"x","model":"y"}`, 404, nil}, {"POST", responsesapi.Path, "", `{"input":"x"}`, 401, []string{""}},
		{"POST", responsesapi.Path + "/compact", "", `{"input":"x"}`, 400, nil}, {"POST", responsesapi.Path + "/input_tokens", "", `{"input":"x"}`, 200, nil}, {"GET", kept, response, "", 200, nil}, {"GET", kept + "x", response, "", 404, nil}, {"DELETE", dropped, response, "", 200, nil},
		{"POST", kept + "/cancel", response + "/cancel", "", 400, nil}, {"GET", kept + "/input_items", response + "/input_items", "", 200, nil}, {"GET", kept + "/input_items?limit=0", response + "/input_items", "", 400, nil},
		{"POST", "/v1/messages", "", message, 200, nil}, {"POST", "/v1/messages", "", strings.Replace(message, "{", `{"stream":true,"thinking":{"type":"adaptive"},`, 1), 200, nil}, {"POST", "/v1/messages", "", "{}", 400, nil},
		{"POST", "/v1/messages", "", strings.Replace(message, "tiny", "x", 1), 404, nil}, {"POST", "/v1/messages", "", message, 401, []string{""}},
		{"POST", "/v1/messages/count_tokens", "", message, 200, nil}, {"POST", "/v1/messages/count_tokens", "", "{}", 400, nil}, {"POST", "/v1/messages/count_tokens", "", message, 401, []string{""}},
		{"GET", "/", "", "", 200, []string{""}}, {"GET", "/", "", "", 200, []string{"Accept: text/html"}}, {"GET", "/api/version", "", "", 200, []string{""}}, {"GET", "/api/tags", "", "", 200, nil}, {"GET", "/api/tags", "", "", 401, []string{""}}, {"GET", "/api/ps", "", "", 200, nil},
		{"POST", "/api/show", "", `{"model":"tiny"}`, 200, nil}, {"POST", "/api/show", "", `{"model":"x"}`, 404, nil},
		{"POST", "/api/chat", "", `{"model":"tiny","stream":false,"messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":3,"seed":1},"logprobs":true,"top_logprobs":2,"think":true}`, 200, nil}, {"POST", "/api/chat", "", `{"model":"tiny","messages":[]}`, 200, nil}, {"POST", "/api/chat", "", "{}", 400, nil},
		{"POST", "/api/chat", "", `{"model":"tiny","messages":[{"role":"user","content":"Hi"}],"options":{"num_predict":3}}`, 200, nil}, {"POST", "/api/chat", "", "{}", 401, []string{""}},
		{"POST", "/api/generate", "", `{"model":"tiny","stream":false,"prompt":"Hi","options":{"num_predict":3}}`, 200, nil}, {"POST", "/api/generate", "", `{"model":"x"}`, 404, nil},
		{"POST", "/api/embed", "", `{"model":"tiny","input":"Hi"}`, 400, nil}, {"POST", "/api/embeddings", "", `{"model":"tiny","prompt":"Hi"}`, 400, nil},
		{"POST", "/v1/embeddings", "", `{"input":"Hi"}`, 400, nil}, // TestOpenAPIEmbeddings and TestOpenAPIScoring have the answers
		{"POST", "/pooling", "", `{"input":"Hi"}`, 400, nil}, {"POST", "/classify", "", `{"input":"Hi"}`, 400, nil},
		{"POST", "/score", "", `{"text_1":"a","text_2":"b"}`, 400, nil}, {"POST", "/v1/score", "", `{"text_1":"a","text_2":"b"}`, 400, nil},
		{"POST", "/rerank", "", `{"query":"a","documents":["b"]}`, 400, nil}, {"POST", "/v1/rerank", "", `{"query":"a","documents":["b"]}`, 400, nil}, {"POST", "/v2/rerank", "", `{}`, 400, nil},
		{"POST", "/tokenize", "", `{"prompt":"Hi","return_token_strs":true}`, 200, nil}, {"POST", "/tokenize", "", `{"messages":[{"role":"user","content":"x"}]}`, 200, nil}, {"POST", "/tokenize", "", `{}`, 400, nil},
		{"POST", "/detokenize", "", `{"tokens":[5,6]}`, 200, nil}, {"POST", "/detokenize", "", `{"tokens":[-1]}`, 400, nil},
		{"GET", "/health", "", "", 200, nil}, {"GET", "/ping", "", "", 200, nil}, {"POST", "/ping", "", "", 200, nil}, {"GET", "/ready", "", "", 200, nil}, {"GET", "/version", "", "", 200, nil}, {"GET", "/metrics", "", "", 200, nil},
		{"GET", benchapi.Path, "", "", 200, nil}, {"GET", benchapi.Path, "", "", 401, []string{""}}, {"POST", benchapi.Path, "", `{"requests":0}`, 400, nil}, {"POST", benchapi.Path, "", `{"name":"a","concurrencies":[1]}`, 409, nil},
		{"GET", benchapi.Path + "/x", benchapi.Path + "/{id}", "", 404, nil}, {"POST", benchapi.Path + "/x/cancel", benchapi.Path + "/{id}/cancel", "", 404, nil},
		{"GET", liveapi.Path + "?count=2&interval=0.2", liveapi.Path, "", 200, nil}, {"GET", liveapi.Path + "?count=x", liveapi.Path, "", 400, nil}, {"GET", liveapi.Path, "", "", 401, []string{""}},
		{"GET", "/health_generate", "", "", 200, nil}, {"GET", "/load", "", "", 200, nil}, {"GET", "/loads", "", "", 200, nil}, {"GET", "/v1/loads?include=core", "/v1/loads", "", 200, nil}, {"GET", "/v1/loads?include=x", "/v1/loads", "", 400, nil}, {"GET", "/loads?model=x", "/loads", "", 404, nil},
		{"GET", "/get_load", "", "", 200, nil}, {"GET", "/model_info", "", "", 200, nil}, {"GET", "/get_model_info", "", "", 200, nil}, {"GET", "/kv_event_sources", "", "", 200, nil}, {"GET", "/get_server_info", "", "", 200, nil}, {"POST", "/flush_cache", "", "", 200, nil}, {"POST", "/flush_cache", "", "", 401, []string{""}},
		{"POST", "/generate", "", `{"text":"a","sampling_params":{"max_new_tokens":3},"return_logprob":true,"top_logprobs_num":1}`, 200, nil}, {"POST", "/generate", "", `{"text":"a","stream":true}`, 200, nil}, {"POST", "/generate", "", "{}", 400, nil}, {"POST", "/generate", "", `{"text":"a","model":"x"}`, 404, nil},
		{"GET", "/usage", "", "", 200, nil}, {"GET", "/usage?project=x", "/usage", "", 400, nil}, {"GET", "/server_info", "", "", 200, nil}, {"GET", "/server_info?config_format=json", "/server_info", "", 200, nil}, {"GET", "/server_info?config_format=x", "/server_info", "", 400, nil},
		{"POST", "/reset_prefix_cache?reset_running_requests=true", "/reset_prefix_cache", "", 200, nil}, {"POST", "/reset_prefix_cache?reset_external=x", "/reset_prefix_cache", "", 400, nil},
		{"GET", "/tokenizer_info", "", "", 200, nil}, {"GET", "/openapi.json", "", "", 200, nil}, {"GET", "/docs", "", "", 200, []string{""}},

		{"POST", "/feedback/replace", "", reward, 200, pass}, {"POST", "/feedback/replace", "", servertest.Item("trace_ref", nil, "weave_ref", servertest.CallRef, "wb_user_id", nil), 200, pass}, {"POST", "/feedback/replace", "", servertest.Item("id", row, "creator", "x"), 409, pass},
		{"POST", "/feedback/replace", "", servertest.Item("trace_ref", "x"), 400, pass}, {"POST", "/feedback/replace", "", "{}", 422, pass}, {"POST", "/feedback/replace", "", "{}", 401, []string{""}},
		{"POST", "/feedback/create", "", servertest.Item("feedback_id", nil, "creator", "c", "queue_id", "q"), 200, pass}, {"POST", "/feedback/batch/create", "", `{"batch":[` + servertest.Item("feedback_id", nil) + `]}`, 200, pass},
		{"POST", "/feedback/query", "", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"payload.n"},{"$literal":1}]}},"sort_by":[{"field":"id","direction":"asc"}],"fields":["id"]}`, 200, pass}, {"POST", "/feedback/query", "", `{"project_id":"acme/support","fields":["x"]}`, 400, pass},
		{"POST", "/feedback/export", "", `{"project_id":"acme/support"}`, 200, pass}, {"POST", "/feedback/export", "", `{"project_id":"acme/support"}`, 200, append(pass, "Accept: text/csv")},
		{"POST", "/feedback/purge", "", `{"project_id":"acme/support","query":{"$expr":{"$eq":[{"$getField":"id"},{"$literal":"x"}]}}}`, 200, pass}, {"POST", "/feedback/purge", "", `{"project_id":"acme/support"}`, 422, pass},
		{"POST", "/feedback/erase", "", `{"project_id":"acme/support","dry_run":true,"creator":"c"}`, 200, pass}, {"POST", "/feedback/stats", "", span + `,"metrics":[{"json_path":"n","aggregations":["avg"],"percentiles":[50]}]}`, 200, pass},
		{"POST", "/feedback/payload_schema", "", span + `}`, 200, pass}, {"GET", "/feedback/" + row + "?project_id=acme/support", "/feedback/{id}", "", 200, pass}, {"GET", "/feedback/" + unknown + "?project_id=acme/support", "/feedback/{id}", "", 404, pass}, {"GET", "/feedback/" + unknown, "/feedback/{id}", "", 422, pass},
		{"POST", "/feedback/aggregate", "", `{"project_id":"acme/support","after_ms":0,"before_ms":4000000000000,"group_by":["scorer_id"]}`, 200, pass}, {"POST", "/feedback/aggregate", "", `{}`, 422, pass},

		{"GET", trajectoryapi.Prefix, "", "", 200, nil}, {"GET", trajectoryapi.Prefix + "?x=1", trajectoryapi.Prefix, "", 422, nil}, {"GET", trajectoryapi.Prefix, "", "", 401, []string{""}},
		{"POST", trajectoryapi.Prefix, "", `{"entity":"acme","project":"p","name":"n","base_model":"b"}`, 200, nil}, {"POST", trajectoryapi.Prefix, "", `{"entity":"acme","project":"p","name":"n","base_model":"b"}`, 409, nil}, {"POST", trajectoryapi.Prefix, "", `{}`, 422, nil},
		{"GET", trajectoryapi.Prefix + "?entity=acme", trajectoryapi.Prefix, "", 200, nil},
		{"POST", servertest.AgentPath + "/log", model + "/log", servertest.ExampleLog(t), 200, nil}, {"POST", servertest.AgentPath + "/log", model + "/log", "{}", 422, nil}, {"POST", servertest.AgentPath + "/log", model + "/log", "{}", 415, []string{key, "Content-Type: text/plain"}},
		{"GET", servertest.AgentPath + "/logs", model + "/logs", "", 200, nil}, {"GET", "/v1/preview/models/none/logs", model + "/logs", "", 404, nil}, {"DELETE", servertest.AgentPath + "/logs/" + gone, model + "/logs/{log_id}", "", 200, nil},
		{"GET", servertest.AgentPath + "/trajectories?include=raw,messages,logprobs", model + "/trajectories", "", 200, nil}, {"DELETE", servertest.AgentPath + "/trajectories?dry_run=1", model + "/trajectories", "", 200, nil},
		{"GET", servertest.AgentPath + "/trajectories/" + log + "/0/0", model + "/trajectories/{log_id}/{g}/{t}", "", 200, nil}, {"GET", servertest.AgentPath + "/metrics?group_by=policy_version", model + "/metrics", "", 200, nil}, {"GET", servertest.AgentPath + "/metrics", model + "/metrics", "", 200, nil},
		{"GET", servertest.AgentPath + "/export", model + "/export", "", 200, nil}, {"GET", servertest.AgentPath + "/export?format=parquet", model + "/export", "", 200, nil}, {"GET", servertest.AgentPath + "/export?format=art", model + "/export", "", 200, nil},
		{"POST", "/v1/preview/models/tiny/rewards", model + "/rewards", `{"rewards":[{"id":"` + recorded + `","reward":1}]}`, 200, nil}, {"POST", servertest.AgentPath + "/rewards", model + "/rewards", `{"rewards":[{"id":"` + log + `/0/0","reward":1}]}`, 409, nil},
		{"GET", servertest.AgentPath, model, "", 200, nil}, {"GET", servertest.AgentPath + "/checkpoints", model + "/checkpoints", "", 200, nil}, {"DELETE", servertest.AgentPath + "/checkpoints", model + "/checkpoints", `{"steps":[1,2]}`, 200, nil},
		{"POST", "/v1/preview/training-jobs", "", `{}`, 501, nil}, {"POST", "/v1/preview/sft-training-jobs", "", `{}`, 501, nil}, {"GET", "/v1/preview/training-jobs/x/events", "/v1/preview/training-jobs/{job_id}/events", "", 501, nil},
		{"DELETE", "/v1/preview/models/gone", model, "", 200, nil},
	} {
		c.template = cmp.Or(c.template, c.path)
		if c.headers == nil {
			c.headers = []string{key}
		}
		seen[c.template] = true
		if c.body != "" && c.status == 200 {
			d.check(t, c.body, "application/json", c.template, strings.ToLower(c.method), "requestBody")
		}
		status, answer, header := h.Get(c.method, c.path, c.body, c.headers...)
		if status != c.status {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, status, answer, c.status)
			continue
		}
		d.checkAnswer(t, answer, header.Get("Content-Type"), c.template, strings.ToLower(c.method), "responses", strconv.Itoa(c.status))
	}
	for path := range d.paths {
		if !seen[path] {
			t.Errorf("nothing is asked of %s", path)
		}
	}
}

// TestOpenAPIEmbeddings: requests and answers of a model that embeds are what the document says.
func TestOpenAPIEmbeddings(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) {
		s.Spec.Hidden = 4
		s.Model.Pooling = &pooling.Plan{Hidden: 4, Normalize: true}
	})
	d := h.document(t)
	const path = "/v1/embeddings"
	for _, body := range []string{
		`{"input":"Hi"}`, `{"input":["a","b"],"encoding_format":"base64","dimensions":2,"user":"u"}`, `{"input":[[5],[6,7]],"normalize":false,"embed_dtype":"float32","endianness":"little"}`,
		`{"messages":[{"role":"user","content":"x"}],"truncate_prompt_tokens":-1,"cache_salt":"s"}`,
	} {
		d.check(t, body, "application/json", path, "post", "requestBody")
		status, answer, header := h.Get("POST", path, body)
		if status != 200 {
			t.Errorf("%s: %d %s", body, status, answer)
			continue
		}
		d.checkAnswer(t, answer, header.Get("Content-Type"), path, "post", "responses", "200")
	}
}

// TestOpenAPIScoring: requests and answers of models that score and classify are what the document says.
func TestOpenAPIScoring(t *testing.T) {
	t.Parallel()
	for labels, list := range map[int][][2]string{
		1: {
			{"/score", `{"queries":"a","documents":["b",{"text":"c"}],"max_tokens_per_doc":3}`}, {"/v1/score", `{"text_1":["a"],"text_2":["b"],"use_activation":false,"instruction":"i"}`},
			{"/rerank", `{"query":"a","documents":["b","c"],"top_n":1}`}, {"/v1/rerank", `{"query":{"text":"a"},"documents":"b","return_documents":false,"truncation_side":"left"}`},
			{"/v2/rerank", `{"query":"a","documents":["b"],"chat_template_kwargs":{"x":1}}`}, {"/classify", `{"input":"a"}`}, {"/pooling", `{"input":["a","b"],"task":"classify","encoding_format":"base64"}`},
		},
		2: {{"/classify", `{"input":["a","b"],"normalize":false}`}, {"/classify", `{"messages":[{"role":"user","content":"x"}]}`}, {"/pooling", `{"messages":[{"role":"user","content":"x"}]}`}},
	} {
		h := newServer(t, func(s *servertest.Setup) {
			s.Spec.Hidden = 4
			s.Model.Pooling = &pooling.Plan{Hidden: 4, Labels: labels, Layers: []pooling.Dense{{In: 4, Out: labels, W: make([]float32, 4*labels), Activation: pooling.Sigmoid}}}
			s.Model.Scoring.Labels = []string{"a"}
		})
		d := h.document(t)
		for _, c := range list {
			path, body := c[0], c[1]
			d.check(t, body, "application/json", path, "post", "requestBody")
			status, answer, header := h.Get("POST", path, body)
			if status != 200 {
				t.Errorf("%s %s: %d %s", path, body, status, answer)
				continue
			}
			d.checkAnswer(t, answer, header.Get("Content-Type"), path, "post", "responses", "200")
		}
	}
}

// checkAnswer checks an answer of any media type: of a stream each event but the last.
func (d *document) checkAnswer(t *testing.T, answer, contentType string, members ...string) {
	t.Helper()
	media, _, _ := strings.Cut(contentType, ";")
	if media != "text/event-stream" {
		d.check(t, answer, media, members...)
		return
	}
	for event := range strings.SplitSeq(strings.TrimSuffix(answer, "data: [DONE]\n\n"), "\n\n") {
		if strings.HasPrefix(event, "event: ") {
			_, event, _ = strings.Cut(event, "\n")
		}
		if data, ok := strings.CutPrefix(event, "data: "); ok {
			d.check(t, data, media, members...)
		}
	}
}

// TestOpenAPILoading: every function that the document says to be 503 while there is no
// model is that, with the error that it says. Those of feedback and trajectories are not
// there without a store: TestFeedbackUnavailable and TestLogUnavailable have them.
func TestOpenAPILoading(t *testing.T) {
	t.Parallel()
	loading := newServer(t, func(s *servertest.Setup) { s.NoModel = true })
	d := loading.document(t)
	for path, methods := range d.paths {
		if path == "/reset_prefix_cache" || path == "/tokenizer_info" || strings.HasPrefix(path, feedbackapi.Prefix) || strings.HasPrefix(path, trajectoryapi.Prefix) {
			continue // switched off, or without a store
		}
		if strings.HasPrefix(path, responsesapi.Path+"/{") || path == liveapi.Path {
			continue // they answer without a model
		}
		for method, op := range methods.(map[string]any) {
			if _, ok := op.(map[string]any)["responses"].(map[string]any)["503"]; !ok {
				continue
			}
			status, answer, _ := loading.Get(strings.ToUpper(method), path, "{}")
			if status != 503 {
				t.Errorf("%s without a model: %d %s", path, status, answer)
				continue
			}
			d.check(t, answer, "application/json", path, method, "responses", "503")
		}
	}
}
