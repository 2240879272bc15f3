package main

import (
	"fmt"
	"sort"

	"weir/backend"
	"weir/device/cpu"
	"weir/model"
)

// leastContext is the shortest context, in tokens, that is chosen where --max-model-len leaves
// the choice: a shorter one would cut many conversations, so that it has to be asked for.
const leastContext = 4096

// cacheBytes is how many bytes the keys and values of one token take in a KV block, with the groups of
// layers that windows of less than below positions make; 0: none.
func cacheBytes(c *model.Config, f cpu.Format, below int) (int64, error) {
	return cpu.KVBytesPerToken(f, c.GroupedShape(below))
}

// packedBytes is how many bytes of memory the weights take on the CPU. Embeddings stay in their
// mapped files.
func packedBytes(m *model.Model, c cpu.Config) (int64, error) {
	total := int64(0)
	for _, x := range m.Matrices() {
		n, err := c.MatrixBytes(x)
		if err != nil {
			return 0, err
		}
		total += n
	}
	return total, nil
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

// A cacheRoom is the memory that the KV cache may have.
type cacheRoom struct {
	asked   int64 // --kv-cache-memory, or 0
	limit   int64 // memory of the machine; 0: that is unknown
	weights int64 // what the weights take of it
	state   int64 // bytes of a sequence's recurrent state; 0: there is none
	groups  []backend.KVGroup
	// shorten says that the longest sequence may become shorter, down to leastContext,
	// so that it fits: it was not asked for.
	shorten bool
}

// blocksPerSequence is how many KV blocks the longest sequence holds at a time.
func (r cacheRoom) blocksPerSequence(o model.Options) int64 {
	s := backend.Spec{BlockTokens: o.BlockTokens, MaxTokens: o.MaxTokens, Groups: r.groups}
	return int64(s.SequenceBlocks(o.MaxSeqTokens))
}

// longest is the longest sequence that so many KV blocks are enough for, but not more than o.MaxSeqTokens.
func (r cacheRoom) longest(blocks int64, o model.Options) int64 {
	n := sort.Search(o.MaxSeqTokens, func(n int) bool {
		o := o
		o.MaxSeqTokens = n + 1
		return r.blocksPerSequence(o) > blocks
	})
	return int64(n)
}

// unknownRoom is the size of the KV cache on a machine whose memory is unknown.
const unknownRoom = 4 << 30

// budget is how many bytes the cache gets, for full sequences of one bytes each, of which least
// are needed at any rate. Without a wish it is a quarter of the machine's memory. It may be
// more, so that a full sequence fits: half of what the weights leave, or all of that if the
// length of the sequence was asked for.
func (r cacheRoom) budget(one, least int64) int64 {
	if r.asked > 0 {
		return r.asked
	}
	if r.limit == 0 {
		return max(unknownRoom, least)
	}
	left := max(0, r.limit-r.limit/16-r.weights-ownMemory-leastRequestMemory)
	most := left
	if r.shorten {
		most = left / 2
	}
	budget := max(min(r.limit/4, left), min(one, most))
	if r.shorten && r.limit-r.weights >= least {
		return max(budget, least)
	}
	return budget
}

// Networks with recurrent states keep them in slots, which share the memory of the cache: half of it
// at most, so that a running sequence has its state, the one before it and a checkpoint, and
// so that others have checkpoints to come back to.
const (
	leastStates       = 4 // with the state of an empty sequence
	statesPerSequence = 8
)

// sizePool chooses the number of KV blocks, the null block included, and returns
// how many bytes they take, with those of states of sequences, if there are any: their number is
// o.StateSlots then. perToken is the size of one position in bytes. The pool is not
// larger than the largest number of full sequences needs, and holds one full sequence at
// least. If it cannot, o.MaxSeqTokens becomes as much as fits, or there is an error that says
// which flags help.
func (r cacheRoom) sizePool(o *model.Options, perToken int64) (blocks int, bytes int64, err error) {
	block, perSeq := perToken*int64(o.BlockTokens), r.blocksPerSequence(*o)
	least := *o
	least.MaxSeqTokens = min(leastContext, o.MaxSeqTokens)
	states := leastStates * r.state
	budget := r.budget((1+perSeq)*block+states, (1+r.blocksPerSequence(least))*block+states)
	if r.state > 0 {
		o.StateSlots = int(max(leastStates, min(budget/2/r.state, int64(1+statesPerSequence*o.MaxSeqs))))
		states = int64(o.StateSlots) * r.state
		budget = max(0, budget-states)
	}
	n := min(budget/block, int64(1<<31-1)/int64(o.BlockTokens))
	if n < 1+perSeq && r.shorten && n >= 1+r.blocksPerSequence(least) {
		o.MaxSeqTokens = roundContext(r.longest(n-1, *o))
		perSeq = r.blocksPerSequence(*o)
	}
	if r.asked == 0 {
		n = min(n, 1+perSeq*int64(o.MaxSeqs))
	}
	if n >= 1+perSeq {
		return int(n), n*block + states, nil
	}
	short := *o
	if r.shorten {
		short = least
	}
	fits, needs := r.longest(n-1, *o), inUnits((1+r.blocksPerSequence(short))*block+states)
	return 0, 0, fmt.Errorf("one sequence of %d tokens needs %s of KV cache, there are %s: set --max-model-len to at most %d, or --kv-cache-memory to at least %s",
		short.MaxSeqTokens, needs, inUnits(budget+states), fits, needs)
}

// roundContext rounds a number of tokens down to a multiple of 256 from leastContext on, so that
// small differences between machines change nothing.
func roundContext(tokens int64) int {
	if tokens >= leastContext {
		tokens -= tokens % 256
	}
	return int(tokens)
}

// wholeContext is the longest sequence to plan for where prompts are not cut and no length was
// asked for: the activations of a step that computes such a prompt take no more than a quarter
// of a device's memory, 0 if that is unknown. tokens is how many a step has, or 0.
func wholeContext(c *model.Config, tokens int, memory int64) int {
	most := int64(c.MaxSeqTokens)
	if memory > 0 {
		most = min(most, memory/4/max(1, c.ActivationBytes(1)))
	}
	if tokens > 0 {
		most = min(most, int64(tokens))
	}
	if least := min(leastContext, c.MaxSeqTokens); most < int64(least) {
		return least
	}
	if most < int64(c.MaxSeqTokens) && tokens == 0 {
		return roundContext(most)
	}
	return int(most)
}
