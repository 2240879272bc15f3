package tokenizer

import "math/bits"

// byteTrie finds all pieces that a text begins with. A node is a number; its children are in
// an open-addressing hash table that is at most half full, with eight bytes a slot, because a
// vocabulary has hundreds of thousands of nodes and most have one child.
type byteTrie struct {
	slots  []uint64 // the parent, the byte, and the child; linear probing
	shift  uint
	tokens []int32 // by node: the piece that ends there, or -1
}

const (
	nodeBits = 26
	maxNodes = 1<<nodeBits - 1
)

// newByteTrie returns a trie with room for pieces of so many bytes in all, fewer than maxNodes.
func newByteTrie(size int) *byteTrie {
	log := bits.Len(uint(2*size | 15))
	t := &byteTrie{slots: make([]uint64, 1<<log), shift: uint(64 - log), tokens: []int32{-1}}
	for i := range t.slots {
		t.slots[i] = emptySlot
	}
	return t
}

func (t *byteTrie) slot(node int32, b byte) (key, i uint64) {
	key = uint64(node)<<8 | uint64(b)
	return key, key * 0x9E3779B97F4A7C15 >> t.shift
}

// child returns the child of a node, or -1.
func (t *byteTrie) child(node int32, b byte) int32 {
	key, i := t.slot(node, b)
	for ; ; i = (i + 1) & uint64(len(t.slots)-1) {
		s := t.slots[i]
		if s>>nodeBits == key {
			return int32(s & maxNodes)
		}
		if s == emptySlot {
			return -1
		}
	}
}

// add adds a piece that is not empty.
func (t *byteTrie) add(piece string, id int32) {
	node := int32(0)
	for k := range len(piece) {
		next := t.child(node, piece[k])
		if next < 0 {
			next = int32(len(t.tokens))
			t.tokens = append(t.tokens, -1)
			key, i := t.slot(node, piece[k])
			for t.slots[i] != emptySlot {
				i = (i + 1) & uint64(len(t.slots)-1)
			}
			t.slots[i] = key<<nodeBits | uint64(next)
		}
		node = next
	}
	t.tokens[node] = id
}
