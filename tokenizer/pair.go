package tokenizer

import (
	"fmt"
	"slices"
)

// pairPiece is a part of what two texts become: one of the texts, or tokens between and around them.
type pairPiece struct {
	text int     // 0 or 1; noText: ids
	ids  []int32 // added tokens
	kind int32   // the type of its tokens (BERT's segment)
}

const noText = -1

// pairing is a post-processor's template for two texts. The zero value is what follows from the template for one
// text: it is put around each of them.
type pairing struct {
	pieces []pairPiece
	broken bool // the file's template has not each text once
	joined bool // no tokens of one text's template are put in front of the second text
}

// Surround returns the ids of a text that was encoded without special tokens with those around it, as
// [Tokenizer.Encode] puts them there. If there are more than most, the text loses tokens at its end, as Hugging
// Face's library truncates it; a negative most is any number. The tokens around the text stay, even if there are
// more of them.
func (t *Tokenizer) Surround(text []int32, most int) []int32 {
	if most >= 0 {
		text = text[:min(len(text), max(0, most-len(t.prefix)-len(t.suffix)))]
	}
	ids := make([]int32, 0, len(t.prefix)+len(text)+len(t.suffix))
	if n := len(t.prefix); !t.prefixOnce || !slices.Equal(t.prefix, text[:min(n, len(text))]) {
		ids = append(ids, t.prefix...)
	}
	ids = append(ids, text...)
	return append(ids, t.suffix...)
}

// JoinPair returns what a network reads of two texts that it has to read together, as a cross-encoder does: the
// template of the file's post-processor with the tokens of both, and the type of each token (BERT's segments:
// 0 for the first text, 1 for the second one, if the file says so). The texts are encoded without special
// tokens, by [Tokenizer.Encode]. Of tokens that are too many the longest text loses those at its end first,
// until both are of the same length: what Hugging Face's library calls longest_first. There are at most so many as
// most says, or any number if it is negative. The template's tokens stay, even if there are more of them.
//
// The error is [ErrUnsupported] if the file's template does not have each of the texts once.
func (t *Tokenizer) JoinPair(first, second []int32, most int) (ids, types []int32, err error) {
	if t.pair.broken {
		return nil, nil, fmt.Errorf("%w: the post-processor's template for two texts", ErrUnsupported)
	}
	pieces := t.pairPieces()
	added := 0
	for i := range pieces {
		added += len(pieces[i].ids)
	}
	texts := [2][]int32{first, second}
	if most >= 0 {
		texts = longestFirst(texts, max(0, most-added))
	}
	n := added + len(texts[0]) + len(texts[1])
	ids, types = make([]int32, 0, n), make([]int32, 0, n)
	for _, p := range pieces {
		tokens := p.ids
		if p.text != noText {
			tokens = texts[p.text]
		}
		ids = append(ids, tokens...)
		for range tokens {
			types = append(types, p.kind)
		}
	}
	return ids, types, nil
}

// longestFirst cuts the ends of two texts, so that together they have no more than the given number of tokens.
// Of an odd number the text that was longer keeps one more; of texts of the same length it is the second one.
func longestFirst(texts [2][]int32, most int) [2][]int32 {
	short, long := 0, 1
	if len(texts[0]) > len(texts[1]) {
		short, long = 1, 0
	}
	n, m := len(texts[short]), len(texts[long])
	if n+m <= most {
		return texts
	}
	if m = max(n, most-n); n+m > most {
		n, m = most/2, most-most/2
	}
	texts[short], texts[long] = texts[short][:n], texts[long][:m]
	return texts
}

// pairPieces is the template for two texts.
func (t *Tokenizer) pairPieces() []pairPiece {
	switch {
	case t.pair.pieces != nil:
		return t.pair.pieces
	case t.pair.joined:
		return []pairPiece{{noText, t.prefix, 0}, {0, nil, 0}, {noText, t.suffix, 0}, {1, nil, 1}, {noText, t.suffix, 1}}
	}
	return []pairPiece{{noText, t.prefix, 0}, {0, nil, 0}, {noText, t.suffix, 0}, {noText, t.prefix, 1}, {1, nil, 1}, {noText, t.suffix, 1}}
}

// robertaPair is the template of RobertaProcessing: <s> A </s></s> B </s>, all of one type.
func (t *Tokenizer) robertaPair() []pairPiece {
	return []pairPiece{{noText, t.prefix, 0}, {0, nil, 0}, {noText, t.suffix, 0}, {noText, t.suffix, 0}, {1, nil, 0}, {noText, t.suffix, 0}}
}

// loadPairTemplate reads the template for two texts. One that is beyond this package is no reason to refuse a
// file, because few networks read pairs.
func (t *Tokenizer) loadPairTemplate(c *component) {
	if c.Pair == nil {
		return
	}
	var pieces []pairPiece
	var seen [2]int
	added := 0
	for _, p := range c.Pair {
		switch {
		case p.Sequence != nil && (p.Sequence.ID == "A" || p.Sequence.ID == "B"):
			text := int(p.Sequence.ID[0] - 'A')
			seen[text]++
			pieces = append(pieces, pairPiece{text, nil, p.Sequence.TypeID})
		case p.SpecialToken != nil:
			ids, err := t.templateToken(c, p.SpecialToken.ID)
			if added += len(ids); err != nil || added > maxAround {
				t.pair.broken = true
				return
			}
			pieces = append(pieces, pairPiece{noText, ids, p.SpecialToken.TypeID})
		default:
			t.pair.broken = true
			return
		}
	}
	t.pair.pieces, t.pair.broken = pieces, seen != [2]int{1, 1}
	for _, p := range pieces {
		t.pair.broken = t.pair.broken || p.kind < 0
	}
}
