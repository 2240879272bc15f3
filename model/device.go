package model

import (
	"weir/backend"
	"weir/weights"
)

// Act names the columns [Off, Off+Width) of activation buffer Buf. Buffers
// hold float32 values (a device may keep less where it says so), one row per
// token of the step, or one per drawn row behind Gather: an operation works on
// as many rows as its buffers have. The row stride is the buffer's width, so
// views of one buffer (Q, K and V of one product) cost nothing.
type Act struct{ Buf, Off, Width int }

// Cols is the view of columns [off, off+width) of a.
func (a Act) Cols(off, width int) Act { return Act{a.Buf, a.Off + off, width} }

// Weight is a handle that a device gave out for loaded parameters.
type Weight int

// Use says what a loaded matrix is for, so that a device can choose its layout.
type Use uint8

const (
	Linear    Use = iota // [N, K]: MatMul and Draw
	Embedding            // [V, D]: Embed
	Vector               // [D]: Norm
	Gated                // [F, K] of gate and [F, K] of up: a MatMul that Gate alone reads
)

// Matrix is a layer's parameters as the checkpoint has them. Rows are stacked
// along the first dimension, so that Q, K and V, or gate and up, become one
// product: [N0, K], [N1, K], ... -> [N0+N1+..., K].
type Matrix struct {
	Use  Use
	Rows []weights.Tensor
	Bias []weights.Tensor // nothing, or one [Ni] for each of Rows
}

// Rope is a rotary embedding of the half-split ("NeoX") kind, which every
// Hugging Face checkpoint uses: dimension i is rotated with i + Dim/2 by the
// angle pos * InvFreq[i]. Only the first 2*len(InvFreq) dimensions of a head
// are rotated.
type Rope struct {
	InvFreq []float32 // [Dim/2]
	Scale   float32   // factor on sin and cos; 1 but for some scaled variants
}

// Attention is what a layer's attention needs beside its rows.
type Attention struct {
	Scale  float32 // factor on Q·K, usually 1/sqrt(HeadDim)
	Window int     // a position sees itself and the Window-1 before it; 0: all
}

// Shape is all a device needs to allocate everything it will ever use.
type Shape struct {
	Layers, Heads, KVHeads, HeadDim int
	Acts                            []ActShape // activation buffers; Act.Buf indexes them
	Ropes                           []Rope     // Rope's table argument indexes them
	Windows                         []int      // every Attention.Window there is, once
	Spec                            backend.Spec
}

// ActShape is the size of one activation buffer.
type ActShape struct {
	Width int
	Drawn bool // one row per entry of Batch.At (at most MaxTokens), not per token
	Sum   bool // the residual stream: what Add adds to; a device that keeps less than float32 keeps this whole
}

// Device is what a decoder asks of the hardware. A step is Begin, operations,
// Draw, End, also where no row is drawn; operations are queued or done at once,
// as the device likes, and return nothing: the first error of a step is kept
// and End returns it.
//
// Batch invariance is part of the contract: what an operation writes into a
// row depends on that row's inputs alone, bit for bit, whatever else the batch
// holds and however a sequence was cut into chunks. Sums have one order.
//
// Handles given out by Load are dense from 0, so a runner may keep slices.
type Device interface {
	// Plan allocates activations, KV blocks and scratch. It comes first, once.
	Plan(Shape) error
	// Load takes parameters in, in whatever layout the device likes. The
	// tensors' bytes stay mapped until Close.
	Load(Matrix) (Weight, error)

	// Begin starts a step. On a device with Spec.Depth 2 the operations that
	// follow may still be running when the next Begin comes.
	Begin(*backend.Batch)
	// Embed writes row Tokens[t] of w to row t of dst.
	Embed(dst Act, w Weight)
	// Norm is RMSNorm over groups of len(w) columns: a whole row, or each head
	// when w is shorter. dst may be src. It computes x/sqrt(mean(x²)+eps)*w.
	Norm(dst, src Act, w Weight, eps float32)
	// MatMul writes src·wᵀ + bias.
	MatMul(dst Act, w Weight, src Act)
	// Rope rotates each head of q and k in place by the token's position.
	Rope(q, k Act, table int)
	// StoreKV writes k and v, [T, KVHeads*HeadDim], to the tokens' slots. What k
	// and v hold afterwards is not defined: a device may have rotated k on its
	// way to the cache alone.
	StoreKV(layer int, k, v Act)
	// Attend writes softmax(scale*q·K)·V of the positions that a token sees,
	// its own included, over its sequence's blocks. Every StoreKV of the layer
	// in this step is visible.
	Attend(dst, q Act, layer int, a Attention)
	// Gate reads [gate | up] and writes silu(gate)*up, half as wide. It follows
	// the MatMul of a Gated matrix at once, whose product nobody else sees: a
	// device may have no place for it.
	Gate(dst, gateUp Act)
	// Add adds src to dst. What src holds afterwards is not defined: a device
	// may have added the product that src was to be to dst at once.
	Add(dst, src Act)
	// Gather writes row At[r] of src to row r of dst, whose buffer is Drawn.
	Gather(dst, src Act)
	// Draw computes the logits head·src of the gathered rows and draws from
	// them as package sampler says. It calls d.Ready before it reads edits and
	// masks. The logits are never kept for more rows than the device likes.
	Draw(head Weight, src Act, d *backend.Draws)
	// End waits for the oldest step and fills out.
	End(*backend.Out) error
	Close() error
}
