package model

// EleutherAI's GPT-J and GPT-NeoX (Pythia), Salesforce's CodeGen and Microsoft's Phi-1 and 2: networks whose attention and feed-forward
// network read the same residual stream, as transformers/models/{gptj,gpt_neox,codegen,phi} have them.

func init() {
	recipes["GPTJForCausalLM"] = recipe{modelType: "gptj", read: gptJ, prefix: "transformer."}
	recipes["CodeGenForCausalLM"] = recipe{modelType: "codegen", read: codeGen, prefix: "transformer."}
	recipes["GPTNeoXForCausalLM"] = recipe{modelType: "gpt_neox", read: gptNeoX, prefix: "gpt_neox."}
	recipes["PhiForCausalLM"] = recipe{modelType: "phi", read: phi}
}

func gptJ(f *fields) {
	f.gptJLayers(AttentionNames{Q: "attn.q_proj", K: "attn.k_proj", V: "attn.v_proj", O: "attn.out_proj"})
}

// codeGen is GPT-J whose products are stored as one, in the order of the four processors that it was trained on.
func codeGen(f *fields) {
	f.gptJLayers(AttentionNames{QKV: "attn.qkv_proj", O: "attn.out_proj", Order: InQuarters})
	if f.Heads%4 != 0 {
		f.bad("num_attention_heads %d is not a multiple of 4", f.Heads)
	}
}

// gptJLayers are layers with one norm, whose heads are rotated in neighboring pairs of their first dimensions.
func (f *fields) gptJLayers(names AttentionNames) {
	f.gpt(gptNames, usual{maxPositions: 2048})
	f.Network.HeadBias = true
	dim := f.HeadDim
	if f.has("rotary_dim") || f.v.Member("rotary_dim") == nil { // else it is null: all are rotated
		dim = f.int("rotary_dim", 64)
	}
	rope := f.rope(dim, ropeKind{interleaved: true, whole: true})
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.AttentionNames, a.Rope = names, rope
		l.InNorm, l.Mixers, l.Parallel, l.Feeds = f.layerNorm("ln_1"), []Mixer{a}, true, []Feed{f.gptMLP("mlp.fc_in", "mlp.fc_out", "gelu_new")}
	})
	f.masks("attn")
}

// gptNeoX has a norm for each of the two parts, which follow each other in some models.
func gptNeoX(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5, epsName: "layer_norm_eps"})
	n := &f.Network
	n.Embed, n.Final, n.Head = f.prefix+"embed_in", f.layerNorm("final_layer_norm"), "embed_out"
	rope, bias := f.rope(f.HeadDim, ropeKind{partial: f.float("rotary_pct", 0.25), thetaField: "rotary_emb_base"}), f.bool("attention_bias", true)
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.AttentionNames = AttentionNames{QKV: "attention.query_key_value", O: "attention.dense", Order: ByKVHead}
		a.Rope, a.QKVBias, a.OutBias = rope, bias, bias
		m := f.gptMLP("mlp.dense_h_to_4h", "mlp.dense_4h_to_h", "gelu")
		l.InNorm, l.Mixers, l.FeedNorm, l.Feeds = f.layerNorm("input_layernorm"), []Mixer{a}, f.layerNorm("post_attention_layernorm"), []Feed{m}
		l.Parallel = f.bool("use_parallel_residual", true)
	})
	f.masks("attention")
}

func phi(f *fields) {
	f.usual(usual{maxPositions: 2048, eps: 1e-5, epsName: "layer_norm_eps"})
	if f.bool("qk_layernorm", false) {
		f.unsupported("qk_layernorm", true, "false")
	}
	f.Network.Final, f.Network.HeadBias = f.layerNorm("final_layernorm"), true
	rope := f.rope(f.HeadDim, ropeKind{partial: 0.5})
	f.layers(func(_ int, l *Layer) {
		a := f.attention()
		a.O, a.Rope, a.QKVBias, a.OutBias = "self_attn.dense", rope, true, true
		l.InNorm, l.Mixers, l.Parallel, l.Feeds = f.layerNorm("input_layernorm"), []Mixer{a}, true, []Feed{f.gptMLP("mlp.fc1", "mlp.fc2", "gelu_new")}
	})
}
