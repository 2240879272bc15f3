package feedback

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"weir/internal/jsontext"
	"weir/internal/pace"
)

// The kinds of values. Two values can be compared if they are of one kind. Missing, null
// and composite values cannot be compared at all (docs/interface/feedback.md, section 8.3,
// rule 3).
const (
	kindMissing = iota
	kindNull
	kindBool
	kindNum
	kindText
	kindComposite
)

// value is the value of a node of an expression.
type value struct {
	kind int
	bool bool
	num  number
	text string // of a string; of a number as it was written
	raw  jsontext.Value
}

// valueOf is the value of a JSON text.
func valueOf(v jsontext.Value) value {
	switch v.Kind() {
	case jsontext.Null:
		return value{kind: kindNull, raw: v}
	case jsontext.Bool:
		return value{kind: kindBool, bool: v[0] == 't', raw: v}
	case jsontext.Number:
		n, _ := parseNumber(string(v))
		return value{kind: kindNum, num: n, text: string(v), raw: v}
	case jsontext.String:
		return value{kind: kindText, text: v.Text(), raw: v}
	}
	return value{kind: kindComposite, raw: v}
}

// get is the value of a field of a record. It is missing if the meter has stopped the work.
func (f *field) get(r *Record, m *pace.Meter) value {
	if f.column == colPayload {
		v := r.Payload
		for _, part := range f.path {
			if m.Spend(len(v)) != nil {
				return value{}
			}
			if v = step(v, part); v == nil {
				return value{}
			}
		}
		if m.Spend(len(v)) != nil {
			return value{}
		}
		return valueOf(v)
	}
	if f.column == colCreated {
		n := number{float: float64(r.CreatedAt) / 1000}
		return value{kind: kindNum, num: n, text: timeText(r.CreatedAt)}
	}
	if f.column >= firstWeave {
		return valueOf(r.weaveColumn(weaveColumns[f.column-firstWeave].name))
	}
	if s := r.text(f.column); s != nil {
		return value{kind: kindText, text: *s}
	}
	return value{kind: kindNull}
}

// step is the element or property of v that a part of a path names, or nil.
func step(v jsontext.Value, part string) jsontext.Value {
	switch v.Kind() {
	case jsontext.Object:
		return member(v, part)
	case jsontext.Array:
		i, err := strconv.ParseUint(part, 10, 31)
		if err != nil {
			return nil
		}
		for n, e := range v.Elements() {
			if n == int(i) {
				return e
			}
		}
	}
	return nil
}

// truth reports whether a record matches an expression. The answer means nothing if the
// meter has an error afterwards: what is left of a large expression is then passed over.
func (n *expr) truth(r *Record, m *pace.Meter) bool {
	if m.Spend(pace.Compare) != nil {
		return false
	}
	switch n.op {
	case "$and":
		for _, a := range n.args {
			if !a.truth(r, m) {
				return false
			}
		}
		return true
	case "$or":
		for _, a := range n.args {
			if a.truth(r, m) {
				return true
			}
		}
		return false
	case "$not":
		return !n.args[0].truth(r, m)
	case "$in":
		return n.in(r, m)
	case "$eq":
		return equalTo(n.args[0], n.args[1], r, m)
	case "$gt", "$gte", "$lt", "$lte":
		c, ok := compare(n.args[0], n.args[1], r, m)
		switch {
		case !ok:
			return false
		case n.op == "$gt":
			return c > 0
		case n.op == "$gte":
			return c >= 0
		case n.op == "$lt":
			return c < 0
		}
		return c <= 0
	case "$contains", "$containsToken":
		return n.contains(r, m)
	}
	v := n.eval(r, m)
	return v.kind == kindBool && v.bool
}

// eval is the value of a node.
func (n *expr) eval(r *Record, m *pace.Meter) value {
	switch n.op {
	case "$literal":
		return n.value
	case "$getField":
		return n.field.get(r, m)
	case "$convert":
		return convert(n.args[0].eval(r, m), n.to)
	}
	return value{kind: kindBool, bool: n.truth(r, m)}
}

// equalTo evaluates $eq, which with the constant null is true for null and for what is
// not there.
func equalTo(a, b *expr, r *Record, m *pace.Meter) bool {
	va, vb := a.eval(r, m), b.eval(r, m)
	if isNullLiteral(a) || isNullLiteral(b) {
		return va.kind <= kindNull && vb.kind <= kindNull
	}
	c, ok := compareValues(coerce(va, a, vb, b), coerce(vb, b, va, a))
	return ok && c == 0
}

func isNullLiteral(n *expr) bool { return n.op == "$literal" && n.value.kind == kindNull }

func compare(a, b *expr, r *Record, m *pace.Meter) (c int, ok bool) {
	va, vb := a.eval(r, m), b.eval(r, m)
	return compareValues(coerce(va, a, vb, b), coerce(vb, b, va, a))
}

// coerce reads v, the value of n, as the type of the other side, if that is a literal and
// n is not (docs/interface/feedback.md, section 8.3, rule 1). A literal that is compared
// with an id becomes lower case, as ids are.
func coerce(v value, n *expr, other value, o *expr) value {
	if n.op == "$literal" {
		if o.op == "$getField" && o.field.column == colID && v.kind == kindText {
			if _, ok := parseUUID(v.text); ok {
				v.text = strings.ToLower(v.text)
			}
		}
		return v
	}
	if o.op != "$literal" || v.kind == other.kind {
		return v
	}
	switch {
	case other.kind == kindNum && v.kind == kindText:
		if num, ok := parseNumber(strings.TrimSpace(v.text)); ok {
			return value{kind: kindNum, num: num, text: v.text}
		}
	case other.kind == kindText && (v.kind == kindNum || v.kind == kindBool):
		return value{kind: kindText, text: v.scalar()}
	}
	return v
}

// scalar is the text of a scalar.
func (v *value) scalar() string {
	if v.kind == kindBool {
		return strconv.FormatBool(v.bool)
	}
	return v.text
}

// compareValues compares two values of one kind.
func compareValues(a, b value) (c int, ok bool) {
	if a.kind != b.kind {
		return 0, false
	}
	switch a.kind {
	case kindBool:
		return b2i(a.bool) - b2i(b.bool), true
	case kindNum:
		return a.num.compare(&b.num), true
	case kindText:
		return strings.Compare(a.text, b.text), true // UTF-8 sorts as code points do
	}
	return 0, false
}

// convert reads a value as another type. If that fails the result is missing
// (docs/interface/feedback.md, section 8.3, rule 3).
func convert(v value, to string) value {
	switch to {
	case "exists":
		return value{kind: kindBool, bool: v.kind != kindMissing}
	case "string":
		if v.kind == kindBool || v.kind == kindNum || v.kind == kindText {
			return value{kind: kindText, text: v.scalar()}
		}
	case "bool":
		switch {
		case v.kind == kindBool:
			return v
		case v.kind == kindNum:
			return value{kind: kindBool, bool: v.num.float != 0}
		case v.kind == kindText && (v.text == "true" || v.text == "false"):
			return value{kind: kindBool, bool: v.text == "true"}
		}
	case "double", "int":
		n := v.num
		switch v.kind {
		case kindNum:
		case kindBool:
			n = number{float: float64(b2i(v.bool)), small: int64(b2i(v.bool)), exact: true}
		case kindText:
			var ok bool
			if n, ok = parseNumber(strings.TrimSpace(v.text)); !ok {
				return value{}
			}
		default:
			return value{}
		}
		if to == "int" && !n.integer() {
			if math.IsInf(n.float, 0) {
				return value{}
			}
			i, _ := new(big.Float).SetFloat64(n.float).Int(nil) // towards zero
			n = number{float: math.Trunc(n.float), int: i}
		}
		return value{kind: kindNum, num: n, text: strconv.FormatFloat(n.float, 'g', -1, 64)}
	}
	return value{}
}
