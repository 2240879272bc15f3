package sampler

import (
	"errors"
	"math"
	"testing"

	"weir/backend"
)

// TestValidate: the rules name their section and their conformance row in
// docs/interface/chat-completions.md.
func TestValidate(t *testing.T) {
	const v = 100
	for _, c := range []struct {
		rule string
		edit func(*Params)
		ok   bool
	}{
		{"defaults", func(p *Params) {}, true},
		{"4.2 C30 temperature -0.1", func(p *Params) { p.Temperature = -0.1 }, false},
		{"4.2 temperature 0", func(p *Params) { p.Temperature = 0 }, true},
		{"4.2 temperature -0", func(p *Params) { p.Temperature = float32(math.Copysign(0, -1)) }, true},
		{"4.2 temperature 1e-6", func(p *Params) { p.Temperature = 1e-6 }, true},
		{"4.2 C31 temperature 2", func(p *Params) { p.Temperature = 2 }, true},
		{"4.2 C31 temperature 2.1", func(p *Params) { p.Temperature = 2.1 }, false},
		{"4.2 temperature NaN", func(p *Params) { p.Temperature = notANumber }, false},
		{"4.2 temperature Inf", func(p *Params) { p.Temperature = positiveInf }, false},
		{"4.4 C32 top_p 0", func(p *Params) { p.TopP = 0 }, false},
		{"4.4 C32 top_p -1", func(p *Params) { p.TopP = -1 }, false},
		{"4.4 C32 top_p 1.01", func(p *Params) { p.TopP = 1.01 }, false},
		{"4.4 C32 top_p 0.0001", func(p *Params) { p.TopP = 0.0001 }, true},
		{"4.4 C33 top_k -2", func(p *Params) { p.TopK = -2 }, false},
		{"4.4 C33 top_k -1", func(p *Params) { p.TopK = -1 }, true},
		{"4.4 C33 top_k 0", func(p *Params) { p.TopK = 0 }, true},
		{"4.4 C33 top_k 10^9", func(p *Params) { p.TopK = 1e9 }, true},
		{"4.4 C34 min_p -0.1", func(p *Params) { p.MinP = -0.1 }, false},
		{"4.4 C34 min_p 1", func(p *Params) { p.MinP = 1 }, true},
		{"4.4 C34 min_p 1.1", func(p *Params) { p.MinP = 1.1 }, false},
		{"4.4 min_p NaN", func(p *Params) { p.MinP = notANumber }, false},
		{"4.6 C35 frequency 2", func(p *Params) { p.Frequency = 2 }, true},
		{"4.6 C35 frequency -2.1", func(p *Params) { p.Frequency = -2.1 }, false},
		{"4.6 C35 presence -2", func(p *Params) { p.Presence = -2 }, true},
		{"4.6 C35 presence 2.1", func(p *Params) { p.Presence = 2.1 }, false},
		{"4.6 C36 repetition 0", func(p *Params) { p.Repetition = 0 }, false},
		{"4.6 C36 repetition -1", func(p *Params) { p.Repetition = -1 }, false},
		{"4.6 C36 repetition 0.5", func(p *Params) { p.Repetition = 0.5 }, true},
		{"4.6 C36 repetition 50", func(p *Params) { p.Repetition = 50 }, true},
		{"4.6 repetition Inf", func(p *Params) { p.Repetition = positiveInf }, false},
		{"4.5 logit_bias 100", func(p *Params) { p.Bias = []TokenBias{{99, 100}} }, true},
		{"4.5 logit_bias 101", func(p *Params) { p.Bias = []TokenBias{{0, 101}} }, false},
		{"4.5 logit_bias NaN", func(p *Params) { p.Bias = []TokenBias{{0, notANumber}} }, false},
		{"4.5 C47 logit_bias of token V", func(p *Params) { p.Bias = []TokenBias{{v, 1}} }, false},
		{"4.5 logit_bias of token -1", func(p *Params) { p.Bias = []TokenBias{{-1, 1}} }, false},
		{"4.5 C48 allowed_token_ids []", func(p *Params) { p.Allowed = []int32{} }, false},
		{"4.5 C48 allowed_token_ids [V]", func(p *Params) { p.Allowed = []int32{v} }, false},
		{"4.5 allowed_token_ids [7]", func(p *Params) { p.Allowed = []int32{7} }, true},
		{"4.5 C49 empty bad word", func(p *Params) { p.BadWords = [][]int32{{}} }, false},
		{"4.5 bad word outside", func(p *Params) { p.BadWords = [][]int32{{1, v}} }, false},
		{"4.5 bad word", func(p *Params) { p.BadWords = [][]int32{{1, 2}} }, true},
		{"5.3 min_tokens -1", func(p *Params) { p.MinTokens = -1 }, false},
		{"5.2 stop_token_ids outside", func(p *Params) { p.StopIDs = []int32{v} }, false},
		{"7.1 top_logprobs 20", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, 20 }, true},
		{"7.1 top_logprobs -1", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, -1 }, true},
		{"7.1 C50 top_logprobs -2", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, -2 }, false},
		{"7.1 C50 top_logprobs without logprobs", func(p *Params) { p.TopLogprobs = 1 }, false},
		{"7.1 top_logprobs beyond V", func(p *Params) { p.Logprobs, p.TopLogprobs = backend.RawLogprobs, v+1 }, false},
		{"unknown mode", func(p *Params) { p.Logprobs = 3 }, false},
	} {
		p := DefaultParams()
		c.edit(&p)
		err := p.Validate(v)
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", c.rule, err)
		}
		if err != nil && !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v is not ErrParams", c.rule, err)
		}
	}
}
