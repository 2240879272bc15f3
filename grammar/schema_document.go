package grammar

import (
	"slices"
	"strconv"
	"strings"
)

// document is the text of a schema, with what is needed to find its parts.
type document struct {
	*meter
	root        any
	nodes       map[*object]*schemaNode
	paths       map[*object]string // JSON pointer to each schema
	bases       map[*object]string // the URI that references in a schema are relative to
	anchors     map[string]*object // schemas by their absolute URI with the fragment
	byURI       map[string]*object // schemas by their absolute URI
	closed      bool               // objects with declared properties or patterns for names have no others, unless additionalProperties says so
	drafts      map[string]draft   // the version of the schemas with a base URI
	dynamic     map[string]int     // how many schemas have a dynamic anchor, by its name
	recursive   int                // how many have $recursiveAnchor
	inferTypes  bool               // a schema without type has the type that its keywords are about
	anyForOne   bool               // there is an x-oneOf
	trueSchema  *schemaNode        // the schema true
	falseSchema *schemaNode        // the schema false
	list        []*schemaNode
	localJSON   map[*schemaNode]*object // what schemas.local has returned
	negations   map[any]*derived        // of schemas, by the key (see alike) of what they are the negation of
	alike       *alike
}

func newDocument(root any, path string, o Options, m *meter) *document {
	d := &document{meter: m, root: root, closed: o.Strict || o.DisableAdditionalProperties, inferTypes: o.Strict, nodes: make(map[*object]*schemaNode), paths: make(map[*object]string),
		bases: make(map[*object]string), anchors: make(map[string]*object), byURI: make(map[string]*object), drafts: make(map[string]draft), dynamic: make(map[string]int),
		localJSON: make(map[*schemaNode]*object), negations: make(map[any]*derived)}
	d.alike = newAlike(d)
	d.trueSchema = d.add(newNode(true, path))
	d.falseSchema = d.add(&schemaNode{never: true, path: path})
	d.index(root, path, "")
	return d
}

// add gives n its id.
func (d *document) add(n *schemaNode) *schemaNode {
	n.id = int32(len(d.list))
	d.list = append(d.list, n)
	return n
}

// stepPath is the JSON pointer (RFC 6901) to the value of key in the object at path.
func stepPath(path, key string) string {
	return path + "/" + strings.ReplaceAll(strings.ReplaceAll(key, "~", "~0"), "/", "~1")
}

// stepIndex is the JSON pointer to an element of the list at path.
func stepIndex(path string, i int) string { return path + "/" + strconv.Itoa(i) }

// The keywords whose value is a schema, a list of schemas, or a map of schemas.
var (
	schemaIn  = []string{"additionalProperties", "additionalItems", "items", "contains", "not", "if", "then", "else", "propertyNames", "unevaluatedItems", "unevaluatedProperties", "contentSchema"}
	schemasIn = []string{"allOf", "anyOf", "oneOf", "prefixItems", "items"}
	mapsIn    = []string{"properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"}
)

// index notes the path, the base URI and the anchors of every schema in the document.
// It goes by keywords, because an $id inside an enum, say, is data.
func (d *document) index(v any, path, base string) {
	o, ok := v.(*object)
	if !ok {
		return
	}
	version := draftOf(o, d.version(base))
	base = d.identify(o, base, version)
	if path == "" || len(d.paths) == 0 {
		d.byURI[base] = o
	}
	if _, ok := d.drafts[base]; !ok {
		d.drafts[base] = version
	}
	d.spend(1 + len(o.keys))
	d.anyForOne = d.anyForOne || o.m["x-oneOf"] != nil
	d.paths[o], d.bases[o] = path, base
	for _, k := range o.keys {
		d.indexBelow(k, o.m[k], stepPath(path, k), base)
	}
}

// version is the version of the schemas with the base URI base.
func (d *document) version(base string) draft {
	if v, ok := d.drafts[base]; ok {
		return v
	}
	return draft2020
}

// indexBelow indexes the schemas in v, the value of a keyword.
func (d *document) indexBelow(keyword string, v any, path, base string) {
	switch v := v.(type) {
	case *object:
		if slices.Contains(schemaIn, keyword) {
			d.index(v, path, base)
		} else if slices.Contains(mapsIn, keyword) {
			for _, name := range v.keys {
				d.index(v.m[name], stepPath(path, name), base)
			}
		}
	case []any:
		if slices.Contains(schemasIn, keyword) {
			for i, e := range v {
				d.index(e, stepIndex(path, i), base)
			}
		}
	}
}

// resolveURI resolves a reference as RFC 3986, section 5.2 says, as far as the
// identifiers of schemas need it.
func resolveURI(base, ref string) string {
	if i := strings.IndexAny(ref, ":/?#"); i > 0 && ref[i] == ':' {
		return ref
	}
	base, _, _ = strings.Cut(base, "#")
	if ref == "" || ref[0] == '#' {
		return base + ref
	}
	scheme, rest, ok := strings.Cut(base, ":")
	if !ok {
		rest = base
	} else {
		scheme += ":"
	}
	if !ok {
		scheme = ""
	}
	authority := ""
	if strings.HasPrefix(rest, "//") {
		end := strings.IndexByte(rest[2:], '/')
		if end < 0 {
			authority, rest = rest, "/"
		} else {
			authority, rest = rest[:end+2], rest[end+2:]
		}
	}
	if strings.HasPrefix(ref, "//") {
		return scheme + ref
	}
	if ref[0] != '/' {
		ref = rest[:strings.LastIndexByte(rest, '/')+1] + ref
	}
	path, fragment, has := strings.Cut(ref, "#")
	var segments []string
	for s := range strings.SplitSeq(path, "/") {
		switch s {
		case ".":
		case "..":
			if len(segments) > 1 {
				segments = segments[:len(segments)-1]
			}
		default:
			segments = append(segments, s)
		}
	}
	path = strings.Join(segments, "/")
	if has {
		path += "#" + fragment
	}
	return scheme + authority + path
}

// resolve returns the schema that ref, the value of key in the schema from, refers to.
func (d *document) resolve(from *object, key, ref string) any {
	at := stepPath(d.paths[from], key)
	uri, fragment, _ := strings.Cut(resolveURI(d.bases[from], ref), "#")
	var v any
	if o, ok := d.byURI[uri]; ok {
		v = o
	} else if uri == "" {
		v = d.root
	} else {
		fail(ErrUnsupported, at, "%s to %q leads out of the schema", key, ref)
	}
	if fragment == "" {
		return v
	}
	if fragment[0] != '/' {
		o, ok := d.anchors[uri+"#"+fragment]
		if !ok {
			fail(ErrInvalid, at, "%s %q leads nowhere", key, ref)
		}
		return o
	}
	to, ok := d.follow(v, fragment, d.bases[from])
	if !ok && v != d.root {
		// A pointer begins at the schema with the base URI. Many authors mean the document.
		to, ok = d.follow(d.root, fragment, "")
	}
	if !ok {
		fail(ErrInvalid, at, "%s %q leads nowhere", key, ref)
	}
	return to
}

// follow returns what the JSON pointer leads to from v, whose base URI is base. It reports false
// if there is nothing.
func (d *document) follow(v any, pointer, base string) (any, bool) {
	path := ""
	for part := range strings.SplitSeq(unpercent(pointer)[1:], "/") {
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		found := false
		if o, ok := v.(*object); ok {
			if b, ok := d.bases[o]; ok {
				base, path = b, d.paths[o]
			}
			v, found = o.m[part]
		} else if l, ok := v.([]any); ok {
			i, err := strconv.Atoi(part)
			if found = err == nil && i >= 0 && i < len(l); found {
				v = l[i]
			}
		}
		if !found {
			return nil, false
		}
		path = stepPath(path, part)
	}
	if o, ok := v.(*object); ok {
		if _, known := d.paths[o]; !known {
			d.index(o, path, base)
		}
	}
	return v, true
}

// unpercent decodes the percent-encoding of a URI.
func unpercent(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(c))
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
