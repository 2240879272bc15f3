package transport

import (
	"cmp"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/server/failure"
)

// Route is one function of the server.
type Route struct {
	Name    string      // the label of all paths of the route in metrics
	Methods string      // separated by ", "
	Open    bool        // needs no key
	Private bool        // shows data of other clients: without keys, it is for this machine alone
	Basic   bool        // of the OpenAI interface: takes Basic credentials beside that interface's own
	APIKey  bool        // of the interface of feedback: takes a key in the header wandb-api-key in place of Authorization
	MaxBody int64       // bound of its body; 0: Config.MaxBody
	Serve   func(*Call) // answers a request
}

// Router finds the functions of paths.
type Router interface {
	// Interface is the interface that a path belongs to, whether there is a function at
	// that path or not. It decides the form of errors and of credentials.
	Interface(path string) failure.Interface
	// Find returns the function of a path. The path is as it was sent, so that a path with
	// an escaped or doubled slash is a different one, and cannot be used to avoid the keys.
	Find(path string) (Route, bool)
}

// noRoute is the label of paths without a function in metrics.
const noRoute = "none"

// handle is the one handler of the HTTP server.
func (s *Server) handle(rc *fasthttp.RequestCtx) {
	c := s.call(rc)
	defer c.finish()
	defer c.rescue()
	if r, ok := s.admit(c); ok {
		c.begin()
		r.Serve(c)
	}
}

// call begins a call.
func (s *Server) call(rc *fasthttp.RequestCtx) *Call {
	s.pages.answer(rc)
	c := &Call{RequestCtx: rc, server: s, conn: rc.Conn().(*conn), Begun: s.Now(), bodyRead: !unread(rc)}
	c.conn.serving.Store(true)
	if c.conn.framing.last {
		rc.SetConnectionClose()
	}
	c.body.all, c.body.conn = s.bodies, c.conn
	c.body.pace.least, c.body.pace.window = s.cfg.BodyRate, s.cfg.BodyWindow
	return c
}

// rescue answers a call whose handler panics. It is deferred.
func (c *Call) rescue() {
	if p := recover(); p != nil {
		c.Fail(fmt.Errorf("%w: %v\n%s", failure.ErrPanic, p, debug.Stack()))
	}
}

// expect decides whether a client that waits with its body is to send it (Expect:
// 100-continue), and returns 100 if so. A request that its headers refuse is answered
// instead.
func (s *Server) expect(rc *fasthttp.RequestCtx) (status int) {
	c := s.call(rc)
	if s.continues(c) {
		return fasthttp.StatusContinue // and handle admits the request once more
	}
	c.bodyRead = false
	c.finish()
	return rc.Response.StatusCode()
}

func (s *Server) continues(c *Call) (ok bool) {
	defer c.rescue()
	r, ok := s.admit(c)
	if ok && int64(c.Request.Header.ContentLength()) > cmp.Or(r.MaxBody, int64(s.cfg.MaxBody)) {
		c.Fail(failure.ErrTooLarge)
		return false
	}
	return ok
}

// admit returns the function of a request, or answers it and returns false. It looks at the
// request line and the headers alone.
func (s *Server) admit(c *Call) (r Route, ok bool) {
	// Everything is copied out of the headers here, because fasthttp may overwrite them
	// when it reads the body.
	header := &c.Request.Header
	c.RequestID = string(header.Peek("X-Request-Id"))
	c.beginSpan(header)
	c.requestID()
	c.affinity()
	if err := c.wellFormed(); err != nil {
		c.Fail(err)
		return r, false
	}
	r, found, guarded := s.route(c)
	if err := s.pages.check(c, found && r.Open && allows(r.Methods, fasthttp.MethodGet)); err != nil {
		c.Fail(err)
		return r, false
	}
	if c.IsOptions() {
		s.pages.preflight(c.RequestCtx)
		return r, false
	}
	if guarded {
		if err := s.identify(c, &r); err != nil {
			c.Fail(err)
			return r, false
		}
	}
	switch {
	case !found && s.withoutSlash(c):
		return r, false
	case !found:
		c.Fail(failure.ErrNoPath)
		return r, false
	case !allows(r.Methods, c.Verb()):
		c.Response.Header.Set("Allow", allowed(r.Methods))
		c.Fail(failure.ErrMethod)
		return r, false
	}
	if err := s.project(c); err != nil {
		c.Fail(err)
		return r, false
	}
	return r, true
}

// route finds the function of a request, and begins the account of it, which preflight
// requests do not have. guarded says that the request needs a key, if there are keys.
func (s *Server) route(c *Call) (r Route, found, guarded bool) {
	header := &c.Request.Header
	c.Target = s.withoutRoot(string(c.URI().PathOriginal()))
	c.face = s.router.Interface(c.Target)
	r, found = s.router.Find(c.Target)
	if !found {
		r.Name = noRoute
	}
	guarded = found && !r.Open || strings.HasPrefix(c.Target, "/v1") || !c.face.Generates()
	if c.IsOptions() {
		return r, found, guarded
	}
	c.account.method, c.account.handler, c.account.bytes = string(header.Method()), r.Name, header.ContentLength()
	if guarded {
		c.account.path = c.Target
	}
	return r, found, guarded
}

// wellFormed returns an error for a request that is not what HTTP/1.1 prescribes, although
// fasthttp takes it. What follows it on the connection is not looked at.
func (c *Call) wellFormed() error {
	err := c.conn.framing.bad
	if protocol := string(c.Request.Header.Protocol()); err == nil && protocol != "HTTP/1.1" && protocol != "HTTP/1.0" {
		err = failure.ErrVersion
	}
	if err != nil {
		c.bodyRead = false
	}
	return err
}

// Verb is the method of the function that answers the call: GET for HEAD, whose answer is
// that of GET without its body.
func (c *Call) Verb() string {
	if c.IsHead() {
		return fasthttp.MethodGet
	}
	return string(c.Method())
}

// withoutSlash sends a client to the same path without the slash at its end, if there is a
// function, as the framework that vLLM is written with does. It reports whether there is.
func (s *Server) withoutSlash(c *Call) bool {
	path, cut := strings.CutSuffix(c.Target, "/")
	if !cut || !c.face.Generates() {
		return false
	}
	if _, found := s.router.Find(path); !found {
		return false
	}
	to := strings.TrimSuffix(string(c.URI().PathOriginal()), "/")
	if query := c.URI().QueryString(); len(query) > 0 {
		to += "?" + string(query)
	}
	c.Response.Header.Set("Location", to)
	c.SetStatusCode(fasthttp.StatusTemporaryRedirect)
	return true
}

// project sets the project of a request of an interface that generates. In the
// other interfaces the project is a part of the request.
func (s *Server) project(c *Call) error {
	if !c.face.Generates() {
		return nil
	}
	header := &c.Request.Header
	var bad *api.Error
	if c.Project, bad = parseProject(string(header.Peek("Compat-Project")), string(header.Peek("OpenAI-Project"))); bad != nil {
		return bad
	}
	if c.Project == "" && c.Who != nil {
		c.Project = c.Who.Project // routers hand the headers on to no one
	}
	if c.Project != "" && c.Who != nil && !c.Who.Covers(c.Project) {
		return api.ErrPermission("The key is not for the project " + c.Project + ".")
	}
	return nil
}

// withoutRoot returns a path without Config.RootPath. A path that does not begin with it is
// left as it is, because some proxies remove the prefix themselves, and probes do not come
// through the proxy. Keys are checked for the result, so that both forms are protected.
func (s *Server) withoutRoot(path string) string {
	if rest, ok := strings.CutPrefix(path, s.cfg.RootPath); ok && strings.HasPrefix(rest, "/") {
		return rest
	}
	return path
}

// allows reports whether a list like "GET, POST" contains a method.
func allows(methods, method string) bool {
	for m := range strings.SplitSeq(methods, ", ") {
		if m == method {
			return true
		}
	}
	return false
}

// allowed is the header Allow for a list of methods.
func allowed(methods string) string {
	if allows(methods, fasthttp.MethodGet) {
		return methods + ", " + fasthttp.MethodHead
	}
	return methods
}
