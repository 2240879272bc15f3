package model

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"weir/weights"
)

// More families in GGUF files (llama.cpp, conversion/{gemma,llama,command_r,phi,minimax,hunyuan,mimo,stablelm,
// mistral3,olmo}.py, and src/models for what the converter leaves out).

func init() {
	latent := maps.Clone(ggufRecipes["deepseek2"].names)
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"gemma4":  {arch: "Gemma4ForCausalLM", lists: true, fields: gemma4Fields, names: gemma4Names, whole: gemma4Whole},
		"llama4":  {arch: "Llama4ForCausalLM", fields: llama4Fields, names: ggufNamesOf("feed_forward.router", "feed_forward.shared_expert.", "ffn_gate", "feed_forward.gate_proj", "ffn_up", "feed_forward.up_proj", "ffn_down", "feed_forward.down_proj")},
		"cohere2": {arch: "Cohere2ForCausalLM", fields: cohereFields},
		"phimoe": {arch: "PhimoeForCausalLM", fields: phiFields, names: ggufNamesOf("block_sparse_moe.gate", ""),
			whole: map[string]string{"output_norm.bias": "model.norm.bias", "output.bias": "lm_head.bias"}},
		"minimax-m2": {arch: "MiniMaxM2ForCausalLM", names: ggufNamesOf("block_sparse_moe.gate", "", "exp_probs_b.bias", "block_sparse_moe.e_score_correction_bias"),
			fields: func(g *ggufModel, f map[string]any) {
				f["intermediate_size"] = f["moe_intermediate_size"]
				g.gating(2)
			}},
		"hunyuan-dense": {arch: "HunYuanDenseV1ForCausalLM", names: map[string]string{"attn_q_norm": "self_attn.query_layernorm", "attn_k_norm": "self_attn.key_layernorm"}},
		"hy_v3": {arch: "HYV3ForCausalLM", fields: hunyuan3Fields,
			names: ggufNamesOf("mlp.router.gate", "mlp.shared_mlp.", "exp_probs_b", "mlp.expert_bias", "exp_probs_b.bias", "mlp.expert_bias")},
		"mimo2": {arch: "MiMoV2FlashForCausalLM", lists: true, fields: mimoFields,
			names: ggufNamesOf("mlp.gate", "", "exp_probs_b.bias", "mlp.gate.e_score_correction_bias", "attn_sinks.weight", "self_attn.attention_sink_bias")},
		"apertus": {arch: "ApertusForCausalLM", names: map[string]string{"attn_norm": "attention_layernorm", "ffn_norm": "feedforward_layernorm"}, describe: xieluStored},
		"stablelm": {arch: "StableLmForCausalLM", fields: stableFields, parts: normsOfHeads, whole: map[string]string{"output_norm.bias": "model.norm.bias"},
			names: map[string]string{"attn_q_norm": "self_attn.q_layernorm", "attn_k_norm": "self_attn.k_layernorm"}},
		"mistral3": {arch: "Ministral3ForCausalLM", pairs: true, fields: temperFields},
		"mistral4": {arch: "Mistral4ForCausalLM", names: latent, fields: func(g *ggufModel, f map[string]any) {
			g.latentFields(f)
			g.deepseekFields(f)
			temperFields(g, f)
		}},
	})
}

// gating refuses another way of choosing experts than that of the family, which is said by the number that
// llama.cpp has for it (LLAMA_EXPERT_GATING_FUNC_TYPE).
func (g *ggufModel) gating(kind int) {
	if n := g.int("expert_gating_func"); n != 0 && n != kind {
		g.wrong("expert_gating_func", fmt.Errorf("is %d (supported: %d)", n, kind))
	}
}

// windowTypes are the kinds of layers by their windows; nil: there is no key about them. It has a truth
// value or 0 or 1 for each layer, or says that every so many have none.
func (g *ggufModel) windowTypes(f map[string]any) []string {
	const key = "attention.sliding_window_pattern"
	v, ok := g.value(key)
	if !ok {
		return nil
	}
	local := func(i int) bool { return false }
	if list, err := v.Bools(); err == nil {
		local = func(i int) bool { return i < len(list) && list[i] }
	} else if list := g.list(key); list != nil {
		local = func(i int) bool { return i < len(list) && list[i] != 0 }
	} else if every := g.int(key); every > 0 {
		local = func(i int) bool { return (i+1)%every != 0 }
	}
	return g.layerTypes(f, func(i int) string {
		if local(i) {
			return "sliding_attention"
		}
		return "full_attention"
	})
}

// twoRopes are the rotary parameters of layers with a window and of all others.
func (g *ggufModel) twoRopes(f map[string]any) (local, wide map[string]any) {
	wide, _ = f["rope_parameters"].(map[string]any)
	local = map[string]any{"rope_type": "default"}
	for _, key := range []string{"rope.freq_base", "rope.freq_base_swa"} {
		if base := g.float(key); base != nil {
			local["rope_theta"] = *base
		}
	}
	f["rope_parameters"] = map[string]any{"full_attention": wide, "sliding_attention": local}
	return local, wide
}

// expertFields translates the keys about the choice of experts, with DeepSeek's names.
func (g *ggufModel) expertFields(f map[string]any) {
	g.copyInts(f, "expert_count", "n_routed_experts", "expert_shared_count", "n_shared_experts")
	for key, field := range map[string]string{"expert_group_count": "n_group", "expert_group_used_count": "topk_group"} {
		f[field] = max(g.int(key), 1)
	}
	f["routed_scaling_factor"] = 1.0
	if x := g.positive("expert_weights_scale"); x != nil {
		f["routed_scaling_factor"] = *x
	}
	f["norm_topk_prob"] = g.truth("expert_weights_norm")
	g.gating(2)
}

// truth is the truth value of a key.
func (g *ggufModel) truth(key string) bool {
	v, ok := g.value(key)
	if !ok {
		return false
	}
	is, err := v.Bool()
	g.wrong(key, err)
	return is
}

var (
	gemma4Names = func() map[string]string {
		m := ggufNamesOf("router.proj", "", "layer_output_scale.weight", "layer_scalar", "inp_gate", "per_layer_input_gate", "proj", "per_layer_projection",
			"post_norm", "post_per_layer_input_norm", "post_ffw_norm_1", "post_feedforward_layernorm_1", "post_ffw_norm_2", "post_feedforward_layernorm_2",
			"pre_ffw_norm_2", "pre_feedforward_layernorm_2", "ffn_gate_inp.scale", "router.scale", "ffn_down_exps.scale", "router.per_expert_scale")
		maps.Copy(m, gemmaNames)
		return m
	}()
	gemma4Whole = map[string]string{"per_layer_token_embd.weight": "model.embed_tokens_per_layer.weight", "per_layer_model_proj.weight": "model.per_layer_model_projection.weight",
		"per_layer_proj_norm.weight": "model.per_layer_projection_norm.weight"}
)

func gemma4Fields(g *ggufModel, f map[string]any) {
	types := g.windowTypes(f)
	local, wide := g.twoRopes(f)
	wide["rope_type"] = "proportional" // whose pairs that do not turn have great factors
	if !g.hasAny(ropeFactors) {
		g.wrong("rope.freq_base", fmt.Errorf("has no factors: the tensor %s is missing", ropeFactors))
	}
	dims := map[string]int{"full_attention": g.int("attention.key_length"), "sliding_attention": g.int("attention.key_length_swa")}
	if n := g.int("rope.dimension_count_swa"); n > 0 && n != dims["sliding_attention"] {
		local["partial_rotary_factor"] = float64(n) / float64(max(dims["sliding_attention"], 1))
	}
	kv, each := g.list("attention.head_count_kv"), map[string]any{}
	for i, kind := range types {
		own := map[string]any{"head_dim": dims[kind], "num_key_value_heads": f["num_key_value_heads"]}
		if i < len(kv) {
			own["num_key_value_heads"] = kv[i]
		}
		each[layerKey(i, len(types))] = own
		if kind == "full_attention" && f["attention_k_eq_v"] == nil {
			f["attention_k_eq_v"] = g.hasAny(layerTensor(i, "attn_k.weight")) && !g.hasAny(layerTensor(i, "attn_v.weight"))
		}
	}
	f["layer_types"], f["per_layer_config"], f["head_dim"] = types, each, dims["sliding_attention"]
	g.copyInts(f, "attention.shared_kv_layers", "num_kv_shared_layers", "embedding_length_per_layer_input", "hidden_size_per_layer_input", "expert_used_count", "top_k_experts")
	if t := g.tensors["per_layer_token_embd.weight"]; len(t.Shape) == 2 {
		f["vocab_size_per_layer_input"] = t.Shape[0]
	}
	if inner := g.list("feed_forward_length"); len(inner) > 0 {
		f["intermediate_size"] = slices.Min(inner)
		f["use_double_wide_mlp"] = slices.Max(inner) == 2*slices.Min(inner)
	}
	f["enable_moe_block"] = g.int("expert_count") > 0
	g.copyFloats(f, "final_logit_softcapping")
}

// llama4Fields: what no key says is so in all networks that were published.
func llama4Fields(g *ggufModel, f map[string]any) {
	f["intermediate_size_mlp"], f["intermediate_size"] = f["intermediate_size"], f["moe_intermediate_size"]
	moe := []int{}
	for i, kind := range g.feedTypes(f) {
		if kind == "sparse" {
			moe = append(moe, i)
		}
	}
	f["moe_layers"] = moe
	g.int("interleave_moe_layer_step")
	f["use_qk_norm"] = g.int("expert_count") != 128
	g.gating(2)
}

func cohereFields(g *ggufModel, f map[string]any) {
	if eps := g.float("attention.layer_norm_epsilon"); eps != nil {
		f["layer_norm_eps"] = *eps
	}
	g.copyFloats(f, "logit_scale")
	f["use_qk_norm"] = g.in("attn_q_norm.weight") // of Command R
	if types := g.windowTypes(f); types != nil {
		f["layer_types"] = types
	}
}

func phiFields(g *ggufModel, f map[string]any) {
	f["lm_head_bias"] = g.hasAny("output.bias")
	g.longRope(f)
}

// longRope reads the factors of LongRoPE, which are the only sign of it in some files. The length from which the long ones hold is the
// greatest one, unless a key says so.
func (g *ggufModel) longRope(f map[string]any) {
	if !g.hasAny(shortFactors) {
		return
	}
	p, _ := f["rope_parameters"].(map[string]any)
	p["rope_type"], p["short_factor"], p["long_factor"] = "longrope", g.factors(shortFactors), g.factors(longFactors)
	if p["original_max_position_embeddings"] = f["max_position_embeddings"]; g.int("rope.scaling.original_context_length") > 0 {
		p["original_max_position_embeddings"] = g.int("rope.scaling.original_context_length")
	}
	if x := g.positive("rope.scaling.attn_factor"); x != nil {
		p["attention_factor"] = *x
	}
}

// factors are the numbers of a tensor; none if it is not there or not a vector of positive numbers.
func (g *ggufModel) factors(name string) []float32 {
	t, ok := g.tensors[name]
	if !ok {
		return nil
	}
	if t.DType != weights.F32 || len(t.Shape) != 1 {
		g.err = g.bad("the tensor %s is %v of %d, not a vector of float32", name, t.DType, t.Shape)
		return nil
	}
	list := make([]float32, t.Len())
	t.Widen(list, 0, 0)
	for i, x := range list {
		if !(x > 0 && x <= math.MaxFloat32) {
			g.err = g.bad("factor %d of the tensor %s is %v, not a positive number", i, name, x)
			return nil
		}
	}
	return list
}

func hunyuan3Fields(g *ggufModel, f map[string]any) {
	g.expertFields(f)
	inner, _ := f["moe_intermediate_size"].(int)
	f["num_shared_experts"] = g.int("expert_shared_feed_forward_length") / max(inner, 1)
	f["router_scaling_factor"], f["mlp_layer_types"] = f["routed_scaling_factor"], g.feedTypes(f)
}

func mimoFields(g *ggufModel, f map[string]any) {
	types := g.windowTypes(f)
	local, wide := g.twoRopes(f)
	local["partial_rotary_factor"] = wide["partial_rotary_factor"]
	kv, heads := g.list("attention.head_count_kv"), map[string]int{}
	for i, kind := range types {
		if i < len(kv) {
			if n, ok := heads[kind]; ok && n != kv[i] {
				g.wrong("attention.head_count_kv", fmt.Errorf("differs between layers of one kind, from %d to %d", n, kv[i]))
			}
			heads[kind] = kv[i]
		}
	}
	if a, b := heads["full_attention"], heads["sliding_attention"]; a == 0 || b != 0 && b != 2*a {
		g.wrong("attention.head_count_kv", fmt.Errorf("is %d, and %d in layers with a window (supported: twice as many)", a, b))
	}
	f["layer_types"], f["num_key_value_heads"], f["v_head_dim"] = types, heads["full_attention"], g.int("attention.value_length")
	f["attention_value_scale"] = 1.0
	if x := g.positive("attention.value_scale"); x != nil {
		f["attention_value_scale"] = *x
	}
	g.expertFields(f)
	f["norm_topk_prob"] = true // in all that were published
	f["mlp_layer_types"] = g.feedTypes(f)
}

// xieluStored takes the parameters of the activation from the metadata, where they have no architecture's name.
func xieluStored(g *ggufModel, n *Network) {
	for i := range n.Layers {
		m, ok := n.Layers[i].Feeds[0].(MLPSpec)
		if !ok {
			continue
		}
		m.XIELU = ""
		numbers := map[string]float64{}
		for _, name := range []string{"alpha_p", "alpha_n", "beta", "eps"} {
			list, ok := g.meta.Floats("xielu." + name)
			if !ok || i >= len(list) {
				g.err = g.bad("the key xielu.%s has no number for layer %d", name, i)
				return
			}
			numbers[name] = float64(list[i])
		}
		m.Act.Alpha, m.Act.Beta = float32(softplus(numbers["alpha_p"])), float32(numbers["beta"]+softplus(numbers["alpha_n"]))
		m.Act.Limit, m.Act.UpPlus = float32(numbers["beta"]), float32(numbers["eps"])
		n.Layers[i].Feeds = []Feed{m}
	}
}

func stableFields(g *ggufModel, f map[string]any) {
	if eps := g.float("attention.layer_norm_epsilon"); eps != nil {
		f["layer_norm_eps"] = *eps
	}
	f["use_qkv_bias"], f["qk_layernorm"] = g.in("attn_q.bias"), g.in("attn_q_norm.weight")
	// The key has been there from the beginning, but says nothing in networks that have the norm.
	g.value("use_parallel_residual")
	f["use_parallel_residual"] = !g.in("ffn_norm.weight")
}

// normsOfHeads takes the norms of heads apart, which are one tensor, [H, D].
func normsOfHeads(t weights.Tensor) []weights.Tensor {
	part, _, _ := cutLast(t.Name)
	if !strings.HasSuffix(part, ".q_layernorm") && !strings.HasSuffix(part, ".k_layernorm") || len(t.Shape) != 2 || t.DType.Blocked() {
		return []weights.Tensor{t}
	}
	var all []weights.Tensor
	bytes := len(t.Data) / t.Shape[0]
	for h := range t.Shape[0] {
		head := t
		head.Name, head.Shape = fmt.Sprintf("%s.norms.%d.weight", part, h), t.Shape[1:]
		head.Data = t.Data[h*bytes : (h+1)*bytes : (h+1)*bytes]
		all = append(all, head)
	}
	return all
}

// temperFields is the growth of queries with the position.
func temperFields(g *ggufModel, f map[string]any) {
	p, _ := f["rope_parameters"].(map[string]any)
	if beta := g.positive("attention.temperature_scale"); beta != nil {
		p["llama_4_scaling_beta"] = *beta
	}
}

// olmoFields: OLMo 3 has windows, and positions are not scaled in layers that have one.
func olmoFields(g *ggufModel, f map[string]any) {
	types := g.windowTypes(f)
	if window, _ := f["sliding_window"].(int); window == 0 {
		return
	}
	g.name = "Olmo3ForCausalLM"
	if types != nil {
		f["layer_types"] = types
	}
	g.twoRopes(f)
}

// recurrentShape is the shape that a tensor of a recurrent layer has in checkpoints. In a file, vectors may be
// matrices, and convolutions lack the dimension of their groups.
func recurrentShape(name string, t *weights.Tensor) []int {
	_, rest, _ := layerName(name, "blk.")
	if t.DType.Blocked() || len(t.Shape) < 2 {
		return t.Shape
	}
	switch rest {
	case "ssm_a", "ssm_d":
		if slices.Max(t.Shape) == t.Len() { // it has a number for each head, and not for each number of a state
			return []int{t.Len()}
		}
	case "ssm_norm.weight":
		return []int{t.Len()}
	case "ssm_conv1d.weight", "shortconv.conv.weight", "ssm_conv1d_q.weight", "ssm_conv1d_k.weight", "ssm_conv1d_v.weight":
		width := max(t.Shape[len(t.Shape)-1], 1)
		return []int{t.Len() / width, 1, width}
	}
	return t.Shape
}
