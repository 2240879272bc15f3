package model

import "math"

// MPNet (Song et al., "MPNet", 2020), of which all-mpnet-base-v2 is made, as transformers/models/mpnet has it: BERT without types of
// tokens, whose scores have a learned part for each distance, the same in all layers.

func init() {
	for _, task := range []string{"Model", "ForMaskedLM"} {
		recipes["MPNet"+task] = recipe{modelType: "mpnet", read: mpnet, prefix: "mpnet."}
	}
}

func mpnet(f *fields) {
	f.usual(usual{maxPositions: 512, eps: 1e-12, epsName: "layer_norm_eps"})
	f.encoder()
	n, firstPos := &f.Network, 2 // behind the row of padding
	n.Embed, n.EmbedNorm = f.prefix+"embeddings.word_embeddings", f.layerNorm(f.prefix+"embeddings.LayerNorm")
	n.Positions, n.NumPositions, n.FirstPos = f.prefix+"embeddings.position_embeddings", f.MaxSeqTokens, firstPos
	f.MaxSeqTokens -= firstPos
	n.Skip = append(n.Skip, f.prefix+"embeddings.position_ids")
	const buckets, farthest = 32, 128
	if rows := f.int("relative_attention_num_buckets", buckets); rows != buckets {
		f.unsupported("relative_attention_num_buckets", rows, "32")
	}
	act := f.activation("hidden_act", "gelu")
	f.bertLayers("encoder.layer", func() (AttentionSpec, MLPSpec) {
		a := f.attention()
		a.AttentionNames = AttentionNames{Q: "attention.attn.q", K: "attention.attn.k", V: "attention.attn.v", O: "attention.attn.o"}
		a.Rope, a.QKVBias, a.OutBias = NoRope, true, true
		a.twoWays(0)
		a.Buckets, a.Bias, a.BiasRows = distanceBuckets(buckets, farthest), f.prefix+"encoder.relative_attention_bias", buckets
		return a, MLPSpec{Up: "intermediate.dense", Down: "output.dense", Inner: f.Intermediate, Bias: true, Act: act}
	}, "attention.LayerNorm", "output.LayerNorm")
}

// distanceBuckets are those of T5 (Raffel et al., "Exploring the Limits of Transfer Learning", 2020) for both directions: half of them for
// keys that come first and half for those that come later, one for each near distance, and for farther ones as many as their
// logarithm says.
func distanceBuckets(buckets, farthest int) []int32 {
	half := buckets / 2
	exact := half / 2
	var list []int32
	for d := -farthest; d <= farthest; d++ {
		n, bucket := max(d, -d), 0
		if d > 0 {
			bucket = half
		}
		if n < exact {
			bucket += n
		} else { // in float32, as where the boundaries were learned
			by := float32(math.Log(float64(float32(n)/float32(exact)))) / float32(math.Log(float64(farthest)/float64(exact)))
			bucket += min(exact+int(by*float32(half-exact)), half-1)
		}
		list = append(list, int32(bucket))
	}
	return list
}
