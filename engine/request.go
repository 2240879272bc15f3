package engine

import (
	"time"

	"weir/backend"
	"weir/sampler"
	"weir/scheduler"
)

// What callers of the engine need from the rooms below it, so that they do not
// import those.
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

	RawLogprobs       = backend.RawLogprobs
	ProcessedLogprobs = backend.ProcessedLogprobs
)

// Request is a prepared request: tokens in, every field checked, nothing left
// to parse. The engine keeps it and its slices; nobody may change them after
// Submit.
type Request struct {
	Tokens   []int32   // the prompt, at least one token
	N        int       // number of choices; 0 means 1. Choice i draws with Seed + i
	Arrived  time.Time // when the client's request came in, for latencies; zero: with Submit
	Priority int64     // lower first, if the scheduler goes by priority
	Salt     [16]byte  // prefix cache namespace; a keyed hash
	Limits   Limits    // prompt and MaxTokens together must fit a sequence
	Sampling sampler.Params

	Stop        []string // stop strings, none empty
	IncludeStop bool     // keep the stop string, or the stop token's text, in the text
	KeepSpecial bool     // special tokens give text
	Show        []int32  // these do in any case
	JoinSpecial bool     // no space between them (spaces_between_special_tokens false)

	// Masks constrain the output, a mask for each choice; nil: it is free. They
	// are the engine's from Submit to the choice's last event.
	Masks []Mask

	// Prompt asks for the log-probabilities of the prompt's tokens and of so
	// many best alternatives for each; nil: none. Such a request fills the
	// prefix cache but does not read it.
	Prompt *PromptScores
}

// Mask says, token by token, what one choice may put out: the state of a
// grammar. Its methods are never called by two goroutines at a time; Fill is
// called by a worker while the device computes, the others by the loop.
type Mask interface {
	// Fill sets the bits of the tokens that may come next, end tokens among
	// them, and clears all others. row has backend.Spec.MaskWords words.
	Fill(row []uint32)
	// Only is the next token if no other may come, else -1. It has to be cheap,
	// and may say -1 where finding out is not.
	Only() int32
	// Accept books the next output token. It reports false, and need not work
	// from then on, if the token may not come.
	Accept(token int32) bool
}

// PromptScores asks for the scores of a prompt's own tokens.
type PromptScores struct {
	Top  int // alternatives for each token
	Mode backend.LogprobMode
}

// Event is one token of one choice, or the end of a choice.
type Event struct {
	Choice  int32
	Token   int32   // -1: no token (an abort or a failure)
	Reason  Reason  // NotDone until the choice's last event
	StopID  int32   // Reason Stop by a stop id, not by the primary end token: which; else -1
	StopStr string  // Reason Stop by a stop string: which; else ""
	Logprob float32 // of Token, if asked
	Rank    int32   // of Token among all, from 1, if asked
	Err     error   // Reason Failed: why

	// Text that became final with this token: whole characters, stop strings
	// held back. Top: the best alternatives, best first; fewer than asked for
	// where fewer are legal. Both are valid until the Events they came in are
	// filled again.
	Text []byte
	Top  []TokenLogprob

	textEnd, topEnd int
}

// TokenLogprob is one alternative of a row.
type TokenLogprob struct {
	Token   int32
	Logprob float32
}

// PromptLogprob is the score of one prompt token, given those before it.
type PromptLogprob struct {
	Token   int32
	Logprob float32
	Rank    int32 // among all, from 1
	Top     []TokenLogprob
}
