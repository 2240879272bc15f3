package jinja

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatSpec is a parsed specification of a printf-style format ("%-5.2f") or of
// str.format ("{:>5.2f}"):
// [[fill]align][sign][z][#][0][width][grouping][.precision][type].
type formatSpec struct {
	fill      string
	align     byte // '<', '>', '=', '^' or 0
	sign      byte // '+', ' ' or 0 (only minus)
	alt       bool
	width     int
	grouping  byte // ',' or '_' or 0
	precision int  // -1 if absent
	verb      byte // 0 if absent
}

// maxField bounds widths and precisions, which cost memory. No prompt needs more.
const maxField = 1 << 20

// pad fills prefix and body up to the width. With align '=' the padding is put between
// them, so that a sign or 0x stays in front.
func (m *machine) pad(f *formatSpec, prefix, body string, align byte) string {
	if f.align != 0 {
		align = f.align
	}
	m.scan(len(body))
	missing := f.width - runeLen(prefix) - runeLen(body)
	if prefix != "" {
		m.alloc(len(body))
	}
	if missing <= 0 {
		return prefix + body
	}
	fill := f.fill
	if fill == "" {
		fill = " "
	}
	m.allocTimes(int64(missing), len(fill))
	m.alloc(len(body))
	switch align {
	case '<':
		return prefix + body + strings.Repeat(fill, missing)
	case '=':
		return prefix + strings.Repeat(fill, missing) + body
	case '^':
		return strings.Repeat(fill, missing/2) + prefix + body + strings.Repeat(fill, missing-missing/2)
	}
	return strings.Repeat(fill, missing) + prefix + body
}

func (m *machine) formatText(f *formatSpec, s string) string {
	if f.precision >= 0 && f.precision < len(s) {
		m.scan(4 * f.precision)
		s = s[:byteOffset(s, f.precision)]
	}
	return m.pad(f, "", s, '<')
}

func (f *formatSpec) signOf(negative bool) string {
	switch {
	case negative:
		return "-"
	case f.sign != 0:
		return string(f.sign)
	}
	return ""
}

// formatInt writes an int in the base of the verb.
func (m *machine) formatInt(f *formatSpec, v Value) string {
	i := toBig(v)
	base, prefix := 10, ""
	switch f.verb {
	case 'b':
		base, prefix = 2, "0b"
	case 'o':
		base, prefix = 8, "0o"
	case 'x':
		base, prefix = 16, "0x"
	case 'X':
		base, prefix = 16, "0X"
	}
	m.checkBits(i.BitLen())
	var digits string
	if base == 10 {
		digits = bigString(new(big.Int).Abs(i))
	} else {
		digits = new(big.Int).Abs(i).Text(base)
	}
	if f.verb == 'X' {
		digits = strings.ToUpper(digits)
	}
	if f.precision > len(digits) { // only printf-style formats allow it
		m.alloc(f.precision)
		digits = strings.Repeat("0", f.precision-len(digits)) + digits
	}
	if !f.alt {
		prefix = ""
	}
	if f.grouping != 0 {
		size := 3
		if base != 10 {
			size = 4
		}
		digits = m.group(f, digits, size, len(f.signOf(i.Sign() < 0))+len(prefix))
	}
	return m.pad(f, f.signOf(i.Sign() < 0)+prefix, digits, '>')
}

// group puts separators between digits. Zeros that fill the width are grouped too.
func (m *machine) group(f *formatSpec, digits string, size, used int) string {
	rest := ""
	if i := strings.IndexAny(digits, ".e"); i >= 0 {
		digits, rest = digits[:i], digits[i:]
	}
	if f.align == '=' && f.fill == "0" {
		for len(digits)+(len(digits)-1)/size+len(rest)+used < f.width {
			digits = "0" + digits
			m.alloc(len(digits))
		}
	}
	m.alloc(2 * len(digits))
	var b strings.Builder
	for i := range len(digits) {
		if i > 0 && (len(digits)-i)%size == 0 {
			b.WriteByte(f.grouping)
		}
		b.WriteByte(digits[i])
	}
	return b.String() + rest
}

// formatFloat writes a float by the verb e, f, g (or upper case) or %, or without a verb
// by the rules of repr.
func (m *machine) formatFloat(f *formatSpec, x float64) string {
	negative := math.Signbit(x) && !math.IsNaN(x)
	x = math.Abs(x)
	m.spend(4)
	m.alloc(max(f.precision, 0) + 400)
	body := floatDigits(f, x)
	if f.verb >= 'A' && f.verb <= 'Z' {
		body = strings.ToUpper(body)
	}
	if f.grouping != 0 && !math.IsInf(x, 0) && !math.IsNaN(x) {
		body = m.group(f, body, 3, len(f.signOf(negative)))
	}
	return m.pad(f, f.signOf(negative), body, '>')
}

func floatDigits(f *formatSpec, x float64) string {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		s := "inf"
		if math.IsNaN(x) {
			s = "nan"
		}
		if f.verb == '%' {
			s += "%"
		}
		return s
	}
	precision := f.precision
	switch f.verb {
	case 0:
		if precision < 0 {
			return floatString(x)
		}
		s := general(x, max(precision, 1), f.alt)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	case '%':
		if precision < 0 {
			precision = 6
		}
		return point(strconv.FormatFloat(x*100, 'f', precision, 64), f.alt) + "%"
	case 'g', 'G', 'n':
		if precision < 0 {
			precision = 6
		}
		return general(x, max(precision, 1), f.alt)
	}
	if precision < 0 {
		precision = 6
	}
	return point(strconv.FormatFloat(x, f.verb|0x20, precision, 64), f.alt)
}

// point adds the decimal point that the alternate form (#) always has.
func point(s string, alt bool) string {
	if !alt || strings.IndexByte(s, '.') >= 0 {
		return s
	}
	if i := strings.IndexByte(s, 'e'); i >= 0 {
		return s[:i] + "." + s[i:]
	}
	return s + "."
}

// general is C's %g with p significant digits.
func general(x float64, p int, alt bool) string {
	exp := strconv.FormatFloat(x, 'e', p-1, 64)
	at := strings.IndexByte(exp, 'e')
	e, _ := strconv.Atoi(exp[at+1:])
	var digits, tail string
	if e < -4 || e >= p {
		digits, tail = exp[:at], exp[at:]
	} else {
		digits = strconv.FormatFloat(x, 'f', p-1-e, 64)
	}
	if alt {
		return point(digits+tail, true)
	}
	if strings.IndexByte(digits, '.') >= 0 {
		digits = strings.TrimRight(strings.TrimRight(digits, "0"), ".")
	}
	return digits + tail
}

// parseSpec parses the format specification of str.format.
func parseSpec(s, typ string) formatSpec {
	f := formatSpec{precision: -1}
	invalid := func() {
		throwValue("Invalid format specifier '%s' for object of type '%s'", s, typ)
	}
	rest := s
	isAlign := func(c byte) bool { return c == '<' || c == '>' || c == '=' || c == '^' }
	_, n := utf8.DecodeRuneInString(rest)
	switch {
	case n > 0 && len(rest) > n && isAlign(rest[n]):
		f.fill, f.align, rest = rest[:n], rest[n], rest[n+1:]
	case rest != "" && isAlign(rest[0]):
		f.align, rest = rest[0], rest[1:]
	}
	take := func(set string) byte {
		if rest != "" && strings.IndexByte(set, rest[0]) >= 0 {
			c := rest[0]
			rest = rest[1:]
			return c
		}
		return 0
	}
	if f.sign = take("+- "); f.sign == '-' {
		f.sign = 0
	}
	f.alt = take("#") != 0
	if f.fill == "" && take("0") != 0 {
		f.fill = "0"
		if f.align == 0 {
			f.align = '='
		}
	}
	number := func() int {
		n := 0
		for rest != "" && rest[0] >= '0' && rest[0] <= '9' {
			if n = n*10 + int(rest[0]-'0'); n > maxField {
				throwLimit("format width")
			}
			rest = rest[1:]
		}
		return n
	}
	f.width = number()
	f.grouping = take(",_")
	if take(".") != 0 {
		if rest == "" || rest[0] < '0' || rest[0] > '9' {
			throwValue("Format specifier missing precision")
		}
		f.precision = number()
	}
	if len(rest) > 1 {
		invalid()
	}
	if rest != "" {
		f.verb = rest[0]
	}
	return f
}

// format is format(v, spec).
func (m *machine) format(v Value, spec string) string {
	if spec == "" {
		return m.str(v)
	}
	m.scan(2 * len(spec))
	unknown := func(f formatSpec) {
		throwValue("Unknown format code '%c' for object of type '%s'", f.verb, typeName(v))
	}
	switch x := v.(type) {
	case string, Markup:
		f := parseSpec(spec, typeName(v))
		s, _ := asString(v)
		switch {
		case f.verb != 0 && f.verb != 's':
			unknown(f)
		case f.sign != 0:
			throwValue("Sign not allowed in string format specifier")
		case f.alt:
			throwValue("Alternate form (#) not allowed in string format specifier")
		case f.grouping != 0:
			throwValue("Cannot specify '%c' with 's'.", f.grouping)
		case f.align == '=' && f.fill == "0" && !strings.Contains(spec, "="):
			f.align = '<'
		case f.align == '=':
			throwValue("'=' alignment not allowed in string format specifier")
		}
		return m.formatText(&f, s)
	case float64:
		f := parseSpec(spec, "float")
		if !strings.ContainsRune("\x00eEfFgGn%", rune(f.verb)) {
			unknown(f)
		}
		return m.formatFloat(&f, x)
	case bool, int64, *big.Int:
		f := parseSpec(spec, typeName(v))
		if f.verb == 0 && isBool(v) && f.width == 0 && f.align == 0 && f.sign == 0 && f.grouping == 0 && f.precision < 0 {
			return m.str(v)
		}
		return m.formatIntSpec(&f, v, unknown)
	}
	throwType("unsupported format string passed to %s.__format__", typeName(v))
	return ""
}

func isBool(v Value) bool { _, ok := v.(bool); return ok }

func (m *machine) formatIntSpec(f *formatSpec, v Value, unknown func(formatSpec)) string {
	switch f.verb {
	case 0, 'd', 'n', 'b', 'o', 'x', 'X':
		if f.precision >= 0 {
			throwValue("Precision not allowed in integer format specifier")
		}
		return m.formatInt(f, v)
	case 'c':
		return m.pad(f, "", m.char(v), '<')
	case 'e', 'E', 'f', 'F', 'g', 'G', '%':
		return m.formatFloat(f, toFloat(v))
	}
	unknown(*f)
	return ""
}

// char is chr(v).
func (m *machine) char(v Value) string {
	i, ok := asIndex(v)
	if !ok || i < 0 || i > utf8.MaxRune {
		throw("OverflowError", "%%c arg not in range(0x110000)")
	}
	return string(rune(i))
}
