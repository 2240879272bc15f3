package tokenizer

import "slices"

// worker is the scratch memory of one Encode.
type worker struct {
	t     *Tokenizer
	out   []int32
	ids   []int32
	ranks []uint32
	long  longMerge
	fuel  []int // by pre-tokenizer
}

// maxScratch bounds, in symbols, the memory that a worker keeps for the next text.
const maxScratch = 1 << 14

// Encode appends the ids of text to dst and returns it. With addSpecial the ids
// that the file's post-processor adds (usually BOS) go around them.
//
// The ids equal those of Hugging Face's tokenizers. Text that is not valid UTF-8
// is read as if each maximal invalid subpart were U+FFFD. Added tokens, special
// ones too, are found in text: what must not become a control token has to be
// kept out of text by the caller.
//
// Encode takes O(n log n) time, allocates nothing for words in the cache if dst
// has room and no normalizer rewrites the text, and may be called by many
// goroutines at once.
func (t *Tokenizer) Encode(dst []int32, text string, addSpecial bool) []int32 {
	if dst == nil {
		dst = make([]int32, 0, len(text)/4+len(t.prefix)+len(t.suffix)+4)
	}
	w, ok := t.workers.Get().(*worker)
	if !ok {
		w = &worker{t: t, fuel: make([]int, len(t.stages))}
	}
	w.out = dst
	if addSpecial {
		w.out = append(w.out, t.prefix...)
	}
	w.text(toValid(text))
	if addSpecial {
		w.out = append(w.out, t.suffix...)
	}
	dst, w.out = w.out, nil
	if cap(w.ids) <= maxScratch {
		t.workers.Put(w)
	}
	return dst
}

// text finds added tokens as they are written, normalizes what is between them,
// finds those that are looked for after normalization, and encodes the rest.
func (w *worker) text(s string) {
	raw := addedScan{set: w.t.rawAdded, text: s}
	for {
		part, start, tok, ok := raw.next()
		switch {
		case !ok:
			return
		case tok != nil:
			w.out = append(w.out, tok.ID)
			continue
		}
		for _, f := range w.t.normalizers {
			part = f(part)
		}
		normal := addedScan{set: w.t.normAdded, text: part}
		for {
			stretch, at, tok, ok := normal.next()
			if !ok {
				break
			}
			if tok != nil {
				w.out = append(w.out, tok.ID)
			} else {
				w.stage(0, stretch, start == 0 && at == 0)
			}
		}
	}
}

// stage passes s through the pre-tokenizers from the k-th on; first says that s
// begins the whole text.
func (w *worker) stage(k int, s string, first bool) {
	if k == len(w.t.stages) {
		w.word(s)
		return
	}
	st := &w.t.stages[k]
	if st.rewrite != nil {
		s = st.rewrite(s, first)
	}
	if st.split == nil {
		w.stage(k+1, s, first)
		return
	}
	fuel := &w.fuel[k]
	*fuel = regexFuel(s)
	for i := 0; i < len(s); {
		end, keep := st.split.next(s, i, fuel)
		if keep {
			w.stage(k+1, s[i:end], first && i == 0)
		}
		i = end
	}
}

// word encodes one pre-token.
func (w *worker) word(s string) {
	t := w.t
	switch {
	case len(s) == 1 && t.byteLevel && t.bytes[s[0]] >= 0:
		w.out = append(w.out, t.bytes[s[0]])
	case t.byteLevel:
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

// cut encodes a pre-token of a vocabulary of characters. Such a vocabulary may
// have no pre-tokenizer at all, the whole text being one word, so the word is cut
// between characters that no merge can join: exact, and the cache works again.
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

// merge encodes a piece by merging its symbols.
func (w *worker) merge(s string) {
	t := w.t
	if t.byteLevel && t.ignoreMerges {
		if id, ok := t.vocab.ids[s]; ok {
			w.out = append(w.out, id)
			return
		}
	}
	w.ids, w.ranks = w.ids[:0], w.ranks[:0]
	if t.byteLevel {
		w.byteSymbols(s)
	} else {
		w.ids = t.chars.symbols(w.ids, s)
	}
	if len(w.ids) < 2 {
		w.out = append(w.out, w.ids...)
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

// byteSymbols fills ids with the tokens of the bytes of s and ranks with those of
// their merges. Where the vocabulary lacks bytes (StarCoder's, of planes that
// nobody uses) they are unknown or left out, as in the reference.
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
	w.ids = slices.Grow(w.ids, len(s))[:len(s)]
	w.ranks = slices.Grow(w.ranks, len(s))[:len(s)-1]
	w.ids[0] = t.bytes[s[0]]
	for i := 1; i < len(s); i++ {
		w.ids[i] = t.bytes[s[i]]
		w.ranks[i-1] = t.merges.bytes[int(s[i-1])<<8|int(s[i])]
	}
}
