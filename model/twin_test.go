package model_test

import (
	"encoding/binary"
	"errors"
	"math"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// twin is the dumb device, against which others are held: float64, one loop
// inside another, nothing tiled, nothing reused. It draws greedily only.
type twin struct {
	shape   model.Shape
	rows    [][][]float64 // [buffer][row][column]
	k, v    [][][]float64 // [layer][slot][G*K]
	weights []twinMatrix
	batch   *backend.Batch
	last    []int32       // what the previous step drew
	results []backend.Out // of steps that have not ended
	err     error
}

type twinMatrix struct {
	rows [][]float64 // [N][K]
	bias []float64   // [N]
}

func newTwin() model.Device { return &twin{} }

func (d *twin) Plan(s model.Shape) error {
	d.shape = s
	d.rows = make([][][]float64, len(s.Acts))
	for i, a := range s.Acts {
		d.rows[i] = zeros(s.Spec.MaxTokens, a.Width)
	}
	for range s.Layers {
		d.k = append(d.k, zeros(s.Spec.NumBlocks*s.Spec.BlockTokens, s.KVHeads*s.HeadDim))
		d.v = append(d.v, zeros(s.Spec.NumBlocks*s.Spec.BlockTokens, s.KVHeads*s.HeadDim))
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
func decode(t weights.Tensor) []float64 {
	v := make([]float64, t.Len())
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
	return v
}

func (d *twin) Load(m model.Matrix) (model.Weight, error) {
	var x twinMatrix
	for _, t := range m.Rows {
		data := decode(t)
		if len(t.Shape) == 1 {
			x.rows = append(x.rows, data)
			continue
		}
		for i := range t.Shape[0] {
			x.rows = append(x.rows, data[i*t.Shape[1]:(i+1)*t.Shape[1]])
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

func (d *twin) Begin(b *backend.Batch) { d.batch = b }

// act lists the rows that an operation on a works on.
func (d *twin) act(a model.Act) [][]float64 {
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

func (d *twin) Embed(dst model.Act, w model.Weight) {
	for i, row := range d.act(dst) {
		token := d.batch.Tokens[i]
		if token < 0 {
			token = d.last[^token]
		}
		copy(row, d.weights[w].rows[token])
	}
}

func (d *twin) Norm(dst, src model.Act, w model.Weight, eps float32) {
	weight, from := d.weights[w].rows[0], d.act(src)
	for i, to := range d.act(dst) {
		for g := 0; g < len(to); g += len(weight) {
			sum := 0.0
			for j := range weight {
				sum += from[i][g+j] * from[i][g+j]
			}
			for j := range weight {
				to[g+j] = from[i][g+j] / math.Sqrt(sum/float64(len(weight))+float64(eps)) * weight[j]
			}
		}
	}
}

func (d *twin) MatMul(dst model.Act, w model.Weight, src model.Act) {
	from := d.act(src)
	for i, to := range d.act(dst) {
		for n, row := range d.weights[w].rows {
			sum := d.weights[w].bias[n]
			for k := range row {
				sum += row[k] * from[i][k]
			}
			to[n] = sum
		}
	}
}

func (d *twin) Rope(q, k model.Act, table int) {
	r := d.shape.Ropes[table]
	half := d.shape.HeadDim / 2
	for _, a := range []model.Act{q, k} {
		for i, row := range d.act(a) {
			for head := 0; head < len(row); head += d.shape.HeadDim {
				for j, f := range r.InvFreq {
					angle := float64(d.batch.Pos[i]) * float64(f)
					sin, cos := math.Sin(angle)*float64(r.Scale), math.Cos(angle)*float64(r.Scale)
					x, y := row[head+j], row[head+half+j]
					row[head+j], row[head+half+j] = x*cos-y*sin, y*cos+x*sin
				}
			}
		}
	}
}

func (d *twin) StoreKV(layer int, k, v model.Act) {
	for i, row := range d.act(k) {
		copy(d.k[layer][d.batch.Slots[i]], row)
	}
	for i, row := range d.act(v) {
		copy(d.v[layer][d.batch.Slots[i]], row)
	}
}

func (d *twin) Attend(dst, q model.Act, layer int, a model.Attention) {
	b, size := d.batch, d.shape.HeadDim
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
		for h := range d.shape.Heads {
			kv := h / (d.shape.Heads / d.shape.KVHeads) * size
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

func (d *twin) Gate(dst, gateUp model.Act) {
	from := d.act(gateUp)
	for i, to := range d.act(dst) {
		for j := range to {
			gate, up := from[i][j], from[i][len(to)+j]
			to[j] = gate / (1 + math.Exp(-gate)) * up
		}
	}
}

func (d *twin) Add(dst, src model.Act) {
	from := d.act(src)
	for i, to := range d.act(dst) {
		for j := range to {
			to[j] += from[i][j]
		}
	}
}

func (d *twin) Gather(dst, src model.Act) {
	from := d.act(src)
	for r, to := range d.act(dst) {
		copy(to, from[d.batch.At[r]])
	}
}

func (d *twin) Draw(head model.Weight, src model.Act, draws *backend.Draws) {
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
			d.err = errors.New("twin: greedy draws alone")
		}
		best, at := math.Inf(-1), int32(-1)
		for token, w := range d.weights[head].rows {
			logit := 0.0
			for k := range w {
				logit += w[k] * from[r][k]
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

func (d *twin) End(out *backend.Out) error {
	copy(out.Tokens, d.results[0].Tokens)
	copy(out.Logits, d.results[0].Logits)
	d.results = d.results[1:]
	return d.err
}

func (d *twin) Close() error { return nil }
