package grammar

import "strings"

// ebnfMacros are the macros of xgrammar 0.2.8 (its documentation, "EBNF Grammar"). A rule may
// have the name of one: a macro has a parenthesis right after its name.
var ebnfMacros map[string]func(p *ebnf, at int) *expr

func init() {
	ebnfMacros = map[string]func(p *ebnf, at int) *expr{
		"Regex": (*ebnf).regexMacro, "Substring": (*ebnf).substringMacro, "Token": (*ebnf).tokenMacro, "ExcludeToken": (*ebnf).excludeTokenMacro,
		"TagDispatch": (*ebnf).tagDispatch, "TokenTagDispatch": (*ebnf).tokenTagDispatch,
	}
}

// macroValue is an argument of a macro: a text, a number or name, or a list of values.
type macroValue struct {
	name  string // of a named argument
	kind  macroKind
	text  string // of a text, a number or a name
	list  []macroValue
	at    int
	index int32 // a number
}

type macroKind uint8

const (
	macroText macroKind = iota
	macroNumber
	macroName // true, false or a rule
	macroList
)

// arguments reads what is between ( and ) of a macro.
func (p *ebnf) arguments() (args []macroValue, named map[string]macroValue) {
	named = make(map[string]macroValue)
	for _, v := range p.values(true) {
		if v.name == "" {
			args = append(args, v)
			continue
		}
		if _, twice := named[v.name]; twice {
			p.i = v.at
			p.bad("an argument given twice")
		}
		named[v.name] = v
	}
	return args, named
}

// values reads a list in parentheses.
func (p *ebnf) values(names bool) []macroValue {
	p.enter()
	defer func() { p.depth-- }()
	p.eat("(")
	var res []macroValue
	for p.space(); !p.eat(")"); p.space() {
		res = append(res, p.value(names))
		if p.space(); !p.eat(",") && p.peek() != ')' {
			p.bad("expected , or )")
		}
	}
	return res
}

func (p *ebnf) value(names bool) macroValue {
	v := macroValue{at: p.i}
	switch {
	case p.eat(`"`):
		v.text = p.quoted()
		return v
	case p.peek() == '(':
		v.kind, v.list = macroList, p.values(false)
		return v
	}
	if v.text = p.ruleName(); v.text == "" {
		p.bad("expected a text, a number, a name or a list")
	}
	if strings.Trim(v.text, "0123456789") == "" && len(v.text) < 9 {
		v.kind = macroNumber
		for _, c := range v.text {
			v.index = v.index*10 + c - '0'
		}
		return v
	}
	v.kind = macroName
	if p.space(); names && p.peek() == '=' {
		p.i++
		p.space()
		name := v.text
		v = p.value(false)
		v.name = name
	}
	return v
}

// badValue refuses v.
func (p *ebnf) badValue(v macroValue, want string) {
	p.i = v.at
	p.bad("expected " + want)
}

// only refuses named arguments other than those of keys.
func (p *ebnf) only(named map[string]macroValue, keys ...string) {
	for name, v := range named {
		known := false
		for _, k := range keys {
			known = known || k == name
		}
		if !known {
			p.badValue(v, "no argument "+name)
		}
	}
}

// flag is a named argument that is true or false.
func (p *ebnf) flag(named map[string]macroValue, name string, def bool) bool {
	v, ok := named[name]
	if !ok {
		return def
	}
	if v.kind != macroName || v.text != "true" && v.text != "false" {
		p.badValue(v, "true or false")
	}
	return v.text == "true"
}

// texts are the texts of a list.
func (p *ebnf) texts(list []macroValue) []string {
	var res []string
	for _, v := range list {
		if v.kind != macroText || v.text == "" {
			p.badValue(v, "a text")
		}
		res = append(res, v.text)
	}
	return res
}

// ids are the token ids of a list.
func (p *ebnf) ids(list []macroValue) []idRange {
	var res []idRange
	for _, v := range list {
		if v.kind != macroNumber {
			p.badValue(v, "the id of a token")
		}
		res = append(res, idRange{v.index, v.index})
	}
	return res
}

// regexMacro reads Regex("pattern", json_string=false, flags="").
func (p *ebnf) regexMacro(at int) *expr {
	args, named := p.arguments()
	p.only(named, "json_string", "flags")
	if len(args) != 1 || args[0].kind != macroText {
		p.i = at
		p.bad("expected Regex(\"pattern\")")
	}
	if p.flag(named, "json_string", false) {
		p.i = at
		p.refuse("json_string")
	}
	flags, given := named["flags"]
	if given && (flags.kind != macroText || strings.Trim(flags.text, "isu") != "") {
		p.badValue(flags, "flags of i, s and u")
	}
	if !given {
		flags.text = "s" // without flags, . is any character
	}
	return &expr{kind: exprRegex, re: p.parseRegex(args[0].text, flags.text, false, at)}
}

func (p *ebnf) substringMacro(at int) *expr {
	args, named := p.arguments()
	p.only(named)
	n := &expr{kind: exprChunks, at: at}
	for _, v := range args {
		if v.kind != macroText {
			p.badValue(v, "a text")
		}
		n.chunks = append(n.chunks, v.text)
	}
	return n
}

func (p *ebnf) tokenMacro(at int) *expr { return p.tokens(at, false) }

func (p *ebnf) excludeTokenMacro(at int) *expr { return p.tokens(at, true) }

func (p *ebnf) tokens(at int, not bool) *expr {
	args, named := p.arguments()
	p.only(named)
	if len(args) == 0 {
		p.i = at
		p.bad("expected the id of a token")
	}
	return &expr{kind: exprToken, at: at, tokens: tokenSet{ranges: p.ids(args), not: not}}
}

// dispatch reads the arguments of a macro whose pairs are of a trigger and a rule.
func (p *ebnf) dispatch() (triggers []macroValue, f *freeExpr, excludes []macroValue) {
	args, named := p.arguments()
	p.only(named, "loop_after_dispatch", "excludes")
	f = &freeExpr{once: !p.flag(named, "loop_after_dispatch", true)}
	for _, v := range args {
		if v.kind != macroList || len(v.list) != 2 || v.list[1].kind != macroName {
			p.badValue(v, "a pair of a trigger and a rule")
		}
		triggers = append(triggers, v.list[0])
		f.rules = append(f.rules, &expr{kind: exprRule, text: v.list[1].text, at: v.list[1].at})
	}
	if v, ok := named["excludes"]; ok {
		if v.kind != macroList {
			p.badValue(v, "a list")
		}
		excludes = v.list
	}
	return triggers, f, excludes
}

func (p *ebnf) tagDispatch(at int) *expr {
	triggers, f, excludes := p.dispatch()
	f.texts, f.excludes = p.texts(triggers), p.texts(excludes)
	return &expr{kind: exprFree, free: f, at: at}
}

func (p *ebnf) tokenTagDispatch(at int) *expr {
	triggers, f, excludes := p.dispatch()
	f.byToken, f.tokens, f.without = true, p.ids(triggers), p.ids(excludes)
	return &expr{kind: exprFree, free: f, at: at}
}
