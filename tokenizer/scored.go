package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"
)

// maxPiece bounds the length of a piece of a SentencePiece vocabulary, in bytes. All ways to
// cut a piece in two are looked up, which takes the square of its length.
const maxPiece = 1024

// loadScoredMerges builds the merge table of a SentencePiece BPE model, which has a score for
// each piece in the place of a list of merges. Two neighbours are merged if together they are
// a piece, the piece of the highest score first, and of equal scores the leftmost. So all
// ways to make pieces of the same score are merges of the same rank.
// (sentencepiece, src/bpe_model.cc; llama.cpp, llm_tokenizer_spm.)
//
// The ranks of tiktoken are such scores, too, for bytes.
func (t *Tokenizer) loadScoredMerges(f *file) error {
	order := make([]int32, 0, len(f.vocab))
	for i, score := range f.scores {
		if score == score { // a piece whose score is NaN is not made by merges
			order = append(order, int32(i))
		}
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(f.scores[b], f.scores[a]) })
	if t.chars.lost = int32(len(t.vocab.entries)); t.chars.fallback {
		for _, i := range order {
			t.chars.lose(string(f.spell[f.vocab[i].start:f.vocab[i].end]))
		}
	}
	if int(t.chars.lost)+len(t.chars.lacking) >= maxIDs {
		return fmt.Errorf("%w: more than %d tokens and characters of pieces", ErrUnsupported, maxIDs)
	}
	rank, last := -1, float32(0)
	begun := false // the rank has a merge
	for _, i := range order {
		if score := f.scores[i]; rank < 0 || score != last {
			if begun || rank < 0 {
				rank++
			}
			last, begun = score, false
		}
		n := len(t.merges.pairs)
		if err := t.addSplits(f, f.vocab[i], uint32(rank)); err != nil {
			return err
		}
		begun = begun || len(t.merges.pairs) > n
	}
	t.merges.build()
	return nil
}

// addSplits adds all merges that make a piece.
func (t *Tokenizer) addSplits(f *file, item vocabItem, rank uint32) error {
	piece := string(f.spell[item.start:item.end])
	if t.byteLevel {
		piece = string(t.vocab.textOf(t.vocab.entries[item.id]))
	}
	if len(piece) > maxPiece {
		return fmt.Errorf("%w: a piece of %d bytes, token %d; %d is the most", ErrUnsupported, len(piece), item.id, maxPiece)
	}
	for k := 1; k < len(piece); k++ {
		if !t.byteLevel && !utf8.RuneStart(piece[k]) {
			continue
		}
		a, okA := t.mergeable(piece[:k])
		b, okB := t.mergeable(piece[k:])
		if !okA || !okB {
			continue
		}
		if len(t.merges.pairs) == noRank {
			return fmt.Errorf("%w: more than %d merges", ErrUnsupported, noRank)
		}
		t.merges.addRank(rank, a, b, item.id)
		if t.byteLevel {
			if len(piece) == 2 {
				t.merges.bytes[int(piece[0])<<8|int(piece[1])] = rank
			}
			continue
		}
		last, _ := utf8.DecodeLastRuneInString(piece[:k])
		first, _ := utf8.DecodeRuneInString(piece[k:])
		t.chars.join(last, first)
	}
	return nil
}

// mergeable returns the token that is spelled s if text can become it: not if it stands for a
// byte, or for what is unknown.
func (t *Tokenizer) mergeable(s string) (int32, bool) {
	id, ok := t.vocab.ids[s]
	if r, w := utf8.DecodeRuneInString(s); !ok && w == len(s) && len(t.chars.lacking) > 0 {
		id = t.chars.symbol(r)
		return id, id >= 0
	}
	if _, isByte := byteToken(s); ok && t.chars.fallback && isByte {
		return 0, false
	}
	return id, ok && id != t.unknown.id
}
