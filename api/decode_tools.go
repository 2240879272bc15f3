package api

import (
	"slices"

	"weir/internal/jsontext"
)

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
	return r.setTools(v, (*tool).decode)
}

// decodeFunctions reads functions, the older form of tools, which win.
func decodeFunctions(r *ChatRequest, v Raw, lim *Limits) *fault {
	if len(v) > lim.ToolBytes {
		return faultf("must be at most %d bytes long", lim.ToolBytes)
	}
	if v.Kind() != jsontext.Array {
		return wrongType("an array", v)
	}
	return r.setTools(v, func(t *tool, e Raw) *fault {
		if e.Kind() != jsontext.Object {
			return wrongType("an object", e)
		}
		return t.decodeFunction(e)
	})
}

// setTools keeps the definitions in a list, each of which decode reads.
func (r *ChatRequest) setTools(v Raw, decode func(*tool, Raw) *fault) *fault {
	r.Tools, r.Functions = nil, nil
	var shown []byte
	for i, e := range v.Elements() {
		var t tool
		if f := decode(&t, e); f != nil {
			return f.index(i)
		}
		if i == 0 {
			shown = append(make([]byte, 0, len(v)+64), '[')
		} else {
			shown = append(shown, ',')
		}
		shown = t.append(shown)
		r.Functions = append(r.Functions, t.function())
	}
	if shown != nil {
		r.Tools = append(shown, ']')
	}
	return nil
}

// HideTools leaves tools out of what a template shows, and others out of what may be called. Both are numbered as in the
// request, in ascending order.
func (r *ChatRequest) HideTools(unlisted, uncallable []int) {
	if len(unlisted) > 0 {
		var shown []byte
		for i, e := range r.Tools.Elements() {
			if _, found := slices.BinarySearch(unlisted, i); found {
				continue
			}
			if shown == nil {
				shown = append(make([]byte, 0, len(r.Tools)), '[')
			} else {
				shown = append(shown, ',')
			}
			shown = append(shown, e...)
		}
		if r.Tools = nil; shown != nil {
			r.Tools = append(shown, ']')
		}
	}
	if len(uncallable) > 0 {
		var kept []Function
		for i := range r.Functions {
			if _, found := slices.BinarySearch(uncallable, i); !found {
				kept = append(kept, r.Functions[i])
			}
		}
		if r.Functions = kept; kept == nil {
			r.ToolChoice.Mode = ChoiceNone
		}
	}
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

// function is the tool as its caller sees it.
func (t *tool) function() Function {
	f := Function{Name: t.name.Text(), Strict: t.strict != nil && *t.strict}
	if t.parameters.Given() {
		f.Parameters = t.parameters
	}
	return f
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

// choiceModes are the values of tool_choice that are strings.
var choiceModes = map[string]ChoiceMode{"none": ChoiceNone, "auto": ChoiceAuto, "required": ChoiceRequired}

// decodeToolChoice reads tool_choice (docs/interface/chat-completions.md, section 9.2): a word,
// {"type": "function", "function": {"name": ...}}, or {"type": "allowed_tools",
// "allowed_tools": {"mode": ..., "tools": [...]}}. What is none of them is noted for
// CheckPrompt.
func decodeToolChoice(r *ChatRequest, v Raw, _ *Limits) *fault {
	c, ok := toolChoice(v)
	r.badChoice = nil // that of function_call
	if !ok {
		r.badChoice = newError(causeToolChoice, `tool_choice must be "none", "auto", "required" or {"type": "function", "function": {"name": "…"}}.`, clip(v))
	}
	c.Given = true
	r.ToolChoice = c
	return nil
}

// decodeFunctionCall reads function_call, the older form of tool_choice, which wins: a word or
// {"name": ...}.
func decodeFunctionCall(r *ChatRequest, v Raw, _ *Limits) *fault {
	c := ToolChoice{Given: true}
	ok := false
	if v.Kind() == jsontext.String {
		c.Mode, ok = choiceModes[v.Text()]
	} else if c.Name = stringOf(v.Member("name")); c.Name != "" {
		c.Mode, ok = ChoiceFunction, true
	}
	if !ok {
		r.badChoice = newError(causeToolChoice, `function_call must be "none", "auto" or {"name": "…"}: use tool_choice.`, clip(v))
	}
	r.ToolChoice = c
	return nil
}

func toolChoice(v Raw) (c ToolChoice, ok bool) {
	if v.Kind() == jsontext.String {
		c.Mode, ok = choiceModes[v.Text()]
		return c, ok
	}
	switch stringOf(v.Member("type")) {
	case "function":
		c.Mode, c.Name = ChoiceFunction, functionName(v)
		return c, c.Name != ""
	case "allowed_tools":
		return allowedTools(v.Member("allowed_tools"))
	}
	return c, false
}

// allowedTools reads the tools that a request allows of those that it shows to the model.
func allowedTools(v Raw) (c ToolChoice, ok bool) {
	tools := v.Member("tools")
	if tools == nil || tools.Kind() != jsontext.Array {
		return c, false
	}
	c.Only = []string{}
	for _, e := range tools.Elements() {
		name := functionName(e)
		if name == "" {
			return c, false
		}
		c.Only = append(c.Only, name)
	}
	c.Mode, ok = choiceModes[stringOf(v.Member("mode"))]
	return c, ok && c.Mode != ChoiceNone
}

// functionName is the name in {"type": "function", "function": {"name": ...}}; "": there is none.
func functionName(v Raw) string { return stringOf(v.Member("function").Member("name")) }

// stringOf is v if that is a string, else "".
func stringOf(v Raw) string {
	if v == nil || v.Kind() != jsontext.String {
		return ""
	}
	return v.Text()
}

// checkToolChoice notes a tool_choice that does not fit the tools, and fills in the one of a
// request that gives none.
func (r *ChatRequest) checkToolChoice(sent Raw) {
	c := &r.ToolChoice
	has := func(name string) bool {
		return slices.ContainsFunc(r.Functions, func(f Function) bool { return f.Name == name })
	}
	missing := func(name string) bool { return !has(name) }
	switch {
	case r.badChoice != nil:
	case len(r.Functions) == 0 && c.Mode > ChoiceAuto:
		r.badChoice = newError(causeToolChoice, "When using `tool_choice`, `tools` must be set.", clip(sent))
	case len(r.Functions) == 0:
		c.Mode = ChoiceNone
	case !c.Given:
		c.Mode = ChoiceAuto
	case c.Mode == ChoiceFunction && missing(c.Name), slices.ContainsFunc(c.Only, missing):
		r.badChoice = newError(causeToolChoice, "The tool specified in `tool_choice` does not match any of the specified `tools`.", clip(sent))
	}
}
