package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"weir/backend"
	"weir/model"
	"weir/weights"
)

// The activations of a mixture under test.
const (
	mixSrc, mixLogits, mixDst, mixBoth, mixMid, mixOut = 0, 1, 2, 3, 4, 5
)

// mixture is experts on a device, with weights of a kind.
type mixture struct {
	*Device
	m              model.Experts
	width          int
	logits         []float32 // [rows, E]
	src            []float32 // [rows, width]
	gate, up, down []weights.Tensor
}

// mixtureKind is how the weights of a mixture are stored.
type mixtureKind struct {
	name   string
	as     Format
	tensor func(rnd *rand.Rand, n, k int) weights.Tensor
}

func plainTensor(d weights.DType) func(rnd *rand.Rand, n, k int) weights.Tensor {
	return func(rnd *rand.Rand, n, k int) weights.Tensor { return tensor(rnd, d, 0.2, n, k) }
}

// blockCodes makes a matrix of a type of blocks, whose scales are small.
func blockCodes(d weights.DType, block, columns int, scales ...byte) func(rnd *rand.Rand, n, k int) weights.Tensor {
	return func(rnd *rand.Rand, n, k int) weights.Tensor {
		t := weights.Tensor{Name: "random", DType: d, Shape: []int{n, k}, Data: make([]byte, n*k/columns*block)}
		for i := range t.Data {
			t.Data[i] = byte(rnd.Uint32())
			if i%block < len(scales) {
				t.Data[i] = scales[i%block]
			}
		}
		return t
	}
}

var mixtureKinds = []mixtureKind{
	{"f32", F32, plainTensor(weights.F32)},
	{"f16", F16, plainTensor(weights.F32)},
	{"bf16", Auto, plainTensor(weights.BF16)},
	{"q8", Q8, plainTensor(weights.BF16)},
	{"q4", Q4, plainTensor(weights.BF16)},
	{"w8a8", W8A8, plainTensor(weights.BF16)},
	{"mxfp4", Auto, blockCodes(weights.MXFP4, 17, 32, 122)},
	{"q4_k", Auto, blockCodes(weights.Q4_K, 144, 256, 0, 0x14, 0, 0x14)},
	{"iq4_nl", Auto, blockCodes(weights.IQ4_NL, 18, 32, 0, 0x14)},
	{"mxfp4 as f32", F32, blockCodes(weights.MXFP4, 17, 32, 122)},
	{"mixed", Auto, func(rnd *rand.Rand, n, k int) weights.Tensor { // even within an expert
		return []func(*rand.Rand, int, int) weights.Tensor{plainTensor(weights.BF16), blockCodes(weights.Q8_0, 34, 32, 0, 0x14), blockCodes(weights.MXFP4, 17, 32, 122), blockCodes(weights.Q4_K, 144, 256, 0, 0x14, 0, 0x14)}[rnd.IntN(4)](rnd, n, k)
	}},
}

// newMixture has experts of a width that no tile ends at, if the kind allows that.
func newMixture(t testing.TB, cfg Config, k mixtureKind, e model.Experts, count, width, rows int) *mixture {
	t.Helper()
	cfg.WeightType = k.as
	spec := backend.Spec{VocabSize: 16, BlockTokens: 16, NumBlocks: 2, MaxTokens: rows, MaxSeqs: rows, MaxSeqTokens: rows, Depth: 1}
	x := &mixture{m: e, width: width}
	x.Device = openPlanned(t, cfg, model.Shape{
		KV: model.UniformKV(1, 1, 1, 16), Spec: spec, Experts: model.ExpertShape{Experts: count, TopK: e.TopK, Width: width, Inner: e.Inner},
		Acts: []model.ActShape{mixSrc: {Width: width, Factor: true}, mixLogits: {Width: count}, mixDst: {Width: width}, mixBoth: {Width: 2 * e.Inner}, mixMid: {Width: e.Inner, Factor: true}, mixOut: {Width: width}},
	})
	load := func(use model.Use, rows ...weights.Tensor) model.Weight {
		m := model.Matrix{Use: use, Rows: rows}
		for range rows {
			m.Bias = append(m.Bias, tensor(rnd2(len(x.params)), weights.F32, 0.2, rows[0].Shape[0]))
		}
		w, err := x.Load(m)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	rnd := newRand(7)
	for range count {
		gate, up, down := k.tensor(rnd, e.Inner, width), k.tensor(rnd, e.Inner, width), k.tensor(rnd, width, e.Inner)
		x.gate, x.up, x.down = append(x.gate, gate), append(x.up, up), append(x.down, down)
		if e.Plain {
			x.m.GateUp = append(x.m.GateUp, load(model.Linear, up))
		} else {
			x.m.GateUp = append(x.m.GateUp, load(model.Gated, gate, up))
		}
		x.m.Down = append(x.m.Down, load(model.Linear, down))
	}
	for range rows * width {
		x.src = append(x.src, float32(rnd.NormFloat64()))
	}
	for range rows * count {
		x.logits = append(x.logits, float32(rnd.NormFloat64()))
	}
	return x
}

func rnd2(n int) *rand.Rand { return newRand(uint64(n) + 100) }

// set writes rows of an activation.
func (x *mixture) set(a model.Act, rows []float32) {
	v := x.written(a)
	for r := range len(rows) / a.Width {
		copy(v.row(r), rows[r*a.Width:][:a.Width])
	}
}

// rowsOf are the numbers of rows, one after another.
func rowsOf(v []float32, width int, rows []int) (out []float32) {
	for _, r := range rows {
		out = append(out, v[r*width:][:width]...)
	}
	return out
}

// run computes some rows as one step.
func (x *mixture) run(rows ...int) [][]float32 {
	count := len(x.m.GateUp)
	x.batch = &backend.Batch{Tokens: make([]int32, len(rows))}
	src, logits, dst := model.Act{Buf: mixSrc, Width: x.width}, model.Act{Buf: mixLogits, Width: count}, model.Act{Buf: mixDst, Width: x.width}
	x.set(src, rowsOf(x.src, x.width, rows))
	x.set(logits, rowsOf(x.logits, count, rows))
	x.Experts(dst, src, logits, &x.m)
	var out [][]float32
	for r := range rows {
		out = append(out, slices.Clone(x.view(dst).row(r)))
	}
	return out
}

// alone computes a row with the device's other operations, one expert after another, and reports
// which it chose.
func (x *mixture) alone(row int) []float32 {
	x.batch = &backend.Batch{Tokens: make([]int32, 1)}
	src, both, mid, out := model.Act{Buf: mixSrc, Width: x.width}, model.Act{Buf: mixBoth, Width: 2 * x.m.Inner}, model.Act{Buf: mixMid, Width: x.m.Inner}, model.Act{Buf: mixOut, Width: x.width}
	sum := make([]float32, x.width)
	chosen, weight := softmaxTop(x.logits[row*len(x.m.GateUp):][:len(x.m.GateUp)], x.m.TopK)
	for i, e := range chosen {
		in, by := rowsOf(x.src, x.width, []int{row}), weight[i]
		if x.m.ScoreInput {
			x.impl.scale(in, in, by)
			by = 1
		}
		x.set(src, in)
		if x.m.Plain {
			x.MatMul(mid, x.m.GateUp[e], src)
			x.Activate(mid, mid, x.m.Act)
		} else {
			x.MatMulGate(mid, x.m.GateUp[e], src, both, x.m.Act)
		}
		x.MatMul(out, x.m.Down[e], mid)
		x.impl.blend(sum, x.view(out).row(0), 1, by)
	}
	return sum
}

// softmaxTop chooses by sorting, and weighs by a softmax over those that are chosen, in ascending order.
func softmaxTop(logits []float32, k int) (chosen []int, weight []float32) {
	for i := range logits {
		chosen = append(chosen, i)
	}
	slices.SortStableFunc(chosen, func(a, b int) int {
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return a - b
	})
	chosen = chosen[:k]
	slices.Sort(chosen)
	for _, c := range chosen {
		weight = append(weight, logits[c])
	}
	score(weight, model.Softmax)
	return chosen, weight
}

func topRouter(k int) model.Router {
	return model.Router{TopK: k, Score: model.SoftmaxTop, Scale: 1, Bias: model.NoWeight, PerExpert: model.NoWeight}
}

// TestExperts: what a mixture makes of a row has the bits that the device's other operations give
// for the row alone, in every format and tier, with any number of threads, and whatever else is in the step.
func TestExperts(t *testing.T) {
	const rows = 40
	for _, im := range impls {
		for _, k := range mixtureKinds {
			for _, e := range []model.Experts{
				{Router: topRouter(3), Inner: 256, Act: model.Activation{Kind: model.SiLU}},
				{Router: topRouter(2), Inner: 512, Plain: true, Act: model.Activation{Kind: model.ReLUSquared}, ScoreInput: true},
			} {
				t.Run(fmt.Sprintf("%s/%s/plain=%t", im.name, k.name, e.Plain), func(t *testing.T) {
					for _, threads := range []int{1, 3} {
						x := newMixture(t, Config{Threads: threads, KVType: BF16, Impl: im.name}, k, e, 9, 256, rows)
						x.skew(rows)
						x.compareAlone(t, rows, threads)
					}
				})
			}
		}
	}
}

// compareAlone compares rows in several steps with each row alone.
func (x *mixture) compareAlone(t *testing.T, rows, threads int) {
	t.Helper()
	var want [][]float32
	var all []int
	for r := range rows {
		want, all = append(want, x.alone(r)), append(all, r)
	}
	if want[0][0] == want[0][1] || want[0][0]-want[0][0] != 0 {
		t.Fatalf("the row of a test is %v", want[0][:2])
	}
	for _, list := range [][]int{{0}, {5, 1}, {7, 3, 2, 9, 1, 33, 12}, all} {
		for i, got := range x.run(list...) {
			sameBits(t, got, want[list[i]], "%d threads, row %d of %d", threads, list[i], len(list))
		}
	}
}

// skew has one expert chosen by all rows and one by none, and others with the same logits.
func (x *mixture) skew(rows int) {
	count := len(x.m.GateUp)
	for r := range rows {
		logits := x.logits[r*count:][:count]
		logits[2], logits[4] = 9, -9
		if r%2 == 1 {
			for i := 5; i < count; i++ {
				logits[i] = 5
			}
		}
	}
}

// TestExpertWaves: the same, for more entries than there is memory for at a time.
func TestExpertWaves(t *testing.T) {
	const rows, count = 600, 24
	e := model.Experts{Router: topRouter(16), Inner: 32, Act: model.Activation{Kind: model.SiLU}}
	x := newMixture(t, Config{Threads: 2, KVType: BF16}, mixtureKinds[3], e, count, 48, rows)
	if x.experts.room >= rows*e.TopK {
		t.Fatal("one wave is enough")
	}
	x.skew(rows)
	var all []int
	for r := range rows {
		all = append(all, r)
	}
	for r, got := range x.run(all...) {
		if r%17 == 0 {
			sameBits(t, got, x.alone(r), "row %d", r)
		}
	}
}

// TestExpertsAreRight compares a mixture with double precision.
func TestExpertsAreRight(t *testing.T) {
	e := model.Experts{Router: topRouter(4), Inner: 40, Act: model.Activation{Kind: model.SiLU, Alpha: 1.702, Limit: 7, UpPlus: 1}}
	x := newMixture(t, Config{Threads: 2, KVType: BF16}, mixtureKinds[0], e, 11, 50, 5)
	for r, got := range x.run(0, 1, 2, 3, 4) {
		chosen, weight := softmaxTop(x.logits[r*11:][:11], 4)
		want := make([]float64, 50)
		in := make([]float64, 50)
		for i := range in {
			in[i] = float64(x.src[r*50+i])
		}
		for i, c := range chosen {
			bias := func(w model.Weight, n int) []weights.Tensor { // as newMixture made them
				return []weights.Tensor{tensor(rnd2(int(w)), weights.F32, 0.2, n)}
			}
			gate, up := mul64(x.gate[c], in, bias(x.m.GateUp[c], 40)...), mul64(x.up[c], in, bias(x.m.GateUp[c], 40)...)
			for f, g := range gate {
				g, u := min(g, 7), min(max(up[f], -7), 7)
				gate[f] = g / (1 + math.Exp(-1.702*g)) * (u + 1)
			}
			for d, v := range mul64(x.down[c], gate, bias(x.m.Down[c], 50)...) {
				want[d] += v * float64(weight[i])
			}
		}
		for d, v := range want {
			near(t, got[d], v, 10, 1e-5, "row %d, column %d", r, d)
		}
	}
}

// TestExpertsAllocateNothing also with numbers that are not numbers.
func TestExpertsAllocateNothing(t *testing.T) {
	e := model.Experts{Router: topRouter(3), Inner: 64, Act: model.Activation{Kind: model.SiLU}}
	x := newMixture(t, Config{Threads: 2, KVType: BF16}, mixtureKinds[3], e, 9, 64, 16)
	for i := range x.logits[:9] {
		x.logits[i] = float32(math.NaN())
	}
	x.logits[3] = 1
	x.run(0, 1, 2, 3, 4, 5)
	src, logits, dst := model.Act{Buf: mixSrc, Width: 64}, model.Act{Buf: mixLogits, Width: 9}, model.Act{Buf: mixDst, Width: 64}
	if n := testing.AllocsPerRun(10, func() { x.Experts(dst, src, logits, &x.m) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// BenchmarkExperts computes layers of the shapes of Qwen3-30B-A3B and gpt-oss-20b. GB/s counts the
// weights of the experts that were chosen, once.
func BenchmarkExperts(b *testing.B) {
	for _, c := range []struct {
		name                        string
		kind                        mixtureKind
		count, topK, width, columns int
	}{{"qwen3-30b-a3b", mixtureKind{"q4", Q4, bigTensor()}, 128, 8, 2048, 768}, {"gpt-oss-20b", mixtureKinds[6], 32, 4, 2880, 2880}} {
		for _, rows := range []int{1, 8, 32, 512} {
			b.Run(fmt.Sprintf("%s/rows=%d", c.name, rows), func(b *testing.B) {
				e := model.Experts{Router: topRouter(c.topK), Inner: c.columns, Act: model.Activation{Kind: model.SiLU}}
				x := newMixture(b, Config{Threads: 2, KVType: BF16, HugePages: true}, c.kind, e, c.count, c.width, rows)
				src, logits, dst := model.Act{Buf: mixSrc, Width: x.width}, model.Act{Buf: mixLogits, Width: c.count}, model.Act{Buf: mixDst, Width: x.width}
				x.batch = &backend.Batch{Tokens: make([]int32, rows)}
				x.set(src, x.src)
				bytes, chosen := 0, 0
				s := best(b, func(i int) { // each step chooses others
					at := i * 7 % rows * c.count
					x.set(logits, append(slices.Clone(x.logits[at+i%c.count:]), x.logits[:at+i%c.count]...))
					x.Experts(dst, src, logits, &x.m)
				})
				for i := range c.count {
					if n := x.experts.starts[i+1] - x.experts.starts[i]; n > 0 {
						chosen += int(n)
						for _, w := range []model.Weight{x.m.GateUp[i], x.m.Down[i]} {
							for _, m := range x.params[w].linear.parts {
								bytes += len(m.data)
							}
						}
					}
				}
				b.ReportMetric(float64(bytes)/s/1e9, "GB/s")
				b.ReportMetric(2*3*float64(chosen*c.width*c.columns)/s/1e9, "GOP/s")
			})
		}
	}
}

// bigTensor makes one tensor of each shape, which all experts have.
func bigTensor() func(rnd *rand.Rand, n, k int) weights.Tensor {
	made := map[[2]int]weights.Tensor{}
	return func(rnd *rand.Rand, n, k int) weights.Tensor {
		t, ok := made[[2]int{n, k}]
		if !ok {
			t = tensor(rnd, weights.BF16, 0.2, n, k)
			made[[2]int{n, k}] = t
		}
		return t
	}
}
