package openai_test

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
	"weir/models"
	"weir/server/servertest"
)

// docs/interface/chat-completions.md, section 7.2, logprobs-mode: over the bundled model, on its own device.

// withModel puts the bundled model in place of the simulator.
func withModel(t *testing.T, s *servertest.Setup) {
	t.Helper()
	m, err := model.OpenFS(models.Bundled())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	s.Open = func() (backend.Backend, error) {
		cfg := cpu.Default()
		cfg.Threads = 1
		dev, err := cpu.Open(cfg)
		if err != nil {
			return nil, err
		}
		return model.NewRunner(context.Background(), dev, m, model.Options{BlockTokens: 16, NumBlocks: 100, MaxTokens: 256, MaxSeqs: 8, MaxSeqTokens: 1024})
	}
}

func TestLogprobsMode(t *testing.T) {
	t.Parallel()
	serve := func(processed bool) *testServer {
		return newServer(t, func(s *servertest.Setup) {
			withModel(t, s)
			s.Config.ProcessedLogprobs, s.Config.MaxLogprobs = processed, -1
		})
	}
	raw, processed := serve(false), serve(true)
	ask := func(h *testServer, fields map[string]any) *servertest.Completion {
		all := map[string]any{"messages": servertest.UserSays("What is the capital of France?"), "max_tokens": 4, "seed": 11,
			"logprobs": true, "top_logprobs": -1, "return_tokens_as_token_ids": true, "return_token_ids": true}
		for k, v := range fields {
			all[k] = v
		}
		return h.Complete(t, all)
	}
	for name, c := range map[string]struct {
		fields map[string]any
		kept   int // tokens with a probability in each row; 0: some, but not all; -1: all
	}{
		"top_k":       {map[string]any{"temperature": 1, "top_k": 7}, 7},
		"top_p":       {map[string]any{"temperature": 1.7, "top_p": 0.8}, 0},
		"min_p":       {map[string]any{"temperature": 2, "min_p": 0.01}, 0},
		"bias":        {map[string]any{"temperature": 0.7, "top_k": 30, "logit_bias": map[string]any{"700": 25, "701": 24.5}}, 30},
		"allowed":     {map[string]any{"temperature": 1, "allowed_token_ids": []int{700, 701, 1000}}, 3},
		"greedy":      {map[string]any{"temperature": 0, "top_k": 3, "frequency_penalty": 1, "allowed_token_ids": span(600, 700)}, 100},
		"penalties":   {map[string]any{"temperature": 1, "repetition_penalty": 1.5, "presence_penalty": 1}, -1},
		"bad words":   {map[string]any{"temperature": 0, "bad_words": []string{"The"}}, 0},
		"all at once": {map[string]any{"temperature": 1.3, "top_k": 50, "top_p": 0.9, "min_p": 0.001, "logit_bias": map[string]any{"700": 3}, "min_tokens": 3}, 0},
	} {
		got, plain := ask(processed, c.fields), ask(raw, c.fields)
		if g, w := fmt.Sprint(got.Choices[0].TokenIDs), fmt.Sprint(plain.Choices[0].TokenIDs); g != w {
			t.Errorf("%s: the mode changed the tokens: %s, raw %s", name, g, w)
		}
		for i, e := range got.Choices[0].Logprobs.Content {
			sum, kept, seen := 0.0, 0, map[string]bool{}
			for _, a := range e.Top {
				seen[a.Token] = true
				if a.Logprob > -9999 {
					kept++
					sum += math.Exp(a.Logprob)
				}
			}
			if len(e.Top) != servertest.Vocabulary || len(seen) != servertest.Vocabulary {
				t.Errorf("%s, token %d: %d alternatives, %d different", name, i, len(e.Top), len(seen))
			}
			if math.Abs(sum-1) > 1e-4 {
				t.Errorf("%s, token %d: the tokens kept have the probability %v", name, i, sum)
			}
			if c.kept > 0 && kept != c.kept || c.kept == 0 && (kept < 1 || kept >= servertest.Vocabulary) || c.kept < 0 && kept != servertest.Vocabulary {
				t.Errorf("%s, token %d: %d tokens kept, want %d", name, i, kept, c.kept)
			}
			if e.Logprob <= -9999 || e.Top[0].Token != e.Token || e.Top[0].Logprob != e.Logprob {
				t.Errorf("%s, token %d: %+v", name, i, e.Top[0])
			}
			rawSum := 0.0
			for _, a := range plain.Choices[0].Logprobs.Content[i].Top {
				rawSum += math.Exp(a.Logprob)
			}
			if math.Abs(rawSum-1) > 1e-4 {
				t.Errorf("%s, token %d: raw probabilities sum to %v", name, i, rawSum)
			}
		}
	}
	// The bias shows: raw, the two tokens are next to impossible.
	bias := map[string]any{"temperature": 1, "logit_bias": map[string]any{"700": 100, "701": 100}, "max_tokens": 1}
	two := ask(processed, bias).Choices[0].Logprobs.Content[0]
	if p := math.Exp(two.Top[0].Logprob) + math.Exp(two.Top[1].Logprob); math.Abs(p-1) > 1e-4 {
		t.Errorf("biased tokens have the probability %v", p)
	}
	if e := ask(raw, bias).Choices[0].Logprobs.Content[0]; e.Logprob > -1 {
		t.Errorf("raw: the bias shows in %v", e.Logprob)
	}
	// prompt_logprobs are the model's own in both modes (docs/interface/chat-completions.md, section 7.3).
	own := map[string]any{"temperature": 1.5, "top_k": 2, "prompt_logprobs": 3, "max_tokens": 1}
	if a, b := fmt.Sprint(ask(processed, own).PromptLogprobs), fmt.Sprint(ask(raw, own).PromptLogprobs); a != b {
		t.Errorf("prompt_logprobs: %s, raw %s", a, b)
	}
}

// Processed log-probabilities do not depend on who else is computed.
func TestProcessedLogprobsAreBatchInvariant(t *testing.T) {
	t.Parallel()
	h := newServer(t, func(s *servertest.Setup) {
		withModel(t, s)
		s.Config.ProcessedLogprobs = true
	})
	fields := map[string]any{"messages": servertest.UserSays("Tell me a story about a robot."), "max_tokens": 12, "temperature": 0.9, "top_p": 0.9, "top_k": 40,
		"repetition_penalty": 1.1, "seed": 5, "logprobs": true, "top_logprobs": 20}
	want := fmt.Sprint(*h.Complete(t, fields).Choices[0].Logprobs)
	var wg sync.WaitGroup
	for i := range 6 {
		wg.Go(func() {
			mate := map[string]any{}
			for k, v := range fields {
				mate[k] = v
			}
			if i%2 == 1 {
				mate["seed"], mate["top_p"], mate["max_tokens"] = i, 0.5, 20
			}
			_, answer := h.Chat(mate)
			if i%2 == 0 {
				c := servertest.CompletionOf(t, answer)
				if got := fmt.Sprint(*c.Choices[0].Logprobs); got != want {
					t.Errorf("among others\n%s\nalone\n%s", got, want)
				}
			}
		})
	}
	wg.Wait()
}
