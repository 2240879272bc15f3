package toolcall

import (
	"strconv"
	"strings"

	"weir/internal/jsontext"
)

// written is what the family's template makes of some calls.
func written(f *Format, calls ...Call) string {
	var list []string
	for i, c := range calls {
		switch {
		case f.object:
			list = append(list, f.before+`{"`+f.nameKey+`": "`+c.Name+`", "`+f.argumentsKey+`": `+string(c.Arguments)+"}"+f.after)
		case f.python == &inGemma:
			list = append(list, f.before+c.Name+"{"+writtenGemma(c.Arguments)+"}"+f.after)
		case f.python != nil:
			list = append(list, f.before+c.Name+"("+writtenPython(c.Arguments)+")"+f.after)
		case f.xml != nil:
			list = append(list, f.before+c.Name+f.colon+writtenXML(f.xml, c.Arguments)+f.after)
		case f.infix == ":":
			list = append(list, f.before+f.prefix+c.Name+f.infix+strconv.Itoa(i)+f.colon+string(c.Arguments)+f.after)
		case f.infix != "":
			list = append(list, f.before+c.Name+f.infix+"aBcD12345"+f.colon+string(c.Arguments)+f.after)
		default:
			list = append(list, f.before+c.Name+f.colon+string(c.Arguments)+f.after)
		}
	}
	return strings.ReplaceAll(f.section+strings.Join(list, f.between)+f.sectionEnd, "\v", "")
}

func writtenXML(x *xmlStyle, arguments []byte) string {
	var b strings.Builder
	for name, v := range jsontext.Trim(arguments).Members() {
		text := string(v)
		if v.Kind() == jsontext.String {
			text = v.Text()
		}
		b.WriteString(x.key + string(name) + x.keyEnd)
		if x.typed {
			b.WriteString(strconv.FormatBool(v.Kind() == jsontext.String) + `">`)
		}
		b.WriteString(x.value + text + x.end + "\n")
	}
	return b.String()
}

func writtenPython(arguments []byte) string {
	var list []string
	for name, v := range jsontext.Trim(arguments).Members() {
		list = append(list, string(name)+"="+string(v))
	}
	return strings.Join(list, ", ")
}

func writtenGemma(arguments []byte) string {
	var list []string
	for name, v := range jsontext.Trim(arguments).Members() {
		text := string(v)
		if v.Kind() == jsontext.String {
			text = `<|"|>` + v.Text() + `<|"|>`
		}
		list = append(list, string(name)+":"+text)
	}
	return strings.Join(list, ",")
}
