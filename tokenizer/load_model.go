package tokenizer

import (
	"bytes"
	"fmt"
	"strings"
	"unicode/utf8"

	"weir/internal/jsontext"
)

// loadVocabulary fills in all entries with their texts, those of added tokens included.
func (t *Tokenizer) loadVocabulary(f *file) error {
	v, size := &t.vocab, 0
	for _, it := range f.vocab {
		size = max(size, int(it.id)+1)
	}
	for _, a := range f.AddedTokens {
		if a.ID < 0 || a.ID >= maxIDs {
			return fmt.Errorf("%w: added token %.200q has id %d", ErrUnsupported, a.Content, a.ID)
		}
		size = max(size, int(a.ID)+1)
	}
	// A small file must not ask for a large table.
	if entries := len(f.vocab) + len(f.AddedTokens); size > 4*entries+1024 {
		return fmt.Errorf("%w: token ids up to %d for %d tokens", ErrUnsupported, size-1, entries)
	}
	v.entries = make([]entry, size)
	spell := string(f.spell)
	text := make([]byte, 0, len(f.spell))
	for _, it := range f.vocab {
		e := &v.entries[it.id]
		if e.flags != 0 {
			return fmt.Errorf("%w: tokens %.200q and %.200q both have id %d", ErrInvalid, e.spelled, spell[it.start:it.end], it.id)
		}
		e.spelled, e.flags = spell[it.start:it.end], known
		if text = t.decoding.setText(e, text, e.spelled); len(text) > 16*len(spell)+1<<20 {
			return fmt.Errorf("%w: a decoder that makes texts of %d bytes out of %d", ErrUnsupported, len(text), len(spell))
		}
	}
	v.text = string(text)
	if err := t.indexVocabulary(f); err != nil {
		return err
	}
	for _, a := range f.AddedTokens {
		if a.Content == "" {
			continue // as in Hugging Face's library
		}
		e := &v.entries[a.ID]
		if e.flags != 0 && e.spelled != a.Content {
			return fmt.Errorf("%w: tokens %.200q and %.200q both have id %d", ErrInvalid, e.spelled, a.Content, a.ID)
		}
		e.spelled = a.Content
		e.flags |= known | added
		if a.Special {
			e.flags |= special
		}
		// Hugging Face's library decodes an added token to what it searches for, not to
		// the content in the file.
		text = t.decoding.setText(e, text, t.pattern(&a))
	}
	v.text, v.bytes = string(text), text
	for i := range v.entries {
		e := &v.entries[i]
		s := v.text[e.start:e.end]
		if utf8.ValidString(s) && !strings.HasSuffix(s, "\uFFFD") {
			e.flags |= whole
		}
		t.maxBytes = max(t.maxBytes, len(s))
		t.maxSpelled = max(t.maxSpelled, len(e.spelled))
	}
	return nil
}

// indexVocabulary fills the maps from tokens to ids that merging uses.
func (t *Tokenizer) indexVocabulary(f *file) error {
	v := &t.vocab
	v.ids, v.other = make(map[string]int32, len(f.vocab)), make(map[string]int32)
	for _, it := range f.vocab {
		e := v.entries[it.id]
		key, ids := e.spelled, v.ids
		switch {
		case e.flags&alphabet != 0:
			key = v.text[e.start:e.end]
		case t.byteLevel:
			ids = v.other
		}
		n := len(ids)
		if ids[key] = it.id; len(ids) == n {
			return fmt.Errorf("%w: token %.200q is listed twice", ErrInvalid, e.spelled)
		}
	}
	return nil
}

// loadSymbols finds the tokens of single bytes or characters, with which merging begins.
func (t *Tokenizer) loadSymbols(f *file) error {
	m := &f.Model
	for b := range t.bytes {
		id, ok := t.vocab.ids[string([]byte{byte(b)})]
		if t.bytes[b] = id; !ok {
			t.bytes[b] = -1
			t.lacksBytes = t.lacksBytes || t.byteLevel && inUTF8(b)
		}
	}
	if t.lacksBytes && m.ByteFallback {
		return fmt.Errorf("%w: byte_fallback in a byte-level vocabulary that lacks bytes", ErrUnsupported)
	}
	t.unknown = unknowns{id: -1, fuse: m.FuseUnk}
	if unknown := t.lacksBytes || !t.byteLevel && !m.ByteFallback; unknown && m.UnkToken != nil {
		id, ok := t.ID(*m.UnkToken)
		if !ok {
			return fmt.Errorf("%w: unk_token %.200q is not in the vocabulary", ErrInvalid, *m.UnkToken)
		}
		t.unknown.id = id
	}
	if t.byteLevel {
		return nil
	}
	return t.loadCharacters(m.ByteFallback)
}

func (t *Tokenizer) loadCharacters(fallback bool) error {
	c := &t.chars
	c.ids, c.joins = make(map[rune]int32), make(map[uint64]struct{})
	for i := range c.ascii {
		c.ascii[i] = -1
	}
	for key, id := range t.vocab.ids {
		if r, w := utf8.DecodeRuneInString(key); w == len(key) && w > 0 {
			if r < utf8.RuneSelf {
				c.ascii[r] = id
			} else {
				c.ids[r] = id
			}
		}
	}
	c.fallback, c.unknown = fallback, t.unknown
	if !fallback {
		if t.unknown.id < 0 {
			// If unknown characters were left out, characters that a word is cut between
			// would become neighbours.
			return fmt.Errorf("%w: BPE without ByteLevel, byte_fallback and unk_token", ErrUnsupported)
		}
		return nil
	}
	for b := range c.bytes {
		id, ok := t.vocab.ids[fmt.Sprintf("<0x%02X>", b)]
		hasOwn := b < utf8.RuneSelf && c.ascii[b] >= 0 // then the token of the byte is never needed
		if !ok && inUTF8(b) && !hasOwn {
			return fmt.Errorf("%w: byte_fallback without the token <0x%02X>", ErrUnsupported, b)
		}
		c.bytes[b] = id
	}
	return nil
}

// inUTF8 reports whether valid UTF-8 may contain the byte.
func inUTF8(b int) bool { return b < 0xC0 || 0xC2 <= b && b <= 0xF4 }

// loadMerges builds the merge table.
func (t *Tokenizer) loadMerges(f *file) error {
	t.merges = &mergeTable{}
	if t.byteLevel {
		t.merges.bytes = new([1 << 16]uint32)
		for i := range t.merges.bytes {
			t.merges.bytes[i] = noRank
		}
	}
	if f.scores != nil {
		return t.loadScoredMerges(f)
	}
	if err := f.merges(t.addMerge); err != nil {
		return err
	}
	t.merges.build()
	return nil
}

// jsonMerges are the merges of a tokenizer.json. A merge is spelled "a b" or ["a","b"].
func jsonMerges(list jsontext.Value) mergeList {
	return func(add func(left, right []byte) error) error {
		if list.Kind() != jsontext.Array {
			return fmt.Errorf("%w: the merges are %s", ErrInvalid, list.Kind())
		}
		var m mergeReader
		for _, v := range list.Elements() {
			if bytes.HasPrefix(v, []byte(`"#version`)) {
				continue // the first line of a merges.txt
			}
			left, right, err := m.read(v)
			if err == nil {
				err = add(left, right)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

// mergeReader reads the merges of a file, one after the other.
type mergeReader struct{ left, right []byte }

// read returns the two tokens of a merge as they are spelled. They are valid until the
// next merge is read.
func (m *mergeReader) read(v jsontext.Value) (left, right []byte, err error) {
	switch v.Kind() {
	case jsontext.String:
		if m.left, err = appendSpelled(m.left[:0], v); err != nil {
			return nil, nil, err
		}
		left, right, ok := bytes.Cut(m.left, []byte{' '})
		if !ok || bytes.IndexByte(right, ' ') >= 0 {
			return nil, nil, fmt.Errorf("%w: merge %.200q is not two tokens", ErrInvalid, m.left)
		}
		return left, right, nil
	case jsontext.Array:
		return m.readPair(v)
	}
	return nil, nil, fmt.Errorf("%w: the merge %.200s is not two tokens", ErrInvalid, v)
}

func (m *mergeReader) readPair(v jsontext.Value) (left, right []byte, err error) {
	tokens := [2]*[]byte{&m.left, &m.right}
	n := 0
	for _, token := range v.Elements() {
		if token.Kind() != jsontext.String {
			return nil, nil, fmt.Errorf("%w: a merge of %s", ErrInvalid, token.Kind())
		}
		if n < len(tokens) {
			if *tokens[n], err = appendSpelled((*tokens[n])[:0], token); err != nil {
				return nil, nil, err
			}
		}
		n++
	}
	if n != len(tokens) {
		return nil, nil, fmt.Errorf("%w: a merge of %d tokens", ErrInvalid, n)
	}
	return m.left, m.right, nil
}

// addMerge adds the merge of two tokens, given as they are spelled.
func (t *Tokenizer) addMerge(left, right []byte) error {
	m := t.merges
	if len(m.merged) == noRank {
		return fmt.Errorf("%w: more than %d merges", ErrUnsupported, noRank)
	}
	var room [128]byte
	joined := append(append(room[:0], left...), right...)
	ids, a, b := t.vocab.ids, len(left), len(joined)
	if t.byteLevel {
		var rawRoom [128]byte
		raw, ok := appendUnspelled(rawRoom[:0], left)
		a = len(raw)
		if ok {
			raw, ok = appendUnspelled(raw, right)
		}
		if ok {
			joined, b = raw, len(raw)
		} else {
			// Such a merge is never applied: words consist of the byte alphabet.
			ids = t.vocab.other
		}
	}
	idA, okA := ids[string(joined[:a])]
	idB, okB := ids[string(joined[a:b])]
	id, ok := ids[string(joined)]
	if !ok || !okA || !okB {
		return fmt.Errorf("%w: merge of %.200q and %.200q: not all three are in the vocabulary", ErrInvalid, left, right)
	}
	// A symbol whose text is not its spelling must not merge, because words are cut, and
	// merges are looked up, by text.
	for _, part := range []int32{idA, idB} {
		if _, isByte := byteToken(t.vocab.entries[part].spelled); t.chars.fallback && isByte || part == t.unknown.id {
			return fmt.Errorf("%w: a merge of the token %.200q", ErrUnsupported, t.vocab.entries[part].spelled)
		}
	}
	m.add(idA, idB, id)
	if t.byteLevel {
		if a == 1 && b == 2 {
			m.bytes[int(joined[0])<<8|int(joined[1])] = uint32(len(m.merged) - 1)
		}
		return nil
	}
	c := &t.chars
	last, _ := utf8.DecodeLastRune(left)
	first, _ := utf8.DecodeRune(right)
	c.join(last, first)
	return nil
}

// pattern returns the text that is searched for to find an added token.
func (t *Tokenizer) pattern(a *addedToken) string {
	if !a.Normalized {
		return a.Content
	}
	s := a.Content
	for _, f := range t.normalizers {
		s = f(nil, s)
	}
	return s
}

// loadAddedTokens builds the two searches. Hugging Face's library ignores the ids that the
// file gives to added tokens: it takes the id in the model's own vocabulary, or the next
// one after it. If the file says something else it is refused, because it is not known
// which row of the embedding is meant.
func (t *Tokenizer) loadAddedTokens(f *file) error {
	seen := make(map[string]addedToken, len(f.AddedTokens))
	next := int32(len(f.vocab))
	for _, a := range f.AddedTokens {
		if a.Content == "" {
			continue
		}
		if old, ok := seen[a.Content]; ok {
			if old != a {
				return fmt.Errorf("%w: added token %.200q is listed twice", ErrInvalid, a.Content)
			}
			continue
		}
		seen[a.Content] = a
		want, ok := t.ID(a.Content)
		if !ok {
			want = next
			next++
		}
		if want != a.ID && !f.anyIDs {
			return fmt.Errorf("%w: added token %.200q has id %d, by its place it would be %d", ErrInvalid, a.Content, a.ID, want)
		}
		set := &t.rawAdded
		if a.Normalized {
			set = &t.normAdded
		}
		if *set == nil {
			*set = newAddedSet()
		}
		pattern := t.pattern(&a)
		if pattern == "" {
			return fmt.Errorf("%w: added token %.200q is nothing after normalization", ErrInvalid, a.Content)
		}
		if err := (*set).add(pattern, a); err != nil {
			return err
		}
	}
	t.vocab.added = make(map[string]int32, len(seen))
	for content, a := range seen {
		t.vocab.added[content] = a.ID
	}
	return nil
}
