package api

import (
	"fmt"
	"strings"
)

// CheckSampling returns the first violation of the checks 11 and 12 of
// docs/interface/chat-completions.md, section 1.2, that needs neither the model nor the
// server's settings. It reads nothing but the request, so it comes before the prompt is
// rendered and tokenized, which takes longer; if both fail, the answer is this one.
//
// Whoever fills in the model's defaults has to look again at what depends on
// them: ErrGreedyN, ErrMinTokens, ErrMaxTokens.
func (r *Options) CheckSampling() *Error {
	switch {
	case r.N < 1:
		return outOfRange("n must be at least 1, got %d.", r.N)
	case r.late.choices != nil:
		return r.late.choices
	case outside(r.PresencePenalty, -2, 2):
		return outOfRange("presence_penalty must be in [-2, 2], got %s.", pythonFloat(r.PresencePenalty))
	case outside(r.FrequencyPenalty, -2, 2):
		return outOfRange("frequency_penalty must be in [-2, 2], got %s.", pythonFloat(r.FrequencyPenalty))
	case r.RepetitionPenalty != nil && *r.RepetitionPenalty <= 0:
		return outOfRange("repetition_penalty must be greater than zero, got %s.", pythonFloat(*r.RepetitionPenalty))
	case r.Temperature != nil && *r.Temperature < 0:
		return newError(causeTemperature, "temperature must be non-negative, got "+pythonFloat(*r.Temperature)+".", *r.Temperature)
	case r.Temperature != nil && *r.Temperature > 2:
		return newError(causeTemperature, "temperature must be in [0, 2], got "+pythonFloat(*r.Temperature)+".", *r.Temperature)
	case r.TopP != nil && !(*r.TopP > 0 && *r.TopP <= 1):
		return newError(causeTopP, "top_p must be in (0, 1], got "+pythonFloat(*r.TopP)+".", *r.TopP)
	case r.TopK != nil && *r.TopK < -1:
		return outOfRange("top_k must be 0 (disable), or at least 1, got %d.", *r.TopK)
	case r.MinP != nil && outside(*r.MinP, 0, 1):
		return outOfRange("min_p must be in [0, 1], got %s.", pythonFloat(*r.MinP))
	}
	if err := r.checkLengths(); err != nil {
		return err
	}
	switch {
	case r.Temperature != nil && *r.Temperature == 0 && r.N > 1:
		return ErrGreedyN(r.N)
	case hasBlank(r.Stop, ""):
		return outOfRange("stop cannot contain an empty string.")
	case hasBlank(r.BadWords, whiteSpace):
		return outOfRange("bad_words cannot contain an empty string.")
	case r.late.bias != nil:
		return r.late.bias
	case r.AllowedTokenIDs != nil && len(r.AllowedTokenIDs) == 0:
		return newError(causeAllowed, "allowed_token_ids is not None and empty!", r.AllowedTokenIDs)
	}
	return r.late.constraint
}

func (r *Options) checkLengths() *Error {
	tokens, limited := r.MaxOutput()
	switch {
	case limited && tokens < 1:
		return ErrMaxTokens(tokens)
	case r.MinTokens < 0:
		return newError(causeMinTokens, fmt.Sprintf("min_tokens must be greater than or equal to 0, got %d.", r.MinTokens), nil)
	case limited && r.MinTokens > tokens:
		return ErrMinTokens(tokens, r.MinTokens)
	}
	return nil
}

func outOfRange(format string, args ...any) *Error {
	return newError(causeRange, fmt.Sprintf(format, args...), nil)
}

func outside(x, low, high float64) bool { return !(x >= low && x <= high) }

// whiteSpace is what is stripped from a bad word before it is tokenized: of a
// word of nothing else no token is left to ban.
const whiteSpace = " \t\n\v\f\r"

func hasBlank(list []string, space string) bool {
	for _, s := range list {
		if strings.Trim(s, space) == "" {
			return true
		}
	}
	return false
}
