package openai

import (
	"context"
	"math"
	"time"
	"unsafe"

	"weir/api"
	"weir/engine"
	"weir/tokenizer"
)

// reply is what both functions have to know of an answer beside the engine's events.
type reply struct {
	meta api.Meta
	form api.Form
	tok  *tokenizer.Tokenizer

	n        int // choices, of all prompts
	logprobs bool
	top      int  // alternatives asked for each token
	oneMore  bool // list one alternative more than top, as /v1/completions does

	stream bool
	usage  bool // a usage chunk at the end of the stream

	answer   answer
	recorded *transcript // nil: this answer is not recorded
}

// An answer is what the two functions that generate do differently: chatAnswer and
// textAnswer.
type answer interface {
	promptTokens() int // of all prompts
	// complete is the body of an answer that does not stream.
	complete(r *reply, st *engine.Stream, choices []gathered) []byte
	// encoder writes one that does.
	encoder(r *reply, st *engine.Stream) encoder
}

// An encoder writes server-sent events. It allocates nothing for a token.
type encoder interface {
	// open appends the next of the events that come before the first token's, and
	// reports whether there was one.
	open(dst []byte) ([]byte, bool)
	// event appends an event of a choice, and reports whether it is the choice's last.
	event(dst []byte, ev *engine.Event) (out []byte, last bool)
	// usage appends the event with the usage of the whole answer.
	usage(dst []byte) []byte
}

// await takes the events that are due into ev. It waits for the first of them,
// but not beyond ctx or a tick: then due is false.
func await(ctx context.Context, st *engine.Stream, ev *engine.Events, tick <-chan time.Time) (due bool, err error) {
	for !st.Take(ev) {
		select {
		case <-st.Ready():
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-tick:
			return false, nil
		}
	}
	return true, nil
}

// finish is the finish_reason and the stop_reason of a choice; "": it has not ended.
func finish(ev *engine.Event) (reason string, stop api.StopReason) {
	switch ev.Reason {
	case engine.Stop:
		switch {
		case ev.StopStr != "":
			stop = api.StoppedByText(ev.StopStr)
		case ev.StopID >= 0:
			stop = api.StoppedBy(ev.StopID)
		}
		return api.FinishStop, stop
	case engine.Length:
		return api.FinishLength, stop
	case engine.Repeated:
		return api.FinishRepetition, api.StoppedByText(api.RepetitionDetected)
	case engine.Aborted:
		return api.FinishAbort, stop
	}
	return "", stop
}

// logprob is the entry of an event's token in the list of log-probabilities: its alternatives are the token
// itself and then the best others, r.top in all, as the reference engine orders
// them (docs/interface/chat-completions.md, section 7.2); for /v1/completions the token itself is one
// more. alts is where they go; it is returned grown.
func (r *reply) logprob(ev *engine.Event, alts []api.TokenLogprob) (api.Logprob, []api.TokenLogprob) {
	own := api.TokenLogprob{ID: ev.Token, Logprob: ev.Logprob, Text: tokenText(r.tok, ev.Token)}
	from, most := len(alts), r.top
	if r.oneMore {
		most++
	}
	if most > 0 {
		alts = append(alts, own)
		for _, t := range ev.Top {
			if len(alts)-from == most {
				break
			}
			if t.Token != ev.Token && t.Token >= 0 {
				alts = append(alts, api.TokenLogprob{ID: t.Token, Logprob: t.Logprob, Text: tokenText(r.tok, t.Token)})
			}
		}
		alts = r.impossible(alts, from)
	}
	return api.Logprob{TokenLogprob: own, Top: alts[from:len(alts):len(alts)]}, alts
}

// impossible fills the alternatives alts[from:] up to r.top, where a mask or a
// filter has left fewer tokens than were asked for: with tokens of probability
// 0, lowest ids first. The reference engine has such entries too, of any ids.
func (r *reply) impossible(alts []api.TokenLogprob, from int) []api.TokenLogprob {
	if len(alts)-from >= r.top {
		return alts
	}
	// r.top tokens are wanted, so the ids to choose from are less than that.
	var few [64]bool
	listed := few[:]
	if r.top > len(few) {
		listed = make([]bool, r.top)
	}
	for _, t := range alts[from:] {
		if int(t.ID) < len(listed) {
			listed[t.ID] = true
		}
	}
	for id := int32(0); len(alts)-from < r.top; id++ {
		if !listed[id] {
			alts = append(alts, api.TokenLogprob{ID: id, Logprob: float32(math.Inf(-1)), Text: tokenText(r.tok, id)})
		}
	}
	return alts
}

// promptLogprobs are the entries of the prompt in prompt_logprobs, one for each token.
func (r *reply) promptLogprobs(scores []engine.PromptLogprob) []api.PromptLogprob {
	out := make([]api.PromptLogprob, 1, len(scores)+1) // nothing predicts the first
	for i := range scores {
		sc := &scores[i]
		p := api.PromptLogprob{Rank: int(sc.Rank)}
		p.TokenLogprob = api.TokenLogprob{ID: sc.Token, Logprob: sc.Logprob, Text: tokenText(r.tok, sc.Token)}
		for _, t := range sc.Top {
			if t.Token >= 0 {
				p.Top = append(p.Top, api.TokenLogprob{ID: t.Token, Logprob: t.Logprob, Text: tokenText(r.tok, t.Token)})
			}
		}
		out = append(out, p)
	}
	return out
}

// tokenText is what a logprobs entry says of a token: its own bytes, of which
// "bytes" gives every one, even where they are a part of a character. (The
// reference engine joins such a token with its neighbours, or gives up.)
// Special tokens are spelled out.
func tokenText(tok *tokenizer.Tokenizer, id int32) string {
	if b := tok.Bytes(id); b != nil {
		return view(b)
	}
	return tok.Text(id)
}

// view is b as a string, without a copy: for as long as nobody writes to b.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
