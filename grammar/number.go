package grammar

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// numbers is a set of JSON numbers: those in a range that are multiples of a number.
// Unless the set is all numbers, they are written without exponent.
type numbers struct {
	integer      bool
	lo, hi       *big.Rat // nil: no bound
	loOpen       bool     // lo itself is not in the set
	hiOpen       bool
	multiple     *big.Rat   // nil: any number
	multiplePath string     // of the keyword multipleOf
	except       []*big.Rat // numbers that are not in the set
	not          []*big.Rat // what the numbers of the set are no multiples of
}

// maxDigits bounds the digits of a number in a schema. JSON allows 1e999999999, which
// nobody can write without an exponent.
const maxDigits = 400

// parseNumber reads a JSON number. It reports false if it has too many digits.
func parseNumber(text string) (*big.Rat, bool) {
	mantissa, exp, _ := strings.Cut(strings.ToLower(text), "e")
	if exp != "" {
		if n, err := strconv.Atoi(exp); err != nil || n > maxDigits || n < -maxDigits {
			return nil, false
		}
	}
	if len(mantissa) > maxDigits {
		return nil, false
	}
	return new(big.Rat).SetString(text)
}

// free reports whether all integers or all numbers are in n.
func (n *numbers) free() bool {
	return n.lo == nil && n.hi == nil && n.multiple == nil && len(n.except) == 0 && len(n.not) == 0
}

// atLeast, atMost and timesOf narrow the set.
func (n *numbers) atLeast(v *big.Rat, open bool) {
	if c := cmpRat(n.lo, v); n.lo == nil || c < 0 || c == 0 && open {
		n.lo, n.loOpen = v, open
	}
}

func (n *numbers) atMost(v *big.Rat, open bool) {
	if c := cmpRat(n.hi, v); n.hi == nil || c > 0 || c == 0 && open {
		n.hi, n.hiOpen = v, open
	}
}

func cmpRat(a, b *big.Rat) int {
	if a == nil || b == nil {
		return 0
	}
	return a.Cmp(b)
}

// timesOf makes multiple the least common multiple of it and m: lcm(a/b, c/d) is
// lcm(a, c)/gcd(b, d) in lowest terms.
func (n *numbers) timesOf(m *big.Rat) {
	if n.multiple == nil {
		n.multiple = m
		return
	}
	a, c := n.multiple.Num(), m.Num()
	g := new(big.Int).GCD(nil, nil, a, c)
	num := new(big.Int).Mul(a, c)
	num.Div(num, g)
	n.multiple = new(big.Rat).SetFrac(num, new(big.Int).GCD(nil, nil, n.multiple.Denom(), m.Denom()))
}

// normal returns the same set in a simpler form: a multiple of 1 is left out, multiples
// of integers are integers, and the bounds of integers are integers in the set.
func (n numbers) normal() numbers {
	if n.integer && n.multiple != nil && n.multiple.IsInt() && n.multiple.Num().IsInt64() && n.multiple.Num().Int64() == 1 {
		n.multiple = nil
	}
	if !n.integer {
		if n.multiple != nil && n.multiple.IsInt() {
			n.integer = true
		} else {
			return n
		}
	}
	one := big.NewInt(1)
	if n.lo != nil {
		q, r := new(big.Int).DivMod(n.lo.Num(), n.lo.Denom(), new(big.Int)) // floor
		if r.Sign() != 0 || n.loOpen {
			q.Add(q, one)
		}
		n.lo, n.loOpen = new(big.Rat).SetInt(q), false
	}
	if n.hi != nil {
		q, r := new(big.Int).DivMod(n.hi.Num(), n.hi.Denom(), new(big.Int))
		if r.Sign() == 0 && n.hiOpen {
			q.Sub(q, one)
		}
		n.hi, n.hiOpen = new(big.Rat).SetInt(q), false
	}
	return n
}

// empty reports whether the bounds leave no number. (It may also be that no number of a
// narrow range is a multiple. That is found when the set is lowered.)
func (n numbers) empty() bool {
	n = n.normal()
	if n.lo != nil && n.hi != nil {
		c := n.lo.Cmp(n.hi)
		if c > 0 || c == 0 && (n.loOpen || n.hiOpen) {
			return true
		}
	}
	return n.allExcluded()
}

func (n *numbers) contains(v *big.Rat) bool {
	if n.integer && !v.IsInt() {
		return false
	}
	if c := cmpRat(v, n.lo); n.lo != nil && (c < 0 || c == 0 && n.loOpen) {
		return false
	}
	if c := cmpRat(v, n.hi); n.hi != nil && (c > 0 || c == 0 && n.hiOpen) {
		return false
	}
	return (n.multiple == nil || new(big.Rat).Quo(v, n.multiple).IsInt()) && !n.excludes(v)
}

// apart returns n with open bounds replaced by closed ones that are a little narrower, so
// that no number of the set is rounded to a bound: programs that read 0.50000000000000001
// as a float64 get 0.5, which is not greater than 0.5.
func (n numbers) apart() numbers {
	if n.integer {
		return n
	}
	res := n
	if n.lo != nil && n.loOpen {
		if gap := floatGap(n.lo); gap != nil {
			res.lo, res.loOpen = gap.Add(n.lo, gap), false
		}
	}
	if n.hi != nil && n.hiOpen {
		if gap := floatGap(n.hi); gap != nil {
			res.hi, res.hiOpen = gap.Sub(n.hi, gap), false
		}
	}
	if res.empty() {
		return n
	}
	return res
}

// floatGap is a power of ten that is more than the distance of the float64 numbers around v.
// It is nil if there are none around v.
func floatGap(v *big.Rat) *big.Rat {
	f, _ := v.Float64()
	f = math.Abs(f)
	exp := -20 // around 0 all would be told apart; nobody means less, and writes it without exponent
	if f != 0 {
		ulp := math.Nextafter(f, math.Inf(1)) - f
		if math.IsInf(ulp, 0) || math.IsNaN(ulp) {
			return nil
		}
		exp = int(math.Ceil(math.Log10(2 * ulp)))
	}
	if exp < 0 {
		return new(big.Rat).SetFrac(big.NewInt(1), pow10(-exp))
	}
	return new(big.Rat).SetInt(pow10(exp))
}

// key is the same for equal sets.
func (n numbers) key() string {
	s := "num:" + strconv.FormatBool(n.integer)
	for _, r := range []*big.Rat{n.lo, n.hi, n.multiple} {
		if s += ","; r != nil {
			s += r.RatString()
		}
	}
	return s + strconv.FormatBool(n.loOpen) + strconv.FormatBool(n.hiOpen) + n.exclusionKey()
}

// numbers reads a number of n.
func (b *builder) numbers(from int32, n numbers) int32 {
	n = n.normal()
	if n.multiple == nil {
		n = n.apart()
	}
	if n.multiple == nil && len(n.except) == 0 && len(n.not) == 0 {
		return b.ranges(from, n)
	}
	own := newBuilder(nil, 8*dfaLimit, b.meter)
	start := own.state()
	own.accept(own.ranges(start, n))
	d, ok := makeDFA(own, start, -1)
	if ok && n.multiple != nil {
		var mod *dfa
		if mod, ok = multiples(n.multiple, n.integer); ok {
			d, ok = d.intersect(mod)
		}
	}
	if ok {
		d, ok = n.remainder(b, d)
	}
	if !ok {
		fail(ErrUnsupported, n.multiplePath, "multipleOf needs too many states here")
	}
	return b.embed(from, d)
}

// ranges reads a number in the range of n, whether it is a multiple or not.
func (b *builder) ranges(from int32, n numbers) int32 {
	to := b.state()
	zero := new(big.Rat)
	if n.hi == nil || n.hi.Sign() > 0 || n.hi.Sign() == 0 && !n.hiOpen {
		m := magnitude{b: b, integer: n.integer, to: to, lo: decimalOf(zero), hi: nil, hiOpen: n.hiOpen}
		if n.lo != nil && n.lo.Sign() >= 0 {
			m.lo, m.loOpen = decimalOf(n.lo), n.loOpen
		}
		if n.hi != nil {
			m.hi = decimalOf(n.hi)
		}
		m.build(from)
	}
	if n.lo == nil || n.lo.Sign() < 0 {
		m := magnitude{b: b, integer: n.integer, to: to, lo: decimalOf(zero), loOpen: true, hiOpen: n.loOpen} // no -0
		if n.hi != nil && n.hi.Sign() < 0 {
			m.lo, m.loOpen = decimalOf(new(big.Rat).Neg(n.hi)), n.hiOpen
		}
		if n.lo != nil {
			m.hi = decimalOf(new(big.Rat).Neg(n.lo))
		}
		m.build(b.lit(from, "-"))
	}
	return to
}

// decimal is a number of at least 0 in digits; frac has no trailing zeros.
type decimal struct{ whole, frac string }

func decimalOf(r *big.Rat) *decimal {
	prec, exact := r.FloatPrec()
	if !exact || prec > 2*maxDigits {
		fail(ErrTooComplex, "", "a number with too many digits")
	}
	w, f, _ := strings.Cut(r.FloatString(prec), ".")
	return &decimal{w, strings.TrimRight(f, "0")}
}

func (d *decimal) String() string {
	if d.frac == "" {
		return d.whole
	}
	return d.whole + "." + d.frac
}

// magnitude reads the decimals from lo to hi, digit by digit. As long as the digits so
// far are those of a bound, the bound limits the next digit.
type magnitude struct {
	b              *builder
	integer        bool
	lo, hi         *decimal // hi nil: no bound
	loOpen, hiOpen bool
	to             int32
	memo           map[place]int32 // the state of each place
}

// place is what has been read of a number.
type place struct {
	length   int  // how many digits there are before the point; -1 after the point
	pos      int  // digits read, of those before the point or after it
	low, top bool // all digits so far are those of lo, or of hi
}

// build adds the automaton from from to m.to.
func (m *magnitude) build(from int32) {
	m.memo = make(map[place]int32)
	l := len(m.lo.whole)
	if m.hi == nil {
		m.b.eps(from, m.at(place{length: l, low: true}))
		s := m.b.bytes(from, '1', '9')
		for range l {
			s = m.b.bytes(s, '0', '9')
		}
		s = m.b.star(s, func(at int32) int32 { return m.b.bytes(at, '0', '9') })
		m.b.eps(s, m.at(place{length: l, pos: l}))
		return
	}
	h := len(m.hi.whole)
	if l > h {
		return
	}
	if l == h {
		m.b.eps(from, m.at(place{length: l, low: true, top: true}))
		return
	}
	m.b.eps(from, m.at(place{length: l, low: true}))
	m.b.eps(from, m.at(place{length: h, top: true}))
	if l+1 < h { // lengths in between, l+1 to h-1
		end := m.at(place{length: l, pos: l})
		s := m.b.bytes(from, '1', '9')
		for i := 1; i < h-1; i++ {
			if i > l {
				m.b.eps(s, end)
			}
			s = m.b.bytes(s, '0', '9')
		}
		m.b.eps(s, end)
	}
}

// at is the state in which p has been read.
func (m *magnitude) at(p place) int32 {
	if p.pos == p.length && !p.low && !p.top {
		p.length, p.pos = 0, 0 // the same after any number of digits
	}
	if s, ok := m.memo[p]; ok {
		return s
	}
	s := m.b.state()
	m.memo[p] = s
	switch {
	case p.length < 0:
		m.fraction(s, p)
	case p.pos < p.length:
		lo, hi := byte('0'), byte('9')
		if p.pos == 0 && p.length > 1 {
			lo = '1'
		}
		if p.low {
			lo = max(lo, m.lo.whole[p.pos])
		}
		if p.top {
			hi = m.hi.whole[p.pos]
		}
		m.digits(s, p, lo, hi, digitAt(m.lo, p), digitAt(m.hi, p), p.length)
	default:
		m.end(s, p, 0)
		if !m.integer {
			dot := m.b.lit(s, ".")
			m.b.eps(dot, m.at(place{length: -1, low: p.low, top: p.top}))
		}
	}
	return s
}

// digitAt is the digit of a bound at p, and '0' after its last digit.
func digitAt(d *decimal, p place) byte {
	if d == nil {
		return 0
	}
	digits := d.whole
	if p.length < 0 {
		digits = d.frac
	}
	if p.pos < len(digits) {
		return digits[p.pos]
	}
	return '0'
}

// digits reads a digit from lo to hi at p. a and z are the digits of the bounds there.
func (m *magnitude) digits(s int32, p place, lo, hi, a, z byte, length int) {
	for c := lo; c <= hi; c++ {
		next := place{length: length, pos: p.pos + 1, low: p.low && c == a, top: p.top && c == z}
		m.b.edge(s, c, c, m.at(m.clip(next)))
	}
}

// clip makes the places after all digits of both bounds equal.
func (m *magnitude) clip(p place) place {
	if p.length >= 0 {
		return p
	}
	n := len(m.lo.frac)
	if m.hi != nil {
		n = max(n, len(m.hi.frac))
	}
	p.pos = min(p.pos, n+1)
	if !p.low && !p.top {
		p.pos = 1
	}
	return p
}

// fraction adds to s what can follow at p, a place after the point.
func (m *magnitude) fraction(s int32, p place) {
	if p.pos > 0 {
		m.end(s, p, p.pos)
	}
	lo, hi := byte('0'), byte('9')
	if p.low {
		lo = digitAt(m.lo, p)
	}
	if p.top {
		hi = digitAt(m.hi, p)
	}
	m.digits(s, p, lo, hi, digitAt(m.lo, p), digitAt(m.hi, p), -1)
}

// end lets the number end after frac digits after the point, if it is in the range.
func (m *magnitude) end(s int32, p place, frac int) {
	if p.low && (len(m.lo.frac) > frac || m.loOpen) {
		return
	}
	if p.top && len(m.hi.frac) <= frac && m.hiOpen {
		return
	}
	m.b.eps(s, m.to)
}

// multiples is the language of the decimals that are multiples of m = p/10^k. Its
// states are the remainder, modulo p, of the digits so far, and how many of them are
// after the point. Digits after the k-th must be 0. It reports false if there would be
// too many states.
func multiples(m *big.Rat, integer bool) (*dfa, bool) {
	k := 0
	p := new(big.Int).Set(m.Num())
	if !m.IsInt() {
		prec, exact := m.FloatPrec()
		if !exact {
			return nil, false
		}
		k = prec
		p = new(big.Rat).Mul(m, new(big.Rat).SetInt(pow10(k))).Num()
	}
	if integer && k > 0 {
		p = new(big.Int).Div(p, new(big.Int).GCD(nil, nil, p, pow10(k)))
		k = 0
	}
	if !p.IsInt64() || p.Int64()*int64(k+2) > dfaLimit || p.Sign() <= 0 {
		return nil, false
	}
	mod := p.Int64()
	scale := make([]int64, k+1) // 10^(k-j) mod p
	for j := range scale {
		scale[j] = new(big.Int).Mod(pow10(k-j), p).Int64()
	}
	// State 0 is the start and 1 is after the sign. Then there is a state for each
	// number of digits after the point (-1: no point yet) and each remainder.
	at := func(j int, r int64) int32 { return int32(2 + int64(j+1)*mod + r) }
	res := &dfa{states: make([]state, 2+int64(k+2)*mod), all: -1}
	digits := func(s int32, j int, r int64) {
		for c := int64(0); c < 10; c++ {
			res.states[s].edges = append(res.states[s].edges, edge{byte('0' + c), byte('0' + c), at(j, (r*10+c)%mod)})
		}
	}
	res.states[0].edges = append(res.states[0].edges, edge{'-', '-', 1})
	digits(0, -1, 0)
	digits(1, -1, 0)
	for r := range mod {
		whole := at(-1, r)
		res.states[whole].accept = r*scale[0]%mod == 0
		res.states[whole].edges = append(res.states[whole].edges, edge{'.', '.', at(0, r)})
		digits(whole, -1, r)
		for j := 0; j <= k; j++ {
			s := at(j, r)
			res.states[s].accept = r*scale[j]%mod == 0
			if j < k {
				digits(s, j+1, r)
			} else {
				res.states[s].edges = append(res.states[s].edges, edge{'0', '0', s})
			}
		}
	}
	return res.trim(), true
}

func pow10(n int) *big.Int {
	return new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n)), nil)
}
