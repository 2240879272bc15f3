package main

import (
	"fmt"

	"weir/device/cpu"
	"weir/model"
)

// cacheBytes is how many bytes the keys and values of one token take.
func cacheBytes(c *model.Config, f cpu.Format) (int64, error) {
	return cpu.KVBytesPerToken(f, model.Shape{Layers: c.Layers, KVHeads: c.KVHeads, HeadDim: c.HeadDim})
}

// packedBytes estimates how many bytes of memory the weights take. An embedding
// that is not the output head as well stays in its mapped file.
func packedBytes(m *model.Model, f cpu.Format) int64 {
	n, stored := m.Parameters(), m.WeightBytes()
	packed := n
	if !m.Config.TiedHead {
		packed -= int64(m.Config.VocabSize) * int64(m.Config.Hidden)
	}
	if f == cpu.Auto {
		return stored / n * packed
	}
	return f.MatrixBytes(packed)
}

// checkMemory refuses weights that do not fit into the memory that is free now. The
// KV cache is not counted: its pages are taken little by little, when more memory
// may be free.
func checkMemory(weights, available, limit int64) error {
	if limit > 0 {
		available = min(available, limit)
	}
	if available > 0 && weights > available {
		return fmt.Errorf("the weights take %s in memory and %s are available: free some, or choose a smaller type with --quantization", inUnits(weights), inUnits(available))
	}
	return nil
}

// blocksPerSequence is how many KV blocks the longest sequence needs.
func blocksPerSequence(o model.Options) int64 {
	return int64((o.MaxSeqTokens + o.BlockTokens - 1) / o.BlockTokens)
}

// sizePool chooses the number of KV blocks, the null block included, and returns
// how many bytes they take. perToken is the size of one position in bytes, asked is
// the value of --kv-cache-memory or 0, and limit is the memory of the machine, or 0
// if that is unknown. Without a wish the pool gets a quarter of the memory, but no
// more than the largest number of full sequences needs. A pool that cannot hold one
// full sequence is an error that says which flags help.
func sizePool(o model.Options, perToken, asked, limit int64) (blocks int, bytes int64, err error) {
	block, perSeq := perToken*int64(o.BlockTokens), blocksPerSequence(o)
	budget := asked
	if budget == 0 {
		if budget = limit / 4; limit == 0 {
			budget = 4 << 30
		}
		budget = min(budget, block*(1+perSeq*int64(o.MaxSeqs)))
	}
	n := budget / block
	if n < 1+perSeq {
		fits := max(0, n-1) * int64(o.BlockTokens)
		return 0, 0, fmt.Errorf("one sequence of %d tokens needs %s of KV cache, there are %s: set --max-model-len to at most %d, or --kv-cache-memory to at least %s",
			o.MaxSeqTokens, inUnits((1+perSeq)*block), inUnits(budget), fits, inUnits((1+perSeq)*block))
	}
	n = min(n, int64(1<<31-1)/int64(o.BlockTokens))
	return int(n), n * block, nil
}
