package model

import (
	"fmt"
	"maps"
	"math"
)

// Mamba, Mamba 2, Falcon Mamba, Jamba and MiniCPM in GGUF files (llama.cpp, conversion/{mamba,jamba,minicpm}.py, and src/models for what
// the converter leaves out).

func init() {
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"mamba":  {arch: "MambaForCausalLM", fields: mamba1Stored, names: selectiveNames("mixer.", map[string]string{"attn_norm": "norm"}), describe: statesStored},
		"mamba2": {arch: "Mamba2ForCausalLM", fields: mamba2Stored, names: mambaNames("mixer.", map[string]string{"attn_norm": "norm"}), describe: statesStored},
		"jamba": {arch: "JambaForCausalLM", lists: true, fields: jambaFields, whole: map[string]string{"output_norm.weight": "model.final_layernorm.weight"},
			names: selectiveNames("mamba.", ggufNamesOf("feed_forward.router", "", "ffn_norm", "pre_ff_layernorm", "ffn_gate", "feed_forward.gate_proj", "ffn_up", "feed_forward.up_proj",
				"ffn_down", "feed_forward.down_proj", "ssm_dt_norm", "mamba.dt_layernorm", "ssm_b_norm", "mamba.b_layernorm", "ssm_c_norm", "mamba.c_layernorm"))},
		"minicpm":  {arch: "MiniCPMForCausalLM", pairs: true, fields: miniCPMFields},
		"minicpm3": {arch: "MiniCPM3ForCausalLM", fields: miniCPM3Fields, names: ggufRecipes["deepseek2"].names},
	})
}

// selectiveNames adds the names of layers of Mamba 1 below prefix.
func selectiveNames(prefix string, names map[string]string) map[string]string {
	for stored, name := range map[string]string{"ssm_in": "in_proj", "ssm_conv1d": "conv1d", "ssm_x": "x_proj", "ssm_dt": "dt_proj", "ssm_a": "A_log", "ssm_d": "D", "ssm_out": "out_proj"} {
		names[stored] = prefix + name
	}
	return names
}

// expansion is how many times as wide as the network a layer of Mamba is.
func (g *ggufModel) expansion(f map[string]any) int {
	hidden, _ := f["hidden_size"].(int)
	inner := g.int("ssm.inner_size")
	if hidden > 0 && inner%hidden != 0 {
		g.wrong("ssm.inner_size", fmt.Errorf("is %d, not a multiple of %d", inner, hidden))
	}
	return inner / max(hidden, 1)
}

// mamba1Stored are the fields of Mamba and of Falcon Mamba. The eps of the latter's norms of time step, B and C is in no file: it stays
// that of all published models, where llama.cpp takes the eps of the other norms.
func mamba1Stored(g *ggufModel, f map[string]any) {
	if g.truth("ssm.dt_b_c_rms") {
		g.name = "FalconMambaForCausalLM"
	}
	f["layer_norm_epsilon"], f["expand"] = f["rms_norm_eps"], g.expansion(f)
	g.copyInts(f, "ssm.state_size", "state_size", "ssm.conv_kernel", "conv_kernel", "ssm.time_step_rank", "time_step_rank")
	f["use_conv_bias"], f["use_bias"] = g.in("ssm_conv1d.bias"), g.in("ssm_in.bias")
}

func mamba2Stored(g *ggufModel, f map[string]any) {
	f["layer_norm_epsilon"] = f["rms_norm_eps"]
	g.mambaFields(f, "num_heads", "head_dim", "n_groups", "state_size", "conv_kernel")
	f["use_conv_bias"], f["use_bias"] = g.in("ssm_conv1d.bias"), g.in("ssm_in.bias")
}

// statesStored gives tensors the names that those of all files get.
func statesStored(_ *ggufModel, n *Network) {
	n.Embed, n.Final.Name = "model.embed_tokens", "model.norm"
	for i := range n.Layers {
		n.Layers[i].At = fmt.Sprintf("model.layers.%d.", i)
	}
}

// jambaFields: which layers have attention or experts follows from the tensors.
func jambaFields(g *ggufModel, f map[string]any) {
	f["layer_types"], f["mlp_layer_types"] = g.either(f, "attn_q.weight", "full_attention", "linear_attention"), g.feedTypes(f)
	f["mamba_expand"] = g.expansion(f)
	g.copyInts(f, "ssm.state_size", "mamba_d_state", "ssm.conv_kernel", "mamba_d_conv", "ssm.time_step_rank", "mamba_dt_rank")
	f["mamba_conv_bias"], f["mamba_proj_bias"] = g.in("ssm_conv1d.bias"), g.in("ssm_in.bias")
}

// miniCPMFields: files of earlier converters have no factors, which are then those of MiniCPM-2B.
func miniCPMFields(g *ggufModel, f map[string]any) {
	g.miniCPMScales(f)
	hidden, _ := f["hidden_size"].(int)
	layers, _ := f["num_hidden_layers"].(int)
	if x := g.positive("embedding_scale"); x != nil {
		f["scale_emb"] = *x
	}
	if x := g.positive("residual_scale"); x != nil {
		f["scale_depth"] = *x * math.Sqrt(float64(layers))
	}
	if x := g.positive("logit_scale"); x != nil {
		f["dim_model_base"] = float64(hidden) / *x
	}
	if g.in("attn_q.bias") {
		g.wrong("attention.head_count", fmt.Errorf("is of heads with biases, which the converter leaves in another order than the weights"))
	}
	g.longRope(f)
}

// miniCPM3Fields: neither the factors nor the size of values are in a file.
func miniCPM3Fields(g *ggufModel, f map[string]any) {
	g.miniCPMScales(f)
	g.latentFields(f)
	heads, _ := f["num_attention_heads"].(int)
	if f["v_head_dim"] == 0 {
		f["v_head_dim"] = g.columns("attn_output.weight") / max(heads, 1)
	}
	g.longRope(f)
}

// miniCPMScales are the factors of MiniCPM-2B and MiniCPM3-4B.
func (g *ggufModel) miniCPMScales(f map[string]any) {
	f["scale_emb"], f["scale_depth"], f["dim_model_base"] = 12.0, 1.4, 256.0
}

// columns is the length of the rows of a tensor in the first layer that has it.
func (g *ggufModel) columns(tensor string) int {
	for _, name := range g.order {
		if _, rest, ok := layerName(name, "blk."); ok && rest == tensor && len(g.tensors[name].Shape) == 2 {
			return g.tensors[name].Shape[1]
		}
	}
	return 0
}
