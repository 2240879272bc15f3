package jinja

import (
	"math"
	"math/big"
	"math/bits"
)

// An int is an int64 if it fits, otherwise a *big.Int; a *big.Int never holds a number that
// would fit. A bool counts as an int.

func isNumber(v Value) bool {
	switch v.(type) {
	case int64, float64, bool, *big.Int:
		return true
	}
	return false
}

func normalize(b *big.Int) Value {
	if b.IsInt64() {
		return b.Int64()
	}
	return b
}

// toBig returns an int value as a *big.Int, which must not be changed.
func toBig(v Value) *big.Int {
	if b, ok := v.(*big.Int); ok {
		return b
	}
	i, _ := asIndex(v)
	return big.NewInt(i)
}

// toFloat returns a number as float.
func toFloat(v Value) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		if math.IsInf(f, 0) {
			throw("OverflowError", "int too large to convert to float")
		}
		return f
	}
	i, _ := asIndex(v)
	return float64(i)
}

func compareNumbers(a, b Value) int {
	fa, aFloat := a.(float64)
	fb, bFloat := b.(float64)
	switch {
	case aFloat && bFloat:
		return compareFloats(fa, fb)
	case aFloat:
		return -compareIntFloat(b, fa)
	case bFloat:
		return compareIntFloat(a, fb)
	}
	_, aBig := a.(*big.Int)
	_, bBig := b.(*big.Int)
	if aBig || bBig {
		return toBig(a).Cmp(toBig(b))
	}
	x, _ := asIndex(a)
	y, _ := asIndex(b)
	switch {
	case x < y:
		return -1
	case x > y:
		return 1
	}
	return 0
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	return -unordered // either sign means unordered; see compareIntFloat
}

// compareIntFloat is exact, also where the int has more digits than a float.
func compareIntFloat(i Value, f float64) int {
	if math.IsNaN(f) {
		return unordered
	}
	if math.IsInf(f, 0) {
		return -int(math.Copysign(1, f))
	}
	return new(big.Float).SetInt(toBig(i)).Cmp(big.NewFloat(f))
}

// arithmetic computes a op b for numbers; anything else raises.
func (m *machine) arithmetic(op tokenKind, a, b Value) Value {
	x, aSmall := a.(int64)
	y, bSmall := b.(int64)
	if aSmall && bSmall {
		if v, ok := smallInts(op, x, y); ok {
			return v
		}
	}
	if !isNumber(a) || !isNumber(b) {
		if u, ok := a.(*undefined); ok {
			u.raise()
		}
		if u, ok := b.(*undefined); ok {
			u.raise()
		}
		name := tokenText[op]
		if op == tokPow {
			name = "** or pow()"
		}
		throwType("unsupported operand type(s) for %s: '%s' and '%s'", name, typeName(a), typeName(b))
	}
	_, aFloat := a.(float64)
	_, bFloat := b.(float64)
	if aFloat || bFloat {
		return floats(op, toFloat(a), toFloat(b))
	}
	return m.bigInts(op, toBig(a), toBig(b))
}

// smallInts computes the operation if its result certainly fits an int64.
func smallInts(op tokenKind, x, y int64) (Value, bool) {
	switch op {
	case tokAdd:
		s := x + y
		return s, (s > x) == (y > 0)
	case tokSub:
		s := x - y
		return s, (s < x) == (y > 0)
	case tokMul:
		hi, lo := bits.Mul64(magnitude(x), magnitude(y))
		if hi != 0 || lo > maxInt {
			return nil, false
		}
		return x * y, true
	case tokFloorDiv:
		if y == 0 || x == minInt && y == -1 {
			return nil, false
		}
		q := x / y
		if x%y != 0 && (x < 0) != (y < 0) {
			q--
		}
		return q, true
	case tokMod:
		if y == 0 {
			return nil, false
		}
		r := x % y
		if r != 0 && (r < 0) != (y < 0) {
			r += y
		}
		return r, true
	case tokDiv:
		const exact = 1 << 53
		if y == 0 || magnitude(x) > exact || magnitude(y) > exact {
			return nil, false
		}
		return float64(x) / float64(y), true
	}
	return nil, false
}

func magnitude(x int64) uint64 {
	if x < 0 {
		return -uint64(x)
	}
	return uint64(x)
}

// maxBits bounds ints beyond int64. Python has no such bound, but cannot print more than
// maxDigits digits either.
const maxBits = 1 << 17

func (m *machine) checkBits(n int) {
	if n > maxBits {
		throwLimit("digits of an integer")
	}
	m.alloc(n / 8)
	m.spend(int64(n >> 8))
}

// words returns the number of machine words of x, at least 1.
func words(x *big.Int) int64 { return int64(x.BitLen()/64 + 1) }

func (m *machine) bigInts(op tokenKind, x, y *big.Int) Value {
	switch op {
	case tokAdd, tokSub:
		m.checkBits(max(x.BitLen(), y.BitLen()) + 1)
		if op == tokAdd {
			return normalize(new(big.Int).Add(x, y))
		}
		return normalize(new(big.Int).Sub(x, y))
	case tokMul:
		m.checkBits(x.BitLen() + y.BitLen())
		m.spend(words(x) * words(y) / 128)
		return normalize(new(big.Int).Mul(x, y))
	case tokPow:
		return m.power(x, y)
	}
	if y.Sign() == 0 {
		switch op {
		case tokDiv:
			throw("ZeroDivisionError", "division by zero")
		case tokMod:
			throw("ZeroDivisionError", "integer modulo by zero")
		}
		throw("ZeroDivisionError", "integer division or modulo by zero")
	}
	m.checkBits(x.BitLen() + y.BitLen())
	m.spend(words(x) * words(y) / 64)
	switch op {
	case tokFloorDiv, tokMod:
		q, r := new(big.Int).QuoRem(x, y, new(big.Int))
		if r.Sign() != 0 && r.Sign() != y.Sign() {
			q.Sub(q, big.NewInt(1))
			r.Add(r, y)
		}
		if op == tokMod {
			return normalize(r)
		}
		return normalize(q)
	}
	m.spend(words(x) * words(y) / 8) // the fraction is reduced
	f, _ := new(big.Rat).SetFrac(x, y).Float64()
	if math.IsInf(f, 0) {
		throw("OverflowError", "integer division result too large for a float")
	}
	return f
}

func (m *machine) power(x, y *big.Int) Value {
	if y.Sign() < 0 {
		return floats(tokPow, toFloat(x), toFloat(y))
	}
	if x.BitLen() <= 1 && x.Sign() >= 0 { // 0 and 1
		if x.Sign() == 0 && y.Sign() == 0 {
			return int64(1)
		}
		return normalize(x)
	}
	if !y.IsInt64() || y.Int64() > maxBits {
		if x.BitLen() == 1 { // -1
			return int64(1 - 2*int64(y.Bit(0)))
		}
		throwLimit("digits of an integer")
	}
	size := (x.BitLen()-1)*int(y.Int64()) + 1 // at least
	m.checkBits(size)
	m.spend(int64(size/64+1) * int64(size/64+1) / 256)
	return normalize(new(big.Int).Exp(x, y, nil))
}

func floats(op tokenKind, x, y float64) Value {
	switch op {
	case tokAdd:
		return x + y
	case tokSub:
		return x - y
	case tokMul:
		return x * y
	case tokPow:
		return floatPower(x, y)
	}
	if y == 0 {
		switch op {
		case tokDiv:
			throw("ZeroDivisionError", "float division by zero")
		case tokFloorDiv:
			throw("ZeroDivisionError", "float floor division by zero")
		}
		throw("ZeroDivisionError", "float modulo")
	}
	if op == tokDiv {
		return x / y
	}
	// CPython's float_divmod: the remainder takes the divisor's sign.
	mod := math.Mod(x, y)
	div := (x - mod) / y
	if mod != 0 {
		if (y < 0) != (mod < 0) {
			mod += y
			div--
		}
	} else {
		mod = math.Copysign(0, y)
	}
	if op == tokMod {
		return mod
	}
	if div == 0 {
		return math.Copysign(0, x/y)
	}
	floor := math.Floor(div)
	if div-floor > 0.5 {
		floor++
	}
	return floor
}

func floatPower(x, y float64) Value {
	if x == 0 && y < 0 {
		throw("ZeroDivisionError", "0.0 cannot be raised to a negative power")
	}
	if x < 0 && y != math.Trunc(y) && !math.IsInf(x, 0) {
		throwType("complex numbers are not supported")
	}
	r := math.Pow(x, y)
	if math.IsInf(r, 0) && !math.IsInf(x, 0) && !math.IsInf(y, 0) {
		throw("OverflowError", "(34, 'Numerical result out of range')")
	}
	return r
}

// negate is -v.
func (m *machine) negate(v Value) Value {
	switch v := v.(type) {
	case float64:
		return -v
	case bool, int64, *big.Int:
		return m.arithmetic(tokSub, int64(0), v)
	case *undefined:
		v.raise()
	}
	throwType("bad operand type for unary -: '%s'", typeName(v))
	return nil
}

// positive is +v.
func (m *machine) positive(v Value) Value {
	switch v := v.(type) {
	case float64, int64, *big.Int:
		return v
	case bool:
		i, _ := asIndex(v)
		return i
	case *undefined:
		v.raise()
	}
	throwType("bad operand type for unary +: '%s'", typeName(v))
	return nil
}
