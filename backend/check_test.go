package backend

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
)

var checkSpec = Spec{VocabSize: 40, BlockTokens: 4, NumBlocks: 10, MaxTokens: 16, MaxSeqs: 3, MaxSeqTokens: 16, Depth: 2}

// goodBatch has a sequence with six tokens in blocks 3 and 5, and one with three tokens in
// block 7, of which the newest is drawn by row 1 of the previous step.
func goodBatch() *Batch {
	return &Batch{
		Tokens:   []int32{10, 11, 12, 13, 14, 15, 20, 21, ^1},
		Pos:      []int32{0, 1, 2, 3, 4, 5, 0, 1, 2},
		Slots:    []int32{12, 13, 14, 15, 20, 21, 28, 29, 30},
		QueryEnd: []int32{6, 9},
		KVLen:    []int32{6, 3},
		TableEnd: []int32{2, 3},
		Tables:   []int32{3, 5, 7},
		At:       []int32{5, 8},
	}
}

// statefulBatch is goodBatch for a network with state slots: the second sequence starts, and the first
// goes on in its slot.
func statefulBatch() *Batch {
	b := goodBatch()
	for i, kv := range []int32{8, 9, 10, 11, 12, 13} {
		b.Pos[i], b.Slots[i] = kv, []int32{20, 21, 22, 23, 32, 33}[i]
	}
	b.KVLen[0], b.TableEnd, b.Tables = 14, []int32{4, 5}, []int32{3, 4, 5, 8, 7}
	b.StateIn, b.StateOut = []int32{2, 0}, []int32{2, 3}
	return b
}

func goodDraws() *Draws {
	row := Draw{TopP: 1, Mask: -1, Allow: -1, Target: -1}
	return &Draws{Rows: []Draw{row, row}}
}

// wantError expects an error of the contract with this text.
func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if !errors.Is(err, ErrContract) || !strings.Contains(fmt.Sprint(err), text) {
		t.Errorf("the error is %q, want %q", err, text)
	}
}

func TestSpecCheck(t *testing.T) {
	if err := checkSpec.Check(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		edit func(*Spec)
		text string
	}{
		{func(s *Spec) { s.VocabSize = 0 }, "VocabSize is 0, but must be at least 1"},
		{func(s *Spec) { s.VocabSize = math.MaxInt32 + 1 }, "VocabSize is 2147483648, but batches hold numbers of 32 bits"},
		{func(s *Spec) { s.BlockTokens = 0 }, "BlockTokens is 0, but must be at least 1"},
		{func(s *Spec) { s.NumBlocks = 1 }, "NumBlocks is 1, but must be at least 2"},
		{func(s *Spec) { s.MaxTokens = 0 }, "MaxTokens is 0"},
		{func(s *Spec) { s.MaxSeqs = -1 }, "MaxSeqs is -1"},
		{func(s *Spec) { s.MaxSeqTokens = 0 }, "MaxSeqTokens is 0"},
		{func(s *Spec) { s.Depth = 3 }, "Depth is 3, but must be 1 or 2"},
		{func(s *Spec) { s.Depth = 0 }, "Depth is 0"},
		{func(s *Spec) { s.LongAfter = -1 }, "LongAfter is -1"},
		{func(s *Spec) { s.StateSlots = 1 }, "StateSlots is 1, but must be 0, or slot 0 and one"},
		{func(s *Spec) { s.StateSlots = -2 }, "StateSlots is -2"},
		{func(s *Spec) { s.NumBlocks, s.BlockTokens = 1<<30, 4 }, "1073741824 blocks of 4 tokens have more slots"},
	} {
		s := checkSpec
		c.edit(&s)
		wantError(t, s.Check(), c.text)
	}
}

func TestBatchCheck(t *testing.T) {
	if err := goodBatch().Check(checkSpec, 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		edit func(b *Batch)
		text string
	}{
		// The sizes of slices.
		{"empty", func(b *Batch) { b.Reset() }, "the batch has no tokens"},
		{"too many tokens", func(b *Batch) { b.Tokens = make([]int32, 17) }, "the batch has 17 tokens, but at most 16 are allowed"},
		{"too many sequences", func(b *Batch) { b.QueryEnd = []int32{1, 2, 3, 9} }, "the batch has 4 sequences, but at most 3 are allowed"},
		{"position missing", func(b *Batch) { b.Pos = b.Pos[:8] }, "9 tokens have 8 positions and 9 slots"},
		{"slot missing", func(b *Batch) { b.Slots = b.Slots[:8] }, "9 tokens have 9 positions and 8 slots"},
		{"KV length missing", func(b *Batch) { b.KVLen = b.KVLen[:1] }, "2 sequences have 1 KV lengths and 2 block tables"},
		{"table missing", func(b *Batch) { b.TableEnd = nil }, "2 sequences have 2 KV lengths and 0 block tables"},
		{"no sequences", func(b *Batch) { b.QueryEnd, b.KVLen, b.TableEnd = nil, nil, nil }, "9 tokens belong to no sequence"},
		{"token of no sequence", func(b *Batch) { b.QueryEnd[1] = 8 }, "the last sequence ends at token 8, but there are 9 tokens"},
		{"tables cut short", func(b *Batch) { b.Tables = b.Tables[:2] }, "the last block table ends at entry 3, but there are 2 entries"},
		{"states without slots", func(b *Batch) { b.StateIn, b.StateOut = make([]int32, 2), make([]int32, 2) }, "2 sequences of a network with 0 state slots go on from 2 states to 2"},
		{"long missing", func(b *Batch) { b.Long = []int32{0} }, "it is said of 1 of 2 sequences whether they are long"},
		{"long", func(b *Batch) { b.Long = []int32{0, 1} }, "that sequence 1 of 3 tokens is long is true, where those of more than 0 are"},
		{"too many rows", func(b *Batch) { b.At = make([]int32, 10) }, "10 rows are drawn from 9 tokens"},

		// Sequences.
		{"empty run", func(b *Batch) { b.QueryEnd[0] = 0 }, "sequence 0 has the tokens from 0 to before 0, of 9"},
		{"run beyond the tokens", func(b *Batch) { b.QueryEnd[0] = 12 }, "sequence 0 has the tokens from 0 to before 12, of 9"},
		{"position skipped", func(b *Batch) { b.Pos[3] = 4 }, "sequence 0: token 3 has position 4 instead of 3"},
		{"negative position", func(b *Batch) { b.Pos[6] = -1 }, "sequence 1 has the positions from -1 to before 2"},
		{"sequence too long", func(b *Batch) { b.Pos[6] = 14 }, "sequence 1 has the positions from 14 to before 17, but at most 16 are allowed"},
		{"huge position", func(b *Batch) { b.Pos[6], b.KVLen[1] = math.MaxInt32-2, math.MinInt32 }, "to before 2147483648, but at most 16 are allowed"},
		{"KV length", func(b *Batch) { b.KVLen[0] = 7 }, "sequence 0: the last position is 5, but the KV length is 7"},

		// Block tables.
		{"table beyond the entries", func(b *Batch) { b.TableEnd[0] = 4 }, "sequence 0 has the table entries from 0 to before 4, of 3"},
		{"tables descend", func(b *Batch) { b.TableEnd[0] = -1 }, "sequence 0 has the table entries from 0 to before -1, of 3"},
		{"table too short", func(b *Batch) { b.TableEnd[0] = 1 }, "sequence 0: a table of 1 blocks of 4 tokens is too short for 6 positions"},
		{"null block", func(b *Batch) { b.Tables[2] = 0 }, "sequence 1: table entry 0 is the null block"},
		{"no such block", func(b *Batch) { b.Tables[1] = 10 }, "sequence 0: table entry 1 is block 10 of 10"},
		{"negative block", func(b *Batch) { b.Tables[2] = -1 }, "sequence 1: table entry 0 is block -1 of 10"},

		// Tokens and rows.
		{"slots swapped", func(b *Batch) { b.Slots[0], b.Slots[1] = b.Slots[1], b.Slots[0] }, "sequence 0: position 0 goes to slot 13, but by its table to slot 12"},
		{"slot in the null block", func(b *Batch) { b.Slots[8] = 2 }, "sequence 1: position 2 goes to slot 2, but by its table to slot 30"},
		{"no such token", func(b *Batch) { b.Tokens[4] = 40 }, "sequence 0: position 4 is token 40 of a vocabulary of 40"},
		{"no such row", func(b *Batch) { b.Tokens[8] = ^2 }, "sequence 1: position 2 is the token of row 2, but the previous step has 2 rows"},
		{"rows descend", func(b *Batch) { b.At = []int32{8, 5} }, "row 1 is drawn at token 5 of 9, after one at token 8"},
		{"row twice", func(b *Batch) { b.At = []int32{5, 5} }, "row 1 is drawn at token 5 of 9, after one at token 5"},
		{"row beyond the tokens", func(b *Batch) { b.At[1] = 9 }, "row 1 is drawn at token 9 of 9"},
		{"negative row", func(b *Batch) { b.At[0] = -1 }, "row 0 is drawn at token -1 of 9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := goodBatch()
			c.edit(b)
			wantError(t, b.Check(checkSpec, 2), c.text)
		})
	}
}

func TestBatchCheckStates(t *testing.T) {
	spec := checkSpec
	spec.StateSlots = 5
	if err := statefulBatch().Check(spec, 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		edit func(b *Batch)
		text string
	}{
		{"no states", func(b *Batch) { b.StateIn, b.StateOut = nil, nil }, "2 sequences of a network with 5 state slots go on from 0 states to 0"},
		{"one state missing", func(b *Batch) { b.StateOut = b.StateOut[:1] }, "go on from 2 states to 1"},
		{"no such slot", func(b *Batch) { b.StateOut[1] = 5 }, "sequence 1 goes on from state slot 0 to 5, of 5"},
		{"negative slot", func(b *Batch) { b.StateIn[0] = -1 }, "sequence 0 goes on from state slot -1 to 2"},
		{"slot 0 is written", func(b *Batch) { b.StateOut[1] = 0 }, "sequence 1 writes to state slot 0"},
		{"state of nothing", func(b *Batch) { b.StateIn[1] = 4 }, "sequence 1 goes on from state slot 4 at position 0"},
		{"no state", func(b *Batch) { b.StateIn[0] = 0 }, "sequence 0 goes on from state slot 0 at position 8"},
		{"written twice", func(b *Batch) { b.StateOut[1] = 2 }, "sequences 0 and 1 both write to state slot 2"},
		{"read and written", func(b *Batch) { b.StateIn[0] = 3 }, "of sequences 0 and 1, one reads"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := statefulBatch()
			c.edit(b)
			wantError(t, b.Check(spec, 2), c.text)
		})
	}
	b := statefulBatch()
	b.Pos[6], b.Pos[7], b.Pos[8], b.KVLen[1] = 1, 2, 3, 4
	b.Slots[6], b.Slots[7], b.Slots[8] = 29, 30, 31
	b.StateIn, b.StateOut = []int32{4, 4}, []int32{1, 2}
	if err := b.Check(spec, 2); err != nil {
		t.Errorf("two sequences go on from one state: %v", err)
	}
}

// TestBatchCheckLong: a sequence of more tokens than Spec.LongAfter is a long one, and one of fewer may be, because more are known.
func TestBatchCheckLong(t *testing.T) {
	spec := checkSpec
	spec.LongAfter = 5
	b := goodBatch()
	b.Long = []int32{1, 1}
	if err := b.Check(spec, 2); err != nil {
		t.Error(err)
	}
	b.Long = []int32{0, 1}
	wantError(t, b.Check(spec, 2), "that sequence 0 of 6 tokens is long is false, where those of more than 5 are")
}

func TestDrawsCheck(t *testing.T) {
	if err := goodDraws().Check(checkSpec, 2); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		edit func(d *Draws)
		text string
	}{
		{"row missing", func(d *Draws) { d.Rows = d.Rows[:1] }, "the batch has 2 rows, but 1 are drawn"},
		{"half a mask", func(d *Draws) { d.Masks = make([]uint32, 3) }, "3 words of masks are not whole rows of 2 words"},
		{"no such mask", func(d *Draws) { d.Rows[0].Mask = 0 }, "row 0 has the mask rows 0 and -1, of 0"},
		{"no such allow list", func(d *Draws) { d.Rows[1].Allow = 1; d.Masks = make([]uint32, 2) }, "row 1 has the mask rows -1 and 1, of 1"},
		{"edits descend", func(d *Draws) { d.Rows[0].EditEnd = 1; d.Edits = make([]Edit, 1) }, "row 1 has the edits from 1 to before 0, of 1"},
		{"edits beyond the last", func(d *Draws) { d.Rows[1].EditEnd = 1 }, "row 1 has the edits from 0 to before 1, of 0"},
		{"edit of no row", func(d *Draws) { d.Edits = make([]Edit, 1) }, "the rows have 0 edits, but there are 1"},
		{"target", func(d *Draws) { d.Rows[0].Target = 40 }, "row 0 has the target 40 of a vocabulary of 40"},
		{"top tokens", func(d *Draws) { d.Rows[0].Top = -1 }, "row 0 asks for -1 top tokens"},
		{"mode", func(d *Draws) { d.Rows[0].Logprobs = 3 }, "row 0 has the unknown log-probability mode 3"},
		{"temperature", func(d *Draws) { d.Rows[0].Temperature = -1 }, "row 0 has the temperature -1"},
		{"top_p", func(d *Draws) { d.Rows[0].Temperature, d.Rows[0].TopP = 1, 0 }, "row 0 has top_p 0, min_p 0 and top_k 0"},
		{"min_p", func(d *Draws) { d.Rows[1].Temperature, d.Rows[1].MinP = 1, 2 }, "row 1 has top_p 1, min_p 2 and top_k 0"},
		{"top_k", func(d *Draws) { d.Rows[1].Temperature, d.Rows[1].TopK = 1, -1 }, "row 1 has top_p 1, min_p 0 and top_k -1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := goodDraws()
			c.edit(d)
			wantError(t, d.Check(checkSpec, 2), c.text)
		})
	}
	d := goodDraws()
	d.Rows[1] = Draw{Dead: true, Target: 99}
	if err := d.Check(checkSpec, 2); err != nil {
		t.Errorf("a dead row is checked: %v", err)
	}
}

func TestDrawsCheckEdits(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	check := func(e Edit) error {
		d := goodDraws()
		d.Edits = []Edit{e}
		d.Rows[1].EditEnd = 1
		return d.CheckEdits(checkSpec)
	}
	for _, e := range []Edit{{Token: 39, Repeat: 1}, {Repeat: 1, Bias: Forbid}, {Repeat: 2, Bias: 3, Minus: -4}} {
		if err := check(e); err != nil {
			t.Errorf("%+v: %v", e, err)
		}
	}
	for _, c := range []struct {
		edit Edit
		text string
	}{
		{Edit{Token: 40, Repeat: 1}, "row 1 edits token 40 of a vocabulary of 40"},
		{Edit{Token: -1, Repeat: 1}, "row 1 edits token -1"},
		{Edit{Token: 1}, "the edit of token 1 has the repetition penalty 0"},
		{Edit{Token: 1, Repeat: inf}, "the edit of token 1 has the repetition penalty +Inf"},
		{Edit{Token: 1, Repeat: 1, Bias: nan}, "the edit of token 1 has the bias NaN"},
		{Edit{Token: 1, Repeat: 1, Bias: inf}, "the edit of token 1 has the bias +Inf"},
		{Edit{Token: 1, Repeat: 1, Minus: Forbid}, "the edit of token 1 subtracts -Inf"},
	} {
		wantError(t, check(c.edit), c.text)
	}
}

func TestOutCheck(t *testing.T) {
	good := func() (*Draws, *Out) {
		d := goodDraws()
		d.Rows[0].Logprobs, d.Rows[0].Top, d.Rows[1].Host = RawLogprobs, 2, true
		return d, &Out{
			Tokens: make([]int32, 2), Logprobs: make([]float32, 2), Ranks: make([]int32, 2),
			TopTokens: make([]int32, 2), TopLogprobs: make([]float32, 2), Logits: make([]float32, 40),
		}
	}
	d, out := good()
	if err := out.Check(checkSpec, d); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		edit func(d *Draws, o *Out)
		text string
	}{
		{func(d *Draws, o *Out) { o.Tokens = o.Tokens[:1] }, "there is room for 1 tokens, but 2 rows are drawn"},
		{func(d *Draws, o *Out) { o.Ranks = nil }, "there is room for 2 log-probabilities and 0 ranks, but 2 rows are drawn"},
		{func(d *Draws, o *Out) { o.TopLogprobs = nil }, "there is room for 2 top tokens and 0 of their log-probabilities, but 2 are asked for"},
		{func(d *Draws, o *Out) { d.Rows[0].Host = true }, "there is room for 40 logits, but 2 rows of 40 are asked for"},
	} {
		d, out := good()
		c.edit(d, out)
		wantError(t, out.Check(checkSpec, d), c.text)
	}
}

func TestChecksAllocateNothing(t *testing.T) {
	b, d, out := goodBatch(), goodDraws(), &Out{Tokens: make([]int32, 2)}
	d.Edits = []Edit{{Token: 1, Repeat: 1}}
	d.Rows[1].EditEnd = 1
	allocs := testing.AllocsPerRun(100, func() {
		if b.Check(checkSpec, 2) != nil || d.Check(checkSpec, 2) != nil || d.CheckEdits(checkSpec) != nil || out.Check(checkSpec, d) != nil {
			t.Error("a good step is refused")
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}
