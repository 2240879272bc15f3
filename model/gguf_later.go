package model

import (
	"fmt"
	"maps"
	"slices"
)

// Families of GGUF files that are variants of others (llama.cpp, conversion/{chatglm,deepseek,glm,granite,hunyuan,mellum}.py, and
// src/models for what the converter leaves out).

func init() {
	sparse := maps.Clone(ggufRecipes["deepseek2"].names)
	maps.Copy(sparse, map[string]string{"indexer.attn_q_b": "self_attn.indexer.wq_b", "indexer.attn_k": "self_attn.indexer.wk", "indexer.proj": "self_attn.indexer.weights_proj",
		"indexer.k_norm": "self_attn.indexer.k_norm"})
	maps.Copy(ggufRecipes, map[string]ggufRecipe{
		"deepseek32": {arch: "DeepseekV32ForCausalLM", names: sparse, fields: sparseFields},
		"glm-dsa":    {arch: "GlmMoeDsaForCausalLM", names: sparse, fields: sparseFields},
		"chatglm":    {arch: "GlmForCausalLM", names: map[string]string{"ffn_up": "mlp.gate_up_proj", "attn_qkv": "self_attn.qkv_proj"}, describe: fusedQKV, fields: chatglmFields},
		"granite_swa": {arch: "GraniteSWAForCausalLM", pairs: true, fields: graniteSWAFields, describe: graniteSWADescribe,
			names: ggufNamesOf("block_sparse_moe.router", "shared_mlp.", "attn_sinks.weight", "self_attn.sinks")},
		"mellum": {arch: "MellumForCausalLM", names: ggufNamesOf("mlp.gate", ""), fields: mellumFields},
		"hunyuan-moe": {arch: "HunYuanMoEV1ForCausalLM", names: ggufNamesOf("mlp.gate.wg", "mlp.shared_mlp.", "attn_q_norm", "self_attn.query_layernorm", "attn_k_norm", "self_attn.key_layernorm"),
			fields: func(g *ggufModel, f map[string]any) {
				f["moe_topk"], f["intermediate_size"] = g.int("expert_used_count"), g.int("expert_feed_forward_length")
				g.int("expert_shared_feed_forward_length") // as many
				g.int("expert_shared_count")
			}},
	})
	shared := ggufRecipes["granitemoe"]
	shared.names, shared.describe = ggufNamesOf("block_sparse_moe.router.layer", "shared_mlp."), graniteHybridDescribe
	shared.fields = func(g *ggufModel, f map[string]any) {
		graniteFields(g, f)
		if g.in("ffn_up_shexp.weight") {
			g.name, f["shared_intermediate_size"] = "GraniteMoeSharedForCausalLM", g.int("expert_shared_feed_forward_length")
		}
	}
	ggufRecipes["granitemoe"] = shared
}

// sparseFields are those of attention to chosen positions. A layer without an indexer sees what the layer before it has chosen.
func sparseFields(g *ggufModel, f map[string]any) {
	g.latentFields(f)
	g.deepseekFields(f)
	g.copyInts(f, "attention.indexer.head_count", "index_n_heads", "attention.indexer.key_length", "index_head_dim", "attention.indexer.top_k", "index_topk")
	if g.arch == "glm-dsa" {
		g.value("attention.indexer.types") // which says the same as the tensors
		f["indexer_types"] = g.either(f, "indexer.attn_k.weight", "full", "shared")
	}
}

// chatglmFields: no key has the size of a head, of which half is rotated.
func chatglmFields(g *ggufModel, f map[string]any) {
	heads, _ := f["num_attention_heads"].(int)
	kv, _ := f["num_key_value_heads"].(int)
	head := g.rows("attn_q.weight") / max(heads, 1)
	if rows := g.rows("attn_qkv.weight"); rows > 0 {
		head = rows / max(heads+2*kv, 1)
	}
	if head == 0 {
		return // whose tensors are missing, which is said later
	}
	f["head_dim"] = head
	if p, ok := f["rope_parameters"].(map[string]any); ok {
		p["partial_rotary_factor"] = float64(g.int("rope.dimension_count")) / float64(head)
	}
}

// fusedQKV says of layers whose queries, keys and values are one tensor that they are.
func fusedQKV(g *ggufModel, n *Network) {
	for i := range n.Layers {
		for k, m := range n.Layers[i].Mixers {
			if a, ok := m.(AttentionSpec); ok && g.hasAny(layerTensor(i, "attn_qkv.weight")) {
				a.QKV = "self_attn.qkv_proj"
				n.Layers[i].Mixers[k] = a
			}
		}
	}
}

// graniteSWAFields: all layers have one rotary base there, or none as a key says.
func graniteSWAFields(g *ggufModel, f map[string]any) {
	graniteFields(g, f)
	if types := g.windowTypes(f); types != nil {
		f["layer_types"] = types
	}
	if v, ok := g.value("attention.rope_pattern"); ok {
		turns, err := v.Bools()
		g.wrong("attention.rope_pattern", err)
		p, _ := f["rope_parameters"].(map[string]any)
		base, _ := p["rope_theta"].(float64)
		layers, _ := f["num_hidden_layers"].(int)
		if err == nil && len(turns) < layers {
			g.wrong("attention.rope_pattern", fmt.Errorf("has %d entries for %d layers", len(turns), layers))
		}
		if err == nil && slices.Contains(turns, false) {
			thetas := make([]float64, len(turns))
			for i, yes := range turns {
				if yes {
					thetas[i] = base
				}
			}
			f["layer_rope_theta"] = thetas
		}
	}
	if g.int("expert_count") == 0 {
		delete(f, "num_local_experts")
		return
	}
	g.name, f["shared_intermediate_size"] = "GraniteMoeSWAForCausalLM", g.int("expert_shared_feed_forward_length")
}

// graniteSWADescribe: gate and up of the shared network are one tensor in files of today's converter.
func graniteSWADescribe(g *ggufModel, n *Network) {
	graniteHybridDescribe(g, n)
	for i := range n.Layers {
		e, ok := n.Layers[i].Feeds[0].(ExpertsSpec)
		if !ok || g.hasAny(layerTensor(i, "ffn_gate_shexp.weight")) {
			continue
		}
		for j := range e.Shared {
			e.Shared[j].GateUp, e.Shared[j].Gate, e.Shared[j].Up = "shared_mlp.up_proj", "", ""
		}
	}
}

// mellumFields: only layers that see everything have their rotations scaled, and the weights of chosen experts have the sum 1.
func mellumFields(g *ggufModel, f map[string]any) {
	f["norm_topk_prob"] = true
	if window, _ := f["sliding_window"].(int); window == 0 {
		return
	}
	f["layer_types"] = g.windowTypes(f)
	g.twoRopes(f)
}

// bambaFields makes the file of a Granite without its factors one of Bamba.
func bambaFields(g *ggufModel, f map[string]any) {
	g.name = "BambaForCausalLM"
	attention := []int{}
	for i, kind := range g.either(f, "ssm_in.weight", "mamba", "attention") {
		if kind == "attention" {
			attention = append(attention, i)
		}
	}
	f["attn_layer_indices"] = attention
	hidden, _ := f["hidden_size"].(int)
	f["mamba_expand"] = g.int("ssm.inner_size") / max(hidden, 1)
	f["mlp_bias"] = g.in("ffn_up.bias")
}

// bambaDescribe gives tensors the names that those of all files get.
func bambaDescribe(n *Network) {
	n.Final.Name = "model.norm"
	for i := range n.Layers {
		n.Layers[i].FeedNorm.Name = "post_attention_layernorm"
	}
}
