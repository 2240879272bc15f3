package query

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"weir/internal/jsontext"
	"weir/internal/pace"
)

// The kinds of values. Two values can be compared if they are of one kind. Missing, null
// and composite values cannot be compared at all (docs/interface/feedback.md, section 8.3,
// rule 3).
const (
	Missing = iota
	Null
	Bool
	Num
	Text
	Composite
)

// Value is the value of a node of an expression.
type Value struct {
	Kind int
	Bool bool
	Num  Number
	Text string // of a string; of a number as it was written
	Raw  jsontext.Value
}

// ValueOf is the value of a JSON text.
func ValueOf(v jsontext.Value) Value {
	switch v.Kind() {
	case jsontext.Null:
		return Value{Kind: Null, Raw: v}
	case jsontext.Bool:
		return Value{Kind: Bool, Bool: v[0] == 't', Raw: v}
	case jsontext.Number:
		n, _ := ParseNumber(string(v))
		return Value{Kind: Num, Num: n, Text: string(v), Raw: v}
	case jsontext.String:
		return Value{Kind: Text, Text: v.Text(), Raw: v}
	}
	return Value{Kind: Composite, Raw: v}
}

// Step is the element or property of v that a part of a path names, or nil.
func Step(v jsontext.Value, part string) jsontext.Value {
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

// Row is what expressions are evaluated on.
type Row interface {
	// Value is the value of a field. It is Missing if there is none, or if the meter has
	// stopped the work.
	Value(f *Field, m *pace.Meter) Value
}

// Truth reports whether a row matches an expression. The answer means nothing if the
// meter has an error afterwards: what is left of a large expression is then passed over.
func (n *Expr) Truth(r Row, m *pace.Meter) bool {
	if m.Spend(pace.Compare) != nil {
		return false
	}
	switch n.Op {
	case "$and":
		for _, a := range n.Args {
			if !a.Truth(r, m) {
				return false
			}
		}
		return true
	case "$or":
		for _, a := range n.Args {
			if a.Truth(r, m) {
				return true
			}
		}
		return false
	case "$not":
		return !n.Args[0].Truth(r, m)
	case "$in":
		return n.in(r, m)
	case "$eq":
		return equalTo(n.Args[0], n.Args[1], r, m)
	case "$gt", "$gte", "$lt", "$lte":
		c, ok := compare(n.Args[0], n.Args[1], r, m)
		switch {
		case !ok:
			return false
		case n.Op == "$gt":
			return c > 0
		case n.Op == "$gte":
			return c >= 0
		case n.Op == "$lt":
			return c < 0
		}
		return c <= 0
	case "$contains", "$containsToken":
		return n.contains(r, m)
	}
	v := n.Eval(r, m)
	return v.Kind == Bool && v.Bool
}

// Eval is the value of a node.
func (n *Expr) Eval(r Row, m *pace.Meter) Value {
	switch n.Op {
	case "$literal":
		return n.Value
	case "$getField":
		return r.Value(&n.Field, m)
	case "$convert":
		return Convert(n.Args[0].Eval(r, m), n.To)
	case "$size":
		return size(n.Args[0].Eval(r, m))
	}
	return Value{Kind: Bool, Bool: n.Truth(r, m)}
}

// size is the number of elements of an array, or of properties of an object. Other values
// have none.
func size(v Value) Value {
	if v.Kind != Composite {
		return Value{}
	}
	n := 0
	if v.Raw.Kind() == jsontext.Array {
		for range v.Raw.Elements() {
			n++
		}
	} else {
		for range v.Raw.Members() {
			n++
		}
	}
	return Value{Kind: Num, Num: Number{Float: float64(n), Small: int64(n), Exact: true}, Text: strconv.Itoa(n)}
}

// equalTo evaluates $eq, which with the constant null is true for null and for what is
// not there.
func equalTo(a, b *Expr, r Row, m *pace.Meter) bool {
	va, vb := a.Eval(r, m), b.Eval(r, m)
	if isNullLiteral(a) || isNullLiteral(b) {
		return va.Kind <= Null && vb.Kind <= Null
	}
	c, ok := CompareValues(coerce(va, a, vb, b), coerce(vb, b, va, a))
	return ok && c == 0
}

func isNullLiteral(n *Expr) bool { return n.Op == "$literal" && n.Value.Kind == Null }

func compare(a, b *Expr, r Row, m *pace.Meter) (c int, ok bool) {
	va, vb := a.Eval(r, m), b.Eval(r, m)
	return CompareValues(coerce(va, a, vb, b), coerce(vb, b, va, a))
}

// coerce reads v, the value of n, as the type of the other side, if that is a literal and
// n is not (docs/interface/feedback.md, section 8.3, rule 1). A literal that is compared
// with an id becomes lower case, as ids are.
func coerce(v Value, n *Expr, other Value, o *Expr) Value {
	if n.Op == "$literal" {
		if o.Op == "$getField" && o.Field.ID && v.Kind == Text {
			if isUUID(v.Text) {
				v.Text = strings.ToLower(v.Text)
			}
		}
		return v
	}
	if o.Op != "$literal" || v.Kind == other.Kind {
		return v
	}
	switch {
	case other.Kind == Num && v.Kind == Text:
		if num, ok := ParseNumber(strings.TrimSpace(v.Text)); ok {
			return Value{Kind: Num, Num: num, Text: v.Text}
		}
	case other.Kind == Text && (v.Kind == Num || v.Kind == Bool):
		return Value{Kind: Text, Text: v.Scalar()}
	case other.Kind == Bool:
		if b, ok := v.truth(); ok {
			return Value{Kind: Bool, Bool: b}
		}
	}
	return v
}

// truth is the boolean that a value beside a boolean is read as: true and false as texts, and
// the numbers 1 and 0. Other values are none.
func (v *Value) truth() (b, ok bool) {
	switch {
	case v.Kind == Bool:
		return v.Bool, true
	case v.Kind == Text && (v.Text == "true" || v.Text == "false"):
		return v.Text == "true", true
	case v.Kind == Num && (v.Num.Float == 0 || v.Num.Float == 1):
		return v.Num.Float == 1, true
	}
	return false, false
}

// Scalar is the text of a scalar.
func (v *Value) Scalar() string {
	if v.Kind == Bool {
		return strconv.FormatBool(v.Bool)
	}
	return v.Text
}

// CompareValues compares two values of one kind.
func CompareValues(a, b Value) (c int, ok bool) {
	if a.Kind != b.Kind {
		return 0, false
	}
	switch a.Kind {
	case Bool:
		return b2i(a.Bool) - b2i(b.Bool), true
	case Num:
		return a.Num.compare(&b.Num), true
	case Text:
		return strings.Compare(a.Text, b.Text), true // UTF-8 sorts as code points do
	}
	return 0, false
}

// rank is the place of a value among those of other kinds.
func (v *Value) rank() int {
	switch v.Kind {
	case Num:
		return 0
	case Text:
		return 1
	case Bool:
		return 2
	case Missing:
		return 4
	}
	return 3 // null, objects and arrays
}

// Order compares two values that order rows: numbers come first, then texts, then other
// values, and what is not there last, whichever the direction. Within each of these the
// direction decides. Weave's server orders so, too
// (weave/trace_server/orm.py: existence, then the value as a number, then as text).
func Order(a, b *Value, descending bool) int {
	if c := a.rank() - b.rank(); c != 0 {
		return c
	}
	c, _ := CompareValues(*a, *b)
	if descending {
		return -c
	}
	return c
}

// Detached is v without a reference to its row, cut to what an order looks at.
func (v Value) Detached() Value {
	v.Text, v.Raw = strings.Clone(v.Text[:min(len(v.Text), 256)]), nil
	return v
}

// Convert reads a value as another type. If that fails the result is missing
// (docs/interface/feedback.md, section 8.3, rule 3).
func Convert(v Value, to string) Value {
	switch to {
	case "exists":
		return Value{Kind: Bool, Bool: v.Kind != Missing}
	case "string":
		if v.Kind == Bool || v.Kind == Num || v.Kind == Text {
			return Value{Kind: Text, Text: v.Scalar()}
		}
	case "bool":
		switch {
		case v.Kind == Bool:
			return v
		case v.Kind == Num:
			return Value{Kind: Bool, Bool: v.Num.Float != 0}
		case v.Kind == Text && (v.Text == "true" || v.Text == "false"):
			return Value{Kind: Bool, Bool: v.Text == "true"}
		}
	case "double", "int":
		n := v.Num
		switch v.Kind {
		case Num:
		case Bool:
			n = Number{Float: float64(b2i(v.Bool)), Small: int64(b2i(v.Bool)), Exact: true}
		case Text:
			var ok bool
			if n, ok = ParseNumber(strings.TrimSpace(v.Text)); !ok {
				return Value{}
			}
		default:
			return Value{}
		}
		if to == "int" && !n.Integer() {
			if math.IsInf(n.Float, 0) {
				return Value{}
			}
			i, _ := new(big.Float).SetFloat64(n.Float).Int(nil) // towards zero
			n = Number{Float: math.Trunc(n.Float), Int: i}
		}
		text := strconv.FormatFloat(n.Float, 'g', -1, 64)
		if n.Integer() {
			text = n.big().String()
		}
		return Value{Kind: Num, Num: n, Text: text}
	}
	return Value{}
}

// member is the value of the last property of an object with that name, or nil.
func member(object jsontext.Value, name string) (v jsontext.Value) {
	for key, val := range object.Members() {
		if string(key) == name {
			v = val
		}
	}
	return v
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// isUUID reports whether a text is a UUID in its usual spelling, of either case.
func isUUID(s string) bool { return len(s) == 36 && uuid.Validate(s) == nil }

// At is the value that a path leads to within a JSON value. It is Missing if there is none,
// or if the meter has stopped the work.
func At(v jsontext.Value, path []string, m *pace.Meter) Value {
	for _, part := range path {
		if m.Spend(len(v)) != nil {
			return Value{}
		}
		if v = Step(v, part); v == nil {
			return Value{}
		}
	}
	if m.Spend(len(v)) != nil {
		return Value{}
	}
	return ValueOf(v)
}
