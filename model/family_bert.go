package model

import "fmt"

// BERT (Devlin et al., "BERT", 2018) and those that have its network: RoBERTa, XLM-R, CamemBERT and DistilBERT, as
// transformers/models/{bert,roberta,xlm_roberta,camembert,distilbert} have them. MiniLM, bge, e5 and gte are among them.
// Every position sees all others. Norms follow the sums, and nothing is rotated: positions have embeddings.

func init() {
	for _, kind := range []struct {
		class, modelType, prefix string
		read                     func(*fields)
	}{
		{"Bert", "bert", "bert.", bert},
		{"Roberta", "roberta", "roberta.", roberta},
		{"XLMRoberta", "xlm-roberta", "roberta.", roberta},
		{"Camembert", "camembert", "roberta.", roberta},
		{"DistilBert", "distilbert", "distilbert.", distilBert},
	} {
		for _, task := range encoderTasks {
			recipes[kind.class+task] = recipe{modelType: kind.modelType, read: kind.read, prefix: kind.prefix}
		}
	}
	recipes["BertForPreTraining"] = recipe{modelType: "bert", read: bert, prefix: "bert."}
}

// encoderTasks are what the names of an encoder's classes end in. What belongs to a task lies behind the network and
// is not a part of it: heads that fill masks are passed over, and package pooling has those of classifiers.
var encoderTasks = []string{"Model", "ForMaskedLM", "ForSequenceClassification"}

// encoder sets what all encoders have in common.
func (f *fields) encoder() {
	f.TiedHead = false
	f.Network.Whole, f.Network.Head = true, NoHead
	f.Network.Skip = append(f.Network.Skip, "pooler.", f.prefix+"pooler.", "cls.", "lm_head.", "classifier.", "head.", "decoder.")
	if f.bool("is_decoder", false) {
		f.unsupported("is_decoder", true, "false")
	}
}

// bertEmbeddings describes the sum of embeddings of tokens and types. types is how many types there are if the file does not say.
func (f *fields) bertEmbeddings(types int) {
	n := &f.Network
	n.Embed = f.prefix + "embeddings.word_embeddings"
	n.EmbedNorm = f.layerNorm(f.prefix + "embeddings.LayerNorm")
	if n.NumTypes = f.int("type_vocab_size", types); n.NumTypes > 0 {
		n.Types = f.prefix + "embeddings.token_type_embeddings"
	}
}

func bert(f *fields) {
	f.bertNetwork(0)
}

// roberta is bert whose positions are counted from behind the row of the padding token (create_position_ids_from_input_ids
// in transformers), so that so many rows fewer are for tokens.
func roberta(f *fields) {
	f.bertNetwork(1 + f.int("pad_token_id", 1))
}

// bertNetwork describes the network whose position 0 has the given row of the embeddings of positions.
func (f *fields) bertNetwork(firstPos int) {
	f.usual(usual{maxPositions: 512, eps: 1e-12, epsName: "layer_norm_eps"})
	f.encoder()
	f.bertEmbeddings(2)
	n := &f.Network
	n.Positions, n.NumPositions, n.FirstPos = f.prefix+"embeddings.position_embeddings", f.MaxSeqTokens, firstPos
	f.MaxSeqTokens -= firstPos
	n.Skip = append(n.Skip, f.prefix+"embeddings.position_ids")
	if kind := f.text("position_embedding_type", "absolute"); kind != "absolute" {
		f.unsupported("position_embedding_type", kind, "absolute")
	}
	act := f.activation("hidden_act", "gelu")
	f.bertLayers("encoder.layer", func() (AttentionSpec, MLPSpec) {
		a := f.attention()
		a.AttentionNames = AttentionNames{Q: "attention.self.query", K: "attention.self.key", V: "attention.self.value", O: "attention.output.dense"}
		a.Rope, a.QKVBias, a.OutBias, a.Bidirectional = NoRope, true, true, true
		return a, MLPSpec{Up: "intermediate.dense", Down: "output.dense", Inner: f.Intermediate, Bias: true, Act: act}
	}, "attention.output.LayerNorm", "output.LayerNorm")
}

// distilBert is bert with half as many layers, without types of tokens, and with names of its own.
func distilBert(f *fields) {
	f.renamed = map[string]string{"hidden_size": "dim", "num_hidden_layers": "n_layers", "num_attention_heads": "n_heads", "intermediate_size": "hidden_dim", "hidden_act": "activation"}
	f.usual(usual{maxPositions: 512, eps: 1e-12, epsName: "layer_norm_eps"})
	f.encoder()
	n := &f.Network
	n.Embed, n.EmbedNorm = f.prefix+"embeddings.word_embeddings", f.layerNorm(f.prefix+"embeddings.LayerNorm")
	n.Positions, n.NumPositions = f.prefix+"embeddings.position_embeddings", f.MaxSeqTokens
	n.Skip = append(n.Skip, "vocab_transform.", "vocab_layer_norm.", "vocab_projector.", "pre_classifier.")
	act := f.activation("hidden_act", "gelu")
	f.bertLayers("transformer.layer", func() (AttentionSpec, MLPSpec) {
		a := f.attention()
		a.AttentionNames = AttentionNames{Q: "attention.q_lin", K: "attention.k_lin", V: "attention.v_lin", O: "attention.out_lin"}
		a.Rope, a.QKVBias, a.OutBias, a.Bidirectional = NoRope, true, true, true
		return a, MLPSpec{Up: "ffn.lin1", Down: "ffn.lin2", Inner: f.Intermediate, Bias: true, Act: act}
	}, "sa_layer_norm", "output_layer_norm")
}

// bertLayers describes layers that are alike, below the given name, with norms of both sums.
func (f *fields) bertLayers(below string, parts func() (AttentionSpec, MLPSpec), mixNorm, outNorm string) {
	if f.err != nil {
		return
	}
	for i := range f.Layers {
		a, m := parts()
		f.Network.Layers = append(f.Network.Layers, Layer{At: fmt.Sprintf("%s%s.%d.", f.prefix, below, i), PostNorms: true,
			Mixers: []Mixer{a}, MixNorm: f.layerNorm(mixNorm), Feeds: []Feed{m}, OutNorm: f.layerNorm(outNorm)})
	}
}
