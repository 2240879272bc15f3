package transport

import (
	"context"
	"io"

	"github.com/valyala/fasthttp"

	"weir/auth"
	"weir/server/failure"
)

// Errand is a POST request of JSON that the server makes of itself, for a client who does not
// wait for it: a line of a batch. It passes through everything that a request of a connection
// passes through after its headers, so that it is limited, recorded, counted and logged as the
// others are, but it is computed only when nobody else wants the engine.
type Errand struct {
	Path      string
	Body      []byte
	RequestID string // X-Request-Id
	Project   string // "<team>/<project>"; "": none
	Who       *auth.Identity
	Address   string // what Call.Tenant returns for the client, where Who does not tell
}

// HasKeys reports whether clients need keys.
func (s *Server) HasKeys() bool { return !s.keys.Open() }

// Holds reports whether an errand may go on: the key that it was asked for with is not revoked,
// has not expired and is for its project (auth.Keyring.Holds).
func (s *Server) Holds(who *auth.Identity, project string) bool { return s.keys.Holds(who, project) }

// Outcome is the answer to an errand.
type Outcome struct {
	Status int
	Body   []byte
}

// Do answers an errand. If ctx ends, so does the errand, with an outcome that means nothing.
func (s *Server) Do(ctx context.Context, e *Errand) (out Outcome) {
	c, stop := s.errandCall(ctx, e)
	defer stop()
	rc := c.RequestCtx
	c.requestID()
	c.errand()
	out.Status = rc.Response.StatusCode()
	if !c.streams {
		out.Body = append(out.Body, rc.Response.Body()...)
		return out
	}
	body := rc.Response.BodyStream()
	out.Body = make([]byte, c.size)
	if _, err := io.ReadFull(body, out.Body); err != nil {
		out = Outcome{Status: fasthttp.StatusInternalServerError}
	}
	_ = rc.Response.CloseBodyStream() // which ends the call
	return out
}

// Run has serve answer an errand, and reads the answer to its end, which nobody wants: what comes of
// it is known to serve. If ctx ends, so does the errand, with the cause of ctx.
func (s *Server) Run(ctx context.Context, e *Errand, serve func(*Call)) {
	c, stop := s.errandCall(ctx, e)
	defer stop()
	func() {
		defer c.finish()
		defer c.rescue()
		c.face = s.router.Interface(c.Target)
		c.account.method, c.account.handler, c.account.bytes, c.account.path = fasthttp.MethodPost, e.Path, len(c.decoded), c.Target
		serve(c)
	}()
	if !c.streams {
		return
	}
	if body, ok := c.Response.BodyStream().(io.WriterTo); ok {
		_, _ = body.WriteTo(io.Discard)
	}
	_ = c.Response.CloseBodyStream() // which ends the call
}

// errandCall is the call of an errand. stop ends the watch of ctx.
func (s *Server) errandCall(ctx context.Context, e *Errand) (c *Call, stop func() bool) {
	rc := &fasthttp.RequestCtx{}
	h := &rc.Request.Header
	h.SetMethod(fasthttp.MethodPost)
	h.SetContentType("application/json")
	h.SetContentLength(len(e.Body))
	rc.Request.SetRequestURI(e.Path)
	c = &Call{
		RequestCtx: rc, Who: e.Who, Target: e.Path, RequestID: e.RequestID, Project: e.Project, Begun: s.Now(),
		server: s, conn: &conn{address: e.Address}, bodyRead: true, decoded: e.Body, background: true,
	}
	c.account.span = s.cfg.Traces.Begin("", "")
	c.body.all, c.body.conn = s.bodies, c.conn
	c.ctx, c.cancel = context.WithCancelCause(s.base)
	return c, context.AfterFunc(ctx, func() { c.cancel(context.Cause(ctx)) })
}

// errand serves a call that came on no connection.
func (c *Call) errand() {
	defer c.finish()
	defer c.rescue()
	c.face = c.server.router.Interface(c.Target)
	r, found := c.server.router.Find(c.Target)
	if !found || !allows(r.Methods, fasthttp.MethodPost) {
		found, r.Name = false, noRoute
	}
	c.account.method, c.account.handler, c.account.bytes, c.account.path = fasthttp.MethodPost, r.Name, len(c.decoded), c.Target
	if !found {
		c.Fail(failure.ErrNoPath)
		return
	}
	r.Serve(c)
}

// Background reports whether the request is to be computed only when nobody else wants the engine.
func (c *Call) Background() bool { return c.background }
