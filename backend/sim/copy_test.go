package sim

import (
	"testing"

	"weir/backend"
)

// TestOracleCopies: what is copied from one oracle to another is the history there, and a copy at a time at which a step uses the
// block, or of a block that was never written, is refused.
func TestOracleCopies(t *testing.T) {
	for _, reading := range []Reading{Eager, Lazy} {
		spec := small
		spec.StateSlots = 4
		states := func(b *backend.Batch, in, out []int32) *backend.Batch { b.StateIn, b.StateOut = in, out; return b }
		one := newOracle(t, spec, OracleConfig{Reading: reading})
		if _, err := runStep(one, states(first(), []int32{0, 0}, []int32{1, 2}), draws(), outFor(2)); err != nil {
			t.Fatal(err)
		}
		size, slot, ok := one.CopySizes()
		if !ok {
			t.Fatal("an oracle cannot copy")
		}
		copied, state := make([]byte, size), make([]byte, slot)
		if err := one.CopyOut(copied, false, 3); err != nil {
			t.Fatal(err)
		}
		// After 4 tokens of another sequence with the same ones there is the state that goes with the block.
		b := &backend.Batch{Tokens: []int32{10, 11, 12, 13}, Pos: []int32{0, 1, 2, 3}, Slots: []int32{36, 37, 38, 39}, QueryEnd: []int32{4}, KVLen: []int32{4},
			TableEnd: []int32{1}, Tables: []int32{9}, StateIn: []int32{0}, StateOut: []int32{3}}
		if _, err := runStep(one, b, &backend.Draws{}, outFor(0)); err != nil {
			t.Fatal(err)
		}
		if err := one.CopyOut(state, true, 3); err != nil {
			t.Fatal(err)
		}
		two := newOracle(t, spec, OracleConfig{Reading: reading})
		for err := range map[error]bool{two.CopyIn(copied, false, 8): true, two.CopyIn(state, true, 2): true} {
			if err != nil {
				t.Fatal(err)
			}
		}
		next := func(block, in int32) *backend.Batch {
			return &backend.Batch{Tokens: []int32{14, 15}, Pos: []int32{4, 5}, Slots: []int32{8, 9}, QueryEnd: []int32{2}, KVLen: []int32{6},
				TableEnd: []int32{2}, Tables: []int32{block, 2}, StateIn: []int32{in}, StateOut: []int32{1}, At: []int32{1}}
		}
		row := func() *backend.Draws { d := draws(); d.Rows = d.Rows[:1]; return d }
		got, err := runStep(two, next(8, 2), row(), outFor(1))
		if err != nil {
			t.Fatal(err)
		}
		three := newOracle(t, spec, OracleConfig{Reading: reading})
		whole := first()
		whole.Tokens[6], whole.Tokens[7] = 7, 8
		want, err := runStep(three, states(whole, []int32{0, 0}, []int32{1, 2}), draws(), outFor(2))
		if err != nil || got[0] != want[0] {
			t.Errorf("token %d after a copy, and %d without: %v", got[0], want[0], err)
		}
	}
}

// TestOracleRefusesCopies: see TestOracleCopies.
func TestOracleRefusesCopies(t *testing.T) {
	size, _, _ := newOracle(t, small, OracleConfig{}).CopySizes()
	for _, c := range []struct {
		name string
		copy func(o *Oracle) error
		text string
	}{
		{"null block", func(o *Oracle) error { return o.CopyOut(make([]byte, size), false, 0) }, "number 0 of 10"},
		{"no state slots", func(o *Oracle) error { return o.CopyOut(nil, true, 1) }, "number 1 of 0"},
		{"another size", func(o *Oracle) error { return o.CopyIn(make([]byte, size-1), false, 1) }, "bytes are copied"},
		{"never written", func(o *Oracle) error { return o.CopyOut(make([]byte, size), false, 9) }, "before slot 0 of it was written"},
		{"still written", func(o *Oracle) error { return o.CopyOut(make([]byte, size), false, 7) }, "copied while a step that writes it"},
		{"still read", func(o *Oracle) error { return o.CopyIn(make([]byte, size), false, 3) }, "overwritten while a step that uses it"},
	} {
		o := newOracle(t, small, OracleConfig{})
		if _, err := runStep(o, first(), draws(), outFor(2)); err != nil {
			t.Fatal(err)
		}
		if err := o.CopyOut(make([]byte, size), false, 3); err != nil {
			t.Fatal(err)
		}
		if err := o.Begin(second()); err != nil {
			t.Fatal(err)
		}
		t.Run(c.name, func(t *testing.T) { wantBroken(t, c.copy(o), c.text) })
		if o.Draw(draws()) == nil {
			t.Errorf("%s: the next call succeeds", c.name)
		}
	}
}
