package grammar

import "maps"

// chunks reads some of texts that are neighbours, in their order. The automaton is the
// smallest one for the substrings of a sequence, which has at most two states for each
// element (Blumer et al. 1985): an automaton that only guesses where a substring begins
// would become one of quadratic size where texts repeat.
func (b *builder) chunks(from int32, texts []string) int32 {
	s := &substrings{states: []substringState{{link: -1, next: map[string]int32{}}}}
	for _, text := range texts {
		if text != "" {
			b.spend(1 + len(text)/16)
			b.hold(2 * stateBytes)
			s.add(b, text)
		}
	}
	to := b.state()
	at := make([]int32, len(s.states))
	for i := range at {
		at[i] = b.state()
		b.eps(at[i], to)
	}
	b.eps(from, at[0])
	for i, st := range s.states {
		for _, text := range st.order {
			b.eps(b.lit(at[i], text), at[st.next[text]])
		}
	}
	return to
}

// substrings is the automaton of the substrings of what was added so far.
type substrings struct {
	states []substringState
	last   int32 // the state of everything that was added
}

// substringState stands for the substrings that end in the same places.
type substringState struct {
	len   int   // elements of the longest of them
	link  int32 // the state of the longest of their ends that ends in other places as well; -1 for none
	next  map[string]int32
	order []string // the keys of next
}

func (st *substringState) set(text string, to int32) {
	if _, ok := st.next[text]; !ok {
		st.order = append(st.order, text)
	}
	st.next[text] = to
}

// add appends an element.
func (s *substrings) add(b *builder, text string) {
	n := int32(len(s.states))
	s.states = append(s.states, substringState{len: s.states[s.last].len + 1, next: map[string]int32{}})
	p := s.last
	s.last = n
	for ; p >= 0; p = s.states[p].link {
		if _, ok := s.states[p].next[text]; ok {
			break
		}
		b.spend(1)
		s.states[p].set(text, n)
	}
	if p < 0 {
		return
	}
	q := s.states[p].next[text]
	if s.states[q].len == s.states[p].len+1 {
		s.states[n].link = q
		return
	}
	// Of the substrings of q, the shorter ones now end in one place more.
	c := int32(len(s.states))
	old := &s.states[q]
	b.spend(1 + len(old.order))
	s.states = append(s.states, substringState{len: s.states[p].len + 1, link: old.link, next: maps.Clone(old.next), order: append([]string(nil), old.order...)})
	s.states[q].link, s.states[n].link = c, c
	for ; p >= 0 && s.states[p].next[text] == q; p = s.states[p].link {
		b.spend(1)
		s.states[p].set(text, c)
	}
}
