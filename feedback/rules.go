package feedback

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"weir/internal/jsontext"
)

// Config is the configuration of a Store.
type Config struct {
	// Reserved begins the names of the types that are known here, such as
	// wandb.note.1.
	Reserved string
	// Schemes are those that references may have; none: all.
	Schemes []string
	// MaxPayload bounds a payload with what the server adds, in bytes of compact
	// UTF-8 JSON, and likewise the columns that only Weave has, all together.
	MaxPayload int
	// MaxRows bounds the rows of an answer to a query.
	MaxRows int
}

// DefaultConfig returns the configuration of the specification.
func DefaultConfig() Config {
	return Config{Reserved: "wandb.", MaxPayload: 1 << 20, MaxRows: 10_000}
}

const (
	maxProject = 256 // bytes; the others are characters
	maxType    = 256
	maxCreator = 256
	maxID      = 128
	maxQueue   = 256
	maxNote    = 1024
)

// RefProjects are the projects of a request's references that can be read.
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

// Check applies the rules of meaning, and completes the payload, for who keeps
// records elsewhere than in a Store. Its error is a *Refusal.
func (c *Config) Check(r *Request) error {
	if f := c.check(r); f != nil {
		return f
	}
	return nil
}

// check is Check.
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

// fits says why a reference cannot stand in the field of that index.
func (c *Config) fits(field int, r, trace ref) string {
	allowed := [][]string{nil, {kindObject}, {kindOp, kindObject}, {kindCall}, {kindObject}}[field]
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

// checkType applies the rules of a known type (spec feedback 6).
func (c *Config) checkType(r *Request, annotation, runnable ref) *Refusal {
	known, reserved := strings.CutPrefix(r.Type, c.Reserved)
	invalid := func(why string) *Refusal {
		return refuse("Invalid payload for feedback_type " + r.Type + ": " + why)
	}
	switch {
	case !reserved:
		return nil
	case strings.HasPrefix(known, "annotation"):
		name, ok := strings.CutPrefix(known, "annotation.")
		switch {
		case !ok || name == "":
			return refuse("feedback_type " + c.Reserved + "annotation needs a name: " + c.Reserved + "annotation.<name>")
		case r.refs.Annotation == nil:
			return refuse("annotation_ref is required for annotation feedback")
		case annotation.name != name:
			return refuse("annotation_ref must name " + name + ", as the feedback_type does")
		case annotation.project != r.Project:
			return refuse("Annotation ref " + clip(*r.refs.Annotation) + " does not match project id " + r.Project)
		case member(r.Payload, "value") == nil:
			return invalid("value is missing")
		}
		return nil
	case strings.HasPrefix(known, "runnable"):
		name, ok := strings.CutPrefix(known, "runnable.")
		switch {
		case !ok || name == "":
			return refuse("feedback_type " + c.Reserved + "runnable needs a name: " + c.Reserved + "runnable.<name>")
		case r.refs.Annotation != nil:
			return refuse("annotation_ref is not allowed for non-annotation feedback")
		case r.refs.Runnable == nil:
			return refuse("runnable_ref is required for runnable feedback")
		case runnable.name != name:
			return refuse("runnable_ref must name " + name + ", as the feedback_type does")
		case runnable.kind == kindOp && r.refs.Call == nil:
			return refuse("call_ref is required for a runnable_ref to an op")
		case member(r.Payload, "output") == nil:
			return invalid("output is missing")
		}
		return nil
	case known == "agent_monitor":
		if r.refs.Annotation != nil {
			return refuse("annotation_ref is not allowed for non-annotation feedback")
		}
		if r.refs.Runnable == nil || r.refs.Call == nil || r.refs.Trigger == nil {
			return refuse("runnable_ref, call_ref and trigger_ref are required for " + r.Type)
		}
		return nil
	}
	for _, f := range []struct {
		name, kind string
		value      *string
	}{
		{"annotation_ref", "annotation", r.refs.Annotation}, {"runnable_ref", "runnable", r.refs.Runnable},
		{"call_ref", "runnable", r.refs.Call}, {"trigger_ref", "runnable", r.refs.Trigger},
	} {
		if f.value != nil {
			return refuse(f.name + " is not allowed for non-" + f.kind + " feedback")
		}
	}
	switch known {
	case "note.1":
		note := member(r.Payload, "note")
		if note == nil || note.Kind() != jsontext.String {
			return invalid("note is missing or no string")
		}
		if n := utf8.RuneCountInString(note.Text()); n < 1 || n > maxNote {
			return invalid("note has 1 to 1024 characters")
		}
	case "reaction.1":
		emoji := member(r.Payload, "emoji")
		if emoji == nil || emoji.Kind() != jsontext.String {
			return invalid("emoji is missing or no string")
		}
		names, ok := react(emoji.Text())
		if !ok {
			return refuse("Value of emoji key in payload must be exactly one emoji")
		}
		r.Payload = names.into(r.Payload)
	}
	return nil
}

// into puts a reaction's names at the end of a payload, and takes out what the
// client had there.
func (n *reaction) into(payload jsontext.Value) jsontext.Value {
	out := []byte{'{'}
	for key, v := range payload.RawMembers() {
		switch key.Text() {
		case "alias", "detoned", "detoned_alias":
			continue
		}
		out = append(append(append(append(out, key...), ':'), v...), ',')
	}
	for i, f := range [][2]string{{"alias", n.alias}, {"detoned", n.detoned}, {"detoned_alias", n.detonedAlias}} {
		out = append(append(append(out, ",\""[b2i(i == 0):]...), f[0]...), `":`...)
		out = jsontext.AppendString(out, f[1])
	}
	return append(out, '}')
}

// member is the value of an object's last property of a name; nil: there is none.
func member(object jsontext.Value, name string) (v jsontext.Value) {
	for key, val := range object.Members() {
		if string(key) == name {
			v = val
		}
	}
	return v
}

// size is what a compact text takes once its escapes are UTF-8: clients that
// escape all but ASCII are not to pay for it.
func size(v jsontext.Value) int {
	n := len(v)
	for i := 0; i < len(v); i++ {
		if v[i] != '\\' {
			continue
		}
		if i++; v[i] == 'u' {
			switch r := hex4(v[i+1:]); {
			case r < 0x20 || r == '"' || r == '\\': // stays an escape
			case r < 0x80:
				n -= 5
			case r < 0x800:
				n -= 4
			case r >= 0xD800 && r < 0xE000: // half of a character of 4 bytes
				n -= 4
			default:
				n -= 3
			}
			i += 4
		}
	}
	return n
}

func hex4(b []byte) (r rune) {
	for _, c := range b[:4] {
		switch {
		case c >= 'a':
			c -= 'a' - 10
		case c >= 'A':
			c -= 'A' - 10
		default:
			c -= '0'
		}
		r = r<<4 | rune(c)
	}
	return r
}

func hasControl(s string) bool { return strings.ContainsFunc(s, unicode.IsControl) }

// clip shortens what an error repeats.
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

// Record is what a request becomes.
func (r *Request) Record(id, user string, createdAt int64) *Record {
	return &Record{ID: id, Project: r.Project, TraceRef: r.traceRef, User: user, Creator: r.creator, CreatedAt: createdAt,
		Type: r.Type, Payload: r.Payload, Refs: r.refs, Queue: r.queue, Weave: r.weave}
}
