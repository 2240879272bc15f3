package model

import (
	"fmt"
	"maps"
	"math"
	"strings"

	"weir/weights"
)

// Families of GGUF files that differ from others in few things (llama.cpp, conversion/{afmoe,command_r,dots1,exaone,
// gemma,llama,nemotron,olmo}.py).

func init() {
	shared := ggufNamesOf("mlp.gate", "mlp.shared_experts.", "exp_probs_b.bias", "mlp.gate.e_score_correction_bias")
	exaone := maps.Clone(shared)
	exaone["exp_probs_b.bias"] = "mlp.e_score_correction_bias"
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"gemma":    {arch: "GemmaForCausalLM", describe: withOnes},
		"arcee":    {arch: "ArceeForCausalLM", pairs: true},
		"nemotron": {arch: "NemotronForCausalLM", describe: withOnes, fields: nemotron4Fields, whole: map[string]string{"output_norm.bias": "model.norm.bias"}},
		"olmo": {arch: "OlmoForCausalLM", pairs: true, fields: func(g *ggufModel, f map[string]any) {
			if clip := g.positive("attention.clamp_kqv"); clip != nil {
				f["clip_qkv"] = *clip
			}
		}},
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
		"gemma3n": {arch: "Gemma3nForCausalLM", lists: true, fields: gemma3nFields, names: gemma3nNames, whole: gemma3nWhole, parts: streamsApart},
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

var (
	gemma3nNames = func() map[string]string {
		m := map[string]string{"inp_gate": "per_layer_input_gate", "proj": "per_layer_projection", "post_norm": "post_per_layer_input_norm",
			"altup_correct_scale.weight": "altup.correct_output_scale", "altup_correct_coef": "altup.correction_coefs", "altup_predict_coef": "altup.prediction_coefs",
			"altup_router": "altup.modality_router", "altup_router_norm": "altup.router_norm", "laurel_l": "laurel.linear_left", "laurel_r": "laurel.linear_right",
			"laurel_post_norm": "laurel.post_laurel_norm"}
		maps.Copy(m, gemmaNames)
		return m
	}()
	gemma3nWhole = func() map[string]string {
		m := map[string]string{"altup_proj.weight": "model.altup_projections.weight", "altup_unembd_proj.weight": "model.altup_unembed_projections.weight"}
		maps.Copy(m, gemma4Whole)
		return m
	}()
)

func gemma3nFields(g *ggufModel, f map[string]any) {
	f["layer_types"] = g.windowTypes(f)
	g.twoRopes(f)
	g.copyInts(f, "attention.shared_kv_layers", "num_kv_shared_layers", "embedding_length_per_layer_input", "hidden_size_per_layer_input",
		"altup.active_idx", "altup_active_idx", "altup.num_inputs", "altup_num_inputs")
	if t := g.tensors["per_layer_token_embd.weight"]; len(t.Shape) == 2 {
		f["vocab_size_per_layer_input"] = t.Shape[0]
	}
	if inner := g.list("feed_forward_length"); inner != nil {
		f["intermediate_size"] = inner
	}
	if v, ok := g.value("activation_sparsity_scale"); ok {
		scales, err := v.Floats()
		g.wrong("activation_sparsity_scale", err)
		var shares []float64
		for _, x := range scales {
			// A file has the number of standard deviations below which that share of a normal distribution lies.
			shares = append(shares, math.Erfc(-float64(x)/math.Sqrt2)/2)
		}
		f["activation_sparsity_pattern"] = shares
	}
	f["laurel_rank"], f["altup_correct_scale"] = g.rows("laurel_l.weight"), g.in("altup_correct_scale.weight")
	g.copyFloats(f, "final_logit_softcapping")
}

// streamsApart takes the products of Gemma 3n's streams apart, which are one tensor, [streams, D, D].
func streamsApart(t weights.Tensor) []weights.Tensor {
	part, _, _ := cutLast(t.Name)
	if !strings.HasPrefix(part, "model.altup_") || len(t.Shape) != 3 {
		return []weights.Tensor{t}
	}
	var all []weights.Tensor
	bytes := len(t.Data) / t.Shape[0]
	for i := range t.Shape[0] {
		one := t
		one.Name, one.Shape = fmt.Sprintf("%s.%d.weight", part, i), t.Shape[1:]
		one.Data = t.Data[i*bytes : (i+1)*bytes : (i+1)*bytes]
		all = append(all, one)
	}
	return all
}
