package sim

import (
	"errors"
	"fmt"
	"math"

	"weir/backend"
)

var (
	// ErrContract is wrapped where a caller breaks the contract of package backend.
	ErrContract = errors.New("sim: broken step contract")
	// ErrClosed is returned by calls after Close.
	ErrClosed = errors.New("sim: closed")
)

func broken(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrContract, fmt.Sprintf(format, args...))
}

// turns counts the calls of each kind and refuses those out of turn. After an
// error every call returns it again: the backend is only good for Close.
type turns struct {
	depth, begun, drawn, ended int
	err                        error
}

func (t *turns) begin() error {
	switch {
	case t.err != nil:
	case t.drawn < t.begun:
		t.err = broken("Begin of step %d before Draw of step %d", t.begun, t.drawn)
	case t.begun-t.ended >= t.depth:
		t.err = broken("Begin of step %d with %d in flight, at depth %d", t.begun, t.begun-t.ended, t.depth)
	}
	return t.err
}

func (t *turns) draw() error {
	switch {
	case t.err != nil:
	case t.drawn == t.begun:
		t.err = broken("Draw of step %d before its Begin", t.drawn)
	case t.ended < t.drawn:
		t.err = broken("Draw of step %d before End of step %d", t.drawn, t.ended)
	}
	return t.err
}

func (t *turns) end() error {
	if t.err == nil && t.ended == t.drawn {
		t.err = broken("End of step %d before its Draw", t.ended)
	}
	return t.err
}

// fail keeps the first error.
func (t *turns) fail(err error) error {
	if t.err == nil {
		t.err = err
	}
	return err
}

func checkSpec(s backend.Spec) error {
	for _, v := range []struct {
		name  string
		value int
	}{
		{"VocabSize", s.VocabSize}, {"BlockTokens", s.BlockTokens}, {"NumBlocks", s.NumBlocks - 1},
		{"MaxTokens", s.MaxTokens}, {"MaxSeqs", s.MaxSeqs}, {"MaxSeqTokens", s.MaxSeqTokens},
	} {
		if v.value < 1 {
			return fmt.Errorf("sim: %s is too small in %+v", v.name, s)
		}
	}
	if s.Depth != 1 && s.Depth != 2 {
		return fmt.Errorf("sim: depth %d", s.Depth)
	}
	if s.NumBlocks > math.MaxInt32/s.BlockTokens {
		return fmt.Errorf("sim: %d blocks of %d tokens", s.NumBlocks, s.BlockTokens)
	}
	return nil
}

// checkShape is what can be said about a batch without slots: lengths, limits,
// runs and positions.
func checkShape(s backend.Spec, b *backend.Batch) error {
	T, S := len(b.Tokens), len(b.QueryEnd)
	switch {
	case T == 0:
		return broken("empty batch")
	case T > s.MaxTokens:
		return broken("%d tokens in a batch, at most %d", T, s.MaxTokens)
	case S > s.MaxSeqs:
		return broken("%d sequences in a batch, at most %d", S, s.MaxSeqs)
	case len(b.Pos) != T || len(b.Slots) != T:
		return broken("%d tokens, %d positions, %d slots", T, len(b.Pos), len(b.Slots))
	case len(b.KVLen) != S || len(b.TableEnd) != S:
		return broken("%d runs, %d KV lengths, %d tables", S, len(b.KVLen), len(b.TableEnd))
	case S == 0 || int(b.QueryEnd[S-1]) != T:
		return broken("runs end at %v, there are %d tokens", b.QueryEnd, T)
	case int(b.TableEnd[S-1]) != len(b.Tables):
		return broken("tables end at %d, there are %d entries", b.TableEnd[S-1], len(b.Tables))
	}
	from, table := int32(0), int32(0)
	for i, end := range b.QueryEnd {
		if end <= from || int(end) > T {
			return broken("run %d is [%d, %d)", i, from, end)
		}
		first := b.Pos[from]
		if past := int64(first) + int64(end-from); first < 0 || past > int64(s.MaxSeqTokens) {
			return broken("run %d: positions [%d, %d), at most %d", i, first, past, s.MaxSeqTokens)
		}
		for t := from; t < end; t++ {
			if b.Pos[t] != first+(t-from) {
				return broken("run %d: position %d where %d is due", i, b.Pos[t], first+(t-from))
			}
		}
		n := b.KVLen[i]
		switch {
		case n != b.Pos[end-1]+1:
			return broken("run %d ends with position %d, its KV length is %d", i, b.Pos[end-1], n)
		case b.TableEnd[i] < table || int(b.TableEnd[i]) > len(b.Tables):
			return broken("table %d is [%d, %d)", i, table, b.TableEnd[i])
		case int(b.TableEnd[i]-table)*s.BlockTokens < int(n):
			return broken("run %d: a table of %d blocks for %d tokens", i, b.TableEnd[i]-table, n)
		}
		from, table = end, b.TableEnd[i]
	}
	last := int32(-1)
	for r, at := range b.At {
		if at <= last || int(at) >= T {
			return broken("row %d draws at token %d, the row before at %d, of %d", r, at, last, T)
		}
		last = at
	}
	return nil
}

// checkRows is what can be said about draws before their edits may be read.
func checkRows(s backend.Spec, d *backend.Draws, rows int) error {
	if len(d.Rows) != rows {
		return broken("%d draws for %d rows", len(d.Rows), rows)
	}
	if len(d.Masks)%s.MaskWords() != 0 {
		return broken("%d mask words in rows of %d", len(d.Masks), s.MaskWords())
	}
	masks, edits := int32(len(d.Masks)/s.MaskWords()), int32(0)
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.EditEnd < edits || int(r.EditEnd) > len(d.Edits) {
			return broken("row %d has edits [%d, %d) of %d", i, edits, r.EditEnd, len(d.Edits))
		}
		edits = r.EditEnd
		if r.Dead {
			continue
		}
		switch v := int32(s.VocabSize); {
		case r.Mask < -1 || r.Mask >= masks || r.Allow < -1 || r.Allow >= masks:
			return broken("row %d has masks %d and %d of %d", i, r.Mask, r.Allow, masks)
		case r.Target < -1 || r.Target >= v:
			return broken("row %d: target %d of %d tokens", i, r.Target, v)
		case r.Top < 0 || r.Top > v:
			return broken("row %d: %d top tokens of %d", i, r.Top, v)
		case r.Logprobs > backend.ProcessedLogprobs:
			return broken("row %d: log-probability mode %d", i, r.Logprobs)
		case !(r.Temperature >= 0 && r.Temperature <= math.MaxFloat32):
			return broken("row %d: temperature %v", i, r.Temperature)
		case r.Target < 0 && r.Temperature > 0 && !(r.TopP > 0 && r.TopP <= 1 && r.MinP >= 0 && r.MinP <= 1 && r.TopK >= 0):
			return broken("row %d: top_p %v, min_p %v, top_k %d", i, r.TopP, r.MinP, r.TopK)
		}
	}
	if int(edits) != len(d.Edits) {
		return broken("rows have %d edits of %d", edits, len(d.Edits))
	}
	return nil
}

// checkOut compares out's lengths with what rows ask for. Dead rows count like
// others.
func checkOut(s backend.Spec, rows []backend.Draw, out *backend.Out) error {
	top, host, logprobs := 0, 0, false
	for i := range rows {
		top += int(rows[i].Top)
		logprobs = logprobs || rows[i].Logprobs != backend.NoLogprobs
		if rows[i].Host {
			host++
		}
	}
	switch n := len(rows); {
	case len(out.Tokens) != n:
		return broken("room for %d tokens of %d rows", len(out.Tokens), n)
	case logprobs && (len(out.Logprobs) != n || len(out.Ranks) != n):
		return broken("room for %d log-probabilities and %d ranks of %d rows", len(out.Logprobs), len(out.Ranks), n)
	case len(out.TopTokens) != top || len(out.TopLogprobs) != top:
		return broken("room for %d and %d top tokens of %d", len(out.TopTokens), len(out.TopLogprobs), top)
	case len(out.Logits) != host*s.VocabSize:
		return broken("room for %d logits of %d host rows", len(out.Logits), host)
	}
	return nil
}
