package grammar

import (
	"encoding/binary"
	"slices"
)

// choice is an anyOf or oneOf that has not been decided.
type choice struct {
	of   *schemaNode
	one  bool // oneOf
	from []any
}

// expand returns the alternatives of a set of schemas: it follows references and allOf
// and multiplies out the choices. What contradicts itself is left out as soon as that is
// seen, so that twenty conditions on the same property give twenty-one alternatives and not
// a million.
//
// If exact is true, oneOf is a choice of exactly one. Otherwise it is treated as anyOf,
// which is good enough to prove that no value satisfies a set.
func (s *schemas) expand(set []any, exact bool) []alternative {
	var res []alternative
	s.alternatives(set, exact, func(a alternative) bool {
		if res = append(res, a); len(res) > maxAlternatives {
			fail(ErrTooComplex, a[0].path, "more than %d combinations of anyOf, oneOf, not, if and dependencies", maxAlternatives)
		}
		return true
	})
	return res
}

// alternatives calls f for each alternative of set, until it returns false.
func (s *schemas) alternatives(set []any, exact bool, f func(a alternative) bool) {
	e := &expansion{s: s, exact: exact, found: f}
	e.grow(nil, set, nil)
}

type expansion struct {
	s     *schemas
	exact bool
	found func(a alternative) bool
	ended bool
	// derived is set when a choice was made by a negation or a condition. Their schemas
	// often contradict the others, and several ways may lead to the same alternative.
	derived bool
	seen    map[string]bool // keys of the alternatives so far, if derived
}

// grow finds the alternatives of the schemas in have and set, where the choices in open
// have not been decided.
func (e *expansion) grow(have alternative, set []any, open []choice) {
	before := len(have)
	e.s.b.spend(len(have) / 4)
	have, open, ok := e.close(have, set, open)
	if !ok || have.said() == 0 || len(open) == 0 && have.kinds() == 0 {
		return
	}
	if len(open) > 0 && slices.ContainsFunc(have, func(n *schemaNode) bool { return n.enum != nil }) {
		e.constants(have)
		return
	}
	if len(open) > 0 {
		if n := e.onlyTexts(have, open); n != nil {
			have, open = append(have, n), nil
		}
	}
	if before > 0 && (len(open) > 0 || e.derived) && e.s.contradiction(have, before, len(open) > 0) {
		return
	}
	if len(open) == 0 {
		e.add(have)
		return
	}
	c := open[0]
	open = open[1:]
	if !c.one && slices.ContainsFunc(c.from, func(v any) bool {
		e.s.b.spend(1)
		n := e.s.d.node(v)
		return n == e.s.d.trueSchema || slices.Contains(have, n)
	}) {
		e.grow(have, nil, open) // one of its schemas holds anyway
		return
	}
	if c.of.derived() {
		e.derived = true
	}
	if c.one && e.exact {
		branches, narrowed := e.s.exclusive(have, c)
		e.derived = e.derived || narrowed
		for _, v := range branches {
			e.branch(have, v, open)
		}
		return
	}
	for _, v := range c.from {
		e.branch(have, []any{v}, open)
	}
}

func (e *expansion) branch(have alternative, set []any, open []choice) {
	if !e.ended {
		e.grow(have, set, open)
	}
}

// close returns have with the schemas of set and all that hold with them, and open with
// their choices. It reports false if no value satisfies them.
func (e *expansion) close(have alternative, set []any, open []choice) (alternative, []choice, bool) {
	have = append(make(alternative, 0, len(have)+2*len(set)+2), have...)
	set, open = slices.Clip(set), slices.Clip(open) // the first append copies them
	var index map[*schemaNode]bool                  // of have, if set is large
	in := func(n *schemaNode) bool { return index[n] || index == nil && slices.Contains(have, n) }
	for i := 0; i < len(set); i++ {
		if e.s.b.spend(1); index == nil {
			e.s.b.spend(len(have) / 16)
			index = indexOf(have, len(set)-i)
		}
		n := e.s.d.node(set[i])
		if n.never {
			return nil, nil, false
		}
		if n == e.s.d.trueSchema || in(n) {
			continue
		}
		if opposite := e.s.d.opposite(n); opposite != nil && in(opposite) {
			return nil, nil, false
		}
		have = append(have, n)
		if index != nil {
			index[n] = true
		}
		set = append(set, n.also...)
		if n.anyOf != nil {
			open = append(open, choice{n, false, n.anyOf})
		}
		if n.oneOf != nil {
			open = append(open, choice{n, true, n.oneOf})
		}
	}
	return have, open, true
}

// indexOf returns the schemas of have for look-ups, or nil if there are so few that it
// would not pay.
func indexOf(have alternative, more int) map[*schemaNode]bool {
	if more <= 64 && len(have) <= 64 {
		return nil
	}
	index := make(map[*schemaNode]bool, len(have)+more)
	for _, n := range have {
		index[n] = true
	}
	return index
}

// add hands on an alternative, unless it was there before.
func (e *expansion) add(a alternative) {
	if e.derived {
		e.s.b.spend(len(a))
		key := a.key()
		if e.seen[key] {
			return
		}
		if e.seen == nil {
			e.seen = make(map[string]bool)
		}
		e.seen[key] = true
	}
	e.ended = !e.found(a)
}

// key is the same for alternatives of the same schemas.
func (a alternative) key() string {
	ids := make([]int32, len(a))
	for i, n := range a {
		ids[i] = n.id
	}
	return keyOf(ids)
}

// keyOf is the same for equal sets of numbers. It sorts ids.
func keyOf(ids []int32) string {
	slices.Sort(ids)
	var key []byte
	for _, id := range slices.Compact(ids) {
		key = binary.LittleEndian.AppendUint32(key, uint32(id))
	}
	return string(key)
}

// constants decides everything about have, one of whose schemas lists the values, by
// looking which of these values satisfy all of it. Choices that are open are decided for
// each value, and not by cases.
func (e *expansion) constants(have alternative) {
	var list *schemaNode
	for _, n := range have {
		if n.enum != nil && (list == nil || len(n.enum) < len(list.enum)) {
			list = n
		}
	}
	values := []any{}
	for _, v := range list.enum {
		if !slices.ContainsFunc(have, func(n *schemaNode) bool { return !e.s.holdsHere(v, n, 0) }) {
			values = append(values, v)
		}
	}
	if len(values) > 0 {
		only := e.s.d.derive(list.path, func(n *schemaNode) { n.enum = values })
		e.add(alternative{e.s.d.node(only)})
	}
}

// contradiction reports whether certainly no value satisfies a, whose schemas before the
// k-th were looked at before. It is like emptyAlternative, but compares only what the later
// schemas speak of. With open, there are choices that have not been decided.
func (s *schemas) contradiction(a alternative, k int, open bool) bool {
	if s.finite(a) {
		return s.emptyAlternative(a)
	}
	s.b.spend(len(a))
	kinds := a.kinds()
	if open { // what is decided later may say that a type is another one than was implied
		kinds = a.said()
	}
	return kinds&kindNull == 0 &&
		(kinds&kindBool == 0 || len(a.bools()) == 0) &&
		(kinds&kindNumber == 0 || a.numbers().empty()) &&
		(kinds&kindString == 0 || s.emptyStrings(a)) &&
		(kinds&kindArray == 0 || s.emptyArrays(a)) &&
		(kinds&kindObject == 0 || s.contradictoryObjects(a, k))
}

// finite reports whether a schema of a lists the values.
func (s *schemas) finite(a alternative) bool {
	return slices.ContainsFunc(a, func(n *schemaNode) bool { return n.enum != nil })
}

// contradictoryObjects is contradiction for objects.
func (s *schemas) contradictoryObjects(a alternative, k int) bool {
	least, most := int64(0), int64(-1)
	var required []string
	listed := make(map[string]bool)
	general := false // the later schemas speak of properties that they do not name
	for i, n := range a {
		r := &n.props
		least, most = max(least, r.least), tighter(most, r.most)
		general = general || i >= k && (len(r.patterns) > 0 || r.additional != nil && !r.implied || r.keys != nil)
		s.b.spend(len(r.required))
		for _, name := range r.required {
			if !listed[name] {
				listed[name] = true
				required = append(required, name)
			}
		}
	}
	if most >= 0 && (least > most || int64(len(required)) > most) {
		return true
	}
	for _, name := range required {
		concerned := general
		for _, n := range a[k:] {
			if _, ok := n.props.declared[name]; ok || slices.Contains(n.props.required, name) {
				concerned = true
				break
			}
		}
		s.b.spend(len(a))
		if concerned && (s.barred(a, name) || s.empty(s.under(a, name))) {
			return true
		}
	}
	return s.noWitness(a)
}

// barred reports whether the propertyNames of a do not allow name.
func (s *schemas) barred(a alternative, name string) bool {
	return slices.ContainsFunc(a, func(n *schemaNode) bool { return n.props.keys != nil && !s.holds(name, n.props.keys) })
}
