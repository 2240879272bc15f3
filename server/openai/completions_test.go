package openai_test

import (
	"encoding/json"
	"fmt"
	"maps"
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
	Index          int
	Text           string
	Logprobs       *textLogprobs
	FinishReason   *string                     `json:"finish_reason"`
	StopReason     json.RawMessage             `json:"stop_reason"`
	TokenIDs       []int32                     `json:"token_ids"`
	PromptTokenIDs []int32                     `json:"prompt_token_ids"`
	PromptLogprobs []map[string]map[string]any `json:"prompt_logprobs"`
}

// textLogprobs has one entry in each list for each token.
type textLogprobs struct {
	Offset []int                `json:"text_offset"`
	Token  []*float64           `json:"token_logprobs"`
	Tokens []string             `json:"tokens"`
	Top    []map[string]float64 `json:"top_logprobs"`
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

// joinTexts puts the chunks of a stream together to n choices.
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

// docs/interface/chat-completions.md, section 17.3: prompts in every shape are the same
// prompts, and each gets what it gets alone.
func TestTextPrompts(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	words := []string{"Once upon a time", "Hi", "The robot said:\n"}
	var ids [][]int32
	var alone []string
	for _, w := range words {
		ids = append(ids, servertest.Encode(w, true))
		alone = append(alone, h.aloneText(t, w, ids[len(ids)-1]))
	}
	for _, p := range []any{words, ids} {
		h.checkTexts(t, p, len(slices.Concat(ids...)), alone)
	}
	t.Run("ids of one", func(t *testing.T) {
		if a := h.texts(t, map[string]any{"prompt": ids[1]}); a.Choices[0].Text != alone[1] {
			t.Errorf("%+v", a)
		}
	})
	t.Run("the same prompt without a seed", func(t *testing.T) {
		same := h.texts(t, map[string]any{"prompt": []string{"Hi", "Hi"}, "temperature": 2, "max_tokens": 30})
		if same.Choices[0].Text == same.Choices[1].Text {
			t.Error("both choices were drawn alike")
		}
	})
	t.Run("without max_tokens", func(t *testing.T) {
		if a := h.texts(t, map[string]any{"max_tokens": servertest.Remove}); a.Usage.Completion != 16 {
			t.Errorf("%d tokens by default", a.Usage.Completion)
		}
	})
	t.Run("truncated", func(t *testing.T) {
		fields := map[string]any{"truncate_prompt_tokens": 2, "echo": true, "return_token_ids": true, "max_tokens": 1}
		ids := h.texts(t, fields).Choices[0].PromptTokenIDs
		delete(fields, "return_token_ids") // with it there is no echo in the text
		c := h.texts(t, fields).Choices[0]
		if len(ids) != 2 || !strings.HasPrefix(c.Text, servertest.Tokenizer().Decode(ids, tokenizer.DecodeOptions{})) {
			t.Errorf("%+v", c)
		}
	})
}

// checkTexts asks for all prompts at once, which have this many tokens together, and
// checks that the texts are those of the prompts alone.
func (h *testServer) checkTexts(t *testing.T, all any, tokens int, alone []string) {
	t.Helper()
	a := h.texts(t, map[string]any{"prompt": all})
	for i, c := range a.Choices {
		if c.Index != i || c.Text != alone[i] {
			t.Errorf("%v: choice %d is %+v, want %q", all, i, c, alone[i])
		}
	}
	if len(a.Choices) != 3 || a.Usage.Prompt != tokens || a.Usage.Completion != 15 || a.Usage.Total != tokens+15 {
		t.Errorf("%+v", a.Usage)
	}
}

// The index of a choice is prompt * n + i, and each is what it is without the other
// prompts.
func TestTextPromptsWithChoices(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	words := []string{"Once upon a time", "Hi", "The robot said:\n"}
	n := h.texts(t, map[string]any{"prompt": words, "n": 2, "temperature": 1, "seed": 7})
	for i, w := range words {
		two := h.texts(t, map[string]any{"prompt": w, "n": 2, "temperature": 1, "seed": 7})
		for j := range 2 {
			if c := n.Choices[2*i+j]; c.Index != 2*i+j || c.Text != two.Choices[j].Text {
				t.Errorf("prompt %d, choice %d: %q, alone %q", i, j, c.Text, two.Choices[j].Text)
			}
		}
	}
}

// aloneText returns the text of the answer to a single prompt, whose token ids are ids.
func (h *testServer) aloneText(t *testing.T, prompt string, ids []int32) string {
	t.Helper()
	a := h.texts(t, map[string]any{"prompt": prompt, "return_token_ids": true})
	c := a.Choices[0]
	if a.Object != "text_completion" || !strings.HasPrefix(a.ID, "cmpl-") || a.Model != "tiny" || len(a.Choices) != 1 || len(c.TokenIDs) != 5 || *c.FinishReason != "length" || !slices.Equal(c.PromptTokenIDs, ids) {
		t.Errorf("%+v", a)
	}
	return c.Text
}

// The chunks of a stream, put together, are the complete answer, whatever is asked for.
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
			whole.Choices[i].PromptLogprobs = nil // a stream has no field for them
			if !reflect.DeepEqual(got[i], whole.Choices[i]) && !(len(got[i].TokenIDs) == 0 && len(whole.Choices[i].TokenIDs) == 0 && got[i].Text == whole.Choices[i].Text) {
				t.Errorf("%v: choice %d\nstreamed %+v\nwhole    %+v", fields, i, got[i], whole.Choices[i])
			}
		}
	}
}

// docs/interface/chat-completions.md, section 17.3: chunks have every key, with null where
// there is nothing to say, and no role. They have the usage that was asked for.
func TestTextChunks(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for name, c := range map[string]struct {
		options          map[string]any
		last, continuous bool
	}{
		"no options":          {nil, false, false},
		"default options":     {map[string]any{}, false, false},
		"usage at the end":    {map[string]any{"include_usage": true}, true, false},
		"no usage":            {map[string]any{"include_usage": false, "continuous_usage_stats": true}, false, false},
		"usage in each chunk": {map[string]any{"include_usage": true, "continuous_usage_stats": true}, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			fields := map[string]any{"prompt": twoTexts}
			if c.options != nil {
				fields["stream_options"] = c.options
			}
			chunks, keys := h.streamedTexts(t, fields)
			first, second := promptsOfTwo()
			if c.last {
				u := chunks[len(chunks)-1]
				if len(u.Choices) != 0 || u.Usage == nil || u.Usage.Prompt != first+second || u.Usage.Completion != 10 || u.Usage.Total != first+second+10 {
					t.Errorf("%+v", u)
				}
				chunks, keys = chunks[:len(chunks)-1], keys[:len(keys)-1]
			}
			if len(chunks) != 10 {
				t.Errorf("%d chunks", len(chunks))
			}
			checkTextKeys(t, keys)
			checkTextProgress(t, chunks, c.continuous)
		})
	}
}

// twoTexts are the prompts of TestTextChunks.
var twoTexts = []string{"Once upon", "Hi"}

// promptsOfTwo returns the lengths of twoTexts in tokens.
func promptsOfTwo() (first, second int) {
	return len(servertest.Encode(twoTexts[0], true)), len(servertest.Encode(twoTexts[1], true))
}

// checkTextKeys checks the keys of chunks with a token, and that those without a value are
// null.
func checkTextKeys(t *testing.T, chunks []map[string]any) {
	t.Helper()
	outer := []string{"choices", "created", "id", "model", "object", "usage"}
	inner := []string{"finish_reason", "index", "logprobs", "prompt_token_ids", "stop_reason", "text", "token_ids"}
	for _, chunk := range chunks {
		if got := slices.Sorted(maps.Keys(chunk)); !slices.Equal(got, outer) {
			t.Errorf("keys %v", got)
		}
		choice := chunk["choices"].([]any)[0].(map[string]any)
		if got := slices.Sorted(maps.Keys(choice)); !slices.Equal(got, inner) {
			t.Errorf("keys of a choice %v", got)
		}
		for _, key := range []string{"logprobs", "token_ids", "prompt_token_ids", "stop_reason"} {
			if choice[key] != nil {
				t.Errorf("%s in %v", key, choice)
			}
		}
	}
}

// checkTextProgress checks ids, usage and ends of chunks with one token each, of two
// choices with five tokens.
func checkTextProgress(t *testing.T, chunks []textAnswer, continuousUsage bool) {
	t.Helper()
	first, second := promptsOfTwo()
	prompts, used := [2]int{first, second}, [2]int{}
	for i, c := range chunks {
		choice := c.Choices[0]
		p := choice.Index
		used[p]++
		if u := c.Usage; continuousUsage != (u != nil) || u != nil && (u.Prompt != prompts[p] || u.Completion != used[p]) {
			t.Errorf("chunk %d: %+v", i, u)
		}
		if c.ID != chunks[0].ID || !strings.HasPrefix(c.ID, "cmpl-") || c.Object != "text_completion" {
			t.Errorf("%+v", c)
		}
		if (choice.FinishReason != nil) != (used[p] == 5) {
			t.Errorf("chunk %d: %+v", i, choice)
		}
	}
}

// docs/interface/chat-completions.md, section 17.3: logprobs is a number k. Each token has k
// alternatives and itself.
func TestTextLogprobs(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.MaxLogprobs = -1 })
	const prompt = "Once upon a time, ßé"
	tokens := servertest.Encode(prompt, true)
	for _, k := range []int{0, 1, 4, -1} {
		t.Run(fmt.Sprint(k), func(t *testing.T) {
			c := h.texts(t, map[string]any{"prompt": prompt, "logprobs": k, "echo": true, "temperature": 1, "seed": 3}).Choices[0]
			checkTextLogprobs(t, c.Logprobs, c.Text, k, len(tokens)+5)
			if !strings.HasPrefix(c.Text, prompt) {
				t.Errorf("%q", c.Text)
			}
		})
	}
	t.Run("prompt_logprobs are in the choice", func(t *testing.T) {
		a := h.texts(t, map[string]any{"prompt": []string{prompt, "x"}, "prompt_logprobs": 1})
		if p := a.Choices[0].PromptLogprobs; len(p) != len(tokens) || p[0] != nil || len(p[1]) < 1 || a.Choices[0].Logprobs != nil {
			t.Errorf("%v", p)
		}
		if p := a.Choices[1].PromptLogprobs; len(p) != len(servertest.Encode("x", true)) {
			t.Errorf("%v", p)
		}
	})
}

// An echoed prompt has the alternatives that prompt_logprobs asks for, and none that nobody
// computed.
func TestK15EchoedAlternatives(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	prompt := "Once upon a time"
	n := len(servertest.Encode(prompt, true))
	for _, asked := range []int{0, 1, 3, 5} {
		l := h.texts(t, map[string]any{"prompt": prompt, "echo": true, "logprobs": 3, "prompt_logprobs": asked}).Choices[0].Logprobs
		for i, top := range l.Top[1:n] {
			if len(top) < max(1, min(3, asked)) || len(top) > min(3, asked)+1 {
				t.Errorf("prompt_logprobs %d: token %d has %d alternatives", asked, i+1, len(top))
			}
			for name, v := range top {
				if v == -9999 {
					t.Errorf("prompt_logprobs %d: %q at -9999", asked, name)
				}
			}
		}
		for _, top := range l.Top[n:] {
			if len(top) < 3 {
				t.Errorf("an output token has the alternatives %v", top)
			}
		}
	}
}

// With return_token_ids the ids say what the prompt was, and echo leaves it out of the text;
// its log-probabilities are there all the same.
func TestK19EchoWithTokenIDs(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	ids := servertest.Encode("Once upon", true)
	for _, prompt := range []any{"Once upon", ids} {
		plain := h.texts(t, map[string]any{"prompt": prompt})
		fields := map[string]any{"prompt": prompt, "echo": true, "logprobs": 1}
		if a := h.texts(t, fields); a.Choices[0].Text != "Once upon"+plain.Choices[0].Text {
			t.Errorf("%v: %q", prompt, a.Choices[0].Text)
		}
		fields["return_token_ids"] = true
		chunks, _ := h.streamedTexts(t, fields)
		for _, c := range []textChoice{h.texts(t, fields).Choices[0], joinTexts(chunks, 1)[0]} {
			if c.Text != plain.Choices[0].Text || !slices.Equal(c.PromptTokenIDs, ids) || len(c.Logprobs.Tokens) != len(ids)+5 {
				t.Errorf("%v: %+v", prompt, c)
			}
		}
	}
}

// bad_words is a field of completions too.
func TestK14BadWords(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	ids, err := servertest.Tokenizer().Encode(nil, " Omar", false)
	if err != nil || len(ids) != 1 {
		t.Fatal(ids, err)
	}
	fields := map[string]any{"logit_bias": map[string]any{fmt.Sprint(ids[0]): 100}}
	if a := h.texts(t, fields); !strings.Contains(a.Choices[0].Text, "Omar") {
		t.Fatalf("not forced: %q", a.Choices[0].Text)
	}
	fields["bad_words"] = []string{"Omar"}
	if a := h.texts(t, fields); strings.Contains(a.Choices[0].Text, "Omar") {
		t.Errorf("%q", a.Choices[0].Text)
	}
	fields["bad_words"] = []string{" "}
	status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, fields))
	servertest.Refused(t, status, answer, 400, "-")
}

// checkTextLogprobs checks the log-probabilities of n tokens, prompt and output, with k
// alternatives each, or all of them if k is -1.
func checkTextLogprobs(t *testing.T, l *textLogprobs, text string, k, n int) {
	t.Helper()
	if len(l.Offset) != n || len(l.Token) != n || len(l.Tokens) != n || len(l.Top) != n {
		t.Fatalf("%d %d %d %d entries", len(l.Offset), len(l.Token), len(l.Tokens), len(l.Top))
	}
	if l.Token[0] != nil || l.Top[0] != nil {
		t.Errorf("something predicts the first token: %v %v", *l.Token[0], l.Top[0])
	}
	characters := []rune(text)
	for i, tok := range l.Tokens {
		// A token of a piece of a character stands where the character does.
		if at := l.Offset[i]; at > len(characters) || !strings.ContainsRune(tok, utf8.RuneError) && !strings.HasPrefix(string(characters[at:]), tok) {
			t.Errorf("token %d, %q, begins at %d of %q", i, tok, at, text)
		}
		if i == 0 {
			continue
		}
		if v, ok := l.Top[i][tok]; !ok || v != *l.Token[i] {
			t.Errorf("token %d is not among its alternatives", i)
		}
		// Tokens that are a part of a character share a name, so that there may be fewer.
		if alternatives := len(l.Top[i]); k >= 0 && (alternatives < max(1, k-1) || alternatives > k+1) || k < 0 && alternatives < 1000 {
			t.Errorf("token %d has %d alternatives", i, alternatives)
		}
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
			if n := len(servertest.Encode(want, true)); c.Text != "" || *c.FinishReason != "length" || len(c.TokenIDs) != 0 || len(c.Logprobs.Tokens) != n || len(c.PromptTokenIDs) != n {
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
		"far too long":       {map[string]any{"prompt": []string{"a", strings.Repeat("word ", 20000)}}, 400, "input_text"},
		"over the context":   {map[string]any{"prompt": slices.Repeat([]int{5}, 1025)}, 400, "input_tokens"},
		"ids too long":       {map[string]any{"prompt": make([]int, 1025)}, 400, "input_tokens"},
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
	h.Idle() // the snapshot is made after the answer
	if st := h.Engine.Stats(); st.Finished[1]+st.Finished[2]+st.Finished[3]+st.Finished[4] != 8 {
		t.Errorf("a refused batch is still in the engine: %+v", st)
	}
}

// Every choice repeats the log-probabilities of its prompt; their number is bounded.
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

// An error that ends one choice of a batch ends the whole batch.
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
