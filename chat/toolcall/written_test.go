package toolcall

import "strings"

// written is what the family's template makes of some calls.
func written(f *Format, calls ...Call) string {
	var list []string
	for _, c := range calls {
		switch {
		case f.object:
			list = append(list, f.before+`{"`+f.nameKey+`": "`+c.Name+`", "`+f.argumentsKey+`": `+string(c.Arguments)+"}"+f.after)
		default:
			list = append(list, f.before+c.Name+f.colon+string(c.Arguments)+f.after)
		}
	}
	return f.section + strings.Join(list, f.between) + f.sectionEnd
}
