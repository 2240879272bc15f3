package toolcall

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"weir/internal/jsontext"
)

// Where strings are written without quotes, a schema decides what a text is. This is no validator
// of schemas: what it does not know leaves the question open.

// schema is a schema in the document that its references are resolved in. Without a value it
// allows everything.
type schema struct {
	v    jsontext.Value
	root jsontext.Value
}

// deepest bounds how far references and choices of schemas are followed.
const deepest = 16

// parameter is the schema of the argument called name. The first of parameters is its document.
func parameter(parameters []byte, name string) schema {
	root := jsontext.Trim(parameters)
	s, _ := schema{root, root}.property(name, 0)
	return s
}

// object reports whether s is an object, and so says something.
func (s schema) object() bool { return len(s.v) > 0 && s.v.Kind() == jsontext.Object }

// property returns the schema that s has for a property.
func (s schema) property(name string, depth int) (found schema, ok bool) {
	if s = s.resolved(); depth > deepest || !s.object() {
		return schema{}, false
	}
	if of := s.v.Member("properties").Member(name); of != nil {
		return schema{of, s.root}, true
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf"} {
		for _, e := range s.v.Member(key).Elements() {
			if found, ok = (schema{e, s.root}).property(name, depth+1); ok {
				return found, true
			}
		}
	}
	if more := s.v.Member("additionalProperties"); more != nil {
		return schema{more, s.root}, true
	}
	return schema{}, false
}

// resolved follows references.
func (s schema) resolved() schema {
	for range deepest {
		if !s.object() {
			return s
		}
		ref := s.v.Member("$ref")
		if len(ref) == 0 || ref.Kind() != jsontext.String {
			return s
		}
		path, local := strings.CutPrefix(ref.Text(), "#")
		if !local {
			return schema{}
		}
		at := s.root
		for step := range strings.SplitSeq(strings.TrimPrefix(path, "/"), "/") {
			if path != "" {
				at = at.Member(strings.NewReplacer("~1", "/", "~0", "~").Replace(step))
			}
		}
		if at == nil {
			return schema{}
		}
		s.v = at
	}
	return schema{}
}

// kinds is a set of types of JSON.
type kinds uint8

const (
	isNull kinds = 1 << iota
	isBool
	isNumber
	isString
	isArray
	isObject
	isAny = 1<<iota - 1
)

func kindOf(v jsontext.Value) kinds {
	switch v.Kind() {
	case jsontext.Null:
		return isNull
	case jsontext.Bool:
		return isBool
	case jsontext.String:
		return isString
	case jsontext.Array:
		return isArray
	case jsontext.Object:
		return isObject
	}
	return isNumber
}

var kindNames = map[string]kinds{"null": isNull, "boolean": isBool, "number": isNumber, "integer": isNumber, "string": isString, "array": isArray, "object": isObject}

// kinds are the types that s allows, and perhaps more.
func (s schema) kinds(depth int) kinds {
	if s = s.resolved(); depth > deepest || !s.object() {
		return isAny
	}
	all := kinds(isAny)
	if of := s.v.Member("type"); of != nil {
		all = typesOf(of)
	}
	if v := s.v.Member("const"); v != nil {
		all &= kindOf(v)
	}
	if list := s.v.Member("enum"); list != nil {
		some := kinds(0)
		for _, v := range list.Elements() {
			some |= kindOf(v)
		}
		all &= some
	}
	for _, key := range []string{"anyOf", "oneOf"} {
		if list := s.v.Member(key); list != nil {
			some := kinds(0)
			for _, e := range list.Elements() {
				some |= (schema{e, s.root}).kinds(depth + 1)
			}
			all &= some
		}
	}
	for _, e := range s.v.Member("allOf").Elements() {
		all &= (schema{e, s.root}).kinds(depth + 1)
	}
	return all
}

func typesOf(v jsontext.Value) kinds {
	if v.Kind() == jsontext.String {
		return kindNames[v.Text()]
	}
	all := kinds(0)
	for _, e := range v.Elements() {
		if e.Kind() == jsontext.String {
			all |= kindNames[e.Text()]
		}
	}
	return all
}

// obeys says whether v satisfies s, as far as it can tell.
func (s schema) obeys(v jsontext.Value, depth int) verdict {
	switch s = s.resolved(); {
	case depth > deepest:
		return unclear
	case string(s.v) == "false":
		return not
	case !s.object():
		return yes
	}
	res := yes
	for name, of := range s.v.Members() {
		switch s.keyword(string(name), of, v, depth+1) {
		case not:
			return not
		case unclear:
			res = unclear
		}
	}
	return res
}

// when is yes or not.
func when(b bool) verdict {
	if b {
		return yes
	}
	return not
}

// keyword says whether v satisfies one keyword.
func (s schema) keyword(name string, of, v jsontext.Value, depth int) verdict {
	kind := kindOf(v)
	switch name {
	case "type":
		return s.ofType(of, v)
	case "const":
		return when(equal(of, v))
	case "enum":
		for _, e := range of.Elements() {
			if equal(e, v) {
				return yes
			}
		}
		return not
	case "anyOf", "oneOf", "allOf":
		return s.several(name, of, v, depth)
	case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minLength", "maxLength", "minItems", "maxItems":
		return bounded(name, of, v)
	case "properties":
		return s.properties(of, v, depth)
	case "required":
		for _, e := range of.Elements() {
			if kind == isObject && e.Kind() == jsontext.String && v.Member(e.Text()) == nil {
				return not
			}
		}
		return yes
	case "additionalProperties":
		return s.additional(of, v, depth)
	case "items":
		return s.items(of, v, depth)
	case "pattern", "format", "contentEncoding":
		if kind == isString {
			return unclear
		}
		return yes
	case "title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly", "$defs", "definitions", "$schema", "$comment", "$id", "nullable":
		return yes
	}
	return unclear
}

// properties says whether the members of v satisfy their schemas in of.
func (s schema) properties(of, v jsontext.Value, depth int) verdict {
	for key, member := range v.Members() {
		if p := of.Member(string(key)); p != nil {
			if is := (schema{p, s.root}).obeys(member, depth); is != yes {
				return is
			}
		}
	}
	return yes
}

// items says whether all elements of v satisfy of.
func (s schema) items(of, v jsontext.Value, depth int) verdict {
	for _, e := range v.Elements() {
		if is := (schema{of, s.root}).obeys(e, depth); is != yes {
			return is
		}
	}
	return yes
}

// ofType says whether v has one of the types of.
func (s schema) ofType(of, v jsontext.Value) verdict {
	if typesOf(of)&kindOf(v) == 0 {
		return not
	}
	if kindOf(v) == isNumber && !bytes.Contains(of, []byte(`"number"`)) { // of integers
		return when(!bytes.ContainsAny(v, ".eE"))
	}
	return yes
}

// several says whether v satisfies some schemas.
func (s schema) several(name string, of, v jsontext.Value, depth int) verdict {
	n, good, open := 0, 0, 0
	for _, e := range of.Elements() {
		n++
		switch (schema{e, s.root}).obeys(v, depth) {
		case yes:
			good++
		case unclear:
			open++
		}
	}
	switch {
	case name == "anyOf" && good > 0, name == "oneOf" && good == 1 && open == 0, name == "allOf" && good == n:
		return yes
	case good+open == 0, name == "allOf" && good+open < n, name == "oneOf" && good > 1:
		return not
	}
	return unclear
}

// bounded says whether v satisfies a bound.
func bounded(name string, of, v jsontext.Value) verdict {
	bound, ok := of.Float()
	if !ok {
		return unclear
	}
	is, kind := 0.0, kindOf(v)
	switch {
	case strings.HasSuffix(name, "Length"):
		if kind != isString {
			return yes
		}
		is = float64(utf8.RuneCountInString(v.Text()))
	case strings.HasSuffix(name, "Items"):
		if kind != isArray {
			return yes
		}
		for range v.Elements() {
			is++
		}
	default:
		if kind != isNumber {
			return yes
		}
		if is, ok = v.Float(); !ok {
			return unclear
		}
	}
	switch {
	case strings.HasPrefix(name, "min"):
		return when(is >= bound)
	case strings.HasPrefix(name, "max"):
		return when(is <= bound)
	case name == "exclusiveMinimum":
		return when(is > bound)
	}
	return when(is < bound)
}

// additional says whether the members of v that s does not declare satisfy of.
func (s schema) additional(of, v jsontext.Value, depth int) verdict {
	if s.v.Member("patternProperties") != nil {
		return unclear
	}
	declared := s.v.Member("properties")
	for key, member := range v.Members() {
		if declared.Member(string(key)) == nil {
			if is := (schema{of, s.root}).obeys(member, depth); is != yes {
				return is
			}
		}
	}
	return yes
}

// equal compares values as JSON Schema does, but for the order of members.
func equal(a, b jsontext.Value) bool {
	if kindOf(a) != kindOf(b) {
		return false
	}
	switch kindOf(a) {
	case isNumber:
		x, ok := a.Float()
		y, okay := b.Float()
		return ok && okay && x == y
	case isString:
		return a.Text() == b.Text()
	}
	x, err := jsontext.Compact(a, 256)
	y, err2 := jsontext.Compact(b, 256)
	return err == nil && err2 == nil && bytes.Equal(x, y)
}

// sortedProperties appends a schema whose properties, and those within them, are in alphabetical
// order, in which a grammar writes them then. Case is told apart only where nothing else differs.
func sortedProperties(dst []byte, v jsontext.Value) []byte {
	v = jsontext.Trim(v)
	switch v.Kind() {
	case jsontext.Object:
		return sortedMembers(dst, v, false)
	case jsontext.Array:
		dst = append(dst, '[')
		for i, element := range v.Elements() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = sortedProperties(dst, element)
		}
		return append(dst, ']')
	}
	return append(dst, v...)
}

// sortedMembers appends an object, and with sort its members in alphabetical order.
func sortedMembers(dst []byte, v jsontext.Value, sort bool) []byte {
	type member struct {
		name  string
		value jsontext.Value
	}
	var all []member
	for name, value := range v.Members() {
		all = append(all, member{string(name), value})
	}
	if sort {
		slices.SortStableFunc(all, func(a, b member) int {
			return cmp.Or(cmp.Compare(strings.ToLower(a.name), strings.ToLower(b.name)), cmp.Compare(a.name, b.name))
		})
	}
	dst = append(dst, '{')
	for i, m := range all {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(dst, m.name), ':')
		switch {
		case !sort && (m.name == "enum" || m.name == "const" || m.name == "default"): // values, not schemas
			dst = append(dst, m.value...)
		case !sort && m.name == "properties" && jsontext.Trim(m.value).Kind() == jsontext.Object:
			dst = sortedMembers(dst, jsontext.Trim(m.value), true)
		default:
			dst = sortedProperties(dst, m.value)
		}
	}
	return append(dst, '}')
}
