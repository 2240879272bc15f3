package cpu

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"weir/backend"
	"weir/model"
)

// madeUp are the numbers that tools/golden/recurrences.py computes with.
func madeUp(seed, n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		h := uint32(uint64(i+seed*100003) * 2654435761)
		h = (h ^ h>>15) * 2246822519
		x[i] = float32(h>>24)/64 - 2
	}
	return x
}

// slower is -1 - x/4, the rate at which a state decays.
func slower(x []float32) []float32 {
	for i, v := range x {
		x[i] = -1 - v/4
	}
	return x
}

// recurrence is an operation on states, with what a device needs to compute it.
type recurrence struct {
	name   string
	rows   [][]float32 // of each buffer, [recurrenceRows, width], the result last
	widths []int
	state  int
	load   func(t testing.TB, d *Device) func() // loads its weights, and returns the operation
	cells  []float64                            // of the state after all rows; nil: it is not compared
	cell   func(i int) int                      // where the device keeps cell i
}

const recurrenceRows = 9

// blockCell is where a state of [heads, keys, columns] has a cell.
func blockCell(keys, columns, head, key, column int) int {
	at := column / stateColumns * stateColumns
	return head*keys*columns + at*keys + key*min(stateColumns, columns-at) + column - at
}

func deltaCase(seed, keyHeads, heads, keys, values int, perChannel bool, lower float32) recurrence {
	width := 1
	if perChannel {
		width = keys
	}
	c := recurrence{state: heads * keys * values, widths: []int{keyHeads * keys, keyHeads * keys, heads * values, heads * width, heads, heads * values}}
	for i, w := range c.widths {
		c.rows = append(c.rows, madeUp(seed+i, recurrenceRows*w))
	}
	c.load = func(t testing.TB, d *Device) func() {
		x := model.Delta{State: 1, KeyHeads: keyHeads, ValueHeads: heads, KeyDim: keys, ValueDim: values, PerChannel: perChannel, Lower: lower, Scale: 0.25, L2Eps: 1e-6, BetaScale: 2,
			DtBias: loadNumbers(t, d, madeUp(seed+5, heads*width)), A: loadNumbers(t, d, slower(madeUp(seed+6, heads)))}
		return func() { d.Delta(whole(d, 5), whole(d, 0), whole(d, 1), whole(d, 2), whole(d, 3), whole(d, 4), &x) }
	}
	c.cell = func(i int) int { return blockCell(keys, values, i/(keys*values), i/values%keys, i%values) }
	return c
}

func scanCase(seed, heads, size, groups, states int) recurrence {
	c := recurrence{state: heads * size * states, widths: []int{heads * size, groups * states, groups * states, heads, heads * size}}
	for i, w := range c.widths {
		c.rows = append(c.rows, madeUp(seed+i, recurrenceRows*w))
	}
	c.load = func(t testing.TB, d *Device) func() {
		x := model.Scan{State: 1, Heads: heads, HeadDim: size, Groups: groups, StateDim: states, DtMin: 0.125, DtMax: 1.5,
			DtBias: loadNumbers(t, d, madeUp(seed+4, heads)), A: loadNumbers(t, d, slower(madeUp(seed+5, heads))), D: loadNumbers(t, d, madeUp(seed+6, heads))}
		return func() { d.Scan(whole(d, 4), whole(d, 0), whole(d, 1), whole(d, 2), whole(d, 3), &x) }
	}
	c.cell = func(i int) int { return blockCell(states, size, i/(size*states), i%states, i/states%size) }
	return c
}

// selectiveCase has more columns than a part, and a last part with fewer.
func selectiveCase(seed, columns, states int) recurrence {
	c := recurrence{state: columns * states, widths: []int{columns, states, states, columns, columns}}
	for i, w := range c.widths {
		c.rows = append(c.rows, madeUp(seed+i, recurrenceRows*w))
	}
	c.load = func(t testing.TB, d *Device) func() {
		x := model.Scan{State: 1, Heads: columns, HeadDim: 1, Groups: 1, StateDim: states, DtMin: 0.125, DtMax: 1.5, PerState: true,
			DtBias: loadNumbers(t, d, madeUp(seed+4, columns)), A: loadNumbers(t, d, slower(madeUp(seed+5, columns*states))), D: loadNumbers(t, d, madeUp(seed+6, columns))}
		return func() { d.Scan(whole(d, 4), whole(d, 0), whole(d, 1), whole(d, 2), whole(d, 3), &x) }
	}
	c.cell = func(i int) int { return i }
	return c
}

// convCase writes its result over its input.
func convCase(seed, columns, width int) recurrence {
	c := recurrence{state: columns * (width - 1), widths: []int{columns}, rows: [][]float32{madeUp(seed, recurrenceRows*columns)}}
	c.load = func(t testing.TB, d *Device) func() {
		x := model.Conv{State: 1, Width: width, Act: model.Activation{Kind: model.SiLU}, W: loadNumbers(t, d, madeUp(seed+1, columns*width)), B: loadNumbers(t, d, madeUp(seed+2, columns))}
		return func() { d.Conv(whole(d, 0), whole(d, 0), &x) }
	}
	return c
}

// recurrences are the cases of tools/golden/recurrences.py, with its results in double precision.
func recurrences(t *testing.T) (list []recurrence, want [][]float64) {
	text, err := os.ReadFile("testdata/recurrences.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]recurrence{"delta": deltaCase(1, 1, 2, 16, 24, false, 0), "deltaPerChannel": deltaCase(11, 2, 2, 10, 40, true, 0),
		"deltaBounded": deltaCase(41, 1, 1, 8, 20, true, -5), "scan": scanCase(21, 4, 20, 2, 6), "selective": selectiveCase(71, 70, 5), "conv": convCase(31, 136, 4)}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		c := cases[fields[0]]
		c.name = fields[0]
		var numbers []float64
		for _, f := range fields[1:] {
			v, err := strconv.ParseFloat(f, 64)
			if err != nil {
				t.Fatal(err)
			}
			numbers = append(numbers, v)
		}
		n := recurrenceRows * c.widths[len(c.widths)-1]
		c.cells = numbers[n:]
		list, want = append(list, c), append(want, numbers[:n])
	}
	if len(list) != len(cases) {
		t.Fatalf("%d cases, not %d", len(list), len(cases))
	}
	return list, want
}

// open is a device for the recurrence, with as many slots as wanted.
func (c *recurrence) open(t testing.TB, cfg Config, slots int) (*Device, func()) {
	s := model.Shape{KV: model.UniformKV(1, 1, 1, 16), States: []int{5, c.state}, Spec: backend.Spec{VocabSize: 16, BlockTokens: 16,
		NumBlocks: 2, MaxTokens: 4 * recurrenceRows, MaxSeqs: 4, MaxSeqTokens: recurrenceRows, Depth: 1, StateSlots: slots}}
	for _, w := range c.widths {
		s.Acts = append(s.Acts, model.ActShape{Width: w})
	}
	d := openPlanned(t, cfg, s)
	return d, c.load(t, d)
}

// a stateRun is a part of a batch: rows [first, last) of the case, from a slot to a slot.
type stateRun struct{ first, last, in, out int }

// step computes runs in one batch and returns the results of each.
func (c *recurrence) step(d *Device, op func(), runs ...stateRun) (results [][]float32) {
	b := &backend.Batch{}
	for _, r := range runs {
		for row := r.first; row < r.last; row++ {
			for i := range c.rows {
				copy(d.view(whole(d, i)).row(len(b.Tokens)), c.rows[i][row*c.widths[i]:][:c.widths[i]])
			}
			b.Tokens = append(b.Tokens, 0)
		}
		b.QueryEnd, b.StateIn, b.StateOut = append(b.QueryEnd, int32(len(b.Tokens))), append(b.StateIn, int32(r.in)), append(b.StateOut, int32(r.out))
	}
	d.batch = b
	op()
	at, y := 0, d.view(whole(d, len(c.widths)-1))
	for _, r := range runs {
		var rows []float32
		for range r.last - r.first {
			rows = append(rows, y.row(at)...)
			at++
		}
		results = append(results, rows)
	}
	return results
}

// stateOf is the case's state in a slot.
func (c *recurrence) stateOf(d *Device, slot int) []float32 {
	return slices.Clone(d.states.of(int32(slot), 1)[:c.state])
}

// TestRecurrences: results and states against double precision, for every tier.
func TestRecurrences(t *testing.T) {
	list, want := recurrences(t)
	eachImpl(t, func(t *testing.T, im *impl) {
		for i, c := range list {
			c.state += 3 // what follows must stay as it is
			d, op := c.open(t, Config{Threads: 2, KVType: BF16, Impl: im.name}, 3)
			c.state -= 3
			got := c.step(d, op, stateRun{0, recurrenceRows, 0, 2})[0]
			for k, v := range got {
				near(t, v, want[i][k], 1+math.Abs(want[i][k]), 2e-6, "%s: number %d of row %d", c.name, k%c.widths[len(c.widths)-1], k/c.widths[len(c.widths)-1])
			}
			state := c.stateOf(d, 2)
			for k, v := range c.cells {
				near(t, state[c.cell(k)], v, 1+math.Abs(v), 2e-6, "%s: cell %d of the state", c.name, k)
			}
			if after := d.states.of(2, 1)[c.state:][:3]; !slices.Equal(after, []float32{0, 0, 0}) {
				t.Errorf("%s writes behind its state: %v", c.name, after)
			}
		}
	})
}

// TestStatesDoNotDependOnCuts: however a sequence is cut, whatever slots its state goes through, beside
// which others, on how many threads and with which instructions it is computed, its results and its
// state have the same bits. A slot that a run goes on from, and does not end in, stays as it is.
func TestStatesDoNotDependOnCuts(t *testing.T) {
	list, _ := recurrences(t)
	list = append(list, deltaCase(41, 1, 1, 32, 160, false, 0), scanCase(51, 1, 136, 1, 8), convCase(61, 288, 7))
	for i, c := range list {
		t.Run(fmt.Sprint(c.name, i), func(t *testing.T) {
			d, op := c.open(t, Config{Threads: 1, KVType: BF16, Impl: "generic"}, 6)
			want := c.step(d, op, stateRun{0, recurrenceRows, 0, 1})[0]
			last := c.stateOf(d, 1)
			for _, im := range impls {
				for _, threads := range []int{1, 2, 5} {
					d, op := c.open(t, Config{Threads: threads, KVType: BF16, Impl: im.name}, 6)
					c.checkCuts(t, d, op, want, last)
				}
			}
		})
	}
}

func (c *recurrence) checkCuts(t *testing.T, d *Device, op func(), want, last []float32) {
	t.Helper()
	width := c.widths[len(c.widths)-1]
	same := func(r stateRun, got []float32) {
		t.Helper()
		if !slices.Equal(bitsOf(got), bitsOf(want[r.first*width:r.last*width])) {
			t.Fatalf("%s, %d threads: rows [%d, %d) from slot %d to %d differ", d.impl.name, d.team.threads, r.first, r.last, r.in, r.out)
		}
	}
	for cut := 1; cut < recurrenceRows; cut++ {
		// The first rows go to slot 2; from there one run goes on in slot 3, and two others, one of
		// which is a single row, in slots of their own.
		first := stateRun{0, cut, 0, 2}
		same(first, c.step(d, op, first)[0])
		kept := c.stateOf(d, 2)
		runs := []stateRun{{cut, recurrenceRows, 2, 3}, {0, recurrenceRows, 0, 4}, {cut, cut + 1, 2, 5}}
		for i, got := range c.step(d, op, runs...) {
			same(runs[i], got)
		}
		if !slices.Equal(bitsOf(c.stateOf(d, 2)), bitsOf(kept)) {
			t.Fatalf("%s: a run to another slot changed the one it goes on from", d.impl.name)
		}
		for _, slot := range []int{3, 4} {
			if !slices.Equal(bitsOf(c.stateOf(d, slot)), bitsOf(last)) {
				t.Fatalf("%s, %d threads: the state in slot %d differs after a cut at %d", d.impl.name, d.team.threads, slot, cut)
			}
		}
		// The same in place.
		same(stateRun{cut, recurrenceRows, 2, 2}, c.step(d, op, stateRun{cut, recurrenceRows, 2, 2})[0])
		if !slices.Equal(bitsOf(c.stateOf(d, 2)), bitsOf(last)) {
			t.Fatalf("%s: the state that went on in place differs", d.impl.name)
		}
	}
	if zero := c.stateOf(d, 0); slices.ContainsFunc(zero, func(v float32) bool { return v != 0 }) {
		t.Fatal("slot 0 is not zero any more")
	}
}

// TestStatesAllocateNothing: recurrences, convolutions and activations take no memory after the first
// step, which turns the weights of a convolution.
func TestStatesAllocateNothing(t *testing.T) {
	for _, c := range []recurrence{deltaCase(1, 1, 2, 16, 24, false, 0), deltaCase(11, 2, 2, 10, 40, true, 0), scanCase(21, 4, 20, 2, 6), selectiveCase(71, 70, 5), convCase(31, 136, 4)} {
		d, op := c.open(t, Config{Threads: 2, KVType: BF16}, 3)
		c.step(d, op, stateRun{0, recurrenceRows, 0, 1})
		if n := testing.AllocsPerRun(10, op); n != 0 {
			t.Errorf("%d columns: %v allocations", c.widths[len(c.widths)-1], n)
		}
	}
	d := stateDevice(t, Config{Threads: 2, KVType: BF16}, 1, 4, 1, 40, 40, 40, 5)
	for _, c := range activationCases {
		if n := testing.AllocsPerRun(10, func() {
			d.Activate(whole(d, 0), whole(d, 1), c.act)
			d.Gate(whole(d, 0), whole(d, 1), whole(d, 2), c.act)
			d.Gate(whole(d, 0), whole(d, 1), whole(d, 3), c.act)
			d.Norm(whole(d, 0), whole(d, 1), model.Norm{W: model.NoWeight, B: model.NoWeight, Gate: whole(d, 2), GateBy: c.act})
		}); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

// TestClip: numbers beyond the bounds are cut off at them, also in place, and others stay as they are.
func TestClip(t *testing.T) {
	d := stateDevice(t, Config{Threads: 1, KVType: BF16}, 1, 2, 1, 5, 5)
	nan := float32(math.NaN())
	for _, to := range []int{1, 0} {
		x := d.view(whole(d, 0))
		copy(x.row(0), []float32{-3, -1.5, 0.25, 1.5, 2})
		copy(x.row(1), []float32{float32(math.Inf(1)), nan, float32(math.Inf(-1)), -1.25, 1.75})
		d.Activate(whole(d, to), whole(d, 0), model.Activation{Kind: model.Clip, Limit: 1.5})
		for r, want := range [][]float32{{-1.5, -1.5, 0.25, 1.5, 1.5}, {1.5, nan, -1.5, -1.25, 1.5}} {
			for i, got := range d.view(whole(d, to)).row(r) {
				if got != want[i] && !(got != got && want[i] != want[i]) {
					t.Errorf("row %d, column %d: %v instead of %v", r, i, got, want[i])
				}
			}
		}
	}
}

// TestGateOfHeads: a number of the gate for several columns is the same as a gate of all columns, bit for bit.
func TestGateOfHeads(t *testing.T) {
	eachImpl(t, func(t *testing.T, im *impl) {
		const heads, each = 5, 24
		d := stateDevice(t, Config{Threads: 2, KVType: BF16, Impl: im.name}, 1, 3, 1, heads*each, heads, heads*each, heads*each, heads*each)
		narrow, wide := d.view(whole(d, 1)), d.view(whole(d, 2))
		for r := range 3 {
			for i := range wide.row(r) {
				wide.row(r)[i] = narrow.row(r)[i/each]
			}
		}
		for _, c := range activationCases {
			d.Gate(whole(d, 3), whole(d, 0), whole(d, 1), c.act)
			d.Gate(whole(d, 4), whole(d, 0), whole(d, 2), c.act)
			for r := range 3 {
				got, want := d.view(whole(d, 3)).row(r), d.view(whole(d, 4)).row(r)
				if !slices.Equal(bitsOf(got), bitsOf(want)) {
					t.Errorf("%s: row %d differs", c.name, r)
				}
			}
		}
	})
}
