package transport

import (
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
	s.cfg.CORS.answer(rc)
	c := &Call{RequestCtx: rc, server: s, conn: rc.Conn().(*conn), Begun: s.Now(), bodyRead: !unread(rc)}
	c.body.all, c.body.conn = s.bodies, c.conn
	c.body.pace.least, c.body.pace.window = s.cfg.BodyRate, s.cfg.BodyWindow
	defer c.finish()
	defer func() {
		if p := recover(); p != nil {
			c.Fail(fmt.Errorf("%w: %v\n%s", failure.ErrPanic, p, debug.Stack()))
		}
	}()

	// Everything is copied out of the headers here, because fasthttp may overwrite them
	// when it reads the body.
	header := &rc.Request.Header
	c.RequestID = string(header.Peek("X-Request-Id"))
	c.requestID()
	method := string(header.Method())
	c.Target = s.withoutRoot(string(rc.URI().PathOriginal()))
	if method == fasthttp.MethodOptions {
		s.cfg.CORS.preflight(rc)
		return
	}
	r, found := s.router.Find(c.Target)
	if !found {
		r.Name = noRoute
	}
	c.face = s.router.Interface(c.Target)
	c.account.method, c.account.handler, c.account.bytes = method, r.Name, header.ContentLength()
	guarded := found && !r.Open || strings.HasPrefix(c.Target, "/v1") || c.face != failure.OpenAI
	if guarded {
		c.account.path = c.Target
		if err := s.identify(c, r.Private); err != nil {
			c.Fail(err)
			return
		}
	}
	switch {
	case !found:
		c.Fail(failure.ErrNoPath)
	case !allows(r.Methods, method):
		rc.Response.Header.Set("Allow", r.Methods)
		c.Fail(failure.ErrMethod)
	default:
		if err := s.project(c); err != nil {
			c.Fail(err)
			return
		}
		c.begin()
		r.Serve(c)
	}
}

// project sets the project of a request of the OpenAI interface. In the
// other interfaces the project is a part of the request.
func (s *Server) project(c *Call) error {
	if c.face != failure.OpenAI {
		return nil
	}
	header := &c.Request.Header
	var bad *api.Error
	if c.Project, bad = parseProject(string(header.Peek("Compat-Project")), string(header.Peek("OpenAI-Project"))); bad != nil {
		return bad
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
