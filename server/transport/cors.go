package transport

import (
	"slices"
	"strings"
)

// CORS (Cross-Origin Resource Sharing) configures which pages of other origins may call the
// server from a browser.
type CORS struct {
	// Origins are those whose pages may call: "*" for all, "null" for pages without an
	// origin, or scheme://host:port, where one * may stand for any text without a slash.
	// An empty list allows none but the server's own pages. nil allows all if there are
	// keys, and otherwise the pages of this machine and of programs that run on it.
	Origins     []string
	Methods     []string // "*": those that the page asks for
	Headers     []string // "*": those that the page asks for
	Credentials bool     // allows cookies and other credentials; with origin "*", for every page
	MaxAge      int      // seconds that a browser may remember the answer
}

// DefaultCORS allows, without credentials, every page if there are keys, as vLLM does, and
// otherwise local ones, as Ollama does.
func DefaultCORS() CORS {
	return CORS{Methods: []string{"*"}, Headers: []string{"*"}, MaxAge: 86400}
}

// exposed are the response headers that a page may read.
const exposed = "x-request-id, retry-after, x-weir-reward, x-ignored-fields, x-tools-not-parsed, x-tools-loosened, x-ratelimit-limit-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-requests, x-ratelimit-remaining-tokens, x-ratelimit-reset-requests, x-ratelimit-reset-tokens, x-should-retry, " +
	"anthropic-ratelimit-requests-limit, anthropic-ratelimit-requests-remaining, anthropic-ratelimit-requests-reset, " +
	"anthropic-ratelimit-tokens-limit, anthropic-ratelimit-tokens-remaining, anthropic-ratelimit-tokens-reset"

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
