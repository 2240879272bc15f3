package sim

import "weir/backend"

// history reads the history of sequence i back, which has the run [from, to). It
// returns its hash, and keeps those of the rows. All groups of layers have to hold the same tokens, as far as
// they look back. If none looks back to the start, the hash of a row is that of what group 0 sees.
func (o *Oracle) history(s *step, i int, from, to int32) (h uint64, err error) {
	g := wholeGroup(o.spec)
	if g >= 0 {
		h, err = o.wholeHistory(s, i, g, from)
	} else {
		g = 0
		h, err = o.windows(s, i, from, to)
	}
	if err == nil {
		err = o.agree(s, i, g, int(s.batch.Pos[from]))
	}
	return h, err
}

// wholeGroup is the number of a group of layers that sees all positions, or -1.
func wholeGroup(s backend.Spec) int {
	for g := range s.NumGroups() {
		if s.Group(g) == (backend.KVGroup{}) {
			return g
		}
	}
	return -1
}

// keepHistory keeps h as the hash of token t, if it is that of a row.
func (s *step) keepHistory(t int32, h uint64) {
	if next := len(s.histories); next < len(s.batch.At) && s.batch.At[next] == t {
		s.histories = append(s.histories, h)
	}
}

// wholeHistory is history by what group g holds, which sees everything.
func (o *Oracle) wholeHistory(s *step, i, g int, from int32) (uint64, error) {
	b := s.batch
	begin := b.Pos[from]
	if begin == 0 && !o.holds(b, i, 0, mix(o.cfg.Seed)) {
		return 0, broken("sequence %d begins with state slot %d", i, b.StateIn[i])
	}
	return o.seen(s, i, g, 0, int(b.KVLen[i]), func(pos int32, before, h uint64) (uint64, error) {
		if pos > 0 && pos == begin && !o.holds(b, i, pos, before) {
			return 0, broken("sequence %d: state slot %d does not hold the state after its first %d tokens", i, b.StateIn[i], pos)
		}
		t := from + pos - begin
		if len(b.Types) > 0 && t >= from { // an encoder's sequences are whole
			h = mix(h ^ uint64(b.Types[t]))
		}
		if t >= from {
			s.keepHistory(t, h)
		}
		return h, nil
	})
}

// windows is history where no group sees everything.
func (o *Oracle) windows(s *step, i int, from, to int32) (h uint64, err error) {
	for t := from; t < to && err == nil; t++ {
		pos := int(s.batch.Pos[t])
		h, err = o.seen(s, i, 0, o.spec.Group(0).First(pos), pos+1, nil)
		s.keepHistory(t, h)
	}
	return h, err
}

// seen reads positions [first, n) of sequence i back from the blocks of group g, and returns their hash. each, if it
// is not nil, is told the hash before and after each position, and may change it.
func (o *Oracle) seen(s *step, i, g, first, n int, each func(pos int32, before, h uint64) (uint64, error)) (uint64, error) {
	size, table := o.spec.BlockTokens, s.batch.Table(g, i)
	h := mix(o.cfg.Seed)
	long := s.batch.IsLong(i)
	if long {
		h = mix(h ^ 1)
	}
	for pos := first; pos < n; pos++ {
		blk := table[pos/size]
		sl := &o.slots[int(blk)*size+pos%size]
		if blk == 0 || int(sl.pos) != pos || int(sl.group) != g {
			return 0, broken("sequence %d: the slot of position %d in block %d holds position %d of group %d, not %d", i, pos, blk, sl.pos, sl.group, g)
		}
		if sl.long != long {
			return 0, broken("sequence %d: position %d in block %d was computed while the sequence was long: %v", i, pos, blk, sl.long)
		}
		before := h
		h = mix(h ^ uint64(uint32(sl.token)))
		if each == nil {
			continue
		}
		var err error
		if h, err = each(int32(pos), before, h); err != nil {
			return 0, err
		}
	}
	return h, nil
}

// agree checks that the groups of layers hold the same tokens of sequence i, whose run begins at position
// begin, as the given one does.
func (o *Oracle) agree(s *step, i, with, begin int) error {
	for g := range o.spec.NumGroups() {
		if g == with {
			continue
		}
		n := int(s.batch.KVLen[i])
		first := max(o.spec.Group(g).First(begin), o.spec.Group(with).First(begin))
		h, err := o.seen(s, i, g, first, n, nil)
		if err != nil {
			return err
		}
		if first > o.spec.Group(g).First(begin) { // beyond what the other one holds
			if _, err := o.seen(s, i, g, o.spec.Group(g).First(begin), first, nil); err != nil {
				return err
			}
		}
		want, err := o.seen(s, i, with, first, n, nil)
		if err == nil && h != want {
			err = broken("sequence %d: groups %d and %d hold other tokens", i, g, with)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// holds reports whether sequence i goes on from the state after its first pos tokens, whose hash is h.
func (o *Oracle) holds(b *backend.Batch, i int, pos int32, h uint64) bool {
	if len(o.states) == 0 {
		return true
	}
	in := &o.states[b.StateIn[i]]
	return in.pos == pos && in.hash == h
}
