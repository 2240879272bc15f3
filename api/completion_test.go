package api

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"weir/internal/jsontext"
)

// checkText runs all stages of this package over a body of /v1/completions.
func checkText(body []byte) (*CompletionRequest, *Error) {
	r, err := DecodeCompletion(body, DefaultLimits())
	if err == nil {
		err = r.CheckPrompt()
	}
	if err == nil {
		err = r.CheckSampling()
	}
	return r, err
}

func text17(t *testing.T, body string) *CompletionRequest {
	t.Helper()
	r, err := checkText([]byte(body))
	if err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	return r
}

// The four shapes of a prompt (docs/interface/chat-completions.md, section 17.3).
func TestPrompts(t *testing.T) {
	for sent, want := range map[string][]TextPrompt{
		`"a"`:                {{Text: "a"}},
		`["a"]`:              {{Text: "a"}},
		`["a","","\u00e9"]`:  {{Text: "a"}, {}, {Text: "é"}}, // whether "" has a token is the tokenizer's affair
		`[1]`:                {{IDs: []int{1}}},
		`[ 1 , 2.0 , 3e0 ]`:  {{IDs: []int{1, 2, 3}}},
		`[[1]]`:              {{IDs: []int{1}}},
		`[[1,2],[3],[4, 5]]`: {{IDs: []int{1, 2}}, {IDs: []int{3}}, {IDs: []int{4, 5}}},
	} {
		if got := text17(t, `{"prompt":`+sent+`}`).Prompts; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", sent, got)
		}
	}
	for _, bad := range []string{`1`, `true`, `{}`, `["a",1]`, `[1,"a"]`, `["a",["b"]]`, `[[1],"a"]`, `[[1],2]`, `[1,[2]]`, `[[1,"2"]]`, `[["a"]]`, `[true]`, `[[true]]`, `[null]`, `[{}]`, `[-1]`, `[[1,-1]]`, `[1.5]`, `[1e30]`, `[[]]`, `[[1],[]]`, `[[[1]]]`} {
		if _, err := checkText([]byte(`{"prompt":` + bad + `}`)); err == nil || err.Status != 400 || err.Type != TypeBadBody || !strings.HasPrefix(err.Message, "prompt") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	for _, empty := range []string{`{}`, `{"prompt":null}`, `{"prompt":""}`, `{"prompt":[]}`} {
		if _, err := checkText([]byte(empty)); err == nil || err.Type != TypeBadBody || err.Param == nil || *err.Param != "prompt" {
			t.Errorf("%s: %v", empty, err)
		}
	}
}

// Prompts of megabytes are not copied: a copy of so much memory holds up everybody else.
func TestPromptsShareTheBody(t *testing.T) {
	shared := func(name string, body []byte, text string) {
		t.Helper()
		at := uintptr(unsafe.Pointer(unsafe.StringData(text)))
		first := uintptr(unsafe.Pointer(unsafe.SliceData(body)))
		if len(text) == 0 || at < first || at >= first+uintptr(len(body)) {
			t.Errorf("%s: %q was copied", name, text)
		}
	}
	for _, prompt := range []string{`"some text"`, `["some text"]`} {
		body := []byte(`{"prompt":` + prompt + `}`)
		r, err := DecodeCompletion(body, DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		shared(prompt, body, r.Prompts[0].Text)
	}
	body := []byte(`{"prompt":"some text"}`)
	r, err := DecodeTokenize(body, DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	shared("tokenize", body, *r.Prompt)
}

// What differs from chat (docs/interface/chat-completions.md, section 17.3).
func TestCompletionFields(t *testing.T) {
	r := text17(t, `{"prompt":"x"}`)
	if *r.MaxTokens != 16 || !r.AddSpecialTokens || r.Logprobs || r.PromptOnly || r.N != 1 || r.Model != "" || !r.SkipSpecialTokens {
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","max_tokens":null,"logprobs":null,"suffix":null,"echo":null,"best_of":7,"use_beam_search":false,"messages":5,"max_completion_tokens":"x"}`); *r.MaxTokens != 16 || r.BadWords != nil || r.MaxCompletionTokens != nil {
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","logprobs":0}`); !r.Logprobs || r.TopLogprobs != 0 || r.PromptLogprobs != nil {
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","logprobs":3,"echo":true}`); *r.PromptLogprobs != 3 {
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","logprobs":3,"echo":true,"stream":true}`); *r.PromptLogprobs != 3 { // only a field of the client's own is refused in streams
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","logprobs":3,"echo":true,"prompt_logprobs":1}`); *r.PromptLogprobs != 1 {
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","echo":true}`); r.PromptLogprobs != nil || r.PromptOnly {
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","echo":true,"max_tokens":0}`); !r.PromptOnly || *r.MaxTokens != 1 {
		t.Errorf("%+v", r)
	}
	if r := text17(t, `{"prompt":"x","vllm_xargs":{"a":1},"engine_xargs":{"b":"2","c":true}}`); string(r.EngineXArgs) != `{"b":"2","c":true}` {
		t.Errorf("%s", r.EngineXArgs)
	}
	for bad, mention := range map[string]string{
		`"max_tokens":0`: "max_tokens must be at least 1", `"max_tokens":-1`: "max_tokens", `"max_tokens":"5"`: "max_tokens",
		`"echo":true,"max_tokens":0,"min_tokens":2`: "min_tokens",
		`"logprobs":-2`: "logprobs", `"logprobs":"1"`: "logprobs", `"logprobs":1.5`: "logprobs",
		`"suffix":"x"`: "suffix is not currently supported", `"suffix":""`: "suffix is not currently supported", `"suffix":5`: "suffix",
		`"add_special_tokens":null`: "add_special_tokens", `"echo":"maybe"`: "echo",
		`"vllm_xargs":{"a":[1]}`: "vllm_xargs.a", `"engine_xargs":{"a":["x"]}`: "engine_xargs.a", `"vllm_xargs":{"a":null}`: "vllm_xargs.a",
		`"n":0`: "n must be", `"n":2049`: "prompt", `"temperature":3`: "temperature", `"stop":[""]`: "stop", `"cache_salt":""`: "cache_salt",
		`"prompt_logprobs":1,"stream":true`: "prompt_logprobs", `"stream_options":{"include_usage":true}`: "Stream options",
		`"structured_outputs":{}`: "structured_outputs",
	} {
		if _, err := checkText([]byte(`{"prompt":"x",` + bad + `}`)); err == nil || err.Status != 400 || !strings.Contains(err.Message, mention) {
			t.Errorf("%s: %v, want %q", bad, err, mention)
		}
	}
}

// TestSharedFieldsAreShared: every option of chat's table means the same here;
// nothing else of chat's is a field.
func TestSharedFieldsAreShared(t *testing.T) {
	var chat, own []string
	for _, f := range completionFields {
		own = append(own, f.name)
	}
	for _, m := range matrix {
		if !slices.Contains(own, m.name) {
			chat = append(chat, m.name)
			continue
		}
		if m.name == "logprobs" || strings.HasSuffix(m.name, "xargs") || m.name == "echo" || m.name == "add_special_tokens" {
			continue // TestCompletionFields
		}
		r, err := checkText([]byte(`{"prompt":"x","` + m.name + `":` + m.good + `}`))
		c := acceptBody(t, minimal+`,"`+m.name+`":`+m.good+`}`)
		if err != nil {
			t.Errorf("%s: %v", m.name, err)
			continue
		}
		r.AddSpecialTokens = false
		if c.MaxTokens == nil {
			r.MaxTokens = nil
		}
		if !reflect.DeepEqual(r.Options, c.Options) {
			t.Errorf("%s: %+v, in chat %+v", m.name, r.Options, c.Options)
		}
		if _, err := checkText([]byte(`{"prompt":"x","` + m.name + `":` + m.wrong + `}`)); err == nil {
			t.Errorf("%s: %s is accepted", m.name, m.wrong)
		}
	}
	want := []string{"messages", "top_logprobs", "max_completion_tokens", "tools", "tool_choice", "parallel_tool_calls", "reasoning_effort", "include_reasoning", "return_prompt_text",
		"add_generation_prompt", "continue_final_message", "documents", "chat_template", "chat_template_kwargs", "mm_processor_kwargs"}
	for _, name := range want {
		if !slices.Contains(chat, name) {
			t.Errorf("%s is a field of /v1/completions", name)
		}
	}
}

// Every key, in its order, byte for byte (docs/interface/chat-completions.md, section 17.3).
func TestTextShapes(t *testing.T) {
	meta := Meta{ID: CompletionID("r"), Created: 5, Model: "m"}
	scores := &TextLogprobs{Unscored: true, Offset: TextOffset{characters: 2}, Entries: []Logprob{
		{TokenLogprob: TokenLogprob{ID: 1, Text: "é"}},
		{TokenLogprob{7, -0.5, "ab\xff"}, []TokenLogprob{{7, -0.5, "ab\xff"}, {8, -1, "\xfe"}, {9, -2, "\xfd"}, {10, -3, "x"}}},
		{TokenLogprob: TokenLogprob{ID: 2, Logprob: -20000, Text: ""}},
	}}
	full := TextChoice{Index: 1, Text: "a\xff", Logprobs: scores, FinishReason: "stop", StopReason: StoppedBy(3), TokenIDs: []int32{7}, PromptTokenIDs: []int32{1, 2},
		HasPromptLogprobs: true, PromptLogprobs: []PromptLogprob{{}, {TokenLogprob: TokenLogprob{ID: 4, Logprob: -1, Text: "q"}, Rank: 2}}}
	logprobs := `{"text_offset":[2,3,6],"token_logprobs":[null,-0.5,-9999.0],"tokens":["é","ab�",""],"top_logprobs":[null,{"ab�":-0.5,"�":-1.0,"x":-3.0},{}]}`
	r := &TextResponse{Choices: []TextChoice{{Text: "t", FinishReason: "length"}, full}, Usage: Usage{Prompt: 3, Completion: 2}}
	got := string(AppendTextResponse(nil, meta, Form{TokenIDs: true}, r))
	want := `{"id":"cmpl-r","object":"text_completion","created":5,"model":"m","choices":[` +
		`{"index":0,"text":"t","logprobs":null,"finish_reason":"length","stop_reason":null,"token_ids":[],"prompt_logprobs":null,"prompt_token_ids":[]},` +
		`{"index":1,"text":"a�","logprobs":` + logprobs + `,"finish_reason":"stop","stop_reason":3,"token_ids":[7],"prompt_logprobs":[null,{"4":{"logprob":-1.0,"rank":2,"decoded_token":"q"}}],"prompt_token_ids":[1,2]}` +
		`],"service_tier":null,"system_fingerprint":null,"usage":{"prompt_tokens":3,"total_tokens":5,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":0},"completion_tokens_details":null},"kv_transfer_params":null}`
	if strings.Replace(got, `,"prompt_tokens_details":{"cached_tokens":0}`, "", 1) != strings.Replace(want, `,"prompt_tokens_details":{"cached_tokens":0}`, "", 1) || !json.Valid([]byte(got)) {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	s := NewTextStream(meta, Form{TokenIDs: true})
	head := `data: {"id":"cmpl-r","object":"text_completion","created":5,"model":"m","choices":[`
	for _, c := range []struct{ got, want string }{
		{string(s.AppendChunk(nil, &TextChoice{Text: "t"}, Usage{1, 1, 0, 0})), head + `{"index":0,"text":"t","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":[]}],"usage":null}`},
		{string(s.AppendChunk(nil, &full, Usage{})), head + `{"index":1,"text":"a�","logprobs":` + logprobs + `,"finish_reason":"stop","stop_reason":3,"prompt_token_ids":[1,2],"token_ids":[7]}],"usage":null}`},
		{string(NewTextStream(meta, Form{ContinuousUsage: true}).AppendChunk(nil, &TextChoice{TokenIDs: []int32{1}}, Usage{2, 1, 0, 0})),
			head + `{"index":0,"text":"","logprobs":null,"finish_reason":null,"stop_reason":null,"prompt_token_ids":null,"token_ids":null}],"usage":{"prompt_tokens":2,"total_tokens":3,"completion_tokens":1}}`},
	} {
		if c.got != c.want+"\n\n" {
			t.Errorf("got  %s\nwant %s", c.got, c.want)
		}
	}
	ids := string(AppendTextResponse(nil, meta, Form{TokensAsIDs: true}, &TextResponse{Choices: []TextChoice{full}}))
	if !strings.Contains(ids, `"tokens":["token_id:1","token_id:7","token_id:2"]`) || !strings.Contains(ids, `{"token_id:7":-0.5,"token_id:8":-1.0,"token_id:9":-2.0,"token_id:10":-3.0}`) {
		t.Error(ids)
	}
	if at := scores.End(); at.characters != 6 || at.n != 0 {
		t.Errorf("%+v", at)
	}
}

// Characters of which tokens have only a part count with the token that completes them; what
// no token can complete counts as AppendString shows it.
func TestK16TextOffsets(t *testing.T) {
	const face = "\U0001F600"
	for _, c := range []struct {
		tokens []string
		want   string
	}{
		{[]string{"hé", "llo", face[:2], face[2:], "x"}, `[0,2,5,5,6]`},
		{[]string{face[:1], face[1:2], face[2:3], face[3:], "é", "x"}, `[0,0,0,0,1,2]`},
		{[]string{"a" + face[:3], face[3:] + "b" + "é"[:1], "é"[1:] + "c", ""}, `[0,1,3,5]`},
		{[]string{face[:2], "abc", "d"}, `[0,0,5]`},                           // two bytes that are no character
		{[]string{face[:2], face[:3], face[3:], "d"}, `[0,0,2,3]`},            // again, and then one
		{[]string{"\xff\xff", "a", "\xe2", "\xff", "", "z"}, `[0,2,3,3,5,5]`}, // bytes that begin nothing
		{[]string{"\ufffd", "a"}, `[0,1]`},
	} {
		whole := &TextLogprobs{}
		for _, s := range c.tokens {
			whole.Entries = append(whole.Entries, Logprob{TokenLogprob: TokenLogprob{Text: s}})
		}
		form := Form{}
		offsets := func(l *TextLogprobs) string {
			text, _, _ := strings.Cut(strings.TrimPrefix(string(form.appendTextLogprobs(nil, l)), `{"text_offset":`), `,"token_logprobs"`)
			return text
		}
		if got := offsets(whole); got != c.want {
			t.Errorf("%q: %s, want %s", c.tokens, got, c.want)
		}
		// In a stream each token comes alone.
		var at TextOffset
		var parts []string
		for _, e := range whole.Entries {
			l := &TextLogprobs{Entries: []Logprob{e}, Offset: at}
			parts = append(parts, strings.Trim(offsets(l), "[]"))
			at = l.End()
		}
		if got := "[" + strings.Join(parts, ",") + "]"; got != c.want {
			t.Errorf("%q, streamed: %s, want %s", c.tokens, got, c.want)
		}
	}
}

// TestAlternativesTwin: however many there are, the first of each name.
func TestAlternativesTwin(t *testing.T) {
	for _, n := range []int{0, 1, 2, 63, 64, 65, 300} {
		var top []TokenLogprob
		var want []string
		seen := map[string]bool{}
		for i := range n {
			text := string(rune('a'+i%40)) + "\xff\xfe\xf0\x9f\uFFFD"[:i%8]
			top = append(top, TokenLogprob{ID: int32(i), Logprob: -float32(i), Text: text})
			if name := string(AppendString(nil, text)); !seen[name] {
				seen[name] = true
				want = append(want, name+":"+string(AppendLogprob(nil, -float32(i))))
			}
		}
		if got := string((&Form{}).appendAlternatives(nil, top)); got != "{"+strings.Join(want, ",")+"}" {
			t.Errorf("%d: %s\nwant %s", n, got, want)
		}
	}
}

// /tokenize and /detokenize (docs/interface/chat-completions.md, section 17.2).
func TestTokenizeForms(t *testing.T) {
	decode := func(body string) (*TokenizeRequest, *Error) {
		r, err := DecodeTokenize([]byte(body), DefaultLimits())
		if err == nil && r.Prompt == nil {
			err = r.CheckPrompt()
		}
		return r, err
	}
	r, err := decode(`{"prompt":""}`)
	if err != nil || *r.Prompt != "" || !r.AddSpecialTokens || r.TokenStrs {
		t.Errorf("%+v %v", r, err)
	}
	if r, err = decode(`{"model":"m","prompt":"x","add_special_tokens":false,"return_token_strs":true,"temperature":"hot"}`); err != nil || r.AddSpecialTokens || !r.TokenStrs || r.Model != "m" {
		t.Errorf("%+v %v", r, err)
	}
	if r, err = decode(`{"messages":[{"role":"user","content":"x"}],"return_token_strs":null}`); err != nil || r.Prompt != nil || r.AddSpecialTokens || !r.AddGenerationPrompt || len(r.Messages) != 1 {
		t.Errorf("%+v %v", r, err)
	}
	if r, err = decode(`{"messages":[{"role":"user","content":"x"}],"continue_final_message":true,"add_special_tokens":true,"tools":[{"function":{"name":"f"}}],"chat_template_kwargs":{"a":1},"chat_template":"x"}`); err != nil ||
		r.AddGenerationPrompt || !r.AddSpecialTokens || r.Tools == nil || !r.HasTemplate() {
		t.Errorf("%+v %v", r, err)
	}
	for bad, mention := range map[string]string{
		`{}`: "prompt: field required", `{"prompt":null}`: "prompt: must not be null", `{"prompt":["x"]}`: "prompt", `{"messages":null}`: "messages: must not be null",
		`{"messages":[]}`: "messages", `{"messages":"x"}`: "messages", `{"prompt":"x","messages":[{"role":"user","content":"x"}]}`: "either prompt or messages",
		`{"messages":[{"role":"user","content":"x"}],"continue_final_message":true,"add_generation_prompt":true}`: "Cannot set both",
		`{"prompt":"x","add_special_tokens":null}`:                                                                "add_special_tokens", `[]`: "object", `{`: "JSON decode error",
	} {
		if _, err := decode(bad); err == nil || err.Status != 400 || !strings.Contains(err.Message, mention) {
			t.Errorf("%s: %v, want %q", bad, err, mention)
		}
	}
	if got := string(AppendTokenized(nil, &Tokenized{Tokens: []int32{3, 4}, MaxModelLen: 9})); got != `{"count":2,"max_model_len":9,"tokens":[3,4],"token_strs":null}` {
		t.Error(got)
	}
	if got := string(AppendTokenized(nil, &Tokenized{Tokens: []int32{3, 4}, MaxModelLen: 9, Strs: func(id int32) string { return `"`[:id-3] + "Ġ" }})); got != `{"count":2,"max_model_len":9,"tokens":[3,4],"token_strs":["Ġ","\"Ġ"]}` {
		t.Error(got)
	}
	d, err := DecodeDetokenize([]byte(`{"model":"m","tokens":[1,2.0,0]}`), DefaultLimits())
	if err != nil || !slices.Equal(d.Tokens, []int{1, 2, 0}) || d.Model != "m" {
		t.Errorf("%+v %v", d, err)
	}
	for _, bad := range []string{`{}`, `{"tokens":null}`, `{"tokens":5}`, `{"tokens":[-1]}`, `{"tokens":["1"]}`, `{"tokens":[true]}`, `{"tokens":[1.5]}`, `{"tokens":[99999999999999999999]}`, `{"tokens":[1],"model":5}`, `[1]`} {
		if _, err := DecodeDetokenize([]byte(bad), DefaultLimits()); err == nil || err.Status != 400 {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// FuzzDecodeCompletion: whatever the bytes, an error of the table or a request
// that keeps what its fields promise. So do the decoders of /tokenize and /detokenize.
func FuzzDecodeCompletion(f *testing.F) {
	for _, s := range valueSeeds {
		f.Add([]byte(s))
		f.Add([]byte(`{"prompt":` + s + `,"tokens":` + s + `}`))
	}
	for _, s := range []string{
		`{"prompt":"x","logprobs":5,"echo":true,"max_tokens":0,"n":3}`, `{"prompt":["a","b"],"n":1000}`, `{"prompt":[1,2,3],"suffix":null}`, `{"prompt":[[1],[2,3]]}`,
		`{"prompt":"x","return_token_strs":true}`, minimal + `,"return_token_strs":1}`, `{"tokens":[1,2,3]}`, `{"prompt":[[],"a",-1e400,"\ud800"]}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		sound := func(err *Error) {
			if err.Status != 400 && err.Status != 501 || err.Code != err.Status || err.Message == "" || len(err.Message) > 2000 || jsontext.Scan(err.AppendJSON(nil), 2) != nil {
				t.Fatalf("%q: %+v", body, err)
			}
		}
		lim := DefaultLimits()
		if r, err := checkText(body); err != nil {
			sound(err)
		} else if len(r.Prompts) < 1 || r.N < 1 || len(r.Prompts)*r.N > lim.Prompts || *r.MaxTokens < 1 || r.BadWords != nil || r.PromptOnly && !r.Echo {
			t.Fatalf("%q: %+v", body, r)
		}
		if r, err := DecodeTokenize(body, lim); err != nil {
			sound(err)
		} else if r.Prompt != nil && r.Messages != nil || r.AddGenerationPrompt && r.ContinueFinalMessage {
			t.Fatalf("%q: %+v", body, r)
		}
		if r, err := DecodeDetokenize(body, lim); err != nil {
			sound(err)
		} else if slices.ContainsFunc(r.Tokens, func(id int) bool { return id < 0 }) {
			t.Fatalf("%q: %+v", body, r)
		}
	})
}

// TestDecodingStops: a long list of token ids is not read to its end when nobody waits for
// it any more.
func TestDecodingStops(t *testing.T) {
	done := make(chan struct{})
	lim := DefaultLimits()
	lim.Done = done
	body := func(n int) []byte { return []byte(`{"prompt":[` + strings.Repeat("1,", n) + `1]}`) }
	if _, err := DecodeCompletion(body(10_000), lim); err != nil {
		t.Errorf("before Done is closed: %v", err)
	}
	close(done)
	if _, err := DecodeCompletion(body(10_000), lim); err == nil {
		t.Error("a list was read to its end after Done was closed")
	}
}
