package grammar

import (
	"slices"
	"strconv"
)

// delimiter is the token under key, begin or end of a tag. It reports false if the value is
// text.
func (t *tags) delimiter(n tagNode, key string) (tokenSet, bool) {
	o, ok := n.o.m[key].(*object)
	if !ok {
		return tokenSet{}, false
	}
	path := stepPath(n.path, key)
	return tokenSet{ranges: []idRange{t.tokenID(o.m["token"], stepPath(path, "token"))}}, true
}

// tokenID is the token that v says by its id or its text.
func (t *tags) tokenID(v any, path string) idRange {
	switch v := v.(type) {
	case string:
		if v != "" {
			id := t.b.namedToken(v, path)
			return idRange{id, id}
		}
	case numeral:
		if id, err := strconv.ParseInt(string(v), 10, 32); err == nil && id >= 0 {
			return idRange{int32(id), int32(id)}
		}
	}
	fail(ErrInvalid, path, "a token is an id or a text")
	return idRange{}
}

// tokenIDs are the tokens of the list under key.
func (t *tags) tokenIDs(n tagNode, key string) []idRange {
	path := stepPath(n.path, key)
	l, ok := n.o.m[key].([]any)
	if !ok && n.o.m[key] != nil {
		fail(ErrInvalid, path, "must be a list of tokens")
	}
	var res []idRange
	for i, v := range l {
		res = append(res, t.tokenID(v, stepIndex(path, i)))
	}
	return res
}

// readTokens reads the formats that are about tokens and not about text.
func (t *tags) readTokens(from int32, n tagNode) int32 {
	switch n.kind {
	case "token":
		set := tokenSet{ranges: []idRange{t.tokenID(n.o.m["token"], stepPath(n.path, "token"))}}
		return t.b.token(from, set, n.path)
	case "exclude_token":
		return t.b.token(from, t.otherTokens(n), n.path)
	case "any_tokens":
		most := int32(-1)
		if n.o.m["max_tokens"] != nil {
			if most = n.count("max_tokens"); most < 0 {
				fail(ErrInvalid, stepPath(n.path, "max_tokens"), "must not be negative")
			}
		}
		set := t.otherTokens(n)
		return t.b.repeat(from, 0, most, 8, func(at int32) int32 { return t.b.token(at, set, n.path) })
	case "token_triggered_tags":
		return t.tokenTriggered(from, n)
	case "token_dispatch":
		begins, formats := t.pairs(n)
		d := tokenDispatch{excludes: t.tokenIDs(n, "exclude_tokens"), once: !n.flag("loop", true)}
		for i, v := range begins {
			d.begins = append(d.begins, t.tokenID(v, stepIndex(stepIndex(stepPath(n.path, "rules"), i), 0)))
			d.after = append(d.after, func(at int32) int32 { return t.read(at, formats[i]) })
		}
		return t.freeTokens(from, n, d)
	}
	fail(ErrUnsupported, stepPath(n.path, "type"), "the format %q is not supported", n.kind)
	return 0
}

// otherTokens are all tokens but those that n excludes and the one that ends the tag around
// n.
func (t *tags) otherTokens(n tagNode) tokenSet {
	return tokenSet{ranges: t.withEnd(t.tokenIDs(n, "exclude_tokens")), not: true}
}

// withEnd adds the token that ends the innermost tag.
func (t *tags) withEnd(list []idRange) []idRange {
	for _, set := range t.end {
		list = append(list, set.ranges...)
	}
	return list
}

// tokenTriggered is triggered for tags that begin with a token.
func (t *tags) tokenTriggered(from int32, n tagNode) int32 {
	d := tokenDispatch{excludes: t.withEnd(t.tokenIDs(n, "exclude_tokens")), once: n.flag("stop_after_first", false)}
	d.begins = t.tokenIDs(n, "trigger_tokens")
	if len(d.begins) == 0 {
		fail(ErrInvalid, stepPath(n.path, "trigger_tokens"), "must be a list with something in it")
	}
	tags := make([][]tagNode, len(d.begins))
	for _, tag := range t.tagNodes(n) {
		set, ok := t.delimiter(tag, "begin")
		if !ok {
			fail(ErrInvalid, stepPath(tag.path, "begin"), "must be a token")
		}
		i := slices.Index(d.begins, set.ranges[0])
		if i < 0 {
			fail(ErrInvalid, stepPath(tag.path, "begin"), "this is none of trigger_tokens")
		}
		t.b.spend(i)
		tags[i] = append(tags[i], tag)
	}
	for i, of := range tags {
		if len(of) == 0 {
			fail(ErrInvalid, stepIndex(stepPath(n.path, "trigger_tokens"), i), "no tag begins with this token")
		}
		d.after = append(d.after, func(at int32) int32 {
			to := t.b.state()
			for _, tag := range of {
				t.b.eps(t.afterBegin(at, tag), to)
			}
			return to
		})
	}
	if n.flag("at_least_one", false) {
		to := t.b.state()
		t.dispatchTokens(from, to, n, d)
		if d.once {
			return to
		}
		from = to
	}
	return t.freeTokens(from, n, d)
}

// tokenDispatch are the tokens among free ones that something else follows.
type tokenDispatch struct {
	excludes []idRange // no free tokens
	begins   []idRange
	after    []frag // what follows each of begins
	once     bool   // there are no free tokens after that
}

// dispatchTokens reads one of the tokens with what follows it.
func (t *tags) dispatchTokens(from, to int32, n tagNode, d tokenDispatch) {
	for i, r := range d.begins {
		t.b.eps(d.after[i](t.b.token(from, tokenSet{ranges: []idRange{r}}, n.path)), to)
	}
}

// freeTokens reads any tokens but the excluded ones. It may stop anywhere. After those that
// begin something it follows.
func (t *tags) freeTokens(from int32, n tagNode, d tokenDispatch) int32 {
	b := t.b
	loop, to := b.state(), b.state()
	b.eps(from, loop)
	b.eps(b.token(loop, tokenSet{ranges: slices.Concat(d.excludes, d.begins), not: true}, n.path), loop)
	b.eps(loop, to)
	if d.once {
		t.dispatchTokens(loop, to, n, d)
	} else {
		t.dispatchTokens(loop, loop, n, d)
	}
	return to
}
