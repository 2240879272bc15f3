package openai

import (
	"context"
	"math"
	"slices"
	"time"
	"unsafe"

	"weir/api"
	"weir/engine"
	"weir/internal/memory"
	"weir/server/failure"
	"weir/server/transport"
	"weir/tokenizer"
)

// reply is what is known of an answer before its first event, for either function.
type reply struct {
	meta api.Meta
	form api.Form
	tok  *tokenizer.Tokenizer

	n        int // choices, of all prompts
	logprobs bool
	top      int  // how many alternatives of each token were asked for
	chosen   bool // the alternatives are tokens that the request names, all of them, and not the best
	oneMore  bool // list one alternative more than top, as /v1/completions does

	stream   bool
	interval int  // tokens of a choice in a chunk of a stream; up to 1: one
	usage    bool // a usage chunk at the end of the stream

	answer   answer
	first    func()              // called with the first events of an answer that does not stream; nil: nobody asks
	later    laterAnswer         // answers a request that is not computed now; nil: it is
	recorded *transcript         // nil: this answer is not recorded
	transfer api.Raw             // kv_transfer_params of the answer; nil: null
	moving   *moving             // nil: nothing is held for a partner
	memory   *memory.Reservation // what the answer may come to hold; nil: it is not counted
	budget   *streamBudget       // of the unread events of a stream; nil: it is not one
	fail     failing             // answers with an error
	whole    bool                // the end of a stream repeats the whole answer
	headers  []header            // of the response
}

// sendHeaders sets the headers of the response.
func (r *reply) sendHeaders(c *transport.Call) {
	for _, h := range r.headers {
		c.Response.Header.Set(h.name, h.value)
	}
}

// laterAnswer answers a request that is computed later, or returns false.
type laterAnswer func(c *transport.Call, meta *api.Meta) bool

// postpone answers a request that is not computed now, and reports whether it has.
func (r *reply) postpone(c *transport.Call) bool {
	if r.later == nil {
		return false
	}
	r.sendHeaders(c)
	return r.later(c, &r.meta)
}

// header is a header of a response.
type header struct{ name, value string }

// setHeader adds a header to the response.
func (r *reply) setHeader(name, value string) { r.headers = append(r.headers, header{name, value}) }

// An answer is the form of an answer, which is different for the two functions that
// generate: chatAnswer and textAnswer.
type answer interface {
	// promptTokens returns the number of tokens of all prompts together.
	promptTokens() int
	// complete appends the body of an answer that does not stream.
	complete(dst []byte, r *reply, st *engine.Stream, choices []gathered) []byte
	// encoder returns the encoder of an answer that streams.
	encoder(r *reply, st *engine.Stream) encoder
}

// An encoder writes server-sent events. It allocates nothing for a token.
type encoder interface {
	// open appends the next of the events that come before the first token's, and
	// reports whether there was one.
	open(dst []byte) ([]byte, bool)
	// event appends an event of a choice, and reports whether it is the choice's last.
	event(dst []byte, ev *engine.Event) (out []byte, last bool)
	// end appends what follows the last choice.
	end(dst []byte) []byte
	// broken appends the events of an error that ends the stream.
	broken(dst []byte, f failure.Failure) []byte
	// form returns the content type of the stream, and what keeps a silent one open.
	form() (contentType, heartbeat string)
}

// events is what the streams of the OpenAI interface have in common.
type events struct{}

func (events) form() (contentType, heartbeat string) {
	return "text/event-stream; charset=utf-8", api.Heartbeat
}

func (events) broken(dst []byte, f failure.Failure) []byte {
	return append(f.AppendEvent(dst), api.Done...)
}

// await takes the events that are due into ev, after waiting for the first of them. If ctx
// ends before that, it returns its cause; if a tick comes before that, due is false.
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

// finish returns the finish_reason and the stop_reason of a choice after an event; "": it
// goes on.
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

// logprob returns the entry of an event's token in the list of log-probabilities. Its
// alternatives are the token itself and then the most likely others, r.top in all, or one
// more for /v1/completions (docs/interface/chat-completions.md, section 7.2). They are
// appended to alts, which is returned as well, so that a caller can use its memory again.
func (r *reply) logprob(ev *engine.Event, alts []api.TokenLogprob) (api.Logprob, []api.TokenLogprob) {
	own := api.TokenLogprob{ID: ev.Token, Logprob: ev.Logprob, Text: tokenText(r.tok, ev.Token)}
	from, most := len(alts), r.top
	switch {
	case r.chosen:
		most = 1 + len(ev.Top)
	case r.oneMore:
		most++
	}
	if most > 0 {
		if alts == nil {
			alts = make([]api.TokenLogprob, 0, most) // a list that doubles would hold twice as much
		}
		alts = append(alts, own)
		for _, t := range ev.Top {
			if len(alts)-from == most {
				break
			}
			if t.Token != ev.Token && t.Token >= 0 && !(r.chosen && listed(alts[from:], t.Token)) {
				alts = append(alts, api.TokenLogprob{ID: t.Token, Logprob: t.Logprob, Text: tokenText(r.tok, t.Token)})
			}
		}
		if !r.chosen {
			alts = r.impossible(alts, from)
		}
	}
	return api.Logprob{TokenLogprob: own, Top: alts[from:len(alts):len(alts)]}, alts
}

// echoedLogprob returns the entry of a token of an echoed prompt, whose score is sc. It has
// no more alternatives than were computed, which may be fewer than r.top if the request has
// a prompt_logprobs of its own.
func (r *reply) echoedLogprob(sc *engine.PromptLogprob) api.Logprob {
	few := *r
	few.top, few.chosen = min(r.top, len(sc.Top)), false
	ev := engine.Event{Token: sc.Token, Logprob: sc.Logprob, Top: sc.Top}
	entry, _ := few.logprob(&ev, nil)
	return entry
}

// listed reports whether a token is among alternatives.
func listed(alts []api.TokenLogprob, token int32) bool {
	return slices.ContainsFunc(alts, func(t api.TokenLogprob) bool { return t.ID == token })
}

// impossible appends tokens of probability 0 to the alternatives alts[from:] until there
// are r.top, lowest ids first. It is for rows in which a mask or a filter has left fewer
// tokens than were asked for. (vLLM has such entries too, with arbitrary ids.)
func (r *reply) impossible(alts []api.TokenLogprob, from int) []api.TokenLogprob {
	if len(alts)-from >= r.top {
		return alts
	}
	// Fewer than r.top tokens are listed, so that the ids below r.top suffice.
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

// promptLogprobs returns the entries of prompt_logprobs, one for each token of the prompt.
func (r *reply) promptLogprobs(scores []engine.PromptLogprob) []api.PromptLogprob {
	out := make([]api.PromptLogprob, 1, len(scores)+1) // nothing predicts the first
	for i := range scores {
		sc := &scores[i]
		p := api.PromptLogprob{Rank: int(sc.Rank)}
		p.TokenLogprob = api.TokenLogprob{ID: sc.Token, Logprob: sc.Logprob, Text: tokenText(r.tok, sc.Token)}
		p.Top = make([]api.TokenLogprob, 0, len(sc.Top))
		for _, t := range sc.Top {
			if t.Token >= 0 {
				p.Top = append(p.Top, api.TokenLogprob{ID: t.Token, Logprob: t.Logprob, Text: tokenText(r.tok, t.Token)})
			}
		}
		out = append(out, p)
	}
	return out
}

// tokenText returns the text of a token in an entry of log-probabilities: its own bytes,
// even if they are only a part of a character. (vLLM joins such a token with its
// neighbours, or gives up.) A special token has its name as text.
func tokenText(tok *tokenizer.Tokenizer, id int32) string {
	if b := tok.Bytes(id); b != nil {
		return view(b)
	}
	return tok.Text(id)
}

// view returns b as a string without a copy. It is valid until b is written to.
func view(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
