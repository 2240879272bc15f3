package jinja

import (
	"math/big"
	"strings"
	"unicode/utf8"
)

// attribute is Jinja's getattr for obj.name: the attribute, else the item,
// else undefined.
func (m *machine) attribute(obj Value, name string) Value {
	m.scan(2 * len(name)) // the tables of methods hash it
	if d, ok := obj.(*Dict); ok {
		if method := dictMethods[name]; method == nil && !isInternal(name) {
			if i := d.findText(m, name); i >= 0 {
				return d.vals[i]
			}
			return &undefined{obj: obj, name: name, hasObj: true}
		}
	}
	if v, ok := m.ownAttribute(obj, name); ok {
		return v
	}
	switch o := obj.(type) {
	case *Dict:
		if i := o.findText(m, name); i >= 0 {
			return o.vals[i]
		}
	case *selfReference:
		return m.item(o, name)
	}
	return &undefined{obj: obj, name: name, hasObj: true}
}

// item is Jinja's getitem for obj[key]: the item, else (for a text key) the
// attribute, else undefined.
func (m *machine) item(obj, key Value) Value {
	if d, ok := obj.(*Dict); ok { // nearly always
		if v, ok := d.element(m, key); ok {
			return v
		}
	} else if v, ok := m.element(obj, key); ok {
		return v
	}
	if s, ok := asString(key); ok {
		if v, ok := m.ownAttribute(obj, s); ok {
			return v
		}
	}
	return &undefined{obj: obj, name: key, hasObj: true}
}

// element is Python's obj[key] for an obj that is not a dict, or false if obj has no such
// item.
func (m *machine) element(obj, key Value) (Value, bool) {
	switch o := obj.(type) {
	case *undefined:
		o.raise()
	case *selfReference:
		if s, ok := asString(key); ok {
			m.scan(2 * len(s))
			if b := m.t.blocks[s]; b != nil {
				return &blockReference{b}, true
			}
		}
	}
	i, ok := asIndex(key)
	if !ok {
		return nil, false
	}
	switch o := obj.(type) {
	case *List:
		return itemAt(o.items, i)
	case *tuple:
		return itemAt(o.items, i)
	case *rangeValue:
		if i < 0 {
			i += int64(o.len())
		}
		if i >= 0 && i < int64(o.len()) {
			return o.at(int(i)), true
		}
	case string:
		return m.charAt(o, i)
	case Markup:
		if v, ok := m.charAt(string(o), i); ok {
			s, _ := asString(v)
			return Markup(s), true
		}
	}
	return nil, false
}

func (d *Dict) element(m *machine, key Value) (Value, bool) {
	i := -1
	if s, ok := key.(string); ok {
		i = d.findText(m, s)
	} else if m.isHashable(key, 0) {
		i = d.find(m, key)
	}
	if i < 0 {
		return nil, false
	}
	return d.vals[i], true
}

// isHashable reports whether v can be a key. A lookup with a key that cannot finds
// nothing, whereas a dict literal with it raises.
func (m *machine) isHashable(v Value, depth int) bool {
	if depth > maxNesting {
		throwRecursion()
	}
	switch v := v.(type) {
	case *List, *Dict:
		return false
	case *tuple:
		for _, x := range v.items {
			m.spend(1)
			if !m.isHashable(x, depth+1) {
				return false
			}
		}
	}
	return true
}

func itemAt(items []Value, i int64) (Value, bool) {
	n := int64(len(items))
	if i < 0 {
		i += n
	}
	if i < 0 || i >= n {
		return nil, false
	}
	return items[i], true
}

// charAt returns character i of s, which counts from the end if it is negative.
func (m *machine) charAt(s string, i int64) (Value, bool) {
	if i >= 0 && i < int64(len(s)) && s[i] < utf8.RuneSelf {
		m.scan(int(i))
		if isASCII(s[:i]) {
			return asciiStrings[s[i]], true
		}
	}
	m.scan(2 * len(s))
	if i < 0 {
		i += int64(runeLen(s))
	}
	if i < 0 || i >= int64(len(s)) {
		return nil, false
	}
	at := byteOffset(s, int(i))
	if at == len(s) {
		return nil, false
	}
	r, _ := utf8.DecodeRuneInString(s[at:])
	return runeString(r), true
}

// isInternal reports whether name is one of the double-underscore names that
// every Python object has and the sandbox does not let a template see.
func isInternal(name string) bool {
	if !strings.HasPrefix(name, "__") {
		return false
	}
	switch name {
	case "__class__", "__delattr__", "__dir__", "__doc__", "__eq__", "__format__", "__ge__", "__getattribute__",
		"__getstate__", "__gt__", "__hash__", "__init__", "__init_subclass__", "__le__", "__lt__", "__ne__", "__new__",
		"__reduce__", "__reduce_ex__", "__repr__", "__setattr__", "__sizeof__", "__str__", "__subclasshook__":
		return true
	}
	return false
}

// ownAttribute is Python's getattr under the sandbox's rules, or false if the object has
// no such attribute. An unsafe attribute is an undefined that raises SecurityError when
// it is used.
func (m *machine) ownAttribute(obj Value, name string) (Value, bool) {
	switch o := obj.(type) {
	case *undefined:
		if !isInternal(name) {
			o.raise()
		}
	case *namespace: // it has the attributes that were assigned to it, and no others
		i := o.attrs.findText(m, name)
		switch {
		case name == "__class__" || i >= 0 && strings.HasPrefix(name, "_"):
			return unsafeAttribute(obj, name), true
		case i >= 0:
			return o.attrs.vals[i], true
		}
		return nil, false
	}
	if isInternal(name) {
		return unsafeAttribute(obj, name), true
	}
	m.scan(2 * len(name))                // the tables of methods hash it
	if l, ok := obj.(*loopContext); ok { // in most templates
		return l.attribute(m, name)
	}
	def := findMethod(obj, name)
	switch {
	case def == nil:
		return m.dataAttribute(obj, name)
	case def.mutates:
		return unsafeAttribute(obj, name), true
	}
	return &boundMethod{self: obj, name: name, call: def.call}, true
}

// dataAttribute returns an attribute that is not in the tables of methods.
func (m *machine) dataAttribute(obj Value, name string) (Value, bool) {
	switch o := obj.(type) {
	case *macro:
		return o.attribute(m, name)
	case *cycler:
		return o.attribute(name)
	case *joiner:
		switch name {
		case "sep":
			return o.sep, true
		case "used":
			return o.used, true
		}
	case *tuple:
		switch {
		case o.group && name == "grouper":
			return o.items[0], true
		case o.group && name == "list":
			return o.items[1], true
		}
	case *rangeValue:
		switch name {
		case "start":
			return o.start, true
		case "stop":
			return o.stop, true
		case "step":
			return o.step, true
		}
	case int64, *big.Int, bool:
		switch name {
		case "real", "numerator":
			return m.positive(o), true
		case "imag":
			return int64(0), true
		case "denominator":
			return int64(1), true
		}
	case float64:
		switch name {
		case "real":
			return o, true
		case "imag":
			return 0.0, true
		}
	case *builtin:
		if o.name == "dict" && name == "fromkeys" {
			return &boundMethod{self: o, name: name, call: dictFromKeys}, true
		}
	}
	return nil, false
}

func unsafeAttribute(obj Value, name string) *undefined {
	return &undefined{
		hint:     "access to attribute " + repr(name) + " of " + repr(typeName(obj)) + " object is unsafe.",
		security: true,
	}
}
