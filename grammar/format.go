package grammar

import (
	"maps"
	"slices"
	"strings"
	"sync"
)

// formatRule is a format: a regular expression for the whole text, and expressions
// that must not match anywhere in it.
type formatRule struct {
	is  string
	not []string
}

// Each format allows a subset of what its RFC allows, which all validators accept.
const (
	fmtDate = `(?:\d{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))` +
		`|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:[02468][048]|[13579][26])00)-02-29)`
	// No leap seconds: which minutes may have one depends on the offset.
	fmtTime    = `(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:[zZ]|[+-](?:[01]\d|2[0-3]):[0-5]\d)`
	durTime    = `T(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S)`
	fmtIPv4    = `(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	label      = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,60}[A-Za-z0-9])?`
	shortLabel = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?`
	// At most 253 characters in both branches.
	fmtHost = `(?:(?:` + label + `\.){0,3}` + label + `|(?:` + shortLabel + `\.){0,7}` + shortLabel + `)`
	// Together with a local part of 62, at most 254.
	mailHost     = `(?:(?:` + label + `\.){0,2}` + label + `|(?:` + shortLabel + `\.){0,5}` + shortLabel + `)`
	atom         = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
	pchar        = `(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})`
	pcharNoColon = `(?:[A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})`
	segments     = `(?:/` + pchar + `*)*`
	queryFrag    = `(?:\?(?:` + pchar + `|[/?])*)?(?:#(?:` + pchar + `|[/?])*)?`
	pointer      = `(?:/(?:[^~/]|~[01])*)*`
	varName      = `[A-Za-z0-9_](?:\.?[A-Za-z0-9_])*(?::[1-9]\d{0,3}|\*)?`
)

var formats = map[string]formatRule{
	"date":      {is: fmtDate},
	"time":      {is: fmtTime},
	"date-time": {is: fmtDate + "[tT]" + fmtTime},
	"duration":  {is: `P(?:\d+W|` + durTime + `|(?:\d+D|\d+M(?:\d+D)?|\d+Y(?:\d+M(?:\d+D)?)?)(?:` + durTime + `)?)`},
	"email":     {is: `(?:` + atom + `)(?:\.` + atom + `){0,2}@` + mailHost, not: []string{"--"}},
	// A hyphen pair might begin an internationalized label, which has rules of its own.
	"hostname":              {is: fmtHost, not: []string{"--"}},
	"ipv4":                  {is: fmtIPv4},
	"ipv6":                  {is: ipv6()},
	"uuid":                  {is: `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}`},
	"uri":                   {is: absoluteURI()},
	"uri-reference":         {is: absoluteURI() + `|(?:` + authority() + segments + `|/(?:` + pchar + `+` + segments + `)?|` + pcharNoColon + `+` + segments + `|)` + queryFrag},
	"uri-template":          {is: uriTemplate()},
	"json-pointer":          {is: pointer},
	"relative-json-pointer": {is: `(?:0|[1-9]\d*)(?:#|` + pointer + `)`},
}

var formatNames = slices.Sorted(maps.Keys(formats))

// formatDFAs are made once for a process.
var formatDFAs = sync.OnceValue(func() map[string]*dfa {
	res := make(map[string]*dfa)
	b := newBuilder(nil, 0, unmetered())
	for _, name := range formatNames {
		f := formats[name]
		d, ok := regexDFA(parseRegex(f.is), false, b)
		for _, not := range f.not {
			if ok {
				var out *dfa
				if out, ok = regexDFA(parseRegex(not), true, b); ok {
					d, ok = d.minus(out)
				}
			}
		}
		if !ok {
			panic("grammar: the format " + name + " needs too many states")
		}
		res[name] = d
	}
	return res
})

func formatDFA(name string) *dfa { return formatDFAs()[name] }

func ipv6() string {
	const h = `[0-9A-Fa-f]{1,4}`
	last := `(?:` + h + `:` + h + `|` + fmtIPv4 + `)`
	parts := []string{`(?:` + h + `:){6}` + last, `::(?:` + h + `:){5}` + last}
	for i := 4; i >= 0; i-- {
		before := `(?:(?:` + h + `:){0,` + string(rune('0'+4-i)) + `}` + h + `)?::`
		rest := last
		if i > 0 {
			rest = `(?:` + h + `:){` + string(rune('0'+i)) + `}` + last
		}
		parts = append(parts, before+rest)
	}
	parts = append(parts, `(?:(?:`+h+`:){0,5}`+h+`)?::`+h, `(?:(?:`+h+`:){0,6}`+h+`)?::`)
	return `(?:` + strings.Join(parts, `|`) + `)`
}

func authority() string {
	const user = `(?:[A-Za-z0-9._~!$&'()*+,;=:-]*@)?`
	return `//` + user + `(?:\[` + ipv6() + `\]|[A-Za-z0-9._~!$&'()*+,;=-]*)(?::\d{0,5})?`
}

func absoluteURI() string {
	return `[A-Za-z][A-Za-z0-9+.-]*:(?:` + authority() + segments + `|/(?:` + pchar + `+` + segments + `)?|` + pchar + `+` + segments + `|)` + queryFrag
}

// uriTemplate is RFC 6570, as far as the text around the expressions is a URI
// reference. There are no expressions in an authority, and no colon in a first segment
// without a scheme.
func uriTemplate() string {
	const (
		anyVar   = varName + `(?::[1-9]\d{0,3}|\*)?`
		plainVar = varName + `\*?`
		expr     = `\{[+#./;?&]?` + anyVar + `(?:,` + anyVar + `)*\}`
		plain    = `\{[+#./;?&]?` + plainVar + `(?:,` + plainVar + `)*\}`
		char     = `[A-Za-z0-9._~!$&()*+,;=@\u00a1-\ud7ff\ue000-\u{10ffff}-]|%[0-9A-Fa-f]{2}`
		more     = `(?:[/?#](?:` + char + `|[:/?#]|` + expr + `)*)?`
		first    = `(?:` + char + `|` + plain + `)`
		host     = `//[A-Za-z0-9._-]+(?::\d{1,5})?` + more
		path     = `/(?:(?:` + char + `|[:?#]|` + expr + `)(?:` + char + `|[:/?#]|` + expr + `)*)?`
	)
	return `(?:[A-Za-z][A-Za-z0-9+.-]*:(?:` + host + `|` + path + `|` + first + `+` + more + `)|` + host + `|` + path + `|` + first + `*` + more + `)`
}
