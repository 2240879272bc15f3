package sim

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"weir/backend"
)

var small = backend.Spec{VocabSize: 40, BlockTokens: 4, NumBlocks: 10, MaxTokens: 16, MaxSeqs: 3, MaxSeqTokens: 16, Depth: 1}

// first is a good first batch: sequence A with six tokens in blocks 3 and 5,
// B with three in block 7. second continues both by one token.
func first() *backend.Batch {
	return &backend.Batch{
		Tokens:   []int32{10, 11, 12, 13, 14, 15, 20, 21, 22},
		Pos:      []int32{0, 1, 2, 3, 4, 5, 0, 1, 2},
		Slots:    []int32{12, 13, 14, 15, 20, 21, 28, 29, 30},
		QueryEnd: []int32{6, 9},
		KVLen:    []int32{6, 3},
		TableEnd: []int32{2, 3},
		Tables:   []int32{3, 5, 7},
		At:       []int32{5, 8},
	}
}

func second() *backend.Batch {
	return &backend.Batch{
		Tokens: []int32{^0, ^1}, Pos: []int32{6, 3}, Slots: []int32{22, 31}, QueryEnd: []int32{1, 2},
		KVLen: []int32{7, 4}, TableEnd: []int32{2, 3}, Tables: []int32{3, 5, 7}, At: []int32{0, 1},
	}
}

func draws() *backend.Draws {
	row := backend.Draw{TopP: 1, Mask: -1, Allow: -1, Target: -1}
	return &backend.Draws{Rows: []backend.Draw{row, row}}
}

func outFor(rows int) *backend.Out {
	return &backend.Out{Tokens: make([]int32, rows), Logprobs: make([]float32, rows), Ranks: make([]int32, rows)}
}

// runStep runs one step at depth 1 and returns its tokens.
func runStep(be backend.Backend, b *backend.Batch, d *backend.Draws, out *backend.Out) ([]int32, error) {
	if err := be.Begin(b); err != nil {
		return nil, err
	}
	if err := be.Draw(d); err != nil {
		return nil, err
	}
	err := be.End(out)
	return out.Tokens, err
}

func newOracle(t *testing.T, s backend.Spec, cfg OracleConfig) *Oracle {
	t.Helper()
	o, err := NewOracle(s, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return o
}

func wantBroken(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, backend.ErrContract) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("error %q, want %q", err, text)
	}
}

// TestOracleRefusesBrokenBatches: the oracle refuses batches that break the contract, those
// among them that only it can notice. Afterwards it is only good for Close.
func TestOracleRefusesBrokenBatches(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(b *backend.Batch)
		text string
	}{
		{"empty", func(b *backend.Batch) { b.Reset() }, "the batch has no tokens"},
		{"row of no step", func(b *backend.Batch) { b.Tokens[4] = ^0 }, "previous step has 0 rows"},
		{"block twice", func(b *backend.Batch) { b.Tables[1] = 3; b.Slots[4], b.Slots[5] = 12, 13 }, "block 3 is twice in one table"},
		{"two sequences, one block", func(b *backend.Batch) { b.Tables[2] = 3; b.Slots[6], b.Slots[7], b.Slots[8] = 12, 13, 14 }, "written twice"},
		{"history missing", func(b *backend.Batch) {
			b.Pos[6], b.Pos[7], b.Pos[8], b.KVLen[1] = 1, 2, 3, 4
			b.Slots[6], b.Slots[7], b.Slots[8] = 29, 30, 31
		}, "slot of position 0 in block 7 holds position -1"},
	} {
		for _, reading := range []Reading{Eager, Lazy} {
			o := newOracle(t, small, OracleConfig{Reading: reading})
			b := first()
			c.edit(b)
			_, err := runStep(o, b, draws(), outFor(2))
			t.Run(c.name, func(t *testing.T) { wantBroken(t, err, c.text) })
			if _, again := runStep(o, first(), draws(), outFor(2)); again == nil {
				t.Errorf("%s: the next step succeeds", c.name)
			}
		}
	}
}

func TestOracleRefusesBrokenHistory(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(b *backend.Batch)
		text string
	}{
		{"position skipped", func(b *backend.Batch) { b.Pos[0], b.KVLen[0], b.Slots[0] = 7, 8, 23 }, "slot of position 6 in block 5 holds position -1"},
		{"another's block", func(b *backend.Batch) { b.Tables[1] = 7; b.Tables[2] = 5; b.Slots[0], b.Slots[1] = 30, 23 }, "holds position"},
		{"fresh block", func(b *backend.Batch) { b.Tables[0] = 8 }, "slot of position 0 in block 8 holds position -1"},
		{"no such row", func(b *backend.Batch) { b.Tokens[1] = ^2 }, "previous step has 2 rows"},
	} {
		for _, reading := range []Reading{Eager, Lazy} {
			o := newOracle(t, small, OracleConfig{Reading: reading})
			if _, err := runStep(o, first(), draws(), outFor(2)); err != nil {
				t.Fatal(err)
			}
			b := second()
			c.edit(b)
			_, err := runStep(o, b, draws(), outFor(2))
			t.Run(c.name, func(t *testing.T) { wantBroken(t, err, c.text) })
		}
	}
}

// TestOracleRefusesBrokenStates: a run has to go on from the state after its own history, and no slot may
// be given away while a step in flight uses it.
func TestOracleRefusesBrokenStates(t *testing.T) {
	for _, c := range []struct {
		name    string
		in, out []int32 // of the second step; the first one leaves states in slots 1 and 2
		again   []int32 // StateOut of a third step that goes on from out, in flight with the second; nil: none
		text    string
	}{
		{"in place", []int32{1, 2}, []int32{1, 2}, []int32{1, 2}, ""},
		{"into other slots", []int32{1, 2}, []int32{3, 4}, []int32{5, 6}, ""},
		{"another sequence's state", []int32{2, 1}, []int32{3, 4}, nil, "sequence 0: state slot 2 does not hold the state after its first 6"},
		{"state of nobody", []int32{1, 5}, []int32{1, 6}, nil, "sequence 1: state slot 5 does not hold"},
		{"written slot taken", []int32{1, 2}, []int32{3, 2}, []int32{2, 4}, "one reads the state slot that the other writes to"},
		{"read slot taken", []int32{1, 2}, []int32{3, 4}, []int32{5, 1}, "sequence 1: state slot 1 was given away"},
		{"old state", []int32{1, 2}, []int32{3, 4}, []int32{-1, 6}, "sequence 0: state slot 1 does not hold"},
	} {
		for _, reading := range []Reading{Eager, Lazy} {
			spec := small
			spec.Depth, spec.StateSlots = 2, 7
			o := newOracle(t, spec, OracleConfig{Reading: reading})
			one, two := first(), second()
			one.StateIn, one.StateOut = []int32{0, 0}, []int32{1, 2}
			two.StateIn, two.StateOut = c.in, c.out
			three := &backend.Batch{
				Tokens: []int32{^0, ^1}, Pos: []int32{7, 4}, Slots: []int32{23, 36}, QueryEnd: []int32{1, 2},
				KVLen: []int32{8, 5}, TableEnd: []int32{2, 4}, Tables: []int32{3, 5, 7, 9}, At: []int32{0, 1}, StateIn: slices.Clone(c.out), StateOut: slices.Clone(c.again),
			}
			if c.again != nil && c.again[0] < 0 {
				three.StateIn[0], three.StateOut[0] = 1, 5
			}
			_, err := runStep(o, one, draws(), outFor(2))
			calls := []func() error{func() error { return o.Begin(two) }, func() error { return o.Draw(draws()) }}
			if c.again != nil {
				calls = append(calls, func() error { return o.Begin(three) })
			}
			calls = append(calls, func() error { return o.End(outFor(2)) })
			if c.again != nil {
				calls = append(calls, func() error { return o.Draw(draws()) }, func() error { return o.End(outFor(2)) })
			}
			for _, f := range calls {
				if err == nil {
					err = f()
				}
			}
			if c.text != "" {
				t.Run(c.name, func(t *testing.T) { wantBroken(t, err, c.text) })
			} else if err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
	}
}

// TestOracleRefusesBrokenDraws is the same for draws.
func TestOracleRefusesBrokenDraws(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(d *backend.Draws)
		text string
	}{
		{"row missing", func(d *backend.Draws) { d.Rows = d.Rows[:1] }, "the batch has 2 rows, but 1 are drawn"},
		{"edit of no token", func(d *backend.Draws) {
			d.Edits = []backend.Edit{{Token: 40, Repeat: 1}}
			d.Rows[0].EditEnd, d.Rows[1].EditEnd = 1, 1
		}, "edits token 40"},
		{"two edits of a token", func(d *backend.Draws) {
			d.Edits = []backend.Edit{{Token: 7, Repeat: 1}, {Token: 8, Repeat: 1}, {Token: 7, Repeat: 1}}
			d.Rows[1].EditEnd = 3
		}, "two edits of token 7"},
	} {
		for _, reading := range []Reading{Eager, Lazy} {
			d := draws()
			c.edit(d)
			if reading == Lazy {
				d.Ready = func() {}
			}
			_, err := runStep(newOracle(t, small, OracleConfig{Reading: reading}), first(), d, outFor(2))
			t.Run(c.name, func(t *testing.T) { wantBroken(t, err, c.text) })
		}
	}
	// The same token in two rows is no breach, and a dead row is not looked at.
	d := draws()
	d.Edits = []backend.Edit{{Token: 7, Repeat: 1}, {Token: 7, Repeat: 1}}
	d.Rows[0].EditEnd, d.Rows[1] = 1, backend.Draw{EditEnd: 2, Dead: true, Target: 99}
	if _, err := runStep(newOracle(t, small, OracleConfig{}), first(), d, outFor(2)); err != nil {
		t.Error(err)
	}
}

// TestRefusesWrongOut: both backends compare the result's sizes with what the draws ask for.
func TestRefusesWrongOut(t *testing.T) {
	for _, be := range []backend.Backend{newOracle(t, small, OracleConfig{}), newPaced(t, small, Instant())} {
		_, err := runStep(be, first(), draws(), outFor(1))
		wantBroken(t, err, "room for 1 tokens")
	}
}

// TestRefusesSpec: neither backend can be opened with a spec that breaks the contract.
func TestRefusesSpec(t *testing.T) {
	s := small
	s.Depth = 3
	_, err := NewOracle(s, OracleConfig{})
	wantBroken(t, err, "Depth is 3")
	_, err = NewPaced(s, Instant())
	wantBroken(t, err, "Depth is 3")
}

func BenchmarkOracleStep(b *testing.B) {
	// 32 sequences decode at about 200 tokens each.
	const seqs, size = 32, 16
	spec := backend.Spec{VocabSize: 64, BlockTokens: size, NumBlocks: 1 + seqs*20, MaxTokens: 32 * 200, MaxSeqs: seqs, MaxSeqTokens: 320, Depth: 1}
	o, err := NewOracle(spec, OracleConfig{})
	if err != nil {
		b.Fatal(err)
	}
	var batch backend.Batch
	build := func(from, to int32) {
		batch.Reset()
		for s := range int32(seqs) {
			for pos := from; pos < to; pos++ {
				batch.Tokens = append(batch.Tokens, pos%64)
				batch.Pos = append(batch.Pos, pos)
				batch.Slots = append(batch.Slots, (1+s*20+pos/size)*size+pos%size)
			}
			for j := range int32(20) {
				batch.Tables = append(batch.Tables, 1+s*20+j)
			}
			batch.QueryEnd = append(batch.QueryEnd, int32(len(batch.Tokens)))
			batch.TableEnd = append(batch.TableEnd, int32(len(batch.Tables)))
			batch.KVLen = append(batch.KVLen, to)
			batch.At = append(batch.At, int32(len(batch.Tokens)-1))
		}
	}
	var d backend.Draws
	for range seqs {
		d.Rows = append(d.Rows, backend.Draw{Temperature: 1, TopP: 0.9, Mask: -1, Allow: -1, Target: -1})
	}
	out := outFor(seqs)
	build(0, 200)
	if _, err := runStep(o, &batch, &d, out); err != nil {
		b.Fatal(err)
	}
	pos := int32(200)
	for b.Loop() {
		build(pos, pos+1)
		if _, err := runStep(o, &batch, &d, out); err != nil {
			b.Fatal(err)
		}
		if pos++; pos == 320 {
			pos = 200
		}
	}
}
