package grammar

import (
	"fmt"
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
	// wide has all texts that any validator may take for one of the format. It is for proofs
	// that no text of the format is something else. "": any text.
	wide string
}

// Each format allows a subset of what its RFC allows, which all validators accept. For those
// of jsonschema, Pydantic and Python itself, tools/formats checks that.
const (
	// There is no year 0000: RFC 3339 has it, but Python's datetime does not.
	fmtYear = `(?:\d{3}[1-9]|\d\d[1-9]0|\d[1-9]00|[1-9]000)`
	fmtDate = `(?:` + fmtYear + `-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))` +
		`|(?:\d\d(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)-02-29)`
	// No leap seconds: which minutes may have one depends on the offset. No small t and z, which
	// Python's datetime does not read.
	fmtTime = `(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,9})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`
	// What is longer may be more than a validator can count.
	durNumber  = `\d{1,5}`
	durTime    = `T(?:` + durNumber + `H(?:` + durNumber + `M(?:` + durNumber + `S)?)?|` + durNumber + `M(?:` + durNumber + `S)?|` + durNumber + `S)`
	fmtIPv4    = `(?:(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)\.){3}(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)`
	label      = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,60}[A-Za-z0-9])?`
	shortLabel = `[A-Za-z0-9](?:[A-Za-z0-9-]{0,28}[A-Za-z0-9])?`
	// At most 253 characters in both branches.
	fmtHost = `(?:(?:` + label + `\.){0,3}` + label + `|(?:` + shortLabel + `\.){0,7}` + shortLabel + `)`
	// Together with a local part of 62, at most 254. There is a dot, and letters follow the last
	// one, because validators of addresses want that.
	mailHost = `(?:(?:` + label + `\.){1,2}` + topLabel + `|(?:` + shortLabel + `\.){1,5}` + topLabel + `)`
	topLabel = `[A-Za-z]{2,24}`
	// RFC 5322 has more characters, but zod refuses them.
	atom = `[A-Za-z0-9_+-]{1,20}`
	// ucschar is what RFC 3987 allows beyond ASCII, as far as it is in Unicode's first plane.
	ucschar = `\u00a1-\ud7ff\uf900-\ufdcf\ufdf0-\uffef`
	pointer = `(?:/(?:[^~/]|~[01])*)*`
	varName = `[A-Za-z0-9_](?:\.?[A-Za-z0-9_])*`
)

var formats = map[string]formatRule{
	"date":      {is: fmtDate, wide: `\d{4}-\d\d-\d\d`},
	"time":      {is: fmtTime, wide: `\d\d:\d\d[\s\S]*`},
	"date-time": {is: fmtDate + "T" + fmtTime, wide: `\d{4}-\d\d-\d\d[\s\S]+`},
	"duration":  {is: `P(?:` + durNumber + `W|` + durTime + `|(?:` + durNumber + `D|` + durNumber + `M(?:` + durNumber + `D)?|` + durNumber + `Y(?:` + durNumber + `M(?:` + durNumber + `D)?)?)(?:` + durTime + `)?)`, wide: `P[\s\S]*`},
	"email":     {is: `(?:` + atom + `)(?:\.` + atom + `){0,2}@` + mailHost, not: badMailHosts, wide: `[\s\S]*@[\s\S]*`},
	// A hyphen pair might begin an internationalized label, which has rules of its own.
	"hostname":              {is: fmtHost, not: []string{"--"}, wide: `[^\s@:/?#]*`},
	"ipv4":                  {is: fmtIPv4, wide: `[\d.]*`},
	"ipv6":                  {is: ipv6(), wide: `[^\s/?#@]*:[^\s/?#@]*`},
	"uuid":                  {is: `[0-9A-Fa-f]{8}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{4}-[0-9A-Fa-f]{12}`, wide: `[0-9A-Fa-f-]{32,36}`},
	"uri":                   {is: absoluteURI(""), not: badAuthorities, wide: `[A-Za-z][A-Za-z0-9+.-]*:[\s\S]*`},
	httpURI:                 {is: httpURL(), not: badAuthorities, wide: `[A-Za-z][A-Za-z0-9+.-]*:[\s\S]*`},
	"uri-reference":         {is: uriReference(""), not: badAuthorities},
	"uri-template":          {is: uriTemplate()},
	"json-pointer":          {is: pointer, wide: `(?:/[\s\S]*)?`},
	"relative-json-pointer": {is: `(?:0|[1-9]\d?)(?:#|` + pointer + `)`, wide: `\d[\s\S]*`}, // jsonschema of Python takes no 100
	// Few validators know the international formats, and others take any text for one. They
	// prove nothing, so they have no wide.
	// What is international may be in ASCII. Beyond that, the names of hosts have rules that
	// depend on the script of each character, so those of the next two are in ASCII.
	"idn-hostname":  {is: fmtHost, not: []string{"--"}},
	"idn-email":     {is: `(?:` + atom + `)(?:\.` + atom + `){0,2}@` + mailHost + `|[A-Za-z0-9_` + ucschar + `]{1,20}@` + mailHost, not: badMailHosts},
	"iri":           {is: absoluteURI(ucschar), not: badAuthorities},
	"iri-reference": {is: uriReference(ucschar), not: badAuthorities},
	"regex":         {is: regexText()},
}

var formatNames = slices.Sorted(maps.Keys(formats))

// formatDFAs are made once for a process.
var formatDFAs = sync.OnceValue(func() map[string]*dfa {
	res := make(map[string]*dfa)
	b := newBuilder(nil, 0, unmetered())
	for _, name := range formatNames {
		f := formats[name]
		d, ok := regexDFA(parseRegex(f.is, b.meter), false, b)
		for _, not := range f.not {
			if ok {
				var out *dfa
				if out, ok = regexDFA(parseRegex(not, b.meter), true, b); ok {
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

// enforced reports whether f is a format that is enforced. All others are annotations.
func enforced(f string) bool {
	_, ok := formats[f]
	return ok
}

// wideFormatDFA is the language of all texts that a validator may take for one of the format.
// They are needed seldom, so each is made when it is.
func wideFormatDFA(name string) *dfa {
	wide := formats[name].wide
	if wide == "" {
		return allDFA()
	}
	d, ok := regexDFA(parseRegex(wide, unmetered()), false, newBuilder(nil, 0, unmetered()))
	if !ok {
		panic("grammar: the format " + name + " needs too many states")
	}
	return d
}

// badMailHosts are hosts that are no addresses for mail: a hyphen pair might begin an
// internationalized label, and some names are reserved (RFC 6761 and others).
var badMailHosts = []string{"--", `\.(?:` + anyCase("arpa", "invalid", "local", "localhost", "onion", "test") + `)$`}

// anyCase are words of small letters in any case, as alternatives.
func anyCase(words ...string) string {
	var all []string
	for _, w := range words {
		text := ""
		for _, c := range w {
			text += `[` + string(c) + strings.ToUpper(string(c)) + `]`
		}
		all = append(all, text)
	}
	return strings.Join(all, `|`)
}

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

// authority is that of a URI. Beyond RFC 3986, a host is an address, or a name of which the
// last label is no number, and a port is at most 59999: libraries that follow the URL
// standard of WHATWG, such as Pydantic, refuse everything else.
func authority() string {
	const (
		user = `(?:[A-Za-z0-9._~!$&'()*+,;=:-]*@)?`
		name = `(?:[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?\.)*[A-Za-z](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?`
		port = `(?::(?:0|[1-9]\d{0,3}|[1-5]\d{4}))?`
	)
	return `//(?:` + user + `(?:\[` + ipv6() + `\]|` + fmtIPv4 + `|` + name + `)` + port + `)?`
}

// badAuthorities are what a host must not be, by the same standard: a label in Punycode, which
// must be well-formed, and none at all where the scheme is one of those for which a host is
// needed.
var badAuthorities = []string{
	`^[^/?#]*//[^/?#]*[xX][nN]--`,
	`^(?:` + anyCase("http", "https", "ws", "wss", "ftp") + `):(?:[^/]|/[^/]|//[/?#]|/{0,2}$)`,
	`^` + anyCase("file") + `:(?:[^/]|/[^/]|/?$)`,
}

// httpURI is the name of what Pydantic's HttpUrl allows, which no schema can name.
const httpURI = "uri of http"

// httpURL is a URI of the schemes http and https. JSON Schema has no such format: see
// demandedFormat.
func httpURL() string {
	_, segments, tail := uriParts("")
	return `https?:` + authority() + segments + tail
}

// demandedFormat is the format that a schema means. Pydantic's HttpUrl says no more than that
// it is a URI of at most 2083 characters, and then takes only http and https. Nobody else
// writes this limit. (Its WebsocketUrl, which has the same schema, is rarely used.)
func demandedFormat(t *textRules) string {
	if t.format == "uri" && t.most == 2083 {
		return httpURI
	}
	return t.format
}

// absoluteURI is RFC 3986 or, with more characters than those of ASCII, RFC 3987.
func absoluteURI(more string) string {
	pchar, segments, tail := uriParts(more)
	return `[A-Za-z][A-Za-z0-9+.-]*:(?:` + authority() + segments + `|/(?:` + pchar + `+` + segments + `)?|` + pchar + `+` + segments + `|)` + tail
}

// uriReference is an absoluteURI or a relative reference.
func uriReference(more string) string {
	pchar, segments, tail := uriParts(more)
	return absoluteURI(more) + `|(?:` + authority() + segments + `|/(?:` + pchar + `+` + segments + `)?|` + uriChar(more) + `+` + segments + `|)` + tail
}

// uriChar is a character of a path, without the colon if it is not among more.
func uriChar(more string) string {
	return `(?:[A-Za-z0-9._~!$&'()*+,;=@` + more + `-]|%[0-9A-Fa-f]{2})`
}

// uriParts are the character of a path, the segments of a path that follow a slash each,
// and the query with the fragment.
func uriParts(more string) (pchar, segments, tail string) {
	pchar = uriChar(":" + more)
	return pchar, `(?:/` + pchar + `*)*`, `(?:\?(?:` + pchar + `|[/?])*)?(?:#(?:` + pchar + `|[/?])*)?`
}

// regexText is a part of the regular expressions of ECMAScript that other dialects read
// as well: characters, simple classes and quantifiers, and groups in groups.
func regexText() string {
	const (
		char  = `(?:[A-Za-z0-9 _,:;=!@#%&~'"<>` + ucschar + `-]|\\[dDwWsSnrt^$\\.*+?()\[\]{}|/]|\.)`
		class = `\[\^?(?:[A-Za-z0-9 _.,:;=!@#%]|a-z|A-Z|0-9|\\[dws])+-?\]`
	)
	counts := `\d{1,2}|\d{1,2},`
	for least := range 10 { // the larger number is the second one
		counts += fmt.Sprintf(`|%d,(?:[%d-9]|[1-9]\d)`, least, least)
	}
	alternatives := func(atom string) string {
		term := `(?:` + atom + `)(?:(?:[*+?]|\{(?:` + counts + `)\})\??)?`
		return `(?:` + term + `)+(?:\|(?:` + term + `)+)*`
	}
	inner := alternatives(char + `|` + class)
	outer := alternatives(char + `|` + class + `|\((?:\?:)?` + inner + `\)`)
	return `\^?(?:` + outer + `)\$?`
}

// uriTemplate is RFC 6570, as far as the text around the expressions is a URI
// reference. There are no expressions in an authority, and no colon in a first segment
// without a scheme.
func uriTemplate() string {
	const (
		anyVar   = varName + `(?::[1-9]\d{0,2}|\*)?` // one modifier at most; uri_template of Python takes no 1000
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
