package model

import (
	"math"
	"slices"
)

// Networks with multi-head latent attention: DeepSeek V2, V3 and V3.2 and GLM-5, which see chosen positions alone (and what has their architecture, like
// Kimi K2 and Moonlight), GLM-4.7-Flash and Mistral Small 4, as transformers/models/{deepseek_v2,
// deepseek_v3,youtu,deepseek_v32,glm_moe_dsa,glm4_moe_lite,mistral4} have them.

func init() {
	recipes["DeepseekV2ForCausalLM"] = recipe{modelType: "deepseek_v2", read: deepseekV2}
	recipes["DeepseekV3ForCausalLM"] = recipe{modelType: "deepseek_v3", read: deepseekV3}
	recipes["DeepseekV32ForCausalLM"] = recipe{modelType: "deepseek_v32", read: deepseekV32}
	recipes["GlmMoeDsaForCausalLM"] = recipe{modelType: "glm_moe_dsa", read: glmMoEDSA}
	recipes["YoutuForCausalLM"] = recipe{modelType: "youtu", read: youtu}
	recipes["KimiK25ForConditionalGeneration"] = recipe{modelType: "kimi_k25", read: deepseekV3, prefix: "language_model.model."}
	recipes["Kimi_K25ForConditionalGeneration"] = recipe{modelType: "kimi_k25", read: deepseekV3, prefix: "language_model.model."} // as transformers writes it
	recipes["Glm4MoeLiteForCausalLM"] = recipe{modelType: "glm4_moe_lite", read: glm4MoELite}
	recipes["Mistral4ForCausalLM"] = recipe{modelType: "mistral4", read: mistral4}
}

// latentEps is the eps of the norms of latents, whatever rms_norm_eps is.
const latentEps = 1e-6

// latent is latent attention with its usual names.
func (f *fields) latent(qRank, kvRank, nope, rope, value int) LatentSpec {
	small := func(name string) NormSpec { return NormSpec{Name: name, Eps: latentEps} }
	s := LatentSpec{QA: "self_attn.q_a_proj", QNorm: small("self_attn.q_a_layernorm"), QB: "self_attn.q_b_proj", KVA: "self_attn.kv_a_proj_with_mqa",
		KVNorm: small("self_attn.kv_a_layernorm"), KVB: "self_attn.kv_b_proj", O: "self_attn.o_proj", Heads: f.Heads, QRank: f.int("q_lora_rank", qRank),
		KVRank: f.int("kv_lora_rank", kvRank), NopeDim: f.int("qk_nope_head_dim", nope), RopeDim: f.int("qk_rope_head_dim", rope), ValueDim: f.int("v_head_dim", value),
		Bias: f.bool("attention_bias", false)}
	if f.v.Member("q_lora_rank") != nil && !f.has("q_lora_rank") { // null
		s.QRank = 0
	}
	if s.QRank == 0 {
		s.Q, s.QNorm = "self_attn.q_proj", NormSpec{}
	}
	const most = 1 << 12 // of heads, each of which has products of its own
	if f.Heads > most {
		f.bad("latent attention has %d heads, more than %d", f.Heads, most)
		return s
	}
	if s.KVRank < 1 || s.NopeDim < 1 || s.RopeDim < 2 || s.ValueDim < 1 || s.RopeDim%2 != 0 {
		f.bad("latent attention has a rank of %d and heads of %d + %d and %d", s.KVRank, s.NopeDim, s.RopeDim, s.ValueDim)
		return s
	}
	s.Rope = f.rope(s.RopeDim, ropeKind{interleaved: f.bool("rope_interleave", true), whole: true})
	s.Scale = inverseRoot(s.NopeDim+s.RopeDim) * f.yarnScale()
	f.HeadDim, f.KVHeads = s.NopeDim+s.RopeDim, f.Heads
	return s
}

// yarnScale is a factor on scores for long contexts: the square of the growth of YaRN, by mscale_all_dim.
func (f *fields) yarnScale() float32 {
	p := f.ropeParameters()
	factor, all := or(p.Factor, 1), or(p.MScaleAllDim, 0)
	if p.kind() == "default" || all == 0 || factor <= 1 {
		return 1
	}
	m := 0.1*all*math.Log(factor) + 1
	return float32(m * m)
}

// deepseekExperts are experts with their usual names.
func (f *fields) deepseekExperts(experts, topK, inner int) ExpertsSpec {
	e := ExpertsSpec{
		ExpertNames: ExpertNames{Router: "mlp.gate", Gate: "mlp.experts.%d.gate_proj", Up: "mlp.experts.%d.up_proj", Down: "mlp.experts.%d.down_proj"},
		Choice:      Choice{TopK: f.int("num_experts_per_tok", topK), Groups: f.int("n_group", 0), TopGroups: f.int("topk_group", 0), Scale: f.float32("routed_scaling_factor", 1)},
		Experts:     f.int("n_routed_experts", experts),
		Inner:       f.int("moe_intermediate_size", inner),
		Act:         f.activation("hidden_act", "silu"),
		Layout:      OneByOne,
	}
	f.shareExperts(&e, "mlp.shared_experts", f.int("n_shared_experts", 1))
	return e
}

// shareExperts adds n experts that every token goes through, which are stored as one network named at, and checks e. One group of experts is
// the same as none.
func (f *fields) shareExperts(e *ExpertsSpec, at string, n int) {
	if e.Groups <= 1 {
		e.Groups, e.TopGroups = 0, 0
	}
	if n > 0 {
		s := f.mlp(n * e.Inner)
		s.Gate, s.Up, s.Down = at+".gate_proj", at+".up_proj", at+".down_proj"
		e.Shared = []MLPSpec{s}
	}
	f.checkExperts(e)
}

// sigmoidScores makes the choice of experts that of DeepSeek V3.
func (f *fields) sigmoidScores(e *ExpertsSpec) {
	e.Score, e.Bias, e.GroupBest2 = SigmoidScore, "mlp.gate.e_score_correction_bias", true
	e.Renorm, e.RenormAdd = f.bool("norm_topk_prob", true), 1e-20
}

// deepseekLayers are layers of which the first ones are dense.
func (f *fields) deepseekLayers(m Mixer, e *ExpertsSpec, dense int) {
	f.deepseekEach(func(int) Mixer { return m }, e, dense)
}

// deepseekEach is deepseekLayers with a mixer for each layer.
func (f *fields) deepseekEach(mixer func(layer int) Mixer, e *ExpertsSpec, dense int) {
	types := f.texts("mlp_layer_types")
	f.layers(func(i int, l *Layer) {
		l.InNorm, l.Mixers, l.FeedNorm = f.norm("input_layernorm"), []Mixer{mixer(i)}, f.norm("post_attention_layernorm")
		if types == nil && i < dense || types != nil && types[i] == "dense" {
			l.Feeds = []Feed{f.mlp(f.Intermediate)}
		} else {
			l.Feeds = []Feed{*e}
		}
	})
	f.skipMTP(f.int("num_nextn_predict_layers", 0))
}

func deepseekV2(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-6})
	m, e := f.latent(1536, 512, 128, 64, 128), f.deepseekExperts(64, 0, 1407)
	switch method := f.text("topk_method", "greedy"); method {
	case "greedy":
		e.Groups, e.TopGroups = 0, 0
	case "group_limited_greedy":
	default:
		f.unsupported("topk_method", method, "greedy, group_limited_greedy")
	}
	f.deepseekLayers(m, &e, f.int("first_k_dense_replace", 0))
}

func deepseekV3(f *fields) {
	f.usual(usual{maxPositions: 4096, eps: 1e-6})
	if f.outer != nil {
		f.Network.Head = "language_model.lm_head"
	}
	m, e := f.latent(1536, 512, 128, 64, 128), f.deepseekExperts(256, 8, 2048)
	f.sigmoidScores(&e)
	f.deepseekLayers(m, &e, f.int("first_k_dense_replace", 3))
	f.skipMTP(1) // which older configurations do not mention
}

// youtu is Tencent's Youtu-LLM, which has latent attention and no experts.
func youtu(f *fields) {
	f.usual(usual{maxPositions: 131072, eps: 1e-6, tied: true})
	m := f.latent(1536, 512, 128, 64, 128)
	f.layers(func(_ int, l *Layer) {
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.norm("input_layernorm"), []Mixer{m}, f.norm("post_attention_layernorm"), []Feed{f.mlp(f.Intermediate)}
	})
}

func glm4MoELite(f *fields) {
	f.usual(usual{maxPositions: 202752, eps: 1e-5})
	m, e := f.latent(768, 512, 192, 64, 256), f.deepseekExperts(64, 4, 1536)
	f.sigmoidScores(&e)
	f.deepseekLayers(m, &e, f.int("first_k_dense_replace", 1))
	f.skipMTP(1)
}

func mistral4(f *fields) {
	f.usual(usual{maxPositions: 1048576, eps: 1e-6})
	m, e := f.latent(1024, 256, 64, 64, 128), f.deepseekExperts(128, 4, 2048)
	m.Temper = f.mistralTemper()
	e.EitherWay = true
	e.Layout, e.GateUp, e.DownAll = Stacked, "mlp.experts.gate_up_proj", "mlp.experts.down_proj"
	e.GroupBest2, e.Renorm, e.RenormAdd = true, f.bool("norm_topk_prob", true), 1e-20
	f.deepseekLayers(m, &e, f.int("first_k_dense_replace", 0))
	f.Network.Skip = slices.Compact(f.Network.Skip)
}

// sparse makes latent attention see chosen positions. full says of each layer whether it chooses by itself.
func (f *fields) sparse(m LatentSpec, heads int, interleaved bool, e *ExpertsSpec, full []bool) {
	if m.QRank < 1 {
		f.bad("q_lora_rank %d leaves the indexer without queries", m.QRank)
	}
	m.Sparse = true
	x := Indexer{Q: "self_attn.indexer.wq_b", K: "self_attn.indexer.wk", Weights: "self_attn.indexer.weights_proj",
		KNorm: NormSpec{Name: "self_attn.indexer.k_norm", Kind: LayerNorm, Eps: 1e-6, Bias: true},
		Heads: f.int("index_n_heads", heads), Dim: f.int("index_head_dim", 128), TopK: f.int("index_topk", 2048)}
	if x.Heads < 1 || x.Dim < m.RopeDim || x.TopK < 1 {
		f.bad("an indexer of %d heads of %d that chooses %d positions is none", x.Heads, x.Dim, x.TopK)
	}
	x.Rope = f.rope(m.RopeDim, ropeKind{interleaved: interleaved, whole: true})
	f.deepseekEach(func(i int) Mixer {
		own := m
		if full == nil || full[i] {
			own.Indexer = x
		}
		return own
	}, e, f.int("first_k_dense_replace", 3))
	f.skipMTP(1)
}

func deepseekV32(f *fields) {
	f.usual(usual{maxPositions: 163840, eps: 1e-6})
	m, e := f.latent(1536, 512, 128, 64, 128), f.deepseekExperts(256, 8, 2048)
	f.sigmoidScores(&e)
	f.sparse(m, 64, false, &e, nil)
}

func glmMoEDSA(f *fields) {
	f.usual(usual{maxPositions: 202752, eps: 1e-5})
	m, e := f.latent(2048, 512, 192, 64, 256), f.deepseekExperts(256, 8, 2048)
	f.sigmoidScores(&e)
	f.sparse(m, 32, true, &e, f.indexers())
}

// indexers says of each layer whether it has an indexer, in one of four ways.
func (f *fields) indexers() []bool {
	full := make([]bool, f.Layers)
	types := f.texts("indexer_types")
	pattern := f.text("index_topk_pattern", "")
	every, offset := max(f.int("index_topk_freq", 1), 1), f.int("index_skip_topk_offset", 2)
	if pattern != "" && len(pattern) < f.Layers {
		f.bad("index_topk_pattern has %d letters for %d layers", len(pattern), f.Layers)
		return full
	}
	for i := range full {
		switch {
		case types != nil:
			full[i] = types[i] == "full"
		case pattern != "":
			full[i] = pattern[i] == 'F'
		default:
			full[i] = max(i-offset+1, 0)%every == 0
		}
	}
	if len(full) > 0 && !full[0] {
		f.bad("the first layer has no indexer, and none before it")
	}
	return full
}
