package calls

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/longcopy"
	"weir/internal/pace"
	"weir/internal/query"
)

// Outside is what queries look up outside of calls. A function that is nil finds nothing.
type Outside struct {
	// Feedback returns the feedback on a call, in Weave's dialect, as a JSON array.
	Feedback func(id string) (jsontext.Value, error)
	// Object returns the value that a reference leads to; nil: none that the caller may see.
	Object func(ref string) (jsontext.Value, error)
}

const (
	// maxExpand bounds the columns whose references an answer follows.
	maxExpand = 50
	// maxExpanded bounds the bytes that following references adds to a call.
	maxExpanded = 16 << 20
	// rememberedObjects and rememberedBytes bound the values of references that a query remembers.
	rememberedObjects = 1_000
	rememberedBytes   = 16 << 20
)

// lookup is what a running query knows of things outside of calls.
type lookup struct {
	out     Outside
	err     error // the first
	objects map[string]jsontext.Value
	bytes   int // of objects
	id      string
	about   jsontext.Value // the feedback on the call id; nil: not asked for yet
}

// feedback returns the feedback on a call. It remembers that of the last one.
func (l *lookup) feedback(id string) jsontext.Value {
	if l.out.Feedback == nil || l.err != nil {
		return nil
	}
	if l.about == nil || l.id != id {
		v, err := l.out.Feedback(id)
		if l.err = err; err != nil {
			return nil
		}
		l.id, l.about = id, v
	}
	return l.about
}

// object returns what a value leads to if it is a reference; nil: it is none, or leads nowhere.
func (l *lookup) object(v jsontext.Value) jsontext.Value {
	if v.Kind() != jsontext.String || l.out.Object == nil || l.err != nil || len(v) > 4<<10 {
		return nil
	}
	ref := v.Text()
	if !strings.Contains(ref, ":///") {
		return nil
	}
	if found, ok := l.objects[ref]; ok {
		return found
	}
	found, err := l.out.Object(ref)
	if l.err = err; err != nil {
		return nil
	}
	if len(found) > 0 && found.Kind() == jsontext.Null {
		found = nil // it was deleted
	}
	if len(l.objects) >= rememberedObjects || l.bytes+len(found) > rememberedBytes {
		l.objects, l.bytes = nil, 0
	}
	if l.objects == nil {
		l.objects = map[string]jsontext.Value{}
	}
	l.objects[ref] = found
	l.bytes += len(found)
	return found
}

// feedbackField reads the name of a field of feedback without "feedback.", [TYPE].payload.path, as
// the path of the field: the type, which may be *, and then the path in a record of feedback.
func (p *parser) feedbackField(s string) []string {
	kind, rest, found := strings.Cut(strings.TrimPrefix(s, "["), "].")
	path := p.Path(rest)
	ref := len(path) == 1 && (path[0] == "runnable_ref" || path[0] == "trigger_ref")
	if !found || !strings.HasPrefix(s, "[") || kind == "" || !ref && path[0] != "payload" {
		p.Refuse("Not a field of feedback, such as feedback.[wandb.note.1].payload.note: feedback." + clip(s))
	}
	return append([]string{kind}, path...)
}

// newest is the value of a field of feedback in the newest record of its type that has one.
func (l *lookup) newest(id string, field []string, m *pace.Meter) (out query.Value) {
	latest := ""
	for _, rec := range l.feedback(id).PacedElements(m.Bytes) {
		if field[0] != "*" && rec.Member("feedback_type").Text() != field[0] {
			continue
		}
		at := rec.Member("created_at").Text()
		if v := query.At(rec, field[1:], m); v.Kind > query.Null && at >= latest {
			latest, out = at, v.Detached()
		}
	}
	return out
}

// expansion is a column, or a path in one, whose reference is followed: inputs.model is
// ["inputs", "model"].
type expansion []string

// expansions reads expand_columns, and sorts the shallow ones first.
func (p *parser) expansions(list []string) (out []expansion) {
	for _, s := range list {
		path := p.Path(s)
		path[0] = strings.TrimSuffix(path[0], "_dump")
		if c, ok := ColumnOf(path[0]); !ok || !c.JSON() {
			p.Refuse("expand_columns has a column that holds no references: " + clip(s))
		}
		out = append(out, path)
	}
	slices.SortStableFunc(out, func(a, b expansion) int { return cmp.Compare(len(a), len(b)) })
	return out
}

// at is the value of a field, below the references on the way that are to be followed.
func (l *lookup) at(v jsontext.Value, column string, path []string, expand []expansion, m *pace.Meter) query.Value {
	done := 0 // parts of the path that have been gone
	for _, e := range expand {
		if e[0] != column || len(e)-1 < done || len(e)-1 >= len(path) || !slices.Equal(e[1:], path[:len(e)-1]) {
			continue
		}
		at := v
		for _, part := range path[done : len(e)-1] {
			if at == nil || m.Spend(len(at)) != nil {
				return query.Value{}
			}
			at = query.Step(at, part)
		}
		if at == nil {
			return query.Value{}
		}
		if found := l.object(at); found != nil {
			v, done = found, len(e)-1
		}
	}
	return query.At(v, path[done:], m)
}

// expander writes values in which references are followed.
type expander struct {
	l    *lookup
	left int // bytes that may be added
}

// append appends a value, at a path, with the references of expand below it followed. An object
// that takes the place of a reference has it as its member _ref.
func (x *expander) append(dst []byte, v jsontext.Value, path []string, expand []expansion) []byte {
	follow, deeper := false, expand[:0:0]
	for _, e := range expand {
		if len(e) < len(path) || !slices.Equal(e[:len(path)], path) {
			continue
		}
		if len(e) == len(path) {
			follow = true
		} else {
			deeper = append(deeper, e)
		}
	}
	ref := jsontext.Value(nil)
	if follow {
		if found := x.l.object(v); found != nil && len(found)+len(v) <= x.left {
			x.left -= len(found) + len(v)
			ref, v = v, found
		}
	}
	switch {
	case v.Kind() == jsontext.Object && (ref != nil || len(deeper) > 0):
		return x.object(dst, v, ref, path, deeper)
	case v.Kind() == jsontext.Array && len(deeper) > 0:
		dst = append(dst, '[')
		for i, e := range v.Elements() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = x.append(dst, e, append(slices.Clip(path), strconv.Itoa(i)), deeper)
		}
		return append(dst, ']')
	}
	return longcopy.Append(dst, v)
}

func (x *expander) object(dst []byte, v, ref jsontext.Value, path []string, deeper []expansion) []byte {
	dst = append(dst, '{')
	n := 0
	for name, e := range v.RawMembers() {
		if n++; n > 1 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, name...), ':')
		if len(deeper) == 0 {
			dst = longcopy.Append(dst, e)
			continue
		}
		dst = x.append(dst, e, append(slices.Clip(path), name.Text()), deeper)
	}
	if ref != nil && v.Member("_ref") == nil {
		if n > 0 {
			dst = append(dst, ',')
		}
		dst = append(append(dst, `"_ref":`...), ref...)
	}
	return append(dst, '}')
}
