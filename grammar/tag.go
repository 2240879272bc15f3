package grammar

import (
	"slices"
	"strconv"
)

// tagRule lowers a structural tag: a tree of formats, or the older form, a list of
// structures with triggers. What is read and what it means is as in xgrammar 0.2.8, which
// vLLM and SGLang use (its documentation, "Structural Tag Usage"); testdata/xgrammar_tags.json
// has its verdicts. Also as there, fields that a format does not have are ignored. Two are
// our own: special_tokens of the tag, which says that texts which are names of special tokens
// stand for these tokens, and separators of a JSON schema, [", ", ": "] for JSON that has a
// space after each comma and colon and no other whitespace, as chat templates write it.
func (b *builder) tagRule(text []byte, o Options) int32 {
	root, ok := b.meter.readJSON(text).(*object)
	if !ok {
		fail(ErrInvalid, "", "a structural tag must be an object")
	}
	t := &tags{b: b, o: o}
	if f := (tagNode{o: root}); f.flag("special_tokens", false) {
		t.special = newSpecialTexts(b)
	}
	r := b.rule()
	var n tagNode
	if root.m["structures"] != nil {
		n = t.legacy(root)
	} else if f, ok := root.m["format"]; ok {
		n = t.node(f, "/format")
	} else {
		fail(ErrInvalid, "", "a structural tag needs format, or structures and triggers")
	}
	b.accept(t.read(b.start(r), n))
	return r
}

// tags lowers a structural tag.
type tags struct {
	b     *builder
	o     Options
	ends  []string   // the texts that end the innermost tag; free text in it stops before them
	end   []tokenSet // the token that ends the innermost tag; free tokens in it stop before it
	depth int
	// special are the texts that stand for special tokens; nil: none.
	special *specialTexts
}

// tagNode is a format: an object with its path.
type tagNode struct {
	o    *object
	path string
	kind string
}

// node is the format v. Without a type, a format is what its fields are those of.
func (t *tags) node(v any, path string) tagNode {
	o, ok := v.(*object)
	if !ok {
		fail(ErrInvalid, path, "a format must be an object")
	}
	n := tagNode{o: o, path: path}
	if _, ok := o.m["type"]; ok {
		n.kind = n.text("type")
		return n
	}
	for _, f := range tagFields {
		if !slices.ContainsFunc(f.fields, func(k string) bool { _, ok := o.m[k]; return !ok }) {
			n.kind = f.kind
			return n
		}
	}
	fail(ErrInvalid, path, "this is no format")
	return n
}

// tagFields are the fields that formats without a type are known by, in the order in which
// xgrammar tries them.
var tagFields = []struct {
	kind   string
	fields []string
}{
	{"tag", []string{"begin", "content", "end"}},
	{"const_string", []string{"value"}},
	{"json_schema", []string{"json_schema"}},
	{"any_text", []string{"excludes"}},
	{"sequence", []string{"elements"}},
	{"triggered_tags", []string{"triggers", "tags"}},
	{"tags_with_separator", []string{"tags", "separator"}},
	{"optional", []string{"content"}},
	{"dispatch", []string{"rules"}},
}

// legacy turns {structures, triggers} into a format triggered_tags. at_least_one is SGLang's.
func (t *tags) legacy(root *object) tagNode {
	n := tagNode{o: root}
	list := []any{}
	for i, v := range n.list("structures") {
		t.b.spend(1)
		s, ok := v.(*object)
		if !ok {
			fail(ErrInvalid, stepIndex(stepPath(n.path, "structures"), i), "must be an object")
		}
		content := &object{m: map[string]any{"type": "json_schema", "json_schema": s.m["schema"]}, keys: []string{"type", "json_schema"}}
		list = append(list, &object{m: map[string]any{"type": "tag", "begin": s.m["begin"], "content": content, "end": s.m["end"]},
			keys: []string{"type", "begin", "content", "end"}})
	}
	return tagNode{kind: "triggered_tags", o: &object{
		m:    map[string]any{"type": "triggered_tags", "tags": list, "triggers": root.m["triggers"], "at_least_one": root.m["at_least_one"]},
		keys: []string{"type", "tags", "triggers", "at_least_one"}}}
}

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

// texts is the list of strings under key, nil if there is none. end may be one string, and
// may be empty.
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

// read reads n.
func (t *tags) read(from int32, n tagNode) int32 {
	t.b.spend(1)
	if t.depth++; t.depth > maxDepth {
		fail(ErrTooComplex, n.path, "formats are nested too deeply")
	}
	defer func() { t.depth-- }()
	switch n.kind {
	case "const_string":
		return t.lit(from, n.text("value"))
	case "json_schema":
		return t.schema(from, n)
	case "qwen_xml_parameter":
		return t.xml(from, n, "qwen_xml")
	case "grammar":
		return t.b.call(from, t.b.notationRule(n.text("grammar"), true, t.o))
	case "regex":
		return t.b.call(from, t.b.regexRule(n.text("pattern")))
	case "any_text":
		return t.anyText(from, n)
	case "sequence":
		for i, e := range n.list("elements") {
			from = t.read(from, t.node(e, stepIndex(stepPath(n.path, "elements"), i)))
		}
		return from
	case "or":
		return t.anyOf(from, n)
	case "optional", "star", "plus", "repeat":
		return t.repeated(from, n)
	case "tag":
		return t.tag(from, n, "")
	case "triggered_tags":
		return t.triggered(from, n)
	case "dispatch":
		return t.dispatch(from, n)
	case "tags_with_separator":
		return t.separated(from, n)
	}
	return t.readTokens(from, n)
}

func (t *tags) schema(from int32, n tagNode) int32 {
	if s, ok := n.o.m["style"]; ok && s != nil && n.text("style") != "json" {
		switch style := n.text("style"); style {
		case "python", "gemma":
			return t.keywords(from, n, style)
		}
		return t.xml(from, n, n.text("style"))
	}
	return t.b.call(from, t.b.schemaRule(n.schema(), stepPath(n.path, "json_schema"), t.schemaOptions(n)))
}

// schema is the JSON schema of n. SGLang reads null and none as the schema of everything.
func (n tagNode) schema() any {
	s := n.o.m["json_schema"]
	if s == nil {
		return true
	}
	return s
}

// schemaOptions are the options for the schema of n, with what n itself says.
func (t *tags) schemaOptions(n tagNode) Options {
	if l, ok := n.o.m["excludes"].([]any); ok && len(l) > 0 {
		fail(ErrUnsupported, stepPath(n.path, "excludes"), "texts that strings may not contain are not supported")
	}
	if n.flag("any_order", false) {
		t.b.warn(stepPath(n.path, "any_order"), "properties come in the order of the schema, and required ones are not left out")
	}
	o := t.o
	if l := n.texts("separators"); l != nil {
		if !slices.Equal(l, []string{", ", ": "}) {
			fail(ErrUnsupported, stepPath(n.path, "separators"), `must be [", ", ": "]`)
		}
		o.spaced = true
	}
	if n.o.m["max_whitespace_cnt"] != nil {
		if most := n.count("max_whitespace_cnt"); most < 1 {
			fail(ErrInvalid, stepPath(n.path, "max_whitespace_cnt"), "must be positive")
		} else if o.WhitespacePattern == "" && !o.DisableAnyWhitespace && most < maxIndent+4 {
			o.WhitespacePattern = "[ \\n\\r\\t]{0," + strconv.Itoa(int(most)) + "}"
		}
	}
	return o
}

// anyText reads free text. It ends at the latest where the tag around it does.
func (t *tags) anyText(from int32, n tagNode) int32 {
	if n.o.m["max_tokens"] != nil {
		fail(ErrUnsupported, stepPath(n.path, "max_tokens"), "text of a number of tokens is not supported: use max_chars, or any_tokens with max_tokens")
	}
	excludes := append(n.texts("excludes"), t.ends...)
	if n.o.m["max_chars"] == nil {
		return t.freeText(from, excludes, triggers{})
	}
	most := n.count("max_chars")
	if most < 0 {
		fail(ErrInvalid, stepPath(n.path, "max_chars"), "must not be negative")
	}
	return t.b.callN(from, t.b.shortText(excludes), 0, most)
}

// anyOf reads one of the elements of n.
func (t *tags) anyOf(from int32, n tagNode) int32 {
	to := t.b.state()
	for i, e := range n.list("elements") {
		s := t.b.state()
		t.b.eps(from, s)
		t.b.eps(t.read(s, t.node(e, stepIndex(stepPath(n.path, "elements"), i))), to)
	}
	return to
}

// repeated reads optional, star, plus and repeat.
func (t *tags) repeated(from int32, n tagNode) int32 {
	lo, hi := int32(0), int32(-1)
	switch n.kind {
	case "optional":
		hi = 1
	case "plus":
		lo = 1
	case "repeat":
		lo, hi = n.count("min"), n.count("max")
		if lo < 0 || hi >= 0 && lo > hi {
			fail(ErrInvalid, n.path, "min must be at least 0 and at most max")
		}
	}
	content := t.node(n.o.m["content"], stepPath(n.path, "content"))
	// The content is a rule, so that repetitions of it can be counted.
	r := t.b.rule()
	t.b.accept(t.read(t.b.start(r), content))
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
	if set, ok := t.delimiter(n, "begin"); ok {
		return t.afterBegin(t.b.token(from, set, stepPath(n.path, "begin")), n)
	}
	return t.afterBegin(t.lit(from, n.text("begin")[len(trigger):]), n)
}

// afterBegin reads the content and the end of the tag n.
func (t *tags) afterBegin(from int32, n tagNode) int32 {
	inner := *t
	inner.ends, inner.end = nil, nil
	content := t.node(n.o.m["content"], stepPath(n.path, "content"))
	if set, ok := t.delimiter(n, "end"); ok {
		inner.end = []tokenSet{set}
		return t.b.token(inner.read(from, content), set, stepPath(n.path, "end"))
	}
	ends := n.texts("end")
	if len(ends) == 0 {
		fail(ErrInvalid, stepPath(n.path, "end"), "must be a string, a list of strings or a token")
	}
	inner.ends = slices.DeleteFunc(slices.Clone(ends), func(s string) bool { return s == "" })
	s, to := inner.read(from, content), t.b.state()
	for _, end := range ends {
		t.b.eps(t.lit(s, end), to)
	}
	return to
}

// tagNodes are the tags of n.
func (t *tags) tagNodes(n tagNode) []tagNode {
	l := n.list("tags")
	res := make([]tagNode, len(l))
	for i, v := range l {
		t.b.spend(1)
		res[i] = t.node(v, stepIndex(stepPath(n.path, "tags"), i))
		if res[i].kind != "tag" {
			fail(ErrInvalid, res[i].path, "must be a tag")
		}
	}
	return res
}

// triggered reads free text in which, after one of the triggers, a tag must go on that
// begins with it. With at_least_one it begins with a tag.
func (t *tags) triggered(from int32, n tagNode) int32 {
	tr := triggers{texts: n.texts("triggers"), once: n.flag("stop_after_first", false)}
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
	if n.flag("at_least_one", false) {
		to := t.b.state()
		for i, trigger := range tr.texts {
			t.b.eps(tr.after[i](t.lit(from, trigger)), to)
		}
		if tr.once {
			return to
		}
		from = to
	}
	return t.freeText(from, append(n.texts("excludes"), t.ends...), tr)
}

// byTrigger returns, for each of the triggers, the tags that begin with it. Both lists may
// be long, so the beginnings of a tag are looked up among the triggers, by the lengths that
// triggers have.
func (t *tags) byTrigger(list []tagNode, triggers []string) [][]tagNode {
	at := make(map[string][]int)
	var lengths []int
	for i, s := range triggers {
		t.b.spend(1)
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

// pairs are the rules of a dispatch: what begins each of them, and the format after it.
func (t *tags) pairs(n tagNode) (begins []any, formats []tagNode) {
	for i, v := range n.list("rules") {
		path := stepIndex(stepPath(n.path, "rules"), i)
		pair, _ := v.([]any)
		if len(pair) != 2 {
			fail(ErrInvalid, path, "must be a pair of what begins it and a format")
		}
		begins, formats = append(begins, pair[0]), append(formats, t.node(pair[1], stepIndex(path, 1)))
	}
	return begins, formats
}

// dispatch reads free text in which a format follows each of some texts.
func (t *tags) dispatch(from int32, n tagNode) int32 {
	tr := triggers{once: !n.flag("loop", true)}
	begins, formats := t.pairs(n)
	for i, v := range begins {
		text, ok := v.(string)
		if !ok || text == "" {
			fail(ErrInvalid, stepIndex(stepPath(n.path, "rules"), i), "must begin with a text")
		}
		tr.texts = append(tr.texts, text)
		tr.after = append(tr.after, func(at int32) int32 { return t.read(at, formats[i]) })
	}
	return t.freeText(from, n.texts("excludes"), tr)
}

// separated reads tags with a separator between them.
func (t *tags) separated(from int32, n tagNode) int32 {
	list := t.tagNodes(n)
	sep := n.text("separator")
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
		s = t.b.star(s, func(at int32) int32 { return t.b.call(t.lit(at, sep), r) })
	}
	t.b.eps(s, to)
	return to
}
