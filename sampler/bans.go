package sampler

import (
	"cmp"
	"slices"
	"sort"
)

// bans are the tokens that are forbidden after some outputs: the last tokens of bad words of
// several tokens, and the stop ids until min_tokens. They do not change, so the choices of a
// request share them.
type bans struct {
	tokens []int32         // without duplicates
	index  map[int32]int32 // index in tokens, by token
	words  []badWord       // sorted by their tokens before the last one, read backwards, and then by last
	stops  []int32         // sorted indices of the stop ids in tokens
	most   int             // at least as many words as an output can ever end in, all but their last tokens
}

// badWord bans a token after a sequence of output tokens.
type badWord struct {
	after []int32 // not empty: a word of a single token is always banned
	last  int32   // index of its last token in bans.tokens
}

func newBans(p *Params) *bans {
	b := &bans{index: make(map[int32]int32)}
	add := func(token int32) int32 {
		i, ok := b.index[token]
		if !ok {
			i = int32(len(b.tokens))
			b.index[token] = i
			b.tokens = append(b.tokens, token)
		}
		return i
	}
	for _, w := range p.BadWords {
		if n := len(w) - 1; n > 0 {
			b.words = append(b.words, badWord{slices.Clone(w[:n]), add(w[n])})
		}
	}
	slices.SortFunc(b.words, func(v, w badWord) int {
		return cmp.Or(compareBackwards(v.after, w.after), cmp.Compare(v.last, w.last))
	})
	run := 0
	for i, w := range b.words {
		if run++; i > 0 && w.after[len(w.after)-1] != b.words[i-1].after[len(b.words[i-1].after)-1] {
			run = 1
		}
		b.most = max(b.most, run)
	}
	if p.MinTokens > 0 {
		for _, t := range p.StopIDs {
			b.stops = append(b.stops, add(t))
		}
		slices.Sort(b.stops)
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

// each calls f with the bad words that output ends in, all but their last token, until f
// returns false. Those of a call are all that have the same tokens before the last one. With
// every token that it reads backwards it looks at fewer words: thousands of bad words would
// otherwise be compared for every token of every choice.
func (b *bans) each(output []int32, f func(words []badWord) bool) {
	words := b.words
	for read := 1; len(words) > 0 && read <= len(output); read++ {
		token := output[len(output)-read]
		words = words[search(words, read, token):]
		words = words[:search(words, read, token+1)]
		n := sort.Search(len(words), func(i int) bool { return len(words[i].after) > read }) // the shortest come first
		if n > 0 && !f(words[:n]) {
			return
		}
		words = words[n:]
	}
}

// forbid reports whether a token may not follow output, because it is the last one of a bad
// word. Such a word may be one of thousands that output ends in.
func (b *bans) forbid(token int32, output []int32) bool {
	ban, ok := b.index[token]
	if !ok {
		return false
	}
	found := false
	b.each(output, func(words []badWord) bool {
		_, found = slices.BinarySearchFunc(words, ban, func(w badWord, ban int32) int { return cmp.Compare(w.last, ban) })
		return !found
	})
	return found
}

// isStop reports whether a token is a stop id that is forbidden until min_tokens.
func (b *bans) isStop(token int32) bool {
	ban, ok := b.index[token]
	if ok {
		_, ok = slices.BinarySearch(b.stops, ban)
	}
	return ok
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
