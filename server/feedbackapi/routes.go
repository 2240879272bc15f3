package feedbackapi

import (
	"context"
	"strings"

	"weir/feedback"
	"weir/server/transport"
)

// Prefix is in front of the paths of all functions.
const Prefix = "/feedback/"

// Config is what the functions need.
type Config struct {
	Store   *feedback.Store
	MaxBody int // largest body of a request, in bytes
	// Draining tells whether the server is stopping. Writes and queries that begin
	// then are refused.
	Draining func() bool
	// Written is told of each reward of a chat completion that a stored record sets. If it is
	// known already that this completion cannot have it, why says so.
	Written func(tenant string, w feedback.Reward) (why string)
	// Unset is told of each stored record that is about a reward and has none.
	Unset func()
	// Unknown is told of each member of a request that only a later version of Weave knows.
	Unknown func(name string)
	// EraseCalls erases the calls that an erasure is about, too, and returns how many they
	// were. nil: there are no calls.
	EraseCalls func(context.Context, *feedback.Erasure) (int, error)
	// EraseObjects does so with objects, tables and files. nil: there are none.
	EraseObjects func(context.Context, *feedback.Erasure) (int, error)
	// EraseQueues does so with the items of annotation queues. nil: there are none.
	EraseQueues func(context.Context, *feedback.Erasure) (int, error)
	// EraseResponses does so with responses that are kept. nil: there are none.
	EraseResponses func(context.Context, *feedback.Erasure) (int, error)
	// EraseBatches does so with files and batches. nil: there are none.
	EraseBatches func(context.Context, *feedback.Erasure) (int, error)
	// ErasePrefixes removes what is kept of all prompts and outputs outside of the engine, for what was computed of them does not tell whose it
	// is. nil: nothing is kept.
	ErasePrefixes func(context.Context) error
}

// Handlers answer the functions. They are safe for concurrent use.
type Handlers struct {
	cfg    Config
	routes map[string]transport.Route // by the path after Prefix
	get    transport.Route            // of one record, by its id
}

// New returns handlers on a store.
func New(cfg Config) *Handlers {
	h := &Handlers{cfg: cfg}
	h.routes = map[string]transport.Route{
		"replace":        {Methods: "POST", Serve: h.replace},
		"create":         {Methods: "POST", Serve: h.create},
		"batch/create":   {Methods: "POST", Serve: h.createBatch},
		"query":          {Methods: "POST", Serve: h.query},
		"export":         {Methods: "POST", Serve: h.export},
		"stats":          {Methods: "POST", Serve: h.stats},
		"payload_schema": {Methods: "POST", Serve: h.payloadSchema},
		"aggregate":      {Methods: "POST", Serve: h.aggregate},
		"purge":          {Methods: "POST", Serve: h.purge},
		"erase":          {Methods: "POST", Serve: h.erase},
	}
	for path, r := range h.routes {
		r.Name = Prefix + path
		h.routes[path] = r
	}
	h.get = transport.Route{Name: Prefix + "{id}", Methods: "GET", Serve: h.one}
	return h
}

// Routes returns all functions, by their names.
func (h *Handlers) Routes() map[string]transport.Route {
	all := map[string]transport.Route{h.get.Name: h.get}
	for _, r := range h.routes {
		all[r.Name] = r
	}
	return all
}

// Find returns the function of a path, if it is one of these.
func (h *Handlers) Find(path string) (transport.Route, bool) {
	name, ok := strings.CutPrefix(path, Prefix)
	if !ok || name == "" {
		return transport.Route{}, false
	}
	if r, ok := h.routes[name]; ok {
		return r, true
	}
	// A record has a UUID, so any other name is that of a function that there is not.
	return h.get, len(name) == len("00000000-0000-0000-0000-000000000000") && strings.Count(name, "-") == 4 && !strings.Contains(name, "/")
}

// readBody reads the body of a request, or answers the request and returns false.
func (h *Handlers) readBody(c *transport.Call) bool {
	return c.ReadJSON(h.cfg.MaxBody, h.cfg.Draining())
}

// fromWeave tells whether a client of W&B Weave sent a request, which says so in one
// header or the other, by its version.
func fromWeave(c *transport.Call) bool {
	h := &c.Request.Header
	return len(h.Peek("X-Weave-Client-Capabilities"))+len(h.Peek("X-Weave-Retry-Id")) > 0
}
