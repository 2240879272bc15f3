package query

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// Number is a JSON number. Integers of any size are compared exactly.
type Number struct {
	Float float64
	Int   *big.Int // an integer that does not fit into small; nil: see exact
	Small int64    // the integer, if exact
	Exact bool
}

// ParseNumber reads a number in the syntax of JSON; ok is false for anything else.
func ParseNumber(s string) (n Number, ok bool) {
	if s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
		return n, false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return Number{Float: float64(i), Small: i, Exact: true}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return n, false
	}
	n.Float = f
	if !strings.ContainsAny(s, ".eE") && len(s) <= 1000 { // parsing a longer one takes too long
		n.Int, _ = new(big.Int).SetString(s, 10)
	}
	return n, true
}

func (n *Number) compare(o *Number) int {
	switch {
	case n.Exact && o.Exact:
		return cmp.Compare(n.Small, o.Small)
	case n.Integer() && o.Integer():
		return n.big().Cmp(o.big())
	}
	return cmp.Compare(n.Float, o.Float)
}

// Integer reports whether the number is an integer that is compared exactly.
func (n *Number) Integer() bool { return n.Exact || n.Int != nil }

func (n *Number) big() *big.Int {
	if n.Int != nil {
		return n.Int
	}
	return big.NewInt(n.Small)
}
