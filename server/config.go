package server

import (
	"cmp"
	"log/slog"
	"time"

	"weir/api"
	"weir/calls"
	"weir/feedback"
	"weir/internal/memory"
	"weir/metrics"
	"weir/objects"
	"weir/queues"
	"weir/server/batchesapi"
	"weir/server/openai"
	"weir/server/recording"
	"weir/server/responsesapi"
	"weir/server/routerapi"
	"weir/server/trajectoryapi"
	"weir/server/transport"
)

// Config is the server's configuration.
type Config struct {
	Version string // what GET /version says
	transport.Config
	Answers

	// Feedback is what /feedback/ is about; nil: there is no such path. Whoever
	// opened its database closes it, after Shutdown.
	Feedback     *feedback.Store
	Weave        Weave
	Trajectories Trajectories // what is below /v1/preview/models
	// Responses keeps what POST /v1/responses answers; nil: nothing is kept. Whoever opened its
	// database closes it, after Shutdown.
	Responses *responsesapi.Store
	// Background bounds the responses that are computed in the background.
	Background responsesapi.Background

	// Batches keeps what is below /v1/files and /v1/batches; nil: there are no such paths. Whoever
	// opened its database closes it, after Shutdown.
	Batches *batchesapi.Store
	// MaxFile bounds the body with a file of POST /v1/files, in bytes.
	MaxFile int64

	// Sinks counts what other systems have been told of what is stored; nil: there are none.
	Sinks func() []metrics.Sink
	// Bench is what /v1/bench needs; nil: there are no such paths.
	Bench *Bench

	// Prefixes is what is kept of the prefix cache outside of the engine.
	Prefixes Prefixes

	// Functions says where functions are, and which of those that are not there
	// unless asked for.
	Functions Functions
}

// Weave is what the functions of W&B Weave beside feedback are about; nil: there are none.
// Whoever opened the database closes it, after Shutdown.
type Weave struct {
	Calls   *calls.Store
	Objects *objects.Store
	Queues  *queues.Store
}

// Bench says how the server measures itself.
type Bench struct {
	Command []string      // the program, with what comes before "bench serve"
	URL     func() string // where the server can be called from this machine; "": not by HTTP
	Dir     string        // where runs are kept; "": in memory
}

// Answers say how requests of the OpenAI interface are answered.
type Answers = openai.Config

// Trajectories are the settings of what is below /v1/preview/models, and of recording.
type Trajectories struct {
	trajectoryapi.Config
	// Record lists projects, "team/project", "team/*" or "*", whose chat completions
	// are recorded. Those of other projects are recorded if they ask for it.
	Record []string
	// RecordEvery is how long completions, and rewards from feedback, are gathered
	// before they are written.
	RecordEvery time.Duration
	// RewardWait is how long a reward from feedback waits for its completion to be
	// recorded, before it is forgotten.
	RewardWait time.Duration
}

// Prefixes are what is kept of the prefix cache outside of the engine. The zero value keeps nothing.
type Prefixes struct {
	SaltKey *[32]byte             // the secret behind its namespaces, which has to be the same after a restart
	Erase   func() error          // removes all that is kept
	Stats   func() metrics.Copies // nil: there are no series of it
	Events  func() metrics.Events // what is published of its changes; nil: nothing is
	Feed    *routerapi.Feed       // where that is; nil: nowhere

	Transfers func() metrics.Transfers // what goes to and comes from other servers; nil: nothing does
}

// Functions are switches for functions that a public server should not have.
type Functions struct {
	Dev           bool // the settings at /server_info, and /reset_prefix_cache
	TokenizerInfo bool // /tokenizer_info, which shows the chat template
	NoDocs        bool // no /openapi.json and no /docs
	NoUI          bool // no page at /, and nothing below /ui/
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
		MaxFile:      batchesapi.DefaultFile,
		Trajectories: Trajectories{Config: trajectoryapi.DefaultConfig(), RecordEvery: time.Second, RewardWait: 24 * time.Hour},
		Answers: Answers{
			Limits:      limits,
			Heartbeat:   15 * time.Second,
			StallAfter:  2 * time.Minute,
			MaxLogprobs: 20,
		},
	}
}

// Validate reports the first value that makes no sense.
func (c *Config) Validate() error {
	return cmp.Or(c.Config.Validate(), c.Answers.Validate(), c.Trajectories.Validate())
}

// answers completes the settings of the OpenAI interface from those of the others.
func (c *Config) answers() openai.Config {
	a := c.Answers
	a.MaxEcho, a.LoadTracking = c.MaxBody, c.Functions.LoadTracking
	a.SaltKey = c.Prefixes.SaltKey
	a.CompileQueue, a.CompileWorkers = c.PrepareQueue, max(1, c.PrepareWorkers/2)
	return a
}

// recording says what is recorded of completions.
func (c *Config) recording(account *memory.Account, log *slog.Logger, clock func() time.Time) recording.Config {
	t := &c.Trajectories
	return recording.Config{
		Archive: t.Archive, Calls: c.Weave.Calls, Projects: t.Record, Quota: t.Quota, Depth: c.Limits.Depth,
		Every: t.RecordEvery, RewardWait: t.RewardWait, Memory: account, Clock: clock, Log: log,
	}
}
