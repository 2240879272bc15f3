package grammar

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// tagRule lowers a structural tag: a tree of formats, or the older list of
// structures with triggers (docs of xgrammar 0.2.6, "Structural Tag Usage").
func (b *builder) tagRule(text []byte, o Options) int32 {
	v, err := parseJSON(text)
	if err != nil {
		panic(err)
	}
	root, ok := v.(*object)
	if !ok {
		fail(ErrInvalid, "$", "a structural tag must be an object")
	}
	t := &tags{b: b, o: o}
	r := b.rule()
	var n tagNode
	if f, ok := root.m["format"]; ok {
		n = t.node(f, "$.format")
	} else {
		n = t.legacy(root)
	}
	end, _ := t.read(b.start(r), n, nil)
	b.accept(end)
	return r
}

type tags struct {
	b *builder
	o Options
}

// tagNode is a format: an object with its path.
type tagNode struct {
	o    *object
	path string
}

func (t *tags) node(v any, path string) tagNode {
	o, ok := v.(*object)
	if !ok {
		fail(ErrInvalid, path, "a format must be an object")
	}
	return tagNode{o, path}
}

// legacy turns {structures, triggers} into triggered_tags.
func (t *tags) legacy(root *object) tagNode {
	n := tagNode{root, "$"}
	list := []any{}
	for i, v := range n.list("structures") {
		s := t.node(v, n.path+".structures["+strconv.Itoa(i)+"]")
		schema, ok := s.o.m["schema"]
		if !ok || schema == nil {
			schema = true
		}
		content := &object{m: map[string]any{"type": "json_schema", "json_schema": schema}, keys: []string{"type", "json_schema"}}
		list = append(list, &object{m: map[string]any{"type": "tag", "begin": s.o.m["begin"], "content": content, "end": s.o.m["end"]},
			keys: []string{"type", "begin", "content", "end"}})
	}
	return tagNode{&object{m: map[string]any{"type": "triggered_tags", "tags": list, "triggers": root.m["triggers"]}, keys: []string{"type", "tags", "triggers"}}, "$"}
}

func (n tagNode) kind() string { return n.text("type") }

func (n tagNode) text(key string) string {
	s, ok := n.o.m[key].(string)
	if !ok {
		fail(ErrInvalid, stepPath(n.path, key), "must be a string")
	}
	return s
}

func (n tagNode) flag(key string, def bool) bool {
	switch v := n.o.m[key].(type) {
	case nil:
		return def
	case bool:
		return v
	}
	fail(ErrInvalid, stepPath(n.path, key), "must be true or false")
	return false
}

func (n tagNode) list(key string) []any {
	l, ok := n.o.m[key].([]any)
	if !ok || len(l) == 0 {
		fail(ErrInvalid, stepPath(n.path, key), "must be a list with something in it")
	}
	return l
}

// texts reads a list of strings, none if there is none.
func (n tagNode) texts(key string) []string {
	v, ok := n.o.m[key]
	if !ok || v == nil {
		return nil
	}
	l, ok := v.([]any)
	if s, is := v.(string); is && key == "end" {
		l, ok = []any{s}, true
	}
	if !ok {
		fail(ErrInvalid, stepPath(n.path, key), "must be a list of strings")
	}
	res := make([]string, len(l))
	for i, e := range l {
		if res[i], ok = e.(string); !ok {
			fail(ErrInvalid, stepPath(n.path, key), "must be a list of strings")
		}
		if res[i] == "" && key != "end" {
			fail(ErrInvalid, stepPath(n.path, key), "must not hold the empty string")
		}
	}
	return res
}

// only refuses fields that n does not have: they might ask for something.
func (n tagNode) allowOnly(keys ...string) {
	for _, k := range n.o.keys {
		if k != "type" && n.o.m[k] != nil && !slices.Contains(keys, k) {
			fail(ErrUnsupported, stepPath(n.path, k), "a %s with %s is not supported", n.kind(), k)
		}
	}
}

// read lowers n at from. ends are the texts that end what n stands in: free text
// at the end of n runs up to the first of them and takes it along, which ended
// reports.
func (t *tags) read(from int32, n tagNode, ends []string) (to int32, ended bool) {
	t.b.spend(1)
	switch n.kind() {
	case "const_string":
		n.allowOnly("value")
		return t.b.lit(from, n.text("value")), false
	case "json_schema":
		return t.schema(from, n), false
	case "grammar":
		n.allowOnly("grammar")
		return t.b.call(from, t.b.notationRule(n.text("grammar"))), false
	case "regex":
		n.allowOnly("pattern")
		return t.b.call(from, t.b.regexRule(n.text("pattern"))), false
	case "any_text":
		n.allowOnly("excludes")
		return t.freeText(from, nil, n.texts("excludes"), ends, nil)
	case "sequence":
		n.allowOnly("elements")
		l := n.list("elements")
		for i, e := range l {
			var last []string
			if i == len(l)-1 {
				last = ends
			}
			from, ended = t.read(from, t.node(e, n.path+".elements["+strconv.Itoa(i)+"]"), last)
		}
		return from, ended
	case "or":
		n.allowOnly("elements")
		return t.anyOf(from, n, ends), len(ends) > 0
	case "optional", "star", "plus", "repeat":
		return t.repeated(from, n), false
	case "tag":
		return t.tag(from, n, ""), false
	case "triggered_tags":
		return t.triggered(from, n, ends)
	case "dispatch":
		return t.dispatch(from, n, ends)
	case "tags_with_separator":
		return t.separated(from, n), false
	}
	fail(ErrUnsupported, stepPath(n.path, "type"), "the format %q is not supported", n.kind())
	return 0, false
}

func (t *tags) schema(from int32, n tagNode) int32 {
	n.allowOnly("json_schema", "style", "any_order")
	if s := n.o.m["style"]; s != nil && s != "json" {
		fail(ErrUnsupported, stepPath(n.path, "style"), "only the style json is supported")
	}
	if n.flag("any_order", false) {
		fail(ErrUnsupported, stepPath(n.path, "any_order"), "any_order gives up required properties and is not supported")
	}
	s, ok := n.o.m["json_schema"]
	if !ok {
		fail(ErrInvalid, n.path, "json_schema is missing")
	}
	return t.b.call(from, t.b.schemaRule(s, stepPath(n.path, "json_schema"), t.o))
}

// any reads one of the elements of n, with the end if there is one.
func (t *tags) anyOf(from int32, n tagNode, ends []string) int32 {
	to := t.b.state()
	for i, e := range n.list("elements") {
		s := t.b.state()
		t.b.eps(from, s)
		s, ended := t.read(s, t.node(e, n.path+".elements["+strconv.Itoa(i)+"]"), ends)
		if !ended && len(ends) > 0 {
			s = t.oneOf(s, ends)
		}
		t.b.eps(s, to)
	}
	return to
}

func (t *tags) oneOf(from int32, texts []string) int32 {
	to := t.b.state()
	for _, s := range texts {
		t.b.eps(t.b.lit(from, s), to)
	}
	return to
}

func (t *tags) repeated(from int32, n tagNode) int32 {
	lo, hi := int32(0), int32(-1)
	switch n.kind() {
	case "optional":
		hi = 1
	case "plus":
		lo = 1
	case "repeat":
		n.allowOnly("min", "max", "content")
		lo, hi = n.count("min"), n.count("max")
		if lo < 0 || hi >= 0 && lo > hi {
			fail(ErrInvalid, n.path, "min must be at least 0 and at most max")
		}
	}
	if n.kind() != "repeat" {
		n.allowOnly("content")
	}
	content := t.node(n.o.m["content"], stepPath(n.path, "content"))
	// The content is a rule, so that repetitions of it can be counted.
	r := t.b.rule()
	end, _ := t.read(t.b.start(r), content, nil)
	t.b.accept(end)
	return t.b.repeat(from, lo, hi, 8, func(at int32) int32 { return t.b.call(at, r) })
}

func (n tagNode) count(key string) int32 {
	v, _ := n.o.m[key].(json.Number)
	c, err := strconv.Atoi(string(v))
	if err != nil || c < -1 || c > maxRepeat {
		fail(ErrInvalid, stepPath(n.path, key), "must be an integer from -1 to %d", maxRepeat)
	}
	return int32(c)
}

// tag reads n less the first bytes of its begin that a trigger has read.
func (t *tags) tag(from int32, n tagNode, trigger string) int32 {
	if n.kind() != "tag" {
		fail(ErrInvalid, stepPath(n.path, "type"), "must be a tag")
	}
	n.allowOnly("begin", "content", "end")
	ends := n.texts("end")
	if len(ends) == 0 {
		fail(ErrInvalid, stepPath(n.path, "end"), "must be a string or a list of strings")
	}
	if slices.Contains(ends, "") {
		ends = nil
	}
	s := t.b.lit(from, n.text("begin")[len(trigger):])
	s, ended := t.read(s, t.node(n.o.m["content"], stepPath(n.path, "content")), ends)
	if !ended && len(ends) > 0 {
		s = t.oneOf(s, ends)
	}
	return s
}

func (t *tags) tagNodes(n tagNode) []tagNode {
	l := n.list("tags")
	res := make([]tagNode, len(l))
	for i, v := range l {
		res[i] = t.node(v, n.path+".tags["+strconv.Itoa(i)+"]")
	}
	return res
}

func (t *tags) triggered(from int32, n tagNode, ends []string) (int32, bool) {
	n.allowOnly("triggers", "tags", "at_least_one", "stop_after_first", "excludes")
	triggers, list := n.texts("triggers"), t.tagNodes(n)
	if len(triggers) == 0 {
		fail(ErrInvalid, stepPath(n.path, "triggers"), "must be a list with something in it")
	}
	after := make([]frag, len(triggers))
	for i, trigger := range triggers {
		t.b.spend(1 + len(list)/4)
		var of []tagNode
		for _, tag := range list {
			if strings.HasPrefix(tag.text("begin"), trigger) {
				of = append(of, tag)
			}
		}
		if len(of) == 0 {
			fail(ErrInvalid, stepPath(n.path, "triggers"), "no tag begins with the trigger %q", trigger)
		}
		after[i] = func(at int32) int32 {
			to := t.b.state()
			for _, tag := range of {
				t.b.eps(t.tag(at, tag, trigger), to)
			}
			return to
		}
	}
	for _, tag := range list {
		t.b.spend(1 + len(triggers)/4)
		if !slices.ContainsFunc(triggers, func(s string) bool { return strings.HasPrefix(tag.text("begin"), s) }) {
			fail(ErrInvalid, stepPath(tag.path, "begin"), "no trigger is a prefix of this")
		}
	}
	once := n.flag("stop_after_first", false)
	if n.flag("at_least_one", false) {
		to := t.b.state()
		for i, trigger := range triggers {
			t.b.eps(after[i](t.b.lit(from, trigger)), to)
		}
		if once {
			return to, false
		}
		from = to
	}
	return t.freeText(from, triggers, n.texts("excludes"), ends, &loop{after: after, once: once})
}

func (t *tags) dispatch(from int32, n tagNode, ends []string) (int32, bool) {
	n.allowOnly("rules", "loop", "excludes")
	var patterns []string
	var after []frag
	for i, v := range n.list("rules") {
		path := n.path + ".rules[" + strconv.Itoa(i) + "]"
		pair, _ := v.([]any)
		if len(pair) != 2 {
			fail(ErrInvalid, path, "must be a pair of a text and a format")
		}
		p, ok := pair[0].(string)
		if !ok || p == "" {
			fail(ErrInvalid, path, "must begin with a text")
		}
		f := t.node(pair[1], path+"[1]")
		patterns = append(patterns, p)
		after = append(after, func(at int32) int32 {
			to, _ := t.read(at, f, nil)
			return to
		})
	}
	return t.freeText(from, patterns, n.texts("excludes"), ends, &loop{after: after, once: !n.flag("loop", true)})
}

func (t *tags) separated(from int32, n tagNode) int32 {
	n.allowOnly("tags", "separator", "at_least_one", "stop_after_first")
	list := t.tagNodes(n)
	r := t.b.rule()
	end := t.b.state()
	t.b.accept(end)
	for _, tag := range list {
		t.b.eps(t.tag(t.b.start(r), tag, ""), end)
	}
	to := t.b.state()
	if !n.flag("at_least_one", false) {
		t.b.eps(from, to)
	}
	s := t.b.call(from, r)
	if !n.flag("stop_after_first", false) {
		sep := n.text("separator")
		s = t.b.star(s, func(at int32) int32 { return t.b.call(t.b.lit(at, sep), r) })
	}
	t.b.eps(s, to)
	return to
}

// loop says what follows each trigger in free text, and whether free text goes on
// after that.
type loop struct {
	after []frag
	once  bool
}

// free reads any text without one of excludes in it. It stops where one of the
// triggers or ends is complete; without ends it may stop anywhere. The automaton
// is that of Aho and Corasick 1975.
func (t *tags) freeText(from int32, triggers, excludes, ends []string, l *loop) (to int32, ended bool) {
	b := t.b
	ac := newAhoCorasick(append(append(slices.Clone(excludes), ends...), triggers...))
	at := make([]int32, len(ac.next))
	for i := range at {
		at[i] = b.state()
	}
	b.eps(from, at[0])
	to = b.state()
	exits := make([]int32, len(triggers))
	for i := range triggers {
		exits[i] = b.state()
		s := l.after[i](exits[i])
		switch {
		case !l.once:
			b.eps(s, at[0])
		case len(ends) > 0:
			b.eps(t.oneOf(s, ends), to)
		default:
			b.eps(s, to)
		}
	}
	for i, next := range ac.next {
		if ac.final[i] {
			continue // left already
		}
		if len(ends) == 0 {
			b.eps(at[i], to)
		}
		for lo := 0; lo < 256; {
			hi := lo
			for hi < 255 && next[hi+1] == next[lo] {
				hi++
			}
			t.leave(at, next[lo], ac, edge{lo: byte(lo), hi: byte(hi)}, at[i], len(excludes), len(ends), exits, to)
			lo = hi + 1
		}
	}
	return to, len(ends) > 0
}

// leave adds the edge e from s to node n, or to what a pattern that is complete
// there leads to.
func (t *tags) leave(at []int32, n int32, ac *ahoCorasick, e edge, s int32, excludes, ends int, exits []int32, to int32) {
	b := t.b
	if !ac.final[n] {
		b.edge(s, e.lo, e.hi, at[n])
		return
	}
	if ac.out[n][0] < excludes { // the patterns come in ascending order
		return
	}
	for _, p := range ac.out[n] {
		if p -= excludes; p < ends {
			b.edge(s, e.lo, e.hi, to)
		} else {
			b.edge(s, e.lo, e.hi, exits[p-ends])
		}
	}
}

// ahoCorasick finds the patterns that end at each byte of a text. Its nodes are
// the prefixes of the patterns.
type ahoCorasick struct {
	next  [][256]int32
	out   [][]int // patterns that are complete at a node, ascending
	final []bool
}

func newAhoCorasick(patterns []string) *ahoCorasick {
	ac := &ahoCorasick{next: make([][256]int32, 1), out: make([][]int, 1)}
	for p, text := range patterns {
		n := int32(0)
		for i := range len(text) {
			if ac.next[n][text[i]] == 0 {
				if len(ac.next) > 10_000 {
					fail(ErrTooComplex, "", "too much text in triggers and ends")
				}
				ac.next[n][text[i]] = int32(len(ac.next))
				ac.next, ac.out = append(ac.next, [256]int32{}), append(ac.out, nil)
			}
			n = ac.next[n][text[i]]
		}
		ac.out[n] = append(ac.out[n], p)
	}
	fails := make([]int32, len(ac.next))
	queue := []int32{}
	for _, c := range ac.next[0] {
		if c != 0 {
			queue = append(queue, c)
		}
	}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		ac.out[n] = append(ac.out[n], ac.out[fails[n]]...)
		slices.Sort(ac.out[n])
		for b := range 256 {
			c := ac.next[n][b]
			if c == 0 {
				ac.next[n][b] = ac.next[fails[n]][b]
				continue
			}
			fails[c] = ac.next[fails[n]][b]
			queue = append(queue, c)
		}
	}
	ac.final = make([]bool, len(ac.out))
	for i, o := range ac.out {
		ac.final[i] = len(o) > 0
	}
	return ac
}
