package api

import "weir/internal/jsontext"

// decodeTools keeps the definitions in the form in which vLLM shows them to a template
// (docs/interface/chat-completions.md, section 9.2), because a prompt depends on the order
// of keys and on those that are null: type and function; in that name, description,
// parameters, and where they were given strict and defer_loading. Other keys are dropped.
// The values are as they were sent.
func decodeTools(r *ChatRequest, v Raw, lim *Limits) *fault {
	if len(v) > lim.ToolBytes {
		return faultf("must be at most %d bytes long", lim.ToolBytes)
	}
	if v.Kind() != jsontext.Array {
		return wrongType("an array", v)
	}
	var shown []byte
	for i, e := range v.Elements() {
		var t tool
		if f := t.decode(e); f != nil {
			return f.index(i)
		}
		if i == 0 {
			shown = append(make([]byte, 0, len(v)+64), '[')
		} else {
			shown = append(shown, ',')
		}
		shown = t.append(shown)
	}
	if shown != nil {
		r.Tools = append(shown, ']')
	}
	return nil
}

// tool is the definition of a function that a model may call. Values that are absent or
// null are nil.
type tool struct {
	name, description, parameters Raw
	strict                        *bool
	// Of the tool, and of its function, which has the tool's unless it has its own.
	deferred, functionDeferred *bool
}

func (t *tool) decode(v Raw) (f *fault) {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	var typ, function, deferred Raw
	for key, value := range v.Members() {
		switch string(key) {
		case "type":
			typ = value
		case "function":
			function = value
		case "defer_loading":
			deferred = value
		}
	}
	if typ != nil && (typ.Kind() != jsontext.String || typ.Text() != "function") {
		return faultf("must be \"function\"").in("type")
	}
	if function == nil || function.Kind() != jsontext.Object {
		return faultf("must be an object").in("function")
	}
	if f := t.decodeFunction(function); f != nil {
		return f.in("function")
	}
	if t.deferred, f = given(deferred); f != nil {
		return f.in("defer_loading")
	}
	if t.functionDeferred == nil {
		t.functionDeferred = t.deferred
	}
	return nil
}

func (t *tool) decodeFunction(v Raw) (f *fault) {
	var strict, deferred Raw
	for key, value := range v.Members() {
		switch string(key) {
		case "name":
			t.name = value
		case "description":
			t.description = value
		case "parameters":
			t.parameters = value
		case "strict":
			strict = value
		case "defer_loading":
			deferred = value
		}
	}
	switch {
	case t.name == nil || t.name.Kind() != jsontext.String:
		return faultf("must be a string").in("name")
	case t.description.Given() && t.description.Kind() != jsontext.String:
		return wrongType("a string", t.description).in("description")
	case t.parameters.Given() && t.parameters.Kind() != jsontext.Object:
		return wrongType("an object", t.parameters).in("parameters")
	}
	if t.strict, f = given(strict); f != nil {
		return f.in("strict")
	}
	t.functionDeferred, f = given(deferred)
	return f.in("defer_loading")
}

// given reads a boolean; nil: it is absent or null.
func given(v Raw) (*bool, *fault) {
	if !v.Given() {
		return nil, nil
	}
	return optional(v, boolean)
}

func (t *tool) append(dst []byte) []byte {
	dst = append(dst, `{"type":"function","function":{"name":`...)
	dst = append(dst, t.name...)
	dst = append(dst, `,"description":`...)
	dst = appendRaw(dst, t.description)
	dst = append(dst, `,"parameters":`...)
	dst = appendRaw(dst, t.parameters)
	dst = appendFlag(dst, `,"strict":`, t.strict)
	dst = append(appendFlag(dst, `,"defer_loading":`, t.functionDeferred), '}')
	return append(appendFlag(dst, `,"defer_loading":`, t.deferred), '}')
}

func appendRaw(dst []byte, v Raw) []byte {
	if !v.Given() {
		return append(dst, "null"...)
	}
	return append(dst, v...)
}

// appendFlag appends a member that is left out if it was not given.
func appendFlag(dst []byte, key string, b *bool) []byte {
	switch {
	case b == nil:
		return dst
	case *b:
		return append(append(dst, key...), "true"...)
	}
	return append(append(dst, key...), "false"...)
}
