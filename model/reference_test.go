package model_test

import (
	"encoding/binary"
	"errors"
	"math"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// reference is the device that others are compared with: float64, one loop inside another,
// nothing tiled, nothing reused. It only draws greedily.
type reference struct {
	shape    model.Shape
	rows     [][][]float64 // [buffer][row][column]
	k, v     [][][]float64 // [cache][slot][G*K]
	states   [][][]float64 // [slot][state][number]
	weights  []referenceMatrix
	batch    *backend.Batch
	selected []map[int]bool // [T] what Select chose
	last     []int32        // what the previous step drew
	results  []backend.Out  // of steps that have not ended
	err      error
	// rounds says which tensors activations are rounded for before a product; nil: none.
	rounds func(t weights.Tensor) bool
	// whole says for which of these a row has one scale, and not one for each 32 numbers.
	whole func(t weights.Tensor) bool
}

type referenceMatrix struct {
	rows    [][]float64 // [N][K]
	bias    []float64   // [N]
	rounded []bool      // [N] whether the row is multiplied with rounded activations
	whole   []bool      // [N] and these have one scale
}

func newReference() model.Device { return &reference{} }

func (d *reference) Plan(s model.Shape) error {
	d.shape = s
	d.rows = make([][][]float64, len(s.Acts))
	for i, a := range s.Acts {
		d.rows[i] = zeros(s.Spec.MaxTokens, a.Width)
	}
	for _, kv := range s.KV {
		d.k = append(d.k, zeros(s.Spec.NumBlocks*s.Spec.BlockTokens, kv.KVHeads*kv.KeyDim))
		d.v = append(d.v, zeros(s.Spec.NumBlocks*s.Spec.BlockTokens, kv.KVHeads*kv.ValueDim))
	}
	for range s.Spec.StateSlots {
		var slot [][]float64
		for _, n := range s.States {
			slot = append(slot, make([]float64, n))
		}
		d.states = append(d.states, slot)
	}
	return nil
}

func zeros(rows, columns int) [][]float64 {
	m := make([][]float64, rows)
	for i := range m {
		m[i] = make([]float64, columns)
	}
	return m
}

// decode widens a stored tensor, element by element, as IEEE 754 says.
// Blocks are widened as package weights does, which is compared with ggml there.
func decode(t weights.Tensor) []float64 {
	v := make([]float64, t.Len())
	if t.Quantized() { // TestPackedNumbers compares the others
		row := make([]float32, t.Shape[1])
		for r := range t.Shape[0] {
			t.Widen(row, r, 0)
			for k, x := range row {
				v[r*len(row)+k] = float64(x)
			}
		}
		return v
	}
	for i := range v {
		switch t.DType {
		case weights.F32:
			v[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:])))
		case weights.BF16:
			v[i] = float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(t.Data[2*i:])) << 16))
		case weights.F16:
			h := binary.LittleEndian.Uint16(t.Data[2*i:])
			exponent, fraction := int(h>>10&31), float64(h&1023)
			switch exponent {
			case 0:
				v[i] = math.Ldexp(fraction, -24)
			case 31:
				v[i] = math.Inf(1)
				if fraction != 0 {
					v[i] = math.NaN()
				}
			default:
				v[i] = math.Ldexp(1024+fraction, exponent-25)
			}
			if h&0x8000 != 0 {
				v[i] = -v[i]
			}
		}
	}
	return unpaired(v, t)
}

// unpaired puts the rows of heads that take turns into their order: first those that come first
// of each pair.
func unpaired(v []float64, t weights.Tensor) []float64 {
	if t.Pairs == 0 {
		return v
	}
	columns := t.Len() / t.Shape[0]
	var ordered []float64
	for head := 0; head < t.Shape[0]; head += t.Pairs {
		for first := range 2 {
			for row := head + first; row < head+t.Pairs; row += 2 {
				ordered = append(ordered, v[row*columns:(row+1)*columns]...)
			}
		}
	}
	return ordered
}

func (d *reference) Load(m model.Matrix) (model.Weight, error) {
	var x referenceMatrix
	for _, t := range m.Rows {
		data := decode(t)
		if len(t.Shape) == 1 {
			x.rows = append(x.rows, data)
			continue
		}
		for i := range t.Shape[0] {
			x.rows = append(x.rows, data[i*t.Shape[1]:(i+1)*t.Shape[1]])
			x.rounded = append(x.rounded, d.rounds != nil && d.rounds(t))
			x.whole = append(x.whole, d.whole != nil && d.whole(t))
		}
	}
	for _, t := range m.Bias {
		x.bias = append(x.bias, decode(t)...)
	}
	if x.bias == nil {
		x.bias = make([]float64, len(x.rows))
	}
	d.weights = append(d.weights, x)
	return model.Weight(len(d.weights) - 1), nil
}

func (d *reference) Begin(b *backend.Batch) { d.batch = b }

// act lists the rows that an operation on a works on.
func (d *reference) act(a model.Act) [][]float64 {
	n := len(d.batch.Tokens)
	if d.shape.Acts[a.Buf].Drawn {
		n = len(d.batch.At)
	}
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = d.rows[a.Buf][i][a.Off : a.Off+a.Width]
	}
	return rows
}

func (d *reference) Embed(dst model.Act, w model.Weight, scale float32) {
	for i, row := range d.act(dst) {
		token := d.batch.Tokens[i]
		if token < 0 {
			token = d.last[^token]
		}
		if int(token) >= len(d.weights[w].rows) {
			token = 0
		}
		for j, v := range d.weights[w].rows[token] {
			row[j] = v * float64(scale)
		}
	}
}

func (d *reference) MatMul(dst model.Act, w model.Weight, src model.Act) {
	from := d.act(src)
	for i, to := range d.act(dst) {
		rounded, whole := roundActivations(from[i]), roundWhole(from[i])
		for n := range d.weights[w].rows {
			x := rounded
			if d.weights[w].whole[n] {
				x = whole
			}
			to[n] = d.weights[w].bias[n] + d.weights[w].dot(n, from[i], x)
		}
	}
}

// dot multiplies row n with activations, as they are or rounded.
func (w *referenceMatrix) dot(n int, x, rounded []float64) float64 {
	if w.rounded[n] {
		x = rounded
	}
	sum := 0.0
	for k, v := range w.rows[n] {
		sum += v * x[k]
	}
	return sum
}

// roundWhole rounds to 127 steps of the greatest number.
func roundWhole(x []float64) []float64 {
	top := 0.0
	for _, v := range x {
		top = max(top, math.Abs(v))
	}
	rounded := make([]float64, len(x))
	for i, v := range x {
		if top > 0 {
			rounded[i] = math.RoundToEven(v/top*127) * top / 127
		}
	}
	return rounded
}

// roundActivations rounds each 32 numbers to integers of at most 127 times a power of two, the
// least that allows it, as the CPU device does.
func roundActivations(x []float64) []float64 {
	rounded := make([]float64, len(x))
	for at := 0; at < len(x); at += 32 {
		block := x[at:min(at+32, len(x))]
		top := 0.0
		for _, v := range block {
			top = max(top, math.Abs(v))
		}
		if top == 0 {
			continue
		}
		scale := math.Exp2(math.Ceil(math.Log2(top / 127.49)))
		for i, v := range block {
			rounded[at+i] = math.RoundToEven(v/scale) * scale
		}
	}
	return rounded
}

func (d *reference) MatMulAdd(dst model.Act, w model.Weight, src, scratch model.Act) {
	d.MatMul(scratch, w, src)
	from := d.act(scratch)
	for i, to := range d.act(dst) {
		for j := range to {
			to[j] += from[i][j]
		}
	}
}

func (d *reference) StoreKV(kv int, q, k, v model.Act, h model.Heads) {
	shape := d.shape.KV[kv]
	for i, row := range d.act(q) {
		d.turnHeads(row, shape.KeyDim, h, h.QNorm, i)
		if t := h.Temper; t.Beta != 0 {
			for j := range row {
				row[j] *= 1 + float64(t.Beta)*math.Log(1+math.Floor((float64(d.batch.Pos[i])+float64(t.Shift))/float64(t.Floor)))
			}
		}
	}
	if k.Width == 0 {
		return
	}
	keys, values := d.act(k), d.act(v)
	for i := range keys {
		to := d.k[kv][d.batch.Slots[i]]
		copy(to, keys[i])
		d.turnHeads(to, shape.KeyDim, h, h.KNorm, i)
		to = d.v[kv][d.batch.Slots[i]]
		copy(to, values[i])
		d.normHeads(to, shape.ValueDim, h.VNorm)
	}
}

// turnHeads norms and rotates the heads of a row of token i.
func (d *reference) turnHeads(row []float64, dim int, h model.Heads, norm model.HeadNorm, i int) {
	if !h.NormAfterRope {
		d.normHeads(row, dim, norm)
	}
	for at := 0; at < len(row) && h.Rope != model.NoRope; at += dim {
		r := d.shape.Ropes[h.Rope]
		for s, end := range d.batch.QueryEnd {
			if long := r.Long != nil && d.batch.IsLong(s); long && i < int(end) && (s == 0 || i >= int(d.batch.QueryEnd[s-1])) {
				r.InvFreq, r.Scale = r.Long, r.LongScale
			}
		}
		rotate(row[at+r.Offset:at+dim], r, d.batch.Pos[i])
	}
	if h.NormAfterRope {
		d.normHeads(row, dim, norm)
	}
}

func (d *reference) normHeads(row []float64, dim int, norm model.HeadNorm) {
	if !norm.On {
		return
	}
	w := d.vector(norm.W)
	for at := 0; at < len(row); at += dim {
		normGroup(row[at:at+dim], norm.LayerNorm, float64(norm.Eps))
	}
	for j := range row {
		switch {
		case w != nil && norm.PerHead:
			row[j] *= w[j]
		case w != nil:
			row[j] *= w[j%dim]
		}
	}
}

// rotate turns the pairs of dimensions of a head, from the first on.
func rotate(head []float64, r model.Rope, pos int32) {
	half := len(r.InvFreq)
	for j, f := range r.InvFreq {
		angle := float64(pos) * float64(f)
		sin, cos := math.Sin(angle)*float64(r.Scale), math.Cos(angle)*float64(r.Scale)
		a, b := j, half+j
		if r.Interleaved {
			a, b = 2*j, 2*j+1
		}
		x, y := head[a], head[b]
		head[a], head[b] = x*cos-y*sin, y*cos+x*sin
	}
}

func (d *reference) Gather(dst, src model.Act) {
	from := d.act(src)
	for r, to := range d.act(dst) {
		copy(to, from[d.batch.At[r]])
	}
}

func (d *reference) EndForward() {}

func (d *reference) Draw(head model.Head, src model.Act, draws *backend.Draws) {
	if draws.Ready != nil {
		draws.Ready()
	}
	var out backend.Out
	from := d.act(src)
	if len(draws.Rows) == 0 {
		from = nil
	}
	for r := range from {
		row := draws.Rows[r]
		if row.Temperature != 0 || row.Mask >= 0 || row.Allow >= 0 || row.Target >= 0 || row.Logprobs != backend.NoLogprobs {
			d.err = errors.New("the reference device only draws greedily")
		}
		if row.Hidden {
			for _, v := range from[r] {
				out.Hidden = append(out.Hidden, float32(v))
			}
			out.Tokens = append(out.Tokens, -1)
			continue
		}
		best, at := math.Inf(-1), int32(-1)
		rounded := roundActivations(from[r])
		for token := range d.weights[head.W].rows {
			logit := (d.weights[head.W].dot(token, from[r], rounded) + d.weights[head.W].bias[token]) * float64(head.Scale)
			if c := float64(head.Softcap); c > 0 {
				logit = c * math.Tanh(logit/c)
			}
			if logit > best {
				best, at = logit, int32(token)
			}
			if row.Host {
				out.Logits = append(out.Logits, float32(logit))
			}
		}
		out.Tokens = append(out.Tokens, at)
	}
	d.last = out.Tokens
	d.results = append(d.results, out)
}

func (d *reference) End(out *backend.Out) error {
	copy(out.Tokens, d.results[0].Tokens)
	copy(out.Logits, d.results[0].Logits)
	copy(out.Hidden, d.results[0].Hidden)
	d.results = d.results[1:]
	return d.err
}

func (d *reference) Close() error { return nil }
