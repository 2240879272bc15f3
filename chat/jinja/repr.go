package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// str is str(v).
func (m *machine) str(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case Markup:
		return string(v)
	case *undefined:
		return ""
	case int64:
		return strconv.FormatInt(v, 10)
	}
	return m.repr(v)
}

// repr is repr(v).
func (m *machine) repr(v Value) string {
	p := printer{m: m}
	p.print(v, 0)
	return string(p.b)
}

// repr is repr(v) for the text of an error, shortened if it is long.
func repr(v Value) string {
	p := printer{}
	p.print(v, 0)
	if len(p.b) > maxErrorRepr {
		return strings.ToValidUTF8(string(p.b[:maxErrorRepr]), "") + "..."
	}
	return string(p.b)
}

const maxErrorRepr = 500

// printer writes Python's repr. With a machine it counts steps and memory; without one it
// stops a little after maxErrorRepr bytes.
type printer struct {
	m *machine
	b []byte
	// counted is how much of b has been counted as memory.
	counted int
	active  []Value // the containers being printed, outermost first
	// namespaces is the number of namespaces among them. Without any, no container can hold
	// itself.
	namespaces int
}

func (p *printer) full() bool { return p.m == nil && len(p.b) > maxErrorRepr }

func (p *printer) print(v Value, depth int) {
	if depth > maxNesting {
		throwRecursion()
	}
	if p.full() {
		return
	}
	switch v := v.(type) {
	case nil:
		p.b = append(p.b, "None"...)
	case bool:
		p.b = append(p.b, pyBool(v)...)
	case int64:
		p.b = strconv.AppendInt(p.b, v, 10)
	case *big.Int:
		if p.m != nil {
			p.m.spend(int64(v.BitLen() >> 6))
		}
		p.b = append(p.b, bigString(v)...)
	case float64:
		p.b = append(p.b, floatString(v)...)
	case string:
		p.text(v)
	case Markup:
		p.b = append(p.b, "Markup("...)
		p.text(string(v))
		p.b = append(p.b, ')')
	case *List, *tuple, *Dict, *view, *namespace:
		if p.namespaces > 0 && p.isActive(v) {
			p.ellipsis(v)
			break
		}
		p.active = append(p.active, v)
		if p.m != nil && p.namespaces > 0 {
			p.m.spend(int64(len(p.active) / 8))
		}
		p.container(v, depth)
		p.active = p.active[:len(p.active)-1]
	case *rangeValue:
		p.b = fmt.Appendf(p.b, "range(%d, %d", v.start, v.stop)
		if v.step != 1 {
			p.b = fmt.Appendf(p.b, ", %d", v.step)
		}
		p.b = append(p.b, ')')
	case *undefined:
		p.b = append(p.b, "Undefined"...)
	case *generator:
		p.b = fmt.Appendf(p.b, "<%s object %sat 0x7f0000000000>", v.typ, v.name)
	case *macro:
		p.b = fmt.Appendf(p.b, "<Macro %s>", v.def.displayName())
	case *loopContext:
		p.b = append(p.b, "<LoopContext "+strconv.Itoa(v.index0+1)...)
		if p.m != nil {
			p.b = append(p.b, "/"+strconv.Itoa(v.len(p.m))...)
		}
		p.b = append(p.b, '>')
	case *boundMethod:
		p.b = fmt.Appendf(p.b, "<built-in method %s of %s object at 0x7f0000000000>", v.name, typeName(v.self))
	case *builtin:
		p.b = fmt.Appendf(p.b, "<function %s at 0x7f0000000000>", v.name)
	case *selfReference:
		p.b = append(p.b, "<TemplateReference None>"...)
	default:
		p.b = fmt.Appendf(p.b, "<%s at 0x7f0000000000>", objectName(v))
	}
	p.count()
}

func (p *printer) count() {
	if p.m != nil {
		p.m.spend(1)
		p.m.alloc(len(p.b) - p.counted)
		p.counted = len(p.b)
	}
}

func (p *printer) isActive(v Value) bool {
	for _, a := range p.active {
		if identical(a, v) {
			return true
		}
	}
	return false
}

func (p *printer) ellipsis(v Value) {
	switch v.(type) {
	case *List:
		p.b = append(p.b, "[...]"...)
	case *tuple:
		p.b = append(p.b, "(...)"...)
	case *namespace:
		p.b = append(p.b, "<Namespace {...}>"...)
	case *view:
		p.b = append(p.b, "..."...)
	default:
		p.b = append(p.b, "{...}"...)
	}
}

func (p *printer) container(v Value, depth int) {
	switch v := v.(type) {
	case *List:
		p.b = append(p.b, '[')
		p.items(v.items, depth)
		p.b = append(p.b, ']')
	case *tuple:
		p.b = append(p.b, '(')
		p.items(v.items, depth)
		if len(v.items) == 1 {
			p.b = append(p.b, ',')
		}
		p.b = append(p.b, ')')
	case *Dict:
		p.dict(v, depth)
	case *view:
		p.b = append(p.b, typeName(v)+"(["...)
		for i := range v.d.keys {
			if i > 0 {
				p.b = append(p.b, ", "...)
			}
			p.print(v.at(i), depth+1)
		}
		p.b = append(p.b, "])"...)
	case *namespace:
		p.namespaces++
		p.b = append(p.b, "<Namespace "...)
		p.dict(v.attrs, depth)
		p.b = append(p.b, '>')
		p.namespaces--
	}
}

func (p *printer) items(items []Value, depth int) {
	for i, x := range items {
		if p.full() {
			return
		}
		if i > 0 {
			p.b = append(p.b, ", "...)
		}
		p.print(x, depth+1)
	}
}

func (p *printer) dict(d *Dict, depth int) {
	p.b = append(p.b, '{')
	for i, k := range d.keys {
		if p.full() {
			return
		}
		if i > 0 {
			p.b = append(p.b, ", "...)
		}
		p.print(k, depth+1)
		p.b = append(p.b, ": "...)
		p.print(d.vals[i], depth+1)
	}
	p.b = append(p.b, '}')
}

// text writes the repr of a str.
func (p *printer) text(s string) {
	if p.m == nil && len(s) > maxErrorRepr {
		s = s[:maxErrorRepr]
	}
	if p.m != nil {
		p.m.alloc(len(s))
		p.m.classify(len(s))
	}
	quote := byte('\'')
	if strings.IndexByte(s, '\'') >= 0 && strings.IndexByte(s, '"') < 0 {
		quote = '"'
	}
	p.b = append(p.b, quote)
	for _, r := range s {
		switch {
		case r == rune(quote) || r == '\\':
			p.b = append(p.b, '\\', byte(r))
		case r == '\n':
			p.b = append(p.b, `\n`...)
		case r == '\r':
			p.b = append(p.b, `\r`...)
		case r == '\t':
			p.b = append(p.b, `\t`...)
		case unicode.IsPrint(r):
			p.b = utf8.AppendRune(p.b, r)
		case r <= 0xff:
			p.b = fmt.Appendf(p.b, `\x%02x`, r)
		case r <= 0xffff:
			p.b = fmt.Appendf(p.b, `\u%04x`, r)
		default:
			p.b = fmt.Appendf(p.b, `\U%08x`, r)
		}
	}
	p.b = append(p.b, quote)
}

func pyBool(b bool) string {
	if b {
		return "True"
	}
	return "False"
}

// floatString is repr of a float: the fewest digits that are read as the same number, with
// an exponent below 1e-4 and from 1e16 on.
func floatString(f float64) string {
	switch a := math.Abs(f); {
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case math.IsNaN(f):
		return "nan"
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.IndexByte(s, '.') < 0 {
		s += ".0"
	}
	return s
}

// bigString is str of an int beyond int64, under Python's limit of digits.
func bigString(b *big.Int) string {
	if b.BitLen() <= 4*maxDigits { // a digit has less than 4 bits
		s := b.String()
		if len(strings.TrimPrefix(s, "-")) <= maxDigits {
			return s
		}
	}
	throwValue("Exceeds the limit (%d digits) for integer string conversion; use sys.set_int_max_str_digits() to increase the limit", maxDigits)
	return ""
}
