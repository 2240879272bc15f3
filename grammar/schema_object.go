package grammar

import "slices"

// members are the properties that objects of an alternative may have.
type members struct {
	declared    []member
	required    int
	undeclared  []undeclaredNames // those that are not declared
	least, most int64
	leastPath   string
}

type member struct {
	name     string
	set      []any // schemas of the value
	required bool
	barred   bool // by propertyNames
}

// other is a class of undeclared names and the schemas of their values. A nil
// language is every name.
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
	return m
}

// under are the schemas that the value of property name is subject to.
func (s *schemas) under(a alternative, name string) []any {
	var set []any
	for _, n := range a {
		set = append(set, s.underNode(n, name)...)
	}
	return set
}

func (s *schemas) underNode(n *schemaNode, name string) []any {
	var set []any
	v, found := n.props.declared[name]
	if found {
		set = append(set, v)
	}
	s.b.spend(len(n.props.patterns) * (1 + len(name)/4))
	path := stepPath(n.path, "patternProperties")
	for _, p := range n.props.patterns {
		if s.search(p.pattern, path).match(name) {
			set, found = append(set, p.schema), true
		}
	}
	if found || n.props.additional == nil || n.props.implied {
		return set
	}
	return append(set, n.props.additional)
}

// undeclared works out the classes of names that are not declared: names that
// match the same patterns are subject to the same schemas.
func (s *schemas) undeclared(a alternative, m *members) []undeclaredNames {
	var patterns []string
	var paths []string
	listed := make(map[string]bool)
	for _, n := range a {
		s.b.spend(len(n.props.patterns))
		for _, p := range n.props.patterns {
			if !listed[p.pattern] {
				listed[p.pattern] = true
				patterns, paths = append(patterns, p.pattern), append(paths, stepPath(n.path, "patternProperties"))
			}
		}
	}
	if len(patterns) == 0 {
		if _, ok := s.undeclaredUnder(a, nil); !ok {
			return nil
		}
	}
	whole := true
	names := allDFA()
	for _, n := range a {
		if n.props.keys != nil {
			keys := s.keyNames(n)
			names, whole = s.combine(names, keys, false, stepPath(n.path, "propertyNames")), false
		}
	}
	if len(m.declared) > 0 {
		list := make([]string, len(m.declared))
		for i, p := range m.declared {
			list[i] = p.name
		}
		words, ok := wordsDFA(list)
		if !ok {
			fail(ErrTooComplex, a[0].path, "too many properties")
		}
		names, whole = s.combine(names, words, true, a[0].path), false
	}
	var res []undeclaredNames
	var split func(names *dfa, k int, matched []string)
	split = func(names *dfa, k int, matched []string) {
		if names.empty() {
			return
		}
		if k == len(patterns) {
			if set, ok := s.undeclaredUnder(a, matched); ok {
				if whole && len(patterns) == 0 {
					names = nil
				}
				res = append(res, undeclaredNames{names, set})
			}
			return
		}
		d := s.search(patterns[k], paths[k])
		split(s.combine(names, d, false, paths[k]), k+1, append(slices.Clip(matched), patterns[k]))
		split(s.combine(names, d, true, paths[k]), k+1, matched)
	}
	split(names, 0, nil)
	return res
}

// othersUnder are the schemas of a property that matches the given patterns and
// is declared nowhere; false if it may not be there.
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

func (s *schemas) combine(a, b *dfa, minus bool, path string) *dfa {
	s.b.spend(4 * (len(a.states) + len(b.states)))
	d, ok := a.product(b, minus)
	if !ok {
		fail(ErrUnsupported, path, "names and patterns need too many states together")
	}
	return d
}

func (s *schemas) object(from int32, a alternative) int32 {
	b := s.b
	m := s.members(a)
	m.undeclared = s.undeclared(a, m) // names that may not appear are declared all the same
	bare := len(m.declared) == 0
	m.declared = slices.DeleteFunc(m.declared, func(p member) bool {
		return !p.required && (p.barred || slices.Contains(p.set, any(false)))
	})
	if slices.ContainsFunc(m.declared, func(p member) bool { return p.barred }) {
		return b.state()
	}
	if bare && len(m.undeclared) == 1 && m.undeclared[0].names == nil && s.key(m.undeclared[0].set) == "" && m.least == 0 && m.most < 0 {
		if r, ok := s.common(ruleObject, ruleTightObject); ok {
			return b.call(from, r)
		}
	}
	reach := int64(len(m.declared))
	if len(m.undeclared) > 0 {
		reach++ // further ones might repeat a name
	}
	if m.least > reach {
		if len(m.undeclared) == 0 {
			return b.state()
		}
		fail(ErrUnsupported, m.leastPath, "minProperties cannot be enforced: undeclared names may repeat, so only one of them counts")
	}
	return s.body(from, m)
}

// body reads an object. While it does, cur[c] is where c declared properties have
// been read; without bounds, c stops at 1.
func (s *schemas) body(from int32, m *members) int32 {
	b := s.b
	top := 1
	if m.least <= int64(m.required) {
		m.least = 0
	}
	if m.most >= 0 || m.least > 0 {
		top = len(m.declared)
		if m.most >= 0 {
			top = int(min(int64(top), m.most))
		} else {
			top = int(min(int64(top), m.least))
		}
		top = max(top, 1)
	}
	capped := m.most >= 0
	cur := make([]int32, top+1)
	for i := range cur {
		cur[i] = -1
	}
	cur[0] = s.ws(b.lit(from, "{"))
	comma := func(at int32) int32 { return s.ws(b.lit(at, ",")) }
	for _, p := range m.declared {
		value := s.value(p.set)
		next := make([]int32, top+1)
		for i := range next {
			next[i] = -1
		}
		into := func(c int) int32 {
			if next[c] < 0 {
				next[c] = b.state()
			}
			return next[c]
		}
		entry := make([]int32, top+1) // where the member begins that leads to next[c]
		for c, at := range cur {
			if at < 0 {
				continue
			}
			if !p.required {
				b.eps(at, into(c))
			}
			if capped && int64(c) >= m.most {
				continue
			}
			to := min(c+1, top)
			if c > 0 {
				at = comma(at)
			}
			if entry[to] == 0 {
				entry[to] = b.state()
				read := s.ws(b.call(s.ws(b.lit(s.ws(b.lit(entry[to], quoteJSON(p.name))), ":")), value))
				b.eps(read, into(to))
			}
			b.eps(at, entry[to])
		}
		cur = next
	}
	var others int32
	if len(m.undeclared) > 0 {
		others = s.undeclaredRule(m)
	}
	end := b.state()
	for c, at := range cur {
		if at < 0 {
			continue
		}
		if int64(c) >= m.least {
			b.eps(at, end)
		}
		if len(m.undeclared) == 0 || capped && int64(c) >= m.most || int64(c)+1 < m.least {
			continue
		}
		if c > 0 {
			at = comma(at)
		}
		at = b.call(at, others)
		left := int32(-1)
		if capped {
			left = int32(m.most) - int32(c) - 1
		}
		at = b.repeat(at, 0, left, 24, func(at int32) int32 { return b.call(comma(at), others) })
		b.eps(at, end)
	}
	return b.lit(end, "}")
}

// others is the rule for one property that is not declared.
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
