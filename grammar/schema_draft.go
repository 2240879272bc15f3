package grammar

import (
	"strings"
)

// draft is a version of JSON Schema. A keyword of a later version is kept in an earlier
// one too, which only ever allows less.
type draft uint8

const (
	draft4 draft = iota
	draft6
	draft7
	draft2019
	draft2020 // also for schemas that do not say their version
)

// draftURIs are what $schema is, without the scheme.
var draftURIs = map[string]draft{
	"json-schema.org/draft-03/schema": draft4,
	"json-schema.org/draft-04/schema": draft4, "json-schema.org/draft-04/hyper-schema": draft4,
	"json-schema.org/draft-06/schema": draft6, "json-schema.org/draft-06/hyper-schema": draft6,
	"json-schema.org/draft-07/schema": draft7, "json-schema.org/draft-07/hyper-schema": draft7,
	"json-schema.org/draft/2019-09/schema": draft2019,
}

// draftOf is the version that o says it has, or else the one of the schema around it.
func draftOf(o *object, around draft) draft {
	uri, ok := o.m["$schema"].(string)
	if !ok {
		return around
	}
	_, rest, _ := strings.Cut(strings.TrimSuffix(uri, "#"), "://")
	if d, ok := draftURIs[rest]; ok {
		return d
	}
	return draft2020
}

// onlyRef reports whether o is a reference next to which nothing counts. It does until
// draft 7.
func (d draft) onlyRef(o *object) bool {
	_, ok := o.m["$ref"].(string)
	return ok && d <= draft7
}

// identify notes the identifiers of the schema o and returns the base URI of what is in
// it. around is the base URI of what it is in.
func (d *document) identify(o *object, around string, version draft) string {
	base := around
	id, ok := o.m["$id"].(string)
	if version == draft4 {
		if ok { // no keyword yet, but a reference may mean it
			d.alias(resolveURI(around, id), o)
		}
		id, ok = o.m["id"].(string)
	}
	if ok && !version.onlyRef(o) {
		uri, fragment, _ := strings.Cut(resolveURI(around, id), "#")
		switch {
		case fragment != "" && version <= draft7: // a name within the document
			d.anchors[uri+"#"+fragment] = o
		case strings.HasPrefix(id, "#"):
		default:
			base = uri
			d.byURI[base] = o
		}
	}
	if old, ok := o.m["id"].(string); ok && version == draft2020 && strings.HasPrefix(old, "#") && o.m["$schema"] == nil {
		if name := base + old; d.anchors[name] == nil { // a version that is not said, but this form is that of draft 4
			d.anchors[name] = o
		}
	}
	for _, k := range []string{"$anchor", "$dynamicAnchor"} {
		if a, ok := o.m[k].(string); ok {
			d.anchors[base+"#"+a] = o
			if k == "$dynamicAnchor" {
				d.dynamic[a]++
			}
		}
	}
	if o.m["$recursiveAnchor"] == true {
		d.recursive++
	}
	return base
}

// alias lets references find o by uri, if nothing else has it.
func (d *document) alias(uri string, o *object) {
	uri, _, _ = strings.Cut(uri, "#")
	if _, ok := d.byURI[uri]; !ok {
		d.byURI[uri] = o
	}
}

// references are the schemas that the keywords $ref, $dynamicRef and $recursiveRef of the
// schema refer to.
func (p nodeParser) references() []any {
	var res []any
	for _, key := range []string{"$ref", "$dynamicRef", "$recursiveRef"} {
		v, ok := p.o.m[key]
		if !ok {
			continue
		}
		ref, ok := v.(string)
		if !ok {
			p.bad(key, "a string")
		}
		target := p.d.resolve(p.o, key, ref)
		if key != "$ref" && p.d.moves(key, ref, target) {
			fail(ErrUnsupported, p.at(key), "%s cannot be enforced: what it refers to depends on where it is used", key)
		}
		res = append(res, target)
	}
	return res
}

// moves reports whether a dynamic reference, which first leads to target, may lead to
// another schema of the document: one with the same dynamic anchor.
func (d *document) moves(key, ref string, target any) bool {
	o, ok := target.(*object)
	if !ok {
		return false
	}
	if key == "$recursiveRef" {
		return o.m["$recursiveAnchor"] == true && d.recursive > 1
	}
	_, fragment, _ := strings.Cut(ref, "#")
	anchor, ok := o.m["$dynamicAnchor"].(string)
	return ok && anchor == fragment && d.dynamic[anchor] > 1
}
