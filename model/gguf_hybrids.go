package model

import (
	"fmt"
	"maps"
	"slices"
)

// Networks with recurrent layers in GGUF files (llama.cpp, conversion/{qwen,granite,nemotron,falcon_h1,lfm2,
// kimi_linear}.py). The converter stores the decay A of a layer as it is used, -exp(A_log).

func init() {
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"qwen3next": {arch: "Qwen3NextForCausalLM", names: deltaNames, fields: qwenHybridFields, describe: func(g *ggufModel, n *Network) {
			withOnes(g, n)
			n.eachDelta(func(layer int, d *DeltaSpec) {
				if g.hasAny(layerTensor(layer, "attn_qkv.weight")) { // files made before have one tensor with those of each key head together
					d.QKVZ, d.QKV, d.Z = "", qwen35Delta.QKV, qwen35Delta.Z
				}
			})
		}},
		"qwen35":    {arch: "Qwen3_5ForCausalLM", names: deltaNames, fields: qwenHybridFields, describe: qwen35Describe},
		"qwen35moe": {arch: "Qwen3_5MoeForCausalLM", names: deltaNames, fields: qwenHybridFields, describe: qwen35Describe},
		"granitehybrid": {arch: "GraniteMoeHybridForCausalLM", pairs: true, lists: true, fields: graniteHybridFields, describe: graniteHybridDescribe,
			names: mambaNames("mamba.", ggufNamesOf("block_sparse_moe.router.layer", "shared_mlp."))},
		"nemotron_h":     {arch: "NemotronHForCausalLM", lists: true, fields: nemotronFields, names: nemotronNames, describe: nemotronDescribe},
		"nemotron_h_moe": {arch: "NemotronHForCausalLM", lists: true, fields: nemotronFields, names: nemotronNames, describe: nemotronDescribe},
		"falcon-h1": {arch: "FalconH1ForCausalLM", fields: falconFields, whole: map[string]string{"output_norm.weight": "model.final_layernorm.weight"},
			names: mambaNames("mamba.", map[string]string{"ffn_norm": "pre_ff_layernorm.weight", "ffn_norm.weight": "pre_ff_layernorm.weight",
				"ffn_gate": "feed_forward.gate_proj", "ffn_up": "feed_forward.up_proj", "ffn_down": "feed_forward.down_proj"})},
		"lfm2":    {arch: "Lfm2ForCausalLM", lists: true, fields: lfmFields, names: lfmNames, whole: lfmWhole},
		"lfm2moe": {arch: "Lfm2MoeForCausalLM", lists: true, fields: lfmFields, names: lfmNames, whole: lfmWhole},
		"kimi-linear": {arch: "KimiLinearForCausalLM", lists: true, fields: kimiFields, names: ggufNamesOf("block_sparse_moe.gate", "block_sparse_moe.shared_experts.",
			"exp_probs_b.bias", "block_sparse_moe.gate.e_score_correction_bias", "attn_kv_a_mqa", "self_attn.kv_a_proj_with_mqa", "attn_kv_a_norm", "self_attn.kv_a_layernorm",
			"attn_q_a", "self_attn.q_a_proj", "attn_q_a_norm", "self_attn.q_a_layernorm", "attn_q_b", "self_attn.q_b_proj",
			"attn_kv_b", "self_attn.kv_b_proj", "attn_k_b", "self_attn.k_b", "attn_v_b", "self_attn.v_b", "ssm_conv1d_q", "self_attn.q_conv1d", "ssm_conv1d_k", "self_attn.k_conv1d",
			"ssm_conv1d_v", "self_attn.v_conv1d", "ssm_a", "self_attn.A_log", "ssm_beta", "self_attn.b_proj", "ssm_dt.bias", "self_attn.dt_bias", "ssm_f_a", "self_attn.f_a_proj",
			"ssm_f_b", "self_attn.f_b_proj", "ssm_g_a", "self_attn.g_a_proj", "ssm_g_b", "self_attn.g_b_proj", "ssm_norm", "self_attn.o_norm")},
	})
}

// layerTensor is the name of a tensor of a layer.
func layerTensor(layer int, name string) string { return fmt.Sprintf("blk.%d.%s", layer, name) }

// layerTypes are the kinds of the layers of a network.
func (g *ggufModel) layerTypes(f map[string]any, kind func(layer int) string) []string {
	layers, _ := f["num_hidden_layers"].(int)
	var types []string
	for i := range min(layers, maxLayers) {
		types = append(types, kind(i))
	}
	return types
}

// feedTypes says which layers have experts.
func (g *ggufModel) feedTypes(f map[string]any) []string {
	return g.layerTypes(f, func(i int) string {
		if g.hasAny(layerTensor(i, "ffn_gate_inp.weight")) {
			return "sparse"
		}
		return "dense"
	})
}

// either are the kinds of layers of which those with a tensor are one, and all others another.
func (g *ggufModel) either(f map[string]any, tensor, with, without string) []string {
	return g.layerTypes(f, func(i int) string {
		if g.hasAny(layerTensor(i, tensor)) {
			return with
		}
		return without
	})
}

// in reports whether a layer has a tensor.
func (g *ggufModel) in(tensor string) bool {
	return slices.ContainsFunc(g.order, func(name string) bool {
		_, rest, ok := layerName(name, "blk.")
		return ok && rest == tensor
	})
}

// copyInts copies integers to fields that have other names: key, field, key, field.
func (g *ggufModel) copyInts(f map[string]any, names ...string) {
	for i := 0; i < len(names); i += 2 {
		f[names[i+1]] = g.int(names[i])
	}
}

// eachDelta lets edit change each delta net.
func (n *Network) eachDelta(edit func(layer int, d *DeltaSpec)) {
	for i := range n.Layers {
		for k, m := range n.Layers[i].Mixers {
			if d, ok := m.(DeltaSpec); ok {
				edit(i, &d)
				n.Layers[i].Mixers[k] = d
			}
		}
	}
}

// decaysStored says that decays are stored as they are used.
func (n *Network) decaysStored() {
	n.eachDelta(func(_ int, d *DeltaSpec) { d.AForm, d.AShape = asStored, nil })
	for i := range n.Layers {
		for k, m := range n.Layers[i].Mixers {
			switch s := m.(type) {
			case MambaSpec:
				s.AForm = asStored
				n.Layers[i].Mixers[k] = s
			case SelectiveSpec:
				s.AForm = asStored
				n.Layers[i].Mixers[k] = s
			}
		}
	}
}

// deltaNames are the names of Qwen's delta nets and experts.
var deltaNames = ggufNamesOf("mlp.gate", "mlp.shared_expert.", "ffn_gate_inp_shexp", "mlp.shared_expert_gate", "post_attention_norm", "post_attention_layernorm",
	"attn_qkv", "linear_attn.in_proj_qkv", "attn_gate", "linear_attn.in_proj_z", "ssm_in", "linear_attn.in_proj_qkvz", "ssm_ba", "linear_attn.in_proj_ba",
	"ssm_beta", "linear_attn.in_proj_b", "ssm_alpha", "linear_attn.in_proj_a", "ssm_conv1d", "linear_attn.conv1d", "ssm_a", "linear_attn.A_log",
	"ssm_dt.bias", "linear_attn.dt_bias", "ssm_norm", "linear_attn.norm", "ssm_out", "linear_attn.out_proj")

func qwenHybridFields(g *ggufModel, f map[string]any) {
	f["layer_types"] = g.either(f, "attn_q.weight", "full_attention", "linear_attention")
	g.value("attention.recurrent_layers") // which say the same
	g.value("full_attention_interval")
	g.copyInts(f, "expert_shared_feed_forward_length", "shared_expert_intermediate_size", "ssm.conv_kernel", "linear_conv_kernel_dim", "ssm.state_size", "linear_key_head_dim",
		"ssm.group_count", "linear_num_key_heads", "ssm.time_step_rank", "linear_num_value_heads")
	heads, _ := f["linear_num_value_heads"].(int)
	f["linear_value_head_dim"] = g.int("ssm.inner_size") / max(heads, 1)
}

// qwen35Describe: the value heads of a key head do not follow each other.
func qwen35Describe(g *ggufModel, n *Network) {
	withOnes(g, n)
	n.eachDelta(func(_ int, d *DeltaSpec) { d.Tiled = true })
}

// mambaNames adds the names of Mamba layers below prefix.
func mambaNames(prefix string, names map[string]string) map[string]string {
	for stored, name := range map[string]string{"ssm_in": "in_proj", "ssm_conv1d": "conv1d", "ssm_dt.bias": "dt_bias", "ssm_a": "A_log", "ssm_d": "D", "ssm_norm": "norm", "ssm_out": "out_proj"} {
		names[stored] = prefix + name
	}
	return names
}

// mambaFields translates the keys about Mamba layers.
func (g *ggufModel) mambaFields(f map[string]any, heads, headDim, groups, state, conv string) {
	g.copyInts(f, "ssm.time_step_rank", heads, "ssm.group_count", groups, "ssm.state_size", state, "ssm.conv_kernel", conv)
	n, _ := f[heads].(int)
	f[headDim] = g.int("ssm.inner_size") / max(n, 1)
}

// graniteHybridFields are of networks with Mamba layers or a shared network. The converter writes some keys
// about Mamba for networks without such layers, too.
func graniteHybridFields(g *ggufModel, f map[string]any) {
	graniteFields(g, f)
	f["layer_types"] = g.either(f, "ssm_in.weight", "mamba", "attention")
	if v, ok := g.value("rope.scaling.finetuned"); !g.in("ssm_in.weight") || ok {
		turns := true
		if ok && g.in("ssm_in.weight") {
			var err error
			turns, err = v.Bool()
			g.wrong("rope.scaling.finetuned", err)
		}
		if turns {
			f["position_embedding_type"] = "rope"
		}
	}
	g.mambaFields(f, "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
	f["mamba_conv_bias"], f["mamba_proj_bias"] = g.in("ssm_conv1d.bias"), g.in("ssm_in.bias")
	f["num_local_experts"] = g.int("expert_count")
	f["shared_intermediate_size"] = g.int("expert_shared_feed_forward_length")
	if g.int("expert_count") == 0 {
		f["shared_intermediate_size"] = g.rows("ffn_up.weight")
	}
	if g.float("attention.scale") == nil && g.float("embedding_scale") == nil {
		bambaFields(g, f)
	}
}

// graniteHybridDescribe takes the products of the shared network apart, which is a plain one without experts.
func graniteHybridDescribe(g *ggufModel, n *Network) {
	if g.name == "BambaForCausalLM" {
		bambaDescribe(n)
	}
	for i := range n.Layers {
		for k, feed := range n.Layers[i].Feeds {
			switch s := feed.(type) {
			case MLPSpec:
				s.GateUp, s.Gate, s.Up, s.Down = "", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"
				n.Layers[i].Feeds[k] = s
			case ExpertsSpec:
				s.Shared = slices.Clone(s.Shared)
				for j := range s.Shared {
					m := &s.Shared[j]
					m.GateUp, m.Gate, m.Up, m.Down = "", "shared_mlp.gate_proj", "shared_mlp.up_proj", "shared_mlp.down_proj"
				}
				n.Layers[i].Feeds[k] = s
			}
		}
		n.Layers[i].Feeds = slices.Clone(n.Layers[i].Feeds)
	}
}

var nemotronNames = mambaNames("mixer.", ggufNamesOf("mixer.gate", "mixer.shared_experts.", "exp_probs_b.bias", "mixer.gate.e_score_correction_bias", "attn_norm", "norm",
	"attn_q", "mixer.q_proj", "attn_k", "mixer.k_proj", "attn_v", "mixer.v_proj", "attn_output", "mixer.o_proj", "ffn_up", "mixer.up_proj", "ffn_down", "mixer.down_proj",
	"ffn_latent_down", "mixer.fc1_latent_proj", "ffn_latent_up", "mixer.fc2_latent_proj"))

func nemotronFields(g *ggufModel, f map[string]any) {
	f["layers_block_type"] = g.layerTypes(f, func(i int) string {
		switch {
		case g.hasAny(layerTensor(i, "ssm_in.weight")):
			return "mamba"
		case g.hasAny(layerTensor(i, "attn_q.weight")):
			return "attention"
		case g.hasAny(layerTensor(i, "ffn_gate_inp.weight")):
			return "moe"
		}
		return "mlp"
	})
	f["intermediate_size"] = g.rows("ffn_up.weight")
	g.mambaFields(f, "mamba_num_heads", "mamba_head_dim", "n_groups", "ssm_state_size", "conv_kernel")
	f["use_conv_bias"], f["use_bias"], f["mlp_bias"] = g.in("ssm_conv1d.bias"), g.in("ssm_in.bias"), g.in("ffn_up.bias")
	for _, key := range []string{"attention.layer_norm_epsilon", "attention.layer_norm_rms_epsilon"} {
		if eps := g.positive(key); eps != nil {
			f["layer_norm_epsilon"] = *eps
		}
	}
	if g.int("expert_count") > 0 {
		g.expertFields(f)
		g.copyInts(f, "expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size", "moe_latent_size", "moe_latent_size")
	}
}

// rows is the number of rows of a tensor in the first layer that has it.
func (g *ggufModel) rows(tensor string) int {
	for _, name := range g.order {
		if _, rest, ok := layerName(name, "blk."); ok && rest == tensor && len(g.tensors[name].Shape) > 0 {
			return g.tensors[name].Shape[0]
		}
	}
	return 0
}

// nemotronDescribe gives tensors the names that those of all files get.
func nemotronDescribe(_ *ggufModel, n *Network) {
	n.Embed, n.Final.Name = "model.embed_tokens", "model.norm"
	for i := range n.Layers {
		n.Layers[i].At = fmt.Sprintf("model.layers.%d.", i)
	}
}

// falconFields: the converter multiplies the products with all factors but one on the time step.
func falconFields(g *ggufModel, f map[string]any) {
	g.mambaFields(f, "mamba_n_heads", "mamba_d_head", "mamba_n_groups", "mamba_d_state", "mamba_d_conv")
	f["mamba_d_ssm"] = g.int("ssm.inner_size")
	f["mamba_conv_bias"], f["mamba_proj_bias"], f["mlp_bias"] = g.in("ssm_conv1d.bias"), g.in("ssm_in.bias"), g.in("ffn_up.bias")
	f["mamba_rms_norm"], f["mamba_norm_before_gate"] = g.in("ssm_norm.weight"), false
}

var (
	lfmNames = ggufNamesOf("feed_forward.gate", "", "exp_probs_b.bias", "feed_forward.expert_bias", "attn_norm", "operator_norm", "ffn_norm", "ffn_norm",
		"ffn_gate", "feed_forward.w1", "ffn_up", "feed_forward.w3", "ffn_down", "feed_forward.w2", "attn_output", "self_attn.out_proj", "attn_q_norm", "self_attn.q_layernorm",
		"attn_k_norm", "self_attn.k_layernorm", "shortconv.conv", "conv.conv", "shortconv.in_proj", "conv.in_proj", "shortconv.out_proj", "conv.out_proj")
	lfmWhole = map[string]string{"token_embd_norm.weight": "model.embedding_norm.weight"}
)

func lfmFields(g *ggufModel, f map[string]any) {
	f["layer_types"] = g.either(f, "shortconv.conv.weight", "conv", "full_attention")
	f["conv_L_cache"], f["conv_bias"] = g.int("shortconv.l_cache"), g.in("shortconv.in_proj.bias")
	f["norm_eps"], f["block_auto_adjust_ff_dim"] = f["rms_norm_eps"], false
	if g.arch == "lfm2moe" {
		f["num_dense_layers"] = g.int("leading_dense_block_count")
		f["use_expert_bias"] = g.in("exp_probs_b.bias")
		g.gating(2)
	}
}

func kimiFields(g *ggufModel, f map[string]any) {
	delete(f, "sliding_window")
	g.latentFields(f)
	g.expertFields(f)
	f["layer_types"] = g.either(f, "ssm_a", "linear_attention", "full_attention")
	f["mlp_layer_types"] = g.feedTypes(f)
	f["num_experts_per_token"] = f["num_experts_per_tok"]
	f["num_shared_experts"], f["num_expert_group"] = f["n_shared_experts"], f["n_group"]
	f["linear_num_heads"], f["model_max_length"] = f["num_attention_heads"], f["max_position_embeddings"]
	f["moe_renormalize"] = true // in all that were published
	g.int("leading_dense_block_count")
	g.copyInts(f, "kda.head_dim", "linear_head_dim", "ssm.conv_kernel", "linear_conv_kernel_dim")
}
