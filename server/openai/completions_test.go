package openai_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"weir/server/servertest"
	"weir/tokenizer"
)

// textAnswer is a non-streaming answer of /v1/completions, or a chunk.
type textAnswer struct {
	ID, Object, Model string
	Created           int64
	Choices           []textChoice
	Usage             *servertest.Usage
}

type textChoice struct {
	Index    int
	Text     string
	Logprobs *struct {
		Offset []int                `json:"text_offset"`
		Token  []*float64           `json:"token_logprobs"`
		Tokens []string             `json:"tokens"`
		Top    []map[string]float64 `json:"top_logprobs"`
	}
	FinishReason   *string                     `json:"finish_reason"`
	StopReason     json.RawMessage             `json:"stop_reason"`
	TokenIDs       []int32                     `json:"token_ids"`
	PromptTokenIDs []int32                     `json:"prompt_token_ids"`
	PromptLogprobs []map[string]map[string]any `json:"prompt_logprobs"`
}

func (h *testServer) texts(t testing.TB, fields map[string]any) *textAnswer {
	t.Helper()
	status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, fields))
	a := new(textAnswer)
	if err := json.Unmarshal([]byte(answer), a); err != nil || status != 200 {
		t.Fatalf("%v: %d %v: %s", fields, status, err, answer)
	}
	return a
}

// streamedTexts returns the chunks, and each as a map.
func (h *testServer) streamedTexts(t testing.TB, fields map[string]any) (chunks []textAnswer, keys []map[string]any) {
	t.Helper()
	all := map[string]any{"stream": true}
	for k, v := range fields {
		all[k] = v
	}
	status, answer, header := h.Get("POST", servertest.TextPath, servertest.TextBody(t, all))
	text, ok := strings.CutSuffix(answer, "data: [DONE]\n\n")
	if status != 200 || !ok || header.Get("Content-Type") != "text/event-stream; charset=utf-8" {
		t.Fatalf("%d %v %s", status, header, answer)
	}
	for ev := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		var c textAnswer
		var k map[string]any
		data := []byte(strings.TrimPrefix(ev, "data: "))
		if err := json.Unmarshal(data, &c); err != nil || json.Unmarshal(data, &k) != nil {
			t.Fatalf("%v in %q", err, ev)
		}
		chunks, keys = append(chunks, c), append(keys, k)
	}
	return chunks, keys
}

// joinTexts puts the chunks of a stream together to the choices of an answer.
func joinTexts(chunks []textAnswer, n int) []textChoice {
	out := make([]textChoice, n)
	for _, c := range chunks {
		for _, p := range c.Choices {
			o := &out[p.Index]
			if o.FinishReason != nil {
				o.Text += "an event after the last"
			}
			o.Index, o.FinishReason, o.StopReason = p.Index, p.FinishReason, p.StopReason
			o.Text += p.Text
			if p.TokenIDs != nil {
				o.TokenIDs = append(o.TokenIDs, p.TokenIDs...)
			}
			if p.PromptTokenIDs != nil {
				o.PromptTokenIDs = append(o.PromptTokenIDs, p.PromptTokenIDs...)
			}
			if l := p.Logprobs; l != nil {
				if o.Logprobs == nil {
					o.Logprobs = l
					continue
				}
				o.Logprobs.Offset = append(o.Logprobs.Offset, l.Offset...)
				o.Logprobs.Token = append(o.Logprobs.Token, l.Token...)
				o.Logprobs.Tokens = append(o.Logprobs.Tokens, l.Tokens...)
				o.Logprobs.Top = append(o.Logprobs.Top, l.Top...)
			}
		}
	}
	return out
}

// docs/interface/chat-completions.md, section 17.3: one to four prompts in every shape are the same
// prompts, and each gets what it gets alone; choice = prompt * n + i.
func TestTextPrompts(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	words := []string{"Once upon a time", "Hi", "The robot said:\n"}
	var ids [][]int32
	var alone []string
	prompts := 0
	for _, w := range words {
		ids = append(ids, servertest.Encode(w, true))
		prompts += len(ids[len(ids)-1])
		a := h.texts(t, map[string]any{"prompt": w, "return_token_ids": true})
		c := a.Choices[0]
		if a.Object != "text_completion" || !strings.HasPrefix(a.ID, "cmpl-") || a.Model != "tiny" || len(a.Choices) != 1 || len(c.TokenIDs) != 5 || *c.FinishReason != "length" || !slices.Equal(c.PromptTokenIDs, ids[len(ids)-1]) {
			t.Errorf("%+v", a)
		}
		alone = append(alone, c.Text)
	}
	for _, p := range []any{words, ids} {
		a := h.texts(t, map[string]any{"prompt": p})
		for i, c := range a.Choices {
			if c.Index != i || c.Text != alone[i] {
				t.Errorf("%v: choice %d is %+v, want %q", p, i, c, alone[i])
			}
		}
		if len(a.Choices) != 3 || a.Usage.Prompt != prompts || a.Usage.Completion != 15 || a.Usage.Total != prompts+15 {
			t.Errorf("%+v", a.Usage)
		}
	}
	if a := h.texts(t, map[string]any{"prompt": ids[1]}); a.Choices[0].Text != alone[1] {
		t.Errorf("%+v", a)
	}
	n := h.texts(t, map[string]any{"prompt": words, "n": 2, "temperature": 1, "seed": 7})
	for i, w := range words {
		two := h.texts(t, map[string]any{"prompt": w, "n": 2, "temperature": 1, "seed": 7})
		for j := range 2 {
			if c := n.Choices[2*i+j]; c.Index != 2*i+j || c.Text != two.Choices[j].Text {
				t.Errorf("prompt %d, choice %d: %q, alone %q", i, j, c.Text, two.Choices[j].Text)
			}
		}
	}
	twins := h.texts(t, map[string]any{"prompt": []string{"Hi", "Hi"}, "temperature": 2, "max_tokens": 30})
	if twins.Choices[0].Text == twins.Choices[1].Text {
		t.Error("without a seed two prompts were drawn alike")
	}
	if a := h.texts(t, map[string]any{"max_tokens": servertest.Remove}); a.Usage.Completion != 16 {
		t.Errorf("%d tokens by default", a.Usage.Completion)
	}
	if a := h.texts(t, map[string]any{"truncate_prompt_tokens": 2, "echo": true, "return_token_ids": true, "max_tokens": 1}); len(a.Choices[0].PromptTokenIDs) != 2 ||
		!strings.HasPrefix(a.Choices[0].Text, servertest.Tokenizer().Decode(a.Choices[0].PromptTokenIDs, tokenizer.DecodeOptions{})) {
		t.Errorf("%+v", a.Choices)
	}
}

// Whatever is asked for, a stream says what the whole answer says.
func TestTextStreamEqualsComplete(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, fields := range []map[string]any{
		{},
		{"prompt": []string{"Once", "Hello there, you", "x"}, "n": 3, "temperature": 1, "seed": 5, "max_tokens": 9},
		{"logprobs": 0}, {"logprobs": 3, "max_tokens": 12}, {"logprobs": 2, "return_tokens_as_token_ids": true},
		{"echo": true}, {"echo": true, "logprobs": 2}, {"echo": true, "logprobs": 0, "prompt": [][]int32{{5, 6, 7}, {9}}, "n": 2, "temperature": 1, "seed": 1},
		{"echo": true, "max_tokens": 0}, {"echo": true, "max_tokens": 0, "logprobs": 1}, {"echo": true, "max_tokens": 0, "prompt": []string{"a b", "c"}},
		{"prompt": "Grüße, 漢字 🙂", "echo": true, "logprobs": 1},
		{"stop": []string{"e", "a"}, "max_tokens": 60}, {"stop_token_ids": []int{300}, "logit_bias": map[string]any{"300": 100}}, {"return_token_ids": true},
	} {
		all := map[string]any{"return_token_ids": true}
		for k, v := range fields {
			all[k] = v
		}
		whole := h.texts(t, all)
		chunks, _ := h.streamedTexts(t, all)
		got := joinTexts(chunks, len(whole.Choices))
		for i := range got {
			whole.Choices[i].PromptLogprobs = nil // a stream has no place for them
			if !reflect.DeepEqual(got[i], whole.Choices[i]) && !(len(got[i].TokenIDs) == 0 && len(whole.Choices[i].TokenIDs) == 0 && got[i].Text == whole.Choices[i].Text) {
				t.Errorf("%v: choice %d\nstreamed %+v\nwhole    %+v", fields, i, got[i], whole.Choices[i])
			}
		}
	}
}

// docs/interface/chat-completions.md, section 17.3: chunks have every key, null where there is nothing to say, and no
// role; usage as asked for.
func TestTextChunks(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	outer := []string{"choices", "created", "id", "model", "object", "usage"}
	inner := []string{"finish_reason", "index", "logprobs", "prompt_token_ids", "stop_reason", "text", "token_ids"}
	sorted := func(m map[string]any) (keys []string) {
		for k := range m {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		return keys
	}
	two := []string{"Once upon", "Hi"}
	first, second := len(servertest.Encode(two[0], true)), len(servertest.Encode(two[1], true))
	for _, c := range []struct {
		options          map[string]any
		last, continuous bool
	}{{nil, false, false}, {map[string]any{}, true, false}, {map[string]any{"include_usage": false, "continuous_usage_stats": true}, false, false}, {map[string]any{"include_usage": true, "continuous_usage_stats": true}, true, true}} {
		fields := map[string]any{"prompt": two}
		if c.options != nil {
			fields["stream_options"] = c.options
		}
		chunks, keys := h.streamedTexts(t, fields)
		if c.last {
			u := chunks[len(chunks)-1]
			if len(u.Choices) != 0 || u.Usage == nil || u.Usage.Prompt != first+second || u.Usage.Completion != 10 || u.Usage.Total != first+second+10 {
				t.Errorf("%v: %+v", c.options, u)
			}
			chunks, keys = chunks[:len(chunks)-1], keys[:len(keys)-1]
		}
		if len(chunks) != 10 {
			t.Errorf("%v: %d chunks", c.options, len(chunks))
		}
		used := [2]int{}
		for i, k := range keys {
			choice := k["choices"].([]any)[0].(map[string]any)
			if got := sorted(k); !slices.Equal(got, outer) {
				t.Errorf("keys %v", got)
			}
			if got := sorted(choice); !slices.Equal(got, inner) {
				t.Errorf("keys of a choice %v", got)
			}
			if choice["logprobs"] != nil || choice["token_ids"] != nil || choice["prompt_token_ids"] != nil || choice["stop_reason"] != nil {
				t.Errorf("%v", choice)
			}
			p := chunks[i].Choices[0].Index
			used[p]++
			if u := chunks[i].Usage; c.continuous != (u != nil) || u != nil && (u.Prompt != []int{first, second}[p] || u.Completion != used[p]) {
				t.Errorf("%v: chunk %d: %+v", c.options, i, u)
			}
			if chunks[i].ID != chunks[0].ID || !strings.HasPrefix(chunks[i].ID, "cmpl-") || chunks[i].Object != "text_completion" {
				t.Errorf("%+v", chunks[i])
			}
			if (choice["finish_reason"] != nil) != (used[p] == 5) {
				t.Errorf("%v", choice)
			}
		}
	}
}

// docs/interface/chat-completions.md, section 17.3: logprobs is a number k; of each token k alternatives and itself.
func TestTextLogprobs(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.MaxLogprobs = -1 })
	const prompt = "Once upon a time, ßé"
	tokens := servertest.Encode(prompt, true)
	for _, k := range []int{0, 1, 4, -1} {
		a := h.texts(t, map[string]any{"prompt": prompt, "logprobs": k, "echo": true, "temperature": 1, "seed": 3})
		l := a.Choices[0].Logprobs
		if n := len(tokens) + 5; len(l.Offset) != n || len(l.Token) != n || len(l.Tokens) != n || len(l.Top) != n {
			t.Fatalf("k %d: %d %d %d %d entries", k, len(l.Offset), len(l.Token), len(l.Tokens), len(l.Top))
		}
		if l.Token[0] != nil || l.Top[0] != nil {
			t.Errorf("something predicts the first token: %v %v", *l.Token[0], l.Top[0])
		}
		at := 0
		for i, tok := range l.Tokens {
			if l.Offset[i] != at {
				t.Errorf("k %d: token %d begins at %d, want %d", k, i, l.Offset[i], at)
			}
			at += utf8.RuneCountInString(tok)
			if i == 0 {
				continue
			}
			if v, ok := l.Top[i][tok]; !ok || v != *l.Token[i] {
				t.Errorf("k %d: token %d is not among its alternatives", k, i)
			}
			if n := len(l.Top[i]); k >= 0 && (n < max(1, k-1) || n > k+1) || k < 0 && n < 1000 { // pieces of characters share a name
				t.Errorf("k %d: token %d has %d alternatives", k, i, n)
			}
		}
		if !strings.HasPrefix(a.Choices[0].Text, prompt) {
			t.Errorf("%q", a.Choices[0].Text)
		}
	}
	// prompt_logprobs of a request's own stand in the choice.
	a := h.texts(t, map[string]any{"prompt": []string{prompt, "x"}, "prompt_logprobs": 1})
	if p := a.Choices[0].PromptLogprobs; len(p) != len(tokens) || p[0] != nil || len(p[1]) < 1 || a.Choices[0].Logprobs != nil {
		t.Errorf("%v", p)
	}
	if p := a.Choices[1].PromptLogprobs; len(p) != len(servertest.Encode("x", true)) {
		t.Errorf("%v", p)
	}
}

// docs/interface/chat-completions.md, section 17.3: with echo and max_tokens 0 the answer is the prompt.
func TestTextPromptOnly(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, stream := range []bool{false, true} {
		fields := map[string]any{"prompt": []string{"Once upon", "Hi"}, "echo": true, "max_tokens": 0, "logprobs": 1, "return_token_ids": true}
		var choices []textChoice
		if stream {
			fields["stream_options"] = map[string]any{"include_usage": true}
			chunks, _ := h.streamedTexts(t, fields)
			if u := chunks[len(chunks)-1].Usage; u == nil || u.Completion != 0 || len(chunks) != 3 {
				t.Errorf("%d chunks, %+v", len(chunks), u)
			}
			choices = joinTexts(chunks, 2)
		} else {
			a := h.texts(t, fields)
			choices = a.Choices
			if a.Usage.Completion != 0 || a.Usage.Prompt != a.Usage.Total {
				t.Errorf("%+v", a.Usage)
			}
		}
		for i, want := range []string{"Once upon", "Hi"} {
			c := choices[i]
			if n := len(servertest.Encode(want, true)); c.Text != want || *c.FinishReason != "length" || len(c.TokenIDs) != 0 || len(c.Logprobs.Tokens) != n || len(c.PromptTokenIDs) != n {
				t.Errorf("stream %v: %+v", stream, c)
			}
		}
	}
}

func TestTextErrors(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.EngineConfig.MaxLive = 8; s.Config.Limits.Prompts = 20 })
	many := make([]string, 21)
	for name, c := range map[string]struct {
		fields map[string]any
		status int
		param  string
	}{
		"no prompt":          {map[string]any{"prompt": servertest.Remove}, 400, "prompt"},
		"empty":              {map[string]any{"prompt": ""}, 400, "prompt"},
		"empty list":         {map[string]any{"prompt": []string{}}, 400, "prompt"},
		"mixed":              {map[string]any{"prompt": []any{"a", 1}}, 400, ""},
		"negative id":        {map[string]any{"prompt": []int{-1}}, 400, ""},
		"id beyond":          {map[string]any{"prompt": []int{5, servertest.Vocabulary}}, 400, ""},
		"id far beyond":      {map[string]any{"prompt": [][]int{{5}, {1 << 40}}}, 400, ""},
		"too many prompts":   {map[string]any{"prompt": many}, 400, ""},
		"too many choices":   {map[string]any{"prompt": []string{"a", "b"}, "n": 11, "temperature": 1}, 400, "prompt"},
		"model":              {map[string]any{"model": "nobody"}, 404, "model"},
		"suffix":             {map[string]any{"suffix": "x"}, 400, "suffix"},
		"no output":          {map[string]any{"max_tokens": 0}, 400, "max_tokens"},
		"too long":           {map[string]any{"max_tokens": 1021}, 400, "input_tokens"},
		"far too long":       {map[string]any{"prompt": []string{"a", strings.Repeat("word ", 20000)}}, 400, "input_text"},
		"over the context":   {map[string]any{"max_tokens": 1025}, 400, "max_tokens"},
		"ids too long":       {map[string]any{"prompt": make([]int, 1020)}, 400, "input_tokens"},
		"logprobs":           {map[string]any{"logprobs": 21}, 400, "logprobs"},
		"echoed logprobs":    {map[string]any{"logprobs": 21, "echo": true}, 400, "-"},
		"prompt logprobs":    {map[string]any{"prompt_logprobs": 21}, 400, "prompt_logprobs"},
		"greedy n":           {map[string]any{"n": 2}, 400, ""},
		"priority":           {map[string]any{"priority": 1}, 400, "priority"},
		"structured outputs": {map[string]any{"structured_outputs": map[string]any{"regex": "("}}, 400, ""},
		"xargs":              {map[string]any{"vllm_xargs": map[string]any{"a": []int{1}}}, 400, ""},
	} {
		for _, stream := range []bool{false, true} {
			if stream && name == "prompt logprobs" {
				continue
			}
			c.fields["stream"] = stream
			status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, c.fields))
			if f := servertest.Refused(t, status, answer, c.status, c.param); f.Message == "" {
				t.Errorf("%s: %s", name, answer)
			}
		}
	}
	// The engine has eight places: nine choices are not admitted in part.
	status, answer, header := h.Get("POST", servertest.TextPath, servertest.TextBody(t, map[string]any{"prompt": []string{"a", "b", "c"}, "n": 3, "temperature": 1}))
	if status != 503 || header.Get("Retry-After") == "" {
		t.Errorf("%d %s", status, answer)
	}
	if a := h.texts(t, map[string]any{"prompt": []string{"a", "b", "c", "d"}, "n": 2, "temperature": 1}); len(a.Choices) != 8 {
		t.Errorf("%d choices", len(a.Choices))
	}
	h.Idle() // the snapshot follows the answer
	if st := h.Engine.Stats(); st.Finished[1]+st.Finished[2]+st.Finished[3]+st.Finished[4] != 8 {
		t.Errorf("a servertest.Refused batch left something behind: %+v", st)
	}
}

// The scores of the prompt are repeated in every choice: together they are bounded.
func TestTextAnswerIsBounded(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.MaxLogprobs = -1; s.Config.MaxBody = 4000 })
	long := strings.Repeat("word ", 300)
	for _, fields := range []map[string]any{
		{"prompt": long, "echo": true, "n": 20, "temperature": 1},
		{"prompt": []string{long, long, long}[:2], "echo": true, "n": 2, "temperature": 1, "prompt_logprobs": -1},
		{"prompt": long, "prompt_logprobs": -1, "n": 8, "temperature": 1},
		{"prompt": long, "echo": true, "logprobs": -1, "n": 8, "temperature": 1, "stream": true},
	} {
		status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, fields))
		servertest.Refused(t, status, answer, 400, "")
	}
}

// What ends one choice of a batch with an error ends the whole batch.
func TestTextFailsAsAWhole(t *testing.T) {
	t.Parallel()
	for _, stream := range []bool{false, true} {
		h := newServer(t, nil)
		fields := map[string]any{"prompt": []string{"a", "b"}, "allowed_token_ids": []int{servertest.EndOfTurn}, "min_tokens": 3, "stream": stream}
		status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, fields))
		if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "leave no token") {
			t.Error(answer)
		}
		h.Idle()
	}
}

// Load testers and SDKs: what vllm bench serve and lm-eval send.
func TestTextClients(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, body := range []string{
		`{"model":"tiny","prompt":"Hi","repetition_penalty":1.0,"max_tokens":3,"logprobs":null,"stream":true,"stream_options":{"include_usage":true}}`,
		`{"model":"tiny","prompt":[[1,5,6],[1,7]],"max_tokens":1,"logprobs":1,"echo":true,"temperature":0,"seed":1234}`,
		`{"model":"tiny","prompt":[1,5,6],"max_tokens":3,"ignore_eos":true,"min_tokens":3,"best_of":1,"use_beam_search":false,"stop":null,"skip_special_tokens":false}`,
	} {
		if status, answer, _ := h.Get("POST", servertest.TextPath, body); status != 200 {
			t.Errorf("%s: %d %s", body, status, answer)
		}
	}
	if status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, map[string]any{"request_id": "mine"})); status != 200 || !strings.Contains(answer, `"id":"cmpl-mine"`) {
		t.Error(answer)
	}
	if status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, nil), "X-Request-Id: yours"); status != 200 || !strings.Contains(answer, `"id":"cmpl-yours"`) {
		t.Error(answer)
	}
	if a := fmt.Sprint(h.texts(t, map[string]any{"cache_salt": "s"}).Usage.Completion); a != "5" {
		t.Error(a)
	}
}
