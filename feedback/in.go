package feedback

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
func newSet(literals []*expr, ids bool) *set {
	s := &set{ints: map[int64]bool{}, bigInts: map[string]bool{}, fractions: map[float64]bool{}, floats: map[float64]bool{}, texts: map[string]struct{}{}}
	for _, lit := range literals {
		v := &lit.value
		switch v.kind {
		case kindNull:
			s.null = true
		case kindBool:
			s.bools[b2i(v.bool)] = true
		case kindNum:
			s.floats[v.num.float] = true
			if !v.num.integer() {
				s.fractions[v.num.float] = true
			} else if i, ok := v.num.int64(); ok {
				s.ints[i] = true
			} else {
				s.bigInts[v.num.int.String()] = true
			}
		case kindText:
			text := v.text
			if _, ok := parseUUID(text); ids && ok {
				text = strings.ToLower(text)
			}
			s.texts[text] = struct{}{}
		}
	}
	return s
}

// int64 is the value of an integer, if it has 64 bits.
func (n *number) int64() (int64, bool) {
	if n.int != nil {
		return n.int.Int64(), n.int.IsInt64()
	}
	return n.small, true
}

// has reports whether $eq is true of a value and one of the literals. literal says that the
// value is a constant too, and so is not read as another type.
func (s *set) has(v *value, literal bool) bool {
	if s.null && v.kind <= kindNull {
		return true
	}
	switch v.kind {
	case kindBool:
		return s.bools[b2i(v.bool)] || !literal && s.hasText(v.scalar())
	case kindNum:
		return s.hasNumber(&v.num) || !literal && s.hasText(v.text)
	case kindText:
		if s.hasText(v.text) {
			return true
		}
		if len(s.floats) == 0 || literal {
			return false
		}
		num, ok := parseNumber(strings.TrimSpace(v.text))
		return ok && s.hasNumber(&num)
	}
	return false
}

func (s *set) hasText(text string) bool {
	_, ok := s.texts[text]
	return ok
}

func (s *set) hasNumber(n *number) bool {
	if !n.integer() {
		return s.floats[n.float]
	}
	if s.fractions[n.float] {
		return true
	}
	if i, ok := n.int64(); ok {
		return s.ints[i]
	}
	return s.bigInts[(*big.Int).String(n.int)]
}

// in evaluates $in.
func (n *expr) in(r *Record, m *pace.Meter) bool {
	of := n.args[0]
	if n.set != nil {
		v := of.eval(r, m)
		if m.Spend(pace.Compare+len(v.text)) != nil {
			return false
		}
		if n.set.has(&v, of.op == "$literal") {
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
