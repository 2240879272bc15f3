package server

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/transport"
)

// openAPI answers GET /openapi.json. The document has the functions of this server: those
// that are switched off, or that need a store which it lacks, are left out. With a prefix of
// all paths, it names that as the server, because the paths in it do not have the prefix.
func (s *Server) openAPI(c *transport.Call) { c.Answer(fasthttp.StatusOK, s.document()) }

// describe returns the document that openAPI answers with.
func (s *Server) describe() string {
	var b bytes.Buffer
	members := 0
	begin := func(name jsontext.Value) {
		if members++; members > 1 {
			b.WriteByte(',')
		}
		b.Write(name)
		b.WriteByte(':')
	}
	b.WriteByte('{')
	if s.cfg.RootPath != "" {
		begin(jsontext.Value(`"servers"`))
		b.WriteString(`[{"url":`)
		b.Write(jsontext.AppendString(nil, s.cfg.RootPath))
		b.WriteString(`}]`)
	}
	for name, value := range jsontext.Value(api.OpenAPI(s.cfg.Version)).RawMembers() {
		begin(name)
		if name.Text() != "paths" {
			b.Write(value)
			continue
		}
		b.WriteByte('{')
		members = 0
		for path, methods := range value.RawMembers() {
			if _, found := (router{s}).Find(examplePath(path.Text())); found {
				begin(path)
				b.Write(methods)
			}
		}
		b.WriteByte('}')
		members = 1
	}
	b.WriteByte('}')
	return b.String()
}

// examplePath returns a path of a template, "/v1/models/…" of "/v1/models/{id}". What is filled
// in is a UUID, which may be an id of anything.
func examplePath(template string) string {
	parts := strings.Split(template, "/")
	for i, part := range parts {
		if strings.HasPrefix(part, "{") {
			parts[i] = "00000000-0000-7000-8000-000000000000"
		}
	}
	return strings.Join(parts, "/")
}

// docsPage shows openapi.json to people. It loads nothing from other servers.
//
//go:embed docs.html
var docsPage string

// docsPolicy allows the page its own script, and no other one.
var docsPolicy = func() string {
	_, script, _ := strings.Cut(docsPage, "<script>")
	script, _, _ = strings.Cut(script, "</script>")
	sum := sha256.Sum256([]byte(script))
	return "default-src 'none'; connect-src 'self'; style-src 'unsafe-inline'; script-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

// docs answers GET /docs.
func (s *Server) docs(c *transport.Call) {
	c.SetStatusCode(fasthttp.StatusOK)
	c.SetContentType("text/html; charset=utf-8")
	c.Response.Header.Set("Content-Security-Policy", docsPolicy)
	c.Response.Header.Set("X-Content-Type-Options", "nosniff")
	c.SetBodyString(docsPage)
}
