package transport

import (
	"slices"
	"strings"

	"github.com/valyala/fasthttp"
)

// CORS (Cross-Origin Resource Sharing) configures which pages of other origins may call the
// server from a browser.
type CORS struct {
	Origins     []string // "*": all
	Methods     []string // "*": those that the page asks for
	Headers     []string // "*": those that the page asks for
	Credentials bool     // allows cookies and other credentials; with origin "*", for every page
	MaxAge      int      // seconds that a browser may remember the answer
}

// DefaultCORS allows every page, without credentials, as vLLM does.
func DefaultCORS() CORS {
	return CORS{Origins: []string{"*"}, Methods: []string{"*"}, Headers: []string{"*"}, MaxAge: 86400}
}

// exposed are the response headers that a page may read.
const exposed = "x-request-id, retry-after, x-ratelimit-limit-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, x-ratelimit-reset-requests, x-ratelimit-reset-tokens"

// answer sets the headers of every response, also of errors: without them a page would see
// a network failure in place of the error.
func (c *CORS) answer(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	if !c.allow(ctx) {
		return
	}
	h.Set("Access-Control-Expose-Headers", exposed)
}

// allow sets Access-Control-Allow-Origin, if the origin may call.
func (c *CORS) allow(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Response.Header
	origin := string(ctx.Request.Header.Peek("Origin"))
	switch all := slices.Contains(c.Origins, "*"); {
	case all && !c.Credentials:
		h.Set("Access-Control-Allow-Origin", "*")
		return true
	case origin == "" || !all && !slices.Contains(c.Origins, origin):
		h.Set("Vary", "Origin")
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	h.Set("Vary", "Origin")
	if c.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	return true
}

// preflight answers OPTIONS. It comes before authentication: a browser sends no
// credentials with it.
func (c *CORS) preflight(ctx *fasthttp.RequestCtx) {
	h := &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	if !c.allow(ctx) {
		return
	}
	h.Set("Access-Control-Allow-Methods", mirror(c.Methods, ctx.Request.Header.Peek("Access-Control-Request-Method"), "GET, POST, OPTIONS"))
	h.Set("Access-Control-Allow-Headers", mirror(c.Headers, ctx.Request.Header.Peek("Access-Control-Request-Headers"), "Authorization, Content-Type, X-Request-Id"))
	h.SetBytesV("Access-Control-Max-Age", fasthttp.AppendUint(nil, c.MaxAge))
}

// mirror returns the list of what is allowed. For "*" it returns what was asked for, because
// a literal * in the header does not include Authorization, and means nothing for requests
// with credentials.
func mirror(allowed []string, asked []byte, otherwise string) string {
	switch {
	case !slices.Contains(allowed, "*"):
		return strings.Join(allowed, ", ")
	case len(asked) > 0:
		return string(asked)
	}
	return otherwise
}
