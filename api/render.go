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
}
