package jinja

import "strings"

// testDef is a test of the environment ("x is name").
type testDef struct {
	sig  *signature
	test func(m *machine, v Value, a []Value) bool
}

func (t *testDef) call(m *machine, v Value, a args) bool {
	return t.test(m, v, t.sig.bind(m, a))
}

func newTest(name, params string, f func(m *machine, v Value, a []Value) bool) *testDef {
	p := strings.Fields(params)
	return &testDef{&signature{name, 1, p, len(p)}, f}
}

func typeTest(name string, f func(v Value) bool) *testDef {
	return newTest(name, "", func(_ *machine, v Value, _ []Value) bool { return f(v) })
}

func relationTest(name string, op tokenKind) *testDef {
	return newTest(name, "b", func(m *machine, v Value, a []Value) bool { return m.relation(op, v, a[0]) })
}

func remainderTest(name string, want int64) *testDef {
	return newTest(name, "", func(m *machine, v Value, _ []Value) bool {
		return m.equal(m.remainder(v, int64(2)), want)
	})
}

// remainder is v % n, which for text is formatting.
func (m *machine) remainder(v, n Value) Value {
	return (&binaryExpr{tokMod, &constExpr{v}, &constExpr{n}}).eval(m)
}

func allTests() map[string]*testDef {
	t := map[string]*testDef{
		"odd":  remainderTest("test_odd", 1),
		"even": remainderTest("test_even", 0),
		"divisibleby": newTest("test_divisibleby", "num", func(m *machine, v Value, a []Value) bool {
			return m.equal(m.remainder(v, a[0]), int64(0))
		}),
		"defined":   typeTest("test_defined", func(v Value) bool { return !isUndefined(v) }),
		"undefined": typeTest("test_undefined", isUndefined),
		"none":      typeTest("test_none", func(v Value) bool { return v == nil }),
		"boolean":   typeTest("test_boolean", isBool),
		"true":      typeTest("test_true", func(v Value) bool { return v == true }),
		"false":     typeTest("test_false", func(v Value) bool { return v == false }),
		"integer":   typeTest("test_integer", func(v Value) bool { return typeName(v) == "int" }),
		"float":     typeTest("test_float", func(v Value) bool { return typeName(v) == "float" }),
		"number":    typeTest("test_number", isNumber),
		"string":    typeTest("test_string", func(v Value) bool { _, ok := asString(v); return ok }),
		"mapping":   typeTest("test_mapping", func(v Value) bool { _, ok := v.(*Dict); return ok }),
		"sequence":  typeTest("test_sequence", isSubscriptable),
		"callable":  typeTest("callable", isCallable),
		"escaped":   typeTest("test_escaped", func(v Value) bool { _, ok := v.(Markup); return ok }),
		"iterable": newTest("test_iterable", "", func(m *machine, v Value, _ []Value) bool {
			_, ok := m.iterate(v)
			return ok
		}),
		"lower": newTest("test_lower", "", func(m *machine, v Value, _ []Value) bool {
			s := m.str(v)
			m.classify(len(s))
			return isCaseOnly(s, isLower, isUpper)
		}),
		"upper": newTest("test_upper", "", func(m *machine, v Value, _ []Value) bool {
			s := m.str(v)
			m.classify(len(s))
			return isCaseOnly(s, isUpper, isLower)
		}),
		"sameas": newTest("test_sameas", "other", func(m *machine, v Value, a []Value) bool { return m.identical(v, a[0]) }),
		"in":     newTest("test_in", "seq", func(m *machine, v Value, a []Value) bool { return m.contains(a[0], v) }),
		"filter": newTest("test_filter", "", func(m *machine, v Value, _ []Value) bool {
			s, ok := m.hash(v).(string) // the look-up hashes it once more, for the same count
			return ok && filters[s] != nil
		}),
		"test": newTest("test_test", "", func(m *machine, v Value, _ []Value) bool {
			s, ok := m.hash(v).(string) // the look-up hashes it once more, for the same count
			return ok && tests[s] != nil
		}),
	}
	for op, names := range map[tokenKind]string{
		tokEq: "eq equalto ==", tokNe: "ne !=", tokGt: "gt greaterthan >",
		tokGe: "ge >=", tokLt: "lt lessthan <", tokLe: "le <=",
	} {
		names := strings.Fields(names)
		for _, n := range names {
			t[n] = relationTest(names[0], op)
		}
	}
	return t
}

// isSubscriptable reports whether a value has a length and items.
func isSubscriptable(v Value) bool {
	switch v.(type) {
	case string, Markup, *List, *tuple, *Dict, *rangeValue, *undefined:
		return true
	}
	return false
}

func isCallable(v Value) bool {
	switch v.(type) {
	case *builtin, *boundMethod, *macro, *loopContext, *joiner, *blockReference, *undefined:
		return true
	}
	return false
}
