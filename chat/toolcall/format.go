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
//
// In its texts, white space is what the family's template writes; a model may write any or none
// in its place. A \v is white space that the template does not write, but a model may.
type Format struct {
	name    string
	variant bool // another format has the name
	// marks are the texts that a call, or a section of calls, may begin with. The first is the
	// one that the grammar writes.
	marks []string
	// section and sectionEnd are around all calls of an answer. "": each call stands alone.
	section, sectionEnd string
	// before is what precedes the object or the name of a call, after is what follows the
	// arguments or the object, and between is what stands between two calls.
	before, after, between string
	// object says that a call is a JSON object with the name and the arguments in it, which
	// nameKey and argumentsKey are the names of.
	object                bool
	nameKey, argumentsKey string
	// Otherwise colon separates a name from its arguments, or, where that is empty, a name ends
	// before one of the bytes nameEnds. cleanName makes a name of what stands there; nil: it is
	// the name.
	colon, nameEnds string
	cleanName       func(string) string
	// xml says how arguments are written that are no JSON.
	xml *xmlStyle
	// python says how a call is written that is one of Python, or nearly (python.go): colon is the
	// bracket after the name, and what closes it is not in after.
	python *pythonStyle
	// also are other ways in which calls are read, after the same marks.
	also []*Format
	// known says that a call without a mark begins where the name of a tool is complete.
	known bool
	// chained says that calls stand alone, but with something between them.
	chained bool
	// prefix precedes the name, and infix follows it, with what matches pattern: an identifier of
	// the call. cleanName takes them away. In an object, pattern is what follows the arguments.
	prefix, infix, pattern string
	// channels says that the output is a sequence of messages with headers (harmony.go).
	channels bool
	// detect are texts that a chat template has if its model writes this format. Each must be
	// there; of several in one text, separated by |||, one is enough.
	detect []string
	// id makes an identifier; nil: "call_" and 24 characters.
	id func(random func(n int) string, name string, index int) string
}

// Named returns the format that vLLM's --tool-call-parser calls so.
func Named(name string) (*Format, bool) {
	if i := slices.IndexFunc(formats, func(f *Format) bool { return f.name == name && !f.variant }); i >= 0 {
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
		if !f.variant {
			names = append(names, f.name)
		}
	}
	for name := range aliases {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Detect returns the format of the model whose chat template is given, nil if it is unknown.
func Detect(template string) *Format {
	has := func(any string) bool {
		return slices.ContainsFunc(strings.Split(any, "|||"), func(mark string) bool { return strings.Contains(template, mark) })
	}
	for _, f := range formats {
		if len(f.detect) > 0 && !slices.ContainsFunc(f.detect, func(any string) bool { return !has(any) }) {
			return f
		}
	}
	return nil
}

// For returns the variant of the format that a chat template writes, of those that are read by
// the same name. Without a template it is f.
func (f *Format) For(template string) *Format {
	if found := Detect(template); found != nil && found.name == f.name {
		return found
	}
	return f
}

// Name is the name of the format, as vLLM calls it.
func (f *Format) Name() string { return f.name }

// Tokens returns texts that a [Parser] has to see. Where the vocabulary has special tokens of
// these names, they are not to be left out of its text.
func (f *Format) Tokens() []string {
	var tokens []string
	add := func(text string) {
		for word := range strings.FieldsSeq(text) {
			if !slices.Contains(tokens, word) {
				tokens = append(tokens, word)
			}
		}
	}
	for _, g := range append([]*Format{f}, f.also...) {
		for _, text := range append([]string{g.section, g.sectionEnd, g.before, g.colon, g.after}, g.marks...) {
			add(text)
		}
		if g.python != nil {
			add(g.python.quote)
		}
		if x := g.xml; x != nil {
			add(x.key)
			add(x.keyEnd)
			add(x.value)
			add(x.end)
		}
	}
	return tokens
}

// ID returns the identifier of a call. random returns n characters of [a-zA-Z0-9], name is that
// of the tool, and index the number of the call in its conversation, from 0 on.
func (f *Format) ID(random func(n int) string, name string, index int) string {
	if f.id != nil {
		return f.id(random, name, index)
	}
	return "call_" + random(24)
}

// marked reports that a call begins with a mark, and not just with what could be text.
func (f *Format) marked() bool { return !f.known }

// OwnIDs reports that the family has a form of ids of its own, in which a model expects those of
// earlier calls too.
func (f *Format) OwnIDs() bool { return f.id != nil }
