package openai_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"weir/chat/reasoning"
	"weir/server/servertest"
)

// logprob_token_ids: each entry has the token itself and then the named ones, with the
// values that a list of the whole vocabulary has of them.
func TestK23ChosenLogprobs(t *testing.T) {
	t.Parallel()
	for _, processed := range []bool{false, true} {
		h := newServer(t, func(s *servertest.Setup) { s.Config.MaxLogprobs, s.Config.ProcessedLogprobs = -1, processed })
		raw := newServer(t, func(s *servertest.Setup) { s.Config.MaxLogprobs = -1 })
		fields := map[string]any{"logprobs": true, "top_logprobs": -1, "return_tokens_as_token_ids": true, "return_token_ids": true, "temperature": 1, "seed": 3, "frequency_penalty": 1}
		whole := raw.Complete(t, fields).Choices[0]
		ids := []int{700, 5, int(whole.TokenIDs[1]), 5, 3583}
		fields["top_logprobs"], fields["logprob_token_ids"] = 0, ids
		chosen := h.Complete(t, fields).Choices[0]
		if len(chosen.Logprobs.Content) != len(whole.Logprobs.Content) {
			t.Fatalf("%d entries", len(chosen.Logprobs.Content))
		}
		for i, entry := range chosen.Logprobs.Content {
			want := map[string]float64{}
			for _, e := range whole.Logprobs.Content[i].Top {
				want[e.Token] = e.Logprob
			}
			names := namesOf(chosen.TokenIDs[i], 700, 5, whole.TokenIDs[1], 3583)
			if len(entry.Top) != len(names) {
				t.Fatalf("token %d: %+v, want %v", i, entry.Top, names)
			}
			for j, e := range entry.Top {
				if e.Token != names[j] || math.Abs(e.Logprob-want[names[j]]) > 1e-4 {
					t.Errorf("token %d: %s at %v, want %s at %v", i, e.Token, e.Logprob, names[j], want[names[j]])
				}
			}
		}
	}
}

// namesOf returns the names of a token and of others, each once.
func namesOf(own int32, others ...int32) []string {
	names := []string{fmt.Sprint("token_id:", own)}
	for _, id := range others {
		if id != own {
			names = append(names, fmt.Sprint("token_id:", id))
		}
	}
	return names
}

// In completions only what is generated has them. Too many, and unknown ones, are refused.
func TestK23ChosenLogprobsElsewhere(t *testing.T) {
	t.Parallel()
	h := newServer(t, nil)
	a := h.texts(t, map[string]any{"prompt": "Once upon", "logprobs": 0, "logprob_token_ids": []int{700, 5}, "echo": true, "return_tokens_as_token_ids": true})
	top := a.Choices[0].Logprobs.Top
	for i, e := range top {
		if _, has := e["token_id:700"]; has != (i >= len(top)-5) {
			t.Errorf("token %d: %v", i, e)
		}
	}
	for _, c := range []struct {
		ids  []int
		text string
	}{
		{make([]int, 129), "Requested logprob_token_ids of length 129, which is greater than max allowed: 128"},
		{[]int{5, 3584}, "token_id(s) [3584] in logprob_token_ids contain out-of-vocab token ids. Vocabulary size: 3584"},
		{[]int{-1}, "out-of-vocab"},
	} {
		status, answer := h.Chat(map[string]any{"logprobs": true, "logprob_token_ids": c.ids})
		if f := servertest.Refused(t, status, answer, 400, "logprob_token_ids"); !strings.Contains(f.Message, c.text) {
			t.Error(answer)
		}
	}
}

// A budget ends the thoughts after that many tokens, wherever they began, and what follows
// is content. What the prompt has of the thoughts counts.
func TestK24ThinkingTokenBudget(t *testing.T) {
	t.Parallel()
	never := map[string]any{"2": -100, "0": -100}
	h := newServer(t, nil)
	opening := newServer(t, withTemplate(openingTemplate, reasoning.Auto))
	for budget := range 6 {
		fields := map[string]any{"thinking_token_budget": budget, "max_tokens": 30, "ignore_eos": true, "logit_bias": never, "temperature": 1, "seed": budget, "return_token_ids": true, "n": 2}
		// The template opens the thoughts and adds a line feed, which is a token of them.
		for _, c := range opening.Complete(t, fields).Choices {
			if n := max(0, budget-1); !strings.HasPrefix(decode(c.TokenIDs[n:]), "</think>") || strings.Contains(decode(c.TokenIDs[:n]), "</think>") || c.Message.Content == nil {
				t.Errorf("budget %d: %q", budget, decode(c.TokenIDs))
			}
		}
		// Here the output itself does.
		open, ok := servertest.Tokenizer().ID("<think>")
		if !ok {
			t.Fatal("the bundled model cannot open its thoughts")
		}
		all := thinking(map[string]any{"thinking_token_budget": budget, "structured_outputs": map[string]any{"choice": []string{"yes", "no"}}, "return_token_ids": true, "max_tokens": 40,
			"logit_bias": map[string]any{fmt.Sprint(open): 50}, "frequency_penalty": 2})
		c := h.Complete(t, all).Choices[0]
		text := decode(c.TokenIDs)
		if c.Message.Content == nil || *c.Message.Content != "yes" && *c.Message.Content != "no" {
			t.Errorf("budget %d: %q", budget, text)
		}
	}
	// Without one, with -1, and where nothing is thought, nothing is forced.
	for _, budget := range []any{nil, -1} {
		fields := map[string]any{"thinking_token_budget": budget, "max_tokens": 30, "ignore_eos": true, "temperature": 1, "seed": 1, "return_token_ids": true}
		if got, want := opening.Complete(t, fields), opening.Complete(t, map[string]any{"max_tokens": 30, "ignore_eos": true, "temperature": 1, "seed": 1, "return_token_ids": true}); decode(got.Choices[0].TokenIDs) != decode(want.Choices[0].TokenIDs) {
			t.Errorf("%v: %q", budget, decode(got.Choices[0].TokenIDs))
		}
	}
	// Completions: the prompt says whether there are thoughts.
	for prompt, forced := range map[string]bool{"<think>a b c": true, "<think>a</think>b": false, "a b": false} {
		a := opening.texts(t, map[string]any{"prompt": prompt, "thinking_token_budget": 0, "max_tokens": 20, "ignore_eos": true, "skip_special_tokens": false})
		if got := strings.HasPrefix(a.Choices[0].Text, "</think>"); got != forced {
			t.Errorf("%q: %q", prompt, a.Choices[0].Text)
		}
	}
	none := newServer(t, withTemplate(openingTemplate, reasoning.None))
	status, answer := none.Chat(map[string]any{"thinking_token_budget": 5})
	if f := servertest.Refused(t, status, answer, 400, ""); !strings.Contains(f.Message, "thinking_token_budget is set, but") {
		t.Error(answer)
	}
	status, answer, _ = none.Get("POST", servertest.TextPath, servertest.TextBody(t, map[string]any{"thinking_token_budget": 5}))
	servertest.Refused(t, status, answer, 400, "")
}
