//go:build cuda && linux && amd64

package cuda_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"weir/model"
)

// TestLaunches: a step of decoding launches these kernels and no others. Residual sums are
// epilogues of products, SwiGLU is that of the product of gate and up unless it has a bias,
// and the block of attention that ends last merges the parts.
func TestLaunches(t *testing.T) {
	emulated(t)
	for _, c := range []struct {
		family    string
		mergeFrom int
		attention []string
		gate      []string
	}{
		{"qwen3", 100, []string{"attn_whole_d64"}, nil},
		{"qwen3", 10, []string{"attn_decode_d64", "attn_merge"}, nil},
		{"llama-bias", 100, []string{"attn_whole_d64"}, []string{"silu_gate"}},
	} {
		t.Run(fmt.Sprint(c.family, " from ", c.mergeFrom), func(t *testing.T) {
			m := openModel(t, c.family)
			cfg := config()
			cfg.PlainLaunch, cfg.MergeFrom = true, c.mergeFrom
			h := newHarness(t, onGPU(t, m, cfg, model.Options{NumBlocks: 20, MaxTokens: 32, MaxSeqs: 4, MaxSeqTokens: 64, Depth: 2}), 1)
			s := &sequence{tokens: randomTokens(rand.New(rand.NewPCG(4, 4)), 12, m.Config.VocabSize)}
			h.step(chunk{seq: s, n: 11, draw: greedy()})
			log := filepath.Join(t.TempDir(), "calls")
			t.Setenv("FAKE_CUDA_LOG", log)
			h.step(chunk{seq: s, n: 1, draw: greedy()})
			t.Setenv("FAKE_CUDA_LOG", "")
			calls, err := os.ReadFile(log)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for line := range strings.Lines(string(calls)) {
				if name, ok := strings.CutPrefix(line, "kernel "); ok {
					got = append(got, strings.TrimSpace(name))
				}
			}
			const gemm = "gemm_bf16_n8"
			want := []string{"embed"}
			for i := range m.Config.Layers {
				want = append(append(want, "rmsnorm", gemm, "rope_kv"), c.attention...)
				if i == m.Config.Layers-1 {
					want = append(want, "gather", "gather")
				}
				want = append(append(append(want, gemm, "rmsnorm", gemm), c.gate...), gemm)
			}
			want = append(want, "rmsnorm", gemm, "pick", "set_flag")
			if !slices.Equal(got, want) {
				t.Errorf("launched %v, want %v", got, want)
			}
		})
	}
}

// TestMergeFrom: it changes no bit whether the block that ends last or a launch of its own
// merges the parts of attention, also when a sequence passes from one to the other, and
// with graphs and without. The same holds with chunks that begin within a part, of which the parts
// before are listed and left out.
func TestMergeFrom(t *testing.T) {
	t.Run("chunks", func(t *testing.T) { mergeFrom(t, 514) })
	mergeFrom(t, 0)
}

func mergeFrom(t *testing.T, size int) {
	m := openModel(t, "qwen3")
	edit(m, func(a *model.AttentionSpec) { a.Chunk = size })
	m.Config.MaxSeqTokens = 600
	v := m.Config.VocabSize
	const prompt, length = 508, 516 // into the second part
	g := rand.New(rand.NewPCG(9, 9))
	tokens, mate := randomTokens(g, length, v), randomTokens(g, length, v)
	var want []float32
	for _, c := range []struct {
		name      string
		mergeFrom int
		plain     bool
		mate      int // positions of a neighbour
	}{
		{"never apart", 1 << 30, false, 0},
		{"always apart", 0, false, 0},
		{"apart from the fourth token on", prompt + 4, false, 0},
		{"apart from the fourth token on, launched one by one", prompt + 4, true, 0},
		{"apart because of a neighbour", prompt + 20, false, prompt + 30},
	} {
		if size > 0 && c.mergeFrom == prompt+4 {
			continue // the same again
		}
		t.Run(c.name, func(t *testing.T) {
			cfg := config()
			cfg.MergeFrom, cfg.PlainLaunch = c.mergeFrom, c.plain
			h := newHarness(t, onGPU(t, m, cfg, model.Options{NumBlocks: 80, MaxTokens: 256, MaxSeqs: 4, MaxSeqTokens: 600, Depth: 2}), 1)
			s, other := &sequence{tokens: tokens}, &sequence{tokens: append(slices.Clone(mate), mate...)}
			for s.computed < prompt {
				h.step(chunk{seq: s, n: min(200, prompt-s.computed), draw: greedy()})
			}
			for other.computed < c.mate {
				h.step(chunk{seq: other, n: min(200, c.mate-other.computed), draw: greedy()})
			}
			var got []float32
			for s.computed < length {
				chunks := []chunk{{seq: s, n: 1, draw: greedy()}}
				if c.mate > 0 {
					chunks = append(chunks, chunk{seq: other, n: 1, draw: greedy()})
				}
				got = append(got, h.step(chunks...).Logits[:v]...)
			}
			if want == nil {
				want = got
			}
			if !sameBits(got, want) {
				t.Error("other bits")
			}
		})
	}
}
