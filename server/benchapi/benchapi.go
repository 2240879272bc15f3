package benchapi

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"weir/api"
	"weir/auth"
	"weir/internal/jsontext"
	"weir/server/failure"
	"weir/server/transport"
)

// Path is where runs are.
const Path = "/v1/bench"

// Limits of a run, and of the runs that are kept.
const (
	maxPoints      = 12
	maxConcurrency = 512
	maxRequests    = 2000 // of a point
	maxPrompt      = 32_768
	maxOutput      = 8192
	maxRunSeconds  = 1800
	maxRuns        = 100
	maxNameLength  = 100
	maxBody        = 16 << 10
	maxDepth       = 8
	maxReport      = 1 << 20 // bytes of the report of a point
)

// Config is what Handlers are made of.
type Config struct {
	Command []string      // the program that is called, with what comes before "bench serve"
	URL     func() string // where the server can be called from this machine; "": not by HTTP
	Dir     string        // where runs are kept; "": in memory
	Now     func() time.Time
	Log     *slog.Logger
	// Draining reports whether the server stops.
	Draining func() bool
	NewID    func() string // nil: ids are random
}

// Handlers answer what is below Path.
type Handlers struct {
	cfg   Config
	group sync.WaitGroup

	mu     sync.Mutex
	loaded bool
	runs   []*run             // the oldest first
	cancel context.CancelFunc // of the run that goes on; nil: none does
	closed bool
}

// New returns handlers.
func New(cfg Config) *Handlers {
	if cfg.NewID == nil {
		cfg.NewID = func() string { return transport.RandomHex(8) }
	}
	return &Handlers{cfg: cfg}
}

// Close ends the run that goes on, and waits for its process.
func (h *Handlers) Close() {
	h.mu.Lock()
	h.closed = true
	if h.cancel != nil {
		h.cancel()
	}
	h.mu.Unlock()
	h.group.Wait()
}

// The states of a run.
const (
	running   = "running"
	completed = "completed"
	failed    = "failed"
	cancelled = "cancelled"
)

// run is a run, as it is answered and kept.
type run struct {
	ID      string  `json:"id"`
	Object  string  `json:"object"`
	Name    string  `json:"name"`
	Status  string  `json:"status"`
	Created int64   `json:"created_at"`
	Ended   *int64  `json:"ended_at"`
	Load    load    `json:"load"`
	Current *int    `json:"current"` // the concurrency that is measured
	Error   *string `json:"error"`
	Points  []point `json:"points"`
}

// point is what was measured with so many requests in flight.
type point struct {
	Concurrency int                 `json:"concurrency"`
	Result      jsontext.RawMessage `json:"result"` // the report of weir bench serve
}

// load is what is asked of a run.
type load struct {
	Concurrencies []int  `json:"concurrencies"`
	Requests      int    `json:"requests"` // of each point
	Input         int    `json:"input_tokens"`
	Output        int    `json:"output_tokens"`
	Seconds       int    `json:"max_seconds"`
	Seed          uint64 `json:"seed"`
}

// Find returns the function of a path.
func (h *Handlers) Find(path string) (name, methods string, serve func(*transport.Call)) {
	if path == Path {
		return path, "GET, POST", h.guarded(func(c *transport.Call) {
			if c.IsPost() {
				h.start(c)
			} else {
				h.list(c)
			}
		})
	}
	id, what, more := strings.Cut(strings.TrimPrefix(path, Path+"/"), "/")
	switch {
	case !strings.HasPrefix(path, Path+"/") || id == "" || len(id) > 64 || more && what != "cancel":
		return "", "", nil
	case more:
		return Path + "/{id}/cancel", "POST", h.guarded(func(c *transport.Call) { h.stop(c, id) })
	}
	return Path + "/{id}", "GET, DELETE", h.guarded(func(c *transport.Call) {
		if c.IsDelete() {
			h.remove(c, id)
		} else {
			h.get(c, id)
		}
	})
}

// guarded lets those through who may administer everything.
func (h *Handlers) guarded(serve func(*transport.Call)) func(*transport.Call) {
	return func(c *transport.Call) {
		if c.Who == nil || !c.Who.May(auth.Admin, "*") {
			c.Fail(api.ErrPermission("The key may not load the server: that takes the right admin for all projects."))
			return
		}
		serve(c)
	}
}

// start answers POST /v1/bench.
func (h *Handlers) start(c *transport.Call) {
	if !api.IsJSON(string(c.Request.Header.ContentType())) {
		c.Fail(api.ErrContentType())
		return
	}
	scheme, _, key := auth.Parse(string(c.Request.Header.Peek("Authorization")))
	if scheme != auth.Bearer {
		key = string(c.Request.Header.Peek("X-Api-Key"))
	}
	if !c.ReadJSON(maxBody, h.cfg.Draining()) {
		return
	}
	r, bad := decode(c.Body())
	if bad != nil {
		c.Fail(bad)
		return
	}
	url := h.cfg.URL()
	if url == "" {
		c.Fail(conflict("unreachable", "The server listens on no TCP port, so that no load can be put on it this way."))
		return
	}
	r.ID, r.Object, r.Status, r.Created, r.Points = "bench_"+h.cfg.NewID(), "bench.run", running, h.cfg.Now().Unix(), []point{}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.load()
	switch {
	case h.closed:
		c.Fail(failure.ErrDraining)
		return
	case h.cancel != nil:
		c.Fail(conflict("busy", "A run goes on; there is one at a time. Wait for it, or cancel it."))
		return
	}
	h.runs = append(h.runs, r)
	for len(h.runs) > maxRuns {
		h.forget(0)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.Load.Seconds)*time.Second)
	h.cancel = cancel
	h.group.Go(func() {
		defer cancel()
		h.measure(ctx, r, url, key)
	})
	h.answer(c, r)
}

// answer answers with a run. h.mu is locked.
func (h *Handlers) answer(c *transport.Call, v any) {
	text, err := jsontext.Encode(v)
	if err != nil {
		c.Fail(err)
		return
	}
	c.Reply(text)
}

// list answers GET /v1/bench: the runs without their points, the newest first.
func (h *Handlers) list(c *transport.Call) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.load()
	rows := make([]run, 0, len(h.runs))
	for _, r := range slices.Backward(h.runs) {
		row := *r
		row.Points = []point{}
		rows = append(rows, row)
	}
	h.answer(c, map[string]any{"object": "list", "data": rows})
}

// find returns the place of a run, or answers that it is not there. h.mu is locked.
func (h *Handlers) find(c *transport.Call, id string) (at int, ok bool) {
	h.load()
	at = slices.IndexFunc(h.runs, func(r *run) bool { return r.ID == id })
	if at < 0 {
		param := "id"
		c.Fail(&api.Error{Name: "run-not-found", Status: 404, Code: 404, Type: api.TypeNotFound, Param: &param, Message: "There is no such run."})
	}
	return at, at >= 0
}

// get answers GET /v1/bench/{id}.
func (h *Handlers) get(c *transport.Call, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if at, ok := h.find(c, id); ok {
		h.answer(c, h.runs[at])
	}
}

// stop answers POST /v1/bench/{id}/cancel.
func (h *Handlers) stop(c *transport.Call, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.find(c, id)
	if !ok {
		return
	}
	if h.runs[at].Status != running {
		c.Fail(conflict("ended", "The run has ended."))
		return
	}
	h.cancel()
	h.answer(c, h.runs[at])
}

// remove answers DELETE /v1/bench/{id}.
func (h *Handlers) remove(c *transport.Call, id string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	at, ok := h.find(c, id)
	if !ok {
		return
	}
	if h.runs[at].Status == running {
		c.Fail(conflict("running", "The run goes on; cancel it first."))
		return
	}
	h.forget(at)
	h.answer(c, map[string]any{"id": id, "object": "bench.run", "deleted": true})
}

func conflict(name, text string) *api.Error {
	return &api.Error{Name: "bench-" + name, Status: 409, Code: 409, Type: "Conflict", Message: text}
}

// decode reads what a run is asked for with.
func decode(body []byte) (*run, *api.Error) {
	if bad := jsontext.Check(body, maxDepth); bad != nil {
		return nil, failure.BadRequest("", "The request body is not JSON: %s.", bad.Error())
	}
	v := jsontext.Trim(body)
	if v.Kind() != jsontext.Object {
		return nil, failure.BadRequest("", "The request body must be a JSON object.")
	}
	r := &run{Load: load{Concurrencies: []int{1, 2, 4, 8}, Requests: 32, Input: 128, Output: 64, Seconds: 600}}
	if m := v.Member("name"); m.Given() {
		if m.Kind() != jsontext.String || len(m.Text()) > maxNameLength {
			return nil, failure.BadRequest("name", "name must be a text of at most %d bytes.", maxNameLength)
		}
		r.Name = m.Text()
	}
	seed := 0
	for _, f := range []struct {
		name        string
		to          *int
		least, most int
	}{
		{"requests", &r.Load.Requests, 1, maxRequests}, {"input_tokens", &r.Load.Input, 1, maxPrompt}, {"output_tokens", &r.Load.Output, 1, maxOutput},
		{"max_seconds", &r.Load.Seconds, 1, maxRunSeconds}, {"seed", &seed, 0, 1 << 31},
	} {
		if m := v.Member(f.name); m.Given() && !whole(m, f.to, f.least, f.most) {
			return nil, failure.BadRequest(f.name, "%s must be a whole number from %d to %d.", f.name, f.least, f.most)
		}
	}
	r.Load.Seed = uint64(seed)
	m := v.Member("concurrencies")
	if !m.Given() {
		return r, nil
	}
	var list []int
	if m.Kind() != jsontext.Array || jsontext.Decode(m, &list) != nil || len(list) == 0 || len(list) > maxPoints ||
		slices.ContainsFunc(list, func(n int) bool { return n < 1 || n > maxConcurrency }) {
		return nil, failure.BadRequest("concurrencies", "concurrencies must be 1 to %d whole numbers from 1 to %d.", maxPoints, maxConcurrency)
	}
	r.Load.Concurrencies = list
	return r, nil
}

func whole(v jsontext.Value, to *int, least, most int) bool {
	n := 0
	if v.Kind() != jsontext.Number || jsontext.Decode(v, &n) != nil || n < least || n > most {
		return false
	}
	*to = n
	return true
}
