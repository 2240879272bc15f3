package openai

import (
	"weir/api"
	"weir/engine"
	"weir/internal/memory"
	"weir/server/transport"
)

// What a request holds once it is prepared, in bytes. Its memory is reserved before the
// engine gets it. The sizes of encoded text are for tokens of usualText bytes on average;
// a meter reserves more when longer ones come. TestAnswerSizes measures them.
const (
	usualText = 8

	engineToken  = 5  // a token of the prompt or the output, for each choice
	penaltyToken = 80 // a distinct token, for each choice with penalties

	// Of an answer that is sent whole: as it is gathered, and then encoded.
	tokenSize  = 32         // id and text
	entrySize  = 2*48 + 104 // log-probability; the list of them doubles as it grows
	altSize    = 24 + 104   // alternative
	altSizeIDs = 24 + 168   // alternative that is shown as token_id:..., with its bytes

	// Of the log-probabilities of a prompt: as the engine and the answer hold them, once, and
	// encoded, for each choice that repeats them.
	scoreSize, scoreAlt         = 168, 48
	scoreEncoded, echoedEncoded = 96, 128

	longText = 8 // what each byte of a text beyond usualText takes, gathered and encoded
	idText   = 8 // an id with its comma
)

// size returns how many bytes the engine and the answer may come to hold for a request.
func (p *prepared) size(vocabulary int) int64 {
	n := int64(0)
	for i := range p.requests {
		n += engineSize(&p.requests[i], vocabulary) + p.reply.size(&p.requests[i])
	}
	if t, ok := p.reply.answer.(*textAnswer); ok {
		for _, text := range t.echo {
			n += 3 * int64(t.n) * int64(len(text)) // as text, and encoded
		}
	}
	if a, ok := p.reply.answer.(*chatAnswer); ok {
		n += 3 * int64(p.reply.n) * int64(len(a.echo)+len(a.echoThought))
	}
	if p.reply.stream {
		n += p.reply.unreadSize()
	}
	if p.reply.form.PromptText != nil {
		n += 2 * int64(len(*p.reply.form.PromptText))
	}
	return n
}

// engineSize returns the bytes that the engine may come to hold for a request, without its
// events.
func engineSize(r *engine.Request, vocabulary int) int64 {
	choices, tokens := int64(max(1, r.N)), len(r.Tokens)+r.Limits.MaxTokens
	each := engineToken * int64(tokens)
	if s := &r.Sampling; s.Frequency != 0 || s.Presence != 0 || s.Repetition != 1 {
		each += penaltyToken * int64(min(tokens, vocabulary))
	}
	n := 4*int64(len(r.Tokens)) + choices*each + tablesSize(r, vocabulary)
	if r.Prompt != nil {
		n += int64(len(r.Tokens)) * (scoreSize + scoreAlt*int64(r.Prompt.Top))
	}
	return n
}

// size returns the bytes that the answer of one request may come to hold.
func (r *reply) size(q *engine.Request) int64 {
	choices, prompt := int64(max(1, q.N)), int64(len(q.Tokens))
	n := int64(0)
	if r.form.TokenIDs {
		n += choices * prompt * idText
	}
	if q.Prompt != nil {
		alternatives := int64(q.Prompt.Top) + 1
		n += choices * prompt * (48 + alternatives*(scoreEncoded+24)) // as prompt_logprobs or as those of an echo
		if r.logprobs {
			n += choices * prompt * (echoedEncoded + alternatives*echoedEncoded)
		}
	}
	tokens := int64(q.Limits.MaxTokens)
	if r.stream && !r.whole {
		tokens = min(tokens, int64(r.interval))
		if tokens <= 1 {
			return n
		}
		return n + choices*min(tokens*r.tokenSize(), 3*maxWaiting) + r.recordedSize(q)
	}
	return n + choices*tokens*r.tokenSize() + r.recordedSize(q)
}

// tokenSize returns the bytes for a token of the answer.
func (r *reply) tokenSize() int64 {
	n := int64(tokenSize)
	if r.form.TokenIDs {
		n += idText
	}
	if r.logprobs {
		n += entrySize + int64(r.alternatives())*r.altSize()
	}
	return n
}

// unreadSize returns the bytes of events that a client which reads may leave unread: some of
// each choice.
func (r *reply) unreadSize() int64 {
	return 16<<10 + int64(r.n)*4*(24+8*int64(r.alternatives()))
}

func (r *reply) altSize() int64 {
	if r.form.TokensAsIDs {
		return altSizeIDs
	}
	return altSize
}

// alternatives returns the most alternatives that a token of the answer has.
func (r *reply) alternatives() int {
	switch {
	case r.chosen:
		return 1 + maxLogprobTokens
	case r.oneMore:
		return r.top + 1
	}
	return r.top
}

// recordedSize returns the bytes that the transcript of a request may come to hold.
func (r *reply) recordedSize(q *engine.Request) int64 {
	if r.recorded == nil {
		return 0
	}
	each := int64(tokenSize + entrySize)
	if r.logprobs {
		each += int64(r.alternatives()) * alternativeSize
	}
	return int64(max(1, q.N)) * int64(q.Limits.MaxTokens) * each
}

// meter measures an answer that is being gathered, and reserves memory for tokens with long
// texts, which the size of a reply leaves out.
type meter struct {
	r      *reply
	memory *memory.Reservation
	long   int64 // what the texts take beyond usualText each; below 0: they are shorter on average
	held   int64 // reserved for them
	body   int64 // about what is encoded
}

// meterStep is the least that a meter reserves at a time beyond what it needs.
const meterStep = 64 << 10

// add takes in an event with the entry that the answer has for it. It fails with
// memory.ErrFull if there is no memory for it.
func (m *meter) add(ev *engine.Event, entry *api.Logprob) error {
	m.text(len(ev.Text), 1)
	m.body += idText
	if entry != nil {
		each, times := int64(56), int64(4)
		if m.r.form.TokensAsIDs {
			each, times = 104, 0
		}
		m.body += each * int64(len(entry.Top)+1)
		m.text(len(entry.Text), times)
		for i := range entry.Top {
			m.text(len(entry.Top[i].Text), times)
		}
	}
	if m.long <= m.held {
		return nil
	}
	n := m.long - m.held + meterStep + m.held/8
	if !m.memory.TryGrow(n) {
		return memory.ErrFull
	}
	m.held += n
	return nil
}

// text takes in a text, each of whose bytes takes about so many bytes in the answer.
func (m *meter) text(n int, times int64) {
	m.body += int64(n) * times
	m.long += longText * int64(n-usualText)
}

// reserve reserves what the engine and the answer of a request may come to hold, and gives
// back what preparing it has reserved.
func (p *prepared) reserve(c *transport.Call, from *preparing, vocabulary int) error {
	p.reply.memory = c.Memory()
	held, more := p.retained(), p.size(vocabulary)
	if held+more <= from.memory.Held() { // most requests: they need not wait once more
		from.keep(c.Memory(), held+more)
		return nil
	}
	from.keep(c.Memory(), held)
	return c.Memory().Grow(c.Context(), more)
}
