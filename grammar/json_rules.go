package grammar

import (
	"sync"
	"unicode/utf8"
)

// The rules that are common to all grammars. Their states have the same numbers
// everywhere, so their shapes are built once for a vocabulary.
const (
	ruleTail         = iota // the rest of a string with the closing quote; a tick is a character
	ruleInteger             // an integer without exponent
	ruleNumber              // a number
	ruleBreak               // one or two line breaks and an indentation; a tick is a space or tab
	ruleAny                 // a value, with the default whitespace
	ruleObject              // an object
	ruleArray               // an array
	ruleTightAny            // a value without whitespace
	ruleTightObject         // an object
	ruleTightArray          // an array
	ruleSpacedAny           // a value with a space after each comma and colon, and no other whitespace
	ruleSpacedObject        // an object
	ruleSpacedArray         // an array
	ruleFormat              // the rest of a string of the format formatNames[0]; the other formats follow
)

// maxIndent bounds the spaces or tabs of one indentation. Otherwise a model that likes
// whitespace would write it until its token limit.
const maxIndent = 48

// commonRules is the network of the common rules. It is made once for a process.
var commonRules = sync.OnceValue(func() *network {
	b := newBuilder(nil, 200_000, unmetered())
	for range ruleFormat + len(formatNames) {
		b.rule()
	}
	b.stringTail()
	b.accept(b.integer(b.start(ruleInteger)))
	b.accept(b.number(b.start(ruleNumber)))
	b.lineBreak()
	b.anyValue(b.flexible, b.flexible, ruleAny, ruleObject, ruleArray)
	b.anyValue(tight, tight, ruleTightAny, ruleTightObject, ruleTightArray)
	b.anyValue(tight, b.space, ruleSpacedAny, ruleSpacedObject, ruleSpacedArray)
	for i, f := range formatNames {
		s := b.start(ruleFormat + int32(i))
		b.accept(b.jsonString(s, formatDFA(f)))
	}
	n := b.rules()
	n.trim(b)
	n.tails(b)
	n.folds(b)
	return n.asBase()
})

func (b *builder) digit(s int32) int32 { return b.bytes(s, '0', '9') }

func (b *builder) integer(s int32) int32 {
	s = b.opt(s, func(at int32) int32 { return b.lit(at, "-") })
	return b.alt(s, func(at int32) int32 { return b.lit(at, "0") },
		func(at int32) int32 { return b.star(b.bytes(at, '1', '9'), b.digit) })
}

func (b *builder) number(s int32) int32 {
	s = b.integer(s)
	s = b.opt(s, func(at int32) int32 { return b.star(b.digit(b.lit(at, ".")), b.digit) })
	return b.opt(s, func(at int32) int32 {
		at = b.bytes(at, 'e', 'e', 'E', 'E')
		at = b.opt(at, func(at int32) int32 { return b.bytes(at, '+', '+', '-', '-') })
		return b.exponent(at)
	})
}

// exponent reads one or two digits, or three up to 299. Beyond 1e308 most programs read
// infinity or refuse the text.
func (b *builder) exponent(from int32) int32 {
	return b.alt(from, func(at int32) int32 { return b.opt(b.digit(at), b.digit) },
		func(at int32) int32 { return b.digit(b.digit(b.bytes(at, '0', '2'))) })
}

// stringTail defines ruleTail. Characters are counted as decoded: an escaped pair of
// surrogates is one character. A lone surrogate is not allowed.
func (b *builder) stringTail() {
	loop, body, out := b.state(), b.state(), b.state()
	b.eps(b.start(ruleTail), loop)
	b.step(loop, step{kind: stepTick, to: body})
	b.step(loop, step{kind: stepGuard, to: out})
	b.accept(b.lit(out, `"`))
	b.runeRange(body, loop, 0x20, '"'-1)
	b.runeRange(body, loop, '"'+1, '\\'-1)
	b.runeRange(body, loop, '\\'+1, utf8.MaxRune)
	esc := b.lit(body, `\`)
	for _, c := range []byte(`"\/bfnrt`) {
		b.edge(esc, c, c, loop)
	}
	hex := func(from int32, to int32) {
		b.edge(from, '0', '9', to)
		b.edge(from, 'A', 'F', to)
		b.edge(from, 'a', 'f', to)
	}
	u := b.lit(esc, "u")
	h3, h2, h1 := b.state(), b.state(), b.state()
	b.edge(u, '0', '9', h3)
	for _, r := range [...][2]byte{{'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}} {
		b.edge(u, r[0], r[1], h3)
	}
	hex(h3, h2)
	hex(h2, h1)
	hex(h1, loop)
	d := b.bytes(u, 'D', 'D', 'd', 'd')
	b.edge(d, '0', '7', h2)
	high := b.bytes(d, '8', '9', 'A', 'B', 'a', 'b')
	x, y := b.state(), b.state()
	hex(high, x)
	hex(x, y)
	low := b.bytes(b.lit(y, `\u`), 'D', 'D', 'd', 'd')
	low = b.bytes(low, 'C', 'F', 'c', 'f')
	hex(low, h1)
}

// flexible reads the default whitespace between JSON's tokens: nothing, a space, or
// one or two line breaks with an indentation.
func (b *builder) flexible(from int32) int32 {
	to := b.state()
	b.eps(from, to)
	b.edge(from, ' ', ' ', to)
	b.step(from, step{kind: stepCall, rule: ruleBreak, left: maxIndent, to: to})
	return to
}

// lineBreak defines ruleBreak.
func (b *builder) lineBreak() {
	line := func(at int32) int32 {
		return b.lit(b.opt(at, func(at int32) int32 { return b.lit(at, "\r") }), "\n")
	}
	s := b.opt(line(b.start(ruleBreak)), line)
	loop, body, out := b.state(), b.state(), b.state()
	b.eps(s, loop)
	b.step(loop, step{kind: stepTick, to: body})
	b.edge(body, ' ', ' ', loop)
	b.edge(body, '\t', '\t', loop)
	b.step(loop, step{kind: stepGuard, to: out})
	b.accept(out)
}

// tight reads no whitespace.
func tight(from int32) int32 { return from }

// space reads one space.
func (b *builder) space(from int32) int32 { return b.lit(from, " ") }

// anyValue defines the rules for any value, any object and any array, with ws between
// the tokens, and sep after those that separate.
func (b *builder) anyValue(ws, sep frag, value, obj, arr int32) {
	text := func(at int32) int32 { return b.call(b.lit(at, `"`), ruleTail) }
	b.accept(b.alt(b.start(value), text,
		func(at int32) int32 { return b.call(at, ruleNumber) },
		func(at int32) int32 { return b.lit(at, "true") },
		func(at int32) int32 { return b.lit(at, "false") },
		func(at int32) int32 { return b.lit(at, "null") },
		func(at int32) int32 { return b.call(at, obj) },
		func(at int32) int32 { return b.call(at, arr) }))
	list := func(s int32, open, shut string, member frag) {
		s = ws(b.lit(s, open))
		s = b.opt(s, func(at int32) int32 {
			return b.star(member(at), func(at int32) int32 { return member(sep(b.lit(at, ","))) })
		})
		b.accept(b.lit(s, shut))
	}
	list(b.start(obj), "{", "}", func(at int32) int32 { return ws(b.call(sep(b.lit(ws(text(at)), ":")), value)) })
	list(b.start(arr), "[", "]", func(at int32) int32 { return ws(b.call(at, value)) })
}
