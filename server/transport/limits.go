package transport

import (
	"strconv"
	"time"

	"weir/auth"
	"weir/ratelimit"
	"weir/server/failure"
)

// limited is what a call has of the limits of its key.
type limited struct {
	limits  *auth.Limits      // nil: there are none, or the call was not counted
	ticket  *ratelimit.Ticket // nil: the call was refused, or needs none
	choices int64             // whose outputs Call.Expect has announced
}

// Limits returns the limits of a key as they are now; nil: it has none.
func (s *Server) Limits(who *auth.Identity) *auth.Limits {
	if who == nil {
		return nil
	}
	return s.keys.Limits(who.Key)
}

// Admit counts the call for its key, with so many tokens, or returns an error, because that would be
// beyond a limit of the key. It comes before the body is read, so that tokens are estimated by its
// length; Expect corrects them. What the call really used is counted when it is settled.
func (c *Call) Admit(tokens int64) (err error) {
	l, s := c.server.Limits(c.Who), c.server
	if l == nil {
		return nil
	}
	c.limited.limits = l
	c.limited.ticket, err = s.limits.Admit(c.Who.Key, *l, ratelimit.Asked{Tokens: tokens, Background: c.background})
	c.tellLimits()
	return err
}

// Expect says how many tokens the call will use, as far as that is known: those of its prompts, and the
// most that each of its choices may put out; 0: the client has not said how many it wants, and as many
// are taken as are usual.
func (c *Call) Expect(prompt, choices, output int64) error {
	t := c.limited.ticket
	if t == nil {
		return nil
	}
	if output == 0 {
		output = t.Output()
	}
	c.limited.choices = choices
	err := t.Correct(prompt + choices*output)
	c.tellLimits()
	return err
}

// settleLimits counts what the call has used. A request that was refused, because of its key or because
// the server had no place for it, does not count as one.
func (c *Call) settleLimits(prompt, completion int64, status int) {
	if t := c.limited.ticket; t != nil {
		t.Done(ratelimit.Used{Prompt: prompt, Completion: completion, Choices: c.generated(completion), Free: status == 503 || status == 429})
	}
}

// generated is the number of choices that have put something out.
func (c *Call) generated(completion int64) int64 {
	if completion == 0 {
		return 0
	}
	return c.limited.choices
}

// tellLimits sets the headers that say what is left of the key's limits, under the names of the
// interface.
func (c *Call) tellLimits() {
	requests, tokens := c.server.limits.Left(c.Who.Key, c.limited.limits)
	now := c.server.Now()
	count := func(n int64) string { return strconv.FormatInt(n, 10) }
	at := func(d time.Duration) string {
		return now.Add(d + time.Second - 1).UTC().Truncate(time.Second).Format(time.RFC3339)
	}
	h, anthropic := &c.Response.Header, c.face == failure.Messages
	switch {
	case requests.Limit == 0:
	case anthropic:
		h.Set("anthropic-ratelimit-requests-limit", count(requests.Limit))
		h.Set("anthropic-ratelimit-requests-remaining", count(requests.Remaining))
		h.Set("anthropic-ratelimit-requests-reset", at(requests.Reset))
	default:
		h.Set("x-ratelimit-limit-requests", count(requests.Limit))
		h.Set("x-ratelimit-remaining-requests", count(requests.Remaining))
		h.Set("x-ratelimit-reset-requests", resetText(requests.Reset))
	}
	switch {
	case tokens.Limit == 0:
	case anthropic:
		h.Set("anthropic-ratelimit-tokens-limit", count(tokens.Limit))
		h.Set("anthropic-ratelimit-tokens-remaining", count(tokens.Remaining))
		h.Set("anthropic-ratelimit-tokens-reset", at(tokens.Reset))
	default:
		h.Set("x-ratelimit-limit-tokens", count(tokens.Limit))
		h.Set("x-ratelimit-remaining-tokens", count(tokens.Remaining))
		h.Set("x-ratelimit-reset-tokens", resetText(tokens.Reset))
	}
}

// resetText writes a time as OpenAI does: "6ms", "1m0s". It is rounded up to milliseconds.
func resetText(d time.Duration) string {
	return ((d + time.Millisecond - 1) / time.Millisecond * time.Millisecond).String()
}
