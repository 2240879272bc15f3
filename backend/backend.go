package backend

import (
	"errors"
	"fmt"
	"math"
)

// ErrModelLost is the error of a step that could not be computed because a file of the model was
// cut, or cannot be read any more, while it is served. What to do is for the operator.
var ErrModelLost = errors.New("backend: the model is lost")

// Spec is what a backend tells the engine once, when it is opened.
type Spec struct {
	VocabSize    int  // logits per row; token ids are in [0, VocabSize)
	BlockTokens  int  // KV slots per block
	NumBlocks    int  // blocks in the pool; block 0 is the null block and is never handed out
	MaxTokens    int  // most tokens T of one batch
	MaxSeqs      int  // most sequences S of one batch
	MaxSeqTokens int  // longest sequence, prompt and output together
	Depth        int  // most steps in flight: 1 or 2
	StateSlots   int  // slots for the recurrent states of sequences, slot 0 included, which is the state of an empty one; 0: there is no such state
	Hidden       int  // columns of the vectors that rows can report (Draw.Hidden); 0: none
	LongAfter    int  // a sequence of more tokens than this, known or drawn, is a long one (Batch.Long); 0: none is
	Whole        bool // the network is an encoder: a position sees all others, so that a sequence is computed in one step
	// Groups are the kinds of layers by how far they look back, each with a block table of its own
	// for every sequence. nil: one group of layers that see all positions.
	Groups      []KVGroup
	ThreadBound bool // every call must come from the OS thread that opened the backend
}

// MaskWords is the length of one mask row in 32-bit words.
func (s Spec) MaskWords() int { return (s.VocabSize + 31) / 32 }

// KVGroup is a group of layers that see the same positions. Blocks of the pool have room for the keys
// and values of the layers of one group, any of them, so that all groups have as many layers, or
// some of the room is not used.
type KVGroup struct {
	Window int // a position sees itself and the Window-1 before it; 0: all
	Chunk  int // a position sees those from pos/Chunk*Chunk on; 0: all
}

// First is the first position that a token at position pos sees.
func (g KVGroup) First(pos int) int {
	first := 0
	if g.Window > 0 {
		first = max(first, pos-g.Window+1)
	}
	if g.Chunk > 0 {
		first = max(first, pos/g.Chunk*g.Chunk)
	}
	return first
}

// span is the most positions that the tokens of a run of n positions see, or 0 if they see all.
func (g KVGroup) span(n int) int {
	span := 0
	for _, w := range [2]int{g.Window, g.Chunk} {
		if w > 0 && (span == 0 || w-1+n < span) {
			span = w - 1 + n
		}
	}
	return span
}

// Equal reports whether s and t are the same contract.
func (s Spec) Equal(t Spec) bool { return fmt.Sprint(s) == fmt.Sprint(t) }

// NumGroups is the number of block tables of a sequence.
func (s Spec) NumGroups() int { return max(1, len(s.Groups)) }

// Group is the group with that number.
func (s Spec) Group(i int) KVGroup {
	if len(s.Groups) == 0 {
		return KVGroup{}
	}
	return s.Groups[i]
}

// SequenceBlocks is the most blocks that a sequence of so many tokens holds at a time, if blocks that
// it does not see any more return when a step ends. Where it looks back less far than that, this counts
// the tokens of two steps, which may be in flight together.
func (s Spec) SequenceBlocks(tokens int) int {
	blocks := func(n int) int { return n/s.BlockTokens + min(1, n%s.BlockTokens) }
	total := 0
	for i := range s.NumGroups() {
		n := blocks(tokens)
		if span := s.Group(i).span(2 * s.MaxTokens); span > 0 {
			n = min(n, blocks(span)+1)
		}
		total += n
	}
	return total
}

// PoolTokens is how many tokens the pool has room for in sequences of the greatest length. Shorter ones than a window take as much of the
// pool for each token as if all layers saw everything, which is the least that it has room for: NumBlocks-1 blocks for NumGroups tables.
func (s Spec) PoolTokens() int {
	if len(s.Groups) == 0 {
		return (s.NumBlocks - 1) * s.BlockTokens
	}
	return (s.NumBlocks - 1) * s.MaxSeqTokens / s.SequenceBlocks(s.MaxSeqTokens)
}

// Batch is one step's forward pass: for each sequence a run of consecutive
// positions, the sequences back to back. The engine owns the slices; the
// backend may read them from Begin until the End of the same step has
// returned, and never writes to them. With G groups (Spec.Groups), everything about blocks is there
// for each group: first for all sequences in group 0, then for all in group 1, and so on. Of a table
// the entries below what the run sees are 0.
type Batch struct {
	Tokens   []int32 // [T] token id, or ^r: the token that row r of the previous step draws
	Pos      []int32 // [T] position of the token in its sequence, from 0
	Slots    []int32 // [G, T] KV slot that receives the token: block*BlockTokens + offset
	QueryEnd []int32 // [S] end of the sequence's run in Tokens; runs are never empty
	KVLen    []int32 // [S] positions of the sequence that are in the cache after this step
	TableEnd []int32 // [G, S] end of the sequence's block table in Tables
	Tables   []int32 // [TableEnd[G*S-1]] block tables back to back, no padding; entry i of a table covers positions [i*BlockTokens, (i+1)*BlockTokens)
	StateIn  []int32 // [S] state slot that the sequence goes on from; 0: it starts at position 0. Empty if Spec.StateSlots is 0
	StateOut []int32 // [S] state slot that receives the state after the run; may equal StateIn, unless that is 0
	Long     []int32 // [S] 1: the sequence is long, so that all its positions are rotated in another way, and its whole cache was computed so; empty: none is
	Types    []int32 // [T] token types (segments) of an encoder's input; empty: all 0
	At       []int32 // [R] indices into Tokens whose logits are wanted, ascending
}

// Reset empties b and keeps its memory.
func (b *Batch) Reset() {
	b.Tokens, b.Pos, b.Slots = b.Tokens[:0], b.Pos[:0], b.Slots[:0]
	b.QueryEnd, b.KVLen, b.TableEnd, b.Tables, b.At = b.QueryEnd[:0], b.KVLen[:0], b.TableEnd[:0], b.Tables[:0], b.At[:0]
	b.StateIn, b.StateOut, b.Types, b.Long = b.StateIn[:0], b.StateOut[:0], b.Types[:0], b.Long[:0]
}

// IsLong reports whether sequence i is long.
func (b *Batch) IsLong(i int) bool { return len(b.Long) > 0 && b.Long[i] != 0 }

// Edit changes one token's logit before the draw:
//
//	v = logit + Bias
//	v = v / Repeat if v > 0, else v * Repeat
//	v = v - Minus
//
// in float32, each operation rounded on its own. Bias -Inf forbids the token.
// A row names a token at most once, so a device may apply a row's edits in any
// order.
type Edit struct {
	Token  int32
	Bias   float32 // logit_bias; -Inf for bad words and, below min_tokens, stop ids
	Repeat float32 // repetition_penalty; 1 is none
	Minus  float32 // frequency_penalty * count + presence_penalty
}

// Forbid is the bias that no other bias or penalty can undo.
var Forbid = float32(math.Inf(-1))

// LogprobMode says which distribution log-probabilities are taken from.
type LogprobMode uint8

const (
	NoLogprobs        LogprobMode = iota // none wanted
	RawLogprobs                          // the logits after Draw.Mask and before everything else
	ProcessedLogprobs                    // what the draw itself uses: edits, temperature and filters applied
)

// Draw says how one row becomes a token. See package sampler for the exact
// arithmetic, which every device repeats.
type Draw struct {
	Seed        uint64
	Index       uint32  // output index: with Seed and the token id it determines the random number
	Temperature float32 // 0: the most likely token
	TopP        float32 // (0, 1]; 1 is off
	MinP        float32 // [0, 1]; 0 is off
	TopK        int32   // 0 is off
	EditEnd     int32   // this row's edits are Edits[EditEnd of the row before:EditEnd]
	Mask        int32   // row of Masks applied before RawLogprobs are taken (a grammar), or -1
	Allow       int32   // row of Masks applied after (allowed_token_ids), or -1
	Target      int32   // draw nothing: report on this token (prompt_logprobs), or -1
	Top         int32   // number of best tokens to report; may be more than there are
	Logprobs    LogprobMode
	Host        bool // copy the row's logits, before any change, to Out.Logits
	Dead        bool // the sequence ended meanwhile: the result is not read
	Hidden      bool // draw nothing: copy the row's vector, the input of the head, to Out.Hidden
}

// Draws is what turns a step's rows into tokens, one Draw for each Batch.At.
// The engine owns the slices; the backend may read them from Draw until the
// End of the same step has returned. The contents of Edits and Masks, but not
// their lengths, may still change until Ready has returned.
type Draws struct {
	Rows  []Draw   // [R]
	Edits []Edit   // ranges named by Draw.EditEnd
	Masks []uint32 // [M, MaskWords] bit v%32 of word v/32 says that token v is legal
	Ready func()   // nil, or to be called before Edits and Masks are read: it waits for whoever fills them
}

// Reset empties d and keeps its memory.
func (d *Draws) Reset() {
	d.Rows, d.Edits, d.Masks, d.Ready = d.Rows[:0], d.Edits[:0], d.Masks[:0], nil
}

// Out is one step's result. The engine sizes and owns the slices.
type Out struct {
	Tokens      []int32   // [R] the drawn token (or Target); -1 if no token is legal
	Logprobs    []float32 // [R] its log-probability, where Draw.Logprobs asks
	Ranks       []int32   // [R] 1 + the number of tokens with a greater log-probability, where asked
	TopTokens   []int32   // [sum of Top] best tokens of each row, best first, ties to the lower id; -1 where fewer exist
	TopLogprobs []float32 // [sum of Top]
	Hidden      []float32 // [rows with Draw.Hidden, Spec.Hidden] their vectors in order
	Logits      []float32 // [H, VocabSize] the Host rows in order
}

// Backend runs steps. Only the engine goroutine calls it. After an error from
// any call, Close is the only call that may follow.
type Backend interface {
	Spec() Spec
	// Begin starts the forward pass of a step. A synchronous device only keeps the batch.
	Begin(*Batch) error
	// Draw follows with the draws of the same step, one for each row of its batch, when
	// all earlier steps have ended.
	Draw(*Draws) error
	// End waits for the oldest step and fills out.
	End(*Out) error
	// Close waits for the steps in flight, if it can, and frees everything.
	Close() error
}
