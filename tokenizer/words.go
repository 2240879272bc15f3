package tokenizer

import "strings"

// words is a hand-written matcher. It returns the end of the match that begins at s[i],
// or i, exactly as the regular expression does that knownPattern lists it for. The tests
// compare it with the generic matcher.
type words func(s string, i int) int

func (f words) match(s string, i int, _ *allowance) int { return f(s, i) }

func (f words) find(s string, i int, _ *allowance) int {
	for i < len(s) && f(s, i) == i {
		_, w := classAt(s, i)
		i += w
	}
	return i
}

// Patterns as published with the models.
const (
	gpt2Pattern     = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`
	llama3Pattern   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen2Pattern    = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	qwen35Pattern   = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	o200kPattern    = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	tekkenPattern   = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	deepseekPattern = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|" + `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
	threesPattern   = `\d{1,3}(?=(?:\d{3})*\b)`
	splitThrees     = `(?=(\d{3})+(?!\d))`
	kanaHanPattern  = `[一-龥぀-ゟ゠-ヿ]+`
)

// knownPattern returns the hand-written matcher of a published pattern, or nil.
func knownPattern(pattern string) matcher {
	// DeepSeek's file holds the line ends themselves where others escape them.
	switch strings.NewReplacer("\r", `\r`, "\n", `\n`).Replace(pattern) {
	case gpt2Pattern:
		return words(gpt2Word)
	case llama3Pattern:
		return words(func(s string, i int) int { return cl100kWord(s, i, 3, letter) })
	case qwen2Pattern:
		return words(func(s string, i int) int { return cl100kWord(s, i, 1, letter) })
	case qwen35Pattern:
		return words(func(s string, i int) int { return cl100kWord(s, i, 1, letter|mark) })
	case o200kPattern:
		return words(func(s string, i int) int { return o200kWord(s, i, 3, true) })
	case tekkenPattern:
		return words(func(s string, i int) int { return o200kWord(s, i, 1, false) })
	case deepseekPattern:
		return words(deepseekWord)
	case kanaHanPattern:
		return kanaHan{}
	case threesPattern:
		return digitGroups{}
	case splitThrees:
		return digitSplits{}
	case `\p{N}`:
		return classRun{number, 1}
	case `\p{N}{1,3}`:
		return classRun{number, 3}
	case `\p{N}+`:
		return classRun{number, 0}
	}
	return nil
}

// gpt2Word matches gpt2Pattern.
func gpt2Word(s string, i int) int {
	if s[i] == '\'' {
		if n := contraction(s[i:], false); n > 0 {
			return i + n
		}
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	if j < len(s) {
		c, w := classAt(s, j)
		switch {
		case c&letter != 0:
			return skipClass(s, j+w, letter)
		case c&number != 0:
			return skipClass(s, j+w, number)
		case c&space == 0:
			return skipNot(s, j+w, space|letter|number)
		}
	}
	return spaceRun(s, i, false)
}

// cl100kWord matches llama3Pattern (digits 3), qwen2Pattern (digits 1) and, with
// word = letter|mark, qwen35Pattern.
func cl100kWord(s string, i int, digits int, word class) int {
	if s[i] == '\'' {
		if n := contraction(s[i:], true); n > 0 {
			return i + n
		}
	}
	c, w := classAt(s, i)
	// [^\r\n\p{L}\p{N}]?[word]+: one foreign code point may lead the word. A mark can
	// be either, so both readings are tried.
	if c&(newline|letter|number) == 0 && i+w < len(s) {
		if next, nw := classAt(s, i+w); next&word != 0 {
			return skipClass(s, i+w+nw, word)
		}
	}
	if c&word != 0 {
		return skipClass(s, i+w, word)
	}
	if c&number != 0 {
		return classRun{number, digits}.match(s, i, nil)
	}
	return symbolsOrSpace(s, i, space|number|word|letter, "\r\n")
}

// o200kWord matches o200kPattern (digits 3, contractions) and tekkenPattern
// (digits 1, none).
//
//	[prefix]? U* l+   U may back off to the last code point that is in l too
//	[prefix]? U+ l*
func o200kWord(s string, i int, digits int, contractions bool) int {
	c, w := classAt(s, i)
	start := i
	if c&(newline|letter|number) == 0 {
		start += w
	}
	end, lastLower := start, -1
	for end < len(s) {
		next, nw := classAt(s, end)
		if next&upper == 0 {
			if next&lower != 0 {
				end = skipClass(s, end+nw, lower)
				lastLower = end
			}
			break
		}
		end += nw
		if next&lower != 0 {
			lastLower = end
		}
	}
	switch {
	case lastLower >= 0:
		end = lastLower
	case c&mark != 0: // not a prefix after all, but a word of its own
		end = i + w
	case end == start: // no word
		if c&number != 0 {
			return classRun{number, digits}.match(s, i, nil)
		}
		return symbolsOrSpace(s, i, space|letter|number, "\r\n/")
	}
	if contractions && end < len(s) && s[end] == '\'' {
		end += contraction(s[end:], true)
	}
	return end
}

// deepseekWord matches deepseekPattern; it returns i where nothing matches.
func deepseekWord(s string, i int) int {
	c, w := classAt(s, i)
	if c&symbol != 0 && w == 1 {
		j := i + 1
		for j < len(s) && isASCIILetter(s[j]) {
			j++
		}
		if j > i+1 {
			return j
		}
	}
	if c&(newline|letter|symbol) == 0 && i+w < len(s) {
		if next, nw := classAt(s, i+w); next&(letter|mark) != 0 {
			return skipClass(s, i+w+nw, letter|mark)
		}
	}
	if c&(letter|mark) != 0 {
		return skipClass(s, i+w, letter|mark)
	}
	j := i
	if s[i] == ' ' {
		j++
	}
	if k := skipClass(s, j, symbol); k > j {
		return skipBytes(s, k, "\r\n")
	}
	if c&space != 0 {
		return spaceRun(s, i, true)
	}
	return i
}

// symbolsOrSpace matches ` ?[^not]+[trail]*|\s*[\r\n]+|\s+(?!\S)|\s+`; not includes space.
func symbolsOrSpace(s string, i int, not class, trail string) int {
	j := i
	if s[i] == ' ' {
		j++
	}
	if k := skipNot(s, j, not); k > j {
		return skipBytes(s, k, trail)
	}
	return spaceRun(s, i, true)
}

// spaceRun matches `\s+(?!\S)|\s+`, before it `\s*[\r\n]+` if lines: up to the last
// line end of the run, or without the last code point unless the run ends the
// string or is that one code point.
func spaceRun(s string, i int, lines bool) int {
	end, last, afterLine := i, i, i
	for end < len(s) {
		c, w := classAt(s, end)
		if c&space == 0 {
			break
		}
		last = end
		end += w
		if c&newline != 0 {
			afterLine = end
		}
	}
	switch {
	case lines && afterLine > i:
		return afterLine
	case end < len(s) && last > i:
		return last
	}
	return end
}

// contraction returns the length of 's 't 're 've 'm 'll 'd at the start of s,
// which begins with an apostrophe, or 0. Under (?i:) U+017F folds to s; no other
// letter here has a second fold.
func contraction(s string, fold bool) int {
	var b [3]byte
	n := copy(b[:], s)
	if fold {
		for i := 1; i < n; i++ {
			if 'A' <= b[i] && b[i] <= 'Z' {
				b[i] += 'a' - 'A'
			}
		}
	}
	switch b[1] {
	case 's', 't', 'm', 'd':
		return 2
	case 'r', 'v':
		if b[2] == 'e' {
			return 3
		}
	case 'l':
		if b[2] == 'l' {
			return 3
		}
	case 0xC5:
		if fold && b[2] == 0xBF {
			return 3
		}
	}
	return 0
}

func isASCIILetter(b byte) bool { b |= 0x20; return 'a' <= b && b <= 'z' }

func skipBytes(s string, i int, set string) int {
	for i < len(s) && strings.IndexByte(set, s[i]) >= 0 {
		i++
	}
	return i
}
