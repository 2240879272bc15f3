package openai

import (
	"context"

	"weir/api"
	"weir/engine"
	"weir/server/transport"
)

// complete sends the whole answer when every choice has ended.
func (s *Service) complete(c *transport.Call, st *engine.Stream, r *reply) {
	choices, err := gather(c.Context(), st, r)
	if err != nil {
		st.Cancel()
		c.Fail(err)
		return
	}
	body := r.answer.complete(r, st, choices)
	s.record(c, r.recorded)
	c.Reply(body)
}

// gather reads the events of all choices until each has had its last one. It fails with
// the error that ended a choice, or with the cause of ctx.
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
			r.recorded.add(ev)
			if choices[ev.Choice].add(r, ev) {
				live--
			}
		}
	}
	return choices, nil
}

// gathered is what the events of a choice have said so far.
type gathered struct {
	text     []byte
	ids      []int32
	logprobs []api.Logprob
	finish   string
	stop     api.StopReason
}

// add appends an event to the choice, and reports whether it was the last one.
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
