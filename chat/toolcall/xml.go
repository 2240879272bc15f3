package toolcall

import (
	"bytes"
	"strings"

	"weir/internal/jsontext"
)

// xmlStyle is a way to write arguments as tags with their names. Strings stand there as they
// are, everything else as JSON, or at least what templates make of it.
type xmlStyle struct {
	grammar string // what package grammar calls it
	key     string // what stands before a name
	keyEnd  string // and after it
	value   string // what stands before a value, after that
	end     string // what ends a value, which has no such text in it
	lines   bool   // a line break after the beginning and one before the end of a value are not of it
	typed   bool   // after a name, an attribute says whether the value is a string
}

var (
	qwenXML     = xmlStyle{grammar: "qwen_names_xml", key: "<parameter=", keyEnd: ">", end: "</parameter>", lines: true}
	seedXML     = xmlStyle{grammar: "qwen_names_xml", key: "<parameter=", keyEnd: ">", end: "</parameter>", lines: true}
	minimaxXML  = xmlStyle{grammar: "minimax_xml", key: `<parameter name="`, keyEnd: `">`, end: "</parameter>", lines: true}
	glmXML      = xmlStyle{grammar: "glm_xml", key: "<arg_key>", keyEnd: "</arg_key>", value: "<arg_value>", end: "</arg_value>", lines: true}
	longcatXML  = xmlStyle{grammar: "longcat_xml", key: "<longcat_arg_key>", keyEnd: "</longcat_arg_key>", value: "<longcat_arg_value>", end: "</longcat_arg_value>", lines: true}
	deepseekXML = xmlStyle{grammar: "deepseek_xml", key: `<｜DSML｜parameter name="`, keyEnd: `" string="`, end: "</｜DSML｜parameter>", typed: true}
)

// xmlReader is the state within such arguments.
type xmlReader struct {
	tool   []byte // the schema of the arguments, if it is known
	some   bool   // there has been an argument
	schema schema // of the value
	text   bool   // the value is a string, and passed on as it comes
	first  bool   // nothing of the value has come yet
	value  []byte // what there is of a value that is no string
	out    []byte // JSON that is returned
}

// readXML begins to read the arguments of a call.
func (p *Parser) readXML(name string) {
	p.xml.some, p.xml.tool = false, nil
	for i := range p.tools {
		if p.tools[i].Name == name {
			p.xml.tool = p.tools[i].Parameters
		}
	}
}

// parameters takes the beginning of an argument, or the end of the call.
func (p *Parser) parameters(text []byte, last bool) (rest []byte, more bool) {
	style := p.use.xml
	c := &cursor{b: text}
	is := c.prefix(p.use.after)
	if is == unclear && last { // a part of the end may do
		if c.i, c.last = 0, true; c.prefix(p.use.after) == yes {
			is = yes
		}
	}
	if is == yes {
		p.argument([]byte("}"), true)
		return p.ended(text[c.i:]), true
	}
	if is == not {
		is = c.parameter(style)
	}
	switch {
	case is == unclear && last: // the call is cut
		return nil, false
	case is == unclear:
		return text, false
	case is == not: // the call has no end
		p.argument([]byte("}"), true)
		return p.ended(text), true
	}
	x := &p.xml
	x.schema = parameter(x.tool, c.name)
	x.out = x.out[:0]
	if x.some {
		x.out = append(x.out, ", "...)
	}
	x.some, x.first, x.value = true, true, x.value[:0]
	x.out = append(jsontext.AppendString(x.out, c.name), ": "...)
	if x.text = x.schema.kinds(0) == isString; style.typed {
		x.text = c.isText
	}
	if x.text {
		x.out = append(x.out, '"')
	}
	p.argument(p.keep(x.out), false)
	p.state = inValue
	return text[c.i:], true
}

// parameter reads the beginning of an argument.
func (c *cursor) parameter(style *xmlStyle) verdict {
	if is := c.match(style.key); is != yes {
		return is
	}
	rest := c.b[c.i:]
	at := bytes.Index(rest, []byte(style.keyEnd))
	if name := rest[:max(at, 0)]; at >= 0 && (len(name) > longestName || bytes.ContainsAny(name, "\r\n")) {
		return not
	}
	if at < 0 {
		rest = rest[:len(rest)-unfinished([]string{style.keyEnd}, rest)]
		if len(rest) > longestName || bytes.ContainsAny(rest, "\r\n") {
			return not
		}
		return unclear
	}
	c.name = string(rest[:at])
	c.i += at + len(style.keyEnd)
	if style.typed {
		for _, b := range []bool{true, false} {
			is := c.match(map[bool]string{true: `true">`, false: `false">`}[b])
			if is != not {
				c.isText = b
				return is
			}
		}
		return not
	}
	return c.match(style.value)
}

// value takes a part of the value of an argument.
func (p *Parser) value(text []byte, last bool) (rest []byte, more bool) {
	style, x := p.use.xml, &p.xml
	at := bytes.Index(text, []byte(style.end))
	whole := at >= 0
	if !whole {
		at = len(text)
		if !last {
			at -= unfinished([]string{style.end}, text)
		}
	}
	part, rest := text[:at], text[at:]
	if whole {
		rest = rest[len(style.end):]
	}
	if !x.text {
		x.value = append(x.value, part...)
		if whole {
			p.argument(x.convert(style), false)
			p.state = inParameters
		} else if last && len(x.value) > 0 {
			p.argument(p.keep(x.value), false)
		}
		return rest, whole
	}
	if style.lines && x.first && len(part) > 0 {
		if part[0] == '\n' {
			part = part[1:]
		}
		x.first = false
	}
	if style.lines && len(part) > 0 && part[len(part)-1] == '\n' {
		if whole {
			part = part[:len(part)-1]
		} else if !last {
			part = part[:len(part)-1]
			rest = text[at-1:]
		}
	}
	x.out = appendEscaped(x.out[:0], part)
	if whole {
		x.out = append(x.out, '"')
		p.state = inParameters
	}
	if len(x.out) > 0 {
		p.argument(p.keep(x.out), false)
	}
	return rest, whole
}

// appendEscaped appends text as it stands within a JSON string.
func appendEscaped(dst, text []byte) []byte {
	const hex = "0123456789abcdef"
	for _, b := range text {
		switch {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b == '\n':
			dst = append(dst, `\n`...)
		case b == '\t':
			dst = append(dst, `\t`...)
		case b == '\r':
			dst = append(dst, `\r`...)
		case b < 0x20:
			dst = append(dst, '\\', 'u', '0', '0', hex[b>>4], hex[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return dst
}

// convert makes JSON of a value that may be no string.
func (x *xmlReader) convert(style *xmlStyle) []byte {
	text := x.value
	if style.lines {
		text = bytes.TrimPrefix(text, []byte("\n"))
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	quoted := append(appendEscaped([]byte{'"'}, text), '"')
	v, ok := asJSON(text)
	if ok && (style.typed || x.schema.obeys(v, 0) == yes || x.schema.obeys(quoted, 0) == not) {
		return bytes.Clone(v)
	}
	if v, is := pythonLiteral(text); is && !ok && x.schema.obeys(v, 0) == yes && x.schema.obeys(quoted, 0) == not {
		return v
	}
	return quoted
}

// asJSON reads text as JSON that is no string, or as what Python writes for such a value.
func asJSON(text []byte) (v jsontext.Value, ok bool) {
	text = bytes.Trim(text, blanks)
	switch strings.ToLower(string(text[:min(len(text), 6)])) {
	case "":
		return nil, false
	case "true", "false", "null":
		return jsontext.Value(bytes.ToLower(text)), true
	case "none":
		return jsontext.Value("null"), true
	}
	if text[0] != '"' && jsontext.Check(text, 256) == nil {
		return jsontext.Value(text), true
	}
	return nil, false
}
