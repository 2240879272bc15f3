package server

import (
	"strings"

	"weir/auth"
	"weir/server/failure"
)

// A door is how a group of routes asks who is there.
type door int

const (
	// byKey wants "Authorization: Bearer <key>" or, as some front-ends send it,
	// "x-api-key: <key>" (spec chat-completions 1.4).
	byKey door = iota
	// byPassword wants "Authorization: Basic" (spec feedback F-3), and stays shut
	// for other machines while there are no keys (decision 25).
	byPassword
	// byToken wants "Authorization: Bearer" (spec trajectories T-3), and stays shut
	// likewise.
	byToken
)

// doorOf is the door in front of a path, whether there is something behind it or not.
func doorOf(path string) door {
	switch {
	case strings.HasPrefix(path, feedbackPath):
		return byPassword
	case strings.HasPrefix(path, "/v1/preview/"):
		return byToken
	}
	return byKey
}

// face is the interface of the paths behind a door.
func (d door) face() failure.Interface {
	switch d {
	case byPassword:
		return failure.Feedback
	case byToken:
		return failure.Trajectories
	}
	return failure.OpenAI
}

// admit says who a request is from; private is what other machines do not get to
// see while there are no keys. Or it answers it with 401 and returns false.
func (s *Server) admit(c *call, d door, private bool, authorization, xAPIKey string) bool {
	switch d {
	case byPassword:
		return s.admitByPassword(c, authorization)
	case byToken:
		return s.admitByToken(c, authorization)
	}
	if c.who = s.sender(private, authorization, xAPIKey); c.who == nil {
		bad := failure.ErrCredentials
		if authorization+xAPIKey == "" {
			bad = failure.ErrNoCredentials
		}
		s.fail(c, bad)
	}
	return c.who != nil
}

// sender is who sent a request with these headers; nil: nobody that is known.
func (s *Server) sender(private bool, authorization, xAPIKey string) (who *auth.Identity) {
	if s.keys.Open() && !(private && s.exposed.Load()) {
		return auth.Anonymous
	}
	if scheme, _, token := auth.Parse(authorization); scheme == auth.Bearer {
		who = s.keys.Token(token)
	}
	if who == nil && xAPIKey != "" {
		who = s.keys.Token(xAPIKey)
	}
	return who
}

func (s *Server) admitByPassword(c *call, authorization string) bool {
	scheme, username, secret := auth.Parse(authorization)
	switch {
	case s.keys.Open() && !s.exposed.Load():
		c.who = auth.Anonymous
	case scheme == auth.Basic:
		c.who = s.keys.Password(username, secret)
	case scheme == auth.Bearer && s.cfg.FeedbackBearer:
		c.who = s.keys.Token(secret)
	}
	return s.known(c, `Basic realm="weir"`, scheme)
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
	return s.known(c, "Bearer", scheme)
}

// known reports whether it is known who a request is from, or answers with 401 and
// what would be wanted.
func (s *Server) known(c *call, want string, sent auth.Scheme) bool {
	if c.who != nil {
		return true
	}
	bad := failure.ErrCredentials
	if sent == auth.None {
		bad = failure.ErrNoCredentials
	}
	c.Response.Header.Set("WWW-Authenticate", want)
	s.fail(c, bad)
	return false
}
