package jinja

import (
	"math"
	"math/big"
	"strings"
)

// identical is "a is b" with its time counted, as two texts that are not the same text are
// compared.
func (m *machine) identical(a, b Value) bool {
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok && len(x) == len(y) {
			m.scan(len(x))
		}
	case Markup:
		if y, ok := b.(Markup); ok && len(x) == len(y) {
			m.scan(len(x))
		}
	case *big.Int:
		m.spend(int64(x.BitLen() >> 10))
	}
	return identical(a, b)
}

// numbers compares two numbers with their time counted.
func (m *machine) numbers(a, b Value) int {
	for _, v := range [2]Value{a, b} {
		if x, ok := v.(*big.Int); ok {
			m.spend(int64(x.BitLen() >> 9))
		}
	}
	return compareNumbers(a, b)
}

// identical is "a is b". Small immutable values are identical if they are equal, which is
// mostly so in CPython.
func identical(a, b Value) bool {
	switch x := a.(type) {
	case nil:
		return b == nil
	case float64: // two NaNs too: they mostly are the same object
		y, ok := b.(float64)
		return ok && (x == y || x != x && y != y)
	case bool, int64, string, Markup, *List, *Dict, *tuple, *rangeValue, *view, *generator, *namespace,
		*macro, *loopContext, *boundMethod, *builtin, *cycler, *joiner, *selfReference, *blockReference, *undefined:
		return a == b
	case *big.Int:
		y, ok := b.(*big.Int)
		return ok && x.Cmp(y) == 0
	}
	return false
}

// equal is a == b.
func (m *machine) equal(a, b Value) bool { return m.equalAt(a, b, 0) }

func (m *machine) equalAt(a, b Value, depth int) bool {
	if x, ok := a.(string); ok {
		if y, ok := b.(string); ok {
			return m.equalText(x, y)
		}
	}
	if x, ok := asString(a); ok {
		y, ok := asString(b)
		return ok && m.equalText(x, y)
	}
	if isNumber(a) {
		return isNumber(b) && m.numbers(a, b) == 0
	}
	if depth > maxNesting {
		throwRecursion()
	}
	switch x := a.(type) {
	case *List:
		y, ok := b.(*List)
		return ok && m.equalItems(x.items, y.items, depth)
	case *tuple:
		y, ok := b.(*tuple)
		return ok && m.equalItems(x.items, y.items, depth)
	case *Dict:
		y, ok := b.(*Dict)
		return ok && m.equalDicts(x, y, depth)
	case *undefined:
		return isUndefined(b)
	case *rangeValue:
		y, ok := b.(*rangeValue)
		return ok && equalRanges(x, y)
	case *view:
		y, ok := b.(*view)
		return ok && m.equalViews(x, y, depth)
	case *boundMethod:
		y, ok := b.(*boundMethod)
		return ok && m.equalText(x.name, y.name) && m.identical(x.self, y.self)
	}
	return m.identical(a, b)
}

func (m *machine) equalText(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	m.scan(len(a))
	return a == b
}

func (m *machine) equalItems(a, b []Value, depth int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		m.spend(1)
		if !m.identical(a[i], b[i]) && !m.equalAt(a[i], b[i], depth+1) {
			return false
		}
	}
	return true
}

func (m *machine) equalDicts(a, b *Dict, depth int) bool {
	if len(a.keys) != len(b.keys) {
		return false
	}
	for i, k := range a.keys {
		m.spend(1)
		j := b.find(m, k)
		if j < 0 || !m.identical(a.vals[i], b.vals[j]) && !m.equalAt(a.vals[i], b.vals[j], depth+1) {
			return false
		}
	}
	return true
}

func equalRanges(a, b *rangeValue) bool {
	n := a.len()
	return n == b.len() && (n == 0 || a.start == b.start && (n == 1 || a.step == b.step))
}

// equalViews compares keys() and items() as sets, and values() by identity.
func (m *machine) equalViews(a, b *view, depth int) bool {
	switch {
	case a == b:
		return true
	case a.kind == viewItems && b.kind == viewItems:
		return m.equalDicts(a.d, b.d, depth)
	case a.kind == viewKeys && b.kind == viewKeys && len(a.d.keys) == len(b.d.keys):
		for _, k := range a.d.keys {
			m.spend(1)
			if b.d.find(m, k) < 0 {
				return false
			}
		}
		return true
	}
	return false
}

// unordered is the result of comparing with NaN, for which <, <=, > and >= are false.
const unordered = 2

// compare returns -1, 0, 1 or unordered. op is the text of the operator, for the error if a
// and b cannot be compared.
func (m *machine) compare(op string, a, b Value) int { return m.compareAt(op, a, b, 0) }

func (m *machine) compareAt(op string, a, b Value, depth int) int {
	if isNumber(a) && isNumber(b) {
		return m.numbers(a, b)
	}
	if x, ok := asString(a); ok {
		if y, ok := asString(b); ok {
			m.scan(min(len(x), len(y)))
			return strings.Compare(x, y)
		}
	}
	if depth > maxNesting {
		throwRecursion()
	}
	switch x := a.(type) {
	case *List:
		if y, ok := b.(*List); ok {
			return m.compareItems(op, x.items, y.items, depth)
		}
	case *tuple:
		if y, ok := b.(*tuple); ok {
			return m.compareItems(op, x.items, y.items, depth)
		}
	case *undefined:
		x.raise()
	}
	if u, ok := b.(*undefined); ok {
		u.raise()
	}
	throwType("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return 0
}

func (m *machine) compareItems(op string, a, b []Value, depth int) int {
	for i := 0; i < len(a) && i < len(b); i++ {
		m.spend(1)
		if !m.identical(a[i], b[i]) && !m.equalAt(a[i], b[i], depth+1) {
			return m.compareAt(op, a[i], b[i], depth+1)
		}
	}
	switch {
	case len(a) < len(b):
		return -1
	case len(a) > len(b):
		return 1
	}
	return 0
}

func (m *machine) less(a, b Value) bool { return m.compare("<", a, b) == -1 }

// relation applies a comparison operator.
func (m *machine) relation(op tokenKind, a, b Value) bool {
	switch op {
	case tokEq:
		return m.equal(a, b)
	case tokNe:
		return !m.equal(a, b)
	}
	c := m.compare(tokenText[op], a, b)
	switch op {
	case tokLt:
		return c == -1
	case tokLe:
		return c == -1 || c == 0
	case tokGt:
		return c == 1
	}
	return c == 1 || c == 0
}

// contains is "x in c".
func (m *machine) contains(c, x Value) bool {
	switch c := c.(type) {
	case string, Markup:
		text, _ := asString(c)
		s, ok := asString(x)
		if !ok {
			throwType("'in <string>' requires string as left operand, not %s", typeName(x))
		}
		m.scan(2 * len(text))
		return strings.Contains(text, s)
	case *Dict:
		return c.find(m, x) >= 0
	case *view:
		switch c.kind {
		case viewKeys:
			return c.d.find(m, x) >= 0
		case viewItems:
			t, ok := x.(*tuple)
			if !ok || len(t.items) != 2 {
				return false
			}
			i := c.d.find(m, t.items[0])
			return i >= 0 && m.equal(c.d.vals[i], t.items[1])
		}
	case *rangeValue:
		if i, ok := exactInt(x); ok {
			n := i - c.start
			return n%c.step == 0 && n/c.step >= 0 && n/c.step < int64(c.len())
		}
	case *undefined:
		return false
	}
	it, ok := m.iterate(c)
	if !ok {
		throwType("argument of type '%s' is not iterable", typeName(c))
	}
	for {
		e, ok := it.next(m)
		if !ok {
			return false
		}
		m.spend(1)
		if m.same(e, x) {
			return true
		}
	}
}

// exactInt returns the value of an int that fits int64, or of a float that is a whole
// number.
func exactInt(v Value) (int64, bool) {
	switch v := v.(type) {
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<62 {
			return int64(v), true
		}
		return 0, false
	case *big.Int:
		return 0, false
	}
	return asIndex(v)
}
