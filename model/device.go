package model

import (
	"slices"
	"strings"

	"weir/backend"
	"weir/weights"
)

// Act names the columns [Off, Off+Width) of activation buffer Buf. A buffer holds float32
// values, or less where ActShape allows it, one row per token of the step, or one per drawn
// row if it is Drawn. An operation works on as many rows as its buffers have. The distance
// of rows is the buffer's width, so views of one buffer (Q, K and V of one product) cost
// nothing.
type Act struct{ Buf, Off, Width int }

// Cols is the view of columns [off, off+width) of a.
func (a Act) Cols(off, width int) Act { return Act{a.Buf, a.Off + off, width} }

// Weight is a handle that a device returned for loaded parameters.
type Weight int

// NoWeight stands for parameters that a network does not have.
const NoWeight Weight = -1

// Use says which operations read a loaded matrix, so that a device can choose its layout.
type Use uint8

const (
	Linear    Use = iota // [N, K]: MatMul, MatMulAdd, Experts.Down and Draw
	Embedding            // [V, D]: Embed and EmbedAdd
	Vector               // [N]: every other operation
	Gated                // [F, K] of gate and [F, K] of up: MatMulGate and Experts.GateUp
	// Exact is a Linear matrix that is multiplied in float32, with rows that are not rounded,
	// whatever a device does with others: a router's, whose choice a rounding could change.
	Exact
)

// Matrix is a layer's parameters as the checkpoint has them. Rows are stacked along the
// first dimension, so that Q, K and V, or gate and up, become one product:
// [N0, K], [N1, K], ... become [N0+N1+..., K].
type Matrix struct {
	Use  Use
	Rows []weights.Tensor
	Bias []weights.Tensor // nothing, or one [Ni] for each of Rows
}

// Rope is a rotary embedding: a pair of dimensions of a head is rotated by the angle
// pos * InvFreq[i]. Pairs are dimensions i and i + len(InvFreq) (the half-split or "NeoX" kind),
// or 2i and 2i+1 if Interleaved. Only 2*len(InvFreq) dimensions of a head are rotated, those
// from Offset on.
type Rope struct {
	InvFreq     []float32 // [rotated dimensions / 2]
	Scale       float32   // factor on sin and cos; 1 but for some scaled variants
	Interleaved bool
	Offset      int
	// Long are the InvFreq of long sequences (backend.Batch.Long), and LongScale is their Scale; nil:
	// they are as the others.
	Long      []float32
	LongScale float32
}

// Heads says what StoreKV does to the heads of queries, keys and values.
type Heads struct {
	// QNorm and KNorm say that each head of queries or keys is normed by itself; Size and
	// Gate of these norms are not used. VNorm is the same for values.
	QNorm, KNorm, VNorm HeadNorm
	// Rope is the table of Shape.Ropes by which heads of queries and keys are rotated, or NoRope.
	Rope int
	// NormAfterRope says that heads are rotated first and normed then.
	NormAfterRope bool
	// Temper scales the queries by their position, after everything else.
	Temper Temper
}

// HeadNorm is a norm over each head.
type HeadNorm struct {
	On        bool
	W         Weight // [head size], or NoWeight: 1
	Eps       float32
	LayerNorm bool // the mean is subtracted first
	PerHead   bool // W is [heads * head size], with numbers for each head
}

// Temper is a factor on queries that grows with their position:
// 1 + Beta*ln(1 + floor((pos+Shift)/Floor)). A Beta of 0 is no factor.
type Temper struct {
	Beta, Floor float32
	Shift       int
}

// NoRope is the Heads.Rope of a layer that does not rotate its heads.
const NoRope = -1

// Attention is what a layer's attention needs besides its rows.
type Attention struct {
	Scale  float32 // factor on Q·K, usually 1/sqrt(KeyDim)
	Window int     // a position sees itself and the Window-1 before it; 0: all
	// Chunk says that a position sees only those of its own chunk: positions from
	// pos/Chunk*Chunk on; 0: all.
	Chunk int
	// Bidirectional says that a position sees those after it, too, as far as they are in the
	// step, and with a Window those that are less than Window positions away to either side.
	Bidirectional bool
	// Softcap bounds scores smoothly: Softcap*tanh(score/Softcap), after Scale; 0: no bound.
	Softcap float32
	// Chosen says that a position sees, of those that it would see otherwise, what the Select before chose.
	Chosen bool
	// Sinks, [Heads], are scores of a position that has no value; NoWeight: there is none.
	Sinks Weight
	// Slopes, [Heads], are what a score falls by with each position that lies between a key and the query, after
	// Scale and before Softcap (Press et al., "Train Short, Test Long", 2021); nil: it does not fall.
	Slopes []float32
	// Buckets sort the distances of keys from the query: that of distance d (negative: the key comes first) is
	// Buckets[len(Buckets)/2+d], and farther ones are as the first or the last. Bias, [buckets, Heads], is added to scores as
	// Slopes are; nil: nothing is, and Bias is not used.
	Buckets []int32
	Bias    Weight
}

// Selection is how Select chooses positions: the TopK with the greatest sums over heads h of
// weights[h] * max(Scale * q[h]·k, 0).
type Selection struct {
	TopK  int
	Scale float32
}

// NormKind is one of the norms.
type NormKind uint8

const (
	RMSNorm   NormKind = iota // x / sqrt(mean(x²)+eps) * w
	LayerNorm                 // (x-mean(x)) / sqrt(variance(x)+eps) * w + b
	// These are of whole rows, and need no more than what they name.
	Weighted // x * w
	Above    // max(x - mean(x) - Cut*sqrt(variance(x)), 0)
	Matched  // x * sqrt(mean(Gate²) / max(mean(x²), eps)): x with the magnitude of Gate
)

// Norm is what the operation Norm does to a row.
type Norm struct {
	Kind NormKind
	W    Weight // [Size] or [width]; NoWeight: 1
	B    Weight // the same, of a LayerNorm; NoWeight: 0
	Eps  float32
	// Size is how many columns are normed together; 0: all columns of the row. W has either so
	// many numbers, the same for each group, or one for each column.
	Size int
	// Gate, if its Width is not 0, is as wide as the row. The row is multiplied by
	// GateBy(Gate), before it is normed if GateFirst, and otherwise afterwards.
	Gate      Act
	GateBy    Activation
	GateFirst bool
	Cut       float32 // of Above
}

// ActivationKind is a function of one number.
type ActivationKind uint8

const (
	Identity ActivationKind = iota
	SiLU                    // x * sigmoid(Alpha*x), where an Alpha of 0 stands for 1
	GELU                    // x * Phi(x), with the error function
	GELUTanh                // its approximation by tanh
	ReLU
	ReLUSquared // max(x, 0)²
	Sigmoid
	Tanh
	XIELU // Alpha, Beta and Limit are alpha_p, alpha_n and beta: see xielu
	Clip  // min(max(x, -Limit), Limit), only for Device.Activate
)

// Activation is a function of one number with its parameters. In a gated product, activation(gate)
// is multiplied with up + UpPlus. A Limit, if it is not 0, bounds the gate from above and up to
// both sides before that (gpt-oss, transformers/models/gpt_oss/modeling_gpt_oss.py); for XIELU it
// is beta, and UpPlus is eps.
type Activation struct {
	Kind               ActivationKind
	Alpha, Beta, Limit float32
	UpPlus             float32
}

// ScoreKind says how a router's logits become scores.
type ScoreKind uint8

const (
	Softmax      ScoreKind = iota // over all experts
	SoftmaxTop                    // over those that are chosen, which have the greatest logits
	SigmoidScore                  // of each logit
	SqrtSoftplus                  // of each logit
	// SparseMixer chooses two experts one after the other (Liu et al., "GRIN", 2024; transformers,
	// phimoe, sparsemixer): the score of each is its part in a softmax over the experts that are
	// left and whose logit x is near the greatest, t, of them: (t-x) / max(|x|, t) <= 2*Jitter.
	SparseMixer
)

// Router chooses experts for each row by its logits. Experts are chosen by score + Bias; those
// with equal numbers in ascending order. The weight of a chosen one is its score.
type Router struct {
	TopK  int
	Score ScoreKind
	Bias  Weight // [E] is added for the choice only; NoWeight: 0
	// Groups of experts with consecutive numbers, of which the TopGroups best are considered,
	// by their best expert or, with GroupBest2, by the sum of their best two. Experts of other
	// groups cannot be chosen. 0: no groups.
	Groups, TopGroups int
	GroupBest2        bool
	// Renorm divides the weights by their sum plus RenormAdd, or by Floor if that is greater.
	Renorm           bool
	Floor, RenormAdd float32
	Jitter           float32 // of SparseMixer
	Scale            float32 // factor on the weights, after Renorm
	PerExpert        Weight  // [E] further factors; NoWeight: 1
}

// Experts is a mixture of feed-forward networks.
type Experts struct {
	Router
	GateUp []Weight // [E] each Gated, [F, D] and [F, D], or Linear, [F, D], if Plain
	Down   []Weight // [E] each Linear, [D, F]
	Plain  bool     // there is no gate: Act is applied to the first product
	Inner  int      // F
	Act    Activation
	// ScoreInput says that the weight multiplies the input of an expert, and not its output.
	ScoreInput bool
}

// Conv is a causal convolution along each column of a sequence, followed by an activation:
// dst[t] = Act(bias + sum over k of w[k] * src[t-Width+1+k]).
type Conv struct {
	State int    // of Shape.States: the last Width-1 rows of src, in an order of the device's own
	W     Weight // [columns * Width]: the weights of each column one after another
	B     Weight // [columns], or NoWeight
	Width int
	Act   Activation
}

// Delta is the gated delta rule (Yang et al., "Gated Delta Networks", 2024): a state S of
// [KeyDim, ValueDim] for each value head, which starts as 0. For each token
//
//	S = S * exp(A * softplus(a + DtBias))
//	S = S + k ⊗ (sigmoid(b) * (v - k·S))
//	out = Scale * q·S
//
// q and k are divided by sqrt(sum(x²) + L2Eps) first. Everything is float32, token by token, and
// sums run over the key dimensions in ascending order. Value head h uses key head h / (ValueHeads/KeyHeads).
type Delta struct {
	State                int // of Shape.States, [ValueHeads, KeyDim, ValueDim]
	KeyHeads, ValueHeads int
	KeyDim, ValueDim     int
	A                    Weight // [ValueHeads], negative
	DtBias               Weight // as many as columns of a
	PerChannel           bool   // a is [., ValueHeads*KeyDim], a decay for each key dimension; else [., ValueHeads]
	Scale                float32
	L2Eps                float32
	Lower                float32 // less than 0: the decay is exp(Lower * sigmoid(-A * (a+DtBias))) instead
	BetaScale            float32 // factor on sigmoid(b): 1, or 2 where eigenvalues may be negative
}

// Scan is the recurrence of Mamba 2 (Dao and Gu, "Transformers are SSMs", 2024): a state of
// [HeadDim, StateDim] for each head. With dt = clamp(softplus(dt + DtBias), DtMin, DtMax)
//
//	S = S * exp(dt * A) + dt * x ⊗ B
//	out = S·C + D * x
//
// Heads of a group share B and C. Everything is float32, token by token. With PerState it is that of Mamba 1 (Gu and Dao,
// "Mamba", 2023): a head is one column, with a rate for each number of its state, and there is one group.
type Scan struct {
	State          int // of Shape.States, Heads*HeadDim*StateDim numbers in an order of the device's own
	Heads, HeadDim int
	Groups         int
	StateDim       int
	A, D, DtBias   Weight // [Heads]; A is negative
	DtMin, DtMax   float32
	PerState       bool // A is [Heads * StateDim], HeadDim and Groups are 1
}

// Shape is all that a device needs to allocate everything it will ever use.
type Shape struct {
	KV      []KVShape         // caches of keys and values, usually one for each layer; StoreKV and Attend name them
	Sees    []backend.KVGroup // by cache: the positions that the layers see that read it
	Places  []KVPlace         // by cache, where Spec.Groups are set (GroupKV); nil: all are in the blocks of one table
	States  []int             // float32 numbers of each recurrent state of a sequence
	Acts    []ActShape        // activation buffers; Act.Buf indexes them
	Ropes   []Rope            // Heads.Rope indexes them
	Windows []int             // every Attention.Window there is, once
	Experts ExpertShape
	Pieces  Pieces // what the network is made of besides what every decoder has
	Spec    backend.Spec
}

// ExpertShape has the greatest sizes of any Experts of a network; all are 0 if there are none.
type ExpertShape struct{ Experts, TopK, Width, Inner int }

// KVShape describes the cache of one layer, or of several that share it.
type KVShape struct {
	Heads    int // of queries, the most of any layer that reads it
	KVHeads  int // divides Heads
	KeyDim   int // columns of a head of queries and keys
	ValueDim int // columns of a head of values; 0: nothing reads values, and there are none
	// ValueInKey says that a value is the first ValueDim columns of its key, which neither a norm nor a
	// rotation of StoreKV changes. A device need not keep it again.
	ValueInKey bool
}

// Numbers is how many numbers a KV head has for a position, if values in keys are not kept again.
func (s KVShape) Numbers() int {
	if s.ValueInKey {
		return s.KeyDim
	}
	return s.KeyDim + s.ValueDim
}

// UniformKV describes layers whose caches are alike.
func UniformKV(layers, heads, kvHeads, headDim int) []KVShape {
	return slices.Repeat([]KVShape{{Heads: heads, KVHeads: kvHeads, KeyDim: headDim, ValueDim: headDim}}, layers)
}

// Uniform returns the number of layers and the shape of their caches, if all are equal and
// heads of keys and values have one size.
func (s *Shape) Uniform() (layers int, shape KVShape, ok bool) {
	if len(s.KV) == 0 {
		return 0, KVShape{}, false
	}
	for _, kv := range s.KV {
		if kv != s.KV[0] || kv.KeyDim != kv.ValueDim {
			return 0, KVShape{}, false
		}
	}
	return len(s.KV), s.KV[0], true
}

// Pieces is a set of parts of networks that not every device can compute. A device refuses in
// Plan what it cannot do, so that a network that is opened can be computed.
type Pieces uint32

const (
	PieceExperts       Pieces = 1 << iota // Experts
	PieceDelta                            // Delta
	PieceScan                             // Scan
	PieceConv                             // Conv
	PieceSinks                            // Attention.Sinks
	PieceSoftcap                          // Attention.Softcap
	PieceChunks                           // Attention.Chunk
	PieceBidirectional                    // Attention.Bidirectional
	PieceLayerNorm                        // LayerNorm of rows
	PieceGroupNorm                        // Norm with a Size, a gate or without weights, or of a part of a row
	PieceRopeKinds                        // Rope.Interleaved or Rope.Offset
	PieceTemper                           // Heads.Temper
	PieceHeadSizes                        // Shape.KV that is not Uniform
	PieceActivations                      // an Activation other than SiLU of a gate, or one without a gate
	PieceElements                         // Activate, Gate, Add, Scale; Embed with a scale
	PieceSharedKV                         // StoreKV without keys
	PieceEncoder                          // EmbedAdd by type, and rows whose vectors are reported
	PieceHead                             // Head.Scale, Head.Softcap or a bias of the head
	PieceHeadNorms                        // Heads with a norm other than RMSNorm with weights of queries and keys before the rotation
	PieceLongRope                         // Rope.Long
	PieceStreams                          // Norms that are Weighted, Above or Matched
	PieceSelect                           // Select
	PieceBoundedDecay                     // Delta.Lower
	PieceGroups                           // Spec.Groups
	PieceSlopes                           // Attention.Slopes
	PieceClip                             // Activate with Clip
	PiecePositions                        // EmbedAdd by position
	PieceSelective                        // Scan.PerState
	PieceBuckets                          // Attention.Buckets
	pieceEnd
)

// pieceNames are the words for messages, in the order of the bits.
var pieceNames = []string{"experts", "the gated delta rule", "the state of Mamba", "convolutions", "attention sinks",
	"soft-capped scores", "chunked attention", "attention in both directions", "layer norms with a mean", "norms of groups or with gates",
	"rotary embeddings of interleaved pairs", "queries scaled by position", "layers whose heads differ", "activations other than SiLU",
	"scaled, gated or separately added activations", "layers that share keys and values", "encoders", "scaled or capped logits", "other norms of heads", "rotations of their own for long sequences", "several residual streams", "attention to chosen positions", "the delta rule with a bounded decay", "KV blocks by groups of layers",
	"scores that fall with distance", "queries, keys and values within bounds", "learned positions", "the state of Mamba 1",
	"scores with a learned part for each distance"}

// String lists the pieces of p in words.
func (p Pieces) String() string {
	var list []string
	for i, name := range pieceNames {
		if p&(1<<i) != 0 {
			list = append(list, name)
		}
	}
	return strings.Join(list, ", ")
}

// ActShape describes one activation buffer.
type ActShape struct {
	Width int
	Drawn bool // it has one row per entry of Batch.At (at most MaxTokens), not per token
	// Sum marks a buffer that is kept in float32 by a device that keeps other activations in
	// less: the residual stream, which MatMulAdd adds to, what routers read, sums of experts.
	Sum bool
	// Factor says that products read the buffer, so that a device that multiplies rounded
	// rows can round each row when it is written.
	Factor bool
}

// Head is the product that gives logits: the head's weights times the row, times Scale, and then
// Softcap*tanh(logit/Softcap).
type Head struct {
	W       Weight  // [V, D], perhaps with a bias; NoWeight: rows are only reported, and never drawn
	Scale   float32 // 1: none
	Softcap float32 // 0: none
}

// Index says by what EmbedAdd looks up rows.
type Index uint8

const (
	ByPosition Index = iota // of the token in its sequence
	ByType                  // Batch.Types
)

// Device is what a decoder asks of the hardware. A step is
//
//	Begin, operations, EndForward, Draw, End
//
// also where no row is drawn. Operations are queued or done at once, as the device likes,
// and return nothing: the first error of a step is kept, and End returns it.
//
// What a device can do in one pass over its data is one operation, a product with its sum
// for example. No operation depends on which one follows it, and after each the contents of
// all buffers are defined, except for scratch buffers, which operations name as such.
//
// Batch invariance is part of the contract: what an operation writes into a row depends on
// that row's inputs alone, bit for bit, whatever else the batch holds and however a sequence
// was cut into chunks. Sums have one order.
type Device interface {
	// Plan allocates activations, KV blocks and scratch memory. It comes first, once.
	Plan(Shape) error
	// Load takes parameters in, in whatever layout the device likes. It refuses infinities
	// and NaN with the tensor's name. The tensors' bytes stay mapped until Close. Reading
	// them may fault: Load is called with weights.CatchFault deferred, and whoever reads
	// them on another goroutine, or later, defers it too. Handles count from 0.
	Load(Matrix) (Weight, error)

	// Begin starts the forward pass of a step. On a device with Spec.Depth 2 the operations
	// of the step before may still be running.
	Begin(*backend.Batch)
	// Embed writes row Tokens[t] of w, times scale, to row t of dst. A token that w has no row for has its row 0.
	Embed(dst Act, w Weight, scale float32)
	// EmbedAdd adds a row of w to row t of dst: row offset + Pos[t], or offset + Types[t].
	EmbedAdd(dst Act, w Weight, by Index, offset int)
	// Norm writes the norm of each row. dst may be src, and may be n.Gate.
	Norm(dst, src Act, n Norm)
	// MatMul writes the product src·wᵀ + bias.
	MatMul(dst Act, w Weight, src Act)
	// MatMulAdd adds the product src·wᵀ + bias to dst. scratch is as wide as dst, in a
	// buffer of its own; what it holds afterwards is not defined.
	MatMulAdd(dst Act, w Weight, src, scratch Act)
	// MatMulGate computes [gate | up] = src·wᵀ + bias, where w is Gated, and writes
	// a(gate)*up. scratch is as wide as the product, twice as wide as dst, in a buffer of
	// its own; what it holds afterwards is not defined.
	MatMulGate(dst Act, w Weight, src, scratch Act, a Activation)
	// Activate writes a(src). dst may be src.
	Activate(dst, src Act, a Activation)
	// Gate writes src * a(gate). gate is as wide as src, or a part of it that divides its
	// width: then each number of gate is for so many consecutive columns of src. dst may be src, and gate if that is as wide.
	Gate(dst, src, gate Act, a Activation)
	// Add adds scale*src to dst.
	Add(dst, src Act, scale float32)
	// Scale writes scale*src. dst may be src.
	Scale(dst, src Act, scale float32)
	// Experts routes each row by its logits, [., E], and writes the weighted sum of what the
	// chosen experts make of its row of src. The sum is float32, in ascending number of the
	// experts, and each expert's weights are read once for all its rows.
	Experts(dst, src, logits Act, e *Experts)
	// Conv, Delta and Scan go on from the state of each sequence in slot Batch.StateIn, and
	// leave in slot Batch.StateOut what it is after the last token of the run. The bits of a
	// state after a position are the same however the sequence was cut. dst may be src.
	Conv(dst, src Act, c *Conv)
	// Delta reads q, k [T, KeyHeads*KeyDim], v [T, ValueHeads*ValueDim], a and b, and writes
	// [T, ValueHeads*ValueDim].
	Delta(dst, q, k, v, a, b Act, d *Delta)
	// Scan reads x [T, Heads*HeadDim], b and c [T, Groups*StateDim], and dt [T, Heads].
	Scan(dst, x, b, c, dt Act, s *Scan)
	// StoreKV norms and rotates the heads of q, k and v as h says, each head by its token's
	// position. The new q replaces the old; the new k and v go to the tokens' slots of KV cache
	// number kv, and what the buffers of k and v hold stays as it is. q is [T, Heads*KeyDim],
	// k is [T, KVHeads*KeyDim] and v [T, KVHeads*ValueDim]; k and v may be the same view. If the
	// Width of both is 0, only q is changed, for a layer that reads another layer's cache. Where
	// values are parts of keys (KVShape.ValueInKey) v has the same numbers as these parts.
	StoreKV(kv int, q, k, v Act, h Heads)
	// Select chooses for each token, of the positions that it sees, its own included, those that s says, by q,
	// [T, heads*KeyDim], weights, [T, heads], and the keys in cache number kv, which has one KV head. Those with equal sums
	// are chosen in ascending order. The choice is good until the next one of the step.
	Select(q, weights Act, kv int, s Selection)
	// Attend writes softmax(scale*q·K)·V of the positions that a token sees, its own
	// included, over its sequence's blocks in cache number kv; dst is [T, Heads*ValueDim]. It
	// sees every StoreKV of that cache in this step.
	Attend(dst, q Act, kv int, a Attention)
	// Gather writes row At[r] of src to row r of dst, whose buffer is Drawn.
	Gather(dst, src Act)
	// EndForward ends the forward pass. Only Draw may follow.
	EndForward()

	// Draw computes the logits of the gathered rows and draws from them as package
	// sampler says. Rows with Draw.Hidden report their row of src instead. It calls d.Ready before it reads edits and masks. A device decides for
	// how many rows at a time it keeps the logits.
	Draw(head Head, src Act, d *backend.Draws)
	// End waits for the oldest step and fills out.
	End(*backend.Out) error
	Close() error
}
