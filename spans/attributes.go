package spans

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"weir/internal/jsontext"
)

// attribute is a name and its value as compact JSON.
type attribute struct {
	key   string
	value jsontext.Value
}

// attributes are sorted by their keys, each of which is there once. So those whose keys begin
// with the same text follow each other.
type attributes []attribute

// maxJSONDepth bounds how deeply a text that is JSON may be nested.
const maxJSONDepth = 64

// sorted sorts a list and keeps the last value of each key.
func sorted(list []attribute) attributes {
	slices.SortStableFunc(list, func(a, b attribute) int { return strings.Compare(a.key, b.key) })
	out := list[:0]
	for i, a := range list {
		if i+1 < len(list) && list[i+1].key == a.key {
			continue
		}
		out = append(out, a)
	}
	return attributes(out)
}

// unquoted returns the object or array that a text holds as JSON, and any other value as it is.
// Attributes could only be scalars and lists of them for long, so that instrumentations write
// messages and parameters as texts.
func unquoted(v jsontext.Value) jsontext.Value {
	if v.Kind() != jsontext.String || len(v) < 4 || v[1] != '{' && v[1] != '[' {
		return v
	}
	inner, err := jsontext.Compact([]byte(v.Text()), maxJSONDepth)
	if err != nil {
		return v
	}
	return inner
}

// exact returns the value of a key; nil: there is none.
func (a attributes) exact(key string) jsontext.Value {
	i := a.search(key)
	if i < len(a) && a[i].key == key {
		return a[i].value
	}
	return nil
}

// search returns where a key is, or would be.
func (a attributes) search(key string) int {
	return sort.Search(len(a), func(i int) bool { return a[i].key >= key })
}

// below returns the attributes whose keys begin with a key and a dot.
func (a attributes) below(key string) attributes {
	a = a[a.search(key+"."):]
	return a[:sort.Search(len(a), func(i int) bool { return !strings.HasPrefix(a[i].key, key+".") })]
}

// get returns the value of a key, or else the object or array that is made of the attributes
// below it; nil: there is neither, or it says nothing: null, false, and what is empty.
func (a attributes) get(key string) jsontext.Value {
	v := a.exact(key)
	if v == nil {
		if part := a.below(key); len(part) > 0 {
			v = appendTree(nil, part, len(key)+1, 0)
		}
	}
	if v.Empty() || string(v) == `""` || string(v) == "false" {
		return nil
	}
	return v
}

// first returns the first of some keys that has a value, and that value.
func (a attributes) first(keys ...string) (key string, v jsontext.Value) {
	for _, key := range keys {
		if v := a.get(key); v != nil {
			return key, v
		}
	}
	return "", nil
}

// text is the first of some keys whose value is a text or a number; "": there is none.
func (a attributes) text(keys ...string) string {
	for _, key := range keys {
		v := a.get(key)
		switch {
		case v == nil:
		case v.Kind() == jsontext.String:
			return v.Text()
		case v.Kind() == jsontext.Number:
			return string(v)
		}
	}
	return ""
}

// int is the first of some keys whose value is a whole number, or a text that is one.
func (a attributes) int(keys ...string) (int64, bool) {
	for _, key := range keys {
		if x, err := strconv.ParseInt(a.text(key), 10, 64); err == nil {
			return x, true
		}
	}
	return 0, false
}

// tree appends all attributes as one object.
func (a attributes) tree(dst []byte) []byte {
	if len(a) == 0 {
		return append(dst, "{}"...)
	}
	return appendTree(dst, a, 0, 0)
}

// maxPath bounds how many levels a key with dots makes.
const maxPath = 32

// child is a member of an object: one attribute, or several with the same beginning.
type child struct {
	name  string
	group attributes
	leaf  bool
}

// appendTree appends the attributes, whose keys agree up to byte from, as an object: dots
// separate its levels (llm.usage.total is {"llm":{"usage":{"total":…}}}). Members that are named
// 0, 1, 2 and so on make an array. Where a key has a value and others go on below it, these
// keep their dots, so nothing is lost: {"a":1,"a.b":2}.
func appendTree(dst []byte, a attributes, from, depth int) []byte {
	children := a.children(from, depth)
	if list := inOrder(children); list != nil {
		dst = append(dst, '[')
		for i, c := range list {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = c.append(dst, from, depth)
		}
		return append(dst, ']')
	}
	dst = append(dst, '{')
	for i, c := range children {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(jsontext.AppendString(dst, c.name), ':')
		dst = c.append(dst, from, depth)
	}
	return append(dst, '}')
}

func (a attributes) children(from, depth int) (list []child) {
	for rest := a; len(rest) > 0; {
		key := rest[0].key
		dot := strings.IndexByte(key[from:], '.')
		if dot < 0 || depth >= maxPath || a.exact(key[:from+dot]) != nil {
			list = append(list, child{key[from:], rest[:1], true})
			rest = rest[1:]
			continue
		}
		group := rest.below(key[:from+dot])
		list = append(list, child{key[from : from+dot], group, false})
		rest = rest[len(group):]
	}
	return list
}

func (c child) append(dst []byte, from, depth int) []byte {
	if c.leaf {
		return append(dst, c.group[0].value...)
	}
	return appendTree(dst, c.group, from+len(c.name)+1, depth+1)
}

// inOrder returns children that are named 0, 1, 2 and so on in this order; nil if they are not.
func inOrder(children []child) []child {
	list := make([]child, len(children))
	for _, c := range children {
		i, err := strconv.Atoi(c.name)
		if err != nil || i < 0 || i >= len(list) || strconv.Itoa(i) != c.name || list[i].group != nil {
			return nil
		}
		list[i] = c
	}
	return list
}
