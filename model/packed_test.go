package model_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/device/cpu"
	"weir/model"
	"weir/quantconfig"
	"weir/weights"
)

// quantizedFolder has checkpoints in the forms of Hugging Face, made by the programs that the
// forms are from (tools/golden/quantized.py).
const quantizedFolder = "testdata/quantized"

// packedGolden is what these programs read from a checkpoint.
type packedGolden struct {
	Prompt   []int32
	Matrices map[string]struct {
		SHA256 string
		First  []float32
	}
	logits [][]float64 // of transformers, from these numbers, in float32
}

func readPackedGolden(t *testing.T, name string) packedGolden {
	t.Helper()
	var g packedGolden
	b, err := os.ReadFile(filepath.Join(quantizedFolder, name, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	g.logits = readFloats(t, filepath.Join(quantizedFolder, name, "logits.f32"), len(g.Prompt))
	return g
}

// packedCheckpoints lists the folders with a network.
func packedCheckpoints(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(quantizedFolder, "*", "config.json"))
	if err != nil || len(list) < 20 {
		t.Fatalf("%d checkpoints, %v", len(list), err)
	}
	for i, path := range list {
		list[i] = filepath.Base(filepath.Dir(path))
	}
	return list
}

// watching is a device that keeps the tensors that it is given.
type watching struct {
	model.Device
	tensors map[string]weights.Tensor
}

func (d *watching) Load(m model.Matrix) (model.Weight, error) {
	for _, t := range slices.Concat(m.Rows, m.Bias) {
		d.tensors[t.Name] = t
	}
	return d.Device.Load(m)
}

// TestPackedNumbers: what is read from quantized checkpoints has the bits of what the programs
// read that made them, and the logits are those of transformers.
func TestPackedNumbers(t *testing.T) {
	for _, name := range packedCheckpoints(t) {
		t.Run(name, func(t *testing.T) {
			g := readPackedGolden(t, name)
			d := &watching{newReference(), map[string]weights.Tensor{}}
			h := newHarness(t, openModel(t, os.DirFS(filepath.Join(quantizedFolder, name))), d, model.Options{MaxSeqTokens: 64}, 1)
			for matrix, want := range g.Matrices {
				w, ok := d.tensors[matrix]
				if !ok || w.Packed == nil {
					t.Fatalf("%s is not there, or not packed", matrix)
				}
				compareBits(t, &w, want.SHA256, want.First)
			}
			for _, w := range d.tensors {
				if _, ok := g.Matrices[w.Name]; w.Packed != nil && !ok {
					t.Errorf("%s is packed, but the program that made the checkpoint has not packed it", w.Name)
				}
			}
			n := len(g.Prompt)
			compareLogprobs(t, h.step(chunk{&sequence{tokens: g.Prompt}, n, positions(0, n)}), g.logits, 2e-4)
		})
	}
}

// compareBits widens w in pieces and compares the hash of the numbers.
func compareBits(t *testing.T, w *weights.Tensor, sum string, first []float32) {
	t.Helper()
	columns := w.Shape[len(w.Shape)-1]
	row, hash := make([]float32, columns), sha256.New()
	for r := range w.Len() / columns {
		half := columns / 2
		w.Widen(row[:half], r, 0)
		w.Widen(row[half:], r, half)
		if r == 0 && first != nil && !slices.Equal(row[:len(first)], first) {
			t.Errorf("%s begins with %v, not %v", w.Name, row[:len(first)], first)
		}
		for i := range row {
			row[i] += 0 // zeros have no sign in the golden data
		}
		if err := binary.Write(hash, binary.LittleEndian, row); err != nil {
			t.Fatal(err)
		}
	}
	if got := hex.EncodeToString(hash.Sum(nil)); got != sum {
		t.Errorf("the numbers of %s have the hash %s, not %s", w.Name, got, sum)
	}
}

// compareLogprobs fails where the logarithm of a probability is off by more than limit.
func compareLogprobs(t *testing.T, got [][]float32, want [][]float64, limit float64) {
	t.Helper()
	worst := 0.0
	for i, row := range got {
		reference := make([]float32, len(row))
		for v := range reference {
			reference[v] = float32(want[i][v])
		}
		for v := range row {
			worst = max(worst, math.Abs(logprob(row, int32(v))-logprob(reference, int32(v))))
		}
	}
	if !(worst <= limit) {
		t.Errorf("log-probabilities are off by %.3g", worst)
	}
}

// TestPackedLogits: with float32 activations the CPU device computes what transformers does.
func TestPackedLogits(t *testing.T) {
	for _, name := range packedCheckpoints(t) {
		t.Run(name, func(t *testing.T) {
			g := readPackedGolden(t, name)
			for _, impl := range cpu.Impls() {
				h := newHarness(t, openModel(t, os.DirFS(filepath.Join(quantizedFolder, name))), newQuantized(t, impl, cpu.F32, cpu.F32), model.Options{MaxSeqTokens: 64}, 1)
				n := len(g.Prompt)
				compareLogprobs(t, h.step(chunk{&sequence{tokens: g.Prompt}, n, positions(0, n)}), g.logits, 2e-3)
			}
		})
	}
}

// TestPackedRounded: where a device rounds activations, the mean and the largest distance of
// log-probabilities are at most 1.5 times those of a float64 pass that rounds them so.
func TestPackedRounded(t *testing.T) {
	for _, name := range packedCheckpoints(t) {
		t.Run(name, func(t *testing.T) { checkRounded(t, name) })
	}
}

func checkRounded(t *testing.T, name string) {
	m := openModel(t, os.DirFS(filepath.Join(quantizedFolder, name)))
	exact := logprobsOf(t, m, newReference())
	for _, impl := range cpu.Impls() {
		if roundsRows(impl) {
			continue // the rows of its bfloat16 matrices are rounded, too
		}
		cfg := cpu.Default()
		cfg.Impl = impl
		as := func(x weights.Tensor) cpu.Format {
			f, err := cfg.StoredAs(x)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
		roundings := 0
		rounding := &reference{
			rounds: func(x weights.Tensor) bool {
				f := as(x)
				if !x.Quantized() || f == cpu.F32 || f == cpu.FP8 {
					return false
				}
				roundings++
				return true
			},
			whole: func(x weights.Tensor) bool { return as(x) == cpu.W8A8 },
		}
		wantMean, wantMost := distance(logprobsOf(t, m, rounding), exact)
		mean, most := distance(logprobsOf(t, m, newQuantized(t, impl, cpu.Auto, cpu.F32)), exact)
		meanLimit, mostLimit := 1.5*wantMean, 1.5*wantMost
		if roundings == 0 {
			meanLimit, mostLimit = 2e-3, 2e-3
		}
		if !(mean <= meanLimit && most <= mostLimit) {
			t.Errorf("%s: off by %.2g, on average %.2g; the reference that rounds activations by %.2g, %.2g", impl, most, mean, wantMost, wantMean)
		}
	}
}

// TestPackedExperts: the experts of gpt-oss are stacks of matrices.
func TestPackedExperts(t *testing.T) {
	dir := filepath.Join(quantizedFolder, "mxfp4-experts")
	var g struct {
		Shape  []int
		SHA256 string
	}
	b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	stored, err := weights.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stored.Close() })
	c, err := quantconfig.Parse([]byte(`{"quant_method": "mxfp4", "modules_to_not_convert": ["model.layers.*.self_attn", "lm_head"]}`))
	if err != nil {
		t.Fatal(err)
	}
	tensors, err := c.Assemble(stored, []quantconfig.Matrix{{Name: "experts.gate_up_proj", Shape: g.Shape}}, func(string) bool { return false })
	if err != nil || len(tensors) != 1 {
		t.Fatalf("%d tensors, %v", len(tensors), err)
	}
	compareBits(t, &tensors[0], g.SHA256, nil)
}

// TestPackedRefused: a damaged or contradictory checkpoint is one sentence.
func TestPackedRefused(t *testing.T) {
	open := func(name string, change func(config string) string) error {
		m := files(t, os.DirFS(filepath.Join(quantizedFolder, name)))
		file := m["config.json"]
		if other, ok := m["hf_quant_config.json"]; ok {
			file = other
		}
		before := string(file.Data)
		file.Data = []byte(change(before))
		if string(file.Data) == before {
			t.Fatalf("%s: the config is as before", name)
		}
		opened, err := model.OpenFS(m)
		if err == nil {
			opened.Close()
		}
		return err
	}
	replace := func(old, new string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, new, 1) }
	}
	for _, c := range []struct {
		name   string
		change func(string) string
		is     error
		says   string
	}{
		{"awq", replace(`"o_proj"`, `"o_proj", "down_proj"`), quantconfig.ErrMismatch, `the config leaves "model.layers.0.mlp.down_proj" out, but there is "model.layers.0.mlp.down_proj.qweight"`},
		{"awq", replace(`"o_proj"`, `"other"`), quantconfig.ErrMismatch, `the config says that "model.layers.0.self_attn.o_proj" is quantized, but it is not`},
		{"awq", replace(`"gemm"`, `"gemv"`), quantconfig.ErrUnsupported, `version "gemv" of AWQ; there is gemm`},
		{"awq", replace(`"group_size": 32`, `"group_size": 16`), quantconfig.ErrMismatch, `scales" has shape [2 64] instead of [4 64] for a matrix of shape [64 64]`},
		{"gptq-4", replace(`"bits": 4`, `"bits": 8`), quantconfig.ErrMismatch, `qweight" has shape [8 64] instead of [16 64]`},
		{"gptq-4", replace(`"bits": 4`, `"bits": 5`), quantconfig.ErrUnsupported, "GPTQ with 5 bits; there are 2, 3, 4 and 8"},
		{"gptq-4", replace(`"checkpoint_format": "gptq"`, `"checkpoint_format": "marlin"`), quantconfig.ErrUnsupported, "marlin"},
		{"gptq-4", replace(`"quant_method": "gptq"`, `"quant_method": "bitsandbytes"`), quantconfig.ErrUnsupported, `the quantization method "bitsandbytes"; there are auto-round, awq, compressed-tensors, fbgemm_fp8, fp8, gptq, modelopt, mxfp4`},
		{"gptq-4", replace(`"bits": 4`, `"bits": "4"`), quantconfig.ErrConfig, "bits is string"},
		{"fp8-block", replace(`"lm_head",`, `"lm_head", "model.layers.0.mlp",`), quantconfig.ErrMismatch, `leaves "model.layers.0.mlp.gate_proj" out`},
		{"fp8-ue8m0", replace(`"model.layers.0.mlp.down_proj"`, `"x"`), quantconfig.ErrMismatch, `says that "model.layers.0.mlp.down_proj" is quantized`},
		{"ct-mixed", replace(`"re:.*o_proj"`, `"re:.*(?!o_proj)"`), quantconfig.ErrUnsupported, "the pattern"},
		{"ct-w4a16", replace(`"ignore": [`, `"ignore": ["re:.*down_proj$",`), quantconfig.ErrMismatch, "down_proj.weight_packed"},
		{"ct-w4a16", replace(`"pack-quantized"`, `"marlin-24"`), quantconfig.ErrUnsupported, "marlin-24"},
		{"modelopt-nvfp4", replace(`"NVFP4"`, `"W4A8_AWQ"`), quantconfig.ErrUnsupported, `quant_algo "W4A8_AWQ" of ModelOpt`},
	} {
		if err := open(c.name, c.change); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v; want %q", c.name, err, c.says)
		}
	}
}

// TestPackedReopen: a quantized checkpoint can be opened again.
func TestPackedReopen(t *testing.T) {
	m, err := model.Open(filepath.Join(quantizedFolder, "ct-w4a16"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	if err := m.Reopen(); err != nil {
		t.Error(err)
	}
}

// FuzzPackedCheckpoint: whatever a quantized checkpoint and its config hold, opening and reading it
// ends with an error or without one.
func FuzzPackedCheckpoint(f *testing.F) {
	for _, name := range []string{"gptq-4-desc", "awq", "ct-mixed", "modelopt-nvfp4", "fp8-block"} {
		dir := os.DirFS(filepath.Join(quantizedFolder, name))
		config, err := fs.ReadFile(dir, "config.json")
		if err != nil {
			f.Fatal(err)
		}
		other, err := fs.ReadFile(dir, "hf_quant_config.json")
		if err != nil {
			other = []byte("{}")
		}
		tensors, err := fs.ReadFile(dir, "model.safetensors")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(config, other, tensors)
	}
	f.Fuzz(func(t *testing.T, config, other, tensors []byte) {
		m, err := model.OpenFS(fstest.MapFS{"config.json": {Data: config}, "hf_quant_config.json": {Data: other}, "model.safetensors": {Data: tensors}})
		if err != nil {
			return
		}
		defer m.Close()
		if m.Parameters() > 1<<20 {
			return
		}
		if r, err := model.NewRunner(t.Context(), &loading{}, m, model.Options{MaxSeqTokens: 16}); err == nil {
			r.Close()
		}
	})
}

// loading is a device that only reads what it loads.
type loading struct{ model.Device }

func (d *loading) Plan(model.Shape) error { return nil }
func (d *loading) Close() error           { return nil }

func (d *loading) Load(m model.Matrix) (model.Weight, error) {
	if err := m.Check(); err != nil {
		return 0, err
	}
	for _, t := range slices.Concat(m.Rows, m.Bias) {
		row := make([]float32, t.Shape[len(t.Shape)-1])
		for r := range t.Len() / len(row) {
			t.Widen(row, r, 0)
		}
	}
	return 0, nil
}

// TestPackedParts: the parts of kv_b_proj of a checkpoint in blocks of float8, which are turned over or cut through
// blocks, have the numbers that the blocks say.
func TestPackedParts(t *testing.T) {
	dir := filepath.Join("testdata/families", "deepseek_v3")
	config, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	const name, block = "model.layers.1.self_attn.kv_b_proj.weight", 16
	g := readFamily(t, "deepseek_v3")
	logits := func(config []byte, replace func(shape []int) map[string]weights.Tensor) [][]float32 {
		file := replaced(t, filepath.Join(dir, "model.safetensors"), name, replace)
		m := openModel(t, fstest.MapFS{"config.json": {Data: config}, "model.safetensors": {Data: file}})
		h := newHarness(t, m, newQuantized(t, "", cpu.F32, cpu.F32), model.Options{MaxSeqTokens: 128}, 1)
		return h.step(chunk{&sequence{tokens: g.Prompt}, len(g.Prompt), positions(0, len(g.Prompt))})
	}
	code := func(i int) byte { return byte(i*37+11)&0x87 | byte(i%6+4)<<3 } // numbers between 2^-3 and 4
	scale := func(i int) float32 { return 0.05 + float32(i%7)*0.01 }
	got := logits(slices.Concat([]byte(`{"quantization_config": {"quant_method": "fp8", "weight_block_size": [16, 16]}, `), config[1:]), func(shape []int) map[string]weights.Tensor {
		blocks := []int{(shape[0] + block - 1) / block, (shape[1] + block - 1) / block}
		var codes, scales []byte
		for i := range shape[0] * shape[1] {
			codes = append(codes, code(i))
		}
		for i := range blocks[0] * blocks[1] {
			scales = binary.LittleEndian.AppendUint32(scales, math.Float32bits(scale(i)))
		}
		return map[string]weights.Tensor{name: {DType: weights.F8E4M3, Shape: shape, Data: codes}, name + "_scale_inv": {DType: weights.F32, Shape: blocks, Data: scales}}
	})
	want := logits(config, func(shape []int) map[string]weights.Tensor {
		var data []byte
		for i := range shape[0] * shape[1] {
			b, at := code(i), i/shape[1]/block*((shape[1]+block-1)/block)+i%shape[1]/block
			v := math.Ldexp(1+float64(b&7)/8, int(b>>3&15)-7)
			if b>>7 != 0 {
				v = -v
			}
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(v)*scale(at)))
		}
		return map[string]weights.Tensor{name: {DType: weights.F32, Shape: shape, Data: data}}
	})
	for i, row := range got {
		if !slices.Equal(row, want[i]) {
			t.Fatalf("position %d: %v instead of %v", i, row[:4], want[i][:4])
		}
	}
}

// replaced is a file of safetensors in which others stand in place of a tensor.
func replaced(t *testing.T, path, name string, by func(shape []int) map[string]weights.Tensor) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	type entry struct {
		DType   string `json:"dtype"`
		Shape   []int  `json:"shape"`
		Offsets [2]int `json:"data_offsets"`
	}
	size := binary.LittleEndian.Uint64(b)
	var header map[string]entry
	if err := json.Unmarshal(b[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	stored := b[8+size:]
	var data []byte
	others := map[string]entry{}
	add := func(k string, e entry, bytes []byte) {
		e.Offsets = [2]int{len(data), len(data) + len(bytes)}
		data = append(data, bytes...)
		others[k] = e
	}
	for k, e := range header {
		if k != "__metadata__" && k != name {
			add(k, e, stored[e.Offsets[0]:e.Offsets[1]])
		}
	}
	for k, x := range by(header[name].Shape) {
		add(k, entry{DType: map[weights.DType]string{weights.F32: "F32", weights.F8E4M3: "F8_E4M3"}[x.DType], Shape: x.Shape}, x.Data)
	}
	head, err := json.Marshal(others)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(head))), head, data)
}
