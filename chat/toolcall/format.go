package toolcall

import (
	"slices"
	"strings"
)

// Tool is a tool that may be called.
type Tool struct {
	Name string
	// Parameters is the JSON schema of the arguments. nil allows any object.
	Parameters []byte
}

// Mode says whether tools are called.
type Mode uint8

const (
	None     Mode = iota // no tool
	Auto                 // as the model likes
	Required             // at least one call, and nothing else
	Function             // one call of the tool that Choice.Name says, and nothing else
)

// Choice is what a request demands of the calls in an answer.
type Choice struct {
	Mode     Mode
	Name     string // the tool that Function calls
	Parallel bool   // an answer may have more than one call
}

// Format is how a family of models writes calls.
type Format struct {
	name string
	// marks are the texts that a call, or a section of calls, may begin with. The first is the
	// one that the grammar writes.
	marks []string
	// section and sectionEnd are around all calls of an answer. "": each call stands alone.
	section, sectionEnd string
	// before is what precedes the object or the name of a call, after is what follows the
	// arguments or the object, and between is what stands between two calls. Where they have
	// white space, a model may write any or none.
	before, after, between string
	// object says that a call is a JSON object with the name and the arguments in it, which
	// nameKey and argumentsKey are the names of. Otherwise colon separates a name from its
	// arguments.
	object                bool
	nameKey, argumentsKey string
	colon                 string
	// detect are texts that a chat template has if its model writes this format. Each must be
	// there.
	detect []string
}

// Named returns the format that vLLM's --tool-call-parser calls so.
func Named(name string) (*Format, bool) {
	if i := slices.IndexFunc(formats, func(f *Format) bool { return f.name == name }); i >= 0 {
		return formats[i], true
	}
	if other, ok := aliases[name]; ok {
		return Named(other)
	}
	return nil, false
}

// Names are the names that Named knows, sorted.
func Names() []string {
	var names []string
	for _, f := range formats {
		names = append(names, f.name)
	}
	for name := range aliases {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Detect returns the format of the model whose chat template is given, nil if it is unknown.
func Detect(template string) *Format {
	for _, f := range formats {
		if len(f.detect) > 0 && !slices.ContainsFunc(f.detect, func(mark string) bool { return !strings.Contains(template, mark) }) {
			return f
		}
	}
	return nil
}

// Name is the name of the format, as vLLM calls it.
func (f *Format) Name() string { return f.name }

// Tokens returns texts that a [Parser] has to see. Where the vocabulary has special tokens of
// these names, they are not to be left out of its text.
func (f *Format) Tokens() []string {
	var tokens []string
	for _, text := range append([]string{f.section, f.sectionEnd, f.before, f.colon, f.after}, f.marks...) {
		if text = strings.TrimSpace(text); text != "" && !slices.Contains(tokens, text) {
			tokens = append(tokens, text)
		}
	}
	return tokens
}

// ID returns the identifier of a call. random returns n characters of [a-zA-Z0-9]; index is the
// number of the call in its conversation, from 0 on.
func (f *Format) ID(random func(n int) string, name string, index int) string {
	return "call_" + random(24)
}

// formats are all formats. Detect tries them in this order, so the more special ones come first.
var formats = []*Format{
	{
		name: "hermes", marks: []string{"<tool_call>"},
		before: "<tool_call>\n", after: "\n</tool_call>", between: "\n",
		object: true, nameKey: "name", argumentsKey: "arguments",
		detect: []string{"<tool_call>", `"arguments"`},
	},
}

// aliases are other names of formats.
var aliases = map[string]string{}

// marked reports that calls begin with a mark, and not just with what could be text.
func (f *Format) marked() bool { return true }
