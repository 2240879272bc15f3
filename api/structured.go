package api

import (
	"strings"

	"weir/internal/jsontext"
)

// decodeResponseFormat reads response_format (docs/interface/chat-completions.md, section 8.1) into r.Constraint. It
// comes before structured_outputs in the table, which looks for what it left.
func decodeResponseFormat(r *Options, v Raw, _ *Limits) *fault {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	typ := v.Member("type")
	if typ == nil {
		return faultf("field required").in("type")
	}
	name, f := text(typ)
	if f != nil {
		return f.in("type")
	}
	switch name {
	case "text":
		return nil
	case "json_object":
		r.Constraint = &Constraint{Kind: ConstraintJSONObject}
		return nil
	case "json_schema":
		return jsonSchema(r, v.Member("json_schema")).in("json_schema")
	case "structural_tag":
		r.Constraint = &Constraint{Kind: ConstraintTag, Schema: v}
		return checkTag(v)
	}
	return faultf("must be 'text', 'json_object', 'json_schema' or 'structural_tag', got %s", clip(typ)).in("type")
}

func jsonSchema(r *Options, v Raw) *fault {
	if !v.Given() {
		f := faultf("When response_format type is 'json_schema', the 'json_schema' field must be provided.")
		f.cause = causeSchemaMissing
		return f
	}
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	name, description, schema, strict := v.Member("name"), v.Member("description"), v.Member("schema"), v.Member("strict")
	switch {
	case name == nil:
		return faultf("field required").in("name")
	case name.Kind() != jsontext.String:
		return wrongType("a string", name).in("name")
	case description.Given() && description.Kind() != jsontext.String:
		return wrongType("a string", description).in("description")
	case schema.Given() && schema.Kind() != jsontext.Object:
		return wrongType("an object", schema).in("schema")
	}
	if strict.Given() {
		if _, f := boolean(strict); f != nil {
			return f.in("strict")
		}
	}
	if !schema.Given() {
		r.late.constraint = constraintError("You must use one kind of structured outputs constraint but none are specified: response_format.json_schema has no schema")
		return nil
	}
	r.Constraint = &Constraint{Kind: ConstraintJSON, Schema: schema}
	return nil
}

// checkTag checks the frame of a structural tag, the formats tree or the legacy
// list of structures; what is inside is the grammar's to refuse.
func checkTag(v Raw) *fault {
	if format := v.Member("format"); format != nil {
		if format.Kind() != jsontext.Object {
			return wrongType("an object", format).in("format")
		}
		return nil
	}
	structures, triggers := v.Member("structures"), v.Member("triggers")
	switch {
	case structures == nil && triggers == nil:
		return faultf("a structural tag needs the field format, or structures and triggers")
	case structures == nil || structures.Kind() != jsontext.Array:
		return faultf("must be an array").in("structures")
	case triggers == nil || triggers.Kind() != jsontext.Array:
		return faultf("must be an array").in("triggers")
	}
	for i, e := range structures.Elements() {
		if e.Kind() != jsontext.Object {
			return wrongType("an object", e).index(i).in("structures")
		}
		begin, end, schema := e.Member("begin"), e.Member("end"), e.Member("schema")
		switch {
		case begin == nil || begin.Kind() != jsontext.String:
			return faultf("must be a string").in("begin").index(i).in("structures")
		case end == nil || end.Kind() != jsontext.String:
			return faultf("must be a string").in("end").index(i).in("structures")
		case schema.Given() && schema.Kind() != jsontext.Object:
			return wrongType("an object", schema).in("schema").index(i).in("structures")
		}
	}
	for i, e := range triggers.Elements() {
		if e.Kind() != jsontext.String {
			return wrongType("a string", e).index(i).in("triggers")
		}
	}
	return nil
}

// constraintKeys are the constraints of structured_outputs, of which exactly one
// is to be given (docs/interface/chat-completions.md, section 8.2).
var constraintKeys = [...]string{"json", "regex", "choice", "grammar", "json_object", "structural_tag"}

// decodeStructuredOutputs reads structured_outputs. disable_fallback, _backend
// and _backend_was_auto choose between backends of the reference; there is one
// here, so they mean nothing.
func decodeStructuredOutputs(r *Options, v Raw, lim *Limits) *fault {
	if v.Kind() != jsontext.Object {
		return wrongType("an object", v)
	}
	c := &Constraint{}
	var set [len(constraintKeys)]Raw
	var names []string
	for i, key := range constraintKeys {
		if set[i] = v.Member(key); set[i].Given() {
			names = append(names, key)
		}
	}
	if f := c.options(v); f != nil {
		return f
	}
	few := 0 // of json, regex and choice, which the reference counts first
	for i := range set {
		if !set[i].Given() {
			continue
		}
		if i < 3 {
			few++
		}
		unusable, f := c.set(constraintKeys[i], set[i], lim)
		if f != nil {
			return f.in(constraintKeys[i])
		}
		if unusable != nil && r.late.constraint == nil {
			r.late.constraint = unusable
		}
	}
	switch {
	case few > 1:
		return faultf("You can only use one kind of constraints for structured outputs ('json', 'regex' or 'choice').")
	case len(names) > 1:
		return faultf("You can only use one kind of structured outputs constraint but multiple are specified: %s", strings.Join(names, ", "))
	case len(names) == 0:
		return faultf("You must use one kind of structured outputs constraint but none are specified: %s", clip(v))
	}
	if r.Constraint != nil {
		r.late.constraint = constraintError("You can only use one kind of structured outputs constraint but multiple are specified: response_format, " + names[0])
	}
	r.Constraint = c
	return nil
}

func (c *Constraint) options(v Raw) (f *fault) {
	for _, o := range []struct {
		name string
		to   *bool
	}{
		{"disable_any_whitespace", &c.DisableAnyWhitespace},
		{"disable_additional_properties", &c.DisableAdditionalProperties},
	} {
		if value := v.Member(o.name); value != nil {
			if *o.to, f = boolean(value); f != nil {
				return f.in(o.name)
			}
		}
	}
	if value := v.Member("whitespace_pattern"); value.Given() {
		c.WhitespacePattern, f = optional(value, text)
		return f.in("whitespace_pattern")
	}
	return nil
}

// set fills c with one constraint. The fault is of the schema; unusable is what
// the reference finds only when it compiles the constraint.
func (c *Constraint) set(key string, v Raw, lim *Limits) (unusable *Error, f *fault) {
	switch key {
	case "json":
		c.Kind = ConstraintJSON
		if c.Schema = v; v.Kind() == jsontext.Object {
			return nil, nil
		}
		return c.embedded(v, lim, "Invalid JSON grammar specification.")
	case "regex":
		c.Kind = ConstraintRegex
		c.Text, f = text(v)
	case "choice":
		c.Kind = ConstraintChoice
		if c.Choices, f = list(v, lim.Alternatives, text); f == nil && len(c.Choices) == 0 {
			unusable = constraintError("Choice '[]' cannot be an empty list")
		}
	case "grammar":
		c.Kind = ConstraintGrammar
		if c.Text, f = text(v); f == nil && strings.TrimSpace(c.Text) == "" {
			unusable = constraintError("structured_outputs.grammar cannot be an empty string")
		}
	case "json_object":
		c.Kind = ConstraintJSONObject
		var on bool
		if on, f = boolean(v); f == nil && !on {
			unusable = constraintError("structured_outputs.json_object must be True if set; leave it out to switch the constraint off")
		}
	case "structural_tag":
		c.Kind = ConstraintTag
		if unusable, f = c.embedded(v, lim, "Invalid structural tag specification."); unusable != nil || f != nil {
			break
		}
		if c.Schema.Kind() != jsontext.Object || checkTag(c.Schema) != nil {
			unusable = constraintError("Invalid structural tag specification.")
		}
	}
	return unusable, f
}

// embedded takes a JSON text inside a JSON string.
func (c *Constraint) embedded(v Raw, lim *Limits, complaint string) (*Error, *fault) {
	s, f := text(v)
	if f != nil {
		return nil, wrongType("a JSON text in a string", v)
	}
	if jsontext.Check([]byte(s), lim.Depth) != nil {
		return constraintError(complaint), nil
	}
	c.Schema = jsontext.Trim([]byte(s))
	return nil, nil
}

func constraintError(text string) *Error { return newError(causeConstraint, text, nil) }
