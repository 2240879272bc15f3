package server

import (
	"bytes"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/server/failure"
	"weir/server/transport"
	"weir/server/ui"
)

// root answers GET /: browsers get the page, all others what Ollama answers, by which clients know
// that the server is there.
func (s *Server) root(c *transport.Call) {
	if s.cfg.Functions.NoUI {
		s.ollama.Root(c)
		return
	}
	c.Response.Header.Add("Vary", "Accept")
	if !strings.Contains(string(c.Request.Header.Peek("Accept")), "text/html") {
		s.ollama.Root(c)
		return
	}
	sendFile(c, ui.Page())
}

// pageFile answers GET /ui/…: a file of the page.
func pageFile(c *transport.Call) {
	f := ui.Find(c.Target)
	if f == nil {
		c.Fail(failure.ErrNoPath)
		return
	}
	sendFile(c, f)
}

// sendFile answers with a file of the page. Browsers keep it and ask whether it is still the same,
// so that a new version of weir is a new page at once. No page of another origin may load it, whatever
// the origins are that may call the server.
func sendFile(c *transport.Call, f *ui.File) {
	h := &c.Response.Header
	h.Del("Access-Control-Allow-Origin")
	h.Del("Access-Control-Expose-Headers")
	h.Set("Content-Security-Policy", ui.Policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-cache")
	h.Set("ETag", f.Tag)
	h.Add("Vary", "Accept-Encoding")
	if bytes.Contains(c.Request.Header.Peek("If-None-Match"), []byte(f.Tag)) {
		c.SetStatusCode(fasthttp.StatusNotModified)
		return
	}
	body := f.Raw
	if f.Gzip != nil && c.Request.Header.HasAcceptEncoding("gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.Gzip
	}
	c.SetContentType(f.Type)
	c.Response.SetBodyRaw(body)
}
