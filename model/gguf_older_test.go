package model_test

import (
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"weir/internal/testkit"
	"weir/model"
)

// TestGGUFOlderFused: files of Phi whose queries, keys and values are one tensor, as they were first published, give the same logits.
func TestGGUFOlderFused(t *testing.T) {
	d, golden := readConverted(t, "phi"), readFamily(t, "phi")
	g := d.file(t, "phi")
	want := familyLogits(t, openBytes(t, g.Bytes()), golden.Prompt)
	tensor := func(name string) testkit.GGUFTensor {
		i := slices.IndexFunc(g.Tensors, func(x testkit.GGUFTensor) bool { return x.Name == name })
		x := g.Tensors[i]
		g.Tensors = slices.Delete(g.Tensors, i, i+1)
		return x
	}
	for _, layer := range []string{"0", "1", "2"} {
		for _, kind := range []string{"weight", "bias"} {
			at := "blk." + layer + ".attn_"
			all := tensor(at + "q." + kind)
			for _, part := range []string{"k.", "v."} {
				all.Data = append(slices.Clip(all.Data), tensor(at+part+kind).Data...)
			}
			all.Name, all.Shape = at+"qkv."+kind, slices.Clone(all.Shape)
			all.Shape[len(all.Shape)-1] *= 3
			g.Tensors = append(g.Tensors, all)
		}
	}
	if got := familyLogits(t, openBytes(t, g.Bytes()), golden.Prompt); !reflect.DeepEqual(got, want) {
		t.Error("the logits differ")
	}
}

// slopesOf are the slopes of the heads of the first layer.
func slopesOf(t *testing.T, m *model.Model) []float32 {
	t.Helper()
	a, ok := m.Config.Network.Layers[0].Mixers[0].(model.AttentionSpec)
	if !ok {
		t.Fatal("the first layer has no attention")
	}
	return a.Slopes
}

// TestGGUFSlopes: slopes follow the number of heads and attention.max_alibi_bias as in llama.cpp (ggml_compute_forward_soft_max_f32).
func TestGGUFSlopes(t *testing.T) {
	g := readConverted(t, "mpt_plain").file(t, "mpt_plain")
	for _, most := range []float64{8, 16, 6.5} {
		g.Set("mpt.attention.max_alibi_bias", float32(most))
		got := slopesOf(t, openBytes(t, g.Bytes()))
		const heads, power = 6, 4
		for h := range heads {
			want := math.Pow(math.Exp2(-most/power), float64(h+1))
			if h >= power {
				want = math.Pow(math.Exp2(-most/2/power), float64(2*(h-power)+1))
			}
			if len(got) != heads || math.Abs(float64(got[h])-want) > 1e-6*want {
				t.Fatalf("max_alibi_bias %v, head %d: %v, and not %v", most, h, got, want)
			}
		}
	}
}

// TestGGUFOlderWhole: heads are rotated as a whole if no key says how much of them is.
func TestGGUFOlderWhole(t *testing.T) {
	for name, arch := range map[string]string{"gpt_neox": "gptneox", "phi": "phi2"} {
		g := readConverted(t, name).file(t, name)
		for _, want := range []int{4, 8} {
			m := openBytes(t, g.Bytes())
			if got := 2 * len(m.Config.Network.Ropes[0].InvFreq); got != want {
				t.Errorf("%s: %d dimensions are rotated, and not %d", name, got, want)
			}
			g.Keys = slices.DeleteFunc(g.Keys, func(k testkit.GGUFKey) bool { return k.Key == arch+".rope.dimension_count" })
		}
	}
}

// TestGGUFOlderRefused: what these files lack, and what their networks cannot do, is said in a sentence.
func TestGGUFOlderRefused(t *testing.T) {
	drop := func(key string) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			g.Keys = slices.DeleteFunc(g.Keys, func(k testkit.GGUFKey) bool { return k.Key == key })
		}
	}
	set := func(key string, value any) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) { g.Set(key, value) }
	}
	rename := func(from, to string) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			for i, x := range g.Tensors {
				g.Tensors[i].Name = strings.Replace(x.Name, from, to, 1)
			}
		}
	}
	again := func(name, as string) func(*testkit.GGUF) {
		return func(g *testkit.GGUF) {
			i := slices.IndexFunc(g.Tensors, func(x testkit.GGUFTensor) bool { return x.Name == name })
			x := g.Tensors[i]
			x.Name = as
			g.Tensors = append(g.Tensors, x)
		}
	}
	for _, c := range []struct {
		family string
		change func(*testkit.GGUF)
		want   string
	}{
		{"gpt2_plain", drop("gpt2.attention.layer_norm_epsilon"), "the key gpt2.attention.layer_norm_epsilon is missing"},
		{"gpt2_plain", drop("gpt2.context_length"), "the key gpt2.context_length is missing"},
		{"gpt2_plain", rename("position_embd", "positions"), "not expected: positions.weight"},
		{"gpt2_plain", set("gpt2.context_length", uint32(127)), "position_embd.weight"},
		{"gpt_bigcode", drop("starcoder.attention.head_count"), "the key starcoder.attention.head_count is missing"},
		{"gpt_bigcode", set("starcoder.attention.head_count_kv", uint32(4)), "blk.0.attn_qkv"},
		{"gpt_neox", drop("gptneox.use_parallel_residual"), "the key gptneox.use_parallel_residual is missing"},
		{"gpt_neox", set("gptneox.use_parallel_residual", "x"), "the key gptneox.use_parallel_residual is"},
		{"gpt_neox", set("gptneox.rope.dimension_count", uint32(12)), "the key gptneox.rope.dimension_count is 12, and a head has 8 numbers"},
		{"phi", rename("output.bias", "output.other"), "not expected: output.other"},
		{"bloom", drop("bloom.embedding_length"), "the key bloom.embedding_length is missing"},
		{"bloom", rename("token_embd_norm", "token_norm"), "not expected: token_norm."},
		{"falcon", drop("falcon.block_count"), "the key falcon.block_count is missing"},
		// Falcon-RW, whose parts follow each other and whose scores fall with distance.
		{"falcon", again("blk.0.attn_norm.weight", "blk.0.ffn_norm.weight"), "not expected: blk.0.ffn_norm.weight"},
		{"mpt_plain", set("mpt.attention.max_alibi_bias", float32(0)), "the key mpt.attention.max_alibi_bias is missing or 0"},
		{"mpt_plain", again("token_embd.weight", "position_embd.weight"), "position_embd.weight"},
		{"mpt_plain", set("mpt.attention.clamp_kqv", float32(-1)), "clip"},
		{"mpt_plain", again("blk.0.attn_norm.weight", "blk.0.attn_q_norm.weight"), "not expected: blk.0.attn_q_norm.weight"},
	} {
		g := readConverted(t, c.family).file(t, c.family)
		c.change(g)
		m, err := model.OpenGGUF(fstest.MapFS{"x": {Data: g.Bytes()}}, "x")
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, which does not say %q", c.family, err, c.want)
		}
	}
}
