package weaveapi

import (
	"context"
	"io"
	"net/url"
	"strconv"
	"strings"

	"weir/auth"
	"weir/calls"
	"weir/feedback"
	"weir/queues"
	"weir/server/failure"
	"weir/server/transport"
)

var queueRoutes = []route{
	{"POST", "/annotation_queues", (*Handlers).createQueue},
	{"POST", "/annotation_queues/query", (*Handlers).queryQueues},
	{"POST", "/annotation_queues/stats", (*Handlers).queueStats},
	{"GET", "/annotation_queues/{queue_id}", (*Handlers).readQueue},
	{"PUT", "/annotation_queues/{queue_id}", (*Handlers).updateQueue},
	{"DELETE", "/annotation_queues/{queue_id}", (*Handlers).deleteQueue},
	{"POST", "/annotation_queues/{queue_id}/items", (*Handlers).addToQueue},
	{"POST", "/annotation_queues/{queue_id}/items/query", (*Handlers).queryItems},
	{"POST", "/annotation_queues/{queue_id}/items/{item_id}/progress", (*Handlers).setProgress},
}

// pathID is an id in a path.
func pathID(c *transport.Call, n int) string {
	id, err := url.PathUnescape(param(c, n))
	if err != nil {
		return ""
	}
	return id
}

// queueRequest reads the body of a request about queues and checks the rights to it;
// false: it was answered.
func (h *Handlers) queueRequest(c *transport.Call, right auth.Rights, decode func(context.Context, []byte) (*queues.Request, error)) (*queues.Request, bool) {
	if !h.readBody(c) {
		return nil, false
	}
	return decoded(c, right, decode, func(r *queues.Request) string { return r.Project })
}

func (h *Handlers) createQueue(c *transport.Call) {
	r, ok := h.queueRequest(c, auth.Write, queues.DecodeCreate)
	if !ok {
		return
	}
	id, err := h.cfg.Queues.Create(c.Context(), c.Who.User, r)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply([]byte(`{"id":"` + id + `"}`))
}

// replyQueue answers with a queue.
func replyQueue(c *transport.Call, q *queues.Queue, err error) {
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(append(q.AppendJSON([]byte(`{"queue":`)), '}'))
}

// queueProject is the project that a request without a body names; false: it was answered.
func queueProject(c *transport.Call, right auth.Rights) (string, bool) {
	project := string(c.QueryArgs().Peek("project_id"))
	var err error
	switch {
	case project == "":
		err = feedback.Invalid{{Loc: []string{"query", "project_id"}, Type: "missing", Msg: "Field required"}}
	case !c.Who.May(right, project):
		err = feedback.Forbidden
	default:
		return project, true
	}
	c.Fail(err)
	return "", false
}

func (h *Handlers) readQueue(c *transport.Call) {
	if project, ok := queueProject(c, auth.Read); ok {
		q, err := h.cfg.Queues.Get(project, pathID(c, 1))
		replyQueue(c, q, err)
	}
}

func (h *Handlers) updateQueue(c *transport.Call) {
	if r, ok := h.queueRequest(c, auth.Write, queues.DecodeUpdate); ok {
		q, err := h.cfg.Queues.Update(c.Context(), pathID(c, 1), r)
		replyQueue(c, q, err)
	}
}

func (h *Handlers) deleteQueue(c *transport.Call) {
	project, ok := queueProject(c, auth.Write)
	if !ok {
		return
	}
	if h.cfg.Draining() {
		c.Fail(failure.ErrDraining)
		return
	}
	var q *queues.Queue
	err := c.Query(func(ctx context.Context) (err error) {
		q, err = h.cfg.Queues.Delete(ctx, project, pathID(c, 1))
		return err
	})
	replyQueue(c, q, err)
}

func (h *Handlers) queryQueues(c *transport.Call) {
	h.listQueues(c, "application/jsonl", queues.DecodeQuery, h.cfg.Queues.WriteQueues)
}

func (h *Handlers) queryItems(c *transport.Call) {
	id := pathID(c, 1)
	h.listQueues(c, "application/json", func(ctx context.Context, body []byte) (*queues.Query, error) {
		return queues.DecodeItemQuery(ctx, body, id)
	}, h.cfg.Queues.WriteItems)
}

// listQueues answers a query for queues or items.
func (h *Handlers) listQueues(c *transport.Call, contentType string, decode func(context.Context, []byte) (*queues.Query, error), write func(context.Context, *queues.Query, io.Writer) error) {
	if !h.readBody(c) {
		return
	}
	download(c, contentType, decode, func(q *queues.Query) string { return q.Project }, write)
}

func (h *Handlers) queueStats(c *transport.Call) {
	r, ok := h.queueRequest(c, auth.Read, queues.DecodeStats)
	if !ok {
		return
	}
	h.answerQuery(c, func(ctx context.Context) ([]byte, error) { return h.cfg.Queues.Stats(ctx, r) })
}

// addedBytes is about what a call takes while it is added to a queue.
const addedBytes = 4 << 10

func (h *Handlers) addToQueue(c *transport.Call) {
	r, ok := h.queueRequest(c, auth.Write, queues.DecodeAdd)
	if !ok {
		return
	}
	if !reserve(c, addedBytes*int64(len(r.Calls()))) {
		return
	}
	var found map[string]queues.Call
	err := c.Query(func(context.Context) (err error) {
		found, err = h.callsToAdd(r)
		return err
	})
	var added queues.Added
	if err == nil {
		added, err = h.cfg.Queues.Add(c.Context(), c.Who.User, pathID(c, 1), r, found)
	}
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply([]byte(`{"added_count":` + strconv.Itoa(added.Count) + `,"duplicates":` + strconv.Itoa(added.Duplicates) + `}`))
}

// callsToAdd reads the calls of a request that there are.
func (h *Handlers) callsToAdd(r *queues.Request) (map[string]queues.Call, error) {
	found := map[string]queues.Call{}
	for _, id := range r.Calls() {
		rec, err := h.cfg.Calls.Get(r.Project, id)
		if err != nil {
			return nil, err
		}
		if rec == nil {
			continue
		}
		q := queues.Call{ID: id, Op: strings.Clone(rec.Text(calls.OpName)), Trace: strings.Clone(rec.Text(calls.TraceID)), Started: rec.Started}
		if rec.Ended != calls.NotEnded {
			ended := rec.Ended
			q.Ended = &ended
		}
		found[id] = q
	}
	return found, nil
}

func (h *Handlers) setProgress(c *transport.Call) {
	r, ok := h.queueRequest(c, auth.Write, queues.DecodeProgress)
	if !ok {
		return
	}
	item, err := h.cfg.Queues.SetProgress(c.Context(), c.Who.User, pathID(c, 1), pathID(c, 3), r)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(append(append([]byte(`{"item":`), item...), '}'))
}
