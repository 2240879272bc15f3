package server

import (
	"strings"

	"github.com/valyala/fasthttp"

	"weir/api"
	"weir/auth"
)

// A door is how a group of routes asks who is there.
type door int

const (
	// byKey wants "Authorization: Bearer <key>" or, as some front-ends send it,
	// "x-api-key: <key>" (spec chat-completions 1.4).
	byKey door = iota
	// byToken wants "Authorization: Bearer" (spec trajectories T-3), and stays shut
	// for other machines while there are no keys (decision 25).
	byToken
)

// doorOf is the door in front of a path, whether there is something behind it or not.
func doorOf(path string) door {
	if strings.HasPrefix(path, "/v1/preview/") {
		return byToken
	}
	return byKey
}

// admit says who a request is from, or answers it with 401 and returns false.
func (s *Server) admit(c *call, d door, authorization, xAPIKey string) bool {
	if d == byToken {
		return s.admitByToken(c, authorization)
	}
	if s.keys.Open() {
		c.who = auth.Anonymous
		return true
	}
	if scheme, _, token := auth.Parse(authorization); scheme == auth.Bearer {
		c.who = s.keys.Token(token)
	}
	if c.who == nil && xAPIKey != "" {
		c.who = s.keys.Token(xAPIKey)
	}
	if c.who == nil {
		c.answer(fasthttp.StatusUnauthorized, api.UnauthorizedBody)
	}
	return c.who != nil
}

// admitByToken is for the routes below /v1/preview.
func (s *Server) admitByToken(c *call, authorization string) bool {
	scheme, _, token := auth.Parse(authorization)
	switch {
	case s.keys.Open() && !s.exposed.Load():
		c.who = auth.Anonymous
	case scheme == auth.Bearer:
		c.who = s.keys.Token(token)
	}
	if c.who != nil {
		return true
	}
	s.unauthorized(c, "Bearer", scheme)
	return false
}

// unauthorized answers with 401, and with what would be wanted.
func (s *Server) unauthorized(c *call, want string, sent auth.Scheme) {
	detail := "Invalid authentication credentials"
	if sent == auth.None {
		detail = "Not authenticated"
	}
	c.Response.Header.Set("WWW-Authenticate", want)
	c.answer(fasthttp.StatusUnauthorized, `{"detail":"`+detail+`"}`)
}
