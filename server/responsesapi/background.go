package responsesapi

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"strconv"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/openai"
	"weir/server/transport"
)

// seeded is a copy of the body of a request, with a seed if it has none. So a response that is
// computed a second time, because the server was restarted, has the same tokens, and a client that
// has seen some of its events goes on with the rest.
func seeded(body []byte, r *request) []byte {
	trimmed := jsontext.Trim(body)
	for _, p := range r.passed {
		if p.name == "seed" {
			return append([]byte(nil), trimmed...)
		}
	}
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails (crypto/rand)
	out := append(make([]byte, 0, len(trimmed)+24), trimmed[:len(trimmed)-1]...)
	out = strconv.AppendUint(append(out, `,"seed":`...), uint64(binary.LittleEndian.Uint32(b[:])), 10)
	return append(out, '}')
}

// queuedAnswer is the form of the answer to a request whose response is computed in the background.
type queuedAnswer struct {
	*answer
	streams bool // its events are to be sent on this connection, too
}

// Defer keeps the response, which is complete but for its output, and answers with it.
func (q *queuedAnswer) Defer(c *transport.Call, meta *api.Meta) bool {
	a := q.answer
	a.model, a.kept = meta.Model, true
	rec := a.record(&state{status: queued}, nil)
	// The time in it is that of the record, so that it is the same after a restart.
	a.created = rec.Created / 1000
	rec.Response = a.appendResponse(nil, &state{status: queued})
	p := &pending{owner: a.keep.owner, id: a.id, created: rec.Created, project: c.Project, address: c.Tenant(), who: c.Who, body: a.keep.body}
	j, err := a.h.jobs.add(c.Context(), p, rec)
	switch {
	case err != nil:
		c.Fail(err)
	case q.streams:
		a.h.follow(c, j, 0)
	default:
		c.Reply(rec.Response)
	}
	return true
}

// firstEvents is how many events a job has before it is computed.
const firstEvents = 2

// run computes a job. It is the Surface of its request.
type run struct {
	h *Handlers
	j *job
	p *pending
	c *transport.Call

	answer *answer          // nil: there is none yet
	fault  *failure.Failure // why it has ended without its end
	opened bool             // it has events
	ended  bool             // it is complete, and kept
}

// Translate makes the body of a chat completion that streams.
func (r *run) Translate(ctx context.Context, m *openai.Model, from openai.Sender, body []byte) ([]byte, openai.SurfaceAnswer, error) {
	q, err := decode(body, &r.h.cfg.Limits)
	if err != nil {
		return nil, nil, err
	}
	q.stream = true
	chat, a, err := r.h.translate(ctx, m, from, q, r.p.id[len(idPrefix):])
	if err != nil {
		return nil, nil, err
	}
	r.answer = a
	a.sequence = firstEvents
	return chat, &runAnswer{answer: a, run: r}, nil
}

// Fail notes an error. Nobody waits for the answer.
func (r *run) Fail(c *transport.Call, err error) failure.Failure {
	f := c.Failed(err)
	r.fault = &f
	return f
}

// runAnswer takes the events of a run. Nothing of them is sent.
type runAnswer struct {
	*answer
	run *run
}

// Form has no heartbeat.
func (r *runAnswer) Form() (contentType, heartbeat string) { return "", "" }

func (r *runAnswer) Open(dst []byte, w *openai.Whole) []byte {
	r.run.opened = true
	r.meet(w)
	r.run.add(r.whole(nil, "response.in_progress", &state{status: inProgress}))
	return dst
}

// meet keeps the time at which the response was asked for.
func (r *runAnswer) meet(w *openai.Whole) {
	r.answer.meet(w)
	r.created = r.run.p.created / 1000
}

func (r *runAnswer) Delta(dst []byte, d *openai.Delta) []byte {
	r.run.add(r.answer.Delta(nil, d))
	return dst
}

// Close keeps the response and ends its events.
func (r *runAnswer) Close(dst []byte, w *openai.Whole) []byte {
	events, s := r.ending(nil, w)
	r.kept = true
	rec := r.record(&s, w)
	rec.Created = r.run.p.created
	r.run.end(rec, r.whole(events, "response."+s.status, &s))
	return dst
}

// Broken notes why the run has ended.
func (r *runAnswer) Broken(dst []byte, f failure.Failure) []byte {
	r.run.fault = &f
	return dst
}

// add adds events to the job. Their memory is charged until the run has ended.
func (r *run) add(events []byte) {
	if len(events) > 0 {
		r.c.Memory().Force(int64(len(events)))
		r.j.add(events)
	}
}

// end keeps the record of a response that has ended, and ends its events with the last ones. It
// tries until the store takes it, or the run is ended.
func (r *run) end(rec *Record, events []byte) {
	r.ended = r.h.jobs.keep(r.j, r.p.owner, rec, events)
}

// continues returns an error for a response that cannot be continued, because it is not complete.
func (r *Record) continues() error {
	switch s := r.status(); s {
	case completed, incomplete:
		return nil
	case queued:
		return failure.BadRequest("previous_response_id", "Response %s is not complete yet; it can be continued when it is.", r.ID)
	default:
		return failure.BadRequest("previous_response_id", "Response %s is %s, so it has no end from which to go on. Continue the one before it.", r.ID, s)
	}
}

// status is the status of the response of a record.
func (r *Record) status() string {
	v := api.Raw(r.Response).Member("status")
	if v == nil || v.Kind() != jsontext.String {
		return completed
	}
	return v.Text()
}

// inBackground reports whether a response was computed in the background.
func (r *Record) inBackground() bool {
	v := api.Raw(r.Response).Member("background")
	return v != nil && v.Kind() == jsontext.Bool && v[0] == 't'
}

// restate returns a response with other values of some members.
func restate(response []byte, values map[string][]byte) []byte {
	dst := make([]byte, 0, len(response)+64)
	for name, v := range api.Raw(response).RawMembers() {
		dst = append(dst, ',')
		if other, ok := values[name.Text()]; ok {
			v = other
		}
		dst = append(append(append(dst, name...), ':'), v...)
	}
	dst[0] = '{'
	return append(dst, '}')
}

func quoted(s string) []byte { return jsontext.AppendString(nil, s) }
