package main

import (
	"strings"
	"testing"

	"weir/model"
)

// TestSizePool: how many KV blocks there are, for every wish and every machine, where the
// length of the longest sequence was asked for.
func TestSizePool(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		asked, limit, weights int64
		blocks                int64
	}{
		{0, 1 << 40, 0, 1 + 63*10},                         // no more than can be used
		{0, 0, 0, 1 + 63*10},                               // the memory is unknown
		{64 * 16 * 100, 1 << 50, 0, 64},                    // what was asked for, if one sequence fits
		{64*16*100 + 1599, 1 << 50, 0, 64},                 // whole blocks
		{5000 * 16 * 100, 1 << 20, 0, 5000},                // more than the machine seems to have, because it was asked for
		{64*16*100 - 1, 1 << 50, 0, 0}, {1, 1 << 50, 0, 0}, // too little
		{0, 1024 * mib, 1024*mib - 64*mib - ownMemory - leastRequestMemory - 100*1600, 100}, // what the weights leave
		{0, 1024 * mib, 1024*mib - 64*mib - ownMemory - leastRequestMemory - 63*1600, 0},
	} {
		opt := model.Options{BlockTokens: 16, MaxSeqs: 10, MaxSeqTokens: 1000} // 63 blocks a sequence
		blocks, bytes, err := cacheRoom{asked: c.asked, limit: c.limit, weights: c.weights}.sizePool(&opt, 100)
		if int64(blocks) != c.blocks || (err != nil) != (c.blocks == 0) || bytes != int64(blocks)*1600 || opt.MaxSeqTokens != 1000 {
			t.Errorf("%+v: %d blocks, %d bytes, sequences of %d, %v", c, blocks, bytes, opt.MaxSeqTokens, err)
		}
	}
}

// TestSizeStates: networks with recurrent states share the memory between blocks and slots.
func TestSizeStates(t *testing.T) {
	const state = 1 << 20
	for _, c := range []struct {
		asked         int64
		blocks, slots int
	}{
		{64*1600 + 4*state, 64, 4},             // what one sequence needs
		{64*1600 + 4*state - 1, 0, 4},          // too little
		{64*1600 + 40*state, 64 + 13107, 20},   // half of it at most
		{64*1600 + 400*state, 64 + 209059, 81}, // no more than sequences can use
	} {
		opt := model.Options{BlockTokens: 16, MaxSeqs: 10, MaxSeqTokens: 1000}
		blocks, bytes, err := cacheRoom{asked: c.asked, limit: 1 << 50, state: state}.sizePool(&opt, 100)
		if blocks != c.blocks || opt.StateSlots != c.slots || (err != nil) != (c.blocks == 0) || err == nil && (bytes > c.asked || bytes < c.asked-1600) {
			t.Errorf("%+v: %d blocks, %d slots, %d bytes, %v", c, blocks, opt.StateSlots, bytes, err)
		}
	}
}

// TestContextThatFits: without --max-model-len the context is the longest that the cache holds,
// at least leastContext tokens, and with it, it is what was asked for or nothing. The sizes are
// those of Llama-3.1-8B with bfloat16 keys and values.
func TestContextThatFits(t *testing.T) {
	const (
		perToken = 2 * 32 * 8 * 128 * 2
		full     = 131072
		gib      = 1 << 30
	)
	for _, c := range []struct {
		name                  string
		asked, limit, weights int64
		context               int  // 0: refused
		explicit              bool // whether the full context is given if it is asked for
	}{
		{"bfloat16 on 24 GiB", 0, 24 * gib, 15 * gib, 48<<10 - 256, false},
		{"4 bits on 24 GiB", 0, 24 * gib, 5 * gib, 70144, true},
		{"bfloat16 on 64 GiB", 0, 64 * gib, 15 * gib, full, true},
		{"4 bits on 8 GiB", 0, 8 * gib, 5 * gib, 16<<10 - 256, false},
		{"hardly any room", 0, 17 * gib, 16 * gib, leastContext, false},
		{"no room", 0, 16 * gib, 16 * gib, 0, false},
		{"unknown memory", 0, 0, 15 * gib, 32<<10 - 256, false},
		{"asked for", 2 * gib, 24 * gib, 15 * gib, 16<<10 - 256, false},
		{"asked for enough", 17 * gib, 24 * gib, 15 * gib, full, true},
		{"asked for too little", gib / 4, 24 * gib, 15 * gib, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			room := cacheRoom{asked: c.asked, limit: c.limit, weights: c.weights, shorten: true}
			checkContext(t, room, full, perToken, c.context)
			room.shorten = false
			want := 0
			if c.explicit {
				want = full
			}
			checkContext(t, room, full, perToken, want)
		})
	}
}

// checkContext sizes a pool for sequences of at most full tokens, and wants this context, or a
// refusal if it is 0. What the machine has is enough for the cache and the weights.
func checkContext(t *testing.T, r cacheRoom, full int, perToken int64, want int) {
	t.Helper()
	opt := model.Options{BlockTokens: 16, MaxSeqs: 256, MaxSeqTokens: full}
	blocks, bytes, err := r.sizePool(&opt, perToken)
	if want == 0 {
		if err == nil || !strings.Contains(err.Error(), "set --max-model-len") {
			t.Errorf("%+v: %d blocks, %v", r, blocks, err)
		}
		return
	}
	if err != nil || opt.MaxSeqTokens != want || (blocks-1)*16 < want || bytes != int64(blocks)*16*perToken {
		t.Errorf("%+v: context %d in %d blocks of %d bytes, want %d: %v", r, opt.MaxSeqTokens, blocks, bytes, want, err)
	}
	if r.asked == 0 && r.limit > 0 && bytes+r.weights > r.limit {
		t.Errorf("%+v: %s of cache", r, inUnits(bytes))
	}
}

// TestWholeContext: where prompts are not cut, a step and its activations bound the context.
func TestWholeContext(t *testing.T) {
	c := &model.Config{Layers: 32, Heads: 32, KVHeads: 8, HeadDim: 128, Hidden: 4096, Intermediate: 14336, VocabSize: 128256, Windows: make([]int, 32), MaxSeqTokens: 131072}
	for _, x := range []struct {
		tokens int
		memory int64
		want   int
	}{{0, 0, 131072}, {0, 1 << 40, 131072}, {8000, 1 << 40, 8000}, {300, 1 << 40, leastContext}, {200000, 1 << 40, 131072}, {0, 1 << 30, leastContext}} {
		if got := wholeContext(c, x.tokens, x.memory); got != x.want {
			t.Errorf("%+v: %d", x, got)
		}
	}
	memory := int64(24 << 30)
	if got := wholeContext(c, 0, memory); got <= leastContext || got >= 131072 || c.ActivationBytes(got) > memory/4 || got%256 != 0 {
		t.Errorf("%d tokens, whose activations take %s", got, inUnits(c.ActivationBytes(got)))
	}
}

// TestCheckMemory: weights that do not fit are refused before any is read.
func TestCheckMemory(t *testing.T) {
	for _, c := range []struct {
		weights, available, limit int64
		ok                        bool
	}{{1 << 30, 2 << 30, 0, true}, {3 << 30, 2 << 30, 0, false}, {3 << 30, 4 << 30, 2 << 30, false}, {1 << 40, 0, 0, true}} {
		err := checkMemory(c.weights, c.available, c.limit)
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
		if err != nil && !strings.Contains(err.Error(), "the weights take 3072MiB in memory and 2048MiB are available") {
			t.Error(err)
		}
	}
}
