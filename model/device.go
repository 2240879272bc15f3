package model

import (
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

// Use says which operations read a loaded matrix, so that a device can choose its layout.
type Use uint8

const (
	Linear    Use = iota // [N, K]: MatMul, MatMulAdd and Draw
	Embedding            // [V, D]: Embed
	Vector               // [D]: Norm, or [HeadDim]: StoreKV
	Gated                // [F, K] of gate and [F, K] of up: MatMulGate
)

// Matrix is a layer's parameters as the checkpoint has them. Rows are stacked along the
// first dimension, so that Q, K and V, or gate and up, become one product:
// [N0, K], [N1, K], ... become [N0+N1+..., K].
type Matrix struct {
	Use  Use
	Rows []weights.Tensor
	Bias []weights.Tensor // nothing, or one [Ni] for each of Rows
}

// Rope is a rotary embedding of the half-split ("NeoX") kind, which every Hugging Face
// checkpoint uses: dimension i is rotated with i + Dim/2 by the angle pos * InvFreq[i]. Only
// the first 2*len(InvFreq) dimensions of a head are rotated.
type Rope struct {
	InvFreq []float32 // [Dim/2]
	Scale   float32   // factor on sin and cos; 1 but for some scaled variants
}

// Heads says what StoreKV does to the heads of queries and keys.
type Heads struct {
	// Norm says that each head is normed first, with the weights QNorm and KNorm, [HeadDim].
	Norm         bool
	QNorm, KNorm Weight
	Eps          float32
	// Rope is the table of Shape.Ropes by which heads are rotated, or NoRope.
	Rope int
}

// NoRope is the Heads.Rope of a layer that does not rotate its heads.
const NoRope = -1

// Attention is what a layer's attention needs besides its rows.
type Attention struct {
	Scale  float32 // factor on Q·K, usually 1/sqrt(HeadDim)
	Window int     // a position sees itself and the Window-1 before it; 0: all
}

// Shape is all that a device needs to allocate everything it will ever use.
type Shape struct {
	Layers, Heads, KVHeads, HeadDim int
	Acts                            []ActShape // activation buffers; Act.Buf indexes them
	Ropes                           []Rope     // Heads.Rope indexes them
	Windows                         []int      // every Attention.Window there is, once
	Spec                            backend.Spec
}

// ActShape describes one activation buffer.
type ActShape struct {
	Width int
	Drawn bool // it has one row per entry of Batch.At (at most MaxTokens), not per token
	// Sum marks the residual stream, which MatMulAdd adds to. A device that keeps
	// activations in less than float32 keeps this one whole.
	Sum bool
	// Factor says that products read the buffer, so that a device that multiplies rounded
	// rows can round each row when it is written.
	Factor bool
}

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
	// Embed writes row Tokens[t] of w to row t of dst.
	Embed(dst Act, w Weight)
	// Norm writes the RMSNorm of each row, x/sqrt(mean(x²)+eps)*w. dst may be src.
	Norm(dst, src Act, w Weight, eps float32)
	// MatMul writes the product src·wᵀ + bias.
	MatMul(dst Act, w Weight, src Act)
	// MatMulAdd adds the product src·wᵀ + bias to dst. scratch is as wide as dst, in a
	// buffer of its own; what it holds afterwards is not defined.
	MatMulAdd(dst Act, w Weight, src, scratch Act)
	// MatMulGate computes [gate | up] = src·wᵀ + bias, where w is Gated, and writes
	// silu(gate)*up. scratch is as wide as the product, twice as wide as dst, in a buffer of
	// its own; what it holds afterwards is not defined.
	MatMulGate(dst Act, w Weight, src, scratch Act)
	// StoreKV norms and rotates the heads of q and k as h says, each head by its token's
	// position. The new q replaces the old; the new k and v go to the tokens' slots of the
	// KV cache, and what the buffers of k and v hold stays as it is. q is [T, Heads*HeadDim],
	// k and v are [T, KVHeads*HeadDim], and all are views of one buffer.
	StoreKV(layer int, q, k, v Act, h Heads)
	// Attend writes softmax(scale*q·K)·V of the positions that a token sees, its own
	// included, over its sequence's blocks. It sees every StoreKV of the layer in this step.
	Attend(dst, q Act, layer int, a Attention)
	// Gather writes row At[r] of src to row r of dst, whose buffer is Drawn.
	Gather(dst, src Act)
	// EndForward ends the forward pass. Only Draw may follow.
	EndForward()

	// Draw computes the logits head·src of the gathered rows and draws from them as package
	// sampler says. It calls d.Ready before it reads edits and masks. A device decides for
	// how many rows at a time it keeps the logits.
	Draw(head Weight, src Act, d *backend.Draws)
	// End waits for the oldest step and fills out.
	End(*backend.Out) error
	Close() error
}
