package responsesapi

import (
	"log/slog"
	"strconv"
	"strings"
	"time"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/openai"
	"weir/server/transport"
)

// Path is where responses are asked for.
const Path = "/v1/responses"

// Config is what Handlers are made of.
type Config struct {
	Service *openai.Service
	Store   *Store // nil: nothing is kept
	Limits  api.Limits
	NewID   func() string // makes the part of ids that is a response's own; nil: it is random
	Now     func() time.Time
	Log     *slog.Logger

	// HTTP computes responses in the background.
	HTTP *transport.Server
	// Heartbeat is how long a stream of such a response may be silent; 0: for ever.
	Heartbeat time.Duration
	Background
}

// Handlers answer what is below Path.
type Handlers struct {
	cfg  Config
	jobs *jobs // responses in the background; nil: there is no store
}

// New returns handlers.
func New(cfg Config) *Handlers {
	if cfg.NewID == nil {
		cfg.NewID = func() string { return transport.RandomHex(numberBytes) }
	}
	h := &Handlers{cfg: cfg}
	if cfg.Store != nil {
		h.jobs = newJobs(h)
	}
	return h
}

// numberBytes is the length in bytes of the part of ids that is a response's own. They are sent
// as hexadecimal digits.
const numberBytes = 16

// idPrefix begins the id of a response.
const idPrefix = "resp_"

// Find returns the function of a path at or below Path; nil: there is none.
func (h *Handlers) Find(path string) (name, methods string, serve func(*transport.Call)) {
	rest, ok := strings.CutPrefix(path, Path)
	switch {
	case !ok:
		return "", "", nil
	case rest == "":
		return Path, "POST", h.create
	case rest == "/input_tokens":
		return path, "POST", h.count
	case rest == "/compact":
		return path, "POST", h.compact
	}
	id, what, _ := strings.Cut(strings.TrimPrefix(rest, "/"), "/")
	if rest[0] != '/' || id == "" || len(id) > maxIDLength {
		return "", "", nil
	}
	one := func(f func(c *transport.Call, id string)) func(*transport.Call) {
		return func(c *transport.Call) { f(c, id) }
	}
	switch what {
	case "":
		if strings.HasSuffix(rest, "/") {
			return "", "", nil
		}
		return Path + "/{id}", "GET, DELETE", func(c *transport.Call) {
			if c.IsDelete() {
				h.delete(c, id)
			} else {
				h.get(c, id)
			}
		}
	case "cancel":
		return Path + "/{id}/cancel", "POST", one(h.cancel)
	case "input_items":
		return Path + "/{id}/input_items", "GET", one(h.inputItems)
	}
	return "", "", nil
}

// maxIDLength bounds the ids that clients ask for, in bytes.
const maxIDLength = 128

// create answers POST /v1/responses.
func (h *Handlers) create(c *transport.Call) { h.cfg.Service.Serve(c, h) }

// count answers POST /v1/responses/input_tokens.
func (h *Handlers) count(c *transport.Call) {
	h.cfg.Service.CountPrompt(c, h, func(dst []byte, tokens int) []byte {
		return append(strconv.AppendInt(append(dst, `{"object":"response.input_tokens","input_tokens":`...), int64(tokens), 10), '}')
	})
}

// compact answers POST /v1/responses/compact, by which OpenAI's server replaces the items of a conversation
// by an opaque one that is shorter. An item that kept the conversation as it is would be an answer in this form,
// but clients that compact because the context is full would come again with the next turn, and so on.
// It is 400 and not 404, because Codex sends a request that was answered 404 six times.
func (h *Handlers) compact(c *transport.Call) {
	e := failure.BadRequest("", "This server does not compact conversations. Ask the model for a summary of the items in a response of its own, or drop the oldest.")
	e.Name = "no-compaction"
	c.Fail(e)
}

// Fail answers with an error. This interface has the form that the whole of OpenAI's has.
func (h *Handlers) Fail(c *transport.Call, err error) failure.Failure { return c.Fail(err) }

func (h *Handlers) now() time.Time { return h.cfg.Now() }

// ownerOf is whose the responses of a sender are. A project is shared by the keys that it is
// named for; otherwise each tenant has its own.
func ownerOf(from openai.Sender) Owner {
	o := Owner{Project: from.Project}
	if who := from.Who; who != nil && (o.Project == "" || !who.Names(o.Project)) {
		o.Tenant = who.Tenant
	}
	return o
}

func userOf(from openai.Sender) string {
	if from.Who == nil {
		return ""
	}
	return from.Who.User
}

func senderOf(c *transport.Call) openai.Sender {
	return openai.Sender{ID: c.RequestID, Project: c.Project, Who: c.Who}
}

// errNotFound is the error for a response that is not kept, or that is another's.
func errNotFound(id string) *api.Error {
	param := "response_id"
	return &api.Error{
		Name: "response-not-found", Status: 404, Code: 404, Type: api.TypeNotFound, Param: &param,
		Message: "There is no response " + clip([]byte(id)) + ". It was never kept (store false), was deleted, or is too old.",
	}
}

// find returns a response that is kept, or answers that there is none.
func (h *Handlers) find(c *transport.Call, id string) *Record {
	if h.cfg.Store == nil {
		c.Fail(errNotFound(id))
		return nil
	}
	rec, err := h.cfg.Store.Get(ownerOf(senderOf(c)), id)
	switch {
	case err != nil:
		c.Fail(err)
		return nil
	case rec == nil:
		c.Fail(errNotFound(id))
	}
	return rec
}

// earlier returns the response that a request continues.
func (h *Handlers) earlier(o Owner, id string) (*Record, error) {
	if h.cfg.Store != nil && len(id) <= maxIDLength {
		rec, err := h.cfg.Store.Get(o, id)
		if err != nil {
			return nil, err
		}
		if rec != nil {
			return rec, rec.continues()
		}
	}
	e := errNotFound(id)
	param := "previous_response_id"
	e.Param = &param
	return nil, e
}

// referred returns the item with an id, of the input or output of a response that is kept; nil:
// there is none. The ids of items have the number of their response.
func (h *Handlers) referred(o Owner, id string) (api.Raw, error) {
	_, rest, ok := strings.Cut(id, "_")
	if h.cfg.Store == nil || !ok || len(rest) < 2*numberBytes {
		return nil, nil
	}
	rec, err := h.cfg.Store.Get(o, idPrefix+rest[:2*numberBytes])
	if rec == nil || err != nil {
		return nil, err
	}
	for _, list := range []api.Raw{api.Raw(rec.Response).Member("output"), rec.items()} {
		for _, e := range list.Elements() {
			if v := e.Member("id"); v.Given() && v.Kind() == jsontext.String && v.Text() == id {
				return e, nil
			}
		}
	}
	return nil, nil
}

// items is the list of the items of the input.
func (r *Record) items() api.Raw {
	return append(append([]byte{'['}, r.Items...), ']')
}

// delete answers DELETE /v1/responses/{id}.
func (h *Handlers) delete(c *transport.Call, id string) {
	if h.cfg.Store == nil {
		c.Fail(errNotFound(id))
		return
	}
	found, err := h.cfg.Store.Delete(c.Context(), ownerOf(senderOf(c)), id)
	switch {
	case err != nil:
		c.Fail(err)
	case !found:
		c.Fail(errNotFound(id))
	default:
		dst := jsontext.AppendString([]byte(`{"id":`), id)
		c.Reply(append(dst, `,"object":"response","deleted":true}`...))
	}
}

// Bounds of a page of items.
const (
	pageItems    = 20
	maxPageItems = 100
)

// inputItems answers GET /v1/responses/{id}/input_items.
func (h *Handlers) inputItems(c *transport.Call, id string) {
	q := c.QueryArgs()
	limit, order, after := pageItems, string(q.Peek("order")), string(q.Peek("after"))
	if v := q.Peek("limit"); len(v) > 0 {
		n, err := strconv.Atoi(string(v))
		if err != nil || n < 1 || n > maxPageItems {
			c.Fail(failure.BadRequest("limit", "limit must be a whole number from 1 to %d, got %s.", maxPageItems, clip(v)))
			return
		}
		limit = n
	}
	if order != "" && order != "asc" && order != "desc" {
		c.Fail(failure.BadRequest("order", "order must be asc or desc, got %s.", clip([]byte(order))))
		return
	}
	rec := h.find(c, id)
	if rec == nil {
		return
	}
	var all []api.Raw
	for _, e := range rec.items().Elements() {
		all = append(all, e)
	}
	if order != "asc" { // the newest first, unless it is said otherwise
		for i, j := 0, len(all)-1; i < j; i, j = i+1, j-1 {
			all[i], all[j] = all[j], all[i]
		}
	}
	if after != "" {
		at := -1
		for i, e := range all {
			if e.Member("id").Text() == after {
				at = i
			}
		}
		if at < 0 {
			c.Fail(failure.BadRequest("after", "after names %s, which is not an item of this response.", clip([]byte(after))))
			return
		}
		all = all[at+1:]
	}
	more := len(all) > limit
	c.Reply(appendPage(all[:min(limit, len(all))], more))
}

// appendPage makes a list of items.
func appendPage(items []api.Raw, more bool) []byte {
	dst := []byte(`{"object":"list","data":[`)
	for i, e := range items {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, e...)
	}
	first, last := []byte(`""`), []byte(`""`)
	if n := len(items); n > 0 {
		first, last = items[0].Member("id"), items[n-1].Member("id")
	}
	dst = append(append(dst, `],"first_id":`...), first...)
	dst = append(append(dst, `,"last_id":`...), last...)
	return append(strconv.AppendBool(append(dst, `,"has_more":`...), more), '}')
}
