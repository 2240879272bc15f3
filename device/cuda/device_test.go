//go:build cuda && linux && amd64

package cuda_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"weir/device/cpu"
	"weir/device/cuda"
	"weir/model"
)

var families = []string{"llama2", "llama3", "llama-bias", "mistral", "qwen2", "qwen2-yarn", "qwen3"}

// TestLikeTheCPU: the logits of each family's network differ from those of the CPU device
// by no more than the rounding of activations to bfloat16, in prefill, in chunks and in
// decoding. Greedy tokens are the same if the best one leads by more than that.
func TestLikeTheCPU(t *testing.T) {
	for _, name := range append(families, "qwen2 with wgmma") {
		t.Run(name, func(t *testing.T) {
			cfg := config()
			name, wgmma := strings.CutSuffix(name, " with wgmma")
			if wgmma {
				cfg.Products = cuda.WGMMA
			}
			likeTheCPU(t, cfg, openModel(t, name), limits{0.025, 0.15})
		})
	}
}

// likeTheCPU compares logits in prefill, in chunks and in decoding.
func likeTheCPU(t *testing.T, cfg cuda.Config, m *model.Model, l limits) {
	t.Helper()
	v := m.Config.VocabSize
	o := model.Options{NumBlocks: 40, MaxTokens: 64, MaxSeqs: 8, MaxSeqTokens: min(128, m.Config.MaxSeqTokens)}
	gpu, ref := newHarness(t, onGPU(t, m, cfg, o), 1), newHarness(t, onCPU(t, m, cpu.BF16, o), 2)
	g := rand.New(rand.NewPCG(3, 3))
	a, b := randomTokens(g, 41, v), randomTokens(g, 19, v)
	seqs := [2][2]*sequence{{{tokens: a}, {tokens: b}}, {{tokens: a}, {tokens: b}}}
	var errs []float64
	for i, n := range [][2]int{{20, 3}, {5, 1}, {13, 12}, {1, 1}, {1, 1}, {1, 1}} {
		chunks := func(s [2]*sequence) []chunk {
			return []chunk{{seq: s[0], n: n[0], draw: greedy()}, {seq: s[1], n: n[1], all: true, draw: greedy()}}
		}
		got, want := gpu.step(chunks(seqs[0])...), ref.step(chunks(seqs[1])...)
		for r := range want.Tokens {
			x, y := got.Logits[r*v:(r+1)*v], want.Logits[r*v:(r+1)*v]
			e := logitError(x, y)
			errs = append(errs, e)
			if l.worst > 0 && got.Tokens[r] != want.Tokens[r] && margin(y) > 0.2*spread(y) {
				t.Errorf("step %d row %d: token %d, on the CPU %d by a margin of %.2f", i, r, got.Tokens[r], want.Tokens[r], margin(y))
			}
		}
	}
	// These networks have random weights, whose attention is sharp: a rounding
	// of one score may move a row by a tenth. Most rows move by a hundredth.
	slices.Sort(errs)
	worst := errs[len(errs)-1]
	if l.worst == 0 {
		errs, worst = errs[:len(errs)/2], 0
	}
	var sum float64
	for _, e := range errs {
		sum += e
	}
	mean := sum / float64(len(errs))
	if !(mean < l.mean && worst <= l.worst) {
		t.Errorf("logits differ by %.4f in the mean of %d rows, by %.4f at most", mean, len(errs), worst)
	}
	t.Logf("error %.4f in the mean of %d rows, %.4f at most", mean, len(errs), worst)
}

// limits are how far logits may be from the CPU's, in the mean and in the worst row. A worst of 0
// judges the better half of the rows alone: a router chooses another expert where two are as good as equal and
// activations are rounded to bfloat16, and that row, and those that see it, have other logits.
type limits struct{ mean, worst float64 }

// computed are the small checkpoints of families whose pieces all have kernels.
var computed = []string{"afmoe", "apertus", "arcee", "bamba", "codegen", "cohere", "cohere2", "cohere2_moe", "cohere2_moe_softmax", "deepseek_v2",
	"deepseek_v2_lite", "deepseek_v3", "dots1", "ernie4_5", "ernie4_5_moe", "exaone4", "exaone_moe", "falcon", "falcon_2", "falcon_h1", "falcon_h1_gated",
	"falcon_h1_norm", "falcon_new", "flex_olmo", "gemma", "gemma2", "gemma3", "gemma4", "gemma4_e", "gemma4_moe", "glm", "glm4", "glm4_moe", "glm4_moe_bias",
	"glm4_moe_lite", "gpt_neox", "gpt_neox_serial", "gpt_oss", "gpt_oss_mxfp4", "gptj", "granite", "granite4_dense", "granite4_h_dense", "granite_swa", "granitemoe",
	"granitemoe_swa", "granitemoehybrid", "granitemoeshared", "helium", "hunyuan", "hunyuan_moe", "hy_v3", "hyperclovax", "internlm3", "iquestcoder", "kimi_linear",
	"lfm2", "lfm2_moe", "lfm3", "llama4", "mamba2", "mellum", "mellum_sparse", "mimo_v2_flash", "minicpm", "minicpm3", "minimax_m2", "ministral", "ministral3", "mistral4", "mixtral",
	"nemotron", "nemotron_h", "nemotron_h_dense", "nemotron_h_latent", "olmo", "olmo2", "olmo3", "olmo_hybrid", "olmoe", "phi", "phi3", "phimoe", "qwen2_5_vl",
	"qwen2_moe", "qwen3_5", "qwen3_5_moe", "qwen3_moe", "qwen3_next", "qwen3_vl", "qwen3_vl_moe", "seed_oss", "smollm3", "solar_open", "stablelm", "stablelm_parallel",
	"starcoder2", "youtu"}

// TestChunks: a network whose layers see chunks of positions has logits like the CPU device's.
func TestChunks(t *testing.T) {
	m := openModel(t, "qwen3")
	edit(m, func(a *model.AttentionSpec) { a.Chunk = 13 })
	likeTheCPU(t, config(), m, limits{0.025, 0.15})
}

// TestPieces: the networks of families whose pieces have kernels have logits like the CPU device's,
// and every other family is refused with a sentence that says why.
func TestPieces(t *testing.T) {
	const dir = "../../model/testdata/families/"
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range list {
		t.Run(f.Name(), func(t *testing.T) {
			m, err := model.Open(dir + f.Name())
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { m.Close() })
			if err := refusal(t, m); err != nil {
				t.Log(err)
				if !errors.Is(err, cuda.ErrConfig) {
					t.Error(err)
				}
				return
			}
			names = append(names, f.Name())
			l := limits{0.02, 0.15}
			switch {
			case f.Name() == "smollm3" || f.Name() == "ernie4_5":
				l = limits{0.06, 0.3} // keys and values in bfloat16 alone move them by 0.03 and up to 0.09 on the CPU
			case m.Config.Shape().Experts.Experts > 0:
				l.worst = 0
			}
			if strings.HasPrefix(f.Name(), "gemma4") {
				// Its scores are not divided by the root of the head size, and so sharp that keys and values in
				// bfloat16 alone move the CPU's rows by 0.02 and up to 0.13. With softer ones the usual limits hold.
				t.Run("as it is", func(t *testing.T) { likeTheCPU(t, config(), m, limits{0.09, l.worst * 0.5 / 0.15}) })
				soften(m, 0.25)
			}
			likeTheCPU(t, config(), m, l)
		})
	}
	if !slices.Equal(names, computed) {
		t.Errorf("computed are %q, not %q", names, computed)
	}
}

// soften gives the attention of all layers a scale.
func soften(m *model.Model, scale float32) {
	edit(m, func(a *model.AttentionSpec) { a.Scale = scale })
}

// edit changes the attention of all layers, before a network is made of them.
func edit(m *model.Model, f func(*model.AttentionSpec)) {
	for i := range m.Config.Network.Layers {
		mixers := m.Config.Network.Layers[i].Mixers
		for k, mix := range mixers {
			if a, ok := mix.(model.AttentionSpec); ok {
				f(&a)
				mixers[k] = a
			}
		}
	}
}

// refusal is why a network is not computed on a GPU.
func refusal(t *testing.T, m *model.Model) error {
	dev, err := cuda.Open(config())
	if err != nil {
		t.Fatal(err)
	}
	r, err := model.NewRunner(context.Background(), dev, m, model.Options{NumBlocks: 40, MaxTokens: 64, MaxSeqs: 8, MaxSeqTokens: min(128, m.Config.MaxSeqTokens)})
	if err != nil {
		return err
	}
	return r.Close()
}

// spread is the standard deviation.
func spread(v []float32) float32 {
	var sum, squares float64
	for _, x := range v {
		sum += float64(x)
		squares += float64(x) * float64(x)
	}
	mean := sum / float64(len(v))
	return float32(math.Sqrt(squares/float64(len(v)) - mean*mean))
}

// margin is the difference between the two greatest values.
func margin(v []float32) float32 {
	a, b := float32(-1e30), float32(-1e30)
	for _, x := range v {
		if x > a {
			a, b = x, a
		} else if x > b {
			b = x
		}
	}
	return a - b
}

// TestProbe: the devices are listed with what decides whether they can be used.
func TestProbe(t *testing.T) {
	list, err := cuda.Probe(config().Driver)
	if err != nil || len(list) == 0 || !list[0].Usable() {
		t.Fatalf("%v, %v", list, err)
	}
	t.Log(list[0])
}

// TestRefuses: a network with pieces that have no kernel is refused with a sentence that names them.
func TestRefuses(t *testing.T) {
	err := cuda.Refuses(model.Shape{Pieces: model.PieceExperts | model.PieceEncoder | model.PieceBidirectional})
	if !errors.Is(err, cuda.ErrConfig) || !strings.Contains(err.Error(), "has attention in both directions, encoders, which a GPU does not compute yet") {
		t.Error(err)
	}
}
