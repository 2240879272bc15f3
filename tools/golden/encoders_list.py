"""The encoders of encoders.py: sizes are small and odd, and every peculiarity of a kind is there."""

SMALL = dict(vocab_size=..., hidden_size=32, num_hidden_layers=3, num_attention_heads=4, intermediate_size=44)
BERT = dict(SMALL, max_position_embeddings=96, type_vocab_size=2, layer_norm_eps=1e-12, hidden_act="gelu", pad_token_id=0)
ROBERTA = dict(SMALL, max_position_embeddings=98, type_vocab_size=1, layer_norm_eps=1e-5, hidden_act="gelu", pad_token_id=1, bos_token_id=0, eos_token_id=2)

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
}
