package grammar

import (
	"math"
	"math/big"
	"slices"
	"strings"
)

// kinds is a set of JSON types. A number is either a kindInteger, which includes 1.0,
// or a kindFraction.
type kinds uint8

const (
	kindNull kinds = 1 << iota
	kindBool
	kindInteger
	kindFraction
	kindString
	kindArray
	kindObject
	kindNumber = kindInteger | kindFraction
	kindAll    = 1<<7 - 1
)

var kindNames = map[string]kinds{"null": kindNull, "boolean": kindBool, "integer": kindInteger, "number": kindNumber,
	"string": kindString, "array": kindArray, "object": kindObject}

// schemaNode is one schema of the document. The fields are its keywords. The schemas in
// it are kept as JSON, and become nodes when they are needed.
type schemaNode struct {
	id    int32
	path  string
	never bool // the schema false
	json  any  // the schema that the node is of
	kinds kinds
	// implied is the type that the schema has with Options.Strict if no schema that holds at
	// once says otherwise; 0: none.
	implied kinds
	also    []any // allOf and the target of $ref
	anyOf   []any
	oneOf   []any
	enum    []any // nil: any value
	// listed has the canonical texts of enum, once they are needed.
	listed   map[string]bool
	excluded *exclusion // values that are not allowed, besides arrays and objects; nil: none
	negates  any        // the schema that this one is the negation of; nil: it is none
	// undeniable is set if the node stands for values that cannot be told exactly.
	undeniable *undeniable
	anyForOne  bool // x-oneOf: oneOf may be read as anyOf
	numbers
	text  textRules
	array arrayRules
	props objectRules
}

// textRules are the keywords for strings.
type textRules struct {
	least, most int64 // characters; most -1: no bound
	pattern     string
	hasPattern  bool
	format      string
	not         []patternAt // patterns that must not match anywhere in the string, and formats
	in          *language   // nil: any
	grammar     string      // x-grammar, in Lark; "": none
}

// patternAt is a pattern, or the name of a format, with the path of the keyword that it is
// from.
type patternAt struct {
	pattern, path string
	format        bool
}

// arrayRules are the keywords for arrays.
type arrayRules struct {
	least, most int64 // elements; most -1: no bound
	prefix      []any
	items       any // nil: anything
	some        *someItem
	unique      bool
	contains    *containsRule // nil: none
}

// objectRules are the keywords for objects.
type objectRules struct {
	least, most int64    // properties; most -1: no bound
	names       []string // declared ones, in the order of the schema
	declared    map[string]any
	patterns    []patternRule
	set         *patternSet // of patterns; nil: not needed yet
	additional  any         // nil: anything
	implied     bool        // additional is false because of document.closed; it then applies only to names that no schema of a set declares
	required    []string
	keys        any      // propertyNames, nil: anything
	mentioned   []string // names that a negation or a condition speaks of: they are in declared, and have no place in the order
	some        *someProperty
}

// patternRule is an entry of patternProperties.
type patternRule struct {
	pattern string
	schema  any
}

// node returns the node of a schema, which is parsed only once.
func (d *document) node(v any) *schemaNode {
	switch v := v.(type) {
	case bool:
		if v {
			return d.trueSchema
		}
		return d.falseSchema
	case *object:
		n := d.nodes[v]
		if n == nil {
			number := d.alike.number(v)
			if n = d.alike.nodes[number]; n == nil {
				n = d.add(&schemaNode{kinds: kindAll, path: d.paths[v], json: v})
				d.alike.nodes[number], d.nodes[v] = n, n
				d.parse(n, v)
			}
			d.nodes[v] = n
		}
		return n
	case *derived:
		return d.derivedNode(v)
	}
	fail(ErrInvalid, "", "a schema must be an object or a boolean, not %s", quoteValue(v))
	return nil
}

// quoteValue is v for an error message.
func quoteValue(v any) string {
	s := dumpJSON(v)
	if len(s) > 60 {
		return s[:60] + "..."
	}
	return s
}

// refused are the keywords whose meaning masks cannot keep exactly.
var refused = []string{"unevaluatedProperties", "unevaluatedItems"}

// parse fills n with the keywords of o.
func (d *document) parse(n *schemaNode, o *object) {
	p := nodeParser{d: d, n: n, o: o}
	if d.version(d.bases[o]).onlyRef(o) {
		n.also = p.references()
		o = &object{} // nothing else counts
		p.o = o
	}
	for _, k := range refused {
		v, ok := o.m[k]
		if !ok || v == true && strings.HasPrefix(k, "unevaluated") {
			continue
		}
		fail(ErrUnsupported, p.at(k), "%s cannot be enforced", k)
	}
	p.kinds()
	p.combinations()
	p.conditions()
	p.values()
	p.bounds()
	p.texts()
	p.arrays()
	p.objects()
}

// nodeParser reads the keywords of o into n.
type nodeParser struct {
	d *document
	n *schemaNode
	o *object
}

func (p nodeParser) at(key string) string { return stepPath(p.n.path, key) }

// bad refuses the value of key.
func (p nodeParser) bad(key, want string) {
	fail(ErrInvalid, p.at(key), "%s must be %s, not %s", key, want, quoteValue(p.o.m[key]))
}

func (p nodeParser) kinds() {
	switch t := p.o.m["type"].(type) {
	case nil:
		if _, ok := p.o.m["type"]; ok {
			p.bad("type", "a type or a list of types")
		}
		if p.d.inferTypes {
			p.n.implied = p.implied()
		}
		return
	case string:
		k, ok := kindNames[t]
		if !ok {
			fail(ErrInvalid, p.at("type"), "unknown type %q", t)
		}
		p.n.kinds = k
	case []any:
		p.n.kinds = 0
		for _, e := range t {
			s, _ := e.(string)
			k, ok := kindNames[s]
			if !ok {
				fail(ErrInvalid, p.at("type"), "unknown type %s", quoteValue(e))
			}
			p.n.kinds |= k
		}
	default:
		p.bad("type", "a type or a list of types")
	}
}

// about are the keywords that apply to one type only.
var about = map[kinds][]string{
	kindString: {"minLength", "maxLength", "pattern", "format", "x-grammar"},
	kindNumber: {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
	kindArray:  {"items", "prefixItems", "minItems", "maxItems", "uniqueItems", "contains"},
	kindObject: {"properties", "patternProperties", "additionalProperties", "required", "minProperties", "maxProperties", "propertyNames",
		"dependencies", "dependentRequired", "dependentSchemas"},
}

// implied is the type that the keywords of the schema are about. It is 0 if they are about
// none or more than one, or if there are keywords that decide it otherwise.
func (p nodeParser) implied() kinds {
	for _, k := range []string{"enum", "const", "$ref", "allOf", "anyOf", "oneOf"} {
		if _, ok := p.o.m[k]; ok {
			return 0
		}
	}
	res := kinds(0)
	for kind, keys := range about {
		if !slices.ContainsFunc(keys, func(k string) bool { _, ok := p.o.m[k]; return ok }) {
			continue
		}
		if res != 0 {
			return 0
		}
		res = kind
	}
	return res
}

// list reads an array of schemas.
func (p nodeParser) list(key string) []any {
	v, ok := p.o.m[key]
	if !ok {
		return nil
	}
	l, ok := v.([]any)
	if !ok || len(l) == 0 && key != "prefixItems" && key != "allOf" {
		p.bad(key, "a list of schemas")
	}
	for i, e := range l {
		p.schema(key, i, e)
	}
	return l
}

// schema refuses v if it is not a schema. i is its index in the list of key, or -1.
func (p nodeParser) schema(key string, i int, v any) {
	switch v.(type) {
	case bool, *object:
		return
	}
	at := p.at(key)
	if i >= 0 {
		at = stepIndex(at, i)
	}
	fail(ErrInvalid, at, "a schema must be an object or a boolean, not %s", quoteValue(v))
}

func (p nodeParser) combinations() {
	p.n.also = append(p.n.also, p.list("allOf")...)
	p.n.also = append(p.n.also, p.references()...)
	p.n.anyOf, p.n.oneOf = p.list("anyOf"), p.list("oneOf")
	if v, ok := p.o.m["x-oneOf"]; ok {
		if v != "any" {
			p.bad("x-oneOf", `"any"`)
		}
		p.n.anyForOne = true
	}
}

func (p nodeParser) values() {
	if v, ok := p.o.m["enum"]; ok {
		l, ok := v.([]any)
		if !ok {
			p.bad("enum", "a list of values")
		}
		p.n.enum = append([]any{}, l...)
	}
	if v, ok := p.o.m["const"]; ok {
		p.d.spend(len(p.n.enum))
		text := canonicalJSON(v)
		if p.n.enum != nil && !slices.ContainsFunc(p.n.enum, func(e any) bool { return canonicalJSON(e) == text }) {
			p.n.enum = []any{}
		} else {
			p.n.enum = []any{v}
		}
	}
}

func (p nodeParser) bounds() {
	number := func(key string, f func(text numeral)) {
		switch v := p.o.m[key].(type) {
		case numeral:
			f(v)
		case bool: // exclusiveMinimum and exclusiveMaximum of draft 4, read below
			if !strings.HasPrefix(key, "exclusive") {
				p.bad(key, "a number")
			}
		default:
			if _, ok := p.o.m[key]; ok {
				p.bad(key, "a number")
			}
		}
	}
	bound := func(key string, narrow func(open bool, text numeral), open bool) {
		number(key, func(t numeral) { narrow(open, t) })
	}
	low := func(open bool, t numeral) { p.n.atLeast(p.rat(t, "minimum"), open) }
	high := func(open bool, t numeral) { p.n.atMost(p.rat(t, "maximum"), open) }
	bound("minimum", low, p.o.m["exclusiveMinimum"] == true)
	bound("maximum", high, p.o.m["exclusiveMaximum"] == true)
	bound("exclusiveMinimum", low, true)
	bound("exclusiveMaximum", high, true)
	number("multipleOf", func(t numeral) {
		r := p.rat(t, "multipleOf")
		if r.Sign() <= 0 {
			p.bad("multipleOf", "greater than 0")
		}
		p.n.multiple, p.n.multiplePath = r, p.at("multipleOf")
	})
}

// size reads a number of characters, elements or properties. It is def if key is not
// there, and at most math.MaxInt32.
func (p nodeParser) size(key string, def int64) int64 {
	v, ok := p.o.m[key]
	if !ok {
		return def
	}
	t, _ := v.(numeral)
	r, ok := parseNumber(string(t))
	if !ok || !r.IsInt() || r.Sign() < 0 {
		p.bad(key, "an integer of at least 0")
	}
	if !r.Num().IsInt64() || r.Num().Int64() > math.MaxInt32 {
		return math.MaxInt32
	}
	return r.Num().Int64()
}

func (p nodeParser) texts() {
	p.n.text.least, p.n.text.most = p.size("minLength", 0), p.size("maxLength", -1)
	for _, k := range []string{"pattern", "format", "x-grammar"} {
		if v, ok := p.o.m[k]; ok {
			if _, ok := v.(string); !ok {
				p.bad(k, "a string")
			}
		}
	}
	p.n.text.pattern, p.n.text.hasPattern = p.o.m["pattern"].(string)
	p.n.text.format, _ = p.o.m["format"].(string)
	if g, ok := p.o.m["x-grammar"].(string); ok {
		if strings.TrimSpace(g) == "" {
			p.bad("x-grammar", "a grammar")
		}
		p.n.text.grammar = g
	}
}

func (p nodeParser) arrays() {
	a := &p.n.array
	a.least, a.most = p.size("minItems", 0), p.size("maxItems", -1)
	a.prefix = p.list("prefixItems")
	switch v := p.o.m["items"].(type) {
	case nil:
		if _, ok := p.o.m["items"]; ok {
			p.bad("items", "a schema")
		}
	case []any: // until draft 2019-09
		if a.prefix != nil {
			p.bad("items", "a schema")
		}
		for i, e := range v {
			p.schema("items", i, e)
		}
		a.prefix = v
		if more, ok := p.o.m["additionalItems"]; ok {
			p.schema("additionalItems", -1, more)
			a.items = more
		}
	default:
		p.schema("items", -1, v)
		a.items = v
	}
	p.counted(a)
}

func (p nodeParser) objects() {
	r := &p.n.props
	r.least, r.most = p.size("minProperties", 0), p.size("maxProperties", -1)
	p.each("properties", func(name string, v any) {
		if r.declared == nil {
			r.declared = make(map[string]any)
		}
		r.names, r.declared[name] = append(r.names, name), v
	})
	p.each("patternProperties", func(name string, v any) {
		r.patterns = append(r.patterns, patternRule{name, v})
	})
	for key, to := range map[string]*any{"additionalProperties": &r.additional, "propertyNames": &r.keys} {
		if v, ok := p.o.m[key]; ok {
			p.schema(key, -1, v)
			*to = v
		}
	}
	if _, ok := p.o.m["additionalProperties"]; !ok && p.d.closed && (r.declared != nil || r.patterns != nil) {
		r.additional, r.implied = false, true
	}
	switch l := p.o.m["required"].(type) {
	case []any:
		listed := make(map[string]bool)
		for _, e := range l {
			p.d.spend(1)
			s, ok := e.(string)
			if !ok {
				p.bad("required", "a list of names")
			}
			if !listed[s] {
				listed[s] = true
				r.required = append(r.required, s)
			}
		}
	default:
		if _, ok := p.o.m["required"]; ok {
			p.bad("required", "a list of names")
		}
	}
}

// each calls f for every entry of the map of schemas under key.
func (p nodeParser) each(key string, f func(name string, v any)) {
	v, ok := p.o.m[key]
	if !ok {
		return
	}
	o, ok := v.(*object)
	if !ok {
		p.bad(key, "an object of schemas")
	}
	for _, name := range o.keys {
		p.d.spend(1)
		switch o.m[name].(type) {
		case bool, *object:
		default:
			fail(ErrInvalid, stepPath(p.at(key), name), "a schema must be an object or a boolean, not %s", quoteValue(o.m[name]))
		}
		f(name, o.m[name])
	}
}

// rat is the value of a number under key.
func (p nodeParser) rat(t numeral, key string) *big.Rat {
	r, ok := parseNumber(string(t))
	if !ok {
		fail(ErrTooComplex, p.at(key), "%s has too many digits", key)
	}
	return r
}
