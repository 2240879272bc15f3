package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"weir/backend/sim"
	"weir/server/servertest"
	"weir/server/transport"
)

// Rows of docs/interface/chat-completions.md, section 21.6.

func TestC131Usage(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	one := h.Complete(t, map[string]any{"ignore_eos": true}).Usage
	if one.Total != one.Prompt+one.Completion || one.Completion != 5 {
		t.Errorf("%+v", one)
	}
	three := h.Complete(t, map[string]any{"ignore_eos": true, "n": 3, "temperature": 1}).Usage
	if three.Prompt != one.Prompt || three.Completion != 15 || three.Total != three.Prompt+15 {
		t.Errorf("n 3: %+v", three)
	}
}

func TestC132C133Stream(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	chunks := h.Streamed(t, map[string]any{"n": 3, "temperature": 1, "ignore_eos": true})
	for i := range 3 {
		c := chunks[i]
		if d := c.Choices[0].Delta; c.Choices[0].Index != i || d["role"] != "assistant" || d["content"] != "" || len(d) != 2 {
			t.Errorf("event %d is not choice %d's role: %+v", i, i, c)
		}
	}
	finished := map[int]int{}
	for _, c := range chunks {
		if c.ID != chunks[0].ID || c.Keys["usage"] != nil || c.Keys["error"] != nil || len(c.Choices) != 1 {
			t.Errorf("%+v", c)
		}
		ch := c.Choices[0]
		if finished[ch.Index] > 0 {
			t.Errorf("choice %d goes on after its end", ch.Index)
		}
		if ch.FinishReason != nil {
			finished[ch.Index]++
		}
	}
	if len(finished) != 3 {
		t.Errorf("finished %v", finished)
	}
	if len(chunks) != 3+3*5 {
		t.Errorf("%d events, want a role and one per token for each choice", len(chunks))
	}
}

func TestC134C135K4StreamUsage(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	chunks := h.Streamed(t, map[string]any{"stream_options": map[string]any{"include_usage": true}})
	last := chunks[len(chunks)-1]
	if last.Usage == nil || len(last.Choices) != 0 || last.Usage.Details == nil || last.Usage.Completion != 5 {
		t.Errorf("last event %+v", last)
	}
	for _, c := range chunks[:len(chunks)-1] {
		if c.Usage != nil {
			t.Errorf("usage in %+v", c)
		}
	}

	chunks = h.Streamed(t, map[string]any{"stream_options": map[string]any{"include_usage": true, "continuous_usage_stats": true}, "n": 2, "temperature": 1, "ignore_eos": true})
	count := map[int]int{}
	for i, c := range chunks {
		if c.Usage == nil {
			t.Fatalf("no usage in event %d", i)
		}
		if i == len(chunks)-1 {
			if c.Usage.Completion != 10 {
				t.Errorf("%+v", c.Usage)
			}
			continue
		}
		ch := c.Choices[0].Index
		if c.Usage.Completion < count[ch] || i < 2 && c.Usage.Completion != 0 {
			t.Errorf("event %d: %+v after %d", i, c.Usage, count[ch])
		}
		count[ch] = c.Usage.Completion
	}
	for _, opts := range []map[string]any{{}, {"continuous_usage_stats": true}, {"include_usage": false}, {"include_usage": false, "continuous_usage_stats": true}, {"include_usage": nil}} {
		for _, c := range h.Streamed(t, map[string]any{"stream_options": opts}) {
			if c.Usage != nil {
				t.Errorf("%v: usage in %+v", opts, c)
			}
		}
	}
}

func TestK5ForcedUsage(t *testing.T) {
	t.Parallel()
	forced := newServer(t, func(s *servertest.Setup) { s.Config.ForceUsage = true })
	for i, c := range forced.Streamed(t, nil) {
		if c.Usage == nil {
			t.Errorf("event %d has no usage although the server forces it: %+v", i, c)
		}
	}
	texts, _ := forced.streamedTexts(t, nil)
	for i, c := range texts {
		if c.Usage == nil {
			t.Errorf("event %d of a completion has no usage: %+v", i, c)
		}
	}
}

// C136, C137: the chunks of a stream, put together, are the complete answer.
func TestC136C137StreamEqualsComplete(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for name, fields := range map[string]map[string]any{
		"greedy":    {},
		"seeded":    {"temperature": 1.2, "seed": 3, "n": 3},
		"logprobs":  {"logprobs": true, "top_logprobs": 3, "temperature": 1, "seed": 4},
		"stop":      {"max_tokens": 200, "stop": []string{"zzzz", "q"}, "seed": 5, "temperature": 1},
		"include":   {"max_tokens": 200, "stop": []string{"q"}, "include_stop_str_in_output": true, "seed": 5, "temperature": 1},
		"stop id":   {"max_tokens": 200, "temperature": 1, "seed": 6, "stop_token_ids": span(1000, 1100)},
		"specials":  {"max_tokens": 100, "skip_special_tokens": false, "spaces_between_special_tokens": false, "temperature": 1, "seed": 7},
		"repeat":    {"max_tokens": 50, "logit_bias": map[string]any{"700": 100}, "repetition_detection": map[string]any{"max_pattern_size": 2, "min_count": 4}},
		"penalties": {"max_tokens": 60, "temperature": 1, "seed": 8, "repetition_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": 0.5},
		"as ids":    {"logprobs": true, "top_logprobs": 2, "return_tokens_as_token_ids": true},
	} {
		t.Run(name, func(t *testing.T) {
			all := map[string]any{"max_tokens": 30, "return_token_ids": true}
			maps.Copy(all, fields)
			whole := h.Complete(t, all)
			all["stream_options"] = map[string]any{"include_usage": true}
			got := joinChunks(t, h.Streamed(t, all), whole)
			for i := range got {
				if a, b := fmt.Sprint(got[i]), fmt.Sprint(wholeChoice(whole, i)); a != b {
					t.Errorf("choice %d streamed\n%s\nat once\n%s", i, a, b)
				}
			}
		})
	}
}

// comparedChoice is what a choice says, of a complete answer or put together from chunks.
type comparedChoice struct {
	text, finish, stop string
	ids                []int32
	logprobs           []any
}

func (c *comparedChoice) addLogprobs(l *servertest.Logprobs) {
	if l == nil {
		return
	}
	for _, e := range l.Content {
		c.logprobs = append(c.logprobs, e)
	}
}

// wholeChoice returns choice i of a complete answer.
func wholeChoice(whole *servertest.Completion, i int) comparedChoice {
	w := &whole.Choices[i]
	c := comparedChoice{text: *w.Message.Content, finish: w.FinishReason, stop: string(w.StopReason), ids: w.TokenIDs}
	c.addLogprobs(w.Logprobs)
	return c
}

// joinChunks puts the chunks of a stream together. Usage and prompt ids have to be those
// of the whole answer, and each chunk after the roles carries one token.
func joinChunks(t *testing.T, chunks []servertest.Chunk, whole *servertest.Completion) []comparedChoice {
	t.Helper()
	list := make([]comparedChoice, len(whole.Choices))
	for i, c := range chunks {
		if len(c.Choices) == 0 {
			if c.Usage.Completion != whole.Usage.Completion || c.Usage.Prompt != whole.Usage.Prompt {
				t.Errorf("usage %+v, want %+v", c.Usage, whole.Usage)
			}
			continue
		}
		ch := c.Choices[0]
		role := i < len(list)
		if role != (c.PromptTokenIDs != nil) || role && !slices.Equal(c.PromptTokenIDs, whole.PromptTokenIDs) {
			t.Errorf("event %d: prompt ids %v", i, c.PromptTokenIDs)
		}
		if !role && len(ch.TokenIDs) != 1 {
			t.Errorf("event %d carries the tokens %v", i, ch.TokenIDs)
		}
		g := &list[ch.Index]
		g.text += servertest.Text(c)
		g.ids = append(g.ids, ch.TokenIDs...)
		g.addLogprobs(ch.Logprobs)
		if ch.FinishReason != nil {
			g.finish, g.stop = *ch.FinishReason, string(ch.StopReason)
		}
	}
	return list
}

func span(from, to int) (ids []int) {
	for i := from; i < to; i++ {
		ids = append(ids, i)
	}
	return ids
}

func TestC138TokensAsIDs(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	c := h.Complete(t, map[string]any{"logprobs": true, "top_logprobs": 2, "return_tokens_as_token_ids": true, "return_token_ids": true})
	for i, e := range c.Choices[0].Logprobs.Content {
		want := fmt.Sprintf("token_id:%d", c.Choices[0].TokenIDs[i])
		if e.Token != want || e.Top[0].Token != want {
			t.Errorf("token %d: %q, want %q", i, e.Token, want)
		}
	}
	def := newServer(t, func(s *servertest.Setup) { s.Config.TokensAsIDs = true })
	if c := def.Complete(t, map[string]any{"logprobs": true}); !strings.HasPrefix(c.Choices[0].Logprobs.Content[0].Token, "token_id:") {
		t.Error("the server's default does nothing")
	}
	if c := def.Complete(t, map[string]any{"logprobs": true, "return_tokens_as_token_ids": false}); strings.HasPrefix(c.Choices[0].Logprobs.Content[0].Token, "token_id:") {
		t.Error("the request does not win over the server's default")
	}
}

// C119, C120 and docs/interface/chat-completions.md, section 7.2: there are k entries, and
// the first is the token itself.
func TestC119C120TopLogprobs(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for _, temperature := range []float64{0, 2} {
		c := h.Complete(t, map[string]any{"logprobs": true, "top_logprobs": 4, "temperature": temperature, "seed": 9, "max_tokens": 20})
		for i, e := range c.Choices[0].Logprobs.Content {
			if len(e.Top) != 4 || e.Top[0].Token != e.Token || e.Top[0].Logprob != e.Logprob {
				t.Errorf("temperature %v, token %d: %+v", temperature, i, e)
			}
			for k := 2; k < len(e.Top); k++ {
				if e.Top[k].Logprob > e.Top[k-1].Logprob {
					t.Errorf("the others are not in rank order: %+v", e.Top)
				}
			}
		}
	}
	all := newServer(t, func(s *servertest.Setup) { s.Config.MaxLogprobs = -1 })
	c := all.Complete(t, map[string]any{"logprobs": true, "top_logprobs": -1, "prompt_logprobs": -1, "max_tokens": 1})
	if n := len(c.Choices[0].Logprobs.Content[0].Top); n != servertest.Vocabulary {
		t.Errorf("%d alternatives of %d tokens", n, servertest.Vocabulary)
	}
	if n := len(c.PromptLogprobs[1]); n != servertest.Vocabulary {
		t.Errorf("%d alternatives of %d tokens for the prompt", n, servertest.Vocabulary)
	}
}

// docs/interface/chat-completions.md, section 7.2. The bytes are the token's own, even if they
// are a part of a character, so that all of them together are the text.
func TestLogprobBytes(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	ids := servertest.Encode("🦀é漢", false)
	var got []byte
	for _, id := range ids {
		c := h.Complete(t, map[string]any{"max_tokens": 1, "logprobs": true, "top_logprobs": 1, "allowed_token_ids": []int32{id}})
		e := c.Choices[0].Logprobs.Content[0]
		for _, b := range e.Bytes {
			got = append(got, byte(b))
		}
		if len(e.Top) != 1 || fmt.Sprint(e.Top[0].Bytes) != fmt.Sprint(e.Bytes) {
			t.Errorf("%+v", e)
		}
	}
	if string(got) != "🦀é漢" {
		t.Errorf("%q", got)
	}
	c := h.Complete(t, map[string]any{"logprobs": true, "allowed_token_ids": []int{servertest.EndOfTurn}})
	if e := c.Choices[0].Logprobs.Content[0]; e.Token != servertest.Tokenizer().Token(servertest.EndOfTurn) || c.Choices[0].FinishReason != "stop" || *c.Choices[0].Message.Content != "" {
		t.Errorf("%+v", c.Choices[0])
	}
}

func TestC139PromptLogprobs(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	for top := range 3 {
		c := h.Complete(t, map[string]any{"prompt_logprobs": top, "return_token_ids": true})
		if len(c.PromptLogprobs) != c.Usage.Prompt || c.PromptLogprobs[0] != nil {
			t.Fatalf("%d entries for %d tokens, the first %v", len(c.PromptLogprobs), c.Usage.Prompt, c.PromptLogprobs[0])
		}
		for i, e := range c.PromptLogprobs[1:] {
			own, ok := e[fmt.Sprint(c.PromptTokenIDs[i+1])]
			if !ok || own.Rank < 1 || len(e) < max(1, top) || len(e) > top+1 {
				t.Errorf("token %d: %v", i+1, e)
			}
		}
	}
	if c := h.Complete(t, nil); c.PromptLogprobs != nil {
		t.Error("prompt_logprobs without being asked")
	}
}

func TestC140Echo(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	fields := map[string]any{
		"messages":               []any{map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": "assistant", "content": "Well, "}},
		"continue_final_message": true, "add_generation_prompt": false, "echo": true,
	}
	c := h.Complete(t, fields)
	if s := *c.Choices[0].Message.Content; !strings.HasPrefix(s, "Well, ") {
		t.Errorf("%q", s)
	}
	if c.PromptLogprobs == nil {
		t.Error("echo asks for prompt_logprobs, too (docs/interface/chat-completions.md, section 3.8)")
	}
	fields["n"], fields["temperature"] = 2, 1
	chunks := h.Streamed(t, fields)
	for i := range 2 {
		if d := chunks[2+i].Choices[0].Delta; d["content"] != "Well, " || len(d) != 1 || chunks[2+i].Choices[0].Index != i {
			t.Errorf("event %d is not the echo: %+v", 2+i, chunks[2+i])
		}
	}
	fields["messages"] = []any{map[string]any{"role": "user", "content": "Hi"}, map[string]any{"role": "assistant", "content": []any{
		map[string]any{"type": "text", "text": "one"}, map[string]any{"type": "text", "text": "two"}}}}
	chunks = h.Streamed(t, fields)
	if got := servertest.Text(chunks[2]); got != "one\ntwo" {
		t.Errorf("parts are echoed as %q", got)
	}
	plain := h.Complete(t, map[string]any{"echo": true})
	if s := *plain.Choices[0].Message.Content; strings.HasPrefix(s, "Hi") {
		t.Errorf("a user's message was echoed: %q", s)
	}
	// docs/interface/chat-completions.md, section 3.7: without a generation prompt the answer has the last message's role.
	c = h.Complete(t, map[string]any{"add_generation_prompt": false})
	if c.Choices[0].Message.Role != "user" {
		t.Errorf("role %q", c.Choices[0].Message.Role)
	}
}

func TestC143C144C145PrefixCache(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	long := servertest.UserSays(strings.Repeat("a b c d ", 20))
	cached := func(salt any, fields map[string]any, headers ...string) int {
		t.Helper()
		all := map[string]any{"messages": long, "max_tokens": 1, "cache_salt": salt}
		for k, v := range fields {
			all[k] = v
		}
		u := h.Complete(t, all, headers...).Usage
		if u.Details == nil {
			t.Fatal("cached_tokens is not reported")
		}
		if n := u.Details.Cached; n != 0 && n != (u.Prompt-1)/16*16 {
			t.Errorf("%d of %d tokens cached", n, u.Prompt)
		}
		return u.Details.Cached
	}
	for i, c := range []struct {
		salt any
		hit  bool
	}{{"A", false}, {"B", false}, {nil, false}, {"A", true}, {nil, true}, {servertest.Remove, true}} {
		if got := cached(c.salt, nil) > 0; got != c.hit {
			t.Errorf("request %d, salt %v: hit %v", i, c.salt, got)
		}
	}
	// The same salt in another project is a different namespace.
	if cached("A", nil, "Compat-Project: team/one") != 0 || cached(nil, nil, "Compat-Project: team/one") != 0 {
		t.Error("a project reads another one's cache")
	}
	if cached(nil, nil, "Compat-Project: team/one") == 0 {
		t.Error("a project does not find its own")
	}
	if cached(nil, map[string]any{"prompt_logprobs": 0}) != 0 {
		t.Error("C145: a request for prompt_logprobs read the cache")
	}
	if u := h.Complete(t, nil).Usage; u.Details.Cached != 0 {
		t.Errorf("fewer than 17 tokens: %+v", u)
	}
}

func TestC150C151Order(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		priority bool
		want     string
	}{{true, "1a 1b 3 5"}, {false, "5 1a 3 1b"}} {
		h := newServer(t, func(s *servertest.Setup) {
			s.Spec.MaxSeqs = 1
			s.Model.Priority, s.EngineConfig.Scheduler.Priority = c.priority, c.priority
		})
		gate := make(chan struct{})
		h.SetHook(func(call sim.Call, _ int) error {
			if call == sim.End { // the tokens of the step before have been sent
				<-gate
			}
			return nil
		})
		var wg sync.WaitGroup
		var order servertest.Buffer
		send := func(name string, priority int) {
			wg.Go(func() {
				if !c.priority {
					priority = 0
				}
				if status, answer := h.Chat(map[string]any{"priority": priority, "max_tokens": 2, "ignore_eos": true}); status != 200 {
					t.Errorf("%s: %d %s", name, status, answer)
				}
				fmt.Fprint(&order, name, " ")
			})
		}
		accepted := func(n int) {
			servertest.WaitFor(t, "requests at the engine", func() bool { return h.Log.Times(transport.LogSubmitted) >= n })
		}
		send("first", 0)
		accepted(1)
		for i, r := range []struct {
			name     string
			priority int
		}{{"5", 5}, {"1a", 1}, {"3", 3}, {"1b", 1}} {
			send(r.name, r.priority)
			accepted(i + 2)
		}
		for i := range 5 {
			gate <- struct{}{} // one slot, two tokens: two steps each
			gate <- struct{}{}
			servertest.WaitFor(t, "an answer", func() bool { return strings.Count(order.String(), " ") > i })
		}
		close(gate)
		wg.Wait()
		if got := strings.TrimSpace(strings.TrimPrefix(order.String(), "first ")); got != c.want {
			t.Errorf("priority %v: served %q, want %q", c.priority, got, c.want)
		}
	}
}

func TestC153Operational(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Config.Version = "1.2.3" })
	if status, answer, _ := h.Get("GET", "/health", ""); status != 200 || answer != "" {
		t.Errorf("/health: %d %q", status, answer)
	}
	if status, answer, _ := h.Get("GET", "/version", ""); status != 200 || answer != `{"version":"1.2.3"}` {
		t.Errorf("/version: %d %q", status, answer)
	}
	status, answer, header := h.Get("GET", "/v1/models", "")
	var list struct {
		Object string
		Data   []struct {
			ID, Root string
			MaxLen   int `json:"max_model_len"`
		}
	}
	if err := json.Unmarshal([]byte(answer), &list); err != nil || status != 200 || header.Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %v", status, header, err)
	}
	if got := fmt.Sprint(list); got != "{list [{tiny models/tiny 1024} {alias models/tiny 1024}]}" {
		t.Error(got)
	}
}

func TestC154EngineFailure(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	broken := errors.New("the device fell off")
	var steps atomic.Int32
	failAt := func(n int32) {
		steps.Store(0)
		h.SetHook(func(c sim.Call, _ int) error {
			if c == sim.End && steps.Add(1) == n {
				return broken
			}
			return nil
		})
	}
	// Before the first token: status 500, with and without a stream.
	for _, stream := range []bool{false, true} {
		failAt(1)
		status, answer := h.Chat(map[string]any{"stream": stream})
		if f := servertest.Refused(t, status, answer, 500, ""); f.Type != "InternalServerError" || f.Message != "Internal server error" {
			t.Error(answer)
		}
	}
	// Later: status 500 without a stream, an event with the error in a stream.
	failAt(3)
	status, answer := h.Chat(nil)
	servertest.Refused(t, status, answer, 500, "")
	failAt(3)
	status, answer = h.Chat(map[string]any{"stream": true, "stream_options": map[string]any{"include_usage": true}})
	body, ok := strings.CutSuffix(answer, "data: [DONE]\n\n")
	if status != 200 || !ok {
		t.Fatalf("%d %s", status, answer)
	}
	all := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	last := all[len(all)-1]
	if want := `data: {"error": {"message": "Internal server error", "type": "InternalServerError", "param": null, "code": 500}}`; last != want {
		t.Errorf("last event %s\nwant %s", last, want)
	}
	if len(all) != 1+2+1 || strings.Contains(body, `"usage"`) {
		t.Errorf("%d events, want a role, two tokens and the error: %s", len(all), body)
	}
	h.SetHook(nil)
	h.Complete(t, nil) // and the server goes on
}

// docs/interface/chat-completions.md, section 4.1: constraints that leave nothing to draw are an error, not a token.
func TestNoTokenLeft(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	word := servertest.Tokenizer().Text(700)
	ids := servertest.Encode(word, false)
	if len(ids) != 1 {
		t.Skipf("%q is %d tokens", word, len(ids))
	}
	status, answer := h.Chat(map[string]any{"allowed_token_ids": ids, "bad_words": []string{word}})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "leave no token") {
		t.Error(answer)
	}
}

// Two requests do not fit into the KV cache together: one waits, or is computed again, and
// both answers are the same as alone.
func TestC149Preemption(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Spec.NumBlocks = 45; s.Spec.MaxSeqTokens, s.Model.MaxLen = 512, 512 })
	fields := func(i int) map[string]any {
		return map[string]any{"messages": servertest.UserSays(fmt.Sprint("number ", i)), "max_tokens": 400, "ignore_eos": true, "return_token_ids": true, "cache_salt": fmt.Sprint(i)}
	}
	var want [2][]int32
	for i := range want {
		want[i] = h.Complete(t, fields(i)).Choices[0].TokenIDs
	}
	h.SetHook(func(c sim.Call, _ int) error { // both requests have to be in flight
		if c == sim.End {
			servertest.WaitFor(t, "both requests", func() bool { return h.Log.Times(transport.LogSubmitted) == 4 })
		}
		return nil
	})
	var wg sync.WaitGroup
	for i := range want {
		wg.Go(func() {
			var got []int32
			for _, c := range h.Streamed(t, fields(i)) {
				got = append(got, c.Choices[0].TokenIDs...)
			}
			if !slices.Equal(got, want[i]) {
				t.Errorf("request %d: %v\nalone %v", i, got, want[i])
			}
		})
	}
	wg.Wait()
	if n := h.Engine.Stats().Preemptions; n == 0 {
		t.Error("no request was preempted")
	}
}

// A prompt that takes several steps does not delay the tokens of a stream that is running.
func TestC152LongPromptArrives(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) { s.Spec.MaxTokens = 64 })
	gate := make(chan struct{})
	h.SetHook(func(c sim.Call, _ int) error {
		if c == sim.End {
			<-gate
		}
		return nil
	})
	var wg sync.WaitGroup
	wg.Go(func() { h.Complete(t, map[string]any{"max_tokens": 100, "ignore_eos": true}) })
	for range 10 {
		gate <- struct{}{}
	}
	wg.Go(func() {
		if u := h.Complete(t, map[string]any{"messages": servertest.UserSays(strings.Repeat("a b c d ", 70)), "max_tokens": 1}).Usage; u.Prompt < 4*64 {
			t.Errorf("only %d tokens of prompt", u.Prompt)
		}
	})
	servertest.WaitFor(t, "the second request", func() bool { return h.Log.Times(transport.LogSubmitted) == 2 })
	close(gate)
	wg.Wait()
	if n := h.Engine.Stats().Steps; n > 101 {
		t.Errorf("%d steps for a hundred tokens", n)
	}
}
