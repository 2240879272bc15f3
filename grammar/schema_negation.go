package grammar

import (
	"math/big"
	"slices"
)

// A negation is a schema like any other: it is made of the keywords that a schema has, and
// of a few that only negations have. So sets of schemas can have negations in them, and
// nothing else needs to know of them.
//
// The negation of a schema is a choice between the ways to violate it. A string and an
// object that violate it violate different keywords, so one of the choices can have a way
// for each type: the negation of {"type": "string", "minLength": 3} is {"maxLength": 2},
// which all that are no strings satisfy. The ways for the same type exclude each other where
// that costs nothing, because a text that is read in two ways at once is more work.

// derived is a schema that is not in the document. It becomes a node when it is needed, like
// those that are.
type derived struct {
	node *schemaNode
	path string
	fill func(n *schemaNode)
}

// derive returns a schema for a node that fill makes.
func (d *document) derive(path string, fill func(n *schemaNode)) *derived {
	return &derived{path: path, fill: fill}
}

func (d *document) derivedNode(v *derived) *schemaNode {
	if v.node == nil {
		d.spend(1)
		v.node = d.add(newNode(v, v.path))
		v.fill(v.node)
	}
	return v.node
}

// newNode is a node without keywords.
func newNode(v any, path string) *schemaNode {
	n := &schemaNode{kinds: kindAll, path: path, json: v}
	n.text.most, n.array.most, n.props.most = -1, -1, -1
	return n
}

// derived reports whether n is not of a schema in the document.
func (n *schemaNode) derived() bool {
	_, ok := n.json.(*derived)
	return ok
}

// all is the schema of what satisfies all of the given ones.
func (d *document) all(path string, schemas ...any) any {
	return d.derive(path, func(n *schemaNode) { n.also = schemas })
}

// any is the schema of what satisfies at least one of the given ones.
func (d *document) any(path string, schemas ...any) any {
	return d.derive(path, func(n *schemaNode) { n.anyOf = schemas })
}

// undeniable says why values that are of one of the kinds cannot be enforced.
type undeniable struct {
	kinds   kinds
	path    string // of the keyword that cannot be negated
	keyword string
}

// refuse refuses a, if it has values that cannot be told exactly.
func (a alternative) refuse() {
	for _, n := range a {
		if n.undeniable != nil && a.kinds()&n.undeniable.kinds != 0 {
			fail(ErrUnsupported, n.undeniable.path, "%s cannot be negated exactly, which not, if or oneOf needs here", n.undeniable.keyword)
		}
	}
}

// negate returns the schema of all values that do not satisfy v.
func (d *document) negate(v any) any {
	switch v := v.(type) {
	case bool:
		return !v
	case *derived:
		if v.node != nil && v.node.negates != nil {
			return v.node.negates
		}
	}
	key := d.alike.key(v)
	if g, ok := d.negations[key]; ok {
		return g
	}
	g := d.derive("", func(n *schemaNode) {
		n.negates = v
		d.fillNegation(n, d.node(v))
	})
	d.negations[key] = g
	return g
}

// opposite is the node of the schema that exactly those values satisfy that do not satisfy
// n. It is nil if there is none yet.
func (d *document) opposite(n *schemaNode) *schemaNode {
	if n.negates != nil {
		return d.node(n.negates)
	}
	if len(d.negations) > 0 {
		if g := d.negations[d.alike.key(n.json)]; g != nil {
			return g.node
		}
	}
	return nil
}

// fillNegation makes n the negation of of.
func (d *document) fillNegation(n, of *schemaNode) {
	n.path = of.path
	if of.never {
		return
	}
	if of.negates != nil {
		n.also = []any{of.negates}
		return
	}
	g := &negation{d: d, of: of}
	g.keywords()
	g.combined()
	switch len(g.ways) {
	case 0:
		n.never = true
	case 1:
		n.also = g.ways
		if v, ok := g.ways[0].(*derived); ok {
			n.kinds = d.derivedNode(v).kinds
		}
	default:
		n.anyOf = g.ways
	}
}

// negation collects the ways to violate the schema of.
type negation struct {
	d    *document
	of   *schemaNode
	ways []any

	// The ways for each type; kinds is set in those for numbers.
	strings, numbers, arrays, objects []func(n *schemaNode)
}

// keywords finds the ways to violate the keywords of the schema that are not about other
// schemas for the same value.
func (g *negation) keywords() {
	k := g.of.kinds
	g.undeniables()
	g.constants()
	if k&kindString != 0 {
		g.texts()
	}
	if k&kindNumber != 0 {
		g.bounds()
	}
	if k&kindArray != 0 {
		g.items()
	}
	if k&kindObject != 0 {
		g.properties()
	}
	outside := kindAll &^ k
	if k&kindNumber == kindInteger && len(g.numbers) > 0 {
		// The bounds are violated by some integers, but the type is by all fractions.
		g.numbers = append(g.numbers, func(n *schemaNode) { n.kinds |= kindFraction })
		outside &^= kindFraction
	}
	for i := range max(1, len(g.strings), len(g.numbers), len(g.arrays), len(g.objects)) {
		i, only := i, kinds(0)
		if i == 0 {
			only = outside
		}
		add := func(f func(n *schemaNode)) { g.ways = append(g.ways, g.d.derive(g.of.path, f)) }
		if only == 0 && i >= len(g.strings) && i >= len(g.numbers) && i >= len(g.arrays) && i >= len(g.objects) {
			continue
		}
		add(func(n *schemaNode) {
			n.kinds, n.enum = only, g.of.enum
			way(n, kindString, g.strings, i)
			way(n, 0, g.numbers, i)
			way(n, kindArray, g.arrays, i)
			way(n, kindObject, g.objects, i)
		})
	}
}

// way gives n the i-th way for the values of kind, if there are so many.
func way(n *schemaNode, kind kinds, ways []func(n *schemaNode), i int) {
	if i < len(ways) {
		n.kinds |= kind
		ways[i](n)
	}
}

// denied adds a way that cannot be enforced.
func (g *negation) denied(kind kinds, keyword string) {
	kind &= g.of.kinds
	if kind == 0 {
		return
	}
	u := &undeniable{kind, stepPath(g.of.path, keyword), keyword}
	g.ways = append(g.ways, g.d.derive(g.of.path, func(n *schemaNode) {
		n.kinds, n.undeniable = kind, u
	}))
}

// undeniables adds ways for the keywords whose negation is not known.
func (g *negation) undeniables() {
	if u := g.of.undeniable; u != nil {
		g.ways = append(g.ways, g.of.json)
	}
	if a := g.of.array; a.unique && (a.most < 0 || a.most > 1) {
		g.denied(kindArray, "uniqueItems")
	}
	o, ok := g.of.json.(*object)
	if !ok {
		return
	}
	if v, ok := o.m["unevaluatedItems"]; ok && v != true {
		g.denied(kindArray, "unevaluatedItems")
	}
	if v, ok := o.m["unevaluatedProperties"]; ok && v != true {
		g.denied(kindObject, "unevaluatedProperties")
	}
}

// constants adds the way to have none of the values of an enum.
func (g *negation) constants() {
	if g.of.enum == nil {
		return
	}
	x := &exclusion{}
	gone := kinds(0)
	var also []any
	for _, v := range g.of.enum {
		g.d.spend(1)
		switch v := v.(type) {
		case nil:
			gone |= kindNull
		case bool:
			if v {
				x.yes = true
			} else {
				x.no = true
			}
		case numeral:
			r, ok := parseNumber(string(v))
			if !ok {
				g.denied(kindNumber, "enum")
				continue
			}
			x.numbers = append(x.numbers, r)
		case string:
			x.words = append(x.words, v)
		default:
			also = append(also, g.d.negate(g.d.constant(v, g.of.path)))
		}
	}
	if x.yes && x.no {
		gone |= kindBool
	}
	g.ways = append(g.ways, g.d.derive(g.of.path, func(n *schemaNode) {
		n.kinds &^= gone
		n.excluded, n.also = x, also
	}))
}

// constant is the schema of the value v, an array or an object, in the form of what its
// parts are.
func (d *document) constant(v any, path string) any {
	part := func(v any) any {
		switch v.(type) {
		case []any, *object:
			return d.constant(v, path)
		}
		return d.derive(path, func(n *schemaNode) { n.enum = []any{v} })
	}
	return d.derive(path, func(n *schemaNode) {
		switch v := v.(type) {
		case []any:
			n.kinds = kindArray
			n.array.least, n.array.most = int64(len(v)), int64(len(v))
			for _, e := range v {
				n.array.prefix = append(n.array.prefix, part(e))
			}
		case *object:
			n.kinds = kindObject
			n.props.additional, n.props.required = false, slices.Clone(v.keys)
			n.props.declared = make(map[string]any, len(v.keys))
			for _, k := range v.keys {
				n.props.declared[k] = part(v.m[k])
			}
			n.props.mentioned = n.props.required
		}
	})
}

// farApart is the number of characters up to which the lengths of strings are kept apart
// where a pattern is negated. Beyond it, the pattern and the length would need too many
// states together.
const farApart = 200

func (g *negation) texts() {
	t := g.of.text
	if t.least > 0 {
		g.strings = append(g.strings, func(n *schemaNode) { n.text.most = t.least - 1 })
	}
	if t.most >= 0 {
		g.strings = append(g.strings, func(n *schemaNode) { n.text.least = t.most + 1 })
	}
	if t.hasPattern {
		g.strings = append(g.strings, func(n *schemaNode) {
			if max(t.least, t.most) <= farApart {
				n.text.least, n.text.most = t.least, t.most
			}
			n.text.not = []patternAt{{pattern: t.pattern, path: stepPath(g.of.path, "pattern")}}
		})
	}
	for _, p := range t.not {
		g.strings = append(g.strings, func(n *schemaNode) {
			if p.format {
				n.text.format = p.pattern
			} else {
				n.text.pattern, n.text.hasPattern = p.pattern, true
			}
		})
	}
	if enforced(t.format) {
		g.strings = append(g.strings, func(n *schemaNode) {
			n.text.not = []patternAt{{pattern: t.format, path: stepPath(g.of.path, "format"), format: true}}
		})
	}
}

func (g *negation) bounds() {
	k, m := g.of.kinds&kindNumber, g.of.numbers
	add := func(f func(n *schemaNode)) {
		g.numbers = append(g.numbers, func(n *schemaNode) {
			n.kinds |= k
			f(n)
		})
	}
	if m.lo != nil {
		add(func(n *schemaNode) { n.hi, n.hiOpen = m.lo, !m.loOpen })
	}
	if m.hi != nil {
		add(func(n *schemaNode) { n.lo, n.loOpen = m.hi, !m.hiOpen })
	}
	if m.multiple != nil {
		add(func(n *schemaNode) {
			n.lo, n.loOpen, n.hi, n.hiOpen = m.lo, m.loOpen, m.hi, m.hiOpen
			n.not, n.multiplePath = []*big.Rat{m.multiple}, m.multiplePath
		})
	}
}

// always reports whether v is a schema that all values satisfy, as far as that is seen
// without reading further.
func always(v any) bool {
	if o, ok := v.(*object); ok {
		return len(o.keys) == 0
	}
	return v == true
}

func (g *negation) items() {
	a := g.of.array
	if a.least > 0 {
		g.arrays = append(g.arrays, func(n *schemaNode) { n.array.most = a.least - 1 })
	}
	if a.most >= 0 {
		g.arrays = append(g.arrays, func(n *schemaNode) { n.array.least = a.most + 1 })
	}
	for i, v := range a.prefix {
		if always(v) || a.most >= 0 && int64(i) >= a.most {
			continue
		}
		g.arrays = append(g.arrays, func(n *schemaNode) {
			n.array.least, n.array.most = max(a.least, int64(i)+1), a.most
			n.array.prefix = append(slices.Clone(a.prefix[:i]), g.d.negate(v))
		})
	}
	if a.items != nil && !always(a.items) && (a.most < 0 || a.most > int64(len(a.prefix))) {
		some := &someItem{from: len(a.prefix), is: g.d.negate(a.items)}
		g.arrays = append(g.arrays, func(n *schemaNode) {
			n.array.least, n.array.most = max(a.least, int64(some.from)+1), a.most
			n.array.prefix = slices.Clone(a.prefix)
			n.array.some = some
		})
	}
	if a.some != nil {
		g.arrays = append(g.arrays, func(n *schemaNode) {
			for range a.some.from {
				n.array.prefix = append(n.array.prefix, true)
			}
			n.array.items = g.d.negate(a.some.is)
		})
	}
	if c := a.contains; c != nil {
		g.contains(c)
	}
}

// contains adds the ways to have too few elements that satisfy c, or too many.
func (g *negation) contains(c *containsRule) {
	counted := func(least, most int64) {
		g.arrays = append(g.arrays, func(n *schemaNode) { n.array.contains = &containsRule{c.schema, least, most, c.path} })
	}
	switch {
	case c.least == 1:
		g.arrays = append(g.arrays, func(n *schemaNode) { n.array.items = g.d.negate(c.schema) })
	case c.least > 1:
		counted(0, c.least-1)
	}
	if c.most >= 0 {
		counted(c.most+1, -1)
	}
}

// manyNames is the number of properties up to which the ways to violate what is said about
// them exclude each other. To say it takes work with the square of their number.
const manyNames = 24

// properties adds the ways of objects. First a required property is missing, or what is
// declared for it is violated: one way is for both, because what a schema says of a property
// holds for objects without it. The other properties have to be there to be wrong.
func (g *negation) properties() {
	r := &g.of.props
	var before []string // names that were right
	apart := len(r.required)+len(r.declared) <= manyNames
	add := func(name string, wrong any, present bool) {
		right := before
		g.objects = append(g.objects, func(n *schemaNode) {
			p := &n.props
			p.declared = map[string]any{name: wrong}
			p.mentioned = append(slices.Clone(right), name)
			for _, other := range right {
				if v, ok := r.declared[other]; ok {
					p.declared[other] = v
				} else {
					p.declared[other] = true
				}
				if slices.Contains(r.required, other) {
					p.required = append(p.required, other)
				}
			}
			if present {
				p.required = append(p.required, name)
			}
		})
		if apart {
			before = append(slices.Clip(before), name)
		}
	}
	for _, name := range r.required {
		g.d.spend(1)
		wrong := any(false)
		if v, ok := r.declared[name]; ok {
			wrong = g.d.negate(v)
		}
		add(name, wrong, false)
	}
	for _, name := range r.optional() {
		g.d.spend(1)
		if v := r.declared[name]; !always(v) {
			add(name, g.d.negate(v), true)
		}
	}
	if r.least > 0 {
		g.objects = append(g.objects, func(n *schemaNode) { n.props.most = r.least - 1 })
	}
	if r.most >= 0 {
		g.objects = append(g.objects, func(n *schemaNode) { n.props.least = r.most + 1 })
	}
	g.names()
}

// optional are the declared names that are not required, in the order of the schema.
func (r *objectRules) optional() []string {
	required := make(map[string]bool, len(r.required))
	for _, name := range r.required {
		required[name] = true
	}
	var res []string
	for _, name := range append(slices.Clip(r.names), r.mentioned...) {
		if !required[name] {
			required[name] = true
			res = append(res, name)
		}
	}
	return res
}

// names adds the ways of objects that have to have a property with a name of some kind.
func (g *negation) names() {
	r := &g.of.props
	add := func(p *someProperty) {
		p.path = g.of.path
		g.objects = append(g.objects, func(n *schemaNode) { n.props.some = p })
	}
	for _, p := range r.patterns {
		if !always(p.schema) {
			add(&someProperty{patterns: []string{p.pattern}, is: g.d.negate(p.schema)})
		}
	}
	if r.additional != nil && !r.implied && !always(r.additional) {
		p := &someProperty{is: g.d.negate(r.additional)}
		for name := range r.declared {
			p.notNames = append(p.notNames, name)
		}
		slices.Sort(p.notNames)
		for _, not := range r.patterns {
			p.notPatterns = append(p.notPatterns, not.pattern)
		}
		add(p)
	}
	if r.keys != nil && !always(r.keys) {
		add(&someProperty{names: g.d.negate(r.keys), is: true})
	}
	if r.some != nil {
		g.denied(kindObject, "not")
	}
}

// combined adds the ways to violate what other schemas say about the same value.
func (g *negation) combined() {
	for _, v := range g.of.also {
		if !always(v) {
			g.ways = append(g.ways, g.d.negate(v))
		}
	}
	if l := g.of.anyOf; l != nil {
		g.ways = append(g.ways, g.d.all(g.of.path, g.d.negated(l)...))
	}
	if l := g.of.oneOf; l != nil {
		g.ways = append(g.ways, g.d.all(g.of.path, g.d.negated(l)...))
		for i := range l {
			for j := range i {
				g.d.spend(8)
				g.ways = append(g.ways, g.d.all(g.of.path, l[j], l[i]))
			}
		}
	}
}

func (d *document) negated(l []any) []any {
	res := make([]any, len(l))
	for i, v := range l {
		res[i] = d.negate(v)
	}
	return res
}
