package api

import "weir/internal/jsontext"

// Rendered is a prompt that would be generated from, in the terms of the
// reference engine's tokens-in request, which POST /v1/chat/completions/render
// and POST /v1/completions/render answer with. Routers read token_ids from it,
// to know where a prefix is cached.
type Rendered struct {
	RequestID        string              `json:"request_id"`
	TokenIDs         []int32             `json:"token_ids"`
	Features         *struct{}           `json:"features"` // of media: none
	Sampling         RenderedSampling    `json:"sampling_params"`
	Model            string              `json:"model"`
	Stream           bool                `json:"stream"`
	StreamOptions    *RenderedStream     `json:"stream_options"`
	CacheSalt        *string             `json:"cache_salt"`
	Priority         int                 `json:"priority"`
	KVTransferParams jsontext.RawMessage `json:"kv_transfer_params"` // nil: null
}

// RenderedStream is stream_options with its defaults filled in.
type RenderedStream struct {
	IncludeUsage    bool `json:"include_usage"`
	ContinuousUsage bool `json:"continuous_usage_stats"`
}

// RenderedSampling are the sampling parameters with the model's defaults filled in.
type RenderedSampling struct {
	N                    int                `json:"n"`
	Temperature          float64            `json:"temperature"`
	TopP                 float64            `json:"top_p"`
	TopK                 int                `json:"top_k"`
	MinP                 float64            `json:"min_p"`
	Presence             float64            `json:"presence_penalty"`
	Frequency            float64            `json:"frequency_penalty"`
	Repetition           float64            `json:"repetition_penalty"`
	Seed                 *int               `json:"seed"`
	Stop                 []string           `json:"stop"`
	StopTokenIDs         []int              `json:"stop_token_ids"`
	IncludeStop          bool               `json:"include_stop_str_in_output"`
	IgnoreEOS            bool               `json:"ignore_eos"`
	MaxTokens            int                `json:"max_tokens"`
	MinTokens            int                `json:"min_tokens"`
	Logprobs             *int               `json:"logprobs"`
	PromptLogprobs       *int               `json:"prompt_logprobs"`
	LogitBias            map[string]float64 `json:"logit_bias"`
	AllowedTokenIDs      []int              `json:"allowed_token_ids"`
	BadWords             []string           `json:"bad_words"`
	SkipSpecialTokens    bool               `json:"skip_special_tokens"`
	SpacesBetweenSpecial bool               `json:"spaces_between_special_tokens"`

	StructuredOutputs   *RenderedConstraint `json:"structured_outputs"`
	RepetitionDetection *RenderedRepetition `json:"repetition_detection"`
	LogprobTokenIDs     []int               `json:"logprob_token_ids"` // nil: null
	ThinkingBudget      *int                `json:"thinking_token_budget"`
	StreamInterval      *int                `json:"stream_interval"`
}

// RenderedConstraint is a constraint in the terms of structured_outputs, also if it came as
// response_format. One of its first six members is not null.
type RenderedConstraint struct {
	JSON                        jsontext.RawMessage `json:"json"` // nil: null
	Regex                       *string             `json:"regex"`
	Choice                      []string            `json:"choice"` // nil: null
	Grammar                     *string             `json:"grammar"`
	JSONObject                  *bool               `json:"json_object"`
	StructuralTag               *string             `json:"structural_tag"` // a JSON text
	DisableAnyWhitespace        bool                `json:"disable_any_whitespace"`
	DisableAdditionalProperties bool                `json:"disable_additional_properties"`
	WhitespacePattern           *string             `json:"whitespace_pattern"`
}

// RenderedRepetition is repetition_detection with its defaults filled in.
type RenderedRepetition struct {
	MaxSize int `json:"max_pattern_size"`
	MinSize int `json:"min_pattern_size"`
	Count   int `json:"min_count"`
}

// Render returns the constraint as a request would send it; nil for nil.
func (c *Constraint) Render() *RenderedConstraint {
	if c == nil {
		return nil
	}
	r := &RenderedConstraint{
		DisableAnyWhitespace: c.DisableAnyWhitespace, DisableAdditionalProperties: c.DisableAdditionalProperties, WhitespacePattern: c.WhitespacePattern,
	}
	switch c.Kind {
	case ConstraintJSON:
		r.JSON = jsontext.RawMessage(c.Schema)
	case ConstraintJSONObject:
		yes := true
		r.JSONObject = &yes
	case ConstraintRegex:
		r.Regex = &c.Text
	case ConstraintChoice:
		r.Choice = c.Choices
	case ConstraintGrammar:
		r.Grammar = &c.Text
	case ConstraintTag:
		tag := string(c.Schema)
		r.StructuralTag = &tag
	}
	return r
}
