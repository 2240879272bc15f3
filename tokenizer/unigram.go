package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"unicode/utf8"
)

// unigram is a model of pieces with scores: of all ways to put a text together from pieces it
// takes the one whose scores have the highest sum, found by the algorithm of Viterbi. A
// character that is no piece counts as unknown, with a score that is lower than all others by
// unknownPenalty. (Kudo, "Subword Regularization", 2018; sentencepiece, src/unigram_model.cc;
// Hugging Face tokenizers, models/unigram.)
type unigram struct {
	trie     *byteTrie
	scores   []float64 // by id
	unknown  int32     // -1: there is no such token
	lowest   float64   // the score of an unknown character
	fallback bool      // unknown characters become the tokens of their bytes
	fuse     bool      // unknown characters in a row become one unknown token
	bytes    [256]int32
}

const unknownPenalty = 10

// viterbiNode is the best way to put together the text up to some place.
type viterbiNode struct {
	score float64
	start int32 // where the last piece begins; -1: there is no way yet
	id    int32
}

// longLattice is the number of nodes from which on the beginning of a text, which no later
// character can change any more, is given out before the rest is looked at.
const longLattice = 1 << 15

// encode appends the tokens of a piece of text.
func (u *unigram) encode(w *worker, s string) { u.encodeParts(w, s, longLattice) }

// encodeParts is encode with another limit than longLattice.
func (u *unigram) encodeParts(w *worker, s string, parts int) {
	nodes := room16(w.nodes, min(len(s)+1, parts))
	nodes = append(nodes, viterbiNode{start: 0})
	base := 0 // nodes[i] is the text up to s[base+i]
	limit := parts
	last := int32(-1)
	for at := 0; at < len(s); {
		_, size := utf8.DecodeRuneInString(s[at:])
		nodes = u.extend(nodes, s, base, at, size)
		at += size
		if !w.allow.work(size) {
			return
		}
		if at-base < limit || at == len(s) {
			continue
		}
		done := common(nodes, at-base)
		if done > 0 {
			last = u.emit(w, nodes[:done+1], s[base:], last)
			nodes = nodes[:copy(nodes, nodes[done:])]
			for i := range nodes {
				nodes[i].start -= int32(done)
			}
			nodes[0].start = 0
			base += done
		}
		limit = max(parts, 2*(at-base)) // so that little is looked at twice
	}
	u.emit(w, nodes[:len(s)-base+1], s[base:], last)
	if w.nodes = nodes[:0]; cap(nodes) > maxScratch {
		w.nodes = nil
	}
}

func room16(nodes []viterbiNode, n int) []viterbiNode {
	if cap(nodes) >= n {
		return nodes[:0]
	}
	return make([]viterbiNode, 0, n)
}

// extend adds what begins with the character of size bytes at s[at].
func (u *unigram) extend(nodes []viterbiNode, s string, base, at, size int) []viterbiNode {
	from := nodes[at-base].score
	whole := false
	node := int32(0)
	for end := at; end < len(s); {
		if node = u.trie.child(node, s[end]); node < 0 {
			break
		}
		end++
		id := u.trie.tokens[node]
		if id < 0 {
			continue
		}
		nodes = better(nodes, end-base, viterbiNode{from + u.scores[id], int32(at - base), id})
		whole = whole || end == at+size
	}
	if !whole {
		nodes = better(nodes, at+size-base, viterbiNode{from + u.lowest, int32(at - base), u.unknown})
	}
	return nodes
}

// better keeps the better of the node at i and another one.
func better(nodes []viterbiNode, i int, n viterbiNode) []viterbiNode {
	for len(nodes) <= i {
		nodes = append(nodes, viterbiNode{start: -1})
	}
	if old := &nodes[i]; old.start < 0 || n.score > old.score {
		*old = n
	}
	return nodes
}

// common returns the last place before at that all ways pass that can still become the best: those
// to at and to the places after it. It is 0 if they have only the beginning in common.
func common(nodes []viterbiNode, at int) int {
	done := at
	for end := at; end < len(nodes); end++ {
		if nodes[end].start < 0 {
			continue
		}
		// Both go back until they are at the same place.
		for a := end; a != done; {
			if a > done {
				a = int(nodes[a].start)
			} else {
				done = int(nodes[done].start)
			}
		}
	}
	return done
}

// emit appends the tokens of the best way to the last node. last is the token before, so that
// unknown characters are fused. It returns the last token.
func (u *unigram) emit(w *worker, nodes []viterbiNode, s string, last int32) int32 {
	first := len(w.path)
	for end := len(nodes) - 1; end > 0; end = int(nodes[end].start) {
		w.path = append(w.path, int32(end))
	}
	slices.Reverse(w.path[first:])
	for _, end := range w.path[first:] {
		n := nodes[end]
		switch {
		case n.id != u.unknown:
			w.out = append(w.out, n.id)
		case u.fallback:
			for _, b := range []byte(s[n.start:end]) {
				w.out = append(w.out, u.bytes[b])
			}
		case !u.fuse || last != u.unknown:
			w.out = append(w.out, n.id)
		}
		last = n.id
	}
	w.path = w.path[:first]
	return last
}

// loadUnigram makes the model of the pieces of a file.
func (t *Tokenizer) loadUnigram(f *file) error {
	if len(f.spell) >= maxNodes {
		return fmt.Errorf("%w: a vocabulary of %d bytes; %d are the most", ErrUnsupported, len(f.spell), maxNodes)
	}
	u := &unigram{trie: newByteTrie(len(f.spell)), scores: make([]float64, len(t.vocab.entries)), unknown: -1, fuse: true, lowest: math.Inf(1)}
	for i, item := range f.vocab {
		score := f.pieceScores[i]
		if math.IsNaN(score) || math.IsInf(score, 0) {
			return fmt.Errorf("%w: the score of token %d is not a number", ErrInvalid, item.id)
		}
		u.scores[item.id] = score
		if f.kind(i) == normalPiece {
			u.lowest = min(u.lowest, score)
		}
		piece := string(f.spell[item.start:item.end])
		if len(piece) > maxPiece {
			return fmt.Errorf("%w: a piece of %d bytes, token %d; %d is the most", ErrUnsupported, len(piece), item.id, maxPiece)
		}
		if piece != "" && f.kind(i) != hiddenPiece {
			u.trie.add(piece, item.id)
		}
	}
	if math.IsInf(u.lowest, 0) {
		u.lowest = 0
	}
	u.lowest -= unknownPenalty
	for _, id := range f.user {
		// They get what sentencepiece gives them: more than all others, and the longer, the more.
		item := f.vocab[id]
		u.scores[id] = float64(float32(0.1 * float64(item.end-item.start-1)))
		u.trie.add(string(f.spell[item.start:item.end]), id)
	}
	m := &f.Model
	if m.UnkID != nil {
		if *m.UnkID < 0 || *m.UnkID >= len(f.vocab) {
			return fmt.Errorf("%w: unk_id is %d, and there are %d tokens", ErrInvalid, *m.UnkID, len(f.vocab))
		}
		u.unknown = int32(*m.UnkID)
	}
	if m.ByteFallback {
		u.fallback = true
		for b := range u.bytes {
			id, ok := t.vocab.ids[fmt.Sprintf("<0x%02X>", b)]
			u.bytes[b] = id
			u.fallback = u.fallback && (ok || !inUTF8(b))
		}
	}
	if u.unknown < 0 && !u.fallback {
		return fmt.Errorf("%w: a Unigram model without unk_id and byte_fallback", ErrUnsupported)
	}
	t.model = u
	return nil
}
