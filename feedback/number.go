package feedback

import (
	"cmp"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// number is a JSON number. Integers of any size are compared exactly.
type number struct {
	float float64
	int   *big.Int // an integer that does not fit into small; nil: see exact
	small int64    // the integer, if exact
	exact bool
}

// parseNumber reads a number in the syntax of JSON; ok is false for anything else.
func parseNumber(s string) (n number, ok bool) {
	if s == "" || strings.Trim(s, "0123456789+-.eE") != "" {
		return n, false
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return number{float: float64(i), small: i, exact: true}, true
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return n, false
	}
	n.float = f
	if !strings.ContainsAny(s, ".eE") && len(s) <= 1000 { // parsing a longer one takes too long
		n.int, _ = new(big.Int).SetString(s, 10)
	}
	return n, true
}

func (n *number) compare(o *number) int {
	switch {
	case n.exact && o.exact:
		return cmp.Compare(n.small, o.small)
	case n.integer() && o.integer():
		return n.big().Cmp(o.big())
	}
	return cmp.Compare(n.float, o.float)
}

func (n *number) integer() bool { return n.exact || n.int != nil }

func (n *number) big() *big.Int {
	if n.int != nil {
		return n.int
	}
	return big.NewInt(n.small)
}
