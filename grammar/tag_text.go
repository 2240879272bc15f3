package grammar

import "slices"

// triggers are the texts in free text that something else follows.
type triggers struct {
	texts []string
	after []frag // what follows each of texts
	once  bool   // free text does not go on after that
}

// freeText reads any text without one of excludes in it. It may stop anywhere. Where a
// trigger is complete, what belongs to it follows.
func (t *tags) freeText(from int32, excludes []string, tr triggers) int32 {
	b := t.b
	excludes, tr, tokens := t.special.divide(excludes, tr)
	ac := newAhoCorasick(append(slices.Clone(excludes), tr.texts...))
	f := &freeText{b: b, ac: ac, at: make([]int32, len(ac.next)), excludes: len(excludes)}
	for i := range f.at {
		f.at[i] = b.state()
	}
	b.eps(from, f.at[0])
	to, anywhere := b.state(), b.state()
	back := f.at[0]
	if tr.once {
		back = to
	}
	for i := range tr.texts {
		exit := b.state()
		f.exits = append(f.exits, exit)
		b.eps(tr.after[i](exit), back)
	}
	for i, text := range tokens.texts {
		b.eps(tokens.after[i](t.lit(anywhere, text)), back)
	}
	for n := range ac.next {
		if ac.final(int32(n)) {
			continue // free text has been left before
		}
		b.eps(f.at[n], to)
		if len(tokens.texts) > 0 {
			b.eps(f.at[n], anywhere)
		}
		f.edges(n)
	}
	return to
}

// freeText lowers an Aho-Corasick automaton whose patterns are the excluded texts, then
// those that have an exit.
type freeText struct {
	b        *builder
	ac       *ahoCorasick
	at       []int32 // the state of each node
	excludes int
	exits    []int32 // the state after each of the other patterns
}

// edges adds the edges of node n, as ranges of bytes that lead to the same node. Free text
// has no markers in it.
func (f *freeText) edges(n int) {
	next := &f.ac.next[n]
	for lo := 0; lo < marker; {
		hi := lo
		for hi < marker-1 && next[hi+1] == next[lo] {
			hi++
		}
		f.edge(f.at[n], byte(lo), byte(hi), next[lo])
		lo = hi + 1
	}
}

// edge adds an edge from state s to node n, or to the exits of the patterns that are
// complete there.
func (f *freeText) edge(s int32, lo, hi byte, n int32) {
	if !f.ac.final(n) {
		f.b.edge(s, lo, hi, f.at[n])
		return
	}
	if f.ac.complete[n][0] < f.excludes {
		return
	}
	for _, p := range f.ac.complete[n] {
		f.b.edge(s, lo, hi, f.exits[p-f.excludes])
	}
}

// shortText is a rule for text of characters without one of excludes in it. A tick is a
// character, so the call says how many there are.
func (b *builder) shortText(excludes []string) int32 {
	ac := newAhoCorasick(excludes)
	r, out := b.rule(), b.state()
	b.accept(out)
	// Between two characters the text is at one of the nodes that a whole character leads
	// to, and inside of a character at a node as well. ends are the states between.
	s := &shortText{b: b, ac: ac, between: make(map[int32]int32)}
	b.eps(b.start(r), s.after(0))
	for len(s.todo) > 0 {
		n := s.todo[len(s.todo)-1]
		s.todo = s.todo[:len(s.todo)-1]
		at, body := s.between[n], b.state()
		b.step(at, step{kind: stepTick, to: body})
		b.step(at, step{kind: stepGuard, to: out})
		for _, c := range characters {
			s.character(body, n, c)
		}
	}
	return r
}

// characters are the shapes of the characters of UTF-8: the ranges of their bytes.
var characters = [][][2]byte{
	{{0, 0x7F}},
	{{0xC2, 0xDF}, {0x80, 0xBF}},
	{{0xE0, 0xE0}, {0xA0, 0xBF}, {0x80, 0xBF}},
	{{0xE1, 0xEC}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xED, 0xED}, {0x80, 0x9F}, {0x80, 0xBF}},
	{{0xEE, 0xEF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF0, 0xF0}, {0x90, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF1, 0xF3}, {0x80, 0xBF}, {0x80, 0xBF}, {0x80, 0xBF}},
	{{0xF4, 0xF4}, {0x80, 0x8F}, {0x80, 0xBF}, {0x80, 0xBF}},
}

// shortText makes the automaton of builder.shortText.
type shortText struct {
	b       *builder
	ac      *ahoCorasick
	between map[int32]int32 // the state between two characters, by the node there
	todo    []int32
}

// after is the state between two characters at node n.
func (s *shortText) after(n int32) int32 {
	at, ok := s.between[n]
	if !ok {
		at = s.b.state()
		s.between[n] = at
		s.todo = append(s.todo, n)
	}
	return at
}

// character reads one of the characters of a shape, from node n on.
func (s *shortText) character(from, n int32, shape [][2]byte) {
	lo, hi := int(shape[0][0]), int(shape[0][1])
	for lo <= hi {
		next := s.ac.next[n][lo]
		last := lo
		for last < hi && s.ac.next[n][last+1] == next {
			last++
		}
		s.b.spend(1)
		if !s.ac.final(next) {
			to := int32(0)
			if len(shape) == 1 {
				to = s.after(next)
			} else {
				to = s.b.state()
				s.character(to, next, shape[1:])
			}
			s.b.edge(from, byte(lo), byte(last), to)
		}
		lo = last + 1
	}
}
