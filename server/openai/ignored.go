package openai

import (
	"net/url"
	"strings"
	"sync"

	"weir/api"
)

// ignoredNames are the members of requests that nobody knew, and that the log has.
type ignoredNames struct {
	mu    sync.Mutex
	known map[string]bool
}

// mostIgnored bounds the names that the log has: clients may invent any number.
const mostIgnored = 100

// first reports whether a name is to be written to the log, once.
func (n *ignoredNames) first(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[name] || len(n.known) == mostIgnored {
		return false
	}
	if n.known == nil {
		n.known = map[string]bool{}
	}
	n.known[strings.Clone(name)] = true
	return true
}

// ignore says in a header, and once in the log, which members of a request have no effect.
func (s *Service) ignore(q *api.Options, r *reply) {
	var names []string
	size := 0
	for _, name := range q.Ignored() {
		if s.ignored.first(name) {
			s.log.Info("requests have a field that is not known, and has no effect", "name", name)
		}
		name = url.QueryEscape(name)
		if size += len(name) + 2; size <= mostNamed+2 {
			names = append(names, name)
		}
	}
	if len(names) > 0 {
		r.setHeader("X-Ignored-Fields", strings.Join(names, ", "))
	}
}
