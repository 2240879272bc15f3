package weaveapi

import (
	"strings"

	"weir/calls"
	"weir/feedback"
	"weir/objects"
	"weir/queues"
	"weir/server/transport"
)

// Config is what the functions need.
type Config struct {
	Calls    *calls.Store
	Objects  *objects.Store
	Queues   *queues.Store
	Feedback *feedback.Store
	MaxBody  int // largest body of a request, in bytes
	MaxRatio int // of the bytes of a compressed body for each that was sent
	// Draining tells whether the server is stopping. Writes and queries that begin
	// then are refused.
	Draining func() bool
}

// Handlers answer the functions. They are safe for concurrent use.
type Handlers struct {
	cfg    Config
	routes map[string]transport.Route // of paths without parameters
	forms  []form                     // of paths with parameters
}

// route is a function of the interface. Its path may have parameters, such as
// /v2/{entity}/{project}/call/start. Functions of one path and several methods are several
// routes.
type route struct {
	method, path string
	serve        func(*Handlers, *transport.Call)
}

// form is the path of routes with parameters.
type form struct {
	parts []string // "{" begins a parameter
	route transport.Route
}

// lists are the routes by subject.
var lists = [][]route{callRoutes, callQueryRoutes, objectRoutes, queueRoutes, spanRoutes, startRoutes, absentRoutes}

// New returns handlers.
func New(cfg Config) *Handlers {
	h := &Handlers{cfg: cfg, routes: map[string]transport.Route{}}
	methods := map[string]map[string]func(*Handlers, *transport.Call){}
	var paths []string
	for _, list := range lists {
		for _, r := range list {
			if methods[r.path] == nil {
				methods[r.path] = map[string]func(*Handlers, *transport.Call){}
				paths = append(paths, r.path)
			}
			methods[r.path][r.method] = r.serve
		}
	}
	for _, path := range paths {
		serve := methods[path]
		r := transport.Route{Name: path, APIKey: strings.HasSuffix(path, "/otel/v1/traces"), Serve: func(c *transport.Call) { serve[c.Verb()](h, c) }}
		for _, m := range []string{"GET", "POST", "PUT", "DELETE"} {
			if serve[m] != nil {
				r.Methods += ", " + m
			}
		}
		r.Methods = strings.TrimPrefix(r.Methods, ", ")
		if strings.Contains(path, "{") {
			h.forms = append(h.forms, form{strings.Split(path, "/"), r})
			continue
		}
		h.routes[path] = r
	}
	return h
}

// Routes returns all functions, by their names.
func (h *Handlers) Routes() map[string]transport.Route {
	all := map[string]transport.Route{}
	for _, r := range h.routes {
		all[r.Name] = r
	}
	for _, f := range h.forms {
		all[f.route.Name] = f.route
	}
	return all
}

// Find returns the function of a path, if it is one of these.
func (h *Handlers) Find(path string) (transport.Route, bool) {
	if r, ok := h.routes[path]; ok {
		return r, true
	}
	for _, f := range h.forms {
		if f.fits(path) {
			return f.route, true
		}
	}
	return transport.Route{}, false
}

// fits reports whether a path has this form. Parameters are not empty.
func (f *form) fits(path string) bool {
	n := 0
	for part := range strings.SplitSeq(path, "/") {
		if n == len(f.parts) || f.parts[n] != part && (part == "" || !strings.HasPrefix(f.parts[n], "{")) {
			return false
		}
		n++
	}
	return n == len(f.parts)
}

// param is part n of a call's path, counted from 0 after the first slash, as it was sent.
func param(c *transport.Call, n int) string {
	parts := strings.Split(strings.TrimPrefix(c.Target, "/"), "/")
	if n >= len(parts) {
		return ""
	}
	return parts[n]
}

// begins are the beginnings of all paths of the interface.
var begins = []string{
	"/actions/", "/agents/", "/aliases", "/annotation_queues", "/call/", "/calls/", "/completions/", "/cost/", "/dataset_sources/", "/evaluations/", "/file/", "/files/",
	"/graphql", "/image/", "/link_to_registry", "/obj/", "/objs/", "/otel/", "/project/", "/refs/", "/service/", "/table/", "/tags", "/threads/", "/trace/", "/v2/",
}

// Owns reports whether a path belongs to the interface, whether there is a function at it or
// not.
func Owns(path string) bool {
	for _, b := range begins {
		if path == b || strings.HasPrefix(path, b) && (strings.HasSuffix(b, "/") || path[len(b)] == '/') {
			return true
		}
	}
	return false
}
