package grammar

import (
	"slices"
	"strings"
)

// larkAttributes are those of a rule that change its texts.
type larkAttributes struct {
	lazy   bool
	suffix *expr
	empty  bool // max_tokens=0
}

// attributes reads what is between [ and ] after the name of a rule.
func (l *lark) attributes() (a larkAttributes) {
	l.eat("[")
	for again := true; again; again = l.eat(",") {
		l.space()
		at := l.i
		key := l.name()
		l.space()
		value := l.eat("=")
		l.space()
		switch {
		case key == "capture" && !value:
			l.i = at
			l.warn(key)
			l.i = at + len(key)
		case key == "lazy" && !value:
			a.lazy = true
		case !value || !slices.Contains([]string{"capture", "stop_capture", "temperature", "suffix", "stop", "max_tokens"}, key):
			l.i = at
			l.bad("an unknown attribute")
		default:
			l.attribute(&a, key, at)
		}
		l.space()
	}
	if !l.eat("]") {
		l.bad("missing ]")
	}
	return a
}

// attribute reads the value of the attribute key, which is at the byte at.
func (l *lark) attribute(a *larkAttributes, key string, at int) {
	ignore := func() {
		end := l.i
		l.i = at
		l.warn(key)
		l.i = end
	}
	switch key {
	case "capture", "stop_capture":
		if !l.eat(`"`) {
			l.bad("expected a string")
		}
		l.quoted()
		ignore()
	case "temperature":
		for strings.IndexByte("+-.0123456789eE", l.peek()) >= 0 && l.i < len(l.s) {
			l.i++
		}
		ignore()
	case "max_tokens":
		n, ok := l.number()
		if !ok || n > 0 {
			l.i = at
			l.refuse("max_tokens")
		}
		a.empty = true
	default:
		l.inRule = false
		value := l.atom()
		if key == "suffix" {
			a.suffix, a.lazy = value, true
			return
		}
		if value.kind != exprText || value.text != "" {
			l.i = at
			l.refuse("stop, whose text is taken back: suffix is supported, and stop")
		}
		ignore()
	}
}
