package kernels

// Attention's work lists are made on the host, once per step and window: only
// the lengths of sequences go into them, and these are known there also while
// the tokens are still being drawn.

// A Run is the queries of one sequence in a step.
type Run struct {
	First, Tokens int32 // in the step, in order of positions
	Pos           int32 // of the first
	Table         int32 // first entry of the sequence's block table in tables
}

// AppendTiles cuts a run into the tiles of attn_prefill_*, of as many tokens as TileTokens says.
func AppendTiles(dst []AttnTile, r Run, tokens int) []AttnTile {
	for at := int32(0); at < r.Tokens; at += int32(tokens) {
		dst = append(dst, AttnTile{Token: r.First + at, Tokens: min(int32(tokens), r.Tokens-at), Table: r.Table})
	}
	return dst
}

// AppendItems lists the partial results of each token of a run, for attn_whole_*
// and attn_decode_*, and what attn_merge does with the latter's. slot is the first free slot
// of parts; the next free one is returned. It suits single tokens and short runs:
// every token reads its whole window.
func AppendItems(items []AttnItem, merges []AttnMerge, r Run, window int, slot int32) ([]AttnItem, []AttnMerge, int32) {
	for i := range r.Tokens {
		pos := r.Pos + i
		lo := int32(0)
		if window > 0 {
			lo = max(0, pos+1-int32(window))
		}
		first, last := lo/PartTokens, pos/PartTokens
		merges = append(merges, AttnMerge{Token: r.First + i, Slot: slot, Slots: last - first + 1})
		for p := first; p <= last; p++ {
			items = append(items, AttnItem{Token: r.First + i, Table: r.Table, Part: p, Slot: slot})
			slot++
		}
	}
	return items, merges, slot
}
