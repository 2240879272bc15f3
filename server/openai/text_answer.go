package openai

import (
	"weir/api"
	"weir/engine"
)

// textAnswer is the answer of /v1/completions.
type textAnswer struct {
	n       int       // choices of each prompt
	prompts [][]int32 // ids
	echo    []string  // text before the choices of each prompt; nil: not asked for
	only    bool      // the answer is only the prompt: the token that the engine draws is dropped
	scored  bool      // choices have prompt_logprobs
}

func (t *textAnswer) promptTokens() (n int) {
	for _, p := range t.prompts {
		n += len(p)
	}
	return n
}

func (t *textAnswer) complete(dst []byte, r *reply, st *engine.Stream, choices []gathered) []byte {
	resp := api.TextResponse{Choices: make([]api.TextChoice, len(choices)), Usage: api.Usage{Prompt: t.promptTokens(), Cached: st.Cached()}, KVTransferParams: r.transfer}
	for p, prompt := range t.prompts {
		echo, before := t.echoed(r, st, p)
		var scores []api.PromptLogprob
		if t.scored {
			scores = r.promptLogprobs(st.PromptLogprobs(p))
		}
		for i := p * t.n; i < (p+1)*t.n; i++ {
			g := &choices[i]
			if t.only {
				*g = gathered{finish: api.FinishLength}
			}
			resp.Usage.Completion += len(g.ids)
			resp.Choices[i] = api.TextChoice{
				Index: i, Text: echo + string(g.text), FinishReason: g.finish, StopReason: g.stop, TokenIDs: g.ids,
				PromptTokenIDs: prompt, PromptLogprobs: scores, HasPromptLogprobs: t.scored,
			}
			if r.logprobs {
				resp.Choices[i].Logprobs = joined(before, g.logprobs)
			}
		}
	}
	return api.AppendTextResponse(dst, r.meta, r.form, &resp)
}

// echoed returns the text and the log-probabilities before the choices of prompt i, without
// those that were not asked for.
func (t *textAnswer) echoed(r *reply, st *engine.Stream, i int) (string, *api.TextLogprobs) {
	if t.echo == nil {
		return "", nil
	}
	if !r.logprobs {
		return t.echo[i], nil
	}
	scores, prompt := st.PromptLogprobs(i), t.prompts[i]
	l := &api.TextLogprobs{Unscored: true, Entries: make([]api.Logprob, 1, len(prompt))}
	l.Entries[0].TokenLogprob = api.TokenLogprob{ID: prompt[0], Text: tokenText(r.tok, prompt[0])}
	for j := range scores {
		l.Entries = append(l.Entries, r.echoedLogprob(&scores[j]))
	}
	return t.echo[i], l
}

// joined returns the log-probabilities of a choice after those of its prompt, if there are
// any of the prompt.
func joined(before *api.TextLogprobs, own []api.Logprob) *api.TextLogprobs {
	if before == nil {
		return &api.TextLogprobs{Entries: own}
	}
	l := *before
	l.Entries = append(l.Entries[:len(l.Entries):len(l.Entries)], own...)
	return &l
}

func (t *textAnswer) encoder(r *reply, st *engine.Stream) encoder {
	return &textEncoder{
		r: r, t: t, st: st, enc: api.NewTextStream(r.meta, r.form),
		begun: make([]bool, r.n), chunks: newChunker(r), offset: make([]api.TextOffset, r.n),
	}
}

// textEncoder writes a streaming answer.
type textEncoder struct {
	events
	r   *reply
	t   *textAnswer
	st  *engine.Stream
	enc *api.TextStream

	begun  []bool // by choice: an event has been written
	opened bool   // any event has been written
	chunks chunker
	offset []api.TextOffset // by choice: where its next log-probability stands

	scores api.TextLogprobs
	chunk  api.TextChoice
}

// open appends nothing: the echo is a part of the first token's event.
func (e *textEncoder) open(dst []byte) ([]byte, bool) { return dst, false }

// event appends an event of a choice. The first one of a choice has the echo and the token
// ids of the prompt as well.
func (e *textEncoder) event(dst []byte, ev *engine.Event) ([]byte, bool) {
	t, i := e.t, int(ev.Choice)
	prompt := t.prompts[i/t.n]
	c := &e.chunk
	*c = api.TextChoice{Index: i, First: !e.opened}
	var own []api.Logprob
	if t.only {
		c.FinishReason = api.FinishLength
	} else {
		p, due := e.chunks.add(ev)
		if !due {
			return dst, false
		}
		c.FinishReason, c.StopReason = finish(ev)
		c.Text, c.TokenIDs, own = view(p.text), p.ids, p.entries
	}
	var before *api.TextLogprobs
	if !e.begun[i] {
		e.begun[i] = true
		c.PromptTokenIDs = prompt
		var echo string
		if echo, before = t.echoed(e.r, e.st, i/t.n); echo != "" {
			c.Text = echo + c.Text
		}
	}
	if before != nil {
		c.Logprobs = joined(before, own)
	} else if len(own) > 0 {
		e.scores = api.TextLogprobs{Entries: own, Offset: e.offset[i]}
		c.Logprobs = &e.scores
	}
	if c.Logprobs != nil {
		e.offset[i] = c.Logprobs.End()
	}
	dst = e.enc.AppendChunk(dst, c, api.Usage{Prompt: len(prompt), Completion: e.chunks.used[i]})
	e.opened = true
	return dst, c.FinishReason != ""
}

func (e *textEncoder) end(dst []byte) []byte {
	if e.r.usage {
		dst = e.enc.AppendUsage(dst, api.Usage{Prompt: e.t.promptTokens(), Cached: e.st.Cached(), Completion: sum(e.chunks.used)})
	}
	return append(dst, api.Done...)
}
