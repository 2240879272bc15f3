package feedback

import (
	_ "embed"
	"fmt"
	"strings"
	"sync"
	"unicode/utf8"
)

// emojiTable lists the emoji up to Emoji 17.0 with their aliases (tools/emojitable.py).
//
//go:embed emoji.txt
var emojiTable string

// emojiIndex is the table as maps.
type emojiIndex struct {
	alias map[string]string // aliases by emoji without U+FE0F
	full  map[string]string // fully qualified emoji by alias
}

var emojis = sync.OnceValue(func() emojiIndex {
	t := emojiIndex{map[string]string{}, map[string]string{}}
	for line := range strings.Lines(emojiTable) {
		emoji, alias, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
		t.alias[unqualified(emoji)] = alias
		t.full[alias] = emoji
	}
	return t
})

const (
	qualifier = "\uFE0F" // selects the coloured form of the character before it
	joiner    = '\u200D'
	firstTone = '\U0001F3FB'
	lastTone  = '\U0001F3FF'
)

func unqualified(s string) string { return strings.ReplaceAll(s, qualifier, "") }

var tones = strings.NewReplacer("_light_skin_tone", "", "_medium-light_skin_tone", "", "_medium_skin_tone", "", "_medium-dark_skin_tone", "", "_dark_skin_tone", "")

// emojiNames is what the server adds to the payload of a reaction
// (docs/interface/feedback.md, section 6.1).
type emojiNames struct{ alias, detoned, detonedAlias string }

// describeEmoji returns the names of an emoji; ok is false if s is not exactly one.
func describeEmoji(s string) (r emojiNames, ok bool) {
	t := emojis()
	if alias, known := t.alias[unqualified(s)]; known {
		bare := tones.Replace(alias)
		full, known := t.full[bare]
		if !known { // couples with two tones have other names than couples without tones
			full = untoned(t.full[alias])
		}
		return emojiNames{":" + alias + ":", full, ":" + bare + ":"}, true
	}
	if !looksLikeEmoji(s) {
		return r, false
	}
	// The emoji is newer than the table, or a pair of tones without a name.
	bare := untoned(s)
	r = emojiNames{codePointAlias(s), bare, codePointAlias(bare)}
	if alias, known := t.alias[unqualified(bare)]; known {
		r.detoned, r.detonedAlias = t.full[alias], ":"+alias+":"
	}
	return r, true
}

func untoned(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= firstTone && c <= lastTone {
			return -1
		}
		return c
	}, s)
}

// codePointAlias makes an alias of the code points.
func codePointAlias(s string) string {
	b := []byte{':'}
	for _, c := range s {
		if len(b) > 1 {
			b = append(b, '_')
		}
		b = fmt.Appendf(b, "u%x", c)
	}
	return string(append(b, ':'))
}

// looksLikeEmoji reports whether s has the form of one emoji (Unicode Technical Standard
// 51, ED-16 and ED-17) and its characters are from the blocks that have emoji.
func looksLikeEmoji(s string) bool {
	for first := true; ; first = false {
		c, n := utf8.DecodeRuneInString(s)
		switch {
		case n == 0:
			return false
		case isRegional(c): // a flag is a pair of them
			second, m := utf8.DecodeRuneInString(s[n:])
			return first && isRegional(second) && n+m == len(s)
		case !isPictograph(c):
			return false
		}
		s = s[n:]
		s = strings.TrimPrefix(s, qualifier)
		if c, n := utf8.DecodeRuneInString(s); c >= firstTone && c <= lastTone {
			s = s[n:]
		}
		s = strings.TrimPrefix(s, qualifier)
		if c, _ := utf8.DecodeRuneInString(s); first && isTag(c) { // flags of regions
			s = strings.TrimLeftFunc(s, isTag)
			return s == ""
		}
		if s == "" {
			return true
		}
		c, n = utf8.DecodeRuneInString(s)
		if c != joiner {
			return false
		}
		s = s[n:]
	}
}

func isRegional(c rune) bool { return c >= 0x1F1E6 && c <= 0x1F1FF }
func isTag(c rune) bool      { return c >= 0xE0020 && c <= 0xE007F }

func isPictograph(c rune) bool {
	return c >= 0x1F000 && c <= 0x1FBFF && !(c >= firstTone && c <= lastTone) || c >= 0x2190 && c <= 0x2BFF || c == 0x3030 || c == 0x303D || c == 0x3297 || c == 0x3299
}
