package server

import (
	"context"
	"fmt"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/auth"
	"weir/server/failure"
)

// route is one function of the server.
type route struct {
	methods string // separated by ", "
	open    bool   // needs no key
	private bool   // is about other clients: without keys, for this machine alone
	serve   func(*Server, *call)
	when    func(Functions) bool // whether it is there; nil: always
}

// routes are found by the path as it was sent: an escaped or doubled slash
// names something else, and cannot lead around the keys.
var routes = map[string]route{
	"/v1/chat/completions":        {methods: "POST", serve: (*Server).chatCompletions},
	"/v1/completions":             {methods: "POST", serve: (*Server).completions},
	"/v1/models":                  {methods: "GET", serve: (*Server).models},
	"/v1/chat/completions/render": {methods: "POST", serve: (*Server).renderChat},
	"/v1/completions/render":      {methods: "POST", serve: (*Server).renderTexts},
	"/tokenizer_info":             {methods: "GET", serve: (*Server).tokenizerInfo, when: func(f Functions) bool { return f.TokenizerInfo }},
	"/tokenize":                   {methods: "POST", serve: (*Server).tokenize},
	"/detokenize":                 {methods: "POST", serve: (*Server).detokenize},
	"/health":                     {methods: "GET", open: true, serve: (*Server).health},
	"/ping":                       {methods: "GET, POST", open: true, serve: (*Server).health},
	"/ready":                      {methods: "GET", open: true, serve: (*Server).ready},
	metricsPath:                   {methods: "GET", open: true, serve: (*Server).scrape},
	"/version":                    {methods: "GET", open: true, serve: (*Server).version},
	"/openapi.json":               {methods: "GET", serve: (*Server).openAPI},
	"/usage":                      {methods: "GET", private: true, serve: (*Server).projectUsage},
	"/load":                       {methods: "GET", serve: (*Server).serverLoad},
	"/server_info":                {methods: "GET", serve: (*Server).serverInfo, when: dev},
	"/reset_prefix_cache":         {methods: "POST", serve: (*Server).resetPrefixCache, when: dev},
}

func dev(f Functions) bool { return f.Dev }

// modelPath is followed by the id of a model.
const modelPath = "/v1/models/"

// metricsPath may be followed by anything (spec chat-completions 1.1).
const metricsPath = "/metrics"

// noRoute is what paths are called that lead nowhere.
const noRoute = "none"

// find returns the route of a path, and what all paths of that route are called.
func (s *Server) find(path string) (r route, name string, found bool) {
	if r, ok := routes[path]; ok && (r.when == nil || r.when(s.cfg.Functions)) {
		return r, path, true
	}
	if id, ok := strings.CutPrefix(path, modelPath); ok && id != "" {
		return route{methods: "GET", serve: (*Server).oneModel}, modelPath + "{id}", true
	}
	if strings.HasPrefix(path, metricsPath) {
		return routes[metricsPath], metricsPath, true
	}
	if name, ok := strings.CutPrefix(path, feedbackPath); ok && s.cfg.Feedback != nil {
		if r, ok := feedbackRoutes[name]; ok {
			return r, path, true
		}
		if name != "" && !strings.Contains(name, "/") { // an id
			return route{methods: "GET", serve: (*Server).feedbackGet}, feedbackPath + "{id}", true
		}
	}
	if rest, ok := strings.CutPrefix(path, previewModels); ok && s.cfg.Trajectories.Archive != nil {
		return previewRoute(rest)
	}
	return route{}, noRoute, false
}

// call is one request, from its headers to the last byte of its answer. The
// handler's goroutine owns it; only ctx is for others.
type call struct {
	*fasthttp.RequestCtx // not to be touched once the handler has returned
	conn                 *conn
	begun                time.Time
	ctx                  context.Context // ends when the client leaves or the server stops
	cancel               context.CancelCauseFunc

	who     *auth.Identity // who sent it; nil: the route is open
	path    string         // as it was sent
	face    failure.Interface
	id      string // X-Request-Id; "": none was sent
	project string // "<team>/<project>"; "": none
	tenant  string // whose turn it is in the preparation queue

	hints   hints
	account account

	body     body
	load     *atomic.Int64 // counts this call; nil: it does not
	bodyRead bool          // nothing of the body is left on the wire
	streams  bool          // the answer goes on after the handler has returned
}

// handle is the one handler of the HTTP server.
func (s *Server) handle(rc *fasthttp.RequestCtx) {
	s.cfg.CORS.answer(rc)
	c := &call{RequestCtx: rc, conn: rc.Conn().(*conn), begun: s.now(), bodyRead: !unread(rc)}
	c.body.budget = &s.bodies
	defer s.finish(c)
	defer func() {
		if p := recover(); p != nil {
			s.fail(c, fmt.Errorf("%w: %v\n%s", failure.ErrPanic, p, debug.Stack()))
		}
	}()

	// Everything is copied out of the headers here: the body may overwrite them.
	header := &rc.Request.Header
	c.id = string(header.Peek("X-Request-Id"))
	c.hints.read(header)
	s.requestID(c)
	method, path := string(header.Method()), s.below(string(rc.URI().PathOriginal()))
	c.path = path
	if method == fasthttp.MethodOptions {
		s.cfg.CORS.preflight(rc)
		return
	}
	r, name, found := s.find(path)
	c.account.method, c.account.handler, c.account.bytes = method, name, header.ContentLength()
	authorization, xAPIKey := string(header.Peek("Authorization")), string(header.Peek("X-Api-Key"))
	door := doorOf(path)
	c.face = door.face()
	guarded := found && !r.open || strings.HasPrefix(path, "/v1") || door != byKey
	if guarded {
		c.account.path = path
	}
	if guarded && !s.admit(c, door, r.private, authorization, xAPIKey) {
		return
	}
	if !found {
		s.fail(c, failure.ErrNoPath)
		return
	}
	if !allows(r.methods, method) {
		header := &rc.Response.Header
		header.Set("Allow", r.methods)
		s.fail(c, failure.ErrMethod)
		return
	}
	var bad *api.Error
	if door != byKey { // a project is part of the request there
		c.ctx, c.cancel = context.WithCancelCause(s.base)
		c.conn.attach(c.cancel)
		r.serve(s, c)
		return
	}
	if c.project, bad = parseProject(string(header.Peek("Compat-Project")), string(header.Peek("OpenAI-Project"))); bad != nil {
		s.fail(c, bad)
		return
	}
	if c.project != "" && c.who != nil && !c.who.Covers(c.project) {
		s.fail(c, api.ErrPermission("The key is not for the project "+c.project+"."))
		return
	}
	c.tenant = c.project
	if c.tenant == "" && !s.keys.Open() {
		c.tenant = "key " + authorization + xAPIKey
	}
	c.ctx, c.cancel = context.WithCancelCause(s.base)
	c.conn.attach(c.cancel)
	r.serve(s, c)
}

// below is a path without the root path. One that does not begin with it is
// taken as it is: some proxies cut the prefix themselves, and probes come
// directly. Keys are looked for behind this, so both ways are guarded.
func (s *Server) below(path string) string {
	if rest, ok := strings.CutPrefix(path, s.cfg.Functions.RootPath); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}

func allows(methods, method string) bool {
	for m := range strings.SplitSeq(methods, ", ") {
		if m == method {
			return true
		}
	}
	return false
}

// finish ends a call, unless its answer streams on: then the stream does.
func (s *Server) finish(c *call) {
	if !c.bodyRead {
		// What comes next on this connection is the rest of the body, not a
		// request. Read on for a while after the answer, so that it arrives.
		c.SetConnectionClose()
		c.conn.linger.Store(true)
	}
	c.body.free()
	if !c.streams {
		s.settle(c)
		c.end()
	}
}

// end releases what a call holds beyond its handler.
func (c *call) end() {
	if c.load != nil {
		c.load.Add(-1)
		c.load = nil
	}
	if c.cancel != nil {
		c.conn.detach()
		c.cancel(nil)
	}
}

// requestID echoes the request's id, or makes one for whoever reads logs.
func (s *Server) requestID(c *call) {
	if s.cfg.NoRequestID {
		return
	}
	id := c.id
	if id == "" {
		id = randomHex(16)
	}
	c.Response.Header.Set("X-Request-Id", id)
}

// answer sets a JSON body.
func (c *call) answer(status int, body string) {
	c.SetStatusCode(status)
	c.SetContentType("application/json")
	c.SetBodyString(body)
}
