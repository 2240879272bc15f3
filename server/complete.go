package server

import (
	"context"

	"weir/api"
	"weir/engine"
	"weir/server/transport"
)

// complete answers when every choice has ended.
func (s *Server) complete(c *transport.Call, st *engine.Stream, r *reply) {
	choices, err := gather(c.Context(), st, r)
	if err != nil {
		st.Cancel()
		c.Fail(err)
		return
	}
	if r.texts != nil {
		s.completeTexts(c, st, r, choices)
		return
	}
	resp := api.Response{Choices: make([]api.Choice, r.n), PromptTokenIDs: r.prompt}
	resp.Usage = api.Usage{Prompt: len(r.prompt), Cached: st.Cached()}
	for i := range choices {
		g := &choices[i]
		resp.Usage.Completion += len(g.ids)
		thought, content := r.divide(g.text)
		resp.Choices[i] = api.Choice{
			Index: i, Role: r.role, Content: content, Reasoning: thought,
			Logprobs: g.logprobs, HasLogprobs: r.logprobs,
			FinishReason: g.finish, StopReason: g.stop, TokenIDs: g.ids,
		}
	}
	if r.scored {
		resp.HasPromptLogprobs, resp.PromptLogprobs = true, r.promptLogprobs(st.PromptLogprobs(0))
	}
	s.record(r.recording)
	c.SetContentType("application/json")
	c.Response.SetBodyRaw(api.AppendResponse(nil, r.meta, r.form, &resp))
}

// gather waits for the last event of every choice.
func gather(ctx context.Context, st *engine.Stream, r *reply) ([]gathered, error) {
	choices := make([]gathered, r.n)
	var events engine.Events
	for live := r.n; live > 0; {
		if _, err := await(ctx, st, &events, nil); err != nil {
			return nil, err
		}
		for i := range events.Items {
			ev := &events.Items[i]
			if err := failed(ev); err != nil {
				return nil, err
			}
			r.recording.add(ev)
			if choices[ev.Choice].add(r, ev) {
				live--
			}
		}
	}
	return choices, nil
}

// gathered is a choice so far.
type gathered struct {
	text     []byte
	ids      []int32
	logprobs []api.Logprob
	finish   string
	stop     api.StopReason
}

// add takes one event in and reports whether it was the last.
func (g *gathered) add(r *reply, ev *engine.Event) bool {
	g.text = append(g.text, ev.Text...)
	if ev.Token >= 0 {
		g.ids = append(g.ids, ev.Token)
		if r.logprobs {
			entry, _ := r.logprob(ev, nil)
			g.logprobs = append(g.logprobs, entry)
		}
	}
	g.finish, g.stop = finish(ev)
	return g.finish != ""
}
