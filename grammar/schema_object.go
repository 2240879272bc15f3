package grammar

import "slices"

// members are the properties that objects of an alternative may have.
type members struct {
	declared    []member
	required    int // how many of declared are required
	undeclared  []undeclaredNames
	least, most int64  // numbers of properties; most -1: no bound
	leastPath   string // of the keyword that least is from
}

type member struct {
	name     string
	set      []any // the schemas that hold for the value
	required bool
	barred   bool // propertyNames does not allow the name
}

// undeclaredNames is a class of undeclared names and the schemas that hold for their
// values. If names is nil, the class is all names.
type undeclaredNames struct {
	names *dfa
	set   []any
}

// members works out the declared names, first those of properties in their order,
// then those that are only required.
func (s *schemas) members(a alternative) *members {
	m := &members{most: -1}
	seen := make(map[string]int)
	add := func(name string) *member {
		i, ok := seen[name]
		if !ok {
			i = len(m.declared)
			seen[name] = i
			m.declared = append(m.declared, member{name: name, set: s.under(a, name)})
			m.declared[i].barred = slices.ContainsFunc(a, func(n *schemaNode) bool { return n.props.keys != nil && !s.holds(name, n.props.keys) })
		}
		return &m.declared[i]
	}
	for _, n := range a {
		if n.props.least > m.least {
			m.least, m.leastPath = n.props.least, stepPath(n.path, "minProperties")
		}
		m.most = tighter(m.most, n.props.most)
		for _, name := range n.props.names {
			add(name)
		}
	}
	for _, n := range a {
		for _, name := range n.props.required {
			if p := add(name); !p.required {
				p.required = true
				m.required++
			}
		}
	}
	for _, n := range a {
		for _, name := range n.props.mentioned {
			add(name)
		}
	}
	return m
}

// under are the schemas that hold for the value of property name.
func (s *schemas) under(a alternative, name string) []any {
	var set []any
	s.b.spend(len(a) / 4)
	for _, n := range a {
		set = append(set, s.underNode(n, name)...)
	}
	return set
}

// underNode are the schemas that n alone has for the value of property name.
func (s *schemas) underNode(n *schemaNode, name string) []any {
	var set []any
	v, found := n.props.declared[name]
	if found {
		set = append(set, v)
	}
	if len(n.props.patterns) > 0 {
		s.b.spend(len(n.props.patterns) * (1 + len(name)/4))
		path := stepPath(n.path, "patternProperties")
		for _, p := range n.props.patterns {
			if s.search(p.pattern, path).match(name) {
				set, found = append(set, p.schema), true
			}
		}
	}
	if found || n.props.additional == nil || n.props.implied {
		return set
	}
	return append(set, n.props.additional)
}

// undeclared works out the classes of names that are not declared. Names that match
// the same patterns are subject to the same schemas.
func (s *schemas) undeclared(a alternative, m *members) []undeclaredNames {
	c := &nameClasses{s: s, a: a}
	c.collectPatterns()
	if len(c.patterns) == 0 {
		if _, ok := s.undeclaredUnder(a, nil); !ok {
			return nil
		}
	}
	c.split(c.names(m), 0, nil)
	return c.res
}

// nameClasses splits the undeclared names of objects by the patterns that they match.
type nameClasses struct {
	s        *schemas
	a        alternative
	patterns []string // of patternProperties
	paths    []string // of the patterns
	any      bool     // every name is undeclared and allowed
	res      []undeclaredNames
}

func (c *nameClasses) collectPatterns() {
	listed := make(map[string]bool)
	for _, n := range c.a {
		c.s.b.spend(len(n.props.patterns))
		for _, p := range n.props.patterns {
			if !listed[p.pattern] {
				listed[p.pattern] = true
				c.patterns, c.paths = append(c.patterns, p.pattern), append(c.paths, stepPath(n.path, "patternProperties"))
			}
		}
	}
}

// names is the language of the names that propertyNames allows and that are not
// declared.
func (c *nameClasses) names(m *members) *dfa {
	c.any = true
	names := allDFA()
	for _, n := range c.a {
		if n.props.keys != nil {
			names, c.any = c.s.combine(names, c.s.keyNames(n), false, stepPath(n.path, "propertyNames")), false
		}
	}
	if len(m.declared) == 0 {
		return names
	}
	list := make([]string, len(m.declared))
	for i, p := range m.declared {
		list[i] = p.name
	}
	words, ok := wordsDFA(list)
	if !ok {
		fail(ErrTooComplex, c.a[0].path, "too many properties")
	}
	c.any = false
	return c.s.combine(names, words, true, c.a[0].path)
}

// split splits names by the patterns from the k-th on. All of names match the patterns
// in matched, and none of the others before the k-th.
func (c *nameClasses) split(names *dfa, k int, matched []string) {
	if names.empty() {
		return
	}
	if k == len(c.patterns) {
		if set, ok := c.s.undeclaredUnder(c.a, matched); ok {
			if c.any && len(c.patterns) == 0 {
				names = nil
			}
			c.res = append(c.res, undeclaredNames{names, set})
		}
		return
	}
	d := c.s.search(c.patterns[k], c.paths[k])
	c.split(c.s.combine(names, d, false, c.paths[k]), k+1, append(slices.Clip(matched), c.patterns[k]))
	c.split(c.s.combine(names, d, true, c.paths[k]), k+1, matched)
}

// undeclaredUnder are the schemas that hold for an undeclared property whose name
// matches the given patterns. It reports false if there may be no such property.
func (s *schemas) undeclaredUnder(a alternative, matched []string) ([]any, bool) {
	var set []any
	for _, n := range a {
		found := false
		s.b.spend(len(n.props.patterns) * (1 + len(matched)/8))
		for _, p := range n.props.patterns {
			if slices.Contains(matched, p.pattern) {
				set, found = append(set, p.schema), true
			}
		}
		if !found && n.props.additional != nil {
			set = append(set, n.props.additional)
		}
	}
	return set, !slices.Contains(set, any(false))
}

// combine is the intersection of two languages or, with minus, their difference.
func (s *schemas) combine(a, b *dfa, minus bool, path string) *dfa {
	s.b.spend(4 * (len(a.states) + len(b.states)))
	d, ok := a.product(b, minus)
	if !ok {
		fail(ErrUnsupported, path, "names and patterns need too many states together")
	}
	return d
}

// object reads an object of a.
func (s *schemas) object(from int32, a alternative) int32 {
	b := s.b
	m := s.members(a)
	m.undeclared = s.undeclared(a, m) // before the names that may not appear are dropped: they are declared all the same
	bare := len(m.declared) == 0
	m.declared = slices.DeleteFunc(m.declared, func(p member) bool {
		return !p.required && (p.barred || slices.Contains(p.set, any(false)))
	})
	if slices.ContainsFunc(m.declared, func(p member) bool { return p.barred }) {
		return b.state()
	}
	some := s.someProperties(a, m)
	if bare && len(some) == 0 && len(m.undeclared) == 1 && m.undeclared[0].names == nil && s.key(m.undeclared[0].set) == "" && m.least == 0 && m.most < 0 {
		if r, ok := s.common(ruleObject, ruleTightObject); ok {
			return b.call(from, r)
		}
	}
	reach := int64(len(m.declared))
	if len(m.undeclared) > 0 {
		reach++ // more than one undeclared property might have the same name
	}
	if m.least > reach {
		if len(m.undeclared) == 0 {
			return b.state()
		}
		fail(ErrUnsupported, m.leastPath, "minProperties cannot be enforced: undeclared names may repeat, so only one of them counts")
	}
	if len(some) > 0 {
		return s.objectWith(from, m, some)
	}
	return s.body(from, m)
}

// countsToTell is how many numbers of properties have to be told apart: 0 to the
// result, which stands for itself and all larger ones. Without bounds it is 1, because
// the first property has no comma before it.
func countsToTell(m *members) int {
	counts := 1
	switch {
	case m.most >= 0:
		counts = int(min(int64(len(m.declared)), m.most))
	case m.least > 0:
		counts = int(min(int64(len(m.declared)), m.least))
	}
	return max(counts, 1)
}

// undeclaredRule is the rule for one undeclared property.
func (s *schemas) undeclaredRule(m *members) int32 {
	b := s.b
	r := b.rule()
	to := b.state()
	b.accept(to)
	open := b.lit(b.start(r), `"`)
	for _, o := range m.undeclared {
		var at int32
		if o.names == nil {
			at = b.call(open, ruleTail)
		} else {
			at = b.jsonString(open, o.names)
		}
		b.eps(s.ws(b.call(s.ws(b.lit(s.ws(at), ":")), s.value(o.set))), to)
	}
	return r
}
