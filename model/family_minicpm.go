package model

import "math"

// OpenBMB's MiniCPM 1, 2, 4 and 3, the last of which has latent attention, and Naver's HyperCLOVA X: Llama with factors on embeddings,
// parts and logits, as the code that comes with openbmb/MiniCPM-2B-sft-bf16 and transformers/models/{minicpm3,hyperclovax} have them.

func init() {
	recipes["MiniCPMForCausalLM"] = recipe{modelType: "minicpm", read: miniCPM}
	recipes["MiniCPM3ForCausalLM"] = recipe{modelType: "minicpm3", read: miniCPM3}
	recipes["HyperCLOVAXForCausalLM"] = recipe{modelType: "hyperclovax", read: hyperCLOVAX}
}

// miniCPMScales sets the factors on embeddings and logits, and returns that on what parts give.
func (f *fields) miniCPMScales(embed, depth, base float64) float32 {
	f.Network.EmbedScale = f.float32("scale_emb", embed)
	if v := f.float("dim_model_base", cmpPositive(base, float64(f.Hidden))); f.Hidden > 0 && v > 0 {
		f.Network.LogitScale = float32(v / float64(f.Hidden))
	}
	root := math.Sqrt(float64(max(f.Layers, 1)))
	return float32(f.float("scale_depth", cmpPositive(depth, root)) / root)
}

// cmpPositive is x, or otherwise if x is 0.
func cmpPositive(x, otherwise float64) float64 {
	if x == 0 {
		return otherwise
	}
	return x
}

// miniCPM sees chosen blocks of long texts in its newest form, and all of shorter ones, which are then the longest.
func miniCPM(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-6, tied: true})
	if n := f.int("num_experts", 0); n > 0 {
		f.unsupported("num_experts", n, "0")
	}
	if f.has("sparse_config") {
		sparse := get(f, "sparse_config", struct {
			Dense int `json:"dense_len"`
		}{8192})
		f.MaxSeqTokens = min(f.MaxSeqTokens, sparse.Dense)
	}
	residual := f.miniCPMScales(1, 0, 0)
	rope, m := f.rope(f.HeadDim, ropeKind{}), f.mlp(f.Intermediate)
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.QKVBias = rope, f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds, l.Residual = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}, residual
	})
}

func miniCPM3(f *fields) {
	f.usual(usual{maxPositions: 32768, eps: 1e-5, tied: true})
	residual, value := f.miniCPMScales(12, 1.4, 256), 0
	if f.Heads > 0 {
		value = f.Hidden / f.Heads
	}
	a, m := f.latent(768, 256, 64, 32, value), f.biasedMLP()
	if a.Rope != NoRope && f.err == nil {
		f.Network.Ropes[a.Rope].Interleaved = false
	}
	f.layers(func(_ int, l *Layer) {
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds, l.Residual = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}, residual
	})
}

// hyperCLOVAX is Granite with norms behind the parts, too, and logits that are multiplied with their factor.
func hyperCLOVAX(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-6})
	f.Network.EmbedScale, f.Network.LogitScale = f.float32("embedding_multiplier", 1), f.float32("logits_scaling", 1)
	rope, m := f.rope(f.HeadDim, ropeKind{}), f.biasedMLP()
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.Rope, a.Scale, a.QKVBias = rope, f.float32("attention_multiplier", 0), f.bool("attention_bias", false)
		a.OutBias = a.QKVBias
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{a}, f.norm("post_attention_layernorm"), []Feed{m}
		if l.Residual = f.float32("residual_multiplier", 1); f.bool("use_post_norm", true) {
			l.MixNorm, l.OutNorm = f.norm("post_norm1"), f.norm("post_norm2")
		}
	})
}
