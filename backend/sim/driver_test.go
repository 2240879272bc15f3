package sim

import (
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/sampler"
)

// driver is the smallest engine that can run sequences on a backend: in random batches and
// chunks, with blocks from a free list and one stop token.
type driver struct {
	t    *testing.T
	be   backend.Backend
	spec backend.Spec
	g    *rand.Rand // of the schedule, which must not affect any result
	free []int32    // blocks
	late []lateSlot // state slots that steps in flight still read
	idle []int32    // state slots that are free
	seqs []*sequence

	// The data of step n is at n%2.
	batch [2]backend.Batch
	draws [2]backend.Draws
	rows  [2][]*sequence // that each row draws for
	n     int            // the step that is planned next, or has been planned last
}

// lateSlot is a state slot that no step after the given one reads.
type lateSlot struct {
	slot int32
	step int
}

// sequence is one sequence of a driver.
type sequence struct {
	params   sampler.Params
	state    *sampler.State
	tokens   []int32 // prompt and output
	prompt   int     // length of the prompt
	max      int     // most output tokens
	computed int
	table    []int32
	held     int32 // its state slot
	row      int   // the row of the last begun step that draws its next token, or -1
	last     int   // the last step that it is in
	done     bool

	logprobs []float32
	ranks    []int32
	top      []int32
}

// stop is the stop token.
const stop = 3

func (d *driver) add(p sampler.Params, prompt []int32, max int) {
	d.seqs = append(d.seqs, &sequence{
		params: p, state: sampler.NewState(&p, d.spec.VocabSize, prompt),
		tokens: slices.Clone(prompt), prompt: len(prompt), max: max, row: -1,
	})
}

// known is the number of tokens that have been drawn or are being drawn.
func (s *sequence) known() int {
	if s.row >= 0 {
		return len(s.tokens) + 1
	}
	return len(s.tokens)
}

// plan fills in the batch of step d.n, and reports false if it has nothing to compute.
func (d *driver) plan() bool {
	b := &d.batch[d.n%2]
	b.Reset()
	rows := d.rows[d.n%2][:0]
	for _, i := range d.g.Perm(len(d.seqs)) {
		s := d.seqs[i]
		n := s.known() - s.computed
		if s.done || n == 0 || s.known()-s.prompt >= s.max+1 || d.g.IntN(5) == 0 {
			continue
		}
		n = min(n, 1+d.g.IntN(9), d.spec.MaxTokens-len(b.Tokens))
		if n < 1 || len(b.QueryEnd) == d.spec.MaxSeqs || !d.grow(s, s.computed+n) {
			continue
		}
		d.appendRun(b, s, n)
		if s.computed == s.known() {
			b.At = append(b.At, int32(len(b.Tokens)-1))
			rows = append(rows, s)
		}
	}
	// The rows of the step before were needed until here.
	for _, s := range d.seqs {
		s.row = -1
	}
	for r, s := range rows {
		s.row = r
	}
	d.rows[d.n%2] = rows
	return len(b.Tokens) > 0
}

// grow takes blocks for the first end positions of s, and reports false if there are not
// enough.
func (d *driver) grow(s *sequence, end int) bool {
	for len(s.table)*d.spec.BlockTokens < end && len(d.free) > 0 {
		s.table = append(s.table, d.free[len(d.free)-1])
		d.free = d.free[:len(d.free)-1]
	}
	return len(s.table)*d.spec.BlockTokens >= end
}

// appendRun adds the next n tokens of s to the batch.
func (d *driver) appendRun(b *backend.Batch, s *sequence, n int) {
	size := d.spec.BlockTokens
	for pos := s.computed; pos < s.computed+n; pos++ {
		token := ^int32(s.row)
		if pos < len(s.tokens) {
			token = s.tokens[pos]
		}
		b.Tokens = append(b.Tokens, token)
		b.Pos = append(b.Pos, int32(pos))
		b.Slots = append(b.Slots, s.table[pos/size]*int32(size)+int32(pos%size))
	}
	if d.spec.StateSlots > 0 {
		b.StateIn = append(b.StateIn, s.held)
		if s.held == 0 || d.g.IntN(3) == 0 { // else it goes on in its slot
			d.late = append(d.late, lateSlot{s.held, d.n})
			s.held, d.idle = d.idle[0], d.idle[1:]
		}
		b.StateOut = append(b.StateOut, s.held)
	}
	s.computed, s.last = s.computed+n, d.n
	b.QueryEnd = append(b.QueryEnd, int32(len(b.Tokens)))
	b.KVLen = append(b.KVLen, int32(s.computed))
	b.Tables = append(b.Tables, s.table...)
	b.TableEnd = append(b.TableEnd, int32(len(b.Tables)))
}

// draw hands over the draws of step n. Edits and masks are all zero until Ready is called.
func (d *driver) draw(n int) {
	ds := &d.draws[n%2]
	ds.Reset()
	for _, s := range d.rows[n%2] {
		s.state.Plan(ds, d.spec.MaskWords(), s.tokens[s.prompt:])
		ds.Rows[len(ds.Rows)-1].Dead = s.done
	}
	edits, masks := slices.Clone(ds.Edits), slices.Clone(ds.Masks)
	clear(ds.Edits)
	clear(ds.Masks)
	ds.Ready = func() {
		copy(ds.Edits, edits)
		copy(ds.Masks, masks)
	}
	d.must(d.be.Draw(ds))
}

// end takes the tokens of step n and frees the blocks that no step writes to any more.
func (d *driver) end(n int) {
	rows, ds := d.rows[n%2], &d.draws[n%2]
	top := 0
	for _, r := range ds.Rows {
		top += int(r.Top)
	}
	out := backend.Out{
		Tokens: make([]int32, len(rows)), Logprobs: make([]float32, len(rows)), Ranks: make([]int32, len(rows)),
		TopTokens: make([]int32, top), TopLogprobs: make([]float32, top),
	}
	d.must(d.be.End(&out))
	top = 0
	for r, s := range rows {
		k := int(ds.Rows[r].Top)
		if !s.done {
			s.accept(&out, r, out.TopTokens[top:top+k])
		}
		top += k
		if n == d.n && s.row >= 0 {
			s.row = -1
		}
	}
	for _, s := range d.seqs {
		if s.done && s.last <= n && s.table != nil {
			d.free = append(d.free, s.table...)
			s.table = nil
			d.late = append(d.late, lateSlot{s.held, s.last})
		}
	}
	d.late = slices.DeleteFunc(d.late, func(l lateSlot) bool {
		if l.step <= n && l.slot > 0 {
			d.idle = append(d.idle, l.slot)
		}
		return l.step <= n
	})
}

// accept takes the result of a row.
func (s *sequence) accept(out *backend.Out, row int, top []int32) {
	tok := out.Tokens[row]
	s.tokens = append(s.tokens, tok)
	s.state.Accept(tok)
	s.logprobs = append(s.logprobs, out.Logprobs[row])
	s.ranks = append(s.ranks, out.Ranks[row])
	s.top = append(s.top, top...)
	s.done = tok == stop || len(s.tokens)-s.prompt == s.max
}

func (d *driver) must(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

// run runs all sequences to their ends.
func (d *driver) run() {
	live := func() bool { return slices.ContainsFunc(d.seqs, func(s *sequence) bool { return !s.done }) }
	if d.spec.Depth == 1 {
		for ; live(); d.n++ {
			for !d.plan() {
			}
			d.must(d.be.Begin(&d.batch[d.n%2]))
			d.draw(d.n)
			d.end(d.n)
		}
		return
	}
	inFlight := false
	for live() || inFlight {
		begun := d.plan()
		if begun {
			d.must(d.be.Begin(&d.batch[d.n%2]))
		}
		if inFlight {
			d.end(d.n - 1)
		}
		if begun {
			d.draw(d.n)
			d.n++
		}
		inFlight = begun
	}
}

// newDriver opens a backend with room for a handful of sequences, and adds eight of them,
// which depend on the seed alone.
func newDriver(t *testing.T, seed uint64, depth, blockTokens int, schedule uint64, open func(backend.Spec) (backend.Backend, error)) *driver {
	t.Helper()
	spec := backend.Spec{VocabSize: 40, BlockTokens: blockTokens, NumBlocks: 1 + 8*((60+blockTokens-1)/blockTokens), MaxTokens: 24, MaxSeqs: 5, MaxSeqTokens: 80, Depth: depth}
	if schedule%2 == 1 {
		spec.StateSlots = 1 + 3*8
	}
	be, err := open(spec)
	if err != nil {
		t.Fatal(err)
	}
	d := &driver{t: t, be: be, spec: spec, g: rand.New(rand.NewPCG(schedule, 5))}
	for b := spec.NumBlocks - 1; b > 0; b-- {
		d.free = append(d.free, int32(b))
	}
	for s := 1; s < spec.StateSlots; s++ {
		d.idle = append(d.idle, int32(s))
	}
	g := rand.New(rand.NewPCG(seed, 1))
	for i := range 8 {
		p := sampler.DefaultParams()
		p.Seed = uint64(i)
		p.Temperature = []float32{0, 1, 0.6}[g.IntN(3)]
		p.TopP = []float32{1, 0.8}[g.IntN(2)]
		p.TopK = []int{0, 10}[g.IntN(2)]
		p.Repetition = []float32{1, 1.3}[g.IntN(2)]
		p.MinTokens, p.StopIDs = g.IntN(10), []int32{stop}
		p.BadWords = [][]int32{{1, 2}, {5}}
		if g.IntN(3) == 0 {
			p.Allowed = []int32{0, 1, 2, 3, 4, 5, 6, 7, 33, 39}
		}
		if g.IntN(2) == 0 {
			p.Logprobs, p.TopLogprobs = backend.RawLogprobs, g.IntN(4)
		}
		prompt := make([]int32, 1+g.IntN(30))
		for j := range prompt {
			prompt[j] = g.Int32N(40)
		}
		d.add(p, prompt, 1+g.IntN(25))
	}
	return d
}
