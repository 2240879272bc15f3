package cpu

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// openPlanned is a device with a plan. It is closed at the end of the test.
func openPlanned(t testing.TB, cfg Config, s model.Shape) *Device {
	t.Helper()
	d, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Plan(s); err != nil {
		t.Fatal(err)
	}
	return d
}

// newRand is a source of numbers that is the same in every run.
func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x77656972)) }

// tensor makes a tensor of random numbers around zero.
func tensor(rnd *rand.Rand, d weights.DType, std float64, shape ...int) weights.Tensor {
	t := weights.Tensor{Name: "random", DType: d, Shape: shape}
	for range t.Len() {
		v := float32(rnd.NormFloat64() * std)
		switch d {
		case weights.F32:
			t.Data = binary.LittleEndian.AppendUint32(t.Data, math.Float32bits(v))
		case weights.F16:
			t.Data = binary.LittleEndian.AppendUint16(t.Data, toF16(v))
		case weights.BF16:
			t.Data = binary.LittleEndian.AppendUint16(t.Data, toBF16(v))
		}
	}
	return t
}

// net is a small decoder with everything a Device offers: stacked matrices with
// bias, norms over rows and heads, grouped queries, rotary embeddings, windows.
type net struct {
	dim, heads, kvHeads, headDim, inner, vocab, layers int

	embed, head weights.Tensor
	norms       []weights.Tensor // one per layer, and the last
	qkv         [][]weights.Tensor
	bias        [][]weights.Tensor
	headNorm    weights.Tensor
	out, down   []weights.Tensor
	gateUp      [][]weights.Tensor
	rope        model.Rope
	window      int // of odd layers
}

const netEps = 1e-6

// The activations of net.
const (
	actX, actN, actQKV, actA, actG, actH, actD = 0, 1, 2, 3, 4, 5, 6
)

// newNet has awkward sizes: no width but the heads' is a multiple of 16.
func newNet(rnd *rand.Rand, d weights.DType, headDim int) *net {
	n := &net{dim: 50, heads: 6, kvHeads: 2, headDim: headDim, inner: 70, vocab: 301, layers: 3, window: 40}
	n.embed = tensor(rnd, d, 1, n.vocab, n.dim)
	n.head = tensor(rnd, d, 0.4, n.vocab, n.dim)
	for range n.layers {
		n.norms = append(n.norms, tensor(rnd, weights.F32, 1, n.dim))
		kv := n.kvHeads * headDim
		n.qkv = append(n.qkv, []weights.Tensor{tensor(rnd, d, 0.2, n.heads*headDim, n.dim), tensor(rnd, d, 0.2, kv, n.dim), tensor(rnd, d, 0.2, kv, n.dim)})
		n.bias = append(n.bias, []weights.Tensor{tensor(rnd, d, 0.2, n.heads*headDim), tensor(rnd, d, 0.2, kv), tensor(rnd, d, 0.2, kv)})
		n.out = append(n.out, tensor(rnd, d, 0.2, n.dim, n.heads*headDim))
		n.gateUp = append(n.gateUp, []weights.Tensor{tensor(rnd, d, 0.2, n.inner, n.dim), tensor(rnd, d, 0.2, n.inner, n.dim)})
		n.down = append(n.down, tensor(rnd, d, 0.2, n.dim, n.inner))
	}
	n.norms = append(n.norms, tensor(rnd, weights.F32, 1, n.dim))
	n.headNorm = tensor(rnd, weights.F32, 1, headDim)
	n.rope.Scale = 1
	rotated := headDim / 2
	if headDim%8 != 0 {
		rotated -= 3 // some models leave a part of a head alone
	}
	for i := range rotated {
		n.rope.InvFreq = append(n.rope.InvFreq, float32(math.Pow(10000, -2*float64(i)/float64(headDim))))
	}
	return n
}

func (n *net) shape(spec backend.Spec) model.Shape {
	spec.VocabSize = n.vocab
	qkv := (n.heads + 2*n.kvHeads) * n.headDim
	return model.Shape{
		KV: model.UniformKV(n.layers, n.heads, n.kvHeads, n.headDim),
		Acts: []model.ActShape{
			actX: {Width: n.dim, Sum: true}, actN: {Width: n.dim, Factor: true}, actQKV: {Width: qkv}, actA: {Width: n.heads * n.headDim, Factor: true},
			actG: {Width: 2 * n.inner}, actH: {Width: n.inner, Factor: true}, actD: {Width: n.dim, Drawn: true, Factor: true},
		},
		Ropes: []model.Rope{n.rope},
		Spec:  spec,
	}
}

// netWeights are a net's handles on one device.
type netWeights struct {
	embed, head, headNorm         model.Weight
	norms, qkv, out, gateUp, down []model.Weight
}

// runner is a net on a device.
type runner struct {
	*Device
	n *net
	w netWeights
}

func newRunner(t testing.TB, n *net, cfg Config, spec backend.Spec) *runner {
	t.Helper()
	place, err := machine().place(cfg.Threads, cfg.Pin)
	if err != nil {
		t.Fatal(err)
	}
	return newRunnerOn(t, n, cfg, place, spec)
}

// newRunnerOn is newRunner with threads on nodes that need not exist.
func newRunnerOn(t testing.TB, n *net, cfg Config, place placement, spec backend.Spec) *runner {
	t.Helper()
	d, err := open(cfg, place)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := d.Plan(n.shape(spec)); err != nil {
		t.Fatal(err)
	}
	load := func(m model.Matrix) model.Weight {
		w, err := d.Load(m)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	r := &runner{Device: d, n: n}
	linear := func(rows ...weights.Tensor) model.Weight { return load(model.Matrix{Use: model.Linear, Rows: rows}) }
	vector := func(v weights.Tensor) model.Weight {
		return load(model.Matrix{Use: model.Vector, Rows: []weights.Tensor{v}})
	}
	r.w.embed = load(model.Matrix{Use: model.Embedding, Rows: []weights.Tensor{n.embed}})
	r.w.head, r.w.headNorm = linear(n.head), vector(n.headNorm)
	for l := range n.layers {
		r.w.norms = append(r.w.norms, vector(n.norms[l]))
		r.w.qkv = append(r.w.qkv, load(model.Matrix{Use: model.Linear, Rows: n.qkv[l], Bias: n.bias[l]}))
		r.w.out = append(r.w.out, linear(n.out[l]))
		r.w.gateUp = append(r.w.gateUp, load(model.Matrix{Use: model.Gated, Rows: n.gateUp[l]}))
		r.w.down = append(r.w.down, linear(n.down[l]))
	}
	r.w.norms = append(r.w.norms, vector(n.norms[n.layers]))
	return r
}

// step runs a batch and returns what it drew.
func (r *runner) step(b *backend.Batch, draws *backend.Draws, out *backend.Out) error {
	n := r.n
	q, kv := n.heads*n.headDim, n.kvHeads*n.headDim
	x, norm := model.Act{Buf: actX, Width: n.dim}, model.Act{Buf: actN, Width: n.dim}
	qkv := model.Act{Buf: actQKV, Width: q + 2*kv}
	att := model.Act{Buf: actA, Width: q}
	gateUp, inner := model.Act{Buf: actG, Width: 2 * n.inner}, model.Act{Buf: actH, Width: n.inner}
	drawn := model.Act{Buf: actD, Width: n.dim}

	r.Begin(b)
	r.Embed(x, r.w.embed, 1)
	for l := range n.layers {
		a := model.Attention{Scale: float32(1 / math.Sqrt(float64(n.headDim))), Sinks: model.NoWeight}
		if l%2 == 1 {
			a.Window = n.window
		}
		r.Norm(norm, x, model.Norm{W: r.w.norms[l], B: model.NoWeight, Eps: netEps})
		r.MatMul(qkv, r.w.qkv[l], norm)
		r.StoreKV(l, qkv.Cols(0, q), qkv.Cols(q, kv), qkv.Cols(q+kv, kv), model.Heads{QNorm: model.HeadNorm{On: true, W: r.w.headNorm, Eps: netEps}, KNorm: model.HeadNorm{On: true, W: r.w.headNorm, Eps: netEps}})
		r.Attend(att, qkv.Cols(0, q), l, a)
		r.MatMulAdd(x, r.w.out[l], att, norm)
		r.Norm(norm, x, model.Norm{W: r.w.norms[l], B: model.NoWeight, Eps: netEps})
		r.MatMulGate(inner, r.w.gateUp[l], norm, gateUp, model.Activation{Kind: model.SiLU})
		r.MatMulAdd(x, r.w.down[l], inner, norm)
	}
	r.Gather(drawn, x)
	r.Norm(drawn, drawn, model.Norm{W: r.w.norms[n.layers], B: model.NoWeight, Eps: netEps})
	r.EndForward()
	r.Draw(model.Head{W: r.w.head, Scale: 1}, drawn, draws)
	return r.End(out)
}
