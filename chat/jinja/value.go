package jinja

import (
	"math/big"
)

// Value is a value of the template language. A caller may pass nil (None), bool, int64 or
// *big.Int (both int), float64, string, *List and *Dict. Values of the other types are made
// only by templates. A template never changes a value (Jinja2's immutable sandbox), so
// renders that run at the same time may share one.
type Value = any

// List is a list. It must not be changed after it was passed to Render.
type List struct{ items []Value }

// NewList makes a list that takes ownership of items.
func NewList(items ...Value) *List { return &List{items} }

// Len returns the number of items.
func (l *List) Len() int { return len(l.items) }

// At returns item i, 0 <= i < Len().
func (l *List) At(i int) Value { return l.items[i] }

// Markup is text that is marked as safe (|safe, |escape). Text that is concatenated with it
// is HTML-escaped, as in markupsafe.
type Markup string

type tuple struct {
	items []Value
	group bool // made by groupby: .grouper and .list name the two items
}

// rangeValue is range(start, stop, step); step is never 0.
type rangeValue struct{ start, stop, step int64 }

func (r *rangeValue) len() int {
	switch {
	case r.step > 0 && r.stop > r.start:
		return int((r.stop-r.start-1)/r.step) + 1
	case r.step < 0 && r.stop < r.start:
		return int((r.start-r.stop-1)/-r.step) + 1
	}
	return 0
}

func (r *rangeValue) at(i int) Value { return r.start + int64(i)*r.step }

// view is the result of dict.keys(), .values() or .items().
type view struct {
	d    *Dict
	kind viewKind
}

type viewKind uint8

const (
	viewKeys viewKind = iota
	viewValues
	viewItems
)

func (v *view) at(i int) Value {
	switch v.kind {
	case viewKeys:
		return v.d.keys[i]
	case viewValues:
		return v.d.vals[i]
	}
	return pair(v.d.keys[i], v.d.vals[i])
}

func pair(a, b Value) *tuple {
	p := &struct {
		t     tuple
		items [2]Value
	}{items: [2]Value{a, b}}
	p.t.items = p.items[:]
	return &p.t
}

// generator is a lazy sequence that can be iterated over once, like the results of map
// and select.
type generator struct {
	typ  string // Python's type name
	name string
	next func(m *machine) (Value, bool)
}

type namespace struct{ attrs *Dict }

// undefined is the value of a name or attribute that does not exist. It prints
// as nothing, is false and has no items; everything else raises.
type undefined struct {
	hint     string // the whole message of the error, if not ""
	obj      Value  // with hasObj, the object that has no item or attribute name
	name     Value
	hasObj   bool
	security bool // using it raises SecurityError
}

func (u *undefined) message() string {
	switch {
	case u.hint != "":
		return u.hint
	case !u.hasObj:
		return repr(u.name) + " is undefined"
	}
	name, ok := u.name.(string)
	if !ok {
		return objectName(u.obj) + " has no element " + repr(u.name)
	}
	return "'" + objectName(u.obj) + "' has no attribute " + repr(name)
}

func (u *undefined) raise() {
	class := "UndefinedError"
	if u.security {
		class = "SecurityError"
	}
	throw(class, "%s", u.message())
}

// missing marks a variable or argument that is not set. Templates never see it.
type missingType struct{}

var missing Value = missingType{}

func isMissing(v Value) bool { _, ok := v.(missingType); return ok }

func isUndefined(v Value) bool { _, ok := v.(*undefined); return ok }

// typeName is Python's type(v).__name__.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string:
		return "str"
	case Markup:
		return "Markup"
	case *List:
		return "list"
	case *tuple:
		if v.group {
			return "_GroupTuple"
		}
		return "tuple"
	case *Dict:
		return "dict"
	case *rangeValue:
		return "range"
	case *view:
		return [...]string{"dict_keys", "dict_values", "dict_items"}[v.kind]
	case *generator:
		return v.typ
	case *namespace:
		return "Namespace"
	case *undefined:
		return "Undefined"
	case *macro:
		return "Macro"
	case *loopContext:
		return "LoopContext"
	case *boundMethod:
		return "builtin_function_or_method"
	case *builtin:
		return v.typ
	case *cycler:
		return "Cycler"
	case *joiner:
		return "Joiner"
	case *selfReference:
		return "TemplateReference"
	case *blockReference:
		return "BlockReference"
	}
	return "object"
}

// objectName is the name of an object in Jinja2's "x has no attribute y".
func objectName(v Value) string {
	switch v.(type) {
	case nil:
		return "None"
	case Markup:
		return "markupsafe.Markup object"
	case *tuple:
		if typeName(v) == "_GroupTuple" {
			return "jinja2.filters._GroupTuple object"
		}
	case *namespace, *cycler, *joiner:
		return "jinja2.utils." + typeName(v) + " object"
	case *macro, *loopContext, *undefined, *selfReference, *blockReference:
		return "jinja2.runtime." + typeName(v) + " object"
	}
	return typeName(v) + " object"
}

// truthy is bool(v).
func (m *machine) truthy(v Value) bool {
	switch v := v.(type) {
	case nil:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case *big.Int:
		return v.Sign() != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case Markup:
		return v != ""
	case *List:
		return len(v.items) > 0
	case *tuple:
		return len(v.items) > 0
	case *Dict:
		return len(v.keys) > 0
	case *rangeValue:
		return v.len() > 0
	case *view:
		return len(v.d.keys) > 0
	case *undefined:
		return false
	case *loopContext:
		return v.len(m) > 0
	}
	return true
}

// length is len(v), or false if v has no length.
func (m *machine) length(v Value) (int, bool) {
	switch v := v.(type) {
	case string:
		m.scan(len(v))
		return runeLen(v), true
	case Markup:
		m.scan(len(v))
		return runeLen(string(v)), true
	case *List:
		return len(v.items), true
	case *tuple:
		return len(v.items), true
	case *Dict:
		return len(v.keys), true
	case *rangeValue:
		return v.len(), true
	case *view:
		return len(v.d.keys), true
	case *undefined:
		return 0, true
	case *loopContext:
		return v.len(m), true
	}
	return 0, false
}

// asString is isinstance(v, str).
func asString(v Value) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case Markup:
		return string(v), true
	}
	return "", false
}

// asIndex is v.__index__(): an int (bool too) that fits int64.
func asIndex(v Value) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case bool:
		if v {
			return 1, true
		}
		return 0, true
	case *big.Int:
		return saturate(v), true
	}
	return 0, false
}

// saturate returns the int64 nearest to b. As an index, a count or a width, both mean
// "more than there is".
func saturate(b *big.Int) int64 {
	if b.IsInt64() {
		return b.Int64()
	}
	if b.Sign() < 0 {
		return minInt
	}
	return maxInt
}

// mustIndex is asIndex for an argument that has to be an int.
func mustIndex(v Value) int64 {
	i, ok := asIndex(v)
	if !ok {
		throwType("'%s' object cannot be interpreted as an integer", typeName(v))
	}
	return i
}

// asciiStrings holds every one-character ASCII string, boxed once.
var asciiStrings = func() (t [128]Value) {
	for i := range t {
		t[i] = string(rune(i))
	}
	return
}()

func runeString(r rune) Value {
	if r >= 0 && int(r) < len(asciiStrings) {
		return asciiStrings[r]
	}
	return string(r)
}
