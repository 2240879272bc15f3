package routerapi

import (
	"strconv"
	"time"

	"weir/api"
	"weir/server/failure"
	"weir/server/jsonfields"
	"weir/server/openai"
)

// answer is the form of one answer. It implements openai.SurfaceAnswer.
type answer struct {
	now     func() time.Time
	begun   time.Time // when the request was there
	ignored jsonfields.Names
	plain   openai.Plain
	stream  bool
	scored  bool // with log-probabilities
	top     bool // and with those of other tokens
	texts   bool // and with the texts of tokens
	most    int  // tokens

	// What a stream has sent, because each of its events repeats all that came before.
	id     string
	text   []byte // as a JSON string without its quotation marks
	ids    []byte // as the elements of a JSON array
	count  int
	scores [2][]byte // of the tokens, and of the others in their places, the same
	usage  api.Usage
}

// ID is the id of the request.
func (a *answer) ID(request string) string { return request }

// Form returns what streams are, and the comment that keeps a silent one open.
func (a *answer) Form() (contentType, heartbeat string) {
	return "text/event-stream; charset=utf-8", ":\n\n"
}

// Plain says that the prompt is not rendered.
func (a *answer) Plain() *openai.Plain { return &a.plain }

// Held returns the bytes that the answer keeps of its request, and of itself while it streams.
func (a *answer) Held() int64 {
	n := 4 * int64(len(a.plain.IDs))
	if a.stream {
		n += heldToken * int64(a.most)
	}
	return n
}

// heldToken is what a token of a stream is counted as: its text and its id.
const heldToken = 16

// Headers names what of the request had no effect.
func (a *answer) Headers(set func(name, value string)) {
	if s := a.ignored.Header(); s != "" {
		set("X-Ignored-Fields", s)
	}
}

// Whole appends an answer that does not stream.
func (a *answer) Whole(dst []byte, w *openai.Whole) []byte {
	content := ""
	if w.Content != nil {
		content = *w.Content
	}
	dst = api.AppendString(append(dst, `{"text":`...), content)
	dst = append(dst, `,"output_ids":[`...)
	for i, id := range w.IDs {
		dst = appendID(dst, i, id)
	}
	a.id, a.usage, a.count = w.Meta.ID, w.Usage, w.Usage.Completion
	if a.scored {
		for i := range w.Logprobs {
			a.score(i, &w.Logprobs[i])
		}
	}
	return append(a.meta(append(dst, ']'), w), '}')
}

func appendID(dst []byte, i int, id int32) []byte {
	if i > 0 {
		dst = append(dst, ',')
	}
	return strconv.AppendInt(dst, int64(id), 10)
}

// score adds the log-probabilities of a token to those that the next event has.
func (a *answer) score(i int, l *api.Logprob) {
	for k := range a.scores {
		if i > 0 {
			a.scores[k] = append(a.scores[k], ',')
		}
	}
	a.scores[0] = a.appendScore(a.scores[0], &l.TokenLogprob)
	if !a.top {
		return
	}
	a.scores[1] = append(a.scores[1], '[')
	for j := range l.Top {
		if j > 0 {
			a.scores[1] = append(a.scores[1], ',')
		}
		a.scores[1] = a.appendScore(a.scores[1], &l.Top[j])
	}
	a.scores[1] = append(a.scores[1], ']')
}

// appendScore appends the log-probability, the id and the text of a token.
func (a *answer) appendScore(dst []byte, t *api.TokenLogprob) []byte {
	dst = api.AppendLogprob(append(dst, '['), t.Logprob)
	dst = strconv.AppendInt(append(dst, ','), int64(t.ID), 10)
	if !a.texts {
		return append(dst, ",null]"...)
	}
	return append(api.AppendString(append(dst, ','), t.Text), ']')
}

// meta appends meta_info; w is nil in the middle of a stream.
func (a *answer) meta(dst []byte, w *openai.Whole) []byte {
	dst = api.AppendString(append(dst, `,"meta_info":{"id":`...), a.id)
	dst = append(dst, `,"finish_reason":`...)
	if w == nil {
		dst = append(dst, "null"...)
	} else {
		dst = appendFinish(dst, w)
	}
	dst = appendInts(dst, member{"prompt_tokens", int64(a.usage.Prompt)}, member{"completion_tokens", int64(a.count)}, member{"cached_tokens", int64(a.usage.Cached)})
	dst = append(dst, `,"weight_version":"`+weightVersion+`"`...)
	if a.scored {
		dst = append(append(dst, `,"input_token_logprobs":[],"output_token_logprobs":[`...), a.scores[0]...)
		if dst = append(dst, ']'); a.top {
			dst = append(append(dst, `,"input_top_logprobs":[],"output_top_logprobs":[`...), a.scores[1]...)
			dst = append(dst, ']')
		}
	}
	if w != nil {
		dst = appendFloat(append(dst, `,"e2e_latency":`...), a.now().Sub(a.begun).Seconds())
	}
	return append(dst, '}')
}

// appendFinish appends why an answer has ended.
func appendFinish(dst []byte, w *openai.Whole) []byte {
	switch w.Finish {
	case api.FinishLength:
		return append(strconv.AppendInt(append(dst, `{"type":"length","length":`...), int64(w.Usage.Completion), 10), '}')
	case api.FinishAbort:
		return append(dst, `{"type":"abort","message":"Aborted"}`...)
	}
	dst = append(dst, `{"type":"stop","matched":`...)
	if text, ok := w.Stop.Text(); ok {
		dst = api.AppendString(dst, text)
	} else if id, ok := w.Stop.Token(); ok {
		dst = strconv.AppendInt(dst, int64(id), 10)
	} else if n := len(w.IDs); n > 0 { // the token that ends every answer
		dst = strconv.AppendInt(dst, int64(w.IDs[n-1]), 10)
	} else {
		dst = append(dst, "null"...)
	}
	return append(dst, '}')
}

// Open appends nothing: a stream begins with its first piece.
func (a *answer) Open(dst []byte, w *openai.Whole) []byte {
	a.id, a.usage = w.Meta.ID, w.Usage
	return dst
}

// Delta appends the event of a piece, with all that came before it.
func (a *answer) Delta(dst []byte, d *openai.Delta) []byte {
	a.take(d)
	return append(a.meta(a.event(dst), nil), "}\n\n"...)
}

// take adds a piece to what events have.
func (a *answer) take(d *openai.Delta) {
	n := len(a.text)
	a.text = api.AppendString(a.text, string(d.Content))
	a.text = append(a.text[:n], a.text[n+1:len(a.text)-1]...) // without the quotation marks
	for i := range d.Logprobs {
		a.score(a.count+i, &d.Logprobs[i])
	}
	for _, id := range d.IDs {
		a.ids = appendID(a.ids, a.count, id)
		a.count++
	}
}

// event appends an event up to its meta_info.
func (a *answer) event(dst []byte) []byte {
	dst = append(append(dst, `data: {"text":"`...), a.text...)
	dst = append(append(dst, `","output_ids":[`...), a.ids...)
	return append(dst, ']')
}

// Close appends the event that says why the answer has ended, and the mark for the end of the stream.
func (a *answer) Close(dst []byte, w *openai.Whole) []byte {
	a.count = w.Usage.Completion
	return append(a.meta(a.event(dst), w), "}\n\ndata: [DONE]\n\n"...)
}

// Broken appends the event of an error in the middle of a stream.
func (a *answer) Broken(dst []byte, f failure.Failure) []byte {
	return append(append(f.AppendBody(append(dst, "data: "...)), "\n\n"...), api.Done...)
}
