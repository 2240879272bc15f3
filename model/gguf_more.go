package model

import "maps"

// Families of GGUF files that differ from others in few things (llama.cpp, conversion/{afmoe,command_r,dots1,exaone,
// gemma,llama,nemotron,olmo}.py).

func init() {
	shared := ggufNamesOf("mlp.gate", "mlp.shared_experts.", "exp_probs_b.bias", "mlp.gate.e_score_correction_bias")
	exaone := maps.Clone(shared)
	exaone["exp_probs_b.bias"] = "mlp.e_score_correction_bias"
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"gemma":     {arch: "GemmaForCausalLM", describe: withOnes},
		"arcee":     {arch: "ArceeForCausalLM", pairs: true},
		"nemotron":  {arch: "NemotronForCausalLM", describe: withOnes, fields: nemotron4Fields, whole: map[string]string{"output_norm.bias": "model.norm.bias"}},
		"olmo":      {arch: "OlmoForCausalLM", pairs: true},
		"olmoe":     {arch: "OlmoeForCausalLM", names: ggufNamesOf("mlp.gate", "")},
		"command-r": {arch: "CohereForCausalLM", fields: cohereFields},
		"cohere2moe": {arch: "Cohere2MoeForCausalLM", names: shared, fields: func(g *ggufModel, f map[string]any) {
			cohereFields(g, f)
			f["prefix_dense_intermediate_size"], f["intermediate_size"] = f["intermediate_size"], f["moe_intermediate_size"]
			f["mlp_layer_types"], f["num_shared_experts"], f["norm_topk_prob"] = g.feedTypes(f), g.int("expert_shared_count"), g.truth("expert_weights_norm")
			f["expert_selection_fn"] = map[int]string{1: "softmax", 2: "sigmoid"}[g.int("expert_gating_func")]
			g.int("expert_shared_feed_forward_length") // the product of two of these
			g.int("leading_dense_block_count")
		}},
		"dots1": {arch: "Dots1ForCausalLM", names: shared, fields: func(g *ggufModel, f map[string]any) {
			g.expertFields(f)
			f["first_k_dense_replace"], f["sliding_window"] = g.int("leading_dense_block_count"), nil
		}},
		"exaone-moe": {arch: "ExaoneMoeForCausalLM", names: exaone, fields: func(g *ggufModel, f map[string]any) {
			g.expertFields(f)
			f["num_shared_experts"], f["mlp_layer_types"], f["layer_types"] = f["n_shared_experts"], g.feedTypes(f), g.windowTypes(f)
			g.int("expert_shared_feed_forward_length")
			g.int("leading_dense_block_count")
		}},
		"afmoe": {arch: "AfmoeForCausalLM", fields: afmoeFields, names: ggufNamesOf("mlp.router.gate", "mlp.shared_experts.", "exp_probs_b.bias", "mlp.expert_bias",
			"post_attention_norm", "post_attention_layernorm", "ffn_norm", "pre_mlp_layernorm", "post_ffw_norm", "post_mlp_layernorm", "attn_gate", "self_attn.gate_proj")},
	})
}

func nemotron4Fields(g *ggufModel, f map[string]any) {
	if eps := g.float("attention.layer_norm_epsilon"); eps != nil {
		f["norm_eps"] = *eps
	}
}

func afmoeFields(g *ggufModel, f map[string]any) {
	g.expertFields(f)
	f["num_shared_experts"], f["route_scale"] = f["n_shared_experts"], f["routed_scaling_factor"]
	f["num_dense_layers"], f["mup_enabled"] = g.int("leading_dense_block_count"), true // as in llama.cpp
	if types := g.windowTypes(f); types != nil {
		f["layer_types"] = types
	}
}
