package grammar

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// A given text may end within a string that is spelled as no rule spells it, even within an
// escape. This file finds how such strings can go on.

// endingsTried bounds the ways in which an escape is finished.
const endingsTried = 4

// respell spells the string s so that it begins with g. It reports false if it cannot.
func (g *given) respell(s string) (spelled string, ok bool) {
	rest, ok := strings.CutPrefix(s, g.decoded)
	if !ok || g.text[0] != '"' {
		return "", false
	}
	if !strings.HasPrefix(g.tail, `\`) {
		return quoteJSON(s), strings.HasPrefix(rest, g.tail)
	}
	r, size := utf8.DecodeRuneInString(rest)
	end, ok := finishEscape(g.tail, r)
	if size == 0 || !ok {
		return "", false
	}
	return g.text + g.tail + end + quoteJSON(rest[size:])[1:], true
}

// finishEscape returns what is missing of an escape for r that begins with tail. It reports
// false if no escape for r does.
func finishEscape(tail string, r rune) (end string, ok bool) {
	for c, e := range shortEscapes {
		if e == r && tail == `\` {
			return string(c), true
		}
	}
	text := fmt.Sprintf(`\u%04x`, r)
	if r > 0xFFFF {
		text = fmt.Sprintf(`\u%04x\u%04x`, 0xD800+(r-0x10000)>>10, 0xDC00+(r-0x10000)&0x3FF)
	}
	if len(tail) >= len(text) || !strings.EqualFold(text[:len(tail)], tail) {
		return "", false
	}
	return text[len(tail):], true
}

// ending is a way to finish an escape: what is missing of it, what it stands for, and where
// a language goes on after it.
type ending struct {
	rest string
	r    rune
	to   int32
}

// triesInVain is how many characters are looked at for one more ending.
const triesInVain = 256

// endings returns some ways to finish the escape in which g ends, such that d can go on
// from its state at. They lead to different states.
func (g *given) endings(d *dfa, at int32) []ending {
	var res []ending
	vain := 0
	first, last := escapeRange(g.tail)
	d.runes(at, first, last, func(r rune, to int32) bool {
		rest, ok := finishEscape(g.tail, r)
		if ok = ok && !slices.ContainsFunc(res, func(e ending) bool { return e.to == to }); ok {
			res, vain = append(res, ending{rest, r, to}), 0
		} else if len(res) > 0 {
			vain++
		}
		return len(res) < endingsTried && vain < triesInVain
	})
	return res
}

// escapeRange bounds the characters that an escape which begins with tail can stand for.
func escapeRange(tail string) (first, last rune) {
	for i := range 4 {
		first, last = first<<4, last<<4|15
		if 2+i < len(tail) {
			k := rune(strings.IndexByte("0123456789abcdef", tail[2+i]|0x20))
			first, last = first|k, last&^15|k
		}
	}
	if first <= 0xDBFF && last >= 0xD800 { // it may be the first half of a pair of surrogates
		last = utf8.MaxRune
	}
	return first, last
}

// runes calls yield for the characters from first to last that d reads in its state at, with
// the state after them, until it returns false.
func (d *dfa) runes(at int32, first, last rune, yield func(r rune, to int32) bool) bool {
	var read func(at int32, r rune, left int) bool
	read = func(at int32, r rune, left int) bool {
		switch {
		case at < 0, r<<(6*left) > last, (r+1)<<(6*left) <= first:
			return true
		case left == 0:
			return yield(r, at)
		}
		for c := range rune(0x40) {
			if !read(d.next(at, byte(0x80|c)), r<<6|c, left-1) {
				return false
			}
		}
		return true
	}
	for c := range rune(256) {
		more, r := 0, c
		switch {
		case c >= 0xF0:
			more, r = 3, c&7
		case c >= 0xE0:
			more, r = 2, c&15
		case c >= 0x80:
			more, r = 1, c&31
		}
		if !read(d.next(at, byte(c)), r, more) {
			return false
		}
	}
	return true
}

// complete returns the shortest text of d that begins with g, and how it is spelled so that
// the spelling begins with g as well.
func (g *given) complete(d *dfa) (text, spelled string, ok bool) {
	if d.empty() {
		return "", "", false
	}
	at := d.walk(0, g.decoded)
	if at < 0 {
		return "", "", false
	}
	text = g.decoded
	if strings.HasPrefix(g.tail, `\`) {
		ways := g.endings(d, at)
		if len(ways) == 0 {
			return "", "", false
		}
		text, at = text+string(ways[0].r), ways[0].to
	} else if at = d.walk(at, g.tail); at < 0 {
		return "", "", false
	} else {
		text += g.tail
	}
	rest, ok := d.shortestFrom(at)
	if !ok {
		return "", "", false
	}
	spelled, ok = g.respell(text + rest)
	return text + rest, spelled, ok
}

// walk is the state that text leads to from at, or -1.
func (d *dfa) walk(at int32, text string) int32 {
	for i := 0; i < len(text) && at >= 0; i++ {
		at = d.next(at, text[i])
	}
	return at
}

// from is the language of what may follow in the state at.
func (d *dfa) from(at int32) *dfa {
	if at == 0 {
		return d
	}
	swap := func(s int32) int32 {
		switch s {
		case 0:
			return at
		case at:
			return 0
		}
		return s
	}
	res := &dfa{states: make([]state, len(d.states)), all: d.all}
	if d.all >= 0 {
		res.all = swap(d.all)
	}
	for i := range d.states {
		s := state{accept: d.states[i].accept}
		for _, e := range d.states[i].edges {
			s.edges = append(s.edges, edge{e.lo, e.hi, swap(e.to)})
		}
		res.states[swap(int32(i))] = s
	}
	return res
}

// plain is a byte of e, a letter or a digit if there is one.
func (e edge) plain() byte {
	for _, c := range [...]byte{'a', 'A', '0', ' '} {
		if e.lo <= c && c <= e.hi {
			return c
		}
	}
	return e.lo
}

// shortestFrom is a shortest text that leads from the state at to an accepting one.
func (d *dfa) shortestFrom(at int32) (text string, ok bool) {
	type step struct {
		from int32
		b    byte
	}
	before := map[int32]step{at: {from: -1}}
	list := []int32{at}
	for i := 0; i < len(list); i++ {
		s := list[i]
		if d.states[s].accept {
			var back []byte
			for ; before[s].from >= 0; s = before[s].from {
				back = append(back, before[s].b)
			}
			slices.Reverse(back)
			return string(back), true
		}
		for _, e := range d.states[s].edges {
			if _, seen := before[e.to]; !seen {
				before[e.to] = step{s, e.plain()}
				list = append(list, e.to)
			}
		}
	}
	return "", false
}

// respeller writes what is given of a value as rules without white space read it.
type respeller struct {
	strings.Builder
	exact bool // numbers stay as they are written
}

func (r *respeller) given(g *given) {
	switch g.kind {
	case givenNothing:
	case givenWhole:
		r.value(g.value)
	case givenToken:
		r.WriteString(g.text + g.tail)
	default:
		r.members(g)
	}
}

// members writes an object or array that is open.
func (r *respeller) members(g *given) {
	open := "["
	if g.kind == givenObject {
		open = "{"
	}
	for i, e := range g.of {
		r.WriteString(open)
		open = ","
		if g.kind == givenObject {
			r.WriteString(quoteJSON(g.names[i]))
			if e.kind == givenNothing && g.stop == stopColon {
				return
			}
			r.WriteByte(':')
		}
		r.given(e)
	}
	if len(g.of) == 0 || g.stop == stopComma || g.stop == stopName {
		r.WriteString(open)
	}
	if g.stop == stopName {
		r.given(g.name)
	}
}

func (r *respeller) value(v any) {
	switch v := v.(type) {
	case *object:
		r.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				r.WriteByte(',')
			}
			r.WriteString(quoteJSON(k) + ":")
			r.value(v.m[k])
		}
		r.WriteByte('}')
	case []any:
		r.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				r.WriteByte(',')
			}
			r.value(e)
		}
		r.WriteByte(']')
	case numeral:
		text := string(v)
		if plain, ok := plainNumber(v); ok && !r.exact {
			text = plain
		}
		r.WriteString(text)
	default:
		r.WriteString(dumpJSON(v))
	}
}
