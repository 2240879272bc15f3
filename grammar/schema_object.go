package grammar

import (
	"cmp"
	"slices"
)

// members are the properties that objects of an alternative may have.
type members struct {
	declared    []member
	required    int // how many of declared are required
	undeclared  []undeclaredNames
	least, most int64  // numbers of properties; most -1: no bound
	leastPath   string // of the keyword that least is from
	differ      int64  // 0: undeclared names may repeat; otherwise they are compared, and there are at most so many
}

type member struct {
	name     string
	set      []any // the schemas that hold for the value
	required bool
	barred   bool        // propertyNames does not allow the name
	distinct *valueTexts // the value has to differ from earlier ones; nil: it does not
	spelled  string      // how the name is written, if that is not quoteJSON's spelling
}

// undeclaredNames is a class of undeclared names and the schemas that hold for their
// values. If names is nil, the class is all names.
type undeclaredNames struct {
	names *dfa
	set   []any
	texts *valueTexts // see nameTexts
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
	s.b.spend(1 + len(a)/4)
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
	for _, i := range s.matching(n, name) {
		set, found = append(set, n.props.patterns[i].schema), true
	}
	if found || n.props.additional == nil || n.props.implied {
		return set
	}
	return append(set, n.props.additional)
}

// matching are the entries of patternProperties of n that name matches.
func (s *schemas) matching(n *schemaNode, name string) []int32 {
	r := &n.props
	if len(r.patterns) == 0 {
		return nil
	}
	if r.set == nil {
		path := stepPath(n.path, "patternProperties")
		searches := make([]*dfa, len(r.patterns))
		for i, p := range r.patterns {
			searches[i] = s.search(p.pattern, path)
		}
		r.set = s.newPatternSet(allDFA(), searches, path)
	}
	return r.set.match(name)
}

// undeclared works out the classes of names that are not declared. Names that match
// the same patterns are subject to the same schemas.
func (s *schemas) undeclared(a alternative, m *members) []undeclaredNames {
	c := &nameClasses{s: s, a: a}
	c.collectPatterns()
	if len(c.patterns) == 0 {
		if _, ok := c.under(nil); !ok {
			return nil
		}
	}
	c.split(c.names(m))
	return c.res
}

// nameClasses splits the undeclared names of objects by the patterns that they match.
type nameClasses struct {
	s        *schemas
	a        alternative
	patterns []string // of patternProperties
	rules    [][]patternOf
	number   map[string]int32 // of a pattern
	any      bool             // every name is undeclared and allowed
	res      []undeclaredNames
}

// patternOf is an entry of patternProperties in a schema, of a's nodes the one with that index.
type patternOf struct {
	node, entry int
	schema      any
}

func (c *nameClasses) collectPatterns() {
	c.number = make(map[string]int32)
	for i, n := range c.a {
		c.s.b.spend(len(n.props.patterns))
		for k, p := range n.props.patterns {
			at, ok := c.number[p.pattern]
			if !ok {
				at = int32(len(c.patterns))
				c.number[p.pattern] = at
				c.patterns, c.rules = append(c.patterns, p.pattern), append(c.rules, nil)
			}
			c.rules[at] = append(c.rules[at], patternOf{i, k, p.schema})
		}
	}
}

// path is that of the patternProperties that pattern i is from.
func (c *nameClasses) path(i int) string {
	return stepPath(c.a[c.rules[i][0].node].path, "patternProperties")
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
	words, ok := wordsDFA(list, c.s.b.meter)
	if !ok {
		fail(ErrTooComplex, c.a[0].path, "too many properties")
	}
	c.any = false
	return c.s.combine(names, words, true, c.a[0].path)
}

// split splits names by the patterns.
func (c *nameClasses) split(names *dfa) {
	if len(c.patterns) == 0 {
		if set, ok := c.under(nil); ok && !names.empty() {
			if c.any {
				names = nil
			}
			c.res = append(c.res, undeclaredNames{names: names, set: set})
		}
		return
	}
	searches := make([]*dfa, len(c.patterns))
	for i, p := range c.patterns {
		searches[i] = c.s.search(p, c.path(i))
	}
	sets, languages := c.s.newPatternSet(names, searches, c.path(0)).classes()
	for i, matched := range sets {
		if set, ok := c.under(matched); ok {
			c.res = append(c.res, undeclaredNames{names: languages[i], set: set})
		}
	}
}

// under are the schemas that hold for an undeclared property whose name matches the given
// patterns. It reports false if there may be no such property.
func (c *nameClasses) under(matched []int32) ([]any, bool) {
	var rules []patternOf
	for _, i := range matched {
		rules = append(rules, c.rules[i]...)
	}
	slices.SortFunc(rules, func(a, b patternOf) int { return cmp.Or(a.node-b.node, a.entry-b.entry) })
	c.s.b.spend(len(rules) + len(c.a))
	var set []any
	for i, n := range c.a {
		found := false
		for ; len(rules) > 0 && rules[0].node == i; rules = rules[1:] {
			set, found = append(set, rules[0].schema), true
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
func (s *schemas) object(from int32, a alternative) int32 { return s.objectWith(from, a, nil, nil) }

// objectWith reads an object of a that begins with before, and whose declared properties are
// changed. Both may be nil.
func (s *schemas) objectWith(from int32, a alternative, before *givenMembers, change func(*member)) int32 {
	b := s.b
	m := s.members(a)
	if before != nil && !before.add(a, m) {
		return b.state()
	}
	m.undeclared = s.undeclared(a, m) // before the names that may not appear are dropped: they are declared all the same
	bare := len(m.declared) == 0
	if before != nil {
		before.front(m)
	}
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
	for i := range m.declared {
		if change != nil {
			change(&m.declared[i])
		}
	}
	if !s.enough(m) {
		return b.state()
	}
	if before != nil && m.differ > 0 {
		fail(ErrUnsupported, m.leastPath, "minProperties cannot be enforced: an object with names that are compared can be continued only in the spelling in which it would be generated")
	}
	if len(some) > 0 {
		if s.spell.bare != "" {
			fail(ErrUnsupported, a[0].path, "a property that violates a schema cannot be demanded in this style")
		}
		if m.differ > 0 {
			fail(ErrUnsupported, m.leastPath, "minProperties cannot be enforced beside a demand for a property that violates a schema")
		}
		return s.demanding(from, m, some)
	}
	return s.body(from, m)
}

// enough reports whether objects can have as many properties as they have to. Undeclared
// properties may have the same name, so only one of them counts, unless there have to be
// more: then their names are compared.
func (s *schemas) enough(m *members) bool {
	missing := m.least - int64(len(m.declared))
	if len(m.undeclared) == 0 || missing <= 1 {
		return missing <= 0 || len(m.undeclared) > 0
	}
	most, all := int64(0), int64(0)
	for i := range m.undeclared {
		n := s.nameTexts(&m.undeclared[i], m.leastPath).total()
		most, all = max(most, n), all+n
	}
	if missing > most && missing <= all {
		fail(ErrUnsupported, m.leastPath, "minProperties cannot be enforced: there are too few undeclared names of one kind")
	}
	if missing > maxDistinct && missing <= most {
		fail(ErrTooComplex, m.leastPath, "minProperties compares up to %d names", maxDistinct)
	}
	m.differ = min(most, maxDistinct)
	return missing <= most
}

// nameTexts are the texts of the names of o, with their quotes.
func (s *schemas) nameTexts(o *undeclaredNames, path string) *valueTexts {
	if o.texts == nil {
		d := o.names
		if d == nil {
			d = allDFA()
		}
		c := s.newTextCollector()
		c.quoted(d)
		o.texts = c.texts(path)
	}
	return o.texts
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
		b.eps(s.ws(b.call(s.sep(b.lit(s.ws(at), ":")), s.value(o.set))), to)
	}
	return r
}

// differingRule is the rule for one or more undeclared properties with different names. Its
// calls say how many there are beside the first one.
func (s *schemas) differingRule(m *members) int32 {
	b := s.b
	r := b.rule()
	after := b.state()
	property := func(at int32) {
		for i := range m.undeclared {
			o := &m.undeclared[i]
			name := b.distinctValue(at, s.nameTexts(o, m.leastPath))
			b.eps(s.ws(b.call(s.sep(b.lit(s.ws(name), ":")), s.value(o.set))), after)
		}
	}
	property(b.start(r))
	more, end := b.state(), b.state()
	b.step(after, step{kind: stepTick, to: more})
	b.step(after, step{kind: stepGuard, to: end})
	property(s.sep(b.lit(more, ",")))
	b.accept(end)
	return r
}
