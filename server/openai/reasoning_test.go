package openai_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"weir/api"
	"weir/backend/sim"
	"weir/chat"
	"weir/chat/reasoning"
	"weir/internal/testkit"
	"weir/models"
	"weir/server"
	"weir/server/servertest"
	"weir/tokenizer"
)

// words returns the tokens of a text. Each think tag is one token.
func words(s string) []int32 { return servertest.Encode(s, false) }

// letters returns the tokens of each character of s by itself, but of a space together with the
// character that follows it: masks leave the token of a lone space out where they can.
func letters(s string) (ids []int32) {
	for len(s) > 0 {
		_, n := utf8.DecodeRuneInString(s)
		if s[0] == ' ' && len(s) > 1 {
			_, next := utf8.DecodeRuneInString(s[1:])
			n += next
		}
		ids, s = append(ids, servertest.Encode(s[:n], false)...), s[n:]
	}
	return ids
}

// newReasoningServer returns a server whose choices generate the scripts, which are token ids
// or texts for words.
func newReasoningServer(t testing.TB, change func(*servertest.Setup), scripts ...any) *testServer {
	return newServer(t, func(s *servertest.Setup) {
		for _, script := range scripts {
			switch script := script.(type) {
			case string:
				s.Script = append(s.Script, words(script))
			case []int32:
				s.Script = append(s.Script, script)
			}
		}
		if change != nil {
			change(s)
		}
	})
}

// openingTemplate is a template whose generation prompt opens the thoughts.
const openingTemplate = `{% for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
<think>
{% endif %}{# ends with </think> #}`

func withTemplate(source string, kind reasoning.Kind) func(*servertest.Setup) {
	return func(s *servertest.Setup) {
		r, err := chat.New(chat.Config{Templates: []chat.Template{{Source: source}}, Reasoning: kind})
		if err != nil {
			panic(err)
		}
		s.Model.Chat = r
	}
}

// specialTags is the bundled tokenizer with think tags that are special tokens.
var specialTags = sync.OnceValue(func() *tokenizer.Tokenizer {
	data, err := fs.ReadFile(models.Bundled(), "tokenizer.json")
	if err != nil {
		panic(err)
	}
	var file map[string]any
	if err := json.Unmarshal(data, &file); err != nil {
		panic(err)
	}
	for _, a := range file["added_tokens"].([]any) {
		if a := a.(map[string]any); strings.Contains(a["content"].(string), "think") {
			a["special"] = true
		}
	}
	if data, err = json.Marshal(file); err != nil {
		panic(err)
	}
	tok, err := tokenizer.Load(data)
	if err != nil {
		panic(err)
	}
	if id, _ := tok.ID("</think>"); !tok.IsSpecial(id) {
		panic("not special")
	}
	return tok
})

func withSpecialTags(s *servertest.Setup) {
	s.Model.Tokenizer, s.EngineConfig.Tokenizer = specialTags(), specialTags()
}

// thinking returns a request for a model that may think, with more fields.
func thinking(fields map[string]any) map[string]any {
	all := map[string]any{
		"chat_template_kwargs": map[string]any{"enable_thinking": true}, "seed": servertest.ScriptSeed, "temperature": 1, "max_tokens": 100,
	}
	for k, v := range fields {
		all[k] = v
	}
	return all
}

// divided is a choice that is put together from a stream.
type divided struct {
	thought, content, finish string
	ids                      []int32
	tokens                   []string // of the logprobs
	events                   int
}

// joinDivided puts the choices of a stream together and checks the form of its events.
func joinDivided(t *testing.T, chunks []servertest.Chunk, n int) []divided {
	t.Helper()
	out := make([]divided, n)
	for _, c := range chunks {
		if len(c.Choices) == 0 {
			continue
		}
		ch := c.Choices[0]
		if ch.Delta["role"] != nil {
			continue
		}
		d := &out[ch.Index]
		d.events++
		r, has := ch.Delta["reasoning"]
		if has && r == nil || r == "" {
			t.Errorf("an empty reasoning in %v", ch.Delta)
		}
		if has && d.content != "" {
			t.Errorf("reasoning after the content in %v", ch.Delta)
		}
		if v, has := ch.Delta["content"]; has && v == nil {
			t.Errorf("content null in %v", ch.Delta)
		}
		if len(ch.Delta) == 0 && ch.FinishReason == nil && ch.Logprobs == nil && len(ch.TokenIDs) == 0 {
			t.Errorf("an event for nothing: %+v", c)
		}
		s, _ := r.(string)
		d.thought += s
		d.content += servertest.Text(c)
		d.ids = append(d.ids, ch.TokenIDs...)
		if ch.Logprobs != nil {
			for _, e := range ch.Logprobs.Content {
				d.tokens = append(d.tokens, e.Token)
			}
		}
		if ch.FinishReason != nil {
			d.finish = *ch.FinishReason
		}
	}
	return out
}

// wholeAndStreamed asks for a stream and for a complete answer, checks that they agree, and
// returns the choices of the complete answer.
func (h *testServer) wholeAndStreamed(t *testing.T, fields map[string]any) []struct{ thought, content *string } {
	t.Helper()
	whole := h.Complete(t, fields)
	all := map[string]any{"stream_options": map[string]any{"include_usage": true}}
	for k, v := range fields {
		all[k] = v
	}
	chunks := h.Streamed(t, all)
	var out []struct{ thought, content *string }
	for i, d := range joinDivided(t, chunks, len(whole.Choices)) {
		w := whole.Choices[i]
		if d.thought != deref(w.Message.Reasoning) || d.content != deref(w.Message.Content) || d.finish != w.FinishReason || !slices.Equal(d.ids, w.TokenIDs) {
			t.Errorf("%v: choice %d streamed %+v, at once %q %q %s %v", fields, i, d, deref(w.Message.Reasoning), deref(w.Message.Content), w.FinishReason, w.TokenIDs)
		}
		out = append(out, struct{ thought, content *string }{w.Message.Reasoning, w.Message.Content})
	}
	if u := chunks[len(chunks)-1].Usage; u.Completion != whole.Usage.Completion || u.Prompt != whole.Usage.Prompt {
		t.Errorf("usage %+v streamed, %+v at once", u, whole.Usage)
	}
	return out
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func shown(s *string) string {
	if s == nil {
		return "null"
	}
	return fmt.Sprintf("%q", *s)
}

// docs/interface/chat-completions.md, section 9.1, through the whole server: what is reasoning and what is content.
func TestReasoningAndContent(t *testing.T) {
	t.Parallel()
	const full = "<think>\nlet me think\n</think>\n\nYes."
	for name, c := range map[string]struct {
		change           func(*servertest.Setup)
		script           any
		fields           map[string]any
		thought, content string
	}{
		"tags are tokens":              {nil, full, nil, `"\nlet me think\n"`, `"\n\nYes."`},
		"tags are text":                {nil, letters(full), nil, `"\nlet me think\n"`, `"\n\nYes."`},
		"tags are special tokens":      {withSpecialTags, full, nil, `"\nlet me think\n"`, `"\n\nYes."`},
		"shown special tokens":         {withSpecialTags, full, map[string]any{"skip_special_tokens": false}, `"\nlet me think\n"`, `"\n\nYes."`},
		"special, text held back":      {withSpecialTags, full, map[string]any{"stop": "a long stop string"}, `"\nlet me think\n"`, `"\n\nYes."`},
		"nothing after the end tag":    {nil, "<think>hm</think>", nil, `"hm"`, `null`},
		"no end tag":                   {nil, "<think>hm, let", nil, `"hm, let"`, `null`},
		"cut off by the limit":         {nil, letters("<think>hm</think>x"), map[string]any{"max_tokens": 15}, `"hm</thin"`, `null`},
		"a part of the open tag":       {nil, letters("<thi"), nil, `null`, `"<thi"`},
		"the model does not think":     {nil, "Yes.", nil, `null`, `"Yes."`},
		"it says nothing":              {nil, "", nil, `null`, `""`},
		"the prompt opened the block":  {withTemplate(openingTemplate, reasoning.Auto), "hm</think>Yes.", nil, `"hm"`, `"Yes."`},
		"and nothing closes it":        {withTemplate(openingTemplate, reasoning.Auto), "hm", nil, `"hm"`, `null`},
		"the prompt closed the block":  {nil, full, map[string]any{"chat_template_kwargs": nil}, `null`, fmt.Sprintf("%q", full)},
		"no parser":                    {withTemplate(openingTemplate, reasoning.None), full, nil, `null`, fmt.Sprintf("%q", full)},
		"qwen3":                        {withTemplate("{{ messages[0].content }}", reasoning.Qwen3), "hm</think>Yes.", nil, `"hm"`, `"Yes."`},
		"qwen3 says no end tag":        {withTemplate("{{ messages[0].content }}", reasoning.Qwen3), "Yes.", nil, `"Yes."`, `null`},
		"qwen3, thinking off":          {withTemplate("{{ messages[0].content }}", reasoning.Qwen3), "Yes.", map[string]any{"chat_template_kwargs": map[string]any{"enable_thinking": false}}, `null`, `"Yes."`},
		"a stop string in the thought": {nil, "<think>let me STOP here</think>Yes.", map[string]any{"stop": []string{"STOP"}}, `"let me "`, `null`},
		"the end tag is a stop string": {nil, full, map[string]any{"stop": []string{"</think>"}}, `"\nlet me think\n"`, `null`},
		"and is included":              {nil, full, map[string]any{"stop": []string{"</think>"}, "include_stop_str_in_output": true}, `"\nlet me think\n"`, `null`},
		"characters in pieces":         {nil, slices.Concat(words("<think>"), letters("é🦀</think>é🦀")), nil, `"é🦀"`, `"é🦀"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newReasoningServer(t, c.change, c.script)
			got := h.wholeAndStreamed(t, thinking(c.fields))[0]
			if shown(got.thought) != c.thought || shown(got.content) != c.content {
				t.Errorf("reasoning %s, content %s, want %s and %s", shown(got.thought), shown(got.content), c.thought, c.content)
			}
			all := map[string]any{"return_token_ids": true}
			for k, v := range c.fields {
				all[k] = v
			}
			h.wholeAndStreamed(t, thinking(all))
		})
	}
}

// Golden files of the answers.
func TestReasoningTranscripts(t *testing.T) {
	t.Parallel()
	for name, fields := range map[string]map[string]any{
		"reasoning":          {},
		"reasoning_tokens":   {"logprobs": true, "return_token_ids": true},
		"reasoning_hidden":   {"include_reasoning": false, "logprobs": true, "return_token_ids": true, "stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}},
		"reasoning_unclosed": {"max_tokens": 4, "return_token_ids": true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			script := slices.Concat(words("<think>hm"), letters("</think>\n"), words("Yes."))
			h := newReasoningServer(t, nil, script)
			all := thinking(fields)
			all["stream"] = true
			_, answer := h.Chat(all)
			testkit.Golden(t, "testdata/stream/"+name+".txt", []byte(answer))
			delete(all, "stream")
			delete(all, "stream_options")
			_, answer = h.Chat(all)
			testkit.Golden(t, "testdata/complete/"+name+".json", []byte(answer+"\n"))
		})
	}
}

// Each token of a thought has its event, but the tags alone have none
// (docs/interface/chat-completions.md, section 9.1).
func TestReasoningEvents(t *testing.T) {
	t.Parallel()
	script := words("<think>a b c</think>d e")
	h := newReasoningServer(t, nil, script)
	d := joinDivided(t, h.Streamed(t, thinking(nil)), 1)[0]
	if d.events != len(script)-2+1 {
		t.Errorf("%d events for %d tokens, of which two are tags, and the end", d.events, len(script))
	}
	d = joinDivided(t, h.Streamed(t, thinking(map[string]any{"return_token_ids": true})), 1)[0]
	if want := append(slices.Clone(script), servertest.EndOfTurn); d.events != len(want) || !slices.Equal(d.ids, want) {
		t.Errorf("with ids: %+v, want %v", d, want)
	}
	d = joinDivided(t, h.Streamed(t, thinking(map[string]any{"logprobs": true})), 1)[0]
	if len(d.tokens) != len(script)+1 || d.tokens[0] != "<think>" {
		t.Errorf("with logprobs: %+v", d)
	}
}

// C141: include_reasoning false hides reasoning, and with it (K17) the token ids and
// log-probabilities of the whole output, in streams and otherwise. The usage counts its
// tokens.
func TestC141K17IncludeReasoning(t *testing.T) {
	t.Parallel()
	thought, content := words("<think>hm"), words("Yes.")
	h := newReasoningServer(t, nil, slices.Concat(thought, words("</think>"), content))
	fields := thinking(map[string]any{"include_reasoning": false, "return_token_ids": true, "logprobs": true})
	whole := h.Complete(t, fields)
	c := whole.Choices[0]
	if c.Message.Reasoning != nil || deref(c.Message.Content) != "Yes." || whole.Usage.Completion != len(thought)+len(content)+2 {
		t.Errorf("%+v %+v", c.Message, whole.Usage)
	}
	if c.Logprobs != nil || c.TokenIDs != nil || len(whole.PromptTokenIDs) != whole.Usage.Prompt {
		t.Errorf("%v %v %v", c.Logprobs, c.TokenIDs, whole.PromptTokenIDs)
	}
	fields["stream_options"] = map[string]any{"include_usage": true}
	chunks := h.Streamed(t, fields)
	d := joinDivided(t, chunks, 1)[0]
	if d.thought != "" || d.content != "Yes." || len(d.ids)+len(d.tokens) != 0 || d.events != len(content)+1 {
		t.Errorf("%+v", d)
	}
	if u := chunks[len(chunks)-1].Usage; u.Completion != whole.Usage.Completion {
		t.Errorf("usage %+v", u)
	}
	// If all is hidden, there are the role and the end without its token.
	h = newReasoningServer(t, nil, thought)
	if d := joinDivided(t, h.Streamed(t, fields), 1)[0]; d.events != 1 || d.finish != "stop" || len(d.ids)+len(d.tokens) != 0 {
		t.Errorf("%+v", d)
	}
	// An output without thoughts has none either.
	h = newReasoningServer(t, nil, "\n\nYes.")
	if d := joinDivided(t, h.Streamed(t, fields), 1)[0]; d.content != "\n\nYes." || len(d.ids)+len(d.tokens) != 0 {
		t.Errorf("%+v", d)
	}
	// Where thoughts are not told apart, nothing is hidden.
	h = newReasoningServer(t, withTemplate(openingTemplate, reasoning.None), thought)
	delete(fields, "stream_options")
	if c := h.Complete(t, fields).Choices[0]; c.Logprobs == nil || len(c.TokenIDs) == 0 {
		t.Errorf("%+v", c)
	}
}

// The usage says how many tokens are thought: shown or not, and of all choices together.
func TestK20ReasoningTokens(t *testing.T) {
	t.Parallel()
	thought, content := words("<think>hm, so it is"), words("Yes.")
	h := newReasoningServer(t, nil, slices.Concat(thought, words("</think>"), content), words("No."))
	ask := func(fields map[string]any, want int) {
		t.Helper()
		if u := h.Complete(t, fields).Usage; u.CompletionDetails == nil || u.CompletionDetails.Reasoning != want {
			t.Errorf("%v: %+v, want %d", fields, u.CompletionDetails, want)
		}
		fields["stream_options"] = map[string]any{"include_usage": true, "continuous_usage_stats": true}
		most := 0
		for i, c := range h.Streamed(t, fields) {
			switch d := c.Usage.CompletionDetails; {
			case d == nil:
				t.Fatalf("event %d: %+v", i, c.Usage)
			case d.Reasoning < most && len(c.Choices) == 0:
				t.Errorf("%d at the end after %d", d.Reasoning, most)
			default:
				most = max(most, d.Reasoning)
			}
		}
		if most != want {
			t.Errorf("%v, streaming: %d, want %d", fields, most, want)
		}
	}
	ask(thinking(nil), len(thought)-1)
	ask(thinking(map[string]any{"include_reasoning": false}), len(thought)-1)
	ask(thinking(map[string]any{"max_tokens": 3}), 2)
	if status, answer, _ := h.Get("POST", servertest.TextPath, servertest.TextBody(t, nil)); status != 200 || !strings.Contains(answer, `"completion_tokens_details":null`) {
		t.Error(answer)
	}
	plain := newReasoningServer(t, withTemplate(openingTemplate, reasoning.None), content)
	if _, answer := plain.Chat(nil); !strings.Contains(answer, `"completion_tokens_details":null`) {
		t.Error(answer)
	}
}

func TestK21PromptText(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	want := decode(h.Complete(t, map[string]any{"return_token_ids": true}).PromptTokenIDs)
	quoted := string(api.AppendString([]byte(`,"prompt_text":`), want))
	if _, answer := h.Chat(map[string]any{"return_prompt_text": true, "truncate_prompt_tokens": 2}); strings.Count(answer, quoted+`,`) != 1 {
		t.Errorf("%s\nwant %s", answer, quoted)
	}
	if _, answer := h.Chat(map[string]any{"return_prompt_text": true, "stream": true, "n": 2, "temperature": 1}); strings.Count(answer, quoted+`}`) != 2 || strings.Count(answer, "prompt_text") != 2 {
		t.Error(answer)
	}
	for _, fields := range []map[string]any{nil, {"return_prompt_text": false}, {"return_prompt_text": nil}} {
		if _, answer := h.Chat(fields); !strings.Contains(answer, `,"prompt_text":null,`) {
			t.Error(answer)
		}
	}
}

// While only hidden thoughts are generated, a stream gets its heartbeats.
func TestHeartbeatsWhileThinking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		outlive(t)
		h := newReasoningServer(t, func(s *servertest.Setup) { s.Config.Heartbeat = 10 * time.Second }, slices.Concat(words("<think>"), letters("123456789"), words("</think>Yes")))
		h.SetHook(func(c sim.Call, _ int) error {
			if c == sim.End {
				time.Sleep(4 * time.Second)
			}
			return nil
		})
		_, answer := h.Chat(thinking(map[string]any{"include_reasoning": false, "stream": true}))
		// The role at 4 seconds, Yes at 48, blank lines at 14, 24, 34 and 44.
		if d := joinDivided(t, servertest.Events(t, answer), 1)[0]; d.content != "Yes" || strings.Count(answer, "}\n\n"+strings.Repeat("\n\n", 4)+"data: ") != 1 || strings.Count(answer, "\n\n\n\n\n\n\n\n\n\n") != 1 {
			t.Errorf("%q", answer)
		}
	})
}

// The name of the field for reasoning is the operator's choice.
func TestReasoningField(t *testing.T) {
	t.Parallel()
	for i, keys := range [][]string{{"reasoning"}, {"reasoning_content"}, {"reasoning", "reasoning_content"}} {
		h := newReasoningServer(t, func(s *servertest.Setup) { s.Config.ReasoningField = api.ReasoningField(i) }, "<think>hm</think>Yes.")
		_, answer := h.Chat(thinking(nil))
		seen := map[string]string{}
		for _, c := range h.Streamed(t, thinking(nil)) {
			for k, v := range c.Choices[0].Delta {
				if strings.HasPrefix(k, "reasoning") {
					seen[k] += v.(string)
				}
			}
		}
		for _, k := range []string{"reasoning", "reasoning_content"} {
			want := slices.Contains(keys, k)
			if strings.Contains(answer, `"`+k+`":"hm"`) != want || strings.Contains(answer, `"`+k+`":`) != want || (seen[k] == "hm") != want {
				t.Errorf("%v: %s, streamed %v", keys, answer, seen)
			}
		}
	}
	cfg := server.DefaultConfig()
	if cfg.ReasoningField = 3; cfg.Validate() == nil {
		t.Error("an unknown field is valid")
	}
}

// Each choice is split on its own.
func TestReasoningOfSeveralChoices(t *testing.T) {
	t.Parallel()
	h := newReasoningServer(t, nil, "<think>a b c</think>x", letters("<think>no end"), "content</think>")
	got := h.wholeAndStreamed(t, thinking(map[string]any{"n": 3, "return_token_ids": true}))
	for i, want := range []string{`"a b c" "x"`, `"no end" null`, `null "content</think>"`} {
		if s := shown(got[i].thought) + " " + shown(got[i].content); s != want {
			t.Errorf("choice %d: %s, want %s", i, s, want)
		}
	}
}

// C140 with thoughts: what is continued and echoed is split like the rest.
func TestReasoningEcho(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		prefill, script  string
		fields           map[string]any
		thought, content string
		echo             map[string]any
	}{
		{"<think>I th", "ink</think>Yes.", nil, `"I think"`, `"Yes."`, map[string]any{"reasoning": "I th"}},
		{"<think>I think</think>Y", "es.</think>", nil, `"I think"`, `"Yes.</think>"`, map[string]any{"reasoning": "I think", "content": "Y"}},
		{"Y", "es.", nil, `null`, `"Yes."`, map[string]any{"content": "Y"}},
		{"<think>I th", "ink</think>Yes.", map[string]any{"echo": false}, `"ink"`, `"Yes."`, nil},
		{"<think>I think</think>Y", "es.", map[string]any{"include_reasoning": false}, `null`, `"Yes."`, map[string]any{"content": "Y"}},
		{"<think>I th", "ink</think>Yes.", map[string]any{"include_reasoning": false}, `null`, `"Yes."`, nil},
	} {
		h := newReasoningServer(t, nil, c.script, c.script)
		fields := thinking(map[string]any{"echo": true, "continue_final_message": true, "n": 2, "messages": []any{
			map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": "assistant", "content": c.prefill}}})
		for k, v := range c.fields {
			fields[k] = v
		}
		for _, got := range h.wholeAndStreamed(t, fields) {
			if shown(got.thought) != c.thought || shown(got.content) != c.content {
				t.Errorf("%q, %v: reasoning %s, content %s", c.prefill, c.fields, shown(got.thought), shown(got.content))
			}
		}
		for _, ch := range h.Streamed(t, fields)[2:4] {
			if d := ch.Choices[0].Delta; c.echo != nil && fmt.Sprint(d) != fmt.Sprint(c.echo) {
				t.Errorf("%q, %v: the echo is %v", c.prefill, c.fields, d)
			}
		}
	}
}

// A stream and a complete answer agree for any text of the model and any division of it into
// tokens.
func TestReasoningTwin(t *testing.T) {
	t.Parallel()
	scraps := []string{"<think>", "</think>", "<", "</", "</thi", "nk>", "\n", "a", "word ", "🦀", "think>"}
	rng := rand.New(rand.NewPCG(5, 6))
	for range 40 {
		var scripts []any
		for range 8 {
			var ids []int32
			for range rng.IntN(12) {
				s := scraps[rng.IntN(len(scraps))]
				if rng.IntN(2) == 0 {
					ids = append(ids, words(s)...)
				} else {
					ids = append(ids, letters(s)...)
				}
			}
			scripts = append(scripts, ids)
		}
		h := newReasoningServer(t, func(s *servertest.Setup) {
			switch rng.IntN(3) {
			case 0:
				withSpecialTags(s)
			case 1:
				withTemplate(openingTemplate, reasoning.Auto)(s)
			}
		}, scripts...)
		fields := thinking(map[string]any{"n": 8})
		if rng.IntN(2) == 0 {
			fields["return_token_ids"] = true
		}
		if rng.IntN(2) == 0 {
			fields["stop"] = []string{"word a", "</th</th"}
		}
		h.wholeAndStreamed(t, fields)
		h.Stop()
	}
}
