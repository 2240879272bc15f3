package feedback

import (
	"slices"
	"strconv"

	"weir/internal/form"
	"weir/internal/jsontext"
)

// A weaveColumn is a column that only the dialect of W&B Weave has. Its clients
// from 0.52.42 on send all of these columns with every write, nearly always with
// their default values, and expect them in the rows of an answer.
type weaveColumn struct {
	name string
	// empty is the default value as JSON. It also gives the type of the column: a
	// list of strings, a map, or a string.
	empty string
	// number says that the values of a map are numbers; otherwise they are strings.
	number bool
}

// weaveColumns are in the order of answers, where they follow the columns that
// both dialects have.
var weaveColumns = []weaveColumn{
	{name: "scorer_tags", empty: "[]"},
	{name: "scorer_tag_reasons", empty: "{}"},
	{name: "scorer_tag_confidences", empty: "{}", number: true},
	{name: "scorer_ratings", empty: "{}", number: true},
	{name: "scorer_rating_reasons", empty: "{}"},
	{name: "scorer_rating_confidences", empty: "{}", number: true},
	{name: "span_agent_name", empty: `""`},
	{name: "span_agent_version", empty: `""`},
	{name: "span_conversation_id", empty: `""`},
	{name: "span_trace_id", empty: `""`},
	{name: "span_status_code", empty: `""`},
	{name: "scorer_trace_id", empty: `""`},
}

// mapColumn is the index, in Dialect.columns, of a column that is a map; -1 for other names.
func mapColumn(name string) int {
	i := slices.IndexFunc(weaveColumns, func(c weaveColumn) bool { return c.name == name && c.empty == "{}" })
	if i < 0 {
		return -1
	}
	return firstWeave + i
}

// weaveColumns takes the columns that only Weave has out of a request, checks
// their types, and returns those that differ from their defaults as a JSON object,
// in the order of answers, and then the members that only a later version knows; nil if
// there is none. null counts as the default.
func (d *decoder) weaveColumns(m *form.Members, loc []string, r *Request) jsontext.Value {
	var kept []byte
	for i := range weaveColumns {
		c := &weaveColumns[i]
		if v := d.weaveColumn(m, c, loc); v != nil && string(v) != c.empty {
			kept = append(kept, ",{"[b2i(kept == nil)])
			kept = append(append(append(kept, '"'), c.name...), '"', ':')
			kept = append(kept, v...)
		}
	}
	for _, name := range m.Names { // those of a later version
		v, left := m.Values[name]
		if !left || weirMembers[name] {
			continue
		}
		delete(m.Values, name)
		if r.Unknown = append(r.Unknown, name); len(r.Unknown) > maxUnknown {
			d.Issue("extra_forbidden", loc, name)
			return nil
		}
		kept = append(kept, ",{"[b2i(kept == nil)])
		kept = append(jsontext.AppendString(kept, name), ':')
		kept = jsontext.AppendCompact(kept, v)
	}
	if kept == nil {
		return nil
	}
	return append(kept, '}')
}

// maxUnknown bounds the members of a request that this version does not know.
const maxUnknown = 64

// weirMembers are the names that only the other dialect has.
var weirMembers = map[string]bool{WeirNames.traceRefName(): true, WeirNames.userName(): true}

// unknownColumns calls f with the columns that this version does not know, and their values.
func (r *Record) unknownColumns(f func(name []byte, v jsontext.Value)) {
	if r.Weave == nil {
		return
	}
	for name, v := range r.Weave.Members() {
		if !slices.ContainsFunc(weaveColumns, func(c weaveColumn) bool { return c.name == string(name) }) {
			f(name, v)
		}
	}
}

// weaveColumn takes one column, in compact form; nil if it is absent, null, or of
// the wrong type.
func (d *decoder) weaveColumn(m *form.Members, c *weaveColumn, loc []string) jsontext.Value {
	switch c.empty {
	case "[]":
		list := d.Take(m, c.name, false, jsontext.Array, "list_type", loc)
		if list == nil {
			return nil
		}
		for i, v := range list.PacedElements(d.Meter.Bytes) {
			if v.Kind() != jsontext.String {
				d.Issue("string_type", loc, c.name, strconv.Itoa(i))
			}
		}
		return jsontext.AppendCompact(nil, list)
	case "{}":
		object := d.Take(m, c.name, false, jsontext.Object, "dict_type", loc)
		if object == nil {
			return nil
		}
		want, wrong := jsontext.String, "string_type"
		if c.number {
			want, wrong = jsontext.Number, "float_type"
		}
		for key, v := range object.PacedMembers(d.Meter.Bytes) {
			if v.Kind() != want {
				d.Issue(wrong, loc, c.name, string(key))
			}
		}
		return jsontext.AppendCompact(nil, object)
	}
	return d.Take(m, c.name, false, jsontext.String, "string_type", loc)
}

// weaveColumn returns the value of a column that only Weave has, as JSON.
func (r *Record) weaveColumn(name string) jsontext.Value {
	if r.Weave != nil {
		if v := member(r.Weave, name); v != nil {
			return v
		}
	}
	i := slices.IndexFunc(weaveColumns, func(c weaveColumn) bool { return c.name == name })
	return jsontext.Value(weaveColumns[i].empty)
}

// AppendAll appends a record with the columns of the interface and with those that
// only Weave has, if any of them has a value: nothing of the record is left out.
func (r *Record) AppendAll(dst []byte) []byte {
	dst = r.AppendJSON(dst, WeirNames)
	if r.Weave == nil {
		return dst
	}
	dst[len(dst)-1] = ',' // in place of the closing brace
	return append(dst, r.Weave[1:]...)
}
