"""The encoders of encoders.py: sizes are small and odd, and every peculiarity of a kind is there."""

SMALL = dict(vocab_size=..., hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=44)
BERT = dict(SMALL, max_position_embeddings=96, type_vocab_size=2, layer_norm_eps=1e-12, hidden_act="gelu", pad_token_id=0)
ROBERTA = dict(SMALL, max_position_embeddings=98, type_vocab_size=1, layer_norm_eps=1e-5, hidden_act="gelu", pad_token_id=1, bos_token_id=0, eos_token_id=2)
GTE = dict(SMALL, max_position_embeddings=160, type_vocab_size=1, layer_norm_eps=1e-12, pad_token_id=1, bos_token_id=0, eos_token_id=2)
DISTIL = dict(vocab_size=..., dim=32, n_layers=2, n_heads=4, hidden_dim=44, max_position_embeddings=160, pad_token_id=0)
MODERN = dict(SMALL, num_hidden_layers=4, max_position_embeddings=128, local_attention=8, global_attn_every_n_layers=3, norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2,
              cls_token_id=0, sep_token_id=2)
NOMIC = dict(SMALL, max_position_embeddings=96, type_vocab_size=2, layer_norm_eps=1e-12, pad_token_id=0)
GEMMA = dict(SMALL, num_hidden_layers=4, num_key_value_heads=2, head_dim=12, max_position_embeddings=128, sliding_window=9, rms_norm_eps=1e-6, query_pre_attn_scalar=20, pad_token_id=0,
             bos_token_id=2, eos_token_id=1, layer_types=["sliding_attention", "sliding_attention", "full_attention", "sliding_attention"],
             rope_parameters=dict(sliding_attention=dict(rope_type="default", rope_theta=10000.0), full_attention=dict(rope_type="default", rope_theta=1000000.0)))
QWEN = dict(SMALL, num_key_value_heads=2, head_dim=12, max_position_embeddings=128, rms_norm_eps=1e-6, pad_token_id=1, bos_token_id=0, eos_token_id=2, tie_word_embeddings=True)

# tokenizer is a kind of encoders.py, pooling the mode of its Pooling, and modules are what comes after that.
# same are parts of names of parameters that change nothing: a bias of keys adds the same number to all scores of a query.
# last is the bias that the network adds last.
SAME_BERT = ["key.bias", "pooler."]
LAST = r"layer\.\d+\.output\.LayerNorm\.bias$"

ENCODERS = {
    # As all-MiniLM-L6-v2: written by sentence-transformers of 2021, with another length than the network's.
    "minilm": dict(cls="BertModel", tokenizer="wordpiece", pooling="mean", modules=["Normalize"], config=BERT, same=SAME_BERT, last=LAST, old=dict(max_seq_length=64, do_lower_case=False)),
    # As bge: the vector of [CLS].
    "bge": dict(cls="BertModel", tokenizer="wordpiece", pooling="cls", modules=["Normalize"], config=BERT, same=SAME_BERT, last=LAST),
    # A network that was saved with its head for masks, with names of norms as in 2018, a dense layer and no normalization.
    "bert-masked": dict(cls="BertForMaskedLM", tokenizer="wordpiece", pooling="max", modules=[(24,)], config=BERT, same=SAME_BERT, gamma=True, whole="bert", last=LAST),
    "roberta": dict(cls="RobertaModel", tokenizer="bytelevel", pooling="mean", modules=["Normalize"], config=ROBERTA, same=SAME_BERT, last=LAST),
    # As e5 and bge-m3: Unigram, and a length behind the padding's row.
    "xlm-roberta": dict(cls="XLMRobertaModel", tokenizer="unigram", pooling="mean", modules=["Normalize"], config=ROBERTA, same=SAME_BERT, last=LAST),
    # As all-mpnet-base-v2.
    "mpnet": dict(cls="MPNetModel", tokenizer="bytelevel", pooling="mean", modules=["Normalize"], same=["attn.k.bias", "pooler."], last=LAST,
                  config=dict(SMALL, max_position_embeddings=230, layer_norm_eps=1e-5, pad_token_id=1, bos_token_id=0, eos_token_id=2)),
    "distilbert": dict(cls="DistilBertModel", tokenizer="wordpiece", pooling="mean", modules=[], config=DISTIL, same=["k_lin.bias"], last=r"layer\.\d+\.output_layer_norm\.bias$"),
    "modernbert": dict(cls="ModernBertModel", tokenizer="bytelevel", pooling="mean", modules=["Normalize"], config=MODERN,
                       edits={"local_attention": 10, "rope_parameters.full_attention.rope_theta": 10000.0, "rope_parameters.sliding_attention.rope_theta": 160000.0}),
    "modernbert-masked": dict(gain=1.3, cls="ModernBertForMaskedLM", tokenizer="bytelevel", pooling="cls", modules=[], config=dict(MODERN, attention_bias=True, mlp_bias=True, norm_bias=True), whole="model",
                              same=[], last=r"^final_norm.bias"),
    "nomic": dict(cls="NomicBertModel", tokenizer="wordpiece", pooling="mean", modules=["Normalize"], config=NOMIC, same=["pooler."], last=r"post_mlp_layernorm.bias"),
    "nomic-own": dict(gain=1.4, cls="NomicBertModel", tokenizer="wordpiece", pooling="mean", modules=[], config=dict(NOMIC, rope_parameters=dict(rope_type="default", rope_theta=500.0)),
                      same=["pooler."], last=r"post_mlp_layernorm.bias",
                      keys=dict(hidden_size="n_embd", num_hidden_layers="n_layer", num_attention_heads="n_head", intermediate_size="n_inner", max_position_embeddings="n_positions",
                                layer_norm_eps="layer_norm_epsilon", hidden_act="activation_function", rope_parameters="", head_dim=""),
                      more=dict(activation_function="swiglu", rotary_emb_base=500, rotary_emb_fraction=1.0, rotary_emb_interleaved=False, rotary_scaling_factor=None, prenorm=False,
                                causal=False, qkv_proj_bias=False, mlp_fc1_bias=False, mlp_fc2_bias=False, max_trained_positions=64, parallel_block=False, use_rms_norm=False)),
    "gte": dict(cls="GteModel", tokenizer="unigram", pooling="cls", modules=["Normalize"], config=GTE, same=["k_proj.bias", "pooler."], last=r"post_mlp_layernorm.bias", gain=1.5,
                edits={"rope_parameters.rope_theta": 10000.0}),
    # As embeddinggemma: two dense layers without bias and activation.
    "embeddinggemma": dict(cls="Gemma3TextModel", tokenizer="gemma", pooling="mean", modules=[(48, False, None), (32, False, None), "Normalize"], plus_one=True,
                           config=dict(GEMMA, use_bidirectional_attention=True), edits={"sliding_window": 12, "use_bidirectional_attention": False, "rope_parameters.full_attention.rope_theta": 10000.0}),
    # Networks that generate otherwise, as sentence-transformers saves them: without a head, and their tensors without a prefix.
    "qwen3": dict(cls="Qwen3Model", tokenizer="bytelevel", pooling="lasttoken", modules=["Normalize"], config=QWEN),
}

# Networks with the head of a classifier. activation is what sentence-transformers saves, "": its default. old is how it was saved some years ago.
CLASSIFIERS = {
    # As ms-marco-MiniLM: one label, the logit as it is, and settings in config.json.
    "cross-bert": dict(cls="BertForSequenceClassification", tokenizer="wordpiece", config=dict(BERT, max_position_embeddings=160, num_labels=1), same=["key.bias"], activation="Identity", old=True),
    # As bge-reranker: one label with a Sigmoid.
    "cross-xlm-roberta": dict(gain=1.5, cls="XLMRobertaForSequenceClassification", tokenizer="unigram", config=dict(ROBERTA, max_position_embeddings=162, num_labels=1), same=["key.bias"]),
    # As nli models: several labels.
    "cross-roberta": dict(cls="RobertaForSequenceClassification", tokenizer="bytelevel", config=dict(ROBERTA, max_position_embeddings=162, num_labels=3), same=["key.bias"], activation="Softmax"),
    # As gte-reranker-modernbert: the mean goes through a product, an activation and a norm.
    "cross-distilbert": dict(cls="DistilBertForSequenceClassification", tokenizer="wordpiece", config=dict(DISTIL, num_labels=2), same=["k_lin.bias"], activation="Sigmoid"),
    "cross-modernbert": dict(cls="ModernBertForSequenceClassification", tokenizer="bytelevel", config=dict(MODERN, max_position_embeddings=160, num_labels=1, classifier_pooling="mean"), same=[]),
    "cross-modernbert-bias": dict(gain=1.3, cls="ModernBertForSequenceClassification", tokenizer="bytelevel", same=[],
                                  config=dict(MODERN, max_position_embeddings=160, num_labels=2, classifier_pooling="cls", classifier_bias=True, norm_bias=True, classifier_activation="relu")),
    "cross-nomic": dict(gain=1.3, cls="NomicBertForSequenceClassification", tokenizer="wordpiece", config=dict(NOMIC, max_position_embeddings=160, num_labels=1), same=[]),
    "cross-gte": dict(cls="GteForSequenceClassification", tokenizer="unigram", config=dict(GTE, num_labels=1, type_vocab_size=0), same=["k_proj.bias"], gain=1.5),
    # Networks that generate otherwise: the last token's vector. The published Qwen3-Reranker, converted, is one.
    "cross-qwen3": dict(cls="Qwen3ForSequenceClassification", tokenizer="bytelevel", config=dict(QWEN, max_position_embeddings=160, num_labels=1), same=[]),
    "cross-llama": dict(gain=1.3, cls="LlamaForSequenceClassification", tokenizer="bytelevel", config=dict(QWEN, max_position_embeddings=160, num_labels=4), same=[]),
}
