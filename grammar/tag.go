package grammar

import (
	"slices"
	"strconv"
)

// tagRule lowers a structural tag: a tree of formats, or the older form, a list of
// structures with triggers (documentation of xgrammar 0.2.6, "Structural Tag Usage").
func (b *builder) tagRule(text []byte, o Options) int32 {
	v, err := parseJSON(text, b.meter)
	if err != nil {
		panic(err)
	}
	root, ok := v.(*object)
	if !ok {
		fail(ErrInvalid, "", "a structural tag must be an object")
	}
	t := &tags{b: b, o: o}
	r := b.rule()
	var n tagNode
	if f, ok := root.m["format"]; ok {
		n = t.node(f, "/format")
	} else {
		n = t.legacy(root)
	}
	end, _ := t.read(b.start(r), n, nil)
	b.accept(end)
	return r
}

// tags lowers a structural tag.
type tags struct {
	b *builder
	o Options
}

// tagNode is a format: an object with its path.
type tagNode struct {
	o    *object
	path string
}

// node is the format v.
func (t *tags) node(v any, path string) tagNode {
	o, ok := v.(*object)
	if !ok {
		fail(ErrInvalid, path, "a format must be an object")
	}
	return tagNode{o, path}
}

// legacy turns {structures, triggers} into a format triggered_tags.
func (t *tags) legacy(root *object) tagNode {
	n := tagNode{root, ""}
	list := []any{}
	for i, v := range n.list("structures") {
		s := t.node(v, stepIndex(stepPath(n.path, "structures"), i))
		schema, ok := s.o.m["schema"]
		if !ok || schema == nil {
			schema = true
		}
		content := &object{m: map[string]any{"type": "json_schema", "json_schema": schema}, keys: []string{"type", "json_schema"}}
		list = append(list, &object{m: map[string]any{"type": "tag", "begin": s.o.m["begin"], "content": content, "end": s.o.m["end"]},
			keys: []string{"type", "begin", "content", "end"}})
	}
	return tagNode{&object{m: map[string]any{"type": "triggered_tags", "tags": list, "triggers": root.m["triggers"]}, keys: []string{"type", "tags", "triggers"}}, ""}
}

func (n tagNode) kind() string { return n.text("type") }

func (n tagNode) text(key string) string {
	s, ok := n.o.m[key].(string)
	if !ok {
		fail(ErrInvalid, stepPath(n.path, key), "must be a string")
	}
	return s
}

// flag is the boolean under key, or def.
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

// list is the list under key, which must not be empty.
func (n tagNode) list(key string) []any {
	l, ok := n.o.m[key].([]any)
	if !ok || len(l) == 0 {
		fail(ErrInvalid, stepPath(n.path, key), "must be a list with something in it")
	}
	return l
}

// texts is the list of strings under key, nil if there is none. end may be one string.
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

// allowOnly refuses fields other than keys: they might ask for something.
func (n tagNode) allowOnly(keys ...string) {
	for _, k := range n.o.keys {
		if k != "type" && n.o.m[k] != nil && !slices.Contains(keys, k) {
			fail(ErrUnsupported, stepPath(n.path, k), "a %s with %s is not supported", n.kind(), k)
		}
	}
}

// read reads n. ends are the texts that end what n is the last part of. Free text at
// the end of n goes up to the first of them and reads it as well; ended reports that.
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
		return t.freeText(from, n.texts("excludes"), ends, triggers{})
	case "sequence":
		n.allowOnly("elements")
		l := n.list("elements")
		for i, e := range l {
			var last []string
			if i == len(l)-1 {
				last = ends
			}
			from, ended = t.read(from, t.node(e, stepIndex(stepPath(n.path, "elements"), i)), last)
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

// anyOf reads one of the elements of n, and then one of ends if there are any.
func (t *tags) anyOf(from int32, n tagNode, ends []string) int32 {
	to := t.b.state()
	for i, e := range n.list("elements") {
		s := t.b.state()
		t.b.eps(from, s)
		s, ended := t.read(s, t.node(e, stepIndex(stepPath(n.path, "elements"), i)), ends)
		if !ended && len(ends) > 0 {
			s = t.oneOf(s, ends)
		}
		t.b.eps(s, to)
	}
	return to
}

// oneOf reads one of texts.
func (t *tags) oneOf(from int32, texts []string) int32 {
	to := t.b.state()
	for _, s := range texts {
		t.b.eps(t.b.lit(from, s), to)
	}
	return to
}

// repeated reads optional, star, plus and repeat.
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

// count is the number under key; -1 means no bound.
func (n tagNode) count(key string) int32 {
	v, _ := n.o.m[key].(numeral)
	c, err := strconv.Atoi(string(v))
	if err != nil || c < -1 || c > maxRepeat {
		fail(ErrInvalid, stepPath(n.path, key), "must be an integer from -1 to %d", maxRepeat)
	}
	return int32(c)
}

// tag reads the tag n without the first bytes of its begin, trigger, which have been
// read already.
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
		res[i] = t.node(v, stepIndex(stepPath(n.path, "tags"), i))
	}
	return res
}

// triggered reads free text in which, after one of the triggers, a tag must go on that
// begins with it.
func (t *tags) triggered(from int32, n tagNode, ends []string) (int32, bool) {
	n.allowOnly("triggers", "tags", "at_least_one", "stop_after_first", "excludes")
	tr := triggers{texts: n.texts("triggers")}
	list := t.tagNodes(n)
	if len(tr.texts) == 0 {
		fail(ErrInvalid, stepPath(n.path, "triggers"), "must be a list with something in it")
	}
	for i, of := range t.byTrigger(list, tr.texts) {
		if len(of) == 0 {
			fail(ErrInvalid, stepPath(n.path, "triggers"), "no tag begins with the trigger %q", tr.texts[i])
		}
		tr.after = append(tr.after, t.afterTrigger(of, tr.texts[i]))
	}
	tr.once = n.flag("stop_after_first", false)
	if n.flag("at_least_one", false) {
		to := t.b.state()
		for i, trigger := range tr.texts {
			t.b.eps(tr.after[i](t.b.lit(from, trigger)), to)
		}
		if tr.once {
			return to, false
		}
		from = to
	}
	return t.freeText(from, n.texts("excludes"), ends, tr)
}

// byTrigger returns, for each of the triggers, the tags that begin with it. Both lists may
// be long, so the beginnings of a tag are looked up among the triggers, by the lengths that
// triggers have.
func (t *tags) byTrigger(list []tagNode, triggers []string) [][]tagNode {
	at := make(map[string][]int, len(triggers))
	var lengths []int
	for i, s := range triggers {
		at[s] = append(at[s], i)
		lengths = append(lengths, len(s))
	}
	slices.Sort(lengths)
	lengths = slices.Compact(lengths)
	res := make([][]tagNode, len(triggers))
	for _, tag := range list {
		begin, found := tag.text("begin"), false
		for _, n := range lengths {
			if n > len(begin) {
				break
			}
			t.b.spend(1 + n/16)
			for _, i := range at[begin[:n]] {
				t.b.spend(1)
				res[i], found = append(res[i], tag), true
			}
		}
		if !found {
			fail(ErrInvalid, stepPath(tag.path, "begin"), "no trigger is a prefix of this")
		}
	}
	return res
}

// afterTrigger reads the rest of one of the tags, which begin with trigger.
func (t *tags) afterTrigger(of []tagNode, trigger string) frag {
	return func(at int32) int32 {
		to := t.b.state()
		for _, tag := range of {
			t.b.eps(t.tag(at, tag, trigger), to)
		}
		return to
	}
}

// dispatch reads free text in which a format follows each of some texts.
func (t *tags) dispatch(from int32, n tagNode, ends []string) (int32, bool) {
	n.allowOnly("rules", "loop", "excludes")
	var tr triggers
	for i, v := range n.list("rules") {
		path := stepIndex(stepPath(n.path, "rules"), i)
		pair, _ := v.([]any)
		if len(pair) != 2 {
			fail(ErrInvalid, path, "must be a pair of a text and a format")
		}
		text, ok := pair[0].(string)
		if !ok || text == "" {
			fail(ErrInvalid, path, "must begin with a text")
		}
		f := t.node(pair[1], stepIndex(path, 1))
		tr.texts = append(tr.texts, text)
		tr.after = append(tr.after, func(at int32) int32 {
			to, _ := t.read(at, f, nil)
			return to
		})
	}
	tr.once = !n.flag("loop", true)
	return t.freeText(from, n.texts("excludes"), ends, tr)
}

// separated reads tags with a separator between them.
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

// triggers are the texts in free text that something else follows.
type triggers struct {
	texts []string
	after []frag // what follows each of texts
	once  bool   // free text does not go on after that
}

// freeText reads any text without one of excludes in it. It stops where one of ends is
// complete, which it reads as well and reports as ended; without ends it may stop
// anywhere. Where a trigger is complete, what belongs to it follows.
func (t *tags) freeText(from int32, excludes, ends []string, tr triggers) (to int32, ended bool) {
	b := t.b
	ac := newAhoCorasick(append(append(slices.Clone(excludes), ends...), tr.texts...))
	f := &freeText{b: b, ac: ac, at: make([]int32, len(ac.next)), excludes: len(excludes)}
	for i := range f.at {
		f.at[i] = b.state()
	}
	b.eps(from, f.at[0])
	to = b.state()
	for range ends {
		f.exits = append(f.exits, to)
	}
	for i := range tr.texts {
		exit := b.state()
		f.exits = append(f.exits, exit)
		s := tr.after[i](exit)
		switch {
		case !tr.once:
			b.eps(s, f.at[0])
		case len(ends) > 0:
			b.eps(t.oneOf(s, ends), to)
		default:
			b.eps(s, to)
		}
	}
	for n := range ac.next {
		if ac.final(int32(n)) {
			continue // free text has been left before
		}
		if len(ends) == 0 {
			b.eps(f.at[n], to)
		}
		f.edges(n)
	}
	return to, len(ends) > 0
}

// freeText lowers an Aho-Corasick automaton whose patterns are the excluded texts, then
// those that have an exit.
type freeText struct {
	b        *builder
	ac       *ahoCorasick
	at       []int32 // the state of each node
	excludes int
	exits    []int32 // the state after each of the other patterns
}

// edges adds the edges of node n, as ranges of bytes that lead to the same node.
func (f *freeText) edges(n int) {
	next := &f.ac.next[n]
	for lo := 0; lo < 256; {
		hi := lo
		for hi < 255 && next[hi+1] == next[lo] {
			hi++
		}
		f.edge(f.at[n], byte(lo), byte(hi), next[lo])
		lo = hi + 1
	}
}

// edge adds an edge from state s to node n, or to the exits of the patterns that are
// complete there.
func (f *freeText) edge(s int32, lo, hi byte, n int32) {
	if !f.ac.final(n) {
		f.b.edge(s, lo, hi, f.at[n])
		return
	}
	if f.ac.complete[n][0] < f.excludes {
		return
	}
	for _, p := range f.ac.complete[n] {
		f.b.edge(s, lo, hi, f.exits[p-f.excludes])
	}
}
