package jinja

import (
	"math/big"
	"strconv"
	"strings"
)

func (e *constExpr) eval(*machine) Value { return e.value }

func (e *nameExpr) eval(m *machine) Value {
	v := m.act.at(e.hops).slots[e.slot]
	if isMissing(v) {
		return e.unknown
	}
	return v
}

func (e *nameExpr) assign(m *machine, v Value) {
	m.act.at(e.hops).slots[e.slot] = v
	if e.export {
		m.scan(2 * len(e.name))
		m.exported[e.name] = v
	}
}

func (t *nsTarget) assign(m *machine, v Value) {
	ns, ok := t.name.eval(m).(*namespace)
	if !ok {
		// Jinja2 3.1.6 lacks this check for {% set ns.x %}...{% endset %}, so a template can
		// write into the caller's dicts there.
		throw("TemplateRuntimeError", "cannot assign attribute on non-namespace object")
	}
	checkPrivate(t.attr)
	m.alloc(4 * valueSize)
	ns.attrs.setText(m, t.attr, v)
}

func (t *tupleTarget) assign(m *machine, v Value) {
	it, ok := m.iterate(v)
	if !ok {
		throwType("cannot unpack non-iterable %s object", typeName(v))
	}
	n := len(t.items)
	m.spend(int64(n) / 4)
	var values []Value
	if it.items != nil {
		values = it.items
	} else {
		values = make([]Value, 0, n)
		for len(values) <= n {
			x, ok := it.next(m)
			if !ok {
				break
			}
			values = append(values, x)
		}
	}
	switch {
	case len(values) > n:
		throwValue("too many values to unpack (expected %d)", n)
	case len(values) < n:
		throwValue("not enough values to unpack (expected %d, got %d)", n, len(values))
	}
	for i, x := range t.items {
		x.assign(m, values[i])
	}
}

func evalAll(m *machine, items []expr) []Value {
	out := make([]Value, len(items))
	for i, e := range items {
		out[i] = e.eval(m)
	}
	return out
}

func (e *tupleExpr) eval(m *machine) Value { return m.newTuple(evalAll(m, e.items)) }

func (e *listExpr) eval(m *machine) Value { return m.newList(evalAll(m, e.items)) }

func (e *dictExpr) eval(m *machine) Value {
	m.alloc(4 * valueSize * (len(e.keys) + 1))
	d := NewDict(len(e.keys))
	for i := range e.keys {
		k := e.keys[i].eval(m)
		d.set(m, k, e.values[i].eval(m))
	}
	return d
}

func (e *condExpr) eval(m *machine) Value {
	if m.truthy(e.test.eval(m)) {
		return e.then.eval(m)
	}
	if e.otherwise == nil {
		return &undefined{hint: "the inline if-expression on line " + strconv.Itoa(e.line) +
			" evaluated to false and no else section was defined."}
	}
	return e.otherwise.eval(m)
}

func (e *andExpr) eval(m *machine) Value {
	if v := e.left.eval(m); !m.truthy(v) {
		return v
	}
	return e.right.eval(m)
}

func (e *orExpr) eval(m *machine) Value {
	if v := e.left.eval(m); m.truthy(v) {
		return v
	}
	return e.right.eval(m)
}

func (e *notExpr) eval(m *machine) Value { return !m.truthy(e.operand.eval(m)) }

func (e *signExpr) eval(m *machine) Value {
	v := e.operand.eval(m)
	if e.negative {
		return m.negate(v)
	}
	return m.positive(v)
}

func (e *concatExpr) eval(m *machine) Value {
	start := len(m.out)
	for _, p := range e.parts {
		v := p.eval(m)
		m.write(m.str(v))
	}
	return m.take(start)
}

func (e *compareExpr) eval(m *machine) Value {
	a := e.first.eval(m)
	for i := range e.rest {
		c := &e.rest[i]
		b := c.operand.eval(m)
		var ok bool
		if c.op == tokEOF {
			ok = m.contains(b, a) != c.negated
		} else {
			ok = m.relation(c.op, a, b)
		}
		if !ok {
			return false
		}
		a = b
	}
	return true
}

func (e *binaryExpr) eval(m *machine) Value {
	a := e.left.eval(m)
	b := e.right.eval(m)
	switch e.op {
	case tokAdd:
		return m.add(a, b)
	case tokMul:
		if v, ok := m.repeat(a, b); ok {
			return v
		}
	case tokMod:
		switch a := a.(type) {
		case string:
			return m.formatPercent(a, b, false)
		case Markup:
			return Markup(m.formatPercent(string(a), b, true))
		}
	}
	return m.arithmetic(e.op, a, b)
}

// add is a + b.
func (m *machine) add(a, b Value) Value {
	switch x := a.(type) {
	case string:
		switch y := b.(type) {
		case string:
			m.alloc(len(x) + len(y))
			return x + y
		case Markup:
			return m.addMarkup(Markup(m.escape(x)), y)
		case *undefined:
			y.raise()
		}
		throwType("can only concatenate str (not \"%s\") to str", typeName(b))
	case Markup:
		switch y := b.(type) {
		case string:
			return m.addMarkup(x, Markup(m.escape(y)))
		case Markup:
			return m.addMarkup(x, y)
		}
	case *List:
		switch y := b.(type) {
		case *List:
			return m.newList(m.joinItems(x.items, y.items))
		case *undefined:
			y.raise()
		}
		throwType("can only concatenate list (not \"%s\") to list", typeName(b))
	case *tuple:
		switch y := b.(type) {
		case *tuple:
			return m.newTuple(m.joinItems(x.items, y.items))
		case *undefined:
			y.raise()
		}
		throwType("can only concatenate tuple (not \"%s\") to tuple", typeName(b))
	}
	return m.arithmetic(tokAdd, a, b)
}

func (m *machine) addMarkup(x, y Markup) Value {
	m.alloc(len(x) + len(y))
	return x + y
}

func (m *machine) joinItems(a, b []Value) []Value {
	m.spend(int64(len(a)+len(b)) / 8)
	out := make([]Value, 0, len(a)+len(b))
	return append(append(out, a...), b...)
}

// repeat is a * b where one of them is a sequence and the other an int.
func (m *machine) repeat(a, b Value) (Value, bool) {
	seq, times := a, b
	if !isSequence(a) {
		seq, times = b, a
	}
	if !isSequence(seq) || isUndefined(times) {
		return nil, false
	}
	n, ok := asIndex(times)
	if !ok {
		if _, ok := seq.(Markup); ok {
			throwType("'%s' object cannot be interpreted as an integer", typeName(times))
		}
		throwType("can't multiply sequence by non-int of type '%s'", typeName(times))
	}
	if _, big := times.(*big.Int); big {
		throw("OverflowError", "cannot fit 'int' into an index-sized integer")
	}
	n = max(n, 0)
	switch s := seq.(type) {
	case string:
		return m.repeatText(s, n), true
	case Markup:
		return Markup(m.repeatText(string(s), n)), true
	case *List:
		return m.newList(m.repeatItems(s.items, n)), true
	case *tuple:
		return m.newTuple(m.repeatItems(s.items, n)), true
	}
	return nil, false
}

func isSequence(v Value) bool {
	switch v.(type) {
	case string, Markup, *List, *tuple:
		return true
	}
	return false
}

func (m *machine) repeatText(s string, n int64) string {
	m.allocTimes(n, len(s))
	if s == "" {
		return ""
	}
	return strings.Repeat(s, int(n))
}

func (m *machine) repeatItems(items []Value, n int64) []Value {
	if len(items) == 0 {
		return nil
	}
	m.allocTimes(n, valueSize*len(items))
	out := make([]Value, 0, int(n)*len(items))
	for ; n > 0; n-- {
		out = append(out, items...)
	}
	return out
}

func (e *attributeExpr) eval(m *machine) Value { return m.attribute(e.object.eval(m), e.name) }

func (e *itemExpr) eval(m *machine) Value {
	obj := e.object.eval(m)
	if s, ok := e.key.(*sliceExpr); ok {
		return m.slice(obj, evalOrNone(m, s.start), evalOrNone(m, s.stop), evalOrNone(m, s.step))
	}
	return m.item(obj, e.key.eval(m))
}

func evalOrNone(m *machine, e expr) Value {
	if e == nil {
		return nil
	}
	return e.eval(m)
}

// eval is never called: a slice is always the key of an itemExpr.
func (e *sliceExpr) eval(*machine) Value { return nil }

func (e *filterExpr) eval(m *machine) Value { return e.apply(m, e.input.eval(m)) }

// applyBlock runs a chain of filters that has no input of its own on the text
// of a block.
func (e *filterExpr) applyBlock(m *machine, text Value) Value {
	if inner, ok := e.input.(*filterExpr); ok {
		text = inner.applyBlock(m, text)
	}
	return e.apply(m, text)
}

func (e *filterExpr) apply(m *machine, input Value) Value {
	m.spend(1)
	if e.filter == nil {
		throw("TemplateRuntimeError", "No filter named %s found.", repr(e.name))
	}
	mark := m.mark()
	a := e.args.eval(m)
	v := e.filter.call(m, input, a)
	m.release(mark)
	return v
}

func (e *testExpr) eval(m *machine) Value {
	v := e.input.eval(m)
	if e.test == nil {
		throw("TemplateRuntimeError", "No test named %s found.", repr(e.name))
	}
	mark := m.mark()
	a := e.args.eval(m)
	ok := e.test.call(m, v, a)
	m.release(mark)
	return ok
}
