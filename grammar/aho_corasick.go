package grammar

import "slices"

// ahoCorasick finds the patterns that end at each byte of a text (Aho and Corasick
// 1975). Its nodes are the prefixes of the patterns; node 0 is the empty one.
type ahoCorasick struct {
	next     [][256]int32 // the node after each byte
	complete [][]int      // the patterns that are complete at a node, ascending
}

// final reports whether any pattern is complete at node n.
func (ac *ahoCorasick) final(n int32) bool { return len(ac.complete[n]) > 0 }

func newAhoCorasick(patterns []string) *ahoCorasick {
	ac := &ahoCorasick{next: make([][256]int32, 1), complete: make([][]int, 1)}
	for p, text := range patterns {
		ac.add(p, text)
	}
	ac.link()
	return ac
}

// add adds the nodes of pattern p. A next node of 0 means that there is none.
func (ac *ahoCorasick) add(p int, text string) {
	n := int32(0)
	for i := range len(text) {
		if ac.next[n][text[i]] == 0 {
			if len(ac.next) > 10_000 {
				fail(ErrTooComplex, "", "too much text in triggers and ends")
			}
			ac.next[n][text[i]] = int32(len(ac.next))
			ac.next, ac.complete = append(ac.next, [256]int32{}), append(ac.complete, nil)
		}
		n = ac.next[n][text[i]]
	}
	ac.complete[n] = append(ac.complete[n], p)
}

// link fills in what add has left open: a text that does not go on as this prefix may
// go on as a shorter one, which ends in the same place.
func (ac *ahoCorasick) link() {
	shorter := make([]int32, len(ac.next)) // the longest other prefix that a node ends with
	queue := []int32{}
	for _, c := range ac.next[0] {
		if c != 0 {
			queue = append(queue, c)
		}
	}
	for i := 0; i < len(queue); i++ {
		n := queue[i]
		ac.complete[n] = append(ac.complete[n], ac.complete[shorter[n]]...)
		slices.Sort(ac.complete[n])
		for b := range 256 {
			c := ac.next[n][b]
			if c == 0 {
				ac.next[n][b] = ac.next[shorter[n]][b]
				continue
			}
			shorter[c] = ac.next[shorter[n]][b]
			queue = append(queue, c)
		}
	}
}
