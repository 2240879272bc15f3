package backend

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// ErrContract is wrapped by the errors of all checks in this package.
var ErrContract = errors.New("backend: broken step contract")

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrContract, fmt.Sprintf(format, args...))
}

// Check reports the first field of s that no backend can have.
func (s Spec) Check() error {
	for _, field := range [...]struct {
		name         string
		value, least int
	}{
		{"VocabSize", s.VocabSize, 1},
		{"BlockTokens", s.BlockTokens, 1},
		{"NumBlocks", s.NumBlocks, 2}, // the null block and one for tokens
		{"MaxTokens", s.MaxTokens, 1},
		{"MaxSeqs", s.MaxSeqs, 1},
		{"MaxSeqTokens", s.MaxSeqTokens, 1},
	} {
		if field.value < field.least {
			return broken("%s is %d, but must be at least %d", field.name, field.value, field.least)
		}
		if field.value > math.MaxInt32 {
			return broken("%s is %d, but batches hold numbers of 32 bits", field.name, field.value)
		}
	}
	if s.Depth != 1 && s.Depth != 2 {
		return broken("Depth is %d, but must be 1 or 2", s.Depth)
	}
	if s.StateSlots < 0 || s.StateSlots == 1 || s.StateSlots > math.MaxInt32 {
		return broken("StateSlots is %d, but must be 0, or slot 0 and one for a sequence, and at most %d", s.StateSlots, math.MaxInt32)
	}
	if s.LongAfter < 0 {
		return broken("LongAfter is %d, but must not be negative", s.LongAfter)
	}
	if s.Hidden < 0 {
		return broken("Hidden is %d, but must not be negative", s.Hidden)
	}
	for i, g := range s.Groups {
		if g.Window < 0 || g.Chunk < 0 {
			return broken("group %d of layers has a window of %d and chunks of %d positions", i, g.Window, g.Chunk)
		}
	}
	if s.Whole && len(s.Groups) > 0 {
		return broken("the network computes whole sequences, but has %d groups of layers that look back less far", len(s.Groups))
	}
	if s.NumBlocks > math.MaxInt32/s.BlockTokens {
		return broken("%d blocks of %d tokens have more slots than a number of 32 bits can name", s.NumBlocks, s.BlockTokens)
	}
	return nil
}

// CheckSizes compares the lengths of b's slices with each other and with the limits of s.
// It takes the same short time for every batch. Check does more.
func (b *Batch) CheckSizes(s Spec) error {
	tokens, seqs, groups := len(b.Tokens), len(b.QueryEnd), s.NumGroups()
	switch {
	case tokens == 0:
		return broken("the batch has no tokens")
	case tokens > s.MaxTokens:
		return broken("the batch has %d tokens, but at most %d are allowed", tokens, s.MaxTokens)
	case seqs > s.MaxSeqs:
		return broken("the batch has %d sequences, but at most %d are allowed", seqs, s.MaxSeqs)
	case len(b.Pos) != tokens || len(b.Slots) != groups*tokens:
		return broken("%d tokens have %d positions and %d slots in %d groups", tokens, len(b.Pos), len(b.Slots), groups)
	case len(b.KVLen) != seqs || len(b.TableEnd) != groups*seqs:
		return broken("%d sequences have %d KV lengths and %d block tables in %d groups", seqs, len(b.KVLen), len(b.TableEnd), groups)
	case seqs == 0:
		return broken("%d tokens belong to no sequence", tokens)
	case int(b.QueryEnd[seqs-1]) != tokens:
		return broken("the last sequence ends at token %d, but there are %d tokens", b.QueryEnd[seqs-1], tokens)
	case int(b.TableEnd[groups*seqs-1]) != len(b.Tables):
		return broken("the last block table ends at entry %d, but there are %d entries", b.TableEnd[groups*seqs-1], len(b.Tables))
	case len(b.StateIn) != s.states(seqs) || len(b.StateOut) != s.states(seqs):
		return broken("%d sequences of a network with %d state slots go on from %d states to %d", seqs, s.StateSlots, len(b.StateIn), len(b.StateOut))
	case len(b.Long) != 0 && len(b.Long) != seqs:
		return broken("it is said of %d of %d sequences whether they are long", len(b.Long), seqs)
	case len(b.Types) != 0 && len(b.Types) != tokens:
		return broken("%d tokens have %d types", tokens, len(b.Types))
	case len(b.At) > tokens:
		return broken("%d rows are drawn from %d tokens", len(b.At), tokens)
	}
	return nil
}

// states is the number of states that a batch with this many sequences goes on from.
func (s Spec) states(seqs int) int {
	if s.StateSlots == 0 {
		return 0
	}
	return seqs
}

// Check reports the first thing in b that breaks the contract with a backend of spec s.
// drawn is the number of rows of the previous step, which tokens may name. Check reads the
// whole batch once and allocates nothing if it is good. That no block belongs to two
// sequences, and what the cache holds, are beyond it: package sim checks these.
func (b *Batch) Check(s Spec, drawn int) error {
	if err := b.CheckSizes(s); err != nil {
		return err
	}
	first := int32(0)
	for i, end := range b.QueryEnd {
		if end <= first || int(end) > len(b.Tokens) {
			return broken("sequence %d has the tokens from %d to before %d, of %d", i, first, end, len(b.Tokens))
		}
		if err := cmp.Or(b.checkRun(s, i, first, end), b.checkLong(s, i), b.checkTokens(s, i, first, end, drawn)); err != nil {
			return err
		}
		first = end
	}
	if err := b.checkTables(s); err != nil {
		return err
	}
	for t, typ := range b.Types {
		if typ < 0 {
			return broken("token %d has the type %d", t, typ)
		}
	}
	if err := b.checkStates(s); err != nil {
		return err
	}
	last := int32(-1)
	for r, at := range b.At {
		if at <= last || int(at) >= len(b.Tokens) {
			return broken("row %d is drawn at token %d of %d, after one at token %d", r, at, len(b.Tokens), last)
		}
		last = at
	}
	return nil
}

// checkLong checks what is said of the length of sequence i. One whose cache is not long yet may be long, because more of its
// tokens are known.
func (b *Batch) checkLong(s Spec, i int) error {
	if long := b.IsLong(i); long && s.LongAfter == 0 || !long && s.LongAfter > 0 && int(b.KVLen[i]) > s.LongAfter {
		return broken("that sequence %d of %d tokens is long is %v, where those of more than %d are", i, b.KVLen[i], long, s.LongAfter)
	}
	return nil
}

// checkRun checks the positions of sequence i, which has the tokens [first, end).
func (b *Batch) checkRun(s Spec, i int, first, end int32) error {
	pos := b.Pos[first]
	if past := int64(pos) + int64(end-first); pos < 0 || past > int64(s.MaxSeqTokens) {
		return broken("sequence %d has the positions from %d to before %d, but at most %d are allowed", i, pos, past, s.MaxSeqTokens)
	}
	for t := first; t < end; t++ {
		if want := pos + (t - first); b.Pos[t] != want {
			return broken("sequence %d: token %d has position %d instead of %d", i, t, b.Pos[t], want)
		}
	}
	if s.Whole && pos != 0 {
		return broken("sequence %d begins at position %d, but the network computes whole sequences", i, pos)
	}
	last, kv := b.Pos[end-1], b.KVLen[i]
	if kv != last+1 {
		return broken("sequence %d: the last position is %d, but the KV length is %d", i, last, kv)
	}
	return nil
}

// Table is the block table of sequence i in group g.
func (b *Batch) Table(g, i int) []int32 {
	at := g*len(b.QueryEnd) + i
	from := int32(0)
	if at > 0 {
		from = b.TableEnd[at-1]
	}
	return b.Tables[from:b.TableEnd[at]]
}

// checkTables checks the block tables of all groups, and that each token goes to the slots that they say.
func (b *Batch) checkTables(s Spec) error {
	entry := int32(0)
	for at, end := range b.TableEnd {
		if i := at % len(b.QueryEnd); end < entry || int(end) > len(b.Tables) {
			return broken("sequence %d has the table entries from %d to before %d, of %d", i, entry, end, len(b.Tables))
		}
		entry = end
	}
	for g := range s.NumGroups() {
		first := int32(0)
		for i, end := range b.QueryEnd {
			table := b.Table(g, i)
			if kv := int(b.KVLen[i]); len(table)*s.BlockTokens < kv {
				return broken("sequence %d: a table of %d blocks of %d tokens is too short for %d positions", i, len(table), s.BlockTokens, kv)
			}
			if err := checkTable(s, i, table, s.Group(g).First(int(b.Pos[first]))/s.BlockTokens); err != nil {
				return err
			}
			if err := b.checkSlots(s, g, i, first, end, table); err != nil {
				return err
			}
			first = end
		}
	}
	return nil
}

// checkStates checks the state slots: those that are written belong to one sequence each, which alone
// may read them.
func (b *Batch) checkStates(s Spec) error {
	first := int32(0)
	for i, in := range b.StateIn {
		pos, out := b.Pos[first], b.StateOut[i]
		first = b.QueryEnd[i]
		switch {
		case in < 0 || int(in) >= s.StateSlots || out < 0 || int(out) >= s.StateSlots:
			return broken("sequence %d goes on from state slot %d to %d, of %d", i, in, out, s.StateSlots)
		case out == 0:
			return broken("sequence %d writes to state slot 0", i)
		case (in == 0) != (pos == 0):
			return broken("sequence %d goes on from state slot %d at position %d", i, in, pos)
		}
		for j := range i { // a batch has some hundred sequences at most
			switch {
			case b.StateOut[j] == out:
				return broken("sequences %d and %d both write to state slot %d", j, i, out)
			case b.StateOut[j] == in || b.StateIn[j] == out:
				return broken("of sequences %d and %d, one reads the state slot that the other writes to", j, i)
			}
		}
	}
	return nil
}

// checkTable checks that the table of sequence i names blocks of the pool. Its first entries, which
// are not seen any more, may be 0.
func checkTable(s Spec, i int, table []int32, first int) error {
	for j, block := range table {
		if block == 0 && j >= first {
			return broken("sequence %d: table entry %d is the null block", i, j)
		}
		if block < 0 || int(block) >= s.NumBlocks {
			return broken("sequence %d: table entry %d is block %d of %d", i, j, block, s.NumBlocks)
		}
	}
	return nil
}

// checkSlots checks that the tokens [first, end) of sequence i go to the slots that its table in group g says.
func (b *Batch) checkSlots(s Spec, g, i int, first, end int32, table []int32) error {
	size, slots := int32(s.BlockTokens), b.Slots[g*len(b.Tokens):]
	for t := first; t < end; t++ {
		pos := b.Pos[t]
		if want := table[pos/size]*size + pos%size; slots[t] != want {
			return broken("sequence %d: position %d goes to slot %d, but by its table to slot %d", i, pos, slots[t], want)
		}
	}
	return nil
}

// checkTokens checks that the tokens [first, end) of sequence i exist.
func (b *Batch) checkTokens(s Spec, i int, first, end int32, drawn int) error {
	for t := first; t < end; t++ {
		id := b.Tokens[t]
		if id < 0 && int(^id) >= drawn {
			return broken("sequence %d: position %d is the token of row %d, but the previous step has %d rows", i, b.Pos[t], ^id, drawn)
		}
		if int(id) >= s.VocabSize {
			return broken("sequence %d: position %d is token %d of a vocabulary of %d", i, b.Pos[t], id, s.VocabSize)
		}
	}
	return nil
}

// Check reports the first thing in d that breaks the contract with a backend of spec s, for
// a batch with this many rows. It may be called before Ready, so it does not read Edits and
// Masks; CheckEdits does. Rows that are Dead only need a range of edits.
func (d *Draws) Check(s Spec, rows int) error {
	if len(d.Rows) != rows {
		return broken("the batch has %d rows, but %d are drawn", rows, len(d.Rows))
	}
	words := s.MaskWords()
	if len(d.Masks)%words != 0 {
		return broken("%d words of masks are not whole rows of %d words", len(d.Masks), words)
	}
	masks, edits := int32(len(d.Masks)/words), int32(0)
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.EditEnd < edits || int(r.EditEnd) > len(d.Edits) {
			return broken("row %d has the edits from %d to before %d, of %d", i, edits, r.EditEnd, len(d.Edits))
		}
		edits = r.EditEnd
		if r.Dead {
			continue
		}
		if r.Mask < -1 || r.Mask >= masks || r.Allow < -1 || r.Allow >= masks {
			return broken("row %d has the mask rows %d and %d, of %d", i, r.Mask, r.Allow, masks)
		}
		if err := r.check(s, i); err != nil {
			return err
		}
	}
	if int(edits) != len(d.Edits) {
		return broken("the rows have %d edits, but there are %d", edits, len(d.Edits))
	}
	return nil
}

// check checks what concerns row i alone.
func (r *Draw) check(s Spec, i int) error {
	vocab := int32(s.VocabSize)
	switch {
	case r.Hidden && s.Hidden == 0:
		return broken("row %d asks for its vector, but the backend reports none", i)
	case r.Hidden && (r.Target >= 0 || r.Top > 0 || r.Host || r.Logprobs != NoLogprobs):
		return broken("row %d asks for its vector and for what a draw gives", i)
	case r.Target < -1 || r.Target >= vocab:
		return broken("row %d has the target %d of a vocabulary of %d", i, r.Target, vocab)
	case r.Top < 0:
		return broken("row %d asks for %d top tokens", i, r.Top)
	case r.Logprobs > ProcessedLogprobs:
		return broken("row %d has the unknown log-probability mode %d", i, r.Logprobs)
	case !(r.Temperature >= 0 && r.Temperature <= math.MaxFloat32):
		return broken("row %d has the temperature %v", i, r.Temperature)
	case r.Target >= 0 || r.Temperature == 0:
		return nil // the filters are not used
	case !(r.TopP > 0 && r.TopP <= 1) || !(r.MinP >= 0 && r.MinP <= 1) || r.TopK < 0:
		return broken("row %d has top_p %v, min_p %v and top_k %d", i, r.TopP, r.MinP, r.TopK)
	}
	return nil
}

// CheckEdits checks the edits of d, for which Check has found nothing wrong, after Ready
// has returned. That a row edits no token twice is beyond it; package sim checks that.
func (d *Draws) CheckEdits(s Spec) error {
	finite := func(v float32) bool { return v >= -math.MaxFloat32 && v <= math.MaxFloat32 }
	first := int32(0)
	for i := range d.Rows {
		for _, e := range d.Edits[first:d.Rows[i].EditEnd] {
			switch {
			case e.Token < 0 || int(e.Token) >= s.VocabSize:
				return broken("row %d edits token %d of a vocabulary of %d", i, e.Token, s.VocabSize)
			case !finite(e.Bias) && e.Bias != Forbid:
				return broken("row %d: the edit of token %d has the bias %v", i, e.Token, e.Bias)
			case !(e.Repeat > 0 && finite(e.Repeat)):
				return broken("row %d: the edit of token %d has the repetition penalty %v", i, e.Token, e.Repeat)
			case !finite(e.Minus):
				return broken("row %d: the edit of token %d subtracts %v", i, e.Token, e.Minus)
			}
		}
		first = d.Rows[i].EditEnd
	}
	return nil
}

// Check compares the lengths of o's slices with what the rows of d ask for. Rows that are
// Dead count like the others.
func (o *Out) Check(s Spec, d *Draws) error {
	top, host, hidden, logprobs := 0, 0, 0, false
	for i := range d.Rows {
		r := &d.Rows[i]
		top += int(r.Top)
		if r.Hidden {
			hidden++
		}
		logprobs = logprobs || r.Logprobs != NoLogprobs
		if r.Host {
			host++
		}
	}
	switch rows := len(d.Rows); {
	case len(o.Tokens) != rows:
		return broken("there is room for %d tokens, but %d rows are drawn", len(o.Tokens), rows)
	case logprobs && (len(o.Logprobs) != rows || len(o.Ranks) != rows):
		return broken("there is room for %d log-probabilities and %d ranks, but %d rows are drawn", len(o.Logprobs), len(o.Ranks), rows)
	case len(o.TopTokens) != top || len(o.TopLogprobs) != top:
		return broken("there is room for %d top tokens and %d of their log-probabilities, but %d are asked for", len(o.TopTokens), len(o.TopLogprobs), top)
	case len(o.Hidden) != hidden*s.Hidden:
		return broken("there is room for %d components of vectors, but %d vectors of %d are asked for", len(o.Hidden), hidden, s.Hidden)
	case len(o.Logits) != host*s.VocabSize:
		return broken("there is room for %d logits, but %d rows of %d are asked for", len(o.Logits), host, s.VocabSize)
	}
	return nil
}
