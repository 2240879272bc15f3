package server

import (
	"cmp"
	"fmt"
	"time"

	"weir/api"
	"weir/feedback"
	"weir/server/trajectoryapi"
	"weir/server/transport"
)

// Config is the server's configuration.
type Config struct {
	Version string // what GET /version says
	transport.Config
	Limits api.Limits // of what a body may hold

	// Feedback is what /feedback/ is about; nil: there is no such path. Whoever
	// opened its database closes it, after Shutdown.
	Feedback     *feedback.Store
	Trajectories Trajectories // what is below /v1/preview/models

	// Heartbeat is how long a stream may be silent. Then a blank line is sent,
	// and if nothing was sent before, status 200. 0 is never.
	Heartbeat time.Duration
	// StallAfter is the age of a step beyond which /health says 503.
	StallAfter time.Duration

	// MaxLogprobs bounds top_logprobs and prompt_logprobs; -1 is the vocabulary.
	MaxLogprobs int
	// ProcessedLogprobs takes the log-probabilities of generated tokens from the
	// distribution that they were drawn from, with biases, penalties, temperature
	// and filters, in place of the model's own (spec 7.2, logprobs-mode). Those of
	// the prompt are the model's own in either case.
	ProcessedLogprobs bool
	// TokensAsIDs is the default of return_tokens_as_token_ids.
	TokensAsIDs bool
	// ReasoningField names reasoning text in answers.
	ReasoningField api.ReasoningField
	// ForceUsage sends the usage chunk in streams that did not ask for it.
	ForceUsage bool
	// Functions says where functions are, and which of those that are not there
	// unless asked for.
	Functions Functions

	// NewID makes the id of a request that brings none; nil: a random one.
	NewID func() string
}

// Trajectories are the settings of what is below /v1/preview/models, and of recording.
type Trajectories struct {
	trajectoryapi.Config
	// Record lists projects, "team/project", "team/*" or "*", whose chat completions
	// are recorded. Those of other projects are recorded if they ask for it.
	Record []string
}

// Functions are switches for functions that a public server should not have.
type Functions struct {
	Dev           bool // /server_info and /reset_prefix_cache
	TokenizerInfo bool // /tokenizer_info, which shows the chat template
	LoadTracking  bool // /load counts; otherwise it says 0

	Settings map[string]string // what /server_info says of the configuration; no secrets
	Device   string            // and of what computes, in words
}

// DefaultConfig returns the configuration of a server that was told nothing.
func DefaultConfig() Config {
	limits := api.DefaultLimits()
	limits.Choices = 128 // OpenAI's limit; each choice has its copy of the prompt's ids
	return Config{
		Version:      "devel",
		Config:       transport.DefaultConfig(),
		Trajectories: Trajectories{Config: trajectoryapi.DefaultConfig()},
		Limits:       limits,
		Heartbeat:    15 * time.Second,
		StallAfter:   2 * time.Minute,
		MaxLogprobs:  20,
	}
}

// Validate reports the first value that makes no sense.
func (c *Config) Validate() error {
	switch {
	case c.StallAfter <= 0:
		return fmt.Errorf("server: Config.StallAfter is %v, want more than 0", c.StallAfter)
	case c.ReasoningField > api.ReasoningBoth:
		return fmt.Errorf("server: Config.ReasoningField is %d", c.ReasoningField)
	case c.Heartbeat < 0:
		return fmt.Errorf("server: Config.Heartbeat is %v, want at least 0", c.Heartbeat)
	case c.MaxLogprobs < -1:
		return fmt.Errorf("server: Config.MaxLogprobs is %d, want at least -1", c.MaxLogprobs)
	}
	return cmp.Or(c.Config.Validate(), c.Trajectories.Validate(), c.Limits.Validate())
}
