package query

import (
	"math/big"
	"strings"

	"weir/internal/pace"
)

// set has the literals of an $in, so that a record is looked up in it and not compared
// with each of them. A value is in the set if $eq would be true of it and one of the
// literals. That is not one equality: integers are compared exactly with each other, and
// as float64 with other numbers (docs/interface/feedback.md, section 8.3, rule 2).
type set struct {
	null      bool
	bools     [2]bool             // false, true
	ints      map[int64]bool      // integers
	bigInts   map[string]bool     // integers beyond 64 bits, in decimal
	fractions map[float64]bool    // numbers that are no integers
	floats    map[float64]bool    // all numbers
	texts     map[string]struct{} // in lower case where they are compared with ids
}

// newSet returns the set of the literals that n, an $in, has. ids says that they are
// compared with the column of ids.
func newSet(literals []*Expr, ids bool) *set {
	s := &set{ints: map[int64]bool{}, bigInts: map[string]bool{}, fractions: map[float64]bool{}, floats: map[float64]bool{}, texts: map[string]struct{}{}}
	for _, lit := range literals {
		v := &lit.Value
		switch v.Kind {
		case Null:
			s.null = true
		case Bool:
			s.bools[b2i(v.Bool)] = true
		case Num:
			s.floats[v.Num.Float] = true
			if !v.Num.Integer() {
				s.fractions[v.Num.Float] = true
			} else if i, ok := v.Num.int64(); ok {
				s.ints[i] = true
			} else {
				s.bigInts[v.Num.Int.String()] = true
			}
		case Text:
			text := v.Text
			if ids && isUUID(text) {
				text = strings.ToLower(text)
			}
			s.texts[text] = struct{}{}
		}
	}
	return s
}

// int64 is the value of an integer, if it has 64 bits.
func (n *Number) int64() (int64, bool) {
	if n.Int != nil {
		return n.Int.Int64(), n.Int.IsInt64()
	}
	return n.Small, true
}

// has reports whether $eq is true of a value and one of the literals. literal says that the
// value is a constant too, and so is not read as another type.
func (s *set) has(v *Value, literal bool) bool {
	if s.null && v.Kind <= Null {
		return true
	}
	if b, ok := v.truth(); ok && (!literal || v.Kind == Bool) && s.bools[b2i(b)] {
		return true
	}
	switch v.Kind {
	case Bool:
		return !literal && s.hasText(v.Scalar())
	case Num:
		return s.hasNumber(&v.Num) || !literal && s.hasText(v.Text)
	case Text:
		if s.hasText(v.Text) {
			return true
		}
		if len(s.floats) == 0 || literal {
			return false
		}
		num, ok := ParseNumber(strings.TrimSpace(v.Text))
		return ok && s.hasNumber(&num)
	}
	return false
}

func (s *set) hasText(text string) bool {
	_, ok := s.texts[text]
	return ok
}

func (s *set) hasNumber(n *Number) bool {
	if !n.Integer() {
		return s.floats[n.Float]
	}
	if s.fractions[n.Float] {
		return true
	}
	if i, ok := n.int64(); ok {
		return s.ints[i]
	}
	return s.bigInts[(*big.Int).String(n.Int)]
}

// in evaluates $in.
func (n *Expr) in(r Row, m *pace.Meter) bool {
	of := n.Args[0]
	if n.set != nil {
		v := of.Eval(r, m)
		if m.Spend(pace.Compare+len(v.Text)) != nil {
			return false
		}
		if n.set.has(&v, of.Op == "$literal") {
			return true
		}
	}
	for _, a := range n.others {
		if equalTo(of, a, r, m) {
			return true
		}
	}
	return false
}
