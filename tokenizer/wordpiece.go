package tokenizer

import (
	"fmt"
	"unicode/utf8"
)

// wordModel makes tokens of a word in another way than by merges.
type wordModel interface {
	encode(w *worker, word string)
}

// wordPiece takes the longest piece that a word begins with, then the longest piece that goes
// on with what is left, and so on. If there is none, the whole word is unknown. (BERT,
// tokenization.py; Hugging Face tokenizers, models/wordpiece.)
type wordPiece struct {
	ids     map[string]int32
	prefix  string // what pieces begin with that go on with a word
	longest int    // characters of a word that is not unknown
	most    int    // bytes of a piece
	unknown int32
}

func (p *wordPiece) encode(w *worker, word string) {
	if len(word) > utf8.UTFMax*p.longest || utf8.RuneCountInString(word) > p.longest {
		w.out = append(w.out, p.unknown)
		return
	}
	before := len(w.out)
	for start := 0; start < len(word); {
		prefix := ""
		if start > 0 {
			prefix = p.prefix
		}
		id, end := p.longestPiece(prefix, word, start)
		if end == start {
			w.out = append(w.out[:before], p.unknown)
			return
		}
		w.out = append(w.out, id)
		start = end
	}
}

// longestPiece returns the longest piece that prefix and word[start:] begin with, and where it
// ends in the word; start, if there is none.
func (p *wordPiece) longestPiece(prefix, word string, start int) (id int32, end int) {
	var room [256]byte
	buf := append(room[:0], prefix...)
	n := len(buf)
	end = min(len(word), start+max(0, p.most-n))
	buf = append(buf, word[start:end]...)
	for ; end > start; end-- {
		if end < len(word) && !utf8.RuneStart(word[end]) {
			continue
		}
		if id, ok := p.ids[string(buf[:n+end-start])]; ok {
			return id, end
		}
	}
	return 0, start
}

// wordLevel looks up whole words.
type wordLevel struct {
	ids     map[string]int32
	unknown int32
}

func (l *wordLevel) encode(w *worker, word string) {
	id, ok := l.ids[word]
	if !ok {
		id = l.unknown
	}
	w.out = append(w.out, id)
}

// loadWords makes a WordPiece or a WordLevel model.
func (t *Tokenizer) loadWords(f *file) error {
	m := &f.Model
	name := "[UNK]"
	if m.UnkToken != nil {
		name = *m.UnkToken
	}
	unknown, ok := t.vocab.ids[name]
	if !ok {
		return fmt.Errorf("%w: unk_token %.200q is not in the vocabulary", ErrInvalid, name)
	}
	if m.Type == "WordLevel" {
		t.model = &wordLevel{t.vocab.ids, unknown}
		return nil
	}
	p := &wordPiece{ids: t.vocab.ids, prefix: "##", longest: 100, unknown: unknown, most: t.maxSpelled}
	if m.Prefix != nil {
		p.prefix = *m.Prefix
	}
	if m.MaxWord != nil {
		p.longest = *m.MaxWord
	}
	if p.longest < 0 || p.longest > maxWordPiece {
		return fmt.Errorf("%w: max_input_chars_per_word is %d; %d is the most", ErrUnsupported, p.longest, maxWordPiece)
	}
	t.model = p
	return nil
}

// maxWordPiece bounds the characters of a word, because finding its pieces takes the square of
// its length.
const maxWordPiece = 1024
