package model_test

import (
	"compress/gzip"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"weir/device/cpu"
	"weir/model"
	"weir/weights"
)

// blocksConfig is a network whose matrices have rows of one block of the largest types.
var blocksConfig = model.Config{
	Architecture: "Qwen3ForCausalLM", VocabSize: 96, Hidden: 256, Intermediate: 256, Layers: 2, Heads: 4, KVHeads: 2, HeadDim: 64,
	MaxSeqTokens: 256, NormEps: 1e-6, TiedHead: true, QKNorm: true, Windows: []int{0, 0}, EOS: []int32{2}, Rope: plainRope(64),
}

func plainRope(size int) model.Rope {
	r := model.Rope{Scale: 1}
	for i := range size / 2 {
		r.InvFreq = append(r.InvFreq, float32(math.Pow(10000, -float64(2*i)/float64(size))))
	}
	return r
}

// trainedRows are 96 rows of a trained model, as ggml's quantizer stores them in blocks of d
// (tools/golden/ggml_rows.py).
func trainedRows(t *testing.T, d weights.DType) (rows [][]byte) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", "quantised", d.String()+".gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	for size := d.RowBytes(blocksConfig.Hidden); len(data) > 0; data = data[size:] {
		rows = append(rows, data[:size])
	}
	return rows
}

// blocksModel makes a model of blocksConfig: every matrix consists of trained rows in an order
// of its own, which are of the type that typeOf says.
func blocksModel(t *testing.T, typeOf func(name string) weights.DType) *model.Model {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	m, err := model.FromTensors(blocksConfig, func(name string, shape []int) weights.Tensor {
		if len(shape) == 1 {
			x := weights.Tensor{Name: name, DType: weights.F32, Shape: shape}
			for range shape[0] {
				bits := math.Float32bits(float32(1 + 0.1*rng.NormFloat64()))
				x.Data = append(x.Data, byte(bits), byte(bits>>8), byte(bits>>16), byte(bits>>24))
			}
			return x
		}
		x := weights.Tensor{Name: name, DType: typeOf(name), Shape: shape}
		rows := trainedRows(t, x.DType)
		for len(x.Data) < shape[0]*len(rows[0]) {
			for _, r := range rng.Perm(len(rows)) {
				x.Data = append(x.Data, rows[r]...)
			}
		}
		x.Data = x.Data[:shape[0]*len(rows[0])]
		return x
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// logprobsOf are the log-probabilities of every token after each position of a text.
func logprobsOf(t *testing.T, m *model.Model, dev model.Device) (list []float64) {
	t.Helper()
	s := &sequence{}
	for i := range 40 {
		s.tokens = append(s.tokens, int32(i*i*7+i)%96)
	}
	h := newHarness(t, m, dev, model.Options{MaxSeqTokens: 64}, 1)
	for _, row := range h.step(chunk{s, len(s.tokens), positions(0, len(s.tokens))}) {
		for token := range row {
			list = append(list, logprob(row, int32(token)))
		}
	}
	return list
}

// distance is the mean and the largest distance of numbers; NaN if one is not a number.
func distance(a, b []float64) (mean, most float64) {
	for i := range a {
		d := math.Abs(a[i] - b[i])
		mean, most = mean+d/float64(len(a)), max(most, d)
	}
	return mean, most
}

// checkLogprobs compares the log-probabilities of a model of blocks with those of a float64
// pass over the numbers that the blocks stand for. Where activations are float32, the limit is
// 2e-3; where they are rounded, the mean and the largest distance are at most 1.5 times those
// of a float64 pass that rounds them in the same way.
func checkLogprobs(t *testing.T, m *model.Model) {
	t.Helper()
	exact := logprobsOf(t, m, newReference())
	for _, impl := range cpu.Impls() {
		mean, most := distance(logprobsOf(t, m, newQuantized(t, impl, cpu.F32, cpu.F32)), exact)
		if !(most <= 2e-3) {
			t.Errorf("%s, float32 activations: off by %.2g, on average %.2g", impl, most, mean)
		}
		cfg := cpu.Default()
		cfg.Impl = impl
		roundings := 0
		rounding := &reference{rounds: func(x weights.Tensor) bool {
			f, err := cfg.StoredAs(x)
			if err != nil {
				t.Fatal(err)
			}
			rounds := f != cpu.F32
			if rounds {
				roundings++
			}
			return rounds
		}}
		meanLimit, mostLimit := 2e-3, 2e-3
		wantMean, wantMost := distance(logprobsOf(t, m, rounding), exact)
		if roundings > 0 {
			meanLimit, mostLimit = 1.5*wantMean, 1.5*wantMost
		}
		mean, most = distance(logprobsOf(t, m, newQuantized(t, impl, cpu.Auto, cpu.F32)), exact)
		t.Logf("%s: %.2g on average, %.2g at most; the reference that rounds %.2g, %.2g", impl, mean, most, wantMean, wantMost)
		if !(mean <= meanLimit && most <= mostLimit) {
			t.Errorf("%s: off by %.2g, on average %.2g, and the reference that rounds activations by %.2g, %.2g", impl, most, mean, wantMost, wantMean)
		}
	}
}

// blockTypes are the types of blocks that matrices are stored in.
func blockTypes(t *testing.T) (list []weights.DType) {
	for d := weights.Q4_0; d.Blocked(); d++ {
		if x := (weights.Tensor{DType: d, Shape: []int{1, 256}}); x.Widens() {
			list = append(list, d)
		}
	}
	if len(list) != 25 {
		t.Errorf("%d types of blocks", len(list))
	}
	return list
}

// TestBlocksLogprobs: a model of each type of blocks.
func TestBlocksLogprobs(t *testing.T) {
	for _, d := range blockTypes(t) {
		t.Run(d.String(), func(t *testing.T) {
			checkLogprobs(t, blocksModel(t, func(string) weights.DType { return d }))
		})
	}
}

// TestBlocksMixed: the matrices of a stacked product are of different types, those that the
// device keeps, those that it widens, and those that are bfloat16 anyway.
func TestBlocksMixed(t *testing.T) {
	for i, mix := range [][]weights.DType{
		{weights.Q4_K, weights.Q4_K, weights.Q6_K, weights.Q4_K, weights.Q6_K},
		{weights.Q8_0, weights.Q5_1, weights.IQ4_XS, weights.Q2_K, weights.Q4_0},
		{weights.IQ2_S, weights.Q3_K, weights.MXFP4, weights.TQ2_0, weights.Q5_K},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			checkLogprobs(t, blocksModel(t, func(name string) weights.DType {
				for j, part := range []string{"q_proj", "k_proj", "v_proj", "gate_proj"} {
					if strings.Contains(name, part) {
						return mix[j]
					}
				}
				return mix[4]
			}))
		})
	}
}

// TestBlocksFile: a file that llama-quantize has made, in which Q and K are Q4_K and V is
// Q6_K. The rows of Q and K take turns.
func TestBlocksFile(t *testing.T) {
	m := openPath(t, filepath.Join("testdata", "quantised", "mixed-q4_k_m.gguf"))
	types := map[weights.DType]bool{}
	for _, x := range m.Matrices() {
		for _, r := range x.Rows {
			types[r.DType] = true
		}
		if len(x.Rows) == 3 && (x.Rows[0].DType != weights.Q4_K || x.Rows[0].Pairs == 0 || x.Rows[2].DType != weights.Q6_K) {
			t.Errorf("Q is %v with rows in pairs of %d, V is %v", x.Rows[0].DType, x.Rows[0].Pairs, x.Rows[2].DType)
		}
	}
	if len(types) != 3 { // and float32
		t.Errorf("types %v", types)
	}
	checkLogprobs(t, m)
}
