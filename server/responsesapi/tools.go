package responsesapi

import (
	"strings"

	"weir/api"
	"weir/internal/jsontext"
	"weir/server/failure"
)

// tool is a tool that the model is shown: a function, or a custom tool, whose input is a text.
// A chat knows functions alone, so that a custom tool is shown as a function with one
// parameter, and a tool of a namespace as a function whose name begins with that of the
// namespace.
type tool struct {
	name        string // as the model knows it
	own         string // as the client knows it
	namespace   string // "": none
	custom      bool
	description string
	parameters  api.Raw // nil: none were given
	strict      api.Raw // nil: not given
	syntax      string  // of the grammar of a custom tool's input, lark or regex; "": any text
	definition  string
}

// between stands between the name of a namespace and that of its tool, in the name that the
// model knows.
const between = "__"

// hosted are types of tools that the vendor's servers run. They are left out, because a local
// server has none of them, and agents send them unasked.
var hosted = map[string]bool{
	"web_search": true, "web_search_2025_08_26": true, "web_search_preview": true, "web_search_preview_2025_03_11": true,
	"file_search": true, "computer": true, "computer_use": true, "computer_use_preview": true, "code_interpreter": true,
	"image_generation": true, "local_shell": true, "shell": true, "apply_patch": true, "mcp": true, "tool_search": true,
	"programmatic_tool_calling": true,
}

// decodeTools reads tools.
func (r *request) decodeTools(v api.Raw, lim *api.Limits) error {
	if !v.Given() {
		return nil
	}
	if v.Kind() != jsontext.Array {
		return failure.BadRequest("tools", "tools must be an array, not %s.", v.Kind())
	}
	if len(v) > lim.ToolBytes {
		return failure.BadRequest("tools", "tools must be at most %d bytes long, and has %d.", lim.ToolBytes, len(v))
	}
	for i, e := range v.Elements() {
		if err := r.tool(at("tools", i), e, "", ""); err != nil {
			return err
		}
	}
	return nil
}

// tool reads a tool. namespace is that which it stands in, and about what is said of that.
func (r *request) tool(where string, v api.Raw, namespace, about string) error {
	if v.Kind() != jsontext.Object {
		return failure.BadRequest(where, "%s must be an object, not %s.", where, v.Kind())
	}
	var kind *string
	if err := text(where+".type", orNull(v.Member("type")), &kind); err != nil {
		return err
	}
	switch {
	case *kind == "function" || *kind == "custom":
	case *kind == "namespace" && namespace == "":
		return r.namespace(where, v)
	case hosted[*kind]:
		r.ignored = append(r.ignored, where+"."+*kind)
		return nil
	default:
		return failure.BadRequest(where+".type", "%s.type is %s; function, custom and namespace are known, and the vendor's own tools are left out.", where, clip(v.Member("type")))
	}
	t := tool{custom: *kind == "custom", namespace: namespace}
	var own *string
	if err := text(where+".name", orNull(v.Member("name")), &own); err != nil {
		return err
	}
	t.own = *own
	t.name = named(namespace, t.own)
	if d := v.Member("description"); d.Given() {
		var s *string
		if err := text(where+".description", d, &s); err != nil {
			return err
		}
		t.description = *s
	}
	if about != "" {
		t.description = strings.TrimSpace(about + "\n\n" + t.description)
	}
	if t.custom {
		if err := t.grammar(where, v.Member("format")); err != nil {
			return err
		}
	} else {
		if p := v.Member("parameters"); p.Given() {
			t.parameters = p
		}
		if s := v.Member("strict"); s.Given() {
			t.strict = s
		}
	}
	for i := range r.tools {
		if r.tools[i].name == t.name {
			return failure.BadRequest(where+".name", "Two tools have the name %s.", clip([]byte(t.name)))
		}
	}
	r.tools = append(r.tools, t)
	return nil
}

// namespace reads a namespace with its tools.
func (r *request) namespace(where string, v api.Raw) error {
	var name *string
	if err := text(where+".name", orNull(v.Member("name")), &name); err != nil {
		return err
	}
	about := ""
	if d := v.Member("description"); d.Given() {
		var s *string
		if err := text(where+".description", d, &s); err != nil {
			return err
		}
		about = *s
	}
	tools := v.Member("tools")
	if !tools.Given() || tools.Kind() != jsontext.Array {
		return failure.BadRequest(where+".tools", "%s.tools must be an array of tools.", where)
	}
	for i, e := range tools.Elements() {
		if err := r.tool(at(where+".tools", i), e, *name, about); err != nil {
			return err
		}
	}
	return nil
}

// grammar reads the format of a custom tool.
func (t *tool) grammar(where string, v api.Raw) error {
	if !v.Given() {
		return nil
	}
	if v.Kind() != jsontext.Object {
		return failure.BadRequest(where+".format", "%s.format must be an object, not %s.", where, v.Kind())
	}
	if err := oneOf(where+".format.type", v.Member("type"), "text", "grammar"); err != nil {
		return err
	}
	if v.Member("type").Text() == "text" {
		return nil
	}
	if err := oneOf(where+".format.syntax", v.Member("syntax"), "lark", "regex"); err != nil {
		return err
	}
	var definition *string
	if err := text(where+".format.definition", orNull(v.Member("definition")), &definition); err != nil {
		return err
	}
	if strings.TrimSpace(*definition) == "" {
		return failure.BadRequest(where+".format.definition", "%s.format.definition is empty; it must be a grammar.", where)
	}
	t.syntax, t.definition = v.Member("syntax").Text(), *definition
	return nil
}

// named is the name by which the model knows a tool of a namespace.
func named(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + between + name
}

// decodeChoice reads tool_choice.
func (r *request) decodeChoice(v api.Raw) error {
	if !v.Given() {
		return nil
	}
	switch v.Kind() {
	case jsontext.String:
		if err := oneOf("tool_choice", v, "auto", "none", "required"); err != nil {
			return err
		}
		r.choice.mode = v.Text()
	case jsontext.Object:
		if err := r.chosen(v); err != nil {
			return err
		}
	default:
		return failure.BadRequest("tool_choice", "tool_choice must be a string or an object, not %s.", v.Kind())
	}
	if r.choice.mode == "required" && len(r.tools) == 0 {
		return failure.BadRequest("tool_choice", "tool_choice asks for a call, and there is no tool that this server can offer to the model.")
	}
	return nil
}

// chosen reads a tool_choice that is an object.
func (r *request) chosen(v api.Raw) error {
	var kind *string
	if err := text("tool_choice.type", orNull(v.Member("type")), &kind); err != nil {
		return err
	}
	switch {
	case *kind == "function" || *kind == "custom":
		t, err := r.find("tool_choice", v)
		if err != nil {
			return err
		}
		r.choice = choice{"required", t.name}
		return nil
	case *kind == "allowed_tools":
		return r.allowed(v)
	case hosted[*kind]:
		return failure.BadRequest("tool_choice", "tool_choice forces %s, which the vendor's servers run and this one does not have.", *kind)
	}
	return failure.BadRequest("tool_choice.type", "tool_choice.type must be function, custom or allowed_tools, got %s.", clip(v.Member("type")))
}

// find returns the tool that a choice names.
func (r *request) find(where string, v api.Raw) (*tool, error) {
	var name *string
	if err := text(where+".name", orNull(v.Member("name")), &name); err != nil {
		return nil, err
	}
	space := ""
	if s := v.Member("namespace"); s.Given() && s.Kind() == jsontext.String {
		space = s.Text()
	}
	for i := range r.tools {
		if t := &r.tools[i]; t.own == *name && t.namespace == space {
			return t, nil
		}
	}
	return nil, failure.BadRequest(where, "%s names %s, which is not among the tools.", where, clip(v.Member("name")))
}

// allowed leaves the tools that a choice allows.
func (r *request) allowed(v api.Raw) error {
	if err := oneOf("tool_choice.mode", v.Member("mode"), "auto", "required"); err != nil {
		return err
	}
	list := v.Member("tools")
	if !list.Given() || list.Kind() != jsontext.Array {
		return failure.BadRequest("tool_choice.tools", "tool_choice.tools must be an array.")
	}
	keep := map[string]bool{}
	for i, e := range list.Elements() {
		where := at("tool_choice.tools", i)
		if e.Kind() != jsontext.Object {
			return failure.BadRequest(where, "%s must be an object, not %s.", where, e.Kind())
		}
		if k := e.Member("type"); k.Given() && k.Kind() == jsontext.String && hosted[k.Text()] {
			continue
		}
		t, err := r.find(where, e)
		if err != nil {
			return err
		}
		keep[t.name] = true
	}
	kept := r.tools[:0]
	for _, t := range r.tools {
		if keep[t.name] {
			kept = append(kept, t)
		}
	}
	r.tools, r.choice.mode = kept, v.Member("mode").Text()
	return nil
}

// appendTools appends the members tools, tool_choice and parallel_tool_calls of a chat.
func (r *request) appendTools(dst []byte) []byte {
	if len(r.tools) == 0 {
		return dst
	}
	dst = append(dst, `,"tools":[`...)
	for i := range r.tools {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = r.tools[i].append(dst)
	}
	dst = append(dst, ']')
	switch {
	case r.choice.name != "":
		dst = append(dst, `,"tool_choice":{"type":"function","function":{"name":`...)
		dst = append(jsontext.AppendString(dst, r.choice.name), "}}"...)
	case r.choice.mode != "":
		dst = append(dst, `,"tool_choice":`...)
		dst = jsontext.AppendString(dst, r.choice.mode)
	}
	if !r.parallel {
		dst = append(dst, `,"parallel_tool_calls":false`...)
	}
	return dst
}

// inputName is the parameter of the function as which a custom tool is shown.
const inputName = "input"

// append appends the definition of the tool as that of a function.
func (t *tool) append(dst []byte) []byte {
	dst = append(dst, `{"type":"function","function":{"name":`...)
	dst = jsontext.AppendString(dst, t.name)
	if t.description != "" {
		dst = append(dst, `,"description":`...)
		dst = jsontext.AppendString(dst, t.description)
	}
	switch {
	case t.custom:
		dst = append(dst, `,"parameters":{"type":"object","properties":{"`+inputName+`":{"type":"string"`...)
		switch t.syntax { // what the model is shown of the grammar is what it is kept to
		case "regex":
			dst = append(dst, `,"pattern":`...)
			dst = jsontext.AppendString(dst, "^(?:"+t.definition+")$")
		case "lark":
			dst = append(dst, `,"x-grammar":`...)
			dst = jsontext.AppendString(dst, t.definition)
		}
		dst = append(dst, `}},"required":["`+inputName+`"],"additionalProperties":false},"strict":true`...)
	default:
		if t.parameters != nil {
			dst = append(append(dst, `,"parameters":`...), t.parameters...)
		}
		if t.strict != nil {
			dst = append(append(dst, `,"strict":`...), t.strict...)
		}
	}
	return append(dst, "}}"...)
}

// orNull is v, or null where it is absent.
func orNull(v api.Raw) api.Raw {
	if v == nil {
		return api.Raw("null")
	}
	return v
}
