package engine

import (
	"time"

	"weir/backend"
	"weir/sampler"
	"weir/scheduler"
)

// These names are what callers of the engine need from the packages below it.
type (
	Limits     = scheduler.Limits
	Repetition = scheduler.RepetitionLimit
	Reason     = scheduler.Reason
)

// MaxRepetition is the largest size or count of a Repetition.
const MaxRepetition = scheduler.MaxRepetition

const (
	NotDone  = scheduler.NotDone
	Stop     = scheduler.Stop
	Length   = scheduler.Length
	Repeated = scheduler.Repeated
	Aborted  = scheduler.Aborted
	Failed   = scheduler.Failed

	Background = scheduler.Background

	RawLogprobs       = backend.RawLogprobs
	ProcessedLogprobs = backend.ProcessedLogprobs
)

// Queueing is how a request waits until something of it is computed.
type Queueing struct {
	Outside

	Place *Place // that was reserved for it, and for those that are submitted with it; nil: none
	// MaxWait is how long it may wait, from Request.Arrived on. If it comes to that, or will by what was
	// measured, the request ends with ErrQueueTime. 0: there is no limit.
	MaxWait time.Duration
}

// Outside is what a request has to do with other machines.
type Outside struct {
	External bool   // a part of its prefix may come from one, through Config.Offload
	Loaded   func() // called by the loop when nothing of it is waited for any more, unless the request ends before; it must not block. nil: nobody asks
}

// Request is a prepared request: its prompt is tokenized and its fields are checked.
// From Submit on, it and its slices belong to the engine and must not change.
type Request struct {
	Tokens                []int32   // the prompt, at least one token
	N                     int       // number of choices; 0 means 1. Choice i draws with Sampling.Seed + i
	Arrived               time.Time // when the client's request came in, for latencies; zero: at Submit
	Tenant                string    // who shares the machine with others; see scheduler.Account
	Project               string    // a part of the tenant
	Weight, ProjectWeight int       // of tenant and project, in hundredths; 0: the usual weight
	Priority              int64     // lower runs earlier, if the scheduler goes by priority; Background gives way to all others
	Salt                  [16]byte  // namespace in the prefix cache; has to be a keyed hash
	Limits                Limits    // the prompt and MaxTokens together must fit a sequence
	Suffix                int       // tokens at the prompt's end that a later prompt may not repeat, as the generation prompt of a chat template; see scheduler.Sequence
	Sampling              sampler.Params

	Queueing

	Stop        []string // stop strings, none empty
	IncludeStop bool     // the text includes the stop string, or the text of the stop token
	KeepSpecial bool     // the text includes special tokens
	Show        []int32  // special tokens that it includes even without KeepSpecial
	JoinSpecial bool     // no space between special tokens (spaces_between_special_tokens false)

	// Masks constrain the output, one mask for each choice; nil means no constraint.
	// They belong to the engine, and a Fill that is under way when the choice ends may take
	// a moment to notice.
	Masks []Mask

	// Budget bounds the events that are not read; nil: nothing does. In SubmitAll, that of
	// the first request counts.
	Budget Budget
	// LogprobIDs are tokens whose log-probabilities every event has as Top, in this order, in
	// place of the best ones; nil: the best ones. Sampling has to ask for raw
	// log-probabilities without alternatives. The logits of such a request are copied to the
	// host at every step.
	LogprobIDs []int32
	// Forcers force tokens of the output, one for each choice; nil: nothing is forced. They
	// belong to the engine until the choice's last event.
	Forcers []Forcer

	// Prompt asks for the log-probabilities of the prompt's tokens; nil: not wanted. Such
	// a request fills the prefix cache but does not read it.
	Prompt *PromptScores

	// Pool asks for vectors of the prompt and for no tokens; Limits and Sampling are ignored then. The
	// choice ends with one event, whose Token is -1 and whose Reason is Stop, and Stream.Pooled has the result.
	// All kinds but PoolLast fill the prefix cache and do not read it.
	Pool Pooling
	// Types are the token types (segments) of an encoder's prompt, one for each token; nil: all 0.
	Types []int32
}

// Mask says, token by token, what one choice may put out: it is the state of a grammar.
// Two goroutines never call it at the same time. The loop calls Quick, and the others only
// where Quick says that they take no time; otherwise a worker calls them.
type Mask interface {
	// Fill sets the bits of the tokens that may come next, which include end tokens if
	// the output may end, and clears all others. row has backend.Spec.MaskWords words.
	// Its error ends the request. A fill that can take long calls pace often, at least
	// every millisecond, holding nothing that Quick and other masks need. pace may return
	// late, and it returns false if the fill is to end, because nobody waits for the row any
	// more or it is to be filled elsewhere; then Fill returns an error, and may be called
	// again. A fill that waits for another one passes waiting.
	Fill(row []uint32, pace func(waiting bool) (goOn bool)) error
	// Only is the next token if no other may come, else -1. It is called only if Quick(-1)
	// is true, or after Fill, and has to be as quick then.
	Only() int32
	// Accept tells the mask the next output token. If that may not come, Accept returns
	// false, and the mask is not used any more.
	Accept(token int32) bool
	// Quick reports whether Accept of a token, or Fill for -1, takes no more than some
	// microseconds here. If it is not known, it is false.
	Quick(token int32) bool
}

// Forcer decides now and then what the next token of a choice is. Other than a mask it does
// not show in raw log-probabilities. Only the loop calls it.
type Forcer interface {
	// Force returns the token that has to come next, or -1. If a mask, a list of allowed
	// tokens, or a token that is forced by the mask rules it out, another one comes.
	Force() int32
	// Accept tells the next output token.
	Accept(token int32)
}

// PromptScores asks for the log-probabilities of a prompt's own tokens.
type PromptScores struct {
	Top  int // number of alternatives for each token
	Mode backend.LogprobMode
}

// Event is one token of one choice, or the end of a choice.
type Event struct {
	Choice  int32
	Token   int32   // -1: the choice ended without a further token (an abort or a failure, or a pooled request)
	Reason  Reason  // NotDone until the choice's last event
	StopID  int32   // if Reason is Stop because of a stop id, which one; else -1
	StopStr string  // if Reason is Stop because of a stop string, which one; else ""
	Logprob float32 // of Token, if asked for
	Rank    int32   // of Token among all tokens, from 1, if asked for
	Err     error   // if Reason is Failed, why

	// Text is what became final with this token: whole characters, without what is held
	// back for stop strings. Top are the alternatives, best first; there are fewer than
	// asked for if fewer tokens are legal. Both are valid until the Events that they came
	// in are passed to Take or Next again.
	Text []byte
	Top  []TokenLogprob

	textEnd, topEnd int // ends of Text and Top in the memory of Events
}

// TokenLogprob is an alternative to a token.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// PromptLogprob is the score of one token of a prompt, given those before it.
type PromptLogprob struct {
	Token   int32
	Logprob float32
	Rank    int32 // among all tokens, from 1
	Top     []TokenLogprob
}
