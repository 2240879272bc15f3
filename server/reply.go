package server

import (
	"context"
	"time"
	"unsafe"

	"weir/api"
	"weir/chat/reasoning"
	"weir/engine"
	"weir/tokenizer"
)

// reply is what the answer to a request has to know beside the engine's events.
type reply struct {
	meta api.Meta
	form api.Form
	tok  *tokenizer.Tokenizer

	role   string
	output reasoning.Start // what every choice begins with
	// echo is in front of every choice, echoThought the reasoning in front of
	// that; "": nothing.
	echo, echoThought string
	hideThoughts      bool // include_reasoning false

	n      int     // choices
	prompt []int32 // ids

	logprobs bool
	top      int  // alternatives reported for each token
	scored   bool // prompt_logprobs

	stream bool
	usage  bool // a usage chunk at the end of the stream

	recording *recording // nil: this answer is not recorded
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

// finish is how the answer spells why a choice ended; "": it has not.
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

// logprob spells the scores of an event's token: its alternatives are the token
// itself and then the best others, r.top in all, as the reference engine orders
// them (spec chat-completions 7.2). alts is where they go; it is returned grown.
func (r *reply) logprob(ev *engine.Event, alts []api.TokenLogprob) (api.Logprob, []api.TokenLogprob) {
	own := api.TokenLogprob{ID: ev.Token, Logprob: ev.Logprob, Text: tokenText(r.tok, ev.Token)}
	from := len(alts)
	if r.top > 0 {
		alts = append(alts, own)
		for _, t := range ev.Top {
			if len(alts)-from == r.top {
				break
			}
			if t.Token != ev.Token && t.Token >= 0 {
				alts = append(alts, api.TokenLogprob{ID: t.Token, Logprob: t.Logprob, Text: tokenText(r.tok, t.Token)})
			}
		}
	}
	return api.Logprob{TokenLogprob: own, Top: alts[from:len(alts):len(alts)]}, alts
}

// promptLogprobs spells the scores of the prompt: one entry for each token.
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
