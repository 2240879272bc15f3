package openai

import (
	"unsafe"

	"weir/api"
	"weir/engine"
	"weir/server/recording"
	"weir/server/transport"
)

// transcript gathers an answer for its recording. It has log-probabilities and all
// thoughts, even if the client did not ask for them.
type transcript struct {
	recording *recording.Recording
	reply     reply
	answer    chatAnswer
	choices   []gathered
}

func newTranscript(to *recording.Recording, r *reply, a *chatAnswer) *transcript {
	t := &transcript{recording: to, reply: *r, answer: *a, choices: make([]gathered, r.n)}
	t.reply.logprobs, t.reply.top, t.reply.chosen = true, 0, false
	t.reply.form.TokenIDs, t.reply.form.HideOutputIDs = true, false
	t.reply.recorded, t.reply.memory, t.reply.answer, t.reply.form.PromptText = nil, nil, nil, nil // they are not kept
	t.answer.hideThoughts, t.answer.echo, t.answer.echoThought = false, "", ""
	return t
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

// record hands a transcript to the recorder, if it is complete. nil is ignored.
func (s *Service) record(c *transport.Call, t *transcript) {
	if t != nil && t.finished() {
		s.recorder.Commit(t.recording, c.Who.Tenant, t, c.Memory())
	}
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

// Size implements recording.Answer.
func (t *transcript) Size() int {
	n := transcriptSize + 4*cap(t.answer.prompt)
	for i := range t.choices {
		c := &t.choices[i]
		n += cap(c.text) + 4*cap(c.ids) + int(unsafe.Sizeof(api.Logprob{}))*cap(c.logprobs)
		for j := range c.logprobs {
			n += len(c.logprobs[j].Text) + 8 // rounded up
		}
	}
	return n
}

// AppendChoice implements recording.Answer.
func (t *transcript) AppendChoice(d []byte, i int) []byte {
	c := t.answer.choice(i, &t.choices[i], true)
	return t.reply.form.AppendChoice(d, &c)
}
