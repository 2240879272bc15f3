package main

import (
	"strings"
	"testing"

	"weir/model"
)

// TestSizePool: how many KV blocks there are, for every wish and every machine.
func TestSizePool(t *testing.T) {
	opt := model.Options{BlockTokens: 16, MaxSeqs: 10, MaxSeqTokens: 1000} // 63 blocks a sequence
	for _, c := range []struct {
		asked, limit int64
		blocks       int
	}{
		{0, 400 * 16 * 100 * 4, 400},                 // a quarter of the memory
		{0, 1 << 50, 1 + 63*10},                      // no more than can be used
		{0, 0, 1 + 63*10},                            // the memory is unknown
		{64 * 16 * 100, 1 << 50, 64},                 // what was asked for, if one sequence fits
		{64*16*100 + 1599, 1 << 50, 64},              // whole blocks
		{5000 * 16 * 100, 1 << 20, 5000},             // more than the machine seems to have, because it was asked for
		{64*16*100 - 1, 1 << 50, 0}, {1, 1 << 50, 0}, // too little
	} {
		blocks, bytes, err := sizePool(opt, 100, c.asked, c.limit)
		if blocks != c.blocks || (err != nil) != (c.blocks == 0) || bytes != int64(blocks)*1600 {
			t.Errorf("%+v: %d blocks, %d bytes, %v", c, blocks, bytes, err)
		}
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
