package sampler

import (
	"cmp"
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

// Params are the sampling fields of one sequence. NewState reads the slices and does
// not keep them, so the sequences of a request may share them. p.Prepare and p.PrepareFor
// let many sequences share what is made of them.
type Params struct {
	Temperature float32 // [0, 2]; 0 is greedy, values in (0, MinTemperature) are raised to it
	TopP        float32 // (0, 1]; 1 is off
	MinP        float32 // [0, 1]; 0 is off
	TopK        int     // at least -1; -1, 0 and values >= the vocabulary are off
	Seed        uint64

	Frequency  float32     // [-2, 2], subtracted for each occurrence in the output
	Presence   float32     // [-2, 2], subtracted once if the token is in the output
	Repetition float32     // > 0, a factor for tokens of prompt and output; 1 is off
	Bias       []TokenBias // if a token has several entries, the last one counts
	Allowed    []int32     // the only tokens that may be drawn; nil: all; empty is invalid
	BadWords   [][]int32   // token sequences that may not be drawn, none empty

	MinTokens int     // StopIDs are forbidden until the output has this many tokens
	StopIDs   []int32 // the end-of-sequence tokens and the request's stop_token_ids

	Logprobs    backend.LogprobMode
	TopLogprobs int // number of best tokens to report; -1 is the whole vocabulary

	shared *shared // made by Prepare; nil: NewState makes it
	edits  *edits  // made by PrepareFor; nil: NewState makes them
}

// shared is what all sequences with the same parameters have in common.
type shared struct {
	vocab int
	bans  *bans
	edits *edits   // nil: they depend on the prompt
	allow []uint32 // mask row of the allowed tokens; nil: all
}

// Prepare makes what all states of the same parameters share, so that neither NewState nor
// PrepareFor need make it again for copies of p. The slices of p must not be changed
// afterwards, nor MinTokens.
func (p *Params) Prepare(vocab int) {
	if p.shared != nil && p.shared.vocab == vocab {
		return
	}
	p.shared = &shared{vocab: vocab, bans: newBans(p)}
	if p.Repetition == 1 {
		p.shared.edits = newEdits(p, vocab, nil, p.shared.bans)
	}
	if p.Allowed == nil {
		return
	}
	p.shared.allow = make([]uint32, (vocab+31)/32)
	for _, t := range p.Allowed {
		p.shared.allow[t/32] |= 1 << (t % 32)
	}
}

// PrepareFor is Prepare, and makes what the states share that have the same prompt, too. With
// many biases or a long prompt, that is most of a state.
func (p *Params) PrepareFor(vocab int, prompt []int32) {
	p.Prepare(vocab)
	if p.edits = p.shared.edits; p.edits == nil {
		p.edits = newEdits(p, vocab, prompt, p.shared.bans)
	}
}

// MinTemperature is what smaller positive temperatures are raised to, as in vLLM: a
// temperature of 1e-6 is not greedy.
const MinTemperature = 0.01

// DefaultParams draws from the unchanged softmax, with seed 0.
func DefaultParams() Params { return Params{Temperature: 1, TopP: 1, Repetition: 1} }

// Validate checks the ranges for a model with vocab tokens. The server answers 400
// to all of these before; here they are checked to protect the engine. Every error
// wraps ErrParams.
func (p *Params) Validate(vocab int) error {
	return cmp.Or(p.checkFilters(), p.checkPenalties(vocab), p.checkTokens(vocab), p.checkLogprobs(vocab))
}

func (p *Params) checkFilters() error {
	switch {
	case p.TopP == 0:
		return fmt.Errorf("%w: top_p must be greater than 0", ErrParams)
	case p.TopK < -1:
		return fmt.Errorf("%w: top_k must be -1, 0 or positive, got %d", ErrParams, p.TopK)
	}
	return cmp.Or(
		checkRange("temperature", p.Temperature, 0, 2),
		checkRange("top_p", p.TopP, 0, 1),
		checkRange("min_p", p.MinP, 0, 1),
	)
}

func (p *Params) checkPenalties(vocab int) error {
	if p.Repetition == 0 {
		return fmt.Errorf("%w: repetition_penalty must be greater than 0", ErrParams)
	}
	for _, b := range p.Bias {
		if b.Token < 0 || int(b.Token) >= vocab {
			return fmt.Errorf("%w: logit_bias contains token %d, the vocabulary has %d", ErrParams, b.Token, vocab)
		}
		if err := checkRange("logit_bias", b.Bias, -100, 100); err != nil {
			return err
		}
	}
	return cmp.Or(
		checkRange("frequency_penalty", p.Frequency, -2, 2),
		checkRange("presence_penalty", p.Presence, -2, 2),
		checkRange("repetition_penalty", p.Repetition, 0, math.MaxFloat32),
	)
}

func (p *Params) checkTokens(vocab int) error {
	switch {
	case p.Allowed != nil && len(p.Allowed) == 0:
		return fmt.Errorf("%w: allowed_token_ids is empty", ErrParams)
	case p.MinTokens < 0:
		return fmt.Errorf("%w: min_tokens must not be negative, got %d", ErrParams, p.MinTokens)
	}
	for _, w := range p.BadWords {
		if len(w) == 0 {
			return fmt.Errorf("%w: bad_words contains an empty sequence", ErrParams)
		}
		if err := checkIDs("bad_words", w, vocab); err != nil {
			return err
		}
	}
	return cmp.Or(checkIDs("allowed_token_ids", p.Allowed, vocab), checkIDs("stop_token_ids", p.StopIDs, vocab))
}

func (p *Params) checkLogprobs(vocab int) error {
	switch {
	case p.Logprobs > backend.ProcessedLogprobs:
		return fmt.Errorf("%w: unknown log-probability mode %d", ErrParams, p.Logprobs)
	case p.TopLogprobs < -1 || p.TopLogprobs > vocab:
		return fmt.Errorf("%w: top_logprobs must be in [-1, %d], got %d", ErrParams, vocab, p.TopLogprobs)
	case p.TopLogprobs != 0 && p.Logprobs == backend.NoLogprobs:
		return fmt.Errorf("%w: top_logprobs without logprobs", ErrParams)
	}
	return nil
}

// checkRange refuses NaN, too.
func checkRange(name string, v, lo, hi float32) error {
	if !(v >= lo && v <= hi) {
		return fmt.Errorf("%w: %s must be in [%g, %g], got %g", ErrParams, name, lo, hi, v)
	}
	return nil
}

func checkIDs(name string, tokens []int32, vocab int) error {
	for _, t := range tokens {
		if t < 0 || int(t) >= vocab {
			return fmt.Errorf("%w: %s contains token %d, the vocabulary has %d", ErrParams, name, t, vocab)
		}
	}
	return nil
}
