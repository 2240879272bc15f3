package toolcall

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"weir/internal/jsontext"
)

// ErrTool is wrapped by the errors of [Format.Grammar] that are about one tool: the format
// cannot write its name, or its schema is not one of objects.
var ErrTool = errors.New("toolcall: a tool cannot be called under a grammar")

// ToolError is an error about one tool.
type ToolError struct {
	Name   string // of the tool
	Reason string
}

func (e *ToolError) Error() string { return fmt.Sprintf("the tool %q %s", e.Name, e.Reason) }

// Unwrap returns ErrTool.
func (e *ToolError) Unwrap() error { return ErrTool }

// node is a format of a structural tag.
type node = map[string]any

// Grammar returns a structural tag for what may follow the thoughts in an answer (see
// [Format.Whole]): only calls of
// tools whose arguments obey their schemas, with Auto among any text. content is the structural
// tag's format for an answer without calls, where a request constrains that; nil: any text. With
// None there are no calls.
//
// A tool whose schema the compiler of grammars refuses can be loosened by the caller: without
// Parameters, any object is allowed. The error is nil or a *ToolError.
func (f *Format) Grammar(tools []Tool, choice Choice, content []byte) (tag []byte, err error) {
	root, err := f.format(tools, choice, content)
	if err != nil {
		return nil, err
	}
	return jsontext.Encode(node{"type": "structural_tag", "format": root, "special_tokens": true})
}

func (f *Format) format(tools []Tool, choice Choice, content []byte) (node, error) {
	var calls []node
	var triggers []string
	for _, tool := range tools {
		if choice.Mode == Function && tool.Name != choice.Name {
			continue
		}
		call, err := f.call(tool)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
		triggers = append(triggers, f.trigger(tool))
	}
	parallel := choice.Parallel && choice.Mode != Function
	if f.channels {
		var answer node
		if content != nil {
			answer = f.given(content)
		}
		return f.messages(calls, choice.Mode, answer), nil
	}
	switch {
	case choice.Mode == None || len(calls) == 0:
		if content != nil {
			return f.given(content), nil
		}
		return node{"type": "any_text", "excludes": f.excluded(0)}, nil
	case choice.Mode != Auto:
		return sequence(lineBreaks, f.allCalls(calls, parallel)), nil
	case content != nil:
		return node{"type": "or", "elements": []any{f.given(content), sequence(lineBreaks, f.allCalls(calls, parallel))}}, nil
	}
	switch {
	case f.python != nil && f.known:
		triggers, calls = f.unmarked(triggers, calls, tools, parallel)
	case f.section != "":
		calls = []node{f.allCalls(calls, parallel)}
	}
	slices.Sort(triggers)
	return node{"type": "triggered_tags", "triggers": slices.Compact(triggers), "tags": calls, "excludes": f.excluded(1), "stop_after_first": !parallel}, nil
}

// excluded are the marks, from one on, that text does not have, because it would be read as a
// call.
func (f *Format) excluded(from int) []string {
	if f.known {
		return []string{}
	}
	return f.marks[from:]
}

// trigger is the text after which a call of a tool has begun.
func (f *Format) trigger(tool Tool) string {
	switch {
	case f.known && f.python != nil:
		return f.section + tool.Name + f.colon
	case f.known:
		return `{"` + f.nameKey + `": ` + string(jsontext.AppendString(nil, tool.Name))
	}
	return f.marks[0]
}

// unmarked returns the triggers and tags of calls in a section that no mark begins. A call begins
// where the name of a tool follows the beginning of the section or, with parallel, what is between
// two calls, so there are two tags for each tool, and not one section for each that may come first
// with all tools in it.
func (f *Format) unmarked(triggers []string, calls []node, tools []Tool, parallel bool) ([]string, []node) {
	var tags []node
	for i, call := range calls {
		begin, end := unspaced(f.section)+call["begin"].(string), call["end"].(string)
		if !parallel {
			end += unspaced(f.sectionEnd)
		}
		tags = append(tags, node{"type": "tag", "begin": begin, "content": call["content"], "end": end})
		if parallel {
			begin = unspaced(f.between) + call["begin"].(string)
			tags = append(tags, node{"type": "tag", "begin": begin, "content": call["content"], "end": end})
			triggers = append(triggers, unspaced(f.between)+tools[i].Name+f.colon)
		}
	}
	return triggers, tags
}

// lineBreaks are what models write between their thoughts, or the prompt, and a call. The space is Jamba's.
var lineBreaks = node{"type": "regex", "pattern": ` ?\n{0,3}`}

func sequence(elements ...any) node { return node{"type": "sequence", "elements": elements} }

// given is the format of content that a request constrains.
func (f *Format) given(content []byte) node {
	var n node
	if err := jsontext.Decode(content, &n); err != nil {
		panic("toolcall: the format of the content is not JSON: " + err.Error())
	}
	return n
}

// allCalls is a section with one call or, with parallel, any number of calls.
func (f *Format) allCalls(calls []node, parallel bool) node {
	list := node{"type": "tags_with_separator", "tags": calls, "separator": unspaced(f.between), "at_least_one": true, "stop_after_first": !parallel}
	if f.section == "" {
		return list
	}
	return tag(f.section, list, f.sectionEnd)
}

// call is the tag of a call of a tool.
func (f *Format) call(tool Tool) (node, error) {
	schema, err := objectSchema(tool)
	if err != nil {
		return nil, err
	}
	arguments := node{"type": "json_schema", "json_schema": schema, "separators": []string{", ", ": "}}
	if f.object {
		name := string(jsontext.AppendString(nil, tool.Name))
		begin := f.before + `{"` + f.nameKey + `": ` + name + `, "` + f.argumentsKey + `": `
		if f.pattern != "" {
			return tag(begin, sequence(arguments, node{"type": "regex", "pattern": f.pattern}), "}"+f.after), nil
		}
		return tag(begin, arguments, "}"+f.after), nil
	}
	if f.python != nil && !calledName(tool.Name) {
		return nil, &ToolError{tool.Name, "has a name that this model cannot write"}
	}
	if name := []byte(tool.Name); f.python == nil && !properName(name, f) || f.colon == "" && bytes.ContainsAny(name, f.nameEnds) || f.colon != "" && bytes.Contains(name, []byte(strings.TrimSpace(f.colon))) {
		return nil, &ToolError{tool.Name, "has a name that this model cannot write"}
	}
	if f.channels {
		return f.message(tool, arguments), nil
	}
	if f.xml != nil {
		arguments["style"] = f.xml.grammar
	}
	if f.python != nil {
		arguments["style"] = f.python.grammar
		if f.python.sorted {
			arguments["json_schema"] = jsontext.RawMessage(sortedProperties(nil, jsontext.Value(schema)))
		}
		return tag(f.before+tool.Name+f.colon, arguments, f.python.end+f.after), nil
	}
	if f.infix != "" {
		id := node{"type": "regex", "pattern": f.pattern}
		return tag(f.before+f.prefix+tool.Name+f.infix, sequence(id, constant(f.colon), arguments), f.after), nil
	}
	return tag(f.before+tool.Name+f.colon, arguments, f.after), nil
}

// tag is a tag. White space that a template does not write is left out of its texts.
func tag(begin string, content any, end string) node {
	return node{"type": "tag", "begin": unspaced(begin), "content": content, "end": unspaced(end)}
}

func constant(text string) node { return node{"type": "const_string", "value": unspaced(text)} }

func unspaced(text string) string { return strings.ReplaceAll(text, "\v", "") }

// objectSchema is the schema of the arguments of a tool. Arguments are objects, so one without a
// type gets this one.
func objectSchema(tool Tool) (jsontext.RawMessage, error) {
	v := jsontext.Trim(tool.Parameters)
	if len(v) == 0 || string(v) == "null" || string(v) == "true" {
		return jsontext.RawMessage(`{"type": "object"}`), nil
	}
	if v.Kind() != jsontext.Object {
		return nil, &ToolError{tool.Name, "has parameters that are no JSON schema: use an object with type, properties and required"}
	}
	switch of := v.Member("type"); {
	case of == nil:
		typed := `{"type": "object"`
		if !v.Empty() {
			typed += ", "
		}
		return jsontext.RawMessage(typed + string(v[1:])), nil
	case of.Kind() != jsontext.String || of.Text() != "object":
		return nil, &ToolError{tool.Name, `has parameters that are not of type "object": arguments are objects`}
	}
	return jsontext.RawMessage(v), nil
}
