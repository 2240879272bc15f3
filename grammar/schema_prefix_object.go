package grammar

import (
	"slices"
	"strings"
)

// openNamesTried is how many names are tried for one that the text ends in.
const openNamesTried = 8

// keptAway is how many bytes of the undeclared names that are given may not come again. Undeclared
// names may repeat in any case (schemas.object), so this is a courtesy, unless properties are
// counted.
const keptAway = 4096

// object adds the objects of a that begin with g, from from to end.
func (p *prefixed) object(from, end int32, a alternative, g *given) {
	s := p.s
	if a.kinds()&kindObject == 0 {
		p.note(g.at, "", "an object is not allowed here")
		return
	}
	if len(a) == 0 {
		a = alternative{p.any}
	}
	if a.demands() {
		p.note(g.at, a[0].path, "an object can be continued only in the spelling in which it would be generated")
		return
	}
	add := func(open *member) {
		before := &givenMembers{p: p, g: g, open: open}
		s.b.eps(s.objectWith(from, a, before, nil), end)
	}
	switch {
	case g.open() != nil:
		add(&member{name: g.names[len(g.names)-1]}) // it gets its set once the members before it are checked
	case g.stop == stopName:
		ordinary, names := p.openNames(a, g)
		if ordinary {
			add(nil)
		}
		for i := range names {
			add(&names[i])
		}
	default:
		add(nil)
	}
}

// givenMembers are the members of an object that a text begins with.
type givenMembers struct {
	p    *prefixed
	g    *given
	open *member // the last one, if it is not whole
}

// add checks the whole members, and makes sure that all given ones are declared, so that
// undeclared ones have other names. It reports false if the object does not fit a.
func (o *givenMembers) add(a alternative, m *members) bool {
	g, p := o.g, o.p
	count := g.whole()
	if m.most >= 0 && int64(len(g.names)) > m.most {
		p.note(g.of[m.most].at, "", "there are too many properties")
		return false
	}
	declared := make(map[string]bool, len(m.declared))
	for i := range m.declared {
		declared[m.declared[i].name] = true
	}
	bytes := 0 // of undeclared names
	for i, name := range g.names {
		if p.barred(a, name) {
			p.note(g.of[i].at, "", "the property "+quoteValue(name)+" is not allowed here")
			return false
		}
		set := p.s.under(a, name)
		if slices.Contains(set, any(false)) {
			p.note(g.of[i].at, "", "the property "+quoteValue(name)+" is not allowed here")
			return false
		}
		if i < count && !p.holds(g.of[i].value, set) {
			p.note(g.of[i].at, "", "the value of the property "+quoteValue(name)+" does not satisfy the schema")
			return false
		}
		if !declared[name] {
			if bytes += len(name); bytes <= keptAway || m.least > 0 {
				m.declared = append(m.declared, member{name: name, set: set})
			}
		}
	}
	p.reached(g)
	if e := g.open(); e != nil {
		o.open.set = p.along(e, p.s.under(a, o.open.name))
	}
	if o.open != nil && !declared[o.open.name] && !g.has[o.open.name] {
		m.declared = append(m.declared, member{name: o.open.name, set: o.open.set})
	}
	return true
}

// barred reports whether the propertyNames of a forbid name.
func (p *prefixed) barred(a alternative, name string) bool {
	return slices.ContainsFunc(a, func(n *schemaNode) bool { return n.props.keys != nil && !p.s.holds(name, n.props.keys) })
}

// front puts the given members in front of m, the whole ones together as one of which the
// value is null.
func (o *givenMembers) front(m *members) {
	g, count := o.g, o.g.whole()
	given := make(map[string]bool, count)
	for _, name := range g.names[:count] {
		given[name] = true
	}
	if o.open != nil {
		given[o.open.name] = true
	}
	var front []member
	if count > 0 {
		front = append(front, member{name: g.names[0], set: o.p.null, required: true})
		m.least = max(0, m.least-int64(count)+1)
		if m.most >= 0 {
			m.most -= int64(count) - 1
		}
	}
	if o.open != nil {
		open := *o.open
		open.required = true
		front = append(front, open)
	}
	rest := slices.DeleteFunc(m.declared, func(p member) bool { return given[p.name] })
	m.declared = append(front, rest...)
	m.required = 0
	for i := range m.declared {
		if m.declared[i].required {
			m.required++
		}
	}
}

// openNames works out which members the name in which the text ends may belong to. If
// ordinary is true, it is one that comes next anyway. Otherwise the object goes on with one
// of open, out of the order of the schema.
func (p *prefixed) openNames(a alternative, g *given) (ordinary bool, open []member) {
	s, m, name := p.s, p.s.members(a), g.name
	free := true // no property is required
	for i := range m.declared {
		d := &m.declared[i]
		if g.has[d.name] || !d.required && (d.barred || slices.Contains(d.set, any(false))) {
			continue
		}
		spelled, ok := name.respell(d.name)
		if ok && free && strings.HasPrefix(quoteJSON(d.name), name.text+name.tail) && !s.empty(d.set) {
			return true, nil
		}
		if ok && len(open) < openNamesTried && !s.empty(d.set) {
			open = append(open, member{name: d.name, set: d.set, spelled: spelled})
		}
		free = free && !d.required
	}
	if len(open) > 0 {
		return false, open
	}
	for _, n := range g.names {
		m.declared = append(m.declared, member{name: n})
	}
	for _, u := range s.undeclared(a, m) {
		d := u.names
		if d == nil {
			d = allDFA()
		}
		if text, spelled, ok := name.complete(d); ok {
			if free && !strings.HasPrefix(name.tail, `\`) {
				return true, nil
			}
			open = append(open, member{name: text, set: s.under(a, text), spelled: spelled})
		}
	}
	return false, open
}
