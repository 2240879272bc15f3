package openai

import (
	"strconv"
	"unsafe"

	"weir/api"
	"weir/auth"
	"weir/engine"
	"weir/internal/jsontext"
	"weir/server/recording"
	"weir/server/transport"
)

// transcript gathers an answer for its recording. It has log-probabilities and all
// thoughts, even if the client did not ask for them, and the alternatives of tokens as the
// answer has them.
type transcript struct {
	recording *recording.Recording
	reply     reply
	answer    chatAnswer
	choices   []gathered

	asked     api.Form // the form that the answer itself has
	logprobs  bool     // the answer itself has log-probabilities
	hidden    bool     // and no thoughts
	cached    int      // tokens of the prompt that the prefix cache had
	committed bool     // the recorder has it
}

func newTranscript(to *recording.Recording, r *reply, a *chatAnswer) *transcript {
	t := &transcript{recording: to, reply: *r, answer: *a, choices: make([]gathered, r.n)}
	t.asked, t.logprobs, t.hidden = r.form, r.logprobs, a.hideThoughts
	t.asked.PromptText = nil // it is not kept
	if !r.logprobs {
		t.reply.logprobs, t.reply.top, t.reply.chosen = true, 0, false
	}
	t.reply.form.TokenIDs, t.reply.form.HideOutputIDs = true, false
	t.reply.recorded, t.reply.memory, t.reply.answer, t.reply.form.PromptText = nil, nil, nil, nil // they are not kept
	t.answer.hideThoughts, t.answer.echo, t.answer.echoThought = false, "", ""
	return t
}

// recordedSettings are what a request asked for, with the model's defaults for what it left
// open, as members of a JSON object whose values are no objects and arrays: ART's reader takes
// no others as metadata. Lists are the text of their JSON.
func recordedSettings(m *Model, q *api.Options, maxTokens int) []byte {
	g := &m.Generation
	var d []byte
	name := func(s string) { d = append(api.AppendString(append(d, ','), s), ':') }
	number := func(s string, x float64) {
		name(s)
		d = strconv.AppendFloat(d, x, 'g', -1, 64)
	}
	whole := func(s string, n int) {
		name(s)
		d = strconv.AppendInt(d, int64(n), 10)
	}
	yes := func(s string, b bool) {
		name(s)
		d = strconv.AppendBool(d, b)
	}
	list := func(s string, v any) {
		if text, err := jsontext.Encode(v); err == nil {
			name(s)
			d = api.AppendString(d, string(text))
		}
	}
	number("temperature", or(q.Temperature, g.Temperature, 1))
	number("top_p", or(q.TopP, g.TopP, 1))
	whole("top_k", or(q.TopK, g.TopK, 0))
	number("min_p", or(q.MinP, g.MinP, 0))
	number("repetition_penalty", or(q.RepetitionPenalty, g.RepetitionPenalty, 1))
	number("frequency_penalty", q.FrequencyPenalty)
	number("presence_penalty", q.PresencePenalty)
	if q.Seed != nil {
		whole("seed", *q.Seed)
	}
	whole("max_tokens", maxTokens)
	whole("min_tokens", q.MinTokens)
	if len(q.Stop) > 0 {
		list("stop", q.Stop)
	}
	if len(q.StopTokenIDs) > 0 {
		list("stop_token_ids", q.StopTokenIDs)
	}
	if r := q.RepetitionDetection; r != nil {
		list("repetition_detection", map[string]int{"min_pattern_size": r.MinSize, "max_pattern_size": r.MaxSize, "min_count": r.Count})
	}
	yes("include_stop_str_in_output", q.IncludeStop)
	yes("ignore_eos", q.IgnoreEOS)
	if q.Logprobs {
		whole("top_logprobs", q.TopLogprobs)
	}
	yes("echo", q.Echo)
	whole("n", q.N)
	if m.Fingerprint != "" {
		name("system_fingerprint")
		d = api.AppendString(d, m.Fingerprint)
	}
	return d
}

// add takes in an event. A nil transcript ignores it.
func (t *transcript) add(ev *engine.Event) {
	if t != nil {
		t.choices[ev.Choice].add(&t.reply, ev)
	}
}

// finished reports whether all choices have ended, none of them by an abort.
func (t *transcript) finished() bool {
	for i := range t.choices {
		if f := t.choices[i].finish; f == "" || f == api.FinishAbort {
			return false
		}
	}
	return true
}

// record hands the transcript of an answer to the recorder. nil is ignored.
func (s *Service) record(c *transport.Call, t *transcript, st *engine.Stream) {
	if t != nil {
		t.cached = st.Cached()
		s.commit(c, t, recording.Outcome{Finished: t.finished()})
	}
}

// gone is the exception of a request whose client did not wait for the whole answer.
const gone = "The client has left."

// recordFailure hands the transcript of an answer that failed to the recorder, with what the
// client was told. nil is ignored.
func (s *Service) recordFailure(c *transport.Call, t *transcript, exception string) {
	if t != nil {
		s.commit(c, t, recording.Outcome{Exception: exception})
	}
}

func (s *Service) commit(c *transport.Call, t *transcript, o recording.Outcome) {
	if t.committed {
		return
	}
	t.committed = true
	o.Tenant, o.User, o.MayReplace = c.Who.Tenant, c.Who.User, c.Who.Rights&auth.Write != 0
	s.recorder.Commit(t.recording, o, t, c.Memory())
}

// ID implements recording.Answer.
func (t *transcript) ID() string { return t.reply.meta.ID }

// Model implements recording.Answer.
func (t *transcript) Model() string { return t.reply.meta.Model }

// Prompt implements recording.Answer.
func (t *transcript) Prompt() []int32 { return t.answer.prompt }

// Choices implements recording.Answer.
func (t *transcript) Choices() int { return len(t.choices) }

// transcriptSize is what a transcript takes beside what its choices gather.
const transcriptSize = 2 << 10

// alternativeSize is about what an alternative takes, so that its text as JSON is within
// recording.TextShare of it.
const alternativeSize = 40

// Size implements recording.Answer.
func (t *transcript) Size() int {
	n := transcriptSize + 4*cap(t.answer.prompt)
	for i := range t.choices {
		c := &t.choices[i]
		n += cap(c.text) + 4*cap(c.ids) + int(unsafe.Sizeof(api.Logprob{}))*cap(c.logprobs)
		for j := range c.logprobs {
			n += len(c.logprobs[j].Text) + 8 // rounded up
			for k := range c.logprobs[j].Top {
				n += alternativeSize + max(0, len(c.logprobs[j].Top[k].Text)-usualText)
			}
		}
	}
	return n
}

// AppendChoice implements recording.Answer.
func (t *transcript) AppendChoice(d []byte, i int) []byte {
	c := t.answer.choice(i, &t.choices[i], true)
	return t.reply.form.AppendChoice(d, &c)
}

// AppendAnswer implements recording.Answer.
func (t *transcript) AppendAnswer(d []byte) (answer []byte, tokens int) {
	a, r := t.answer, t.reply
	a.hideThoughts, r.form = t.hidden, t.asked
	resp := api.Response{Choices: make([]api.Choice, len(t.choices)), PromptTokenIDs: a.prompt}
	resp.Usage = api.Usage{Prompt: len(a.prompt), Cached: t.cached}
	for i := range t.choices {
		c := &t.choices[i]
		resp.Usage.Completion += len(c.ids)
		resp.Usage.Reasoning += a.thoughtTokens(&r, c.ids)
		resp.Choices[i] = a.choice(i, c, t.logprobs)
	}
	return api.AppendResponse(d, r.meta, r.form, &resp), resp.Usage.Completion
}
