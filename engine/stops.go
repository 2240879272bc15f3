package engine

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"unicode/utf8"
)

// stopStrings finds the stop strings of a request in the texts of its choices, which share
// it. It is the automaton of Aho and Corasick ("Efficient string matching: an aid to
// bibliographic search", CACM 18(6), 1975): a node is a beginning of some stop strings, and
// a text is always at the longest one in which it ends. So a byte costs two moves on
// average, however many stop strings there are, and however long.
//
// The nodes are numbered level by level, so the children of a node have consecutive numbers,
// and children[n] and children[n+1] name all of them:
//
//	"ab", "ac", "ca"    0 -a-> 1 -b-> 3        children  1 3 5 6 6 6 6
//	                           1 -c-> 4        labels    - a c b c a
//	                    0 -c-> 2 -a-> 5        back[4] = 2, back[5] = 1
//
// That takes 13 bytes for each byte of the stop strings. With a table of all 256 bytes for
// each node a move is faster, but 16 KiB of stop strings would take 16 MiB.
type stopStrings struct {
	root     [256]int32 // the child of node 0 by each byte; 0: none
	labels   []byte     // of each node, the byte that leads to it
	children []int32    // of each node, its first child; one entry more than there are nodes
	back     []int32    // of each node, where to go on if no child fits
	found    []int32    // of each node, the first stop string in the list in which it ends, or noStop

	lengths []int // of the stop strings, in bytes
	longest int   // of them
	hold    int   // characters that are held back until a choice ends
}

// noStop is the index of no stop string, and greater than any.
const noStop = math.MaxInt32

// newStopStrings returns nil if there are no stop strings. With include, text that may become
// one need not be held back.
func newStopStrings(stops []string, include bool) *stopStrings {
	if len(stops) == 0 {
		return nil
	}
	s := &stopStrings{lengths: make([]int, len(stops))}
	total := 0
	for i, stop := range stops {
		s.lengths[i] = len(stop)
		s.longest = max(s.longest, len(stop))
		total += len(stop)
		if !include {
			s.hold = max(s.hold, utf8.RuneCountInString(stop)-1)
		}
	}
	s.grow(stops, total)
	return s
}

// StopStringsSize is about how many bytes the engine holds for the stop strings of a request
// with so many choices, and for the text in which it looks for them.
func StopStringsSize(stops []string, choices int) int64 {
	total, longest := 0, 0
	for _, stop := range stops {
		total += len(stop)
		longest = max(longest, len(stop))
	}
	if total == 0 {
		return 0
	}
	const node, base, slack = 13 + 20, 2048, 4096 // a node takes 20 bytes more while it is made
	return base + node*int64(total) + int64(choices)*(slack+4*int64(longest))
}

// span are the stop strings that begin with the path of a node: sorted[low:high].
type span struct{ low, high, depth int32 }

// grow makes the nodes for stop strings of so many bytes, level by level.
func (s *stopStrings) grow(stops []string, total int) {
	sorted := make([]int32, len(stops)) // indices of stops, by their bytes and then by their place
	for i := range sorted {
		sorted[i] = int32(i)
	}
	slices.SortStableFunc(sorted, func(i, j int32) int { return cmp.Compare(stops[i], stops[j]) })
	spans := append(make([]span, 0, total+1), span{high: int32(len(stops))})
	suffix := append(make([]int32, 0, total+1), 0) // of each node, the longest other one in which its path ends
	s.labels = append(make([]byte, 0, total+1), 0)
	s.children = make([]int32, 0, total+2)
	s.back = make([]int32, 0, total+1)
	s.found = make([]int32, 0, total+1)
	for n := int32(0); int(n) < len(spans); n++ {
		first, found := int32(len(spans)), int32(noStop)
		s.children = append(s.children, first)
		for at := spans[n]; at.low < at.high; {
			stop := stops[sorted[at.low]]
			if len(stop) == int(at.depth) { // it ends here, and sorts before those that go on
				found = min(found, sorted[at.low])
				at.low++
				continue
			}
			label, end := stop[at.depth], at.low
			for end < at.high && stops[sorted[end]][at.depth] == label {
				end++
			}
			child := int32(len(spans))
			spans = append(spans, span{at.low, end, at.depth + 1})
			s.labels = append(s.labels, label)
			to := int32(0)
			if n > 0 {
				to = s.move(suffix[n], label)
			} else {
				s.root[label] = child
			}
			suffix = append(suffix, to)
			at.low = end
		}
		back := suffix[n]
		if n > 0 {
			found = min(found, s.found[back])
			if bytes.Equal(s.labels[first:], s.labels[s.children[back]:s.children[back+1]]) {
				back = s.back[back] // the suffix has the same children, so it fits no better than n
			}
		}
		s.back, s.found = append(s.back, back), append(s.found, found)
	}
	s.children = append(s.children, int32(len(spans)))
	s.labels, s.children, s.back, s.found = slices.Clip(s.labels), slices.Clip(s.children), slices.Clip(s.back), slices.Clip(s.found)
}

// move returns the node after n by byte b.
func (s *stopStrings) move(n int32, b byte) int32 {
	for n > 0 {
		low, high := s.children[n], s.children[n+1]
		for low < high {
			mid := (low + high) / 2
			if s.labels[mid] < b {
				low = mid + 1
			} else {
				high = mid
			}
		}
		if low < s.children[n+1] && s.labels[low] == b {
			return low
		}
		n = s.back[n]
	}
	return s.root[b]
}

// search goes on from node n with b. It returns the node after that, and, with check, the stop
// string that ends first in b, of several that end at the same place the first in the list,
// with the place of its end; noStop: there is none.
func (s *stopStrings) search(n int32, b []byte, check bool) (to, hit int32, end int) {
	for i, c := range b {
		if n == 0 {
			n = s.root[c]
		} else {
			n = s.move(n, c)
		}
		if n != 0 && s.found[n] != noStop && check {
			return n, s.found[n], i + 1
		}
	}
	return n, noStop, 0
}
