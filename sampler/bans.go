package sampler

import "slices"

// bans are the tokens that are forbidden after some outputs: the last tokens of bad words of
// several tokens, and the stop ids until min_tokens. They do not change, so the choices of a
// request share them.
type bans struct {
	tokens []int32   // without duplicates
	words  []badWord // sorted by their tokens before the last one, read backwards
	stops  []int32   // indices of the stop ids in tokens
}

// badWord bans a token after a sequence of output tokens.
type badWord struct {
	after []int32 // not empty: a word of a single token is always banned
	last  int32   // index of its last token in bans.tokens
}

func newBans(p *Params) *bans {
	b := &bans{}
	index := make(map[int32]int32)
	add := func(token int32) int32 {
		i, ok := index[token]
		if !ok {
			i = int32(len(b.tokens))
			index[token] = i
			b.tokens = append(b.tokens, token)
		}
		return i
	}
	for _, w := range p.BadWords {
		if n := len(w) - 1; n > 0 {
			b.words = append(b.words, badWord{slices.Clone(w[:n]), add(w[n])})
		}
	}
	slices.SortFunc(b.words, func(v, w badWord) int { return compareBackwards(v.after, w.after) })
	if p.MinTokens > 0 {
		for _, t := range p.StopIDs {
			b.stops = append(b.stops, add(t))
		}
	}
	return b
}

// compareBackwards compares two sequences from their last token to their first. A sequence
// in which another one ends comes after that one.
func compareBackwards(a, b []int32) int {
	for i := 1; i <= len(a) && i <= len(b); i++ {
		if x, y := a[len(a)-i], b[len(b)-i]; x != y {
			return int(x) - int(y)
		}
	}
	return len(a) - len(b)
}

// each calls f with the bans of the bad words that output ends in, all but their last token,
// until f returns false. With every token that it reads backwards it looks at fewer words:
// thousands of bad words would otherwise be compared for every token of every choice.
func (b *bans) each(output []int32, f func(ban int32) bool) {
	words := b.words
	for read := 1; len(words) > 0 && read <= len(output); read++ {
		token := output[len(output)-read]
		words = words[search(words, read, token):]
		words = words[:search(words, read, token+1)]
		for len(words) > 0 && len(words[0].after) == read { // the shortest come first
			if !f(words[0].last) {
				return
			}
			words = words[1:]
		}
	}
}

// search returns the first of the words, which have the same last tokens, whose token number
// read from the end is at least token.
func search(words []badWord, read int, token int32) int {
	low, high := 0, len(words)
	for low < high {
		mid := (low + high) / 2
		if after := words[mid].after; after[len(after)-read] < token {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}
