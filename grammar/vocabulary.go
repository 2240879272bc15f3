package grammar

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// maxTokenLen is the length in bytes of the longest token that can ever be legal,
// because depths in the trie are one byte. The longest tokens of published
// vocabularies have 128 bytes.
const maxTokenLen = 255

// node is one byte of the token trie. The nodes are in depth-first order, and the
// subtree of node i is nodes[i : i+skip]; llguidance's toktrie has the same layout.
type node struct {
	token  int32 // the token that ends here, or -1
	skip   int32 // nodes of the subtree, this one included
	b      byte
	depth  uint8 // bytes from the root, this one included
	height uint8 // bytes of the longest path below
	char   charState
}

// Vocabulary holds what masks need of a model's tokens: the trie of their bytes,
// and the masks that every grammar shares. It is built once per model, is safe
// for concurrent use, and is meant to live as long as the model.
type Vocabulary struct {
	size           int
	nodes          []node
	kindsBelow     []uint64 // of each node: the kinds of what is read after it, up to the ends of its subtree
	kindWeights    []int32  // how many nodes have a byte of each kind
	tokensBefore   []int32  // of each node, and of the end: the tokens of the trie before it
	sorted         []int32  // the tokens of the trie, so that those of a subtree are neighbours
	tokens         [][]byte
	duplicates     []int32 // the next token with the same bytes, or -1; nil when there is none
	eos            []int32
	longest        int32
	commonShapes   shapeCache // of common states
	outlinedShapes shapeCache // of states that are spelled out
	names          map[string]int32
	nameable       []idRange  // see nameTokens
	space          int32      // the token of one space, or -1
	spaced         [256]int32 // the token of one space and a byte, or -1
}

// NewVocabulary builds the tables for a vocabulary. tokens[i] are the bytes that
// token i adds to the text; a token without bytes (special, unused) is never
// legal, nor is one of more than 255 bytes or with the byte 0xFF, which UTF-8 does not
// have. The tokens of eos end a text: they are legal exactly where a grammar is complete,
// whatever their bytes. The byte slices are kept and must not change. special are tokens
// without bytes that a grammar can name; then they are legal where it does.
func NewVocabulary(tokens [][]byte, eos []int32, special ...Special) (*Vocabulary, error) {
	if len(tokens) == 0 || len(tokens) > math.MaxInt32 {
		return nil, errors.New("grammar: a vocabulary needs tokens")
	}
	tokens = withoutMarkers(tokens)
	v := &Vocabulary{size: len(tokens), tokens: tokens, eos: slices.Clone(eos)}
	ends := make(map[int32]bool, len(eos))
	for _, id := range eos {
		if id < 0 || int(id) >= len(tokens) {
			return nil, fmt.Errorf("grammar: end token %d is outside a vocabulary of %d", id, len(tokens))
		}
		ends[id] = true
	}
	ids := make([]int32, 0, len(tokens))
	for i, t := range tokens {
		if len(t) > 0 && len(t) <= maxTokenLen && !ends[int32(i)] {
			ids = append(ids, int32(i))
			v.longest = max(v.longest, int32(len(t)))
		}
	}
	slices.SortFunc(ids, func(a, b int32) int {
		if c := slices.Compare(tokens[a], tokens[b]); c != 0 {
			return c
		}
		return int(a) - int(b)
	})
	v.buildTrie(ids)
	v.loneSpace()
	v.nameTokens(special, ends)
	v.commonShapes.limit = 1024 * int64(v.words()*4)
	v.outlinedShapes.limit = v.commonShapes.limit
	return v, nil
}

// buildTrie makes the trie of the given tokens, which are sorted by their bytes.
func (v *Vocabulary) buildTrie(ids []int32) {
	v.kindWeights = make([]int32, noCharKind+1)
	var open []int32 // the nodes on the path to the token before
	var before []byte
	closeTo := func(depth int) {
		for len(open) > depth {
			i := open[len(open)-1]
			n := &v.nodes[i]
			n.skip = int32(len(v.nodes)) - i
			open = open[:len(open)-1]
			if d := len(open); d > 0 {
				up := &v.nodes[open[d-1]]
				up.height = max(up.height, n.height+1)
				kind := byteKind[n.b]
				if n.char == noChar {
					kind = noCharKind
				}
				v.kindsBelow[open[d-1]] |= v.kindsBelow[i] | 1<<kind
				v.kindWeights[kind]++
			}
		}
	}
	for k, id := range ids {
		t := v.tokens[id]
		if k > 0 && slices.Equal(t, before) {
			v.addDuplicate(ids[k-1], id)
			continue
		}
		same := 0
		for same < len(before) && same < len(t) && before[same] == t[same] {
			same++
		}
		closeTo(same)
		for d := same; d < len(t); d++ {
			char := betweenChars
			if d > 0 {
				char = v.nodes[open[d-1]].char
			}
			open = append(open, int32(len(v.nodes)))
			v.nodes = append(v.nodes, node{token: -1, b: t[d], depth: uint8(d + 1), char: char.next(t[d])})
			v.kindsBelow = append(v.kindsBelow, 0)
			v.tokensBefore = append(v.tokensBefore, int32(len(v.sorted)))
		}
		v.nodes[len(v.nodes)-1].token = id
		v.sorted = append(v.sorted, id)
		before = t
	}
	closeTo(0)
	v.tokensBefore = append(v.tokensBefore, int32(len(v.sorted)))
}

// tokensBelow are the tokens that end in the subtree of node i, one for each text.
func (v *Vocabulary) tokensBelow(i int) []int32 {
	return v.sorted[v.tokensBefore[i]:v.tokensBefore[i+int(v.nodes[i].skip)]]
}

// byteKind sorts the bytes into fewer than 64 kinds. The classes that patterns repeat
// mostly consist of whole kinds, so one word of bits shows whether a subtree of the
// trie has only bytes of such a class. (llguidance does this with its slices, which
// are a fixed set of languages.) All bytes of characters beyond ASCII are one kind, and
// those that are a part of no character in their token another.
var byteKind, byteKinds = func() (of [256]uint8, n uint8) {
	const alone = "\t\n\r !\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
	for _, first := range []byte("\x000AGag\x7f") {
		for b := int(first); b < 256; b++ {
			of[b] = n
		}
		n++
	}
	for b := range 256 {
		switch {
		case strings.IndexByte(alone, byte(b)) >= 0:
			of[b] = n
			n++
		case b >= 0x80:
			of[b] = longCharKind
		}
	}
	return of, n
}()

// The kinds of bytes beyond ASCII, after all those of ASCII.
const (
	longCharKind = 62 // in a character
	noCharKind   = 63 // in none
)

// asciiKinds are the kinds of ASCII.
var asciiKinds = uint64(1)<<byteKinds - 1

// addDuplicate links two tokens of equal bytes, such as "{" and "<0x7B>" of a
// SentencePiece model. The trie has only the first of them.
func (v *Vocabulary) addDuplicate(first, next int32) {
	if v.duplicates == nil {
		v.duplicates = make([]int32, v.size)
		for i := range v.duplicates {
			v.duplicates[i] = -1
		}
	}
	v.duplicates[first] = next
}

// set and unset change the bits of a token and of those with the same bytes.
func (v *Vocabulary) set(mask []uint32, tok int32) {
	mask[tok>>5] |= 1 << (tok & 31)
	if v.duplicates != nil {
		for t := v.duplicates[tok]; t >= 0; t = v.duplicates[t] {
			mask[t>>5] |= 1 << (t & 31)
		}
	}
}

func (v *Vocabulary) unset(mask []uint32, tok int32) {
	mask[tok>>5] &^= 1 << (tok & 31)
	if v.duplicates != nil {
		for t := v.duplicates[tok]; t >= 0; t = v.duplicates[t] {
			mask[t>>5] &^= 1 << (t & 31)
		}
	}
}

// Size is the number of tokens.
func (v *Vocabulary) Size() int { return v.size }

// words is the length of a mask.
func (v *Vocabulary) words() int { return (v.size + 31) / 32 }

// Warm builds the masks that most grammars need first: those inside strings, numbers
// and values of any kind. It takes a fraction of a second per hundred thousand tokens
// and may run beside everything else. Without it, the first requests have to wait for
// these masks.
func (v *Vocabulary) Warm() {
	for _, tight := range []bool{false, true} {
		s := Spec{Kind: JSONObject, Options: Options{DisableAnyWhitespace: tight}}
		g, err := compile(s, v, DefaultConfig(), nil)
		if err != nil {
			continue // the vocabulary cannot write JSON
		}
		mask := make([]uint32, v.words())
		for _, text := range []string{`{"a\u00e9\"é😀":{"b":[-10.5e+3,0,true,false,null,"x",{}],"c":"","d":1}}`, "{\r\n\t  \"a\" : [ 1 , \"b\" ]\n }"} {
			m := g.NewMatcher()
			for i := range len(text) {
				m.m.fill(m.at, mask, nil)
				if m.at = m.m.run(m.at, []byte{text[i]}); m.at == dead {
					break
				}
			}
		}
	}
}
