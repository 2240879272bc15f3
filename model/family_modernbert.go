package model

import "fmt"

// ModernBERT (Warner et al., "Smarter, Better, Faster, Longer", 2024) NomicBERT (Nussbaum et al., "Nomic Embed",
// 2024) and GTE (Zhang et al., "mGTE", 2024): encoders whose heads are rotated and whose networks have gates, as
// transformers/models/{modernbert,nomic_bert,gte} have them. The first has norms before its parts, and windows in all but
// each third layer; the others are like BERT.

func init() {
	for _, task := range encoderTasks {
		recipes["ModernBert"+task] = recipe{modelType: "modernbert", read: modernBert}
		recipes["Gte"+task] = recipe{modelType: "gte", read: gte, prefix: "new."}
		recipes["New"+task] = recipe{modelType: "new", read: gte, prefix: "new."} // in checkpoints that bring code of their own
		recipes["NomicBert"+task] = recipe{modelType: "nomic_bert", read: nomicBert, prefix: "nomic_bert."}
	}
	recipes["NomicBertForPreTraining"] = recipe{modelType: "nomic_bert", read: nomicBert, prefix: "nomic_bert."}
}

// twoWays makes attention bidirectional. A window is of positions that are less far away than it to either side.
func (a *AttentionSpec) twoWays(window int) { a.Bidirectional, a.Window = true, window }

func modernBert(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-5, epsName: "norm_eps"})
	f.encoder()
	norm := f.layerNorm
	if !f.bool("norm_bias", false) {
		norm = func(name string) NormSpec { return NormSpec{Name: name, Kind: LayerNorm, Eps: f.NormEps} }
	}
	n := &f.Network
	n.Embed, n.EmbedNorm, n.Final = f.prefix+"embeddings.tok_embeddings", norm(f.prefix+"embeddings.norm"), norm("final_norm")
	local := f.rope(f.HeadDim, ropeKind{layers: "sliding_attention", theta: 10_000, thetaField: "local_rope_theta"})
	wide := f.rope(f.HeadDim, ropeKind{layers: "full_attention", theta: 160_000, thetaField: "global_rope_theta"})
	types, every := f.texts("layer_types"), f.int("global_attn_every_n_layers", 3)
	bias, mlpBias := f.bool("attention_bias", false), f.bool("mlp_bias", false)
	act := f.activation("hidden_activation", "gelu")
	f.layers(func(i int, l *Layer) {
		a := f.attention()
		a.AttentionNames = AttentionNames{QKV: "attn.Wqkv", O: "attn.Wo"}
		a.Rope, a.QKVBias, a.OutBias = wide, bias, bias
		a.twoWays(0)
		if wide := types == nil && every > 0 && i%every == 0 || types != nil && types[i] == "full_attention"; !wide {
			a.Rope = local
			a.twoWays(f.window(i, f.int("local_attention", 128)/2+1)) // so many to both sides together
		}
		if i > 0 { // the first norm would follow that of the embeddings
			l.InNorm = norm("attn_norm")
		}
		l.Mixers, l.FeedNorm = []Mixer{a}, norm("mlp_norm")
		l.Feeds = []Feed{MLPSpec{GateUp: "mlp.Wi", Down: "mlp.Wo", Inner: f.Intermediate, Bias: mlpBias, Act: act}}
	})
}

// nomicNames are the names of the settings of the code that comes with checkpoints, by those of transformers.
var nomicNames = map[string]string{"hidden_size": "n_embd", "num_hidden_layers": "n_layer", "num_attention_heads": "n_head", "intermediate_size": "n_inner",
	"max_position_embeddings": "n_positions", "layer_norm_eps": "layer_norm_epsilon", "hidden_act": "activation_function"}

func nomicBert(f *fields) {
	f.renamed = nomicNames
	f.usual(usual{maxPositions: 2048, eps: 1e-12, epsName: "layer_norm_eps"})
	f.encoder()
	f.bertEmbeddings(2)
	if f.Intermediate == 0 {
		f.Intermediate = 4 * f.Hidden
	}
	n := &f.Network
	n.EmbedNorm.Name = f.prefix + "emb_ln"
	f.nomicSettings()
	rope := f.rope(f.HeadDim, ropeKind{theta: 1000, thetaField: "rotary_emb_base"})
	act := f.text("hidden_act", "silu")
	if act != "swiglu" && act != "silu" {
		f.unsupported("hidden_act", act, "silu, swiglu")
	}
	f.bertLayers("encoder.layers", func() (AttentionSpec, MLPSpec) {
		a := f.attention()
		a.AttentionNames = AttentionNames{QKV: "attn.Wqkv", O: "attn.out_proj"}
		a.Rope = rope
		a.QKVBias, a.OutBias = f.bool("qkv_proj_bias", false), f.bool("qkv_proj_bias", false)
		a.twoWays(0)
		return a, MLPSpec{Gate: "mlp.fc12", Up: "mlp.fc11", Down: "mlp.fc2", Inner: f.Intermediate, Act: Activation{Kind: SiLU}}
	}, "norm1", "norm2")
}

// nomicSettings refuses settings of the checkpoints' own code that no published model but the one with experts has. With a
// scaling of angles for long texts, the context ends where they begin to depend on the text's length.
func (f *fields) nomicSettings() {
	for _, s := range []struct {
		name string
		want any
	}{{"prenorm", false}, {"parallel_block", false}, {"use_rms_norm", false}, {"causal", false}, {"rotary_emb_interleaved", false}, {"mlp_fc1_bias", false}, {"mlp_fc2_bias", false}} {
		if got := f.bool(s.name, false); got != s.want {
			f.unsupported(s.name, got, fmt.Sprint(s.want))
		}
	}
	if n := f.int("moe_every_n_layers", 0); n > 0 {
		f.unsupported("moe_every_n_layers", n, "0")
	}
	if x := f.float("rotary_emb_fraction", 1); x != 1 {
		f.unsupported("rotary_emb_fraction", x, "1")
	}
	if f.has("rotary_scaling_factor") {
		f.MaxSeqTokens = min(f.MaxSeqTokens, f.int("max_trained_positions", 2048))
	}
}

func gte(f *fields) {
	f.usual(usual{maxPositions: 8192, eps: 1e-12, epsName: "layer_norm_eps"})
	f.encoder()
	f.bertEmbeddings(1)
	if kind := f.text("position_embedding_type", "rope"); kind != "rope" {
		f.unsupported("position_embedding_type", kind, "rope")
	}
	if f.bool("logn_attention_scale", false) {
		f.unsupported("logn_attention_scale", true, "false")
	}
	rope, act := f.rope(f.HeadDim, ropeKind{theta: 160_000}), f.activation("hidden_act", "gelu")
	f.bertLayers("encoder.layer", func() (AttentionSpec, MLPSpec) {
		a := f.attention()
		a.AttentionNames = AttentionNames{QKV: "attention.qkv_proj", O: "attention.o_proj"}
		a.Rope, a.QKVBias, a.OutBias = rope, true, true
		a.twoWays(0)
		return a, MLPSpec{GateUp: "mlp.up_gate_proj", UpFirst: true, Down: "mlp.down_proj", DownBias: true, Inner: f.Intermediate, Act: act}
	}, "attn_ln", "mlp_ln")
}
