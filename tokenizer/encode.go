package tokenizer

import (
	"slices"
	"unicode/utf8"

	"weir/internal/longcopy"
)

// worker is the scratch memory of one Encode.
type worker struct {
	t     *Tokenizer
	out   []int32
	ids   []int32
	ranks []uint32
	long  longMerge
	nodes []viterbiNode // of a Unigram model
	path  []int32
	allow allowance
}

// longOutput is the number of tokens from which on append must not have to make room for more:
// see [weir/internal/longcopy].
const longOutput = 1 << 16

// maxScratch bounds, in symbols, the memory that a worker keeps for the next text.
const maxScratch = 1 << 14

// Encode appends the ids of text to dst and returns it. With addSpecial the ids
// that the file's post-processor adds (usually BOS) go around them.
//
// The ids equal those of Hugging Face's tokenizers. Text that is not valid UTF-8
// is read as if each maximal invalid subpart were U+FFFD. Added tokens, special ones
// too, are found in text. If a part of it must not become a control token, the caller has
// to keep that part out of text.
//
// Encode takes O(n log n) time. Where a regular expression of the file could take
// longer, the error is ErrTooComplex and dst is returned as it was; the regular
// expressions of the published tokenizers never do. Nothing is allocated for words in
// the cache if dst has room and no normalizer rewrites the text. Many goroutines may
// call Encode at once.
func (t *Tokenizer) Encode(dst []int32, text string, addSpecial bool) ([]int32, error) {
	return t.EncodeUntil(nil, dst, text, addSpecial)
}

// EncodeUntil is Encode that stops a few milliseconds after done was closed, with
// ErrStopped. A nil done stops nothing.
func (t *Tokenizer) EncodeUntil(done <-chan struct{}, dst []int32, text string, addSpecial bool) ([]int32, error) {
	return t.EncodeWithin(done, nil, dst, text, addSpecial)
}

// EncodeWithin is EncodeUntil for a text that may become longer than it was: normalization
// form C makes up to three bytes of one. reserve is asked with the length of what is encoded,
// in bytes, when that is more than the length of text. If it says no, the error is ErrStopped.
func (t *Tokenizer) EncodeWithin(done <-chan struct{}, reserve func(length int) bool, dst []int32, text string, addSpecial bool) ([]int32, error) {
	if dst == nil {
		dst = make([]int32, 0, len(text)/4+len(t.prefix)+len(t.suffix)+4)
	}
	w, ok := t.workers.Get().(*worker)
	if !ok {
		w = &worker{t: t}
	}
	w.out, w.allow = dst, allowance{rest: stepsPerText, due: workSlice, done: done, reserve: reserve, length: len(text)}
	if addSpecial {
		w.out = append(w.out, t.prefix...)
	}
	var err error
	switch ok := w.text(toValid(text)); {
	case w.allow.stopped:
		w.out, err = w.out[:len(dst)], ErrStopped
	case !ok:
		w.out, err = w.out[:len(dst)], ErrTooComplex
	case addSpecial:
		if n := len(dst) + len(t.prefix); t.prefixOnce && slices.Equal(t.prefix, w.out[n:min(n+len(t.prefix), len(w.out))]) {
			w.out = slices.Delete(w.out, len(dst), n)
		}
		w.out = append(w.out, t.suffix...)
	}
	w.allow.done, w.allow.reserve = nil, nil
	dst, w.out = w.out, nil
	if cap(w.ids) <= maxScratch {
		t.workers.Put(w)
	}
	return dst, err
}

// text finds added tokens as they are written, normalizes what is between them, finds
// those that are searched for after normalization, and encodes the rest. It
// returns false if the allowance does not suffice.
func (w *worker) text(s string) bool {
	raw := addedScan{set: w.t.rawAdded, text: s}
	for {
		part, start, tok, ok := raw.next()
		switch {
		case !ok:
			return true
		case tok != nil:
			w.out = append(w.out, tok.ID)
			continue
		}
		before := len(part)
		for _, f := range w.t.normalizers {
			part = f(&w.allow, part)
		}
		if !w.allow.grow(len(part) - before) {
			return false
		}
		normal := addedScan{set: w.t.normAdded, text: part}
		for {
			stretch, at, tok, ok := normal.next()
			if !ok {
				break
			}
			if tok != nil {
				w.out = append(w.out, tok.ID)
			} else if !w.stage(0, stretch, start == 0 && at == 0) {
				return false
			}
		}
	}
}

// stage passes s through the pre-tokenizers from the k-th on and encodes the words that
// they cut. first says that s begins the whole text. It returns false if the allowance does not
// suffice.
func (w *worker) stage(k int, s string, first bool) bool {
	if k == len(w.t.stages) {
		w.word(s)
		return w.allow.work(len(s))
	}
	st := &w.t.stages[k]
	if st.rewrite != nil {
		before := len(s)
		if s = st.rewrite(s, first); !w.allow.grow(len(s) - before) {
			return false
		}
	}
	if st.split == nil {
		return w.stage(k+1, s, first)
	}
	w.allow.add(stepsPerByte * len(s))
	for i := 0; i < len(s); {
		end, keep := st.split.next(s, i, &w.allow)
		if w.allow.spent() || keep && !w.stage(k+1, s[i:end], first && i == 0) {
			return false
		}
		i = end
	}
	return true
}

// word encodes one pre-token.
func (w *worker) word(s string) {
	t := w.t
	if len(w.out) >= longOutput {
		w.out = longcopy.Grow(w.out, len(s)) // a word has at most as many tokens as bytes
	}
	switch {
	case len(s) == 1 && t.byteLevel && t.bytes[s[0]] >= 0:
		w.out = append(w.out, t.bytes[s[0]])
	case t.byteLevel:
		w.piece(s)
	case t.userWords != nil && w.userWord(s):
	case t.model != nil:
		w.piece(s)
	default:
		if t.ignoreMerges {
			if id, ok := t.vocab.ids[s]; ok {
				w.out = append(w.out, id)
				return
			}
		}
		w.cut(s)
	}
}

// userWord encodes a word that is always a token.
func (w *worker) userWord(s string) bool {
	id, ok := w.t.userWords[s]
	if ok {
		w.out = append(w.out, id)
	}
	return ok
}

// cut encodes a pre-token of a vocabulary of characters. Such a vocabulary may have no
// pre-tokenizer at all, so that the whole text is one word, too long for the cache. The
// word is therefore cut between characters that no merge joins, which does not change
// its ids.
func (w *worker) cut(s string) {
	c := &w.t.chars
	start, prev := 0, rune(-1)
	for i, r := range s {
		if prev >= 0 && !c.joined(prev, r) {
			w.piece(s[start:i])
			start = i
		}
		prev = r
	}
	w.piece(s[start:])
}

// piece encodes a piece through the cache.
func (w *worker) piece(s string) {
	if len(s) > cacheBytes {
		w.merge(s)
		return
	}
	c := &w.t.cache
	set := c.set(s)
	if e := set.find(s); e != nil {
		w.out = append(w.out, e.ids[:e.n]...)
		return
	}
	before := len(w.out)
	w.merge(s)
	if ids := w.out[before:]; len(ids) <= cacheIDs {
		set.add(s, ids)
	}
}

// merge encodes a piece by merging its symbols, or as the model says.
func (w *worker) merge(s string) {
	t := w.t
	if t.model != nil {
		t.model.encode(w, s)
		return
	}
	before := len(w.out)
	if w.mergeSymbols(s); len(t.chars.lacking) > 0 {
		w.out = t.chars.restore(w.out, before)
	}
}

func (w *worker) mergeSymbols(s string) {
	t := w.t
	if t.byteLevel && t.ignoreMerges {
		if id, ok := t.vocab.ids[s]; ok {
			w.out = append(w.out, id)
			return
		}
	}
	w.ids, w.ranks = w.ids[:0], w.ranks[:0]
	if len(s) >= wideFrom {
		w.ids = room(w.ids, utf8.RuneCountInString(s))
	}
	if t.byteLevel {
		w.byteSymbols(s)
	} else {
		w.ids = t.chars.symbols(w.ids, s)
	}
	if len(w.ids) < 2 {
		w.out = append(w.out, w.ids...)
		return
	}
	if len(w.ids) >= wideFrom && t.maxSpelled <= mostPlaces {
		wide := wideMerge{m: t.merges, allow: &w.allow}
		w.out = wide.merge(w.out, w.ids, len(w.ids)/2)
		return
	}
	m := t.merges
	for i := len(w.ranks) + 1; i < len(w.ids); i++ {
		w.ranks = append(w.ranks, m.rank(w.ids[i-1], w.ids[i]))
	}
	w.ranks = append(w.ranks, noRank)
	if len(w.ids) <= shortWord {
		w.out = append(w.out, m.mergeShort(w.ids, w.ranks)...)
		return
	}
	w.out = w.long.merge(m, w.out, w.ids, w.ranks)
}

// room returns an empty slice with room for n elements, which is s if that is large enough.
// The runtime clears the memory of make piece by piece. That of append and slices.Grow it
// clears at once, and meanwhile a garbage collection that is to begin stops the whole
// process: for a tenth of a second with a word of 31 MB.
func room(s []int32, n int) []int32 {
	if cap(s) >= n {
		return s[:0]
	}
	return make([]int32, 0, n)
}

// byteSymbols fills ids with the tokens of the bytes of s, and ranks with the ranks of
// their merges unless there are very many. Bytes that the vocabulary lacks (StarCoder's lacks those of planes without
// characters) become the unknown token or are left out, as in Hugging Face's library.
func (w *worker) byteSymbols(s string) {
	t := w.t
	if t.lacksBytes {
		before := false
		for i := range len(s) {
			if id := t.bytes[s[i]]; id >= 0 {
				w.ids, before = append(w.ids, id), false
			} else {
				w.ids, before = t.unknown.add(w.ids, before), true
			}
		}
		return
	}
	w.ids = room(w.ids, len(s))[:len(s)]
	if len(s) >= wideFrom {
		for i := range len(s) {
			w.ids[i] = t.bytes[s[i]]
		}
		return
	}
	w.ranks = slices.Grow(w.ranks, len(s))[:len(s)-1]
	w.ids[0] = t.bytes[s[0]]
	for i := 1; i < len(s); i++ {
		w.ids[i] = t.bytes[s[i]]
		w.ranks[i-1] = t.merges.bytes[int(s[i-1])<<8|int(s[i])]
	}
}
