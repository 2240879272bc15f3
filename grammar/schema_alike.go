package grammar

import (
	"encoding/binary"
	"slices"
)

// Schemas often say the same thing in many places: a definition that a generator has written
// out wherever it is used, or `{"type": "string"}` with a thousand descriptions. Such places
// have one node, so that they have one rule as well. (One of MaskBench's schemas has 437
// schemas in it, of which 23 are different. It was refused for needing 400,000 states.)

// annotations are the keywords that say nothing about which values satisfy a schema.
var annotations = []string{"title", "description", "default", "examples", "$comment", "deprecated", "readOnly", "writeOnly"}

// alike gives schemas that say the same, in the same words but for annotations, the same
// number.
type alike struct {
	d       *document
	numbers map[*object]int32
	texts   map[string]int32
	nodes   map[int32]*schemaNode // of each number
}

func newAlike(d *document) *alike {
	return &alike{d: d, numbers: make(map[*object]int32), texts: make(map[string]int32), nodes: make(map[int32]*schemaNode)}
}

// number is the number of the schema o.
func (a *alike) number(o *object) int32 {
	if n, ok := a.numbers[o]; ok {
		return n
	}
	text := binary.AppendUvarint(make([]byte, 0, 64), uint64(len(a.d.bases[o])))
	text = append(text, a.d.bases[o]...) // references are relative to it
	a.d.spend(1 + len(o.keys))
	for _, k := range o.keys {
		if slices.Contains(annotations, k) {
			continue
		}
		text = append(append(text, quoteJSON(k)...), ':')
		text = a.appendValue(text, k, o.m[k])
	}
	n, ok := a.texts[string(text)]
	if !ok {
		n = int32(len(a.texts))
		a.d.hold(int64(len(text)) + setBytes)
		a.texts[string(text)] = n
	}
	a.numbers[o] = n
	return n
}

// key is the same for schemas that say the same.
func (a *alike) key(schema any) any {
	if o, ok := schema.(*object); ok {
		return a.number(o)
	}
	return schema
}

// appendValue appends the value of a keyword to text, with numbers in place of schemas.
func (a *alike) appendValue(text []byte, keyword string, v any) []byte {
	switch v := v.(type) {
	case *object:
		if slices.Contains(schemaIn, keyword) {
			return a.appendSchema(text, v)
		}
		if slices.Contains(mapsIn, keyword) {
			a.d.spend(len(v.keys))
			text = append(text, '{')
			for _, name := range v.keys {
				text = a.appendSchema(append(append(text, quoteJSON(name)...), ':'), v.m[name])
			}
			return append(text, '}')
		}
	case []any:
		if slices.Contains(schemasIn, keyword) {
			a.d.spend(len(v))
			text = append(text, '[')
			for _, e := range v {
				text = a.appendSchema(text, e)
			}
			return append(text, ']')
		}
	}
	before := len(text)
	text = append(append(text, dumpJSON(v)...), ',')
	a.d.spend((len(text) - before) / 16)
	return text
}

func (a *alike) appendSchema(text []byte, v any) []byte {
	if o, ok := v.(*object); ok {
		return binary.AppendUvarint(append(text, '#'), uint64(a.number(o)))
	}
	return append(append(text, dumpJSON(v)...), ',')
}
