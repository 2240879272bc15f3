package trajectoryapi

import (
	"context"
	"log/slog"
	"net/url"
	"slices"
	"strings"

	"weir/api"
	"weir/auth"
	"weir/internal/memory"
	"weir/metrics"
	"weir/server/failure"
	"weir/server/transport"
	"weir/trajectory"
)

// Prefix is the path of the list of models, and in front of the paths of all functions.
const Prefix = "/v1/preview/models"

// Handlers answer the functions. They are safe for concurrent use.
type Handlers struct {
	cfg       Config
	transport *transport.Server
	log       *slog.Logger
	counts    *metrics.Metrics
	settle    func(context.Context) error
	functions []function
	uploads   *transport.FairPlaces[string] // log requests that are being read
	memory    *memory.Account               // of these
}

// function is a function that has a model id in its path.
type function struct {
	path   string // what follows the model id; * is any one segment
	method string
	serve  func(c *transport.Call, model string)
}

// New returns handlers for the archive of a configuration. settle, if it is not nil, sets
// the rewards that came as feedback so far: rewards that are set here come after them.
func New(cfg Config, t *transport.Server, counts *metrics.Metrics, settle func(context.Context) error) *Handlers {
	h := &Handlers{cfg: cfg, transport: t, log: t.Log(), counts: counts, settle: settle, uploads: transport.NewFairPlaces[string](cfg.MaxUploads, t.Now, failure.ErrUploads)}
	h.memory = t.Memory().Part(max(t.Memory().Limit()/uploadsShare, leastUploads))
	h.functions = []function{
		{"", "GET", h.oneModel},
		{"", "DELETE", h.deleteModel},
		{"/checkpoints", "GET", h.listCheckpoints},
		{"/checkpoints", "DELETE", h.deleteCheckpoints},
		{"/log", "POST", h.logTrajectories},
		{"/logs", "GET", h.listLogs},
		{"/logs/*", "DELETE", h.deleteLog},
		{"/trajectories", "GET", h.listTrajectories},
		{"/trajectories", "DELETE", h.deleteTrajectories},
		{"/trajectories/*/*/*", "GET", h.oneTrajectory},
		{"/export", "GET", h.exportTrajectories},
		{"/metrics", "GET", h.trajectoryMetrics},
		{"/rewards", "POST", h.setRewards},
	}
	return h
}

// Routes returns the paths of all functions, with * for a segment that may be anything,
// and the methods of each.
func (h *Handlers) Routes() map[string][]string {
	all := map[string][]string{Prefix: {"GET", "POST"}}
	for _, f := range absent {
		all[f.path] = []string{f.method}
	}
	for _, f := range h.functions {
		path := Prefix + "/*" + f.path
		all[path] = append(all[path], f.method)
	}
	return all
}

// Uploads returns how many log requests are being read.
func (h *Handlers) Uploads() int { return h.uploads.Taken() }

// Find returns the function of a path as it was sent: a slash in a model id is escaped
// there, and separates nothing (docs/interface/trajectories.md, T-5).
func (h *Handlers) Find(path string) (transport.Route, bool) {
	rest, ok := strings.CutPrefix(path, Prefix)
	if !ok {
		return findAbsent(path)
	}
	if rest == "" {
		return transport.Route{Name: Prefix, Methods: "GET, POST", Serve: h.models}, true
	}
	segments := strings.Split(rest, "/") // the first is empty, the second is the model
	if segments[0] != "" || len(segments) < 2 || segments[1] == "" {
		return transport.Route{}, false
	}
	return h.findFunction(segments[1], segments[2:])
}

// findFunction returns the function for what follows a model id in a path.
func (h *Handlers) findFunction(model string, rest []string) (route transport.Route, found bool) {
	var same []function // those of this path, which differ in their methods
	var methods []string
	for _, f := range h.functions {
		if fits(strings.Split(f.path, "/")[1:], rest) {
			same, methods = append(same, f), append(methods, f.method)
		}
	}
	if same == nil {
		return transport.Route{}, false
	}
	route = transport.Route{
		Name: Prefix + "/{id}" + same[0].path, Methods: strings.Join(methods, ", "),
		Serve: func(c *transport.Call) { h.serve(c, same, model) },
	}
	if same[0].path == "/log" {
		route.MaxBody = int64(h.cfg.MaxBody)
	}
	return route, true
}

// serve calls the one of some functions that a request's method asks for, if the caller
// may use the model.
func (h *Handlers) serve(c *transport.Call, functions []function, segment string) {
	model, err := url.PathUnescape(segment)
	if err != nil || !trajectory.ValidModel(model) {
		c.Fail(invalid([]string{"path", "model_id"}, "value_error", "Value error, not a model id"))
		return
	}
	i := slices.IndexFunc(functions, func(f function) bool { return f.method == c.Verb() })
	// A caller that logs is told of errors in its body first
	// (docs/interface/trajectories.md, T-6).
	if functions[i].path != "/log" {
		may, err := h.mayUse(c, model)
		if err == nil && !may {
			err = failure.ErrForbidden
		}
		if err != nil {
			c.Fail(err)
			return
		}
	}
	functions[i].serve(c, model)
}

// absent are the functions of ART's client that weir does not have.
var absent = []struct{ path, method string }{
	{"/v1/preview/training-jobs", "POST"},
	{"/v1/preview/training-jobs/*/events", "GET"},
	{"/v1/preview/sft-training-jobs", "POST"},
}

// findAbsent returns a route to the answer that a function is not there.
func findAbsent(path string) (transport.Route, bool) {
	segments := strings.Split(path, "/")
	for _, f := range absent {
		if fits(strings.Split(f.path, "/"), segments) {
			return transport.Route{
				Name: strings.Replace(f.path, "*", "{job_id}", 1), Methods: f.method,
				Serve: func(c *transport.Call) { c.Fail(errTraining) },
			}, true
		}
	}
	return transport.Route{}, false
}

var errTraining = &api.Error{
	Name: "training", Status: 501, Code: 501, Type: "Not Implemented",
	Message: "This version of weir does not train models; trajectories can be logged and exported.",
}

// fits reports whether the segments of a path are those of a form, in which * is any one.
func fits(form, segments []string) bool {
	return slices.EqualFunc(form, segments, func(w, s string) bool { return w == s || w == "*" && s != "" })
}

// segment returns the n-th part of the path after the model id, as it was sent.
func segment(c *transport.Call, n int) string {
	rest := strings.TrimPrefix(c.Target, Prefix)
	return strings.Split(rest, "/")[2+n]
}

// allowed tells whether the caller has a right; otherwise it answers with 403.
func (h *Handlers) allowed(c *transport.Call, right auth.Rights) bool {
	if c.Who.Rights&right == right {
		return true
	}
	c.Fail(failure.ErrForbidden)
	return false
}

// invalid is a 422 with one detail.
func invalid(loc []string, code, msg string) error {
	return &trajectory.Invalid{Details: []trajectory.Detail{{Loc: loc, Type: code, Msg: msg}}}
}
