package grammar

import "slices"

// conditions reads not, if and the keywords for dependent properties. They become choices
// between cases that exclude each other.
func (p nodeParser) conditions() {
	d, n := p.d, p.n
	for _, key := range []string{"not", "if", "then", "else"} {
		if v, ok := p.o.m[key]; ok {
			p.schema(key, -1, v)
		}
	}
	if v, ok := p.o.m["not"]; ok {
		n.also = append(n.also, d.negate(v))
	}
	then, hasThen := p.o.m["then"]
	otherwise, hasElse := p.o.m["else"]
	if c, ok := p.o.m["if"]; ok && (hasThen || hasElse) {
		yes, no := []any{c}, []any{d.negate(c)}
		if hasThen {
			yes = append(yes, then)
		}
		if hasElse {
			no = append(no, otherwise)
		}
		path := p.at("if")
		n.also = append(n.also, d.any(path, d.all(path, yes...), d.all(path, no...)))
	}
	p.each("dependentSchemas", func(name string, v any) { p.dependency("dependentSchemas", name, nil, v) })
	for _, key := range []string{"dependentRequired", "dependencies"} {
		p.dependencies(key)
	}
}

// dependencies reads a map from names to lists of names, or also to schemas.
func (p nodeParser) dependencies(key string) {
	v, ok := p.o.m[key]
	if !ok {
		return
	}
	o, ok := v.(*object)
	if !ok {
		p.bad(key, "an object")
	}
	p.n.also = slices.Clip(p.n.also) // the first append copies it
	for _, name := range o.keys {
		p.d.spend(1)
		switch v := o.m[name].(type) {
		case []any:
			p.dependency(key, name, p.namesAt(key, name, v), nil)
		case string: // until draft 3
			if key == "dependentRequired" {
				fail(ErrInvalid, stepPath(p.at(key), name), "it must be a list of names")
			}
			p.dependency(key, name, []string{v}, nil)
		case bool, *object:
			if key == "dependentRequired" {
				fail(ErrInvalid, stepPath(p.at(key), name), "it must be a list of names")
			}
			p.dependency(key, name, nil, v)
		default:
			fail(ErrInvalid, stepPath(p.at(key), name), "it must be a list of names or a schema, not %s", quoteValue(v))
		}
	}
}

// namesAt reads a list of names.
func (p nodeParser) namesAt(key, name string, l []any) []string {
	p.d.spend(len(l))
	var names []string
	listed := map[string]bool{name: true}
	for _, e := range l {
		other, ok := e.(string)
		if !ok {
			fail(ErrInvalid, stepPath(p.at(key), name), "it must be a list of names")
		}
		if !listed[other] {
			listed[other] = true
			names = append(names, other)
		}
	}
	return names
}

// dependency adds that objects with the property name have all the others, and satisfy
// schema unless it is nil.
func (p nodeParser) dependency(key, name string, others []string, schema any) {
	if len(others) == 0 && (schema == nil || always(schema)) {
		return
	}
	path := p.at(key)
	absent := p.d.derive(path, func(n *schemaNode) {
		n.props.declared = map[string]any{name: false}
		n.props.mentioned = []string{name}
	})
	present := p.d.derive(path, func(n *schemaNode) {
		n.kinds = kindObject
		n.props.required = append([]string{name}, others...)
		if schema != nil {
			n.also = []any{schema}
		}
	})
	p.n.also = append(p.n.also, p.d.any(path, absent, present))
}
