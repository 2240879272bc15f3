package sim

import (
	"errors"
	"fmt"
	"math"
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
	if !errors.Is(err, ErrContract) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("error %q, want %q", err, text)
	}
}

func TestOracleRefusesBrokenBatches(t *testing.T) {
	for _, c := range []struct {
		name string
		edit func(b *backend.Batch)
		text string
	}{
		{"empty", func(b *backend.Batch) { b.Reset() }, "empty batch"},
		{"too many tokens", func(b *backend.Batch) { b.Tokens = make([]int32, 17) }, "17 tokens in a batch"},
		{"too many sequences", func(b *backend.Batch) { b.QueryEnd = []int32{1, 2, 3, 9} }, "4 sequences"},
		{"positions missing", func(b *backend.Batch) { b.Pos = b.Pos[:8] }, "8 positions"},
		{"slots missing", func(b *backend.Batch) { b.Slots = b.Slots[:8] }, "8 slots"},
		{"KV length missing", func(b *backend.Batch) { b.KVLen = b.KVLen[:1] }, "1 KV lengths"},
		{"no sequences", func(b *backend.Batch) { b.QueryEnd, b.KVLen, b.TableEnd = nil, nil, nil }, "runs end"},
		{"token without a run", func(b *backend.Batch) { b.QueryEnd[1] = 8 }, "runs end"},
		{"empty run", func(b *backend.Batch) { b.QueryEnd[0] = 0 }, "run 0 is [0, 0)"},
		{"run beyond the tokens", func(b *backend.Batch) { b.QueryEnd[0] = 12 }, "run 0 is [0, 12)"},
		{"position skipped", func(b *backend.Batch) { b.Pos[3] = 4 }, "position 4 where 3 is due"},
		{"negative position", func(b *backend.Batch) { b.Pos[6] = -1 }, "positions [-1, 2)"},
		{"sequence too long", func(b *backend.Batch) { b.Pos[6] = 14 }, "positions [14, 17)"},
		{"huge position", func(b *backend.Batch) { b.Pos[6], b.KVLen[1] = math.MaxInt32-2, math.MinInt32 }, "at most 16"},
		{"KV length", func(b *backend.Batch) { b.KVLen[0] = 7 }, "its KV length is 7"},
		{"tables cut short", func(b *backend.Batch) { b.Tables = b.Tables[:2] }, "tables end at 3"},
		{"tables descend", func(b *backend.Batch) { b.TableEnd[0] = 4 }, "table 0 is [0, 4)"},
		{"table too short", func(b *backend.Batch) { b.TableEnd[0] = 1 }, "a table of 1 blocks for 6 tokens"},
		{"null block", func(b *backend.Batch) { b.Tables[2] = 0; b.Slots[6], b.Slots[7], b.Slots[8] = 0, 1, 2 }, "null block"},
		{"no such block", func(b *backend.Batch) { b.Tables[2] = 10 }, "block 10 of 10"},
		{"negative block", func(b *backend.Batch) { b.Tables[2] = -1 }, "block -1"},
		{"block twice", func(b *backend.Batch) { b.Tables[1] = 3 }, "block 3 twice"},
		{"slots swapped", func(b *backend.Batch) { b.Slots[0], b.Slots[1] = b.Slots[1], b.Slots[0] }, "position 0 goes to slot 13"},
		{"slot in the null block", func(b *backend.Batch) { b.Slots[8] = 2 }, "position 2 goes to slot 2"},
		{"two sequences, one block", func(b *backend.Batch) { b.Tables[2] = 3; b.Slots[6], b.Slots[7], b.Slots[8] = 12, 13, 14 }, "written twice"},
		{"no such token", func(b *backend.Batch) { b.Tokens[4] = 40 }, "token 40 of 40"},
		{"row of no step", func(b *backend.Batch) { b.Tokens[4] = ^0 }, "no such row"},
		{"rows descend", func(b *backend.Batch) { b.At = []int32{8, 5} }, "row 1 draws at token 5"},
		{"row twice", func(b *backend.Batch) { b.At = []int32{5, 5} }, "row 1 draws at token 5"},
		{"row beyond", func(b *backend.Batch) { b.At[1] = 9 }, "row 1 draws at token 9"},
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
		{"no such row", func(b *backend.Batch) { b.Tokens[1] = ^2 }, "no such row"},
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

func TestOracleRefusesBrokenDraws(t *testing.T) {
	nan := float32(math.NaN())
	edit := func(e backend.Edit) func(*backend.Draws) {
		return func(d *backend.Draws) {
			d.Edits = []backend.Edit{e}
			d.Rows[0].EditEnd, d.Rows[1].EditEnd = 1, 1
		}
	}
	for _, c := range []struct {
		name string
		edit func(d *backend.Draws)
		text string
	}{
		{"row missing", func(d *backend.Draws) { d.Rows = d.Rows[:1] }, "1 draws for 2 rows"},
		{"half a mask", func(d *backend.Draws) { d.Masks = make([]uint32, 3) }, "3 mask words"},
		{"no such mask", func(d *backend.Draws) { d.Rows[0].Mask = 0 }, "masks 0 and -1 of 0"},
		{"no such allow mask", func(d *backend.Draws) { d.Rows[1].Allow = 1; d.Masks = make([]uint32, 2) }, "masks -1 and 1 of 1"},
		{"edits descend", func(d *backend.Draws) { d.Rows[0].EditEnd = 1; d.Edits = make([]backend.Edit, 1) }, "row 1 has edits [1, 0)"},
		{"edits beyond", func(d *backend.Draws) { d.Rows[1].EditEnd = 1 }, "edits [0, 1) of 0"},
		{"edit of no row", func(d *backend.Draws) { d.Edits = make([]backend.Edit, 1) }, "rows have 0 edits of 1"},
		{"edit of no token", edit(backend.Edit{Token: 40, Repeat: 1}), "edit of token 40"},
		{"repeat 0", edit(backend.Edit{Token: 1}), "edit {"},
		{"bias NaN", edit(backend.Edit{Token: 1, Repeat: 1, Bias: nan}), "edit {"},
		{"minus infinite", edit(backend.Edit{Token: 1, Repeat: 1, Minus: backend.Forbid}), "edit {"},
		{"two edits of a token", func(d *backend.Draws) {
			d.Edits = []backend.Edit{{Token: 7, Repeat: 1}, {Token: 8, Repeat: 1}, {Token: 7, Repeat: 1}}
			d.Rows[1].EditEnd = 3
		}, "two edits of token 7"},
		{"target", func(d *backend.Draws) { d.Rows[0].Target = 40 }, "target 40"},
		{"top", func(d *backend.Draws) { d.Rows[0].Top = 41 }, "41 top tokens"},
		{"mode", func(d *backend.Draws) { d.Rows[0].Logprobs = 3 }, "mode 3"},
		{"temperature", func(d *backend.Draws) { d.Rows[0].Temperature = -1 }, "temperature -1"},
		{"top_p", func(d *backend.Draws) { d.Rows[0].Temperature, d.Rows[0].TopP = 1, 0 }, "top_p 0"},
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

func TestOracleRefusesWrongOut(t *testing.T) {
	for _, c := range []struct {
		edit func(d *backend.Draws, o *backend.Out)
		text string
	}{
		{func(d *backend.Draws, o *backend.Out) { o.Tokens = o.Tokens[:1] }, "room for 1 tokens"},
		{func(d *backend.Draws, o *backend.Out) { d.Rows[0].Logprobs = 1; o.Ranks = nil }, "0 ranks"},
		{func(d *backend.Draws, o *backend.Out) { d.Rows[0].Logprobs, d.Rows[0].Top = 1, 2 }, "top tokens of 2"},
		{func(d *backend.Draws, o *backend.Out) { d.Rows[1].Host = true }, "0 logits of 1 host rows"},
	} {
		d, out := draws(), outFor(2)
		c.edit(d, out)
		_, err := runStep(newOracle(t, small, OracleConfig{}), first(), d, out)
		wantBroken(t, err, c.text)
	}
}

func TestSpecChecks(t *testing.T) {
	for _, edit := range []func(*backend.Spec){
		func(s *backend.Spec) { s.VocabSize = 0 },
		func(s *backend.Spec) { s.BlockTokens = 0 },
		func(s *backend.Spec) { s.NumBlocks = 1 },
		func(s *backend.Spec) { s.MaxTokens = 0 },
		func(s *backend.Spec) { s.MaxSeqs = -1 },
		func(s *backend.Spec) { s.MaxSeqTokens = 0 },
		func(s *backend.Spec) { s.Depth = 3 },
		func(s *backend.Spec) { s.Depth = 0 },
		func(s *backend.Spec) { s.NumBlocks, s.BlockTokens = 1<<30, 4 },
	} {
		s := small
		edit(&s)
		if _, err := NewOracle(s, OracleConfig{}); err == nil {
			t.Errorf("oracle opened with %+v", s)
		}
		if _, err := NewPaced(s, Instant()); err == nil {
			t.Errorf("paced backend opened with %+v", s)
		}
	}
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
