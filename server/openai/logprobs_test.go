package openai_test

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"testing"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
	"weir/models"
	"weir/server/servertest"
)

// Raw and processed log-probabilities (docs/interface/chat-completions.md, section 7.2) of
// the bundled model, computed on the CPU: the simulated backend has no distribution to
// process.

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

// TestLogprobsMode compares a server that returns log-probabilities after all changes by
// sampling parameters (processed) with one that returns the model's own (raw).
func TestLogprobsMode(t *testing.T) {
	t.Parallel()
	m := logprobsModes{raw: modelServer(t, false), processed: modelServer(t, true)}
	for name, c := range map[string]struct {
		fields map[string]any
		kept   int // tokens with a probability in each row, or someTokens or allTokens
	}{
		"top_k":       {map[string]any{"temperature": 1, "top_k": 7}, 7},
		"top_p":       {map[string]any{"temperature": 1.7, "top_p": 0.8}, someTokens},
		"min_p":       {map[string]any{"temperature": 2, "min_p": 0.01}, someTokens},
		"bias":        {map[string]any{"temperature": 0.7, "top_k": 30, "logit_bias": map[string]any{"700": 25, "701": 24.5}}, 30},
		"allowed":     {map[string]any{"temperature": 1, "allowed_token_ids": []int{700, 701, 1000}}, 3},
		"greedy":      {map[string]any{"temperature": 0, "top_k": 3, "frequency_penalty": 1, "allowed_token_ids": span(600, 700)}, 100},
		"penalties":   {map[string]any{"temperature": 1, "repetition_penalty": 1.5, "presence_penalty": 1}, allTokens},
		"bad words":   {map[string]any{"temperature": 0, "bad_words": []string{"The"}}, someTokens},
		"all at once": {map[string]any{"temperature": 1.3, "top_k": 50, "top_p": 0.9, "min_p": 0.001, "logit_bias": map[string]any{"700": 3}, "min_tokens": 3}, someTokens},
	} {
		t.Run(name, func(t *testing.T) { m.compare(t, c.fields, c.kept) })
	}
	t.Run("a bias shows in processed only", m.bias)
	t.Run("prompt_logprobs are raw in both", m.promptLogprobs)
}

// Numbers of tokens that keep a probability.
const (
	someTokens = 0  // at least one, but not all
	allTokens  = -1 // the whole vocabulary
)

// logprobsModes is a server of each mode, with the bundled model.
type logprobsModes struct{ raw, processed *testServer }

func modelServer(t *testing.T, processed bool) *testServer {
	return newServer(t, func(s *servertest.Setup) {
		withModel(t, s)
		s.Config.ProcessedLogprobs, s.Config.MaxLogprobs = processed, -1
	})
}

// askForAll sends a request for the log-probabilities of the whole vocabulary.
func askForAll(t *testing.T, h *testServer, fields map[string]any) *servertest.Completion {
	all := map[string]any{"messages": servertest.UserSays("What is the capital of France?"), "max_tokens": 4, "seed": 11,
		"logprobs": true, "top_logprobs": -1, "return_tokens_as_token_ids": true, "return_token_ids": true}
	maps.Copy(all, fields)
	return h.Complete(t, all)
}

// compare checks that the mode does not change the tokens, and that in both modes the
// probabilities of a row sum to 1, in processed mode over the tokens that are kept.
func (m *logprobsModes) compare(t *testing.T, fields map[string]any, kept int) {
	processed, raw := askForAll(t, m.processed, fields).Choices[0], askForAll(t, m.raw, fields).Choices[0]
	if g, w := fmt.Sprint(processed.TokenIDs), fmt.Sprint(raw.TokenIDs); g != w {
		t.Errorf("the mode changed the tokens: %s, raw %s", g, w)
	}
	for i, e := range processed.Logprobs.Content {
		row := probabilitiesOf(processed.Logprobs, i)
		if len(e.Top) != servertest.Vocabulary || row.different != servertest.Vocabulary {
			t.Errorf("token %d: %d alternatives, %d different", i, len(e.Top), row.different)
		}
		if math.Abs(row.sum-1) > 1e-4 {
			t.Errorf("token %d: the tokens kept have the probability %v", i, row.sum)
		}
		if !row.keeps(kept) {
			t.Errorf("token %d: %d tokens kept, want %d", i, row.kept, kept)
		}
		if e.Logprob <= -9999 || e.Top[0].Token != e.Token || e.Top[0].Logprob != e.Logprob {
			t.Errorf("token %d: %+v", i, e.Top[0])
		}
		if sum := probabilitiesOf(raw.Logprobs, i).sum; math.Abs(sum-1) > 1e-4 {
			t.Errorf("token %d: raw probabilities sum to %v", i, sum)
		}
	}
}

// rowProbabilities sums up the alternatives of one token.
type rowProbabilities struct {
	sum       float64
	kept      int // alternatives with a probability
	different int // alternatives with different names
}

func probabilitiesOf(l *servertest.Logprobs, token int) rowProbabilities {
	var r rowProbabilities
	seen := map[string]bool{}
	for _, a := range l.Content[token].Top {
		seen[a.Token] = true
		if a.Logprob > -9999 {
			r.kept++
			r.sum += math.Exp(a.Logprob)
		}
	}
	r.different = len(seen)
	return r
}

// keeps reports whether want tokens are kept.
func (r rowProbabilities) keeps(want int) bool {
	switch want {
	case someTokens:
		return r.kept >= 1 && r.kept < servertest.Vocabulary
	case allTokens:
		return r.kept == servertest.Vocabulary
	}
	return r.kept == want
}

// bias: with a bias of 100 two tokens have all the probability; in the raw distribution
// they are next to impossible.
func (m *logprobsModes) bias(t *testing.T) {
	bias := map[string]any{"temperature": 1, "logit_bias": map[string]any{"700": 100, "701": 100}, "max_tokens": 1}
	two := askForAll(t, m.processed, bias).Choices[0].Logprobs.Content[0]
	if p := math.Exp(two.Top[0].Logprob) + math.Exp(two.Top[1].Logprob); math.Abs(p-1) > 1e-4 {
		t.Errorf("biased tokens have the probability %v", p)
	}
	if e := askForAll(t, m.raw, bias).Choices[0].Logprobs.Content[0]; e.Logprob > -1 {
		t.Errorf("raw: the bias shows in %v", e.Logprob)
	}
}

// promptLogprobs: docs/interface/chat-completions.md, section 7.3.
func (m *logprobsModes) promptLogprobs(t *testing.T) {
	fields := map[string]any{"temperature": 1.5, "top_k": 2, "prompt_logprobs": 3, "max_tokens": 1}
	if a, b := fmt.Sprint(askForAll(t, m.processed, fields).PromptLogprobs), fmt.Sprint(askForAll(t, m.raw, fields).PromptLogprobs); a != b {
		t.Errorf("processed %s, raw %s", a, b)
	}
}

// Processed log-probabilities do not depend on the other requests of a batch.
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
			other := map[string]any{}
			for k, v := range fields {
				other[k] = v
			}
			if i%2 == 1 {
				other["seed"], other["top_p"], other["max_tokens"] = i, 0.5, 20
			}
			_, answer := h.Chat(other)
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
