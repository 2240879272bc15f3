package transport

import (
	"weir/auth"
	"weir/server/failure"
)

// identify finds out who sent a request, by the credentials that its interface asks for:
//
//	OpenAI        "Authorization: Bearer <key>" or, as some front-ends send it,
//	              "x-api-key: <key>" (docs/interface/chat-completions.md, section 1.4);
//	              Messages and Ollama the same
//	Feedback      "Authorization: Basic" (docs/interface/feedback.md, F-3), for
//	              spans of OpenTelemetry, "wandb-api-key: <key>" (docs/interface/weave.md, W-400)
//	Trajectories  "Authorization: Bearer" (docs/interface/trajectories.md, T-3)
//
// Without keys the OpenAI interface is open to everybody, except for private routes. The
// other two hold what clients have stored, so that they are then open only if the server
// cannot be reached from other machines.
func (s *Server) identify(c *Call, r *Route) error {
	header := &c.Request.Header
	authorization := string(header.Peek("Authorization"))
	if c.face.Generates() {
		xAPIKey := string(header.Peek("X-Api-Key"))
		if c.Who = s.sender(r.Private, authorization, xAPIKey); c.Who == nil && r.Basic {
			if scheme, username, secret := auth.Parse(authorization); scheme == auth.Basic {
				c.Who = s.keys.Password(username, secret)
			}
		}
		if c.Who == nil {
			return unidentified(authorization == "" && xAPIKey == "")
		}
		return nil
	}
	scheme, username, secret := auth.Parse(authorization)
	headerKey := ""
	if r.APIKey && scheme == auth.None {
		headerKey = string(header.Peek("wandb-api-key"))
	}
	want := "Bearer"
	if c.face == failure.Feedback {
		want = `Basic realm="weir"`
	}
	switch {
	case s.keys.Open() && !s.Exposed():
		c.Who = auth.Anonymous
	case c.face == failure.Feedback && scheme == auth.Basic:
		c.Who = s.keys.Password(username, secret)
	case scheme == auth.Bearer && (c.face == failure.Trajectories || s.cfg.FeedbackBearer):
		c.Who = s.keys.Token(secret)
	case headerKey != "":
		c.Who = s.keys.Token(headerKey)
	}
	if c.Who == nil {
		c.Response.Header.Set("WWW-Authenticate", want)
		return unidentified(scheme == auth.None && headerKey == "")
	}
	return nil
}

// unidentified returns the error for a client that is not known. silent says that it sent
// no credentials.
func unidentified(silent bool) error {
	if silent {
		return failure.ErrNoCredentials
	}
	return failure.ErrCredentials
}

// sender returns the identity that the headers of a request prove; nil: none.
func (s *Server) sender(private bool, authorization, xAPIKey string) (who *auth.Identity) {
	if s.keys.Open() && !(private && s.Exposed()) {
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

// Insider returns the identity of a client that has called an open route, if it may also
// see what is private; nil: it may not.
func (c *Call) Insider() *auth.Identity {
	header := &c.Request.Header
	return c.server.sender(true, string(header.Peek("Authorization")), string(header.Peek("X-Api-Key")))
}
