package feedback

import (
	"strconv"
	"strings"
)

// The kinds of things that a reference names (docs/interface/feedback.md, section 5.1).
const (
	kindObject       = "object"
	kindOp           = "op"
	kindCall         = "call"
	kindTable        = "table"
	kindTurn         = "agent_turn"
	kindConversation = "agent_conversation"
	kindSpan         = "agent_span"
)

// ref is a reference, <scheme>:///<entity>/<project>/<kind>/...
type ref struct {
	scheme, project string // project is "<entity>/<project>"
	kind, name      string // the name of an object or op, the id or digest of anything else
}

// maxRef bounds a reference in bytes.
const maxRef = 2048

// parseRef reads a reference. why says what is wrong with it, and is "" if it is correct.
func parseRef(s string) (r ref, why string) {
	if len(s) > maxRef {
		return r, "longer than 2048 bytes"
	}
	scheme, rest, ok := strings.Cut(s, ":///")
	if !ok || !validScheme(scheme) {
		return r, "want <scheme>:///<entity>/<project>/<kind>/..."
	}
	parts := strings.Split(rest, "/")
	if len(parts) < 4 {
		return r, "want <scheme>:///<entity>/<project>/<kind>/..."
	}
	if !plain(parts[0]) || !plain(parts[1]) {
		return r, "entity and project must not be empty nor hold spaces"
	}
	r.scheme, r.project, r.kind = scheme, parts[0]+"/"+parts[1], parts[2]
	target := parts[3:]
	switch r.kind {
	case kindObject, kindOp:
		name, version, ok := strings.Cut(target[0], ":")
		if !ok || !identifier(name) || !identifier(version) {
			return r, "want <name>:<version>"
		}
		r.name = name
		return r, edges(target[1:])
	case kindCall, kindTable, kindTurn, kindConversation, kindSpan:
		if len(target) > 1 || !identifier(target[0]) {
			return r, "want one id behind " + r.kind
		}
		r.name = target[0]
		return r, ""
	}
	return r, "unknown kind"
}

// edges checks the path from an object to a part of it, which is pairs of a kind and a
// value and may end in a slash. It returns what is wrong.
func edges(parts []string) string {
	if len(parts) == 1 && parts[0] == "" {
		return ""
	}
	if len(parts)%2 != 0 {
		return "edges come in pairs"
	}
	for i := 0; i < len(parts); i += 2 {
		kind, value := parts[i], parts[i+1]
		switch kind {
		case "attr", "key", "id":
			if !percent(value) {
				return "an edge is not percent-encoded"
			}
		case "index":
			if _, err := strconv.ParseUint(strings.TrimPrefix(value, "-"), 10, 63); err != nil {
				return "an index is not an integer"
			}
		default:
			return "unknown edge"
		}
	}
	return ""
}

func validScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		switch {
		case c|0x20 >= 'a' && c|0x20 <= 'z':
		case i > 0 && (c >= '0' && c <= '9' || c == '+' || c == '-' || c == '.'):
		default:
			return false
		}
	}
	return s != ""
}

// plain reports whether s is not empty and has no space or control character.
func plain(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r == 0x7f })
}

func identifier(s string) bool { return plain(s) && !strings.ContainsAny(s, "/:") }

// percent reports whether two hexadecimal digits follow every %.
func percent(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 >= len(s) || !isHex(s[i+1]) || !isHex(s[i+2]) {
			return false
		}
		i += 2
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f })
}

func isHex(c byte) bool { return c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'f' }
