package grammar

import (
	"math"
	"math/bits"
	"slices"
)

// Most of a walk through the trie can be left out where all texts of some bytes go on: in
// the middle of a string, whatever letters and digits follow, the string is not over, and
// so all tokens below a node that has only such bytes below it are legal at once. Which
// bytes these are is found by a search through the positions that they lead to. That is a
// loop of one position in a plain string, a few positions that come back to each other in
// a pattern, and a chain of them where so many more characters may follow.

// known is what a walk knows of a position.
type known struct {
	of *position

	// live[h] are kinds of bytes of which all texts of up to h+1 bytes can follow without a
	// pop of the base. Nodes of the trie ask for them; see liveAsked.
	live   [liveBytes]uint64
	asked  int32     // how many nodes are below those that have asked
	search int32     // how large asked must be for the next search
	char   charState // of the nodes that ask

	// See agreement.
	other  *position
	agreed int
}

const (
	liveBytes     = 32   // what is more than so many bytes below a node is walked
	livePositions = 64   // a search ends when it has come to more positions
	liveFirst     = 64   // the first node that asks for a position has at least so many below it
	liveAsked     = 8192 // a search is made when those that asked have so many below them together

	// keptKnown is for how many positions a trieWalk keeps its memory for the next walk.
	keptKnown = 1024
)

// knownOf is what w knows of s.
func (w *trieWalk) knownOf(s *position) *known {
	if s.known != nil {
		return s.known
	}
	n := len(w.known)
	if n == cap(w.known) {
		w.known = append(w.known, nil)
	}
	w.known = w.known[:n+1]
	if w.known[n] == nil {
		w.known[n] = new(known)
	}
	s.known = w.known[n]
	s.known.of = s
	return s.known
}

// forgetKnown ends what w knows of positions.
func (w *trieWalk) forgetKnown() {
	for _, k := range w.known {
		k.of.known = nil
		*k = known{}
	}
	if w.known = w.known[:0]; cap(w.known) > keptKnown {
		w.known = nil
	}
}

// allLive reports whether s can read all texts below node i without a pop of the base.
func (w *trieWalk) allLive(p *path, s *position, i int) bool {
	n := &w.m.voc.nodes[i]
	if n.height == 0 || n.height > liveBytes || n.char == noChar || len(s.tops) == 0 || s.doubtful {
		return false
	}
	k := s.known
	if k == nil {
		if n.skip < liveFirst {
			return false
		}
		k = w.knownOf(s)
	}
	if k.search == 0 {
		k.search, k.char = liveAsked, n.char
	}
	if k.asked < k.search {
		if k.asked = min(k.asked+n.skip, k.search); k.asked == k.search {
			if k.search = math.MaxInt32; !w.searchLive(p, s, k) {
				k.search = 8 * k.asked
			}
		}
	}
	return k.char == n.char && w.m.voc.kindsBelow[i]&^k.live[n.height-1] == 0
}

// reachedAt is a position that a search has come to, and where a text is in a character
// there.
type reachedAt struct {
	at   *position
	char charState
}

// liveSearch is one search.
type liveSearch struct {
	w       *trieWalk
	p       *path
	limit   int64       // of p.spent
	kinds   uint64      // those that have not been left out
	reached []reachedAt // all of which read all bytes of kinds
}

// searchLive finds out which bytes can follow s, for k. It reports false if it was stopped
// because it takes more visits than there are nodes that have asked.
func (w *trieWalk) searchLive(p *path, s *position, k *known) bool {
	w.m.live.searches++
	l := liveSearch{w: w, p: p, limit: p.spent + int64(k.asked), kinds: asciiKinds | 1<<longCharKind, reached: w.reached[:0]}
	defer func() { w.reached = l.reached[:0] }()
	l.kinds = l.good(reachedAt{s, k.char})
	l.reach(reachedAt{s, k.char})
	for depth, from := 0, 0; depth < liveBytes; depth++ {
		if p.spent > l.limit {
			return false
		}
		k.live[depth] = l.kinds
		end := len(l.reached)
		if l.kinds == 0 || end > livePositions {
			break
		}
		for ; from < end; from++ {
			l.expand(l.reached[from])
		}
	}
	return true
}

// reach notes that t was reached.
func (l *liveSearch) reach(t reachedAt) {
	t.at.seen, t.at.seenAt = l.w.m.live.searches, t.char
	l.reached = append(l.reached, t)
}

// expand goes on to the positions that the bytes of l.kinds lead to from r. If some of the
// bytes of l.kinds cannot follow there, either they or the ones that lead there are left
// out, whichever are rarer in the vocabulary.
func (l *liveSearch) expand(r reachedAt) {
	for rest := l.kinds; rest != 0; rest &= rest - 1 {
		kind := rest & -rest
		for _, c := range l.w.m.classesOf(bits.TrailingZeros64(kind), r.char) {
			t := reachedAt{l.p.take(l.w.m, r.at, c.class), c.to}
			seen := t.at.seen == l.w.m.live.searches
			if seen && t.at.seenAt == t.char {
				continue
			}
			good := uint64(0) // where the same position is reached in the middle of a character and elsewhere
			if !seen {
				good = l.good(t)
			}
			if lost := l.kinds &^ good; lost != 0 && l.w.weight(kind) <= l.w.weight(lost) {
				l.kinds &^= kind
				break
			}
			if l.kinds &= good; l.kinds == 0 || l.p.spent > l.limit {
				return
			}
			rest &= l.kinds | kind
			l.reach(t)
		}
	}
}

// good are those of l.kinds of which all bytes can be read by r without a pop.
func (l *liveSearch) good(r reachedAt) uint64 {
	kinds := l.kinds
	for rest := kinds; rest != 0; rest &= rest - 1 {
		for _, c := range l.w.m.classesOf(bits.TrailingZeros64(rest), r.char) {
			if t := l.p.take(l.w.m, r.at, c.class); len(t.tops) == 0 || t.pops || t.doubtful {
				kinds &^= rest & -rest
				break
			}
			l.w.pacer.call()
			if l.p.spent > l.limit {
				return 0
			}
		}
	}
	l.p.cost = max(l.p.cost, r.at.cost.Load())
	return kinds
}

// weight is how many nodes of the trie have a byte of one of the kinds.
func (w *trieWalk) weight(kinds uint64) (n int32) {
	for ; kinds != 0; kinds &= kinds - 1 {
		n += w.m.voc.kindWeights[bits.TrailingZeros64(kinds)]
	}
	return n
}

// kindClass is a class of bytes (network.class), and where a text is in a character after
// one of its bytes.
type kindClass struct {
	class uint8
	to    charState
}

// liveTables are what the searches in a machine have in common.
type liveTables struct {
	searches uint32       // so far
	kinds    *kindClasses // see classesOf
}

// kindClasses are the classes of the bytes of each kind of ASCII, and of each charState for
// longCharKind after them. Those of number i are list[from[i]:from[i+1]].
type kindClasses struct {
	from [longCharKind + noChar + 1]uint16
	list []kindClass
}

// classesOf are the classes of the bytes of a kind that can be next in a character. The
// caller holds building.
func (m *machine) classesOf(kind int, char charState) []kindClass {
	if m.live.kinds == nil {
		m.live.kinds = m.net.kindClasses()
	}
	switch {
	case kind == longCharKind:
		kind = int(byteKinds) + int(char)
	case char != betweenChars:
		return nil
	}
	return m.live.kinds.list[m.live.kinds.from[kind]:m.live.kinds.from[kind+1]]
}

// kindClasses makes the table for n.
func (n *network) kindClasses() *kindClasses {
	k := new(kindClasses)
	for i := range int(byteKinds) + int(noChar) {
		kind, char := uint8(i), betweenChars
		if kind >= byteKinds {
			kind, char = longCharKind, charState(kind-byteKinds)
		}
		start := len(k.list)
		for b := range 256 {
			c := kindClass{n.class[b], char.next(byte(b))}
			if byteKind[b] == kind && c.to != noChar && !slices.Contains(k.list[start:], c) {
				k.list = append(k.list, c)
			}
		}
		k.from[i+1] = uint16(len(k.list))
	}
	return k
}
