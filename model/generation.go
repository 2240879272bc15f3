package model

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// GenerationDefaults is what a checkpoint's generation_config.json proposes for
// requests that leave a parameter out. A field is nil if the file does not have it.
type GenerationDefaults struct {
	Temperature       *float32 // >= 0
	TopP              *float32 // (0, 1]
	MinP              *float32 // [0, 1]
	RepetitionPenalty *float32 // > 0
	TopK              *int     // >= 0; 0 is off
	MaxNewTokens      *int     // >= 1
	EOS               []int32  // ends of a sequence; those of config.json if this file has none
}

// ParseGeneration reads a generation_config.json. If b is empty, the result has only
// the end tokens of c. Fields beyond those of GenerationDefaults, such as those of beam
// search, are ignored. So is do_sample, as in vLLM, because a request asks for greedy
// decoding by its temperature.
func ParseGeneration(b []byte, c Config) (GenerationDefaults, error) {
	var raw rawGeneration
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: generation_config.json: %s", ErrConfig, fmt.Sprintf(format, args...))
	}
	if len(b) > 0 {
		if err := unmarshal(b, &raw); err != nil {
			return GenerationDefaults{}, bad("%v", err)
		}
	}
	return raw.defaults(c, bad)
}

// rawGeneration is what a file says.
type rawGeneration struct {
	Temperature       *float32 `json:"temperature"`
	TopP              *float32 `json:"top_p"`
	MinP              *float32 `json:"min_p"`
	RepetitionPenalty *float32 `json:"repetition_penalty"`
	TopK              *int     `json:"top_k"`
	MaxNewTokens      *int     `json:"max_new_tokens"`
	EOS               tokenIDs `json:"eos_token_id"`
}

// defaults checks what a file says; bad makes the error for it.
func (raw *rawGeneration) defaults(c Config, bad func(format string, args ...any) error) (GenerationDefaults, error) {
	within := func(v *float32, low, high float64) bool {
		return v == nil || float64(*v) >= low && float64(*v) <= high
	}
	const tiny = math.SmallestNonzeroFloat32 // (0, ...
	var err error
	switch {
	case !within(raw.Temperature, 0, math.MaxFloat32):
		err = bad("temperature %v is negative", *raw.Temperature)
	case !within(raw.TopP, tiny, 1):
		err = bad("top_p %v is not in (0, 1]", *raw.TopP)
	case !within(raw.MinP, 0, 1):
		err = bad("min_p %v is not in [0, 1]", *raw.MinP)
	case !within(raw.RepetitionPenalty, tiny, math.MaxFloat32):
		err = bad("repetition_penalty %v is not positive", *raw.RepetitionPenalty)
	case raw.TopK != nil && *raw.TopK < -1:
		err = bad("top_k %d is below -1", *raw.TopK)
	case raw.MaxNewTokens != nil && *raw.MaxNewTokens < 1:
		err = bad("max_new_tokens %d is not positive", *raw.MaxNewTokens)
	}
	if err != nil {
		return GenerationDefaults{}, err
	}
	if err := raw.EOS.check(c.VocabSize); err != nil {
		return GenerationDefaults{}, bad("%v", err)
	}
	if raw.TopK != nil && *raw.TopK == -1 { // another value for "off"
		raw.TopK = new(0)
	}
	if raw.EOS == nil {
		raw.EOS = c.EOS
	}
	return GenerationDefaults{
		Temperature: raw.Temperature, TopP: raw.TopP, MinP: raw.MinP, RepetitionPenalty: raw.RepetitionPenalty,
		TopK: raw.TopK, MaxNewTokens: raw.MaxNewTokens, EOS: raw.EOS,
	}, nil
}

// Override returns d with the values of over in place of its own, as far as over has them.
// The end tokens remain those of d, and those of over are added to them.
func (d GenerationDefaults) Override(over GenerationDefaults) GenerationDefaults {
	d.Temperature = cmp.Or(over.Temperature, d.Temperature)
	d.TopP = cmp.Or(over.TopP, d.TopP)
	d.MinP = cmp.Or(over.MinP, d.MinP)
	d.RepetitionPenalty = cmp.Or(over.RepetitionPenalty, d.RepetitionPenalty)
	d.TopK = cmp.Or(over.TopK, d.TopK)
	d.MaxNewTokens = cmp.Or(over.MaxNewTokens, d.MaxNewTokens)
	d.EOS = slices.Concat(d.EOS, over.EOS)
	return d
}
