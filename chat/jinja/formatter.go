package jinja

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// formatMethod is str.format and str.format_map, in the sandbox's version:
// attributes and items are looked up by the template's own rules.
func (m *machine) formatMethod(name, s string, a args, markup bool) string {
	if name == "format_map" {
		if len(a.kw) > 0 {
			throwType("format_map() takes no keyword arguments")
		}
		if len(a.pos) != 1 {
			throwType("format_map() takes exactly one argument (%d given)", len(a.pos))
		}
	}
	f := &formatter{m: m, args: a, markup: markup, auto: -1}
	if name == "format_map" {
		f.args, f.mapping = args{}, a.pos[0]
	}
	m.spend(int64(len(s) >> 5)) // beside the fields
	start := len(m.out)
	f.run(s, 2)
	return m.take(start)
}

// formatter writes one format string.
type formatter struct {
	m       *machine
	args    args
	mapping Value // format_map's argument
	markup  bool
	auto    int // number of fields without a number so far; -1 before the first field, -2 if fields have numbers
}

// run writes s. depth bounds fields within the specifications of fields.
func (f *formatter) run(s string, depth int) {
	if depth < 0 {
		throwValue("Max string recursion exceeded")
	}
	for s != "" {
		i := strings.IndexAny(s, "{}")
		if i < 0 {
			f.m.write(s)
			return
		}
		f.m.write(s[:i])
		f.m.spend(1)
		if len(s) > i+1 && s[i+1] == s[i] {
			f.m.write(s[i : i+1])
			s = s[i+2:]
			continue
		}
		if s[i] == '}' {
			throwValue("Single '}' encountered in format string")
		}
		if s = s[i+1:]; s == "" {
			throwValue("Single '{' encountered in format string")
		}
		var fl field
		fl, s = parseField(s)
		f.write(fl, depth)
	}
}

// field is {name!conversion:spec}.
type field struct {
	name, spec string
	conversion rune // 0: none
}

// parseField reads a field up to and including its closing brace and returns the rest.
func parseField(s string) (f field, rest string) {
	end := fieldNameEnd(s)
	f.name, rest = s[:end], s[end+1:]
	stop := s[end]
	if stop == '!' {
		if rest == "" {
			throwValue("end of string while looking for conversion specifier")
		}
		c, n := utf8.DecodeRuneInString(rest)
		f.conversion, rest = c, rest[n:]
		if rest != "" {
			stop, rest = rest[0], rest[1:]
			if stop != ':' && stop != '}' {
				throwValue("expected ':' after conversion specifier")
			}
		}
	}
	if stop == '}' {
		return f, rest
	}
	end = closingBrace(rest)
	if end < 0 {
		throwValue("unmatched '{' in format spec")
	}
	f.spec = rest[:end]
	return f, rest[end+1:]
}

// fieldNameEnd returns where the name of a field ends: at the first of "}:!" outside of
// brackets.
func fieldNameEnd(s string) int {
	i := 0
	for ; i < len(s) && strings.IndexByte("}:!", s[i]) < 0; i++ {
		switch s[i] {
		case '{':
			throwValue("unexpected '{' in field name")
		case '[':
			n := strings.IndexByte(s[i:], ']')
			if n < 0 {
				n = len(s) - i - 1
			}
			i += n
		}
	}
	if i >= len(s) {
		throwValue("expected '}' before end of string")
	}
	return i
}

// closingBrace returns where the brace closes that was opened before s, or -1.
func closingBrace(s string) int {
	open := 1
	for i := range len(s) {
		switch s[i] {
		case '{':
			open++
		case '}':
			if open--; open == 0 {
				return i
			}
		}
	}
	return -1
}

// write writes a field.
func (f *formatter) write(fl field, depth int) {
	m, spec := f.m, fl.spec
	v := f.lookup(fl.name)
	switch fl.conversion {
	case 0:
	case 's':
		v = m.str(v)
	case 'r':
		v = m.repr(v)
	case 'a':
		v = m.asciiRepr(v)
	default:
		throwValue("Unknown conversion specifier %c", fl.conversion)
	}
	if strings.ContainsAny(spec, "{}") {
		start := len(m.out)
		f.run(spec, depth-1)
		spec = m.take(start)
	}
	if !f.markup {
		m.write(m.format(v, spec))
		return
	}
	if s, ok := v.(Markup); ok {
		if spec != "" {
			throwValue("Unsupported format specification for Markup.")
		}
		m.write(string(s))
		return
	}
	m.write(m.escape(m.format(v, spec)))
}

// lookup resolves a field's name: first.attr[key]...
func (f *formatter) lookup(name string) Value {
	end := strings.IndexAny(name, ".[")
	first, rest := name, ""
	if end >= 0 {
		first, rest = name[:end], name[end:]
	}
	v := f.first(first)
	m := f.m
	for rest != "" {
		m.spend(1)
		if rest[0] == '.' {
			rest = rest[1:]
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			if end == 0 {
				throwValue("Empty attribute in format string")
			}
			v = m.attribute(v, rest[:end])
			rest = rest[end:]
			continue
		}
		end := strings.IndexByte(rest, ']')
		if end < 0 {
			throwValue("Missing ']' in format string")
		}
		key := rest[1:end]
		if key == "" {
			throwValue("Empty attribute in format string")
		}
		if i, err := strconv.ParseInt(key, 10, 64); err == nil && key[0] != '-' && key[0] != '+' {
			v = m.item(v, i)
		} else {
			v = m.item(v, key)
		}
		if rest = rest[end+1:]; rest != "" && rest[0] != '.' && rest[0] != '[' {
			throwValue("Only '.' or '[' may follow ']' in format field specifier")
		}
	}
	return v
}

func (f *formatter) first(name string) Value {
	number := -1
	if name == "" {
		if f.auto == -2 {
			throwValue("cannot switch from manual field specification to automatic field numbering")
		}
		f.auto = max(f.auto, 0)
		number = f.auto
		f.auto++
	} else if i, err := strconv.Atoi(name); err == nil && name[0] != '-' && name[0] != '+' {
		if f.auto >= 0 {
			throwValue("cannot switch from manual field specification to automatic field numbering")
		}
		f.auto = -2
		number = i
	}
	if number >= 0 {
		if number >= len(f.args.pos) {
			throw("IndexError", "tuple index out of range")
		}
		return f.args.pos[number]
	}
	if f.mapping != nil {
		switch d := f.mapping.(type) {
		case *Dict:
			if i := d.findText(f.m, name); i >= 0 {
				return d.vals[i]
			}
		case *List, *tuple:
			throwType("%s indices must be integers or slices, not str", typeName(d))
		default:
			throwType("'%s' object is not subscriptable", typeName(d))
		}
	} else {
		f.m.spend(int64(len(f.args.kw)>>4 + len(name)>>7))
		if v, ok := f.args.keyword(name); ok {
			return v
		}
	}
	throw("KeyError", "%s", repr(name))
	return nil
}
