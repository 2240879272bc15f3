package kvcache

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// stateReference is the books of state slots at their simplest: a state is known by the salt and
// the tokens that it comes after, written out, and the free list is a slice. memory is what the device
// would have in each slot.
type stateReference struct {
	content map[StateID]string // of published slots
	refs    map[StateID]int
	free    []StateID
	memory  map[StateID]string
	begun   map[string]int // by content: sequences that began with it since it was published
}

// statefulTable is a table of the reference with its sequence.
type statefulTable struct {
	salt      byte
	tokens    []int32
	computed  int
	published int // blocks
	own, at   int // as in tableStates
	kept      []keptState
	roll      string // content of the state that was published to be replaced
	from      string // content of the one that it began with
}

func newStateReference(slots int) *stateReference {
	r := &stateReference{content: map[StateID]string{}, refs: map[StateID]int{}, memory: map[StateID]string{}, begun: map[string]int{}}
	for s := 1; s < slots; s++ {
		r.free = append(r.free, StateID(s))
	}
	return r
}

// find is the slot that is published with this content, or 0.
func (r *stateReference) find(content string) StateID {
	for s, c := range r.content {
		if c == content {
			return s
		}
	}
	return 0
}

func (r *stateReference) take() StateID {
	s := r.free[0]
	r.free = r.free[1:]
	delete(r.content, s)
	r.refs[s] = 1
	return s
}

func (r *stateReference) ref(s StateID) {
	r.refs[s]++
	r.remove(s)
}

func (r *stateReference) remove(s StateID) {
	r.free = slices.DeleteFunc(r.free, func(x StateID) bool { return x == s })
}

func (r *stateReference) unref(s StateID) {
	if r.refs[s]--; r.refs[s] > 0 {
		return
	}
	if r.content[s] != "" {
		r.free = append(r.free, s)
	} else {
		r.free = slices.Insert(r.free, 0, s)
	}
}

// start lets t begin with the state after n tokens, in slot s.
func (r *stateReference) start(t *statefulTable, s StateID, n int) {
	if t.computed = n; n > 0 {
		r.ref(s)
		t.from = r.content[s]
		r.begun[t.from]++
		t.kept = append(t.kept, keptState{slot: s, at: n})
	}
}

// own gives t a slot of its own, if it can.
func (r *stateReference) own(t *statefulTable) bool {
	switch {
	case t.own != 0:
	case len(r.free) > 0:
		t.own, t.at = int(r.take()), -1
	case len(t.kept) == 1 && r.refs[t.kept[0].slot] == 1:
		t.own, t.at = int(t.kept[0].slot), t.kept[0].at
		delete(r.content, t.kept[0].slot)
		t.kept = nil
	default:
		return false
	}
	return true
}

// advance returns the slot that t goes on from; t.own is the one it goes to.
func (r *stateReference) advance(t *statefulTable, to int, keep Keep, reserve, block int) (in StateID) {
	from := t.computed
	if from > 0 && t.at != from {
		for _, k := range t.kept {
			if k.at == from {
				in = k.slot
			}
		}
	} else if from > 0 {
		in = StateID(t.own)
		if keep != Overwrite && len(r.free) > reserve {
			t.kept = append(t.kept, keptState{in, from, keep})
			t.own = int(r.take())
			if t.published*block == from {
				r.publish(t, from)
			}
		}
	}
	t.at, t.computed = to, to
	return in
}

// publish lets the states that t keeps after n tokens be found.
func (r *stateReference) publish(t *statefulTable, n int) {
	for _, k := range t.kept {
		if k.at == n && k.keep >= Checkpoint {
			r.publishSlot(t, k.slot, n, k.keep)
		}
	}
}

func (r *stateReference) publishSlot(t *statefulTable, s StateID, n int, keep Keep) {
	c := content(0, t.salt, t.tokens[:n])
	dup := r.find(c) != 0
	if !dup {
		r.content[s], r.begun[c] = c, 0
	}
	if keep == Checkpoint {
		if old := r.find(t.from); old != 0 && r.refs[old] == 0 && r.begun[t.from] <= 1 {
			r.remove(old)
			i := slices.IndexFunc(r.free, func(x StateID) bool { return r.content[x] != "" })
			if i < 0 {
				i = len(r.free)
			}
			r.free = slices.Insert(r.free, i, old)
		}
		return
	}
	if old := r.find(t.roll); old != 0 && t.roll != c && r.refs[old] == 0 {
		delete(r.content, old)
		r.remove(old)
		r.free = slices.Insert(r.free, 0, old)
	}
	if t.roll = ""; !dup {
		t.roll = c
	}
}

func (r *stateReference) settle(t *statefulTable, computed, hold int) {
	t.kept = slices.DeleteFunc(t.kept, func(k keptState) bool {
		gone := k.at <= computed && k.at != hold
		if gone {
			r.unref(k.slot)
		}
		return gone
	})
}

func (r *stateReference) release(t *statefulTable, block int) {
	for _, k := range t.kept {
		r.unref(k.slot)
	}
	if t.own == 0 {
		return
	}
	if t.at > 0 && t.published*block == t.at {
		r.publishSlot(t, StateID(t.own), t.at, Rolling)
	}
	r.unref(StateID(t.own))
}

// stateComparison runs the same operations on a Manager and on the reference. There are enough
// blocks for all, so that only states are evicted.
type stateComparison struct {
	*rand.Rand
	m      *Manager
	ref    *stateReference
	block  int
	tables []*Table
	want   []*statefulTable
	blocks map[string]bool // contents up to the ends of published blocks
	hits   int
	rewind int
}

func (c *stateComparison) begin() error {
	t, w := &Table{}, &statefulTable{salt: byte(c.IntN(2))}
	for range 1 + c.IntN(14) {
		w.tokens = append(w.tokens, int32(c.IntN(2)))
	}
	got, want, slot := c.m.Share(t, w.tokens, Hash{w.salt}, true), 0, StateID(0)
	for n := c.block; n < len(w.tokens); n += c.block {
		if s := c.ref.find(content(0, w.salt, w.tokens[:n])); s != 0 {
			want, slot = n, s
		}
	}
	c.ref.start(w, slot, want)
	w.published = want / c.block
	if got > 0 {
		c.hits++
	}
	branch := 0
	for n := c.block; n < len(w.tokens) && c.blocks[content(0, w.salt, w.tokens[:n])]; n += c.block {
		if branch = n; n == want {
			branch = 0
		}
	}
	if t.Branch() != branch {
		return fmt.Errorf("the branch is at %d, want %d", t.Branch(), branch)
	}
	return c.add(t, w, got)
}

func (c *stateComparison) fork(i int) error {
	src, t := c.want[i], &Table{}
	w := &statefulTable{salt: src.salt, tokens: slices.Clone(src.tokens)}
	n, at, slot := c.IntN(len(src.tokens)), 0, StateID(0)
	for _, k := range src.kept {
		if k.at > at && k.at <= n && k.at%c.block == 0 {
			at, slot = k.at, k.slot
		}
	}
	got := c.m.Fork(t, c.tables[i], n, Hash{src.salt})
	c.ref.start(w, slot, at)
	if w.published = src.published; at/c.block < src.published {
		w.published = 0
	}
	return c.add(t, w, got)
}

func (c *stateComparison) add(t *Table, w *statefulTable, got int) error {
	c.tables, c.want = append(c.tables, t), append(c.want, w)
	if got != w.computed {
		return fmt.Errorf("%d tokens are found, want %d", got, w.computed)
	}
	return nil
}

// compute runs a chunk of sequence i and books it, or goes back to its beginning.
func (c *stateComparison) compute(i int) error {
	t, w := c.tables[i], c.want[i]
	if w.computed == len(w.tokens) {
		w.tokens = append(w.tokens, int32(c.IntN(2)))
	}
	from := w.computed
	to := from + 1 + c.IntN(len(w.tokens)-from)
	got, want := c.m.Grow(t, to), c.ref.own(w)
	if got != want {
		return fmt.Errorf("Grow returns %v, want %v", got, want)
	}
	if !got {
		return nil
	}
	keep := Keep(c.IntN(2))
	if from%c.block == 0 {
		keep = Keep(c.IntN(4))
	}
	reserve := c.IntN(2)
	in, out := c.m.Advance(t, from, to, keep, reserve)
	if wantIn := c.ref.advance(w, to, keep, reserve, c.block); in != wantIn || int(out) != w.own {
		return fmt.Errorf("a run from %d to %d goes from slot %d to %d, want %d and %d", from, to, in, out, wantIn, w.own)
	}
	if has := c.ref.memory[in]; from > 0 && has != fmt.Sprint(w.tokens[:from]) {
		return fmt.Errorf("slot %d has the state after %s, want that after %v", in, has, w.tokens[:from])
	}
	c.ref.memory[out] = fmt.Sprint(w.tokens[:to])
	if c.IntN(4) == 0 {
		return c.goBack(i, from)
	}
	hold := c.IntN(2) * (from / c.block * c.block)
	c.m.Settle(t, from, hold)
	c.ref.settle(w, from, hold)
	c.m.Publish(t, w.tokens, to)
	for ; (w.published+1)*c.block <= to; w.published++ {
		c.blocks[content(0, w.salt, w.tokens[:(w.published+1)*c.block])] = true
		c.ref.publish(w, (w.published+1)*c.block)
	}
	return nil
}

// goBack discards a run that began after n tokens.
func (c *stateComparison) goBack(i, n int) error {
	w, found := c.want[i], n == 0
	for _, k := range w.kept {
		found = found || k.at == n
	}
	if got := c.m.Rewind(c.tables[i], n); got != found {
		return fmt.Errorf("Rewind to %d returns %v, want %v", n, got, found)
	}
	if !found {
		c.release(i)
		return nil
	}
	c.rewind++
	for j := range w.kept {
		if w.kept[j].at > n {
			w.kept[j].at, w.kept[j].keep = -1, Overwrite
		}
	}
	w.at, w.computed = -1, n
	return nil
}

func (c *stateComparison) release(i int) {
	c.m.Release(c.tables[i])
	c.ref.release(c.want[i], c.block)
	c.tables, c.want = slices.Delete(c.tables, i, i+1), slices.Delete(c.want, i, i+1)
}

func (c *stateComparison) operate() error {
	i := 0
	if len(c.tables) > 0 {
		i = c.IntN(len(c.tables))
	}
	switch r := c.IntN(12); {
	case r < 3 || len(c.tables) == 0:
		return c.begin()
	case r < 4:
		return c.fork(i)
	case r < 10:
		return c.compute(i)
	default:
		c.release(i)
		return nil
	}
}

func (c *stateComparison) compare() error {
	if free := c.m.states.freeList(); !slices.Equal(free, c.ref.free) || c.m.FreeStates() != len(free) {
		return fmt.Errorf("free list %v of length %d, want %v", free, c.m.FreeStates(), c.ref.free)
	}
	for i, t := range c.tables {
		if int(t.states.own) != c.want[i].own || !slices.Equal(t.states.kept, c.want[i].kept) {
			return fmt.Errorf("the table has the slots %+v, want %+v", t.states, c.want[i])
		}
	}
	return c.m.Check(c.tables...)
}

// TestStateReference: over random operations, every hit, every state slot and every refusal is the
// reference's, and every run goes on from the state after exactly the tokens before it.
func TestStateReference(t *testing.T) {
	hits, rewind := 0, 0
	for seed := range uint64(80) {
		g := rand.New(rand.NewPCG(seed, 3))
		slots, block := 2+g.IntN(14), 1+g.IntN(3)
		c := &stateComparison{Rand: g, m: New(4000, block, slots, true), ref: newStateReference(slots), block: block, blocks: map[string]bool{}}
		for op := range 500 {
			err := c.operate()
			if err == nil {
				err = c.compare()
			}
			if err != nil {
				t.Fatalf("seed %d, operation %d: %v", seed, op, err)
			}
		}
		hits += c.hits
		rewind += c.rewind
	}
	t.Logf("%d hits, %d times back", hits, rewind)
	if hits < 200 || rewind < 500 {
		t.Error("there were too few of these for the test to mean anything")
	}
}
