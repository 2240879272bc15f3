package sampler

import (
	"errors"
	"fmt"
	"math"

	"weir/backend"
)

// ErrParams is wrapped by every error of Validate.
var ErrParams = errors.New("sampler: invalid parameters")

// TokenBias is one entry of logit_bias.
type TokenBias struct {
	Token int32
	Bias  float32 // [-100, 100]
}

// Params are one sequence's sampling choices. Slices are read by NewState and
// not kept; the caller may share them between the sequences of a request.
type Params struct {
	Temperature float32 // [0, 2]; 0 is greedy, values in (0, MinTemperature) are raised to it
	TopP        float32 // (0, 1]; 1 is off
	MinP        float32 // [0, 1]; 0 is off
	TopK        int     // at least -1; -1, 0 and values >= the vocabulary are off
	Seed        uint64

	Frequency  float32     // [-2, 2], per occurrence in the output
	Presence   float32     // [-2, 2], once if in the output
	Repetition float32     // > 0, a factor for tokens of prompt and output; 1 is off
	Bias       []TokenBias // of several entries for one token the last counts
	Allowed    []int32     // nil: all; empty is invalid
	BadWords   [][]int32   // token sequences, each not empty; a word's variants are entries of their own

	MinTokens int     // StopIDs are forbidden before so many output tokens
	StopIDs   []int32 // EOS, secondary EOS and the request's stop_token_ids

	Logprobs    backend.LogprobMode
	TopLogprobs int // at least -1; -1 is the whole vocabulary
}

// MinTemperature is what smaller positive temperatures are raised to, as the
// reference engine does: 1e-6 is not greedy.
const MinTemperature = 0.01

// DefaultParams is an unchanged softmax with seed 0.
func DefaultParams() Params { return Params{Temperature: 1, TopP: 1, Repetition: 1} }

// Validate checks the ranges for a model with vocab tokens. The server has
// answered 400 to all of this before; here it guards the engine.
func (p *Params) Validate(vocab int) error {
	within := func(name string, v, lo, hi float32) error {
		if !(v >= lo && v <= hi) { // NaN too
			return fmt.Errorf("%w: %s must be in [%g, %g], got %g", ErrParams, name, lo, hi, v)
		}
		return nil
	}
	ids := func(name string, tokens []int32) error {
		for _, t := range tokens {
			if t < 0 || int(t) >= vocab {
				return fmt.Errorf("%w: %s contains token %d, the vocabulary has %d", ErrParams, name, t, vocab)
			}
		}
		return nil
	}
	for _, err := range []error{
		within("temperature", p.Temperature, 0, 2),
		within("top_p", p.TopP, 0, 1),
		within("min_p", p.MinP, 0, 1),
		within("frequency_penalty", p.Frequency, -2, 2),
		within("presence_penalty", p.Presence, -2, 2),
		within("repetition_penalty", p.Repetition, 0, math.MaxFloat32),
		ids("allowed_token_ids", p.Allowed),
		ids("stop_token_ids", p.StopIDs),
	} {
		if err != nil {
			return err
		}
	}
	switch {
	case p.TopP == 0:
		return fmt.Errorf("%w: top_p must be greater than 0", ErrParams)
	case p.Repetition == 0:
		return fmt.Errorf("%w: repetition_penalty must be greater than 0", ErrParams)
	case p.TopK < -1:
		return fmt.Errorf("%w: top_k must be -1, 0 or positive, got %d", ErrParams, p.TopK)
	case p.Allowed != nil && len(p.Allowed) == 0:
		return fmt.Errorf("%w: allowed_token_ids is empty", ErrParams)
	case p.MinTokens < 0:
		return fmt.Errorf("%w: min_tokens must not be negative, got %d", ErrParams, p.MinTokens)
	case p.Logprobs > backend.ProcessedLogprobs:
		return fmt.Errorf("%w: log-probability mode %d", ErrParams, p.Logprobs)
	case p.TopLogprobs < -1 || p.TopLogprobs > vocab:
		return fmt.Errorf("%w: top_logprobs must be in [-1, %d], got %d", ErrParams, vocab, p.TopLogprobs)
	case p.TopLogprobs != 0 && p.Logprobs == backend.NoLogprobs:
		return fmt.Errorf("%w: top_logprobs without logprobs", ErrParams)
	}
	for _, b := range p.Bias {
		if b.Token < 0 || int(b.Token) >= vocab {
			return fmt.Errorf("%w: logit_bias contains token %d, the vocabulary has %d", ErrParams, b.Token, vocab)
		}
		if err := within("logit_bias", b.Bias, -100, 100); err != nil {
			return err
		}
	}
	for _, w := range p.BadWords {
		if len(w) == 0 {
			return fmt.Errorf("%w: bad_words contains an empty sequence", ErrParams)
		}
		if err := ids("bad_words", w); err != nil {
			return err
		}
	}
	return nil
}
