package sim

import (
	"fmt"
	"slices"

	"weir/backend"
	"weir/sampler"
)

// Reading says when an Oracle reads what it is given.
type Reading uint8

const (
	// Eager reads in Begin and Draw. A mistake shows if the engine fills something in
	// later than it may.
	Eager Reading = iota
	// Lazy reads in the End of the step, from the engine's own memory. A mistake shows
	// if the engine changes or reuses something earlier than it may.
	Lazy
)

// Call names a method for OracleConfig.Hook.
type Call uint8

// The calls of one step, in order.
const (
	Begin Call = iota
	Draw
	End
)

func (c Call) String() string { return [...]string{"Begin", "Draw", "End"}[c] }

// OracleConfig says how an Oracle behaves. The zero value is ready to use.
type OracleConfig struct {
	Reading Reading
	Seed    uint64 // of the logits: another seed is like another model

	// Hook, if not nil, is called first in every Begin, Draw and End, with the number
	// of the step, from 0. Its error fails the call. Tests cancel requests in it, or let
	// a step fail.
	Hook func(call Call, step int) error
}

// Oracle is a backend whose logits are a hash of the history that it reads back from its
// KV cache. See the package comment.
type Oracle struct {
	spec  backend.Spec
	cfg   OracleConfig
	turns turns
	steps [2]step // step n is steps[n%2]

	slots     []slot    // [NumBlocks*BlockTokens]
	blocks    []block   // [NumBlocks]
	states    []state   // [StateSlots]
	left      []state   // [S] the states that the step leaves, in order
	edited    []int     // [VocabSize] the last row with an edit of the token, as counted by editedRow
	editedRow int       // number of rows whose edits have been checked
	logits    []float32 // of one row
	picker    sampler.Picker
}

// slot is what was written to a KV slot.
type slot struct {
	token, pos int32
	group      int32 // of layers
	long       bool  // of a sequence that was long then
	step       int   // that wrote it; before the first, neverWritten
}

// block is what is known of a block of KV slots.
type block struct {
	step   int   // the last one that wrote to it; before the first, neverWritten
	pos    int32 // the last position that this step wrote
	listed int   // number of the last table that lists it
	group  int32 // of the tables that list it, in the last step that did
	used   int   // that step; before the first, neverWritten
	seen   int   // the last step whose tokens see it; before the first, neverWritten
}

// state is what is known of a state slot: the hash of the tokens that it comes after, and how many
// there are. A slot that was never written comes after -1 tokens.
type state struct {
	hash        uint64
	pos         int32
	wrote, read int // the last steps that wrote and read it; before the first, neverWritten
}

// neverWritten is the number of a step that was never in flight.
const neverWritten = -9

// step is what is known of one step from Begin to End.
type step struct {
	n       int
	overlap bool // the step before was in flight at Begin
	batch   *backend.Batch
	draws   *backend.Draws
	copies  snapshot

	histories []uint64 // [R] hash of all tokens up to that of the row
	dead      []bool   // [R]
	out       backend.Out
}

// NewOracle opens an oracle. The error is that of a spec that breaks the contract.
func NewOracle(spec backend.Spec, cfg OracleConfig) (*Oracle, error) {
	if err := spec.Check(); err != nil {
		return nil, fmt.Errorf("sim: %w", err)
	}
	if spec.StateSlots > 0 && wholeGroup(spec) < 0 {
		return nil, fmt.Errorf("sim: %w", broken("states are hashes of whole histories, which no group of layers sees"))
	}
	o := &Oracle{
		spec:   spec,
		cfg:    cfg,
		turns:  turns{depth: spec.Depth},
		slots:  make([]slot, spec.NumBlocks*spec.BlockTokens),
		blocks: make([]block, spec.NumBlocks),
		states: make([]state, spec.StateSlots),
		edited: make([]int, spec.VocabSize),
		logits: make([]float32, spec.VocabSize),
	}
	for i := range o.slots {
		o.slots[i] = slot{pos: -1, step: neverWritten}
	}
	for i := range o.blocks {
		o.blocks[i].step, o.blocks[i].used, o.blocks[i].seen = neverWritten, neverWritten, neverWritten
	}
	for i := range o.states {
		o.states[i] = state{pos: -1, wrote: neverWritten, read: neverWritten}
	}
	if len(o.states) > 0 {
		o.states[0].hash, o.states[0].pos = mix(cfg.Seed), 0
	}
	return o, nil
}

// Spec implements backend.Backend.
func (o *Oracle) Spec() backend.Spec { return o.spec }

// Close implements backend.Backend.
func (o *Oracle) Close() error {
	o.turns.err = ErrClosed
	return nil
}

// hook calls OracleConfig.Hook, if there is one.
func (o *Oracle) hook(c Call, n int) error {
	if o.cfg.Hook == nil {
		return nil
	}
	if err := o.cfg.Hook(c, n); err != nil {
		return o.turns.fail(fmt.Errorf("sim: %v of step %d: %w", c, n, err))
	}
	return nil
}

// Begin implements backend.Backend.
func (o *Oracle) Begin(b *backend.Batch) error {
	if err := o.turns.begin(); err != nil {
		return err
	}
	n := o.turns.begun
	if err := o.hook(Begin, n); err != nil {
		return err
	}
	s := &o.steps[n%2]
	s.n, s.batch, s.draws = n, b, nil
	s.overlap = o.turns.begun > o.turns.ended
	s.copies.keepBatch(b)
	o.turns.begun++
	if o.cfg.Reading == Eager {
		return o.forward(s)
	}
	return nil
}

// Draw implements backend.Backend.
func (o *Oracle) Draw(d *backend.Draws) error {
	if err := o.turns.draw(); err != nil {
		return err
	}
	n := o.turns.drawn
	if err := o.hook(Draw, n); err != nil {
		return err
	}
	s := &o.steps[n%2]
	s.draws = d
	s.copies.keepRows(d)
	o.turns.drawn++
	if o.cfg.Reading == Eager {
		return o.draw(s)
	}
	if d.Ready == nil {
		s.copies.keepEdits(d)
	}
	return nil
}

// End implements backend.Backend.
func (o *Oracle) End(out *backend.Out) error {
	if err := o.turns.end(); err != nil {
		return err
	}
	n := o.turns.ended
	if err := o.hook(End, n); err != nil {
		return err
	}
	s := &o.steps[n%2]
	final := o.cfg.Reading == Eager || s.draws.Ready == nil
	if err := s.copies.check(s.batch, s.draws, final); err != nil {
		return o.turns.fail(fmt.Errorf("step %d: %w", n, err))
	}
	if o.cfg.Reading == Lazy {
		if err := o.forward(s); err != nil {
			return err
		}
		if err := o.draw(s); err != nil {
			return err
		}
	}
	if err := out.Check(o.spec, s.draws); err != nil {
		return o.turns.fail(err)
	}
	copy(out.Tokens, s.out.Tokens)
	copy(out.TopTokens, s.out.TopTokens)
	copy(out.TopLogprobs, s.out.TopLogprobs)
	copy(out.Logits, s.out.Logits)
	copy(out.Hidden, s.out.Hidden)
	for i, r := range s.draws.Rows {
		if r.Logprobs != backend.NoLogprobs {
			out.Logprobs[i], out.Ranks[i] = s.out.Logprobs[i], s.out.Ranks[i]
		}
	}
	o.turns.ended++
	return nil
}

// forward computes the forward pass: it writes the batch's slots and hashes the history
// of every row.
func (o *Oracle) forward(s *step) error {
	err := s.batch.Check(o.spec, o.previousRows(s))
	if err == nil {
		err = o.claim(s)
	}
	if err == nil {
		err = o.claimStates(s)
	}
	if err == nil {
		err = o.write(s)
	}
	if err == nil {
		err = o.attend(s)
	}
	if err != nil {
		return o.turns.fail(fmt.Errorf("step %d: %w", s.n, err))
	}
	return nil
}

// eachRun calls f with the run [from, to) of each sequence.
func eachRun(b *backend.Batch, f func(i int, from, to int32) error) error {
	from := int32(0)
	for i, to := range b.QueryEnd {
		if err := f(i, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// claim notes which blocks the tables of s list. No table may list a block twice, and no block may be in
// tables of two groups of layers. The step in flight may still write to a block: whoever has that one now
// must be the same sequence, further on.
func (o *Oracle) claim(s *step) error {
	size := int32(o.spec.BlockTokens)
	for at := range s.batch.TableEnd {
		g, i := at/len(s.batch.QueryEnd), at%len(s.batch.QueryEnd)
		first := 0 // of the entries that the run sees
		if i > 0 {
			first = int(s.batch.QueryEnd[i-1])
		}
		first = o.spec.Group(g).First(int(s.batch.Pos[first])) / o.spec.BlockTokens
		id := (s.n+1)*(o.spec.MaxSeqs*o.spec.NumGroups()+1) + at // of this table, never 0
		for j, blk := range s.batch.Table(g, i) {
			if blk == 0 {
				continue
			}
			m := &o.blocks[blk]
			if m.listed == id {
				return broken("sequence %d: block %d is twice in one table", i, blk)
			}
			if m.used == s.n && m.group != int32(g) {
				return broken("sequence %d: block %d is in tables of groups %d and %d", i, blk, m.group, g)
			}
			if m.listed, m.used, m.group = id, s.n, int32(g); j >= first {
				m.seen = s.n
			}
			stillWritten := s.overlap && m.step == s.n-1
			if stillWritten && (int(m.pos/size) != j || s.batch.KVLen[i] <= m.pos) {
				return broken("sequence %d: block %d was given away before the step that writes it ended", i, blk)
			}
		}
	}
	return nil
}

// claimStates notes which state slots s uses. A slot that the step in flight uses may only be written by
// the sequence that goes on in it.
func (o *Oracle) claimStates(s *step) error {
	for i, in := range s.batch.StateIn {
		out := s.batch.StateOut[i]
		to, busy := &o.states[out], s.n-1
		if !s.overlap {
			busy = neverWritten - 1
		}
		if out != in && (to.wrote == busy || to.read == busy) || out == in && to.read == busy && to.wrote != busy {
			return broken("sequence %d: state slot %d was given away before the step that uses it ended", i, out)
		}
	}
	for i, in := range s.batch.StateIn {
		o.states[in].read, o.states[s.batch.StateOut[i]].wrote = s.n, s.n
	}
	return nil
}

// write stores the tokens of s in their slots. No slot is written twice by one step, or by
// two steps that are in flight together.
func (o *Oracle) write(s *step) error {
	b, size := s.batch, int32(o.spec.BlockTokens)
	return eachRun(b, func(i int, from, to int32) error {
		for t := from; t < to; t++ {
			token, err := o.resolve(s, b.Tokens[t])
			if err != nil {
				return err
			}
			for g := range o.spec.NumGroups() {
				pos, at := b.Pos[t], b.Slots[g*len(b.Tokens)+int(t)]
				w := &o.slots[at]
				if w.step == s.n {
					return broken("sequence %d: slot %d of position %d is written twice in this step", i, at, pos)
				}
				if s.overlap && w.step == s.n-1 {
					return broken("sequence %d: slot %d of position %d is still written by the step before", i, at, pos)
				}
				*w = slot{token, pos, int32(g), b.IsLong(i), s.n}
				m := &o.blocks[at/size]
				m.step, m.pos = s.n, pos
			}
		}
		return nil
	})
}

// previous is the step before s.
func (o *Oracle) previous(s *step) *step { return &o.steps[(s.n+1)%2] }

// previousRows is the number of rows of the step before s, whose tokens s may name.
func (o *Oracle) previousRows(s *step) int {
	if s.n == 0 {
		return 0
	}
	return len(o.previous(s).out.Tokens)
}

// resolve is the token that a batch names. A row without a legal token drew -1;
// its sequence ends, but the step that was begun with it runs.
func (o *Oracle) resolve(s *step, token int32) (int32, error) {
	if token >= 0 {
		return token, nil
	}
	r, prev := int(^token), o.previous(s)
	if prev.dead[r] {
		return 0, broken("row %d of the step before is dead, but its token is named", r)
	}
	return prev.out.Tokens[r], nil
}

// attend reads the whole history of every sequence back and hashes it. It does so for
// sequences without a row, too, so that a wrong table is found in the step that uses it. A
// recurrent state is such a hash, which has to be that of the history when it is read.
func (o *Oracle) attend(s *step) error {
	s.histories, o.left = s.histories[:0], o.left[:0]
	err := eachRun(s.batch, func(i int, from, to int32) error {
		first := len(s.histories)
		h, err := o.history(s, i, from, to)
		if o.spec.Whole {
			for j := range s.histories[first:] { // each position sees what comes after it, too
				s.histories[first+j] = mix(s.histories[first+j] ^ mix(h))
			}
		}
		o.left = append(o.left, state{hash: h, pos: s.batch.KVLen[i]})
		return err
	})
	if err != nil {
		return err
	}
	for i, out := range s.batch.StateOut { // no state is written before all have been read
		o.states[out].hash, o.states[out].pos = o.left[i].hash, o.left[i].pos
	}
	return nil
}

// draw computes the results of all rows, in s.out.
func (o *Oracle) draw(s *step) error {
	d := s.draws
	if err := d.Check(o.spec, len(s.batch.At)); err != nil {
		return o.turns.fail(fmt.Errorf("step %d: %w", s.n, err))
	}
	if d.Ready != nil {
		d.Ready()
	}
	if err := o.checkEdits(d); err != nil {
		return o.turns.fail(fmt.Errorf("step %d: %w", s.n, err))
	}
	s.copies.keepEdits(d)

	top, host := 0, 0
	for _, r := range d.Rows {
		top += int(r.Top)
		if r.Host {
			host++
		}
	}
	s.resize(len(d.Rows), top, host*o.spec.VocabSize)

	top, host = 0, 0
	for i, r := range d.Rows {
		s.dead[i] = r.Dead || r.Hidden
		if r.Hidden {
			s.out.Tokens[i] = -1
			s.out.Hidden = o.vector(s.out.Hidden, s.histories[i])
			continue
		}
		o.fill(s.histories[i])
		o.picker.Pick(o.logits, d, i, &s.out, top)
		top += int(r.Top)
		if r.Host {
			host += copy(s.out.Logits[host:], o.logits)
		}
	}
	return nil
}

// resize makes the results of s as long as a step needs that has this many rows, top
// tokens and logits of Host rows.
func (s *step) resize(rows, top, logits int) {
	s.dead = slices.Grow(s.dead[:0], rows)[:rows]
	s.out.Tokens = slices.Grow(s.out.Tokens[:0], rows)[:rows]
	s.out.Logprobs = slices.Grow(s.out.Logprobs[:0], rows)[:rows]
	s.out.Ranks = slices.Grow(s.out.Ranks[:0], rows)[:rows]
	s.out.TopTokens = slices.Grow(s.out.TopTokens[:0], top)[:top]
	s.out.TopLogprobs = slices.Grow(s.out.TopLogprobs[:0], top)[:top]
	s.out.Logits = slices.Grow(s.out.Logits[:0], logits)[:logits]
	s.out.Hidden = s.out.Hidden[:0]
}

// checkEdits checks the edits, and that no row has two edits of a token.
func (o *Oracle) checkEdits(d *backend.Draws) error {
	if err := d.CheckEdits(o.spec); err != nil {
		return err
	}
	first := int32(0)
	for i := range d.Rows {
		o.editedRow++
		for _, e := range d.Edits[first:d.Rows[i].EditEnd] {
			if o.edited[e.Token] == o.editedRow {
				return broken("row %d: two edits of token %d", i, e.Token)
			}
			o.edited[e.Token] = o.editedRow
		}
		first = d.Rows[i].EditEnd
	}
	return nil
}

// fill computes the row of logits of a history. They form a bell curve of width 2, out of
// which four tokens are lifted, so that probabilities are spread as a model's are and
// filters have something to remove.
func (o *Oracle) fill(h uint64) {
	for i := range o.logits {
		x := mix(h + uint64(i)*0x9E3779B97F4A7C15)
		// The sum of four 16-bit numbers has a mean of 131070 and a deviation of 37837.
		sum := int32(x&0xffff) + int32(x>>16&0xffff) + int32(x>>32&0xffff) + int32(x>>48)
		o.logits[i] = float32(sum-131070) * (2. / 37837)
	}
	for j := range 4 {
		o.logits[(h>>(16*j)&0xffff)%uint64(len(o.logits))] += 5 - float32(j)
	}
}

// vector appends the vector of a history to dst: numbers in [-1, 1) that a float32 holds exactly.
func (o *Oracle) vector(dst []float32, h uint64) []float32 {
	for c := range o.spec.Hidden {
		x := mix(h + uint64(c+1)*0xD1B54A32D192ED03)
		dst = append(dst, float32(int32(x>>40)-1<<23)*(1./(1<<23)))
	}
	return dst
}

// mix is the finalizer of MurmurHash3 (Austin Appleby). The addition before it keeps 0 from
// mapping to 0.
func mix(x uint64) uint64 {
	x += 0x9E3779B97F4A7C15
	x = (x ^ x>>33) * 0xFF51AFD7ED558CCD
	x = (x ^ x>>33) * 0xC4CEB9FE1A85EC53
	return x ^ x>>33
}

// snapshot is a copy of what the engine handed over. It is compared with the original when
// the step ends, because the engine must not change that earlier.
type snapshot struct {
	batch backend.Batch
	rows  []backend.Draw
	edits []backend.Edit
	masks []uint32
}

// slicesOf lists the slices of b, to treat them alike.
func slicesOf(b *backend.Batch) [12]*[]int32 {
	return [12]*[]int32{&b.Tokens, &b.Pos, &b.Slots, &b.QueryEnd, &b.KVLen, &b.TableEnd, &b.Tables, &b.StateIn, &b.StateOut, &b.Types, &b.Long, &b.At}
}

func (c *snapshot) keepBatch(b *backend.Batch) {
	from := slicesOf(b)
	for i, to := range slicesOf(&c.batch) {
		*to = append((*to)[:0], *from[i]...)
	}
}

func (c *snapshot) keepRows(d *backend.Draws) { c.rows = append(c.rows[:0], d.Rows...) }

func (c *snapshot) keepEdits(d *backend.Draws) {
	c.edits, c.masks = append(c.edits[:0], d.Edits...), append(c.masks[:0], d.Masks...)
}

// check compares the copies with the originals. Edits and masks are compared if they were
// final when they were copied.
func (c *snapshot) check(b *backend.Batch, d *backend.Draws, editsFinal bool) error {
	from := slicesOf(b)
	for i, was := range slicesOf(&c.batch) {
		if !slices.Equal(*was, *from[i]) {
			return broken("the batch changed between Begin and End")
		}
	}
	if !slices.Equal(c.rows, d.Rows) {
		return broken("draws changed between Draw and End")
	}
	if editsFinal && !(slices.Equal(c.edits, d.Edits) && slices.Equal(c.masks, d.Masks)) {
		return broken("edits or masks changed between Draw, or Ready, and End")
	}
	return nil
}
