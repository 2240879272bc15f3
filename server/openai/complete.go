package openai

import (
	"context"

	"weir/api"
	"weir/engine"
	"weir/server/transport"
)

// complete sends the whole answer when every choice has ended.
func (s *Service) complete(c *transport.Call, st *engine.Stream, r *reply) {
	m := meter{r: r, memory: r.memory}
	choices, err := gather(c.Context(), st, r, &m)
	if err != nil {
		st.Cancel()
		f := r.fail(c, err)
		s.recordFailure(c, r.recorded, f.Message)
		return
	}
	r.transfer = r.settle(c.Context())
	// A body that doubled as it grows would hold three times as much.
	body := r.answer.complete(make([]byte, 0, m.body+m.body/16+512), r, st, choices)
	s.record(c, r.recorded, st)
	c.ReplyReserved(body)
}

// gather reads the events of all choices until each has had its last one. It fails with
// the error that ended a choice, with the cause of ctx, or if there is no memory.
func gather(ctx context.Context, st *engine.Stream, r *reply, m *meter) ([]gathered, error) {
	choices := make([]gathered, r.n)
	var events engine.Events
	for live := r.n; live > 0; {
		if _, err := await(ctx, st, &events, nil); err != nil {
			return nil, err
		}
		if r.first != nil {
			r.first()
			r.first = nil
		}
		for i := range events.Items {
			ev := &events.Items[i]
			if err := failed(ev); err != nil {
				return nil, err
			}
			r.recorded.add(ev)
			g := &choices[ev.Choice]
			if g.add(r, ev) {
				live--
			}
			if err := m.add(ev, g.entry(ev)); err != nil {
				return nil, err
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

// entry returns the log-probabilities of an event that was added last; nil: it has none.
func (g *gathered) entry(ev *engine.Event) *api.Logprob {
	if ev.Token < 0 || len(g.logprobs) == 0 {
		return nil
	}
	return &g.logprobs[len(g.logprobs)-1]
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
