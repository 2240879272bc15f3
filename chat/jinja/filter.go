package jinja

import (
	"slices"
	"sort"
	"strings"
)

// filterDef is a filter of the environment.
type filterDef struct {
	sig *signature
	// bound gets one value for each parameter of sig. If sig is nil, raw gets the
	// arguments as they were written.
	bound func(m *machine, v Value, a []Value) Value
	raw   func(m *machine, v Value, a args) Value
}

func (f *filterDef) call(m *machine, v Value, a args) Value {
	if f.raw != nil {
		return f.raw(m, v, a)
	}
	return f.bound(m, v, f.sig.bind(m, a))
}

// newFilter describes a filter by its Python function: the name, how many arguments come
// before those of the template (the value, and those that the environment passes), the
// parameters, and how many of them are required.
func newFilter(name string, lead int, params string, required int, f func(m *machine, v Value, a []Value) Value) *filterDef {
	return &filterDef{sig: &signature{name, lead, strings.Fields(params), required}, bound: f}
}

// The tables are filled by init, because filters such as map look into them.
var (
	filters map[string]*filterDef
	tests   map[string]*testDef
)

func init() {
	filters = map[string]*filterDef{}
	for _, group := range []map[string]*filterDef{sequenceFilters(), selectFilters(), textFilters(), numberFilters(), markupFilters()} {
		for name, f := range group {
			filters[name] = f
		}
	}
	for alias, name := range map[string]string{"d": "default", "e": "escape", "count": "length"} {
		filters[alias] = filters[name]
	}
	// These filters would make a prompt depend on chance, or they format pages rather than
	// prompts. They are in the table so that the compiler and "is filter" know them.
	for _, name := range []string{"random", "pprint", "urlize", "wordwrap"} {
		filters[name] = &filterDef{raw: func(*machine, Value, args) Value {
			throw("TemplateRuntimeError", "The filter '%s' is not supported in chat templates.", name)
			return nil
		}}
	}
	tests = allTests()
}

// orNone returns v, or None if the argument is missing.
func orNone(v Value) Value {
	if isMissing(v) {
		return nil
	}
	return v
}

// flag is an optional argument read as bool(x), absent meaning false.
func (m *machine) flag(v Value) bool { return !isMissing(v) && m.truthy(v) }

// getter looks up an attribute that is given as the argument attribute= of many filters:
// "a.b.0", an int, or None for the item itself.
type getter struct {
	path   []Value
	ignore bool  // lower-case text, to compare without regard to case
	absent Value // replaces undefined, if not nil
}

func newGetter(attribute Value, ignoreCase bool) getter {
	g := getter{ignore: ignoreCase}
	switch a := attribute.(type) {
	case nil:
	case string:
		g.path = attributePath(a)
	case Markup:
		g.path = attributePath(string(a))
	default:
		g.path = []Value{a}
	}
	return g
}

func attributePath(s string) []Value {
	parts := strings.Split(s, ".")
	path := make([]Value, len(parts))
	for i, p := range parts {
		path[i] = p
		if allRunes(p, isDigit) {
			if n, ok := parseInt(p, 10); ok {
				path[i] = n
			}
		}
	}
	return path
}

func (g *getter) get(m *machine, v Value) Value {
	m.spend(1)
	for _, p := range g.path {
		v = m.item(v, p)
		if g.absent != nil && isUndefined(v) {
			v = g.absent
		}
	}
	if g.ignore {
		v = m.lowered(v)
	}
	return v
}

func (m *machine) lowered(v Value) Value {
	if s, ok := asString(v); ok {
		m.mapping(len(s))
		return lower(s)
	}
	return v
}

// sorted sorts items by key and keeps equal ones in order. Descending order is made as in
// Python, by reversing the items before and after sorting.
func (m *machine) sorted(items []Value, reverse bool, key func(Value) Value, less func(a, b Value) bool) []Value {
	m.alloc(6 * valueSize * len(items))
	type keyed struct{ key, item Value }
	list := make([]keyed, len(items))
	for i, x := range items {
		list[i] = keyed{key(x), x}
	}
	if reverse {
		slices.Reverse(list)
	}
	sort.SliceStable(list, func(i, j int) bool {
		m.spend(1)
		return less(list[i].key, list[j].key)
	})
	out := make([]Value, len(items))
	for i := range list {
		out[i] = list[i].item
	}
	if reverse {
		slices.Reverse(out)
	}
	return out
}

func sequenceFilters() map[string]*filterDef {
	return map[string]*filterDef{
		"length": {raw: func(m *machine, v Value, a args) Value {
			if len(a.kw) > 0 {
				throwType("len() takes no keyword arguments")
			}
			if len(a.pos) > 0 {
				throwType("len() takes exactly one argument (%d given)", len(a.pos)+1)
			}
			n, ok := m.length(v)
			if !ok {
				throwType("object of type '%s' has no len()", typeName(v))
			}
			return int64(n)
		}},
		"list": newFilter("sync_do_list", 1, "", 0, func(m *machine, v Value, _ []Value) Value {
			return m.newList(slices.Clone(m.collect(v)))
		}),
		"first": newFilter("sync_do_first", 2, "", 0, func(m *machine, v Value, _ []Value) Value {
			it := m.mustIterate(v)
			if x, ok := it.next(m); ok {
				return x
			}
			return &undefined{hint: "No first item, sequence was empty."}
		}),
		"last":     newFilter("do_last", 2, "", 0, filterLast),
		"reverse":  newFilter("do_reverse", 1, "", 0, filterReverse),
		"items":    newFilter("do_items", 1, "", 0, filterItems),
		"dictsort": newFilter("do_dictsort", 1, "case_sensitive by reverse", 0, filterDictSort),
		"sort":     newFilter("do_sort", 2, "reverse case_sensitive attribute", 0, filterSort),
		"unique":   newFilter("sync_do_unique", 2, "case_sensitive attribute", 0, filterUnique),
		"groupby":  newFilter("sync_do_groupby", 2, "attribute default case_sensitive", 1, filterGroupBy),
		"min": newFilter("do_min", 2, "case_sensitive attribute", 0, func(m *machine, v Value, a []Value) Value {
			return m.extreme(v, a, func(x, best Value) bool { return m.less(x, best) })
		}),
		"max": newFilter("do_max", 2, "case_sensitive attribute", 0, func(m *machine, v Value, a []Value) Value {
			return m.extreme(v, a, func(x, best Value) bool { return m.compare(">", x, best) == 1 })
		}),
		"sum":   newFilter("sync_do_sum", 2, "attribute start", 0, filterSum),
		"batch": newFilter("do_batch", 1, "linecount fill_with", 1, filterBatch),
		"slice": newFilter("sync_do_slice", 1, "slices fill_with", 1, filterSlice),
	}
}

func filterLast(m *machine, v Value, _ []Value) Value {
	switch v := v.(type) {
	case *generator, *loopContext, *namespace, nil, bool, int64, float64:
		throwType("'%s' object is not reversible", typeName(v))
	case string, Markup: // without splitting the whole text into items
		s, _ := asString(v)
		if s == "" {
			break
		}
		c, _ := m.charAt(s, -1)
		return c
	default:
		if n, ok := m.length(v); ok && n > 0 {
			it := m.mustIterate(v)
			if it.items != nil {
				return it.items[n-1]
			}
			if it.seq != nil {
				return it.seq.at(n - 1)
			}
		} else if !ok {
			throwType("'%s' object is not reversible", typeName(v))
		}
	}
	return &undefined{hint: "No last item, sequence was empty."}
}

func filterReverse(m *machine, v Value, _ []Value) Value {
	switch v := v.(type) {
	case string:
		m.mapping(5 * len(v))
		runes := []rune(v)
		slices.Reverse(runes)
		return string(runes)
	case Markup:
		s, _ := filterReverse(m, string(v), nil).(string)
		return Markup(s)
	}
	if _, ok := m.iterate(v); !ok {
		throw("FilterArgumentError", "argument must be iterable")
	}
	items := slices.Clone(m.collect(v))
	m.alloc(valueSize * len(items))
	slices.Reverse(items)
	typ := ""
	switch v.(type) {
	case *List:
		typ = "list_reverseiterator"
	case *Dict:
		typ = "dict_reversekeyiterator"
	case *view:
		typ = "dict_reversekeyiterator"
	case *tuple:
		typ = "reversed"
	case *rangeValue:
		typ = "range_iterator"
	default:
		return m.newList(items) // no reversed() for it in Python
	}
	i := 0
	return &generator{typ: typ, name: "object ", next: func(*machine) (Value, bool) {
		if i == len(items) {
			return nil, false
		}
		i++
		return items[i-1], true
	}}
}

func filterItems(_ *machine, v Value, _ []Value) Value {
	return newGenerator("do_items", func(*machine) func() (Value, bool) {
		var all view
		switch v := v.(type) {
		case *undefined:
			all.d = &Dict{}
		case *Dict:
			all.d = v
		default:
			throwType("Can only get item pairs from a mapping.")
		}
		all.kind = viewItems
		i := 0
		return func() (Value, bool) {
			if i >= all.len() {
				return nil, false
			}
			i++
			return all.at(i - 1), true
		}
	})
}

func filterDictSort(m *machine, v Value, a []Value) Value {
	by := 0
	switch s, _ := asString(a[1]); {
	case isMissing(a[1]), s == "key":
	case s == "value":
		by = 1
	default:
		throw("FilterArgumentError", `You can only sort by either "key" or "value"`)
	}
	d, ok := v.(*Dict)
	if !ok {
		if u, ok := v.(*undefined); ok {
			u.raise()
		}
		throw("AttributeError", "'%s' object has no attribute 'items'", typeName(v))
	}
	items := make([]Value, len(d.keys))
	m.alloc(5 * valueSize * len(items))
	for i := range items {
		items[i] = pair(d.keys[i], d.vals[i])
	}
	ignoreCase := !m.flag(a[0])
	return m.newList(m.sorted(items, m.flag(a[2]), func(x Value) Value {
		v := x.(*tuple).items[by]
		if ignoreCase {
			v = m.lowered(v)
		}
		return v
	}, m.less))
}

// filterSort sorts by a list of attributes ("a,b"), so equal keys are never
// ordered by < and may be of any type.
func filterSort(m *machine, v Value, a []Value) Value {
	ignoreCase := !m.flag(a[1])
	attribute := orNone(a[2])
	var getters []getter
	if s, ok := asString(attribute); ok {
		for _, part := range strings.Split(s, ",") {
			getters = append(getters, newGetter(part, ignoreCase))
		}
	} else {
		getters = []getter{newGetter(attribute, ignoreCase)}
	}
	key := func(x Value) Value {
		keys := make([]Value, len(getters))
		for i := range getters {
			keys[i] = getters[i].get(m, x)
		}
		return &List{keys}
	}
	return m.newList(m.sorted(m.collect(v), m.flag(a[0]), key, m.less))
}

func filterUnique(_ *machine, v Value, a []Value) Value {
	caseSensitive, attribute := a[0], orNone(a[1])
	return newGenerator("sync_do_unique", func(m *machine) func() (Value, bool) {
		g := newGetter(attribute, !m.flag(caseSensitive))
		it := m.mustIterate(v)
		seen := map[any]bool{}
		return func() (Value, bool) {
			for {
				x, ok := it.next(m)
				if !ok {
					return nil, false
				}
				h := m.hash(g.get(m, x))
				if !seen[h] {
					m.alloc(4 * valueSize)
					seen[h] = true
					return x, true
				}
			}
		}
	})
}

func filterGroupBy(m *machine, v Value, a []Value) Value {
	g := newGetter(a[0], !m.flag(a[2]))
	g.absent = orNone(a[1])
	shown := g
	shown.ignore = false
	key := func(x Value) Value { return g.get(m, x) }
	items := m.sorted(m.collect(v), false, key, m.less)
	var groups []Value
	for i := 0; i < len(items); {
		k := key(items[i])
		j := i + 1
		for j < len(items) && m.same(k, key(items[j])) {
			j++
		}
		if g.ignore {
			k = shown.get(m, items[i])
		}
		groups = append(groups, &tuple{items: []Value{k, m.newList(items[i:j:j])}, group: true})
		i = j
	}
	return m.newList(groups)
}

// extreme is min and max: the first item such that none is less (or greater).
func (m *machine) extreme(v Value, a []Value, beats func(x, best Value) bool) Value {
	it := m.mustIterate(v)
	best, ok := it.next(m)
	if !ok {
		return &undefined{hint: "No aggregated item, sequence was empty."}
	}
	g := newGetter(orNone(a[1]), !m.flag(a[0]))
	key := g.get(m, best)
	for {
		x, ok := it.next(m)
		if !ok {
			return best
		}
		if k := g.get(m, x); beats(k, key) {
			best, key = x, k
		}
	}
}

func filterSum(m *machine, v Value, a []Value) Value {
	var total Value = int64(0)
	if !isMissing(a[1]) {
		total = a[1]
	}
	if _, ok := asString(total); ok {
		throwType("sum() can't sum strings [use ''.join(seq) instead]")
	}
	g := newGetter(orNone(a[0]), false)
	it := m.mustIterate(v)
	for {
		x, ok := it.next(m)
		if !ok {
			return total
		}
		total = m.add(total, g.get(m, x))
	}
}

func filterBatch(_ *machine, v Value, a []Value) Value {
	count, fill := a[0], orNone(a[1])
	return newGenerator("do_batch", func(m *machine) func() (Value, bool) {
		it := m.mustIterate(v)
		// Python compares len(tmp) == linecount, which is false for a value that is not a
		// number.
		n, isInt := exactInt(count)
		var ahead Value = missing
		return func() (Value, bool) {
			var row []Value
			if !isMissing(ahead) {
				row, ahead = append(row, ahead), missing
			}
			for {
				x, ok := it.next(m)
				if !ok {
					break
				}
				m.spend(1)
				m.alloc(valueSize)
				if isInt && int64(len(row)) == n {
					ahead = x
					return m.newList(row), true
				}
				row = append(row, x)
			}
			if len(row) == 0 {
				return nil, false
			}
			if fill != nil {
				if c := m.compare("<", int64(len(row)), count); c == -1 {
					missing := mustIndex(m.arithmetic(tokSub, count, int64(len(row))))
					row = append(row, m.repeatItems([]Value{fill}, missing)...)
				}
			}
			return m.newList(row), true
		}
	})
}

func filterSlice(_ *machine, v Value, a []Value) Value {
	slots, fill := a[0], orNone(a[1])
	return newGenerator("sync_do_slice", func(m *machine) func() (Value, bool) {
		items := m.collect(v)
		length := int64(len(items))
		per := m.arithmetic(tokFloorDiv, length, slots)
		n := mustIndex(slots)
		size := mustIndex(per)
		extra := length % n
		number, offset := int64(0), int64(0)
		return func() (Value, bool) {
			if number >= n {
				return nil, false
			}
			m.spend(1)
			start := offset + number*size
			if number < extra {
				offset++
			}
			row := slices.Clone(items[start : offset+(number+1)*size])
			if fill != nil && number >= extra {
				row = append(row, fill)
			}
			number++
			return m.newList(row), true
		}
	})
}
