package transport

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/server/failure"
)

// pages decides which web pages may call the server. A browser runs the programs of every
// page that its user opens, also of hostile ones, on a machine that may reach servers which
// the pages' authors cannot reach. It says in headers that no page can change which page a
// request comes from (https://fetch.spec.whatwg.org, "Origin" and "Sec-Fetch-Site"). The
// rules are in docs/interface/operations.md, section 5.
type pages struct {
	CORS
	all   bool     // every page may call
	local bool     // the pages that this machine serves may call
	open  bool     // there are no keys
	hosts []string // Access.AllowedHosts
}

// localSchemes are the origins of programs on this machine that show pages of their own:
// desktop applications and editors. They and the pages of this machine are what Ollama
// allows by default.
var localSchemes = []string{"app://*", "file://*", "tauri://*", "vscode-webview://*", "vscode-file://*"}

// newPages returns the rules of a configuration. open says that there are no keys: then
// nothing but these rules protects the server from pages.
func newPages(cfg *Config, open bool) *pages {
	p := &pages{CORS: cfg.CORS, open: open, hosts: cfg.AllowedHosts}
	switch {
	case p.Origins != nil:
	case open:
		p.Origins, p.local = localSchemes, true
	default:
		p.Origins = []string{"*"}
	}
	p.all = slices.Contains(p.Origins, "*")
	return p
}

// check returns an error for a request that a page sends which may not call. shown says
// that the path answers GET without a key, so that links on any page may lead there.
func (p *pages) check(c *Call, shown bool) error {
	header := &c.Request.Header
	host := string(header.Peek("Host"))
	if p.open && c.conn.loopback && !p.known(host) {
		return failure.ErrHost
	}
	origin := string(header.Peek("Origin"))
	switch {
	case p.allows(origin):
		return nil
	case string(header.Peek("Sec-Fetch-Site")) == "cross-site":
		if shown && origin == "" && c.IsGet() && string(header.Peek("Sec-Fetch-Mode")) == "navigate" && string(header.Peek("Sec-Fetch-Dest")) == "document" {
			return nil // the user follows a link, and the page with the link cannot read the answer
		}
		return failure.ErrOrigin
	case origin != "" && !ours(origin, host):
		return failure.ErrOrigin
	}
	return nil
}

// allows reports whether the pages of an origin may call. "", of a request that does not
// say where it comes from, is only allowed if all are.
func (p *pages) allows(origin string) bool {
	if p.all || origin == "" {
		return p.all
	}
	origin = strings.ToLower(origin)
	for _, entry := range p.Origins {
		if matches(strings.ToLower(entry), origin) {
			return true
		}
	}
	_, authority, web := webOrigin(origin)
	name, valid := hostname(authority)
	return p.local && web && valid && (name == "localhost" || loopback(name) || name == "0.0.0.0")
}

// known reports whether a header Host names this machine, as it does if a program or the
// page of this machine sends it. A hostile page may have a name whose address changes to
// 127.0.0.1 after the page was loaded (DNS rebinding). The server is then of the same origin
// as the page for the browser, and this header is all that tells. No browser leaves it out.
func (p *pages) known(host string) bool {
	if host == "" {
		return true
	}
	name, valid := hostname(strings.ToLower(host))
	if !valid {
		return false
	}
	if name == "localhost" || strings.HasSuffix(name, ".localhost") || loopback(name) {
		return true
	}
	for _, entry := range p.hosts {
		if matches(strings.ToLower(entry), name) {
			return true
		}
	}
	return false
}

// ours reports whether an origin is that of the server's own pages, by the name that the
// client called the server by. Whether that was with TLS is not known behind a proxy.
func ours(origin, host string) bool {
	scheme, authority, web := webOrigin(strings.ToLower(origin))
	port := ":80"
	if scheme == "https" {
		port = ":443"
	}
	return web && authority != "" && strings.TrimSuffix(authority, port) == strings.TrimSuffix(strings.ToLower(host), port)
}

// webOrigin splits an origin like "https://host:port" of a page that came over HTTP.
func webOrigin(origin string) (scheme, authority string, ok bool) {
	scheme, authority, ok = strings.Cut(origin, "://")
	return scheme, authority, ok && (scheme == "http" || scheme == "https")
}

// hostname returns the name or the address in "host", "host:port" or "[address]:port",
// without the dot that a complete name may end in. It returns false for anything else.
func hostname(authority string) (name string, ok bool) {
	name, port, _ := strings.Cut(authority, ":")
	if rest, bracket := strings.CutPrefix(authority, "["); bracket {
		if name, port, ok = strings.Cut(rest, "]"); !ok || port != "" && port[0] != ':' {
			return "", false
		}
		port = strings.TrimPrefix(port, ":")
		if !strings.Contains(name, ":") {
			return "", false // brackets are for IPv6
		}
	}
	for _, digit := range []byte(port) {
		if digit < '0' || digit > '9' {
			return "", false
		}
	}
	name = strings.TrimSuffix(name, ".")
	return name, name != ""
}

// loopback reports whether a name is a loopback address, as digits.
func loopback(name string) bool {
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}

// matches compares a text with an entry of a list, in which one * may stand for any text
// without a slash.
func matches(entry, text string) bool {
	before, after, wild := strings.Cut(entry, "*")
	if !wild {
		return entry == text
	}
	rest, begins := strings.CutPrefix(text, before)
	middle, ends := strings.CutSuffix(rest, after)
	return begins && ends && !strings.Contains(middle, "/")
}

// Validate returns an error for an origin that no page can have.
func (c *CORS) Validate() error {
	for _, entry := range c.Origins {
		_, rest, ok := strings.Cut(entry, "://")
		if entry != "*" && entry != "null" && (!ok || strings.ContainsAny(rest, "/ ") || strings.Count(entry, "*") > 1) {
			return fmt.Errorf("%q is not an origin, such as https://chat.example, http://192.168.1.5:*, null or *", entry)
		}
	}
	return nil
}

// ValidateHosts returns an error for what cannot be in Access.AllowedHosts.
func ValidateHosts(hosts []string) error {
	for _, entry := range hosts {
		if _, err := netip.ParseAddr(entry); err == nil {
			continue
		}
		if entry == "" || strings.ContainsAny(entry, ":/ ") || strings.Count(entry, "*") > 1 {
			return fmt.Errorf("%q is not a host without its port, such as weir.example, *.example or *", entry)
		}
	}
	return nil
}

// answer sets the headers of every response, also of errors: without them a page would see
// a network failure in place of the error.
func (p *pages) answer(ctx *fasthttp.RequestCtx) {
	if p.permit(ctx) {
		ctx.Response.Header.Set("Access-Control-Expose-Headers", exposed)
	}
}

// permit sets Access-Control-Allow-Origin, if the origin may call.
func (p *pages) permit(ctx *fasthttp.RequestCtx) bool {
	h := &ctx.Response.Header
	if p.all && !p.Credentials {
		h.Set("Access-Control-Allow-Origin", "*")
		return true
	}
	h.Set("Vary", "Origin")
	origin := string(ctx.Request.Header.Peek("Origin"))
	if origin == "" || !p.allows(origin) {
		return false
	}
	h.Set("Access-Control-Allow-Origin", origin)
	if p.Credentials {
		h.Set("Access-Control-Allow-Credentials", "true")
	}
	return true
}

// preflight answers OPTIONS. It comes before authentication: a browser sends no
// credentials with it.
func (p *pages) preflight(ctx *fasthttp.RequestCtx) {
	header, h := &ctx.Request.Header, &ctx.Response.Header
	ctx.SetStatusCode(fasthttp.StatusNoContent)
	if !p.permit(ctx) {
		return
	}
	h.Set("Access-Control-Allow-Methods", mirror(p.Methods, header.Peek("Access-Control-Request-Method"), "GET, POST, OPTIONS"))
	h.Set("Access-Control-Allow-Headers", mirror(p.Headers, header.Peek("Access-Control-Request-Headers"), "Authorization, Content-Type, X-Request-Id"))
	h.SetBytesV("Access-Control-Max-Age", fasthttp.AppendUint(nil, p.MaxAge))
	// https://wicg.github.io/private-network-access: a public page calls a private address.
	if string(header.Peek("Access-Control-Request-Private-Network")) == "true" {
		h.Set("Access-Control-Allow-Private-Network", "true")
	}
}
