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
	shape   model.Shape
	rows    [][][]float64 // [buffer][row][column]
	k, v    [][][]float64 // [layer][slot][G*K]
	weights []referenceMatrix
	batch   *backend.Batch
	last    []int32       // what the previous step drew
	results []backend.Out // of steps that have not ended
	err     error
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
		copy(row, d.weights[w].rows[token])
	}
}

func (d *reference) Norm(dst, src model.Act, n model.Norm) {
	from := d.act(src)
	for i, to := range d.act(dst) {
		normRow(to, from[i], d.weights[n.W].rows[0], n.Eps)
	}
}

func normRow(to, from, weight []float64, eps float32) {
	sum := 0.0
	for _, x := range from {
		sum += x * x
	}
	scale := 1 / math.Sqrt(sum/float64(len(from))+float64(eps))
	for j, x := range from {
		to[j] = x * scale * weight[j]
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

func (d *reference) MatMulGate(dst model.Act, w model.Weight, src, scratch model.Act, a model.Activation) {
	d.MatMul(scratch, w, src)
	from := d.act(scratch)
	for i, to := range d.act(dst) {
		for j := range to {
			gate, up := from[i][j], from[i][len(to)+j]
			to[j] = gate / (1 + math.Exp(-gate)) * up
		}
	}
}

func (d *reference) StoreKV(layer int, q, k, v model.Act, h model.Heads) {
	for i, row := range d.act(q) {
		d.turnHeads(row, d.shape.KV[layer].KeyDim, h, h.QNorm, i)
	}
	for i, row := range d.act(k) {
		to := d.k[layer][d.batch.Slots[i]]
		copy(to, row)
		d.turnHeads(to, d.shape.KV[layer].KeyDim, h, h.KNorm, i)
	}
	for i, row := range d.act(v) {
		copy(d.v[layer][d.batch.Slots[i]], row)
	}
}

// turnHeads norms and rotates the heads of a row of token i.
func (d *reference) turnHeads(row []float64, dim int, h model.Heads, norm model.HeadNorm, i int) {
	for ; len(row) > 0; row = row[dim:] {
		head := row[:dim]
		if norm.On {
			normRow(head, head, d.weights[norm.W].rows[0], norm.Eps)
		}
		if h.Rope != model.NoRope {
			rotate(head, d.shape.Ropes[h.Rope], d.batch.Pos[i])
		}
	}
}

func rotate(head []float64, r model.Rope, pos int32) {
	half := len(head) / 2
	for j, f := range r.InvFreq {
		angle := float64(pos) * float64(f)
		sin, cos := math.Sin(angle)*float64(r.Scale), math.Cos(angle)*float64(r.Scale)
		x, y := head[j], head[half+j]
		head[j], head[half+j] = x*cos-y*sin, y*cos+x*sin
	}
}

func (d *reference) Attend(dst, q model.Act, layer int, a model.Attention) {
	b, size := d.batch, d.shape.KV[layer].KeyDim
	to, from := d.act(dst), d.act(q)
	seq := 0
	for i := range b.Tokens {
		for int(b.QueryEnd[seq]) <= i {
			seq++
		}
		table := b.Tables[:b.TableEnd[seq]]
		if seq > 0 {
			table = table[b.TableEnd[seq-1]:]
		}
		first := 0
		if a.Window > 0 {
			first = max(0, int(b.Pos[i])+1-a.Window)
		}
		for h := range d.shape.KV[layer].Heads {
			kv := h / (d.shape.KV[layer].Heads / d.shape.KV[layer].KVHeads) * size
			var p []float64
			sum := 0.0
			slot := func(pos int) int {
				return int(table[pos/d.shape.Spec.BlockTokens])*d.shape.Spec.BlockTokens + pos%d.shape.Spec.BlockTokens
			}
			for pos := first; pos <= int(b.Pos[i]); pos++ {
				dot := 0.0
				for j := range size {
					dot += from[i][h*size+j] * d.k[layer][slot(pos)][kv+j]
				}
				p = append(p, math.Exp(dot*float64(a.Scale)))
				sum += p[len(p)-1]
			}
			for j := range size {
				to[i][h*size+j] = 0
				for n, pos := 0, first; pos <= int(b.Pos[i]); n, pos = n+1, pos+1 {
					to[i][h*size+j] += p[n] / sum * d.v[layer][slot(pos)][kv+j]
				}
			}
		}
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
		best, at := math.Inf(-1), int32(-1)
		rounded := roundActivations(from[r])
		for token := range d.weights[head.W].rows {
			logit := d.weights[head.W].dot(token, from[r], rounded)
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
	d.results = d.results[1:]
	return d.err
}

func (d *reference) Close() error { return nil }
