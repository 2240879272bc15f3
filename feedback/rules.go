package feedback

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Config is the configuration of a Store.
type Config struct {
	// Reserved is the prefix of the types that have rules, such as wandb.note.1.
	Reserved string
	// Schemes are the schemes that references may have; if there are none, any.
	Schemes []string
	// MaxPayload bounds a payload, with what the server adds to it, in bytes of compact
	// UTF-8 JSON. It also bounds the columns that only Weave has, all together.
	MaxPayload int
	// MaxRows bounds the records of an answer to a query.
	MaxRows int
}

// DefaultConfig returns the configuration that docs/interface/feedback.md describes.
func DefaultConfig() Config {
	return Config{Reserved: "wandb.", MaxPayload: 1 << 20, MaxRows: 10_000}
}

const (
	maxProject = 256 // bytes
	maxType    = 256 // characters
	maxCreator = 256
	maxID      = 128
	maxQueue   = 256 // bytes
	maxNote    = 1024
)

// RefProjects returns the projects of the references of a request that are well-formed.
func (r *Request) RefProjects() (out []string) {
	for _, s := range []*string{&r.traceRef, r.refs.Annotation, r.refs.Runnable, r.refs.Call, r.refs.Trigger} {
		if s == nil {
			continue
		}
		if ref, why := parseRef(*s); why == "" {
			out = append(out, ref.project)
		}
	}
	return out
}

// Check applies the rules of meaning and completes the payload. Store does so itself; this
// is for programs that keep records elsewhere. The error is a *Refusal.
func (c *Config) Check(r *Request) error {
	if f := c.check(r); f != nil {
		return f
	}
	return nil
}

// check is Check with the type of its error.
func (c *Config) check(r *Request) *Refusal {
	team, name, ok := strings.Cut(r.Project, "/")
	switch {
	case !ok || team == "" || name == "" || strings.Contains(name, "/") || len(r.Project) > maxProject || hasControl(r.Project):
		return refuse("Invalid project_id")
	case utf8.RuneCountInString(r.Type) > maxType || hasControl(r.Type):
		return refuse("Invalid feedback_type")
	case utf8.RuneCountInString(r.Replaces) > maxID:
		return refuse("Invalid feedback_id")
	case r.creator != nil && utf8.RuneCountInString(*r.creator) > maxCreator:
		return refuse("Invalid creator")
	case r.queue != nil && (len(*r.queue) > maxQueue || hasControl(*r.queue)):
		return refuse("Invalid queue_id")
	}
	var named [5]ref
	given := []*string{&r.traceRef, r.refs.Annotation, r.refs.Runnable, r.refs.Call, r.refs.Trigger}
	for i, s := range given {
		if s == nil {
			continue
		}
		var why string
		if named[i], why = parseRef(*s); why == "" {
			why = c.fits(i, named[i], named[0])
		}
		if why != "" {
			return refuse("Invalid ref: " + clip(*s) + ", " + why)
		}
	}
	if f := c.checkType(r, named[1], named[2]); f != nil {
		return f
	}
	if size(r.Payload) > c.MaxPayload {
		return refuse("Feedback payload too large")
	}
	if size(r.weave) > c.MaxPayload {
		return refuse("Feedback scorer and span fields too large")
	}
	return nil
}

// fits says why a reference is not allowed in the field with that index, or "".
func (c *Config) fits(field int, r, trace ref) string {
	allowed := [][]string{nil, {kindObject}, {kindOp, kindObject}, {kindCall}, {kindOp, kindObject}}[field]
	ok := allowed == nil
	for _, k := range allowed {
		ok = ok || r.kind == k
	}
	if !ok {
		return "want a reference to " + strings.Join(allowed, " or ")
	}
	if len(c.Schemes) > 0 {
		ok = false
		for _, s := range c.Schemes {
			ok = ok || strings.EqualFold(s, r.scheme)
		}
		if !ok {
			return "unknown scheme"
		}
	}
	if !strings.EqualFold(r.scheme, trace.scheme) {
		return "all references have one scheme"
	}
	return ""
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// clip shortens a text that an error repeats.
func clip(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	for n := most; ; n-- {
		if utf8.RuneStart(s[n]) {
			return s[:n] + "…"
		}
	}
}

// Record returns the record that a request makes.
func (r *Request) Record(id, user string, createdAt int64) *Record {
	return &Record{ID: id, Project: r.Project, TraceRef: r.traceRef, User: user, Creator: r.creator, CreatedAt: createdAt,
		Type: r.Type, Payload: r.Payload, Refs: r.refs, Queue: r.queue, Weave: r.weave}
}
