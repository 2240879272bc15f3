package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
)

func numberFilters() map[string]*filterDef {
	return map[string]*filterDef{
		"abs": {raw: func(m *machine, v Value, a args) Value {
			if len(a.pos)+len(a.kw) > 0 {
				throwType("abs() takes exactly one argument (%d given)", len(a.pos)+len(a.kw)+1)
			}
			switch x := v.(type) {
			case float64:
				return math.Abs(x)
			case *undefined:
				throwType("bad operand type for abs(): 'Undefined'")
			}
			if !isNumber(v) {
				throwType("bad operand type for abs(): '%s'", typeName(v))
			}
			if m.numbers(v, int64(0)) < 0 {
				return m.negate(v)
			}
			return m.positive(v)
		}},
		"int":   newFilter("do_int", 1, "default base", 0, filterInt),
		"float": newFilter("do_float", 1, "default", 0, filterFloat),
		"round": newFilter("do_round", 1, "precision method", 0, filterRound),
		"filesizeformat": newFilter("do_filesizeformat", 1, "binary", 0, func(m *machine, v Value, a []Value) Value {
			return m.fileSize(m.mustFloat(v), m.flag(a[0]))
		}),
	}
}

func (m *machine) fileSize(size float64, binary bool) string {
	base, kilo := 1000.0, []string{"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"}
	if binary {
		base, kilo = 1024.0, []string{"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"}
	}
	switch {
	case size == 1:
		return "1 Byte"
	case size < base:
		return m.str(truncate(size)) + " Bytes"
	}
	unit, name := base, ""
	for _, name = range kilo {
		if unit *= base; size < unit {
			break
		}
	}
	return strconv.FormatFloat(base*size/unit, 'f', 1, 64) + " " + name
}

// toInt is int(v) of a number or text. ok is false where Python raises TypeError or
// ValueError.
func (m *machine) toInt(v Value, base int64) (Value, bool) {
	switch x := v.(type) {
	case string, Markup:
		s, _ := asString(v)
		m.classify(len(s))
		return parseInt(s, base)
	case int64, *big.Int:
		return v, true
	case bool:
		return m.positive(v), true
	case float64:
		if math.IsNaN(x) {
			return nil, false
		}
		return truncate(x), true
	case *undefined:
		x.raise()
	}
	return nil, false
}

func filterInt(m *machine, v Value, a []Value) Value {
	var absent Value = int64(0)
	if !isMissing(a[0]) {
		absent = a[0]
	}
	base := int64(10)
	if !isMissing(a[1]) {
		if _, isText := asString(v); isText {
			n, ok := asIndex(a[1])
			if !ok || n != 0 && n < 2 || n > 36 {
				return m.intOfFloat(v, absent)
			}
			base = n
		}
	}
	if i, ok := m.toInt(v, base); ok {
		return i
	}
	return m.intOfFloat(v, absent)
}

// intOfFloat is what |int tries if int(v) fails: "42.23"|int is 42.
func (m *machine) intOfFloat(v, absent Value) Value {
	f, ok := m.toFloatLoose(v)
	if !ok || math.IsNaN(f) || math.IsInf(f, 0) {
		return absent
	}
	return truncate(f)
}

// toFloatLoose is float(v). ok is false where Python raises TypeError or ValueError.
func (m *machine) toFloatLoose(v Value) (float64, bool) {
	if s, ok := asString(v); ok {
		m.classify(len(s))
		if !isASCII(s) {
			m.spend(int64(len(s)))
		}
		return parseFloat(s)
	}
	if u, ok := v.(*undefined); ok {
		u.raise()
	}
	if !isNumber(v) {
		return 0, false
	}
	return toFloat(v), true
}

func (m *machine) mustFloat(v Value) float64 {
	f, ok := m.toFloatLoose(v)
	if !ok {
		if s, isText := asString(v); isText {
			throwValue("could not convert string to float: %s", repr(s))
		}
		throwType("float() argument must be a string or a real number, not '%s'", typeName(v))
	}
	return f
}

func filterFloat(m *machine, v Value, a []Value) Value {
	if f, ok := m.toFloatLoose(v); ok {
		return f
	}
	if isMissing(a[0]) {
		return 0.0
	}
	return a[0]
}

// asciiDigits replaces every decimal digit of any script by the ASCII digit, because
// int() and float() read them all.
func asciiDigits(s string) string {
	if isASCII(s) {
		return s
	}
	return strings.Map(func(r rune) rune {
		if r < 0x80 || !unicode.IsDigit(r) {
			return r
		}
		zero := r
		for unicode.IsDigit(zero-1) && r-zero < 9 {
			zero--
		}
		return '0' + r - zero
	}, s)
}

// parseInt is int(s, base), base 0 or 2 to 36.
func parseInt(s string, base int64) (Value, bool) {
	s = strings.TrimFunc(s, isSpace)
	if len(s) > 8*maxDigits { // a digit has at most four bytes, and an underscore beside it
		return nil, false
	}
	s = asciiDigits(s)
	sign := ""
	if s != "" && (s[0] == '-' || s[0] == '+') {
		if s[0] == '-' {
			sign = "-"
		}
		s = s[1:]
	}
	if len(s) > 2 && s[0] == '0' {
		prefix := map[byte]int64{'x': 16, 'o': 8, 'b': 2}[s[1]|0x20]
		if prefix != 0 && (base == prefix || base == 0) {
			s, base = s[2:], prefix
			s = strings.TrimPrefix(s, "_")
		}
	}
	if base == 0 {
		if len(s) > 1 && s[0] == '0' && strings.Trim(s, "0_") != "" {
			return nil, false
		}
		base = 10
	}
	if s == "" || strings.HasPrefix(s, "_") || strings.HasSuffix(s, "_") || strings.Contains(s, "__") {
		return nil, false
	}
	s = strings.ReplaceAll(s, "_", "")
	if s[0] == '-' || s[0] == '+' || len(s) > maxDigits {
		return nil, false
	}
	if i, err := strconv.ParseInt(sign+s, int(base), 64); err == nil {
		return i, true
	}
	b, ok := new(big.Int).SetString(sign+s, int(base))
	if !ok {
		return nil, false
	}
	return normalize(b), true
}

// parseFloat is float(s).
func parseFloat(s string) (float64, bool) {
	s = asciiDigits(strings.TrimFunc(s, isSpace))
	plain := strings.ToLower(strings.TrimLeft(s, "+-"))
	switch plain {
	case "inf", "infinity", "nan":
	default:
		for i := range len(s) {
			if strings.IndexByte("0123456789.eE+-_", s[i]) < 0 {
				return 0, false
			}
			if s[i] == '_' && (i == 0 || i == len(s)-1 || !isDigitByte(s[i-1]) || !isDigitByte(s[i+1])) {
				return 0, false
			}
		}
		s = strings.ReplaceAll(s, "_", "")
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil && !math.IsInf(f, 0) {
		return 0, false
	}
	return f, true
}

func isDigitByte(c byte) bool { return c >= '0' && c <= '9' }

func filterRound(m *machine, v Value, a []Value) Value {
	method := "common"
	if !isMissing(a[1]) {
		method, _ = asString(a[1])
	}
	if method != "common" && method != "ceil" && method != "floor" {
		throw("FilterArgumentError", "method must be common, ceil or floor")
	}
	var precision Value = int64(0)
	if !isMissing(a[0]) {
		precision = a[0]
	}
	if method == "common" {
		return m.round(v, precision)
	}
	// func(value * (10**precision)) / (10**precision)
	scale := m.arithmetic(tokPow, int64(10), precision)
	x, ok := m.repeat(v, scale)
	if !ok {
		x = m.arithmetic(tokMul, v, scale)
	}
	if !isNumber(x) {
		throwType("must be real number, not %s", typeName(x))
	}
	if f, ok := x.(float64); ok {
		if method == "ceil" {
			f = math.Ceil(f)
		} else {
			f = math.Floor(f)
		}
		x = truncate(f)
	}
	return m.arithmetic(tokDiv, x, scale)
}

// round is round(v, digits): a value in the middle is rounded to even.
func (m *machine) round(v, digits Value) Value {
	switch x := v.(type) {
	case bool, int64, *big.Int:
		n := mustIndex(digits)
		if n >= 0 {
			return m.positive(v)
		}
		if n < -maxDigits {
			return int64(0)
		}
		return m.roundInt(toBig(v), -n)
	case float64:
		return roundFloat(x, mustIndex(digits))
	case *undefined:
		throwType("type Undefined doesn't define __round__ method")
	}
	throwType("type %s doesn't define __round__ method", typeName(v))
	return nil
}

func (m *machine) roundInt(x *big.Int, digits int64) Value {
	m.checkBits(4 * int(digits))
	m.spend(words(x) * (digits/16 + 1) / 64)
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(digits), nil)
	q, r := new(big.Int).DivMod(x, unit, new(big.Int)) // r >= 0
	twice := r.Lsh(r, 1)
	if c := twice.Cmp(unit); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return normalize(q.Mul(q, unit))
}

func roundFloat(x float64, digits int64) Value {
	if math.IsInf(x, 0) || math.IsNaN(x) || x == 0 || digits > 330 {
		return x
	}
	if digits < -330 {
		return math.Copysign(0, x)
	}
	if digits >= 0 {
		f, err := strconv.ParseFloat(strconv.FormatFloat(x, 'f', int(digits), 64), 64)
		if err != nil {
			throw("OverflowError", "rounded value too large to represent")
		}
		return f
	}
	// Round the exact decimal expansion at a place left of the point.
	exact, _ := new(big.Float).SetFloat64(x).Rat(nil)
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(-digits), nil)
	scaled := new(big.Rat).Quo(exact, new(big.Rat).SetInt(unit))
	whole := roundHalfEven(scaled)
	f, _ := new(big.Float).SetInt(whole.Mul(whole, unit)).Float64()
	if f == 0 {
		return math.Copysign(0, x)
	}
	return f
}

func roundHalfEven(r *big.Rat) *big.Int {
	q, rem := new(big.Int).DivMod(r.Num(), r.Denom(), new(big.Int))
	if c := rem.Lsh(rem, 1).Cmp(r.Denom()); c > 0 || c == 0 && q.Bit(0) == 1 {
		q.Add(q, big.NewInt(1))
	}
	return q
}
