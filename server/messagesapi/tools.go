package messagesapi

import (
	"slices"
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/jsonfields"
)

// tool is a tool that the model may call. Values that were not given are nil.
type tool struct {
	name                        string
	description, schema, strict api.Raw
	deferred                    bool // the model sees it only where a message refers to it
	shown                       bool // deferred: a message has referred to it
	removed                     bool // a message says that it is called no more
}

// listed reports whether the model sees the tool in front of all messages.
func (q *request) listed(t *tool) bool {
	return !t.deferred || !t.shown && t.name == q.choice.name
}

// callable reports whether the tool may be called.
func (q *request) callable(t *tool) bool {
	return !t.removed && (t.shown || q.listed(t))
}

// tools are those of a request, by name and in order.
type tools struct {
	list   []tool
	byName map[string]int
}

func (t *tools) find(name string) *tool {
	if i, ok := t.byName[name]; ok {
		return &t.list[i]
	}
	return nil
}

// decodeTools reads the tools. Those that the vendor's server runs, or whose definition the vendor
// keeps, cannot be offered to a model here, and are named to the client.
func (q *request) decodeTools(v api.Raw) error {
	if v == nil {
		return nil
	}
	if jsonfields.Kind(v) != jsontext.Array {
		return jsonfields.WrongType("tools", "an array", v)
	}
	q.tools.byName = map[string]int{}
	q.hosted = map[string]bool{}
	for i, e := range v.Elements() {
		path := jsonfields.At("tools", i)
		if jsonfields.Kind(e) != jsontext.Object {
			return jsonfields.WrongType(path, "an object", e)
		}
		t, kind, err := decodeTool(path, e)
		if err != nil {
			return err
		}
		if kind != "custom" {
			q.ignored.Add("tools." + jsonfields.Clip(kind))
			q.hosted[t.name] = true
			continue
		}
		if q.tools.find(t.name) != nil {
			return jsonfields.Bad(path+".name", "Tool names must be unique, and %q is there twice", jsonfields.Clip(t.name))
		}
		q.tools.add(t)
	}
	return nil
}

func (t *tools) add(it tool) {
	if t.byName == nil {
		t.byName = map[string]int{}
	}
	t.byName[it.name] = len(t.list)
	t.list = append(t.list, it)
}

// checkChoice refuses a choice that none of the tools can satisfy.
func (q *request) checkChoice() error {
	callable := func(t tool) bool { return q.callable(&t) }
	switch c := &q.choice; {
	case c.kind == "tool" && q.tools.find(c.name) == nil && q.hosted[c.name]:
		return jsonfields.Bad("tool_choice.name", "%q is a tool that runs on the vendor's servers, which this server does not offer", jsonfields.Clip(c.name))
	case c.kind == "tool" && q.tools.find(c.name) == nil:
		return jsonfields.Bad("tool_choice.name", "there is no tool %q in tools", jsonfields.Clip(c.name))
	case c.kind == "tool" && q.tools.find(c.name).removed:
		return jsonfields.Bad("tool_choice.name", "the tool %q was removed by a message", jsonfields.Clip(c.name))
	case c.kind == "any" && !slices.ContainsFunc(q.tools.list, callable):
		return jsonfields.Bad("tool_choice", "\"any\" needs tools with a name and an input_schema in tools")
	}
	return nil
}

// decodeTool reads one tool and its type.
func decodeTool(path string, v api.Raw) (t tool, kind string, err error) {
	kind = "custom"
	var name, deferred api.Raw
	for key, value := range v.Members() {
		if !value.Given() {
			continue
		}
		switch string(key) {
		case "type":
			if kind, err = jsonfields.Text(path+".type", value); err != nil {
				return t, kind, err
			}
		case "name":
			name = value
		case "description":
			t.description = value
		case "input_schema":
			t.schema = value
		case "strict":
			t.strict = value
		case "defer_loading":
			deferred = value
		}
	}
	if kind != "custom" {
		if jsonfields.Kind(name) == jsontext.String {
			t.name = name.Text()
		}
		return t, kind, nil
	}
	if t.name, err = jsonfields.Text(path+".name", name); err != nil {
		return t, kind, err
	}
	switch {
	case t.name == "" || len(t.name) > 256:
		return t, kind, jsonfields.Bad(path+".name", "must have 1 to 256 bytes")
	case t.description != nil && jsonfields.Kind(t.description) != jsontext.String:
		return t, kind, jsonfields.WrongType(path+".description", "a string", t.description)
	case t.schema == nil:
		return t, kind, jsonfields.Bad(path+".input_schema", "Field required")
	case jsonfields.Kind(t.schema) != jsontext.Object:
		return t, kind, jsonfields.WrongType(path+".input_schema", "an object", t.schema)
	case t.strict != nil && jsonfields.Kind(t.strict) != jsontext.Bool:
		return t, kind, jsonfields.WrongType(path+".strict", "a boolean", t.strict)
	}
	if deferred != nil {
		t.deferred, err = jsonfields.Bool(path+".defer_loading", deferred)
	}
	return t, kind, err
}

// appendJSON appends the definition in the form of a chat completion.
func (t *tool) appendJSON(dst []byte) []byte {
	dst = api.AppendString(append(dst, `{"type":"function","function":{"name":`...), t.name)
	if t.description != nil {
		dst = append(append(dst, `,"description":`...), t.description...)
	}
	dst = append(append(dst, `,"parameters":`...), t.schema...)
	if t.strict != nil {
		dst = append(append(dst, `,"strict":`...), t.strict...)
	}
	return append(dst, "}}"...)
}

// refer returns what the model sees in place of a reference to a tool: the definition where it is
// the first one, and otherwise the name. A definition is so in a prompt once, however often a
// client refers to it.
func (c *conversation) refer(path, name string) (string, error) {
	t := c.q.tools.find(name)
	if t == nil {
		return "", jsonfields.Bad(path+".tool_name", "there is no tool %q in tools", jsonfields.Clip(name))
	}
	if !t.deferred || t.shown {
		return name, nil
	}
	t.shown = true
	return string(t.appendJSON(nil)), nil
}

// change adds or removes a tool in the middle of a conversation, and returns what the model is told of it there. The list of
// tools in front of all messages stays as it is, so that the beginning of the prompt does.
func (c *conversation) change(path, kind string, v api.Raw) (string, error) {
	of := v.Member("tool")
	path += ".tool"
	if jsonfields.Kind(of) != jsontext.Object {
		return "", jsonfields.WrongType(path, "an object", of)
	}
	form, err := jsonfields.Text(path+".type", of.Member("type"))
	switch {
	case err != nil:
		return "", err
	case form == "mcp_tool_reference" || form == "mcp_toolset_reference":
		c.q.ignored.Add("messages.content." + kind + "." + form)
		return "", nil
	case form == "tool_definition" && kind == "tool_addition":
		return c.define(path+".definition", of.Member("definition"))
	case form != "tool_reference":
		return "", jsonfields.Bad(path+".type", "must be a tool_reference, or a tool_definition that is added, got %q", jsonfields.Clip(form))
	}
	name, err := jsonfields.Text(path+".name", of.Member("name"))
	if err != nil {
		return "", err
	}
	t := c.q.tools.find(name)
	switch {
	case t == nil && c.q.hosted[name]:
		return "", nil // it was left out with the tools
	case t == nil:
		return "", jsonfields.Bad(path+".name", "there is no tool %q in tools or in the messages before", jsonfields.Clip(name))
	case kind == "tool_removal":
		t.removed = true
		return "The function " + name + " cannot be called any more.", nil
	}
	t.removed = false
	s, err := c.refer(path, name)
	return "This function can be called now: " + s, err
}

// define adds a tool that a message defines. It takes the place of one of its name, which the model may have seen before.
func (c *conversation) define(path string, v api.Raw) (string, error) {
	if jsonfields.Kind(v) != jsontext.Object {
		return "", jsonfields.WrongType(path, "an object", v)
	}
	t, kind, err := decodeTool(path, v)
	switch {
	case err != nil:
		return "", err
	case kind != "custom":
		c.q.ignored.Add("messages.content.tool_addition." + jsonfields.Clip(kind))
		return "", nil
	}
	if before := c.q.tools.find(t.name); before != nil {
		before.removed = true
	}
	t.deferred, t.shown = true, true
	c.q.tools.add(t)
	return "This function can be called now: " + string(t.appendJSON(nil)), nil
}

// hostedBlock reports whether blocks of this type are about tools that the vendor's servers run.
// A conversation that was held there has them, and can go on without.
func hostedBlock(kind string) bool {
	switch kind {
	case "server_tool_use", "mcp_tool_use", "mcp_tool_listing", "container_upload", "fallback":
		return true
	}
	return kind != "tool_result" && strings.HasSuffix(kind, "_tool_result")
}
