package compute

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"

	"weir/model"
	"weir/weights"
)

// shapes are the config.json files that were published with these models, without the fields
// that do not change their arithmetic.
var shapes = map[string]string{
	"qwen2.5-0.5b": `{"architectures": ["Qwen2ForCausalLM"], "vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24,
		"num_attention_heads": 14, "num_key_value_heads": 2, "max_position_embeddings": 32768, "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}`,
	"qwen3-0.6b": `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28,
		"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}`,
	"qwen3-1.7b": `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
		"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}`,
	"qwen3-4b": `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36,
		"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": true}`,
	"qwen3-8b": `{"architectures": ["Qwen3ForCausalLM"], "vocab_size": 151936, "hidden_size": 4096, "intermediate_size": 12288, "num_hidden_layers": 36,
		"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": false}`,
	"qwen3-30b-a3b": `{"architectures": ["Qwen3MoeForCausalLM"], "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 48,
		"num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "max_position_embeddings": 40960, "rope_theta": 1000000, "rms_norm_eps": 1e-6, "tie_word_embeddings": false,
		"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768, "norm_topk_prob": true, "decoder_sparse_step": 1, "mlp_only_layers": []}`,
	"qwen3.5-0.8b": `{"architectures": ["Qwen3_5ForCausalLM"], "vocab_size": 248320, "hidden_size": 1024, "intermediate_size": 3584, "num_hidden_layers": 24,
		"num_attention_heads": 8, "num_key_value_heads": 2, "head_dim": 256, "max_position_embeddings": 262144, "rms_norm_eps": 1e-6, "tie_word_embeddings": true, "full_attention_interval": 4,
		"linear_num_key_heads": 16, "linear_num_value_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
		"rope_parameters": {"rope_type": "default", "rope_theta": 10000000, "partial_rotary_factor": 0.25}}`,
	"llama-3.2-1b": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16,
		"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 64, "max_position_embeddings": 131072, "rope_theta": 500000, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
		"rope_scaling": {"rope_type": "llama3", "factor": 32, "high_freq_factor": 4, "low_freq_factor": 1, "original_max_position_embeddings": 8192}}`,
	"llama-3.2-3b": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 3072, "intermediate_size": 8192, "num_hidden_layers": 28,
		"num_attention_heads": 24, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 131072, "rope_theta": 500000, "rms_norm_eps": 1e-5, "tie_word_embeddings": true,
		"rope_scaling": {"rope_type": "llama3", "factor": 32, "high_freq_factor": 4, "low_freq_factor": 1, "original_max_position_embeddings": 8192}}`,
	"llama-3.1-8b": `{"architectures": ["LlamaForCausalLM"], "vocab_size": 128256, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 131072, "rope_theta": 500000, "rms_norm_eps": 1e-5, "tie_word_embeddings": false,
		"rope_scaling": {"rope_type": "llama3", "factor": 8, "high_freq_factor": 4, "low_freq_factor": 1, "original_max_position_embeddings": 8192}}`,
	"mistral-7b-v0.3": `{"architectures": ["MistralForCausalLM"], "vocab_size": 32768, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
		"num_attention_heads": 32, "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 32768, "rope_theta": 1000000, "rms_norm_eps": 1e-5, "sliding_window": null, "tie_word_embeddings": false}`,
}

// Shapes returns the names of the models whose shape Synthetic knows, sorted.
func Shapes() []string { return slices.Sorted(maps.Keys(shapes)) }

// Synthetic makes a model in the shape of a published one, with random weights in bfloat16
// and without reading a file. The same name gives the same weights.
func Synthetic(name string) (*model.Model, error) {
	src, ok := shapes[name]
	if !ok {
		return nil, fmt.Errorf("compute: no shape %q; there are %s", name, strings.Join(Shapes(), ", "))
	}
	c, err := model.ParseConfig([]byte(src))
	if err != nil {
		return nil, fmt.Errorf("compute: shape %s: %w", name, err)
	}
	return synthesize(c)
}

const (
	deviation = 0.02    // standard deviation of a matrix's weights, as most models are initialised
	slack     = 1 << 20 // bytes by which tensors are shifted against each other
)

// synthesize makes random weights for a network. All matrices are cut out of one sequence of
// numbers, each at its own offset, so that they cost no more memory and time than the largest
// of them. This is possible because a device makes its own copy of every matrix.
func synthesize(c model.Config) (*model.Model, error) {
	matrix, vector := largest(c)
	numbers, free, err := allocate(matrix + slack)
	if err != nil {
		return nil, fmt.Errorf("compute: %d bytes for random weights: %w", matrix+slack, err)
	}
	fill(numbers, 0, deviation)
	// The factors of norms are around 1.
	ones := make([]byte, vector+slack)
	fill(ones, 1, 0.1)
	m, err := model.FromTensors(c, func(name string, shape []int) weights.Tensor {
		t := weights.Tensor{Name: name, DType: weights.BF16, Shape: shape}
		from := numbers
		if len(shape) == 1 && strings.HasSuffix(name, ".weight") {
			from = ones
		}
		h := fnv.New64a()
		h.Write([]byte(name))
		t.Data = from[h.Sum64()%slack&^63:][:2*t.Len()]
		return t
	}, free)
	if err != nil {
		return nil, fmt.Errorf("compute: %w", err)
	}
	return m, nil
}

// largest is the size in bytes of the largest tensor, and of the largest vector, rounded up to the
// words that fill writes.
func largest(c model.Config) (tensor, vector int) {
	eachTensor(c, func(t weights.Tensor) {
		tensor = max(tensor, words(t.Len()))
		if len(t.Shape) == 1 {
			vector = max(vector, words(t.Len()))
		}
	})
	return tensor, vector
}

// eachTensor calls f with each tensor of a network, without data.
func eachTensor(c model.Config, f func(t weights.Tensor)) {
	// A model without data is refused when all tensors are known, which does not matter here.
	m, err := model.FromTensors(c, func(name string, shape []int) weights.Tensor {
		t := weights.Tensor{Name: name, DType: weights.BF16, Shape: shape}
		f(t)
		return t
	}, nil)
	if err == nil {
		m.Close()
	}
}

func words(numbers int) int { return (2*numbers + 7) &^ 7 }

// fill writes normally distributed bfloat16 numbers, with all processors. None of them is
// zero or subnormal. A number depends only on its position.
func fill(b []byte, mean, deviation float64) {
	const choices = 1 << 12 // different numbers, enough that blocks of 32 differ in their largest one
	var table [choices]uint16
	for i := range table {
		z := math.Sqrt2 * math.Erfinv(2*(float64(i)+0.5)/choices-1)
		bits := math.Float32bits(float32(mean + deviation*z))
		table[i] = uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
	const part = 1 << 20
	var team sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	for w := range workers {
		team.Go(func() {
			for start := w * part; start < len(b); start += workers * part {
				fillPart(b[start:min(start+part, len(b))], uint64(start), &table)
			}
		})
	}
	team.Wait()
}

func fillPart(b []byte, seed uint64, table *[1 << 12]uint16) {
	for i := 0; i+8 <= len(b); i += 8 {
		// splitmix64 (S. Vigna), with the position as its counter.
		x := (seed + uint64(i)) * 0x9e3779b97f4a7c15
		x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
		x = (x ^ x>>27) * 0x94d049bb133111eb
		x ^= x >> 31
		binary.LittleEndian.PutUint64(b[i:], uint64(table[x&0xfff])|uint64(table[x>>12&0xfff])<<16|uint64(table[x>>24&0xfff])<<32|uint64(table[x>>36&0xfff])<<48)
	}
}
