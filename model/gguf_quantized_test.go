package model_test

import (
	"encoding/binary"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/device/cpu"
	"weir/internal/testkit"
	"weir/model"
	"weir/weights"
)

// quantizedFamilies are families whose GGUF files have tensors that others do not have: of recurrent layers,
// stacked or fused experts, latent attention, embeddings for each layer, learned positions, fused products.
var quantizedFamilies = []string{"qwen3_next", "qwen3_5", "qwen3_5_moe", "gemma4", "gemma4_e", "gemma4_moe", "granitemoehybrid", "nemotron_h", "falcon_h1", "lfm2", "lfm2_moe",
	"kimi_linear", "llama4", "mimo_v2_flash", "mistral4", "deepseek_v3", "gpt2_plain", "falcon_new"}

// widened makes sizes of a small network large enough for blocks.
func widened(key string, value any) any {
	sizes := []string{"attention.key_length", "attention.value_length", "attention.key_length_swa", "attention.value_length_swa", "attention.key_length_mla",
		"attention.value_length_mla", "rope.dimension_count", "rope.dimension_count_swa", "ssm.state_size", "ssm.inner_size", "attention.kv_lora_rank", "attention.q_lora_rank",
		"expert_feed_forward_length", "expert_shared_feed_forward_length", "kda.head_dim", "embedding_length_per_layer_input"}
	_, rest, _ := strings.Cut(key, ".")
	switch v := value.(type) {
	case uint32:
		switch {
		case rest == "rope.dimension_count" && v == 10: // a head of the hidden size / the number of heads
			return uint32(64)
		case rest == "embedding_length" || rest == "feed_forward_length":
			return uint32(256)
		case slices.Contains(sizes, rest):
			return 16 * v
		}
	case []int32:
		if rest == "feed_forward_length" {
			v = slices.Clone(v)
			for i := range v {
				v[i] = v[i] / 40 * 256
			}
		}
		return v
	}
	return value
}

// staysFloat reports whether llama.cpp leaves a tensor as it is when it quantizes a file (src/llama-quant.cpp).
func staysFloat(name string, shape []int) bool {
	return len(shape) == 1 || !strings.HasSuffix(name, ".weight") || strings.HasSuffix(name, "_norm.weight") ||
		slices.ContainsFunc([]string{"ffn_gate_inp.weight", "ssm_conv1d", "shortconv.conv.weight", "per_layer_model_proj", "position_embd"}, func(part string) bool { return strings.Contains(name, part) })
}

// quantizedFile is a file like that of a family, but of a wider network of random numbers, and the same file with the
// numbers of blocks as float32.
func quantizedFile(t *testing.T, name string) (blocks, plain *testkit.GGUF) {
	t.Helper()
	d := readConverted(t, name)
	small := d.file(t, name)
	for i, k := range small.Keys {
		small.Keys[i].Value = widened(k.Key, k.Value)
	}
	rng := rand.New(rand.NewPCG(7, 8))
	for i := range small.Tensors {
		if x := &small.Tensors[i]; x.Name == "rope_freqs.weight" {
			x.Shape = []uint64{128}
			x.Data = slices.Repeat([]byte{0, 0, 0x80, 0x3f}, 128)
		}
	}
	shapes, err := model.GGUFShapes(fstest.MapFS{"x": {Data: small.Bytes()}}, "x")
	if err != nil {
		t.Fatal(err)
	}
	types := map[weights.DType]uint32{weights.F32: 0, weights.Q8_0: 8, weights.Q4_K: 12, weights.Q6_K: 14}
	blocks, plain = &testkit.GGUF{Keys: small.Keys}, &testkit.GGUF{Keys: small.Keys}
	quantized := 0
	for i, x := range small.Tensors {
		shape, ok := shapes[x.Name]
		if !ok {
			if strings.Contains(x.Name, ".nextn.") {
				continue
			}
			shape = nil // as it is
			blocks.Tensors, plain.Tensors = append(blocks.Tensors, x), append(plain.Tensors, x)
			continue
		}
		x.Shape = nil
		for _, n := range slices.Backward(shape) {
			x.Shape = append(x.Shape, uint64(n))
		}
		w := weights.Tensor{Name: x.Name, DType: weights.F32, Shape: shape}
		columns := shape[len(shape)-1]
		switch {
		case staysFloat(x.Name, shape):
		case columns%256 == 0:
			w.DType = []weights.DType{weights.Q4_K, weights.Q6_K}[i%2]
		case columns%32 == 0:
			w.DType = weights.Q8_0
		}
		if w.DType == weights.F32 {
			w.Data = floats(rng, w.Len(), x.Name, len(shape))
		} else {
			w.Data = someBlocks(t, rng, w.DType, w.Len()/columns*w.DType.RowBytes(columns))
			quantized++
		}
		x.Type, x.Data = types[w.DType], w.Data
		blocks.Tensors = append(blocks.Tensors, x)
		wide := make([]float32, w.Len())
		for r := range w.Len() / columns {
			flat := w
			flat.Shape = []int{w.Len() / columns, columns}
			flat.Widen(wide[r*columns:][:columns], r, 0)
		}
		x.Type, x.Data = 0, nil
		for _, f := range wide {
			x.Data = binary.LittleEndian.AppendUint32(x.Data, math.Float32bits(f))
		}
		plain.Tensors = append(plain.Tensors, x)
	}
	if quantized < 10 {
		t.Fatalf("%d tensors are quantized", quantized)
	}
	return blocks, plain
}

// floats are numbers of a tensor that stays float32: about 1 in vectors, about 0 in matrices, and negative decays.
func floats(rng *rand.Rand, n int, name string, dimensions int) (data []byte) {
	for range n {
		x := 0.1 * rng.NormFloat64()
		switch {
		case strings.HasSuffix(name, ".ssm_a"):
			x = -math.Exp(x)
		case dimensions == 1:
			x++
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(float32(x)))
	}
	return data
}

// someBlocks are blocks of a trained model in another order.
func someBlocks(t *testing.T, rng *rand.Rand, d weights.DType, n int) []byte {
	t.Helper()
	pool := slices.Concat(trainedRows(t, d)...)
	_, size := d.Block()
	data := make([]byte, 0, n)
	for len(data) < n {
		at := rng.IntN(len(pool)/size) * size
		data = append(data, pool[at:at+size]...)
	}
	return data
}

// TestGGUFFamiliesQuantized: a file whose large matrices are blocks, and whose small tensors are what llama.cpp leaves
// as they are, gives the logits of the numbers that the blocks stand for.
func TestGGUFFamiliesQuantized(t *testing.T) {
	for _, name := range quantizedFamilies {
		t.Run(name, func(t *testing.T) {
			blocks, plain := quantizedFile(t, name)
			logits := func(g *testkit.GGUF, dev model.Device) [][]float32 {
				s := &sequence{tokens: []int32{3, 77, 12, 41}}
				return newHarness(t, openBytes(t, g.Bytes()), dev, model.Options{MaxSeqTokens: 16, MaxTokens: 8}, 1).step(chunk{s, 4, positions(0, 4)})
			}
			want := logits(plain, newQuantized(t, "", cpu.F32, cpu.F32))
			var size float64
			for _, x := range want[3] {
				size = max(size, math.Abs(float64(x)))
			}
			if !(size > 0.05) || math.IsInf(size, 0) {
				t.Fatalf("the greatest logit is %v", size)
			}
			flat := func(rows [][]float32) (list []float64) {
				for _, row := range rows {
					for _, x := range row {
						list = append(list, float64(x))
					}
				}
				return list
			}
			if mean, most := distance(flat(logits(blocks, newQuantized(t, "", cpu.F32, cpu.F32))), flat(want)); !(most <= 1e-3*size) {
				t.Errorf("a logit is off by %v, on average %v, and the greatest is %v", most, mean, size)
			}
			// As the device stores them by default it rounds activations, so that a token may go to another expert.
			if mean, _ := distance(flat(logits(blocks, newQuantized(t, "", cpu.Auto, cpu.F32))), flat(want)); !(mean <= 0.1*size) {
				t.Errorf("rounded: logits are off by %v on average, and the greatest is %v", mean, size)
			}
		})
	}
}
