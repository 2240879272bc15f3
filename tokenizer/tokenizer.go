package tokenizer

import (
	"errors"
	"sync"
)

var (
	// ErrInvalid is wrapped by errors for a file that is not what its name says, or
	// contradicts itself.
	ErrInvalid = errors.New("tokenizer: invalid vocabulary")
	// ErrUnsupported is wrapped by errors for a file that asks for something
	// that this package does not do.
	ErrUnsupported = errors.New("tokenizer: not supported")
	// ErrTooComplex is the error of Encode for a text that the file's regular
	// expression cannot cut into words within a bounded number of steps.
	ErrTooComplex = errors.New("tokenizer: the text needs too many steps to be cut into words")
	// ErrStopped is the error of EncodeUntil when nobody waits for its result any more.
	ErrStopped = errors.New("tokenizer: nobody waits for the tokens any more")
)

// Tokenizer is a loaded tokenizer.json. It does not change after Load, apart from
// its caches, and any number of goroutines may use it.
type Tokenizer struct {
	vocab       vocabulary
	normalizers []normalizer
	rawAdded    *addedSet // added tokens that are searched for in the text as it comes
	normAdded   *addedSet // and those that are searched for after normalization
	stages      []stage   // the pre-tokenizers

	byteLevel    bool
	ignoreMerges bool       // a word that is in the vocabulary becomes that token unmerged
	bytes        [256]int32 // byte-level: the tokens of single bytes, -1 if there is none
	lacksBytes   bool       // byte-level: a byte that UTF-8 uses has no token
	chars        characters // not byte-level: the tokens of single characters
	unknown      unknowns
	merges       *mergeTable
	model        wordModel        // in the place of merges and all that they need, or nil
	userWords    map[string]int32 // words that are tokens, whatever the model says; nil: none
	shrinks      bool             // a token may stand for any number of bytes

	prefix, suffix []int32 // what addSpecial puts around the text
	prefixOnce     bool    // not if the text begins with it
	pair           pairing // what two texts become
	decoding       decoding
	maxBytes       int // length of the longest text of a token
	maxSpelled     int // length of the longest token as the file spells it

	cache   wordCache
	workers sync.Pool // of *worker
}

// VocabSize returns 1 + the highest id.
func (t *Tokenizer) VocabSize() int { return len(t.vocab.entries) }

// ID returns the id of an added token or vocabulary entry, given as the file
// spells it ("Ġhi", "▁hi", "<|im_end|>").
func (t *Tokenizer) ID(token string) (int32, bool) {
	v := &t.vocab
	if id, ok := v.added[token]; ok {
		return id, true
	}
	if !t.byteLevel {
		id, ok := v.ids[token]
		return id, ok
	}
	if raw, ok := appendUnspelled(nil, token); ok {
		id, ok := v.ids[string(raw)]
		return id, ok
	}
	id, ok := v.other[token]
	return id, ok
}

// Token returns the entry as the file spells it, "" for an unknown id.
func (t *Tokenizer) Token(id int32) string { return t.vocab.at(id).spelled }

// Text returns one token decoded on its own, special tokens included, as an entry of
// logprobs shows it. It keeps the leading space that decoding a whole reply may drop,
// and has U+FFFD where the token is a part of a character.
func (t *Tokenizer) Text(id int32) string {
	e := t.vocab.at(id)
	if e.flags&whole != 0 {
		return t.vocab.text[e.start:e.end]
	}
	return toValid(t.vocab.text[e.start:e.end])
}

// Bytes returns the bytes that a token contributes to the text, which may be a
// part of a UTF-8 sequence. It is nil for special tokens and unknown ids. The
// slice is shared: it must not be written to.
func (t *Tokenizer) Bytes(id int32) []byte {
	e := t.vocab.at(id)
	if e.flags&known == 0 || e.flags&special != 0 {
		return nil
	}
	return t.vocab.textOf(e)
}

// IsSpecial reports whether decoding with SkipSpecial skips the token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.vocab.at(id).flags&special != 0 }

// MaxTokenBytes returns the length of the longest text of a token, in bytes. A text of
// more than n times as many bytes has more than n tokens, with two exceptions: NFC may
// make a text shorter before it is cut, to a third at most, and an added token may take
// in the white space around it. If the file's normalizers or pre-tokenizers leave text out, or
// if its model has one token for a whole unknown word, no text is too long, and the length is
// 1 GiB.
func (t *Tokenizer) MaxTokenBytes() int {
	if t.shrinks {
		return 1 << 30
	}
	return t.maxBytes
}
