"""Golden data of rerankers made of decoders: tiny random checkpoints and what sentence-transformers' CrossEncoder computes.

    pip install -r requirements.txt sentence-transformers==6.2.0        (torch 2.15.0, transformers 5.23.0)
    python rerankers.py ../../cmd/weir/testdata/rerankers

Writes, below the folder, in the form in which sentence-transformers saves them:

  causal/    a Qwen3ForCausalLM with modules.json: the score is made of the logits of two tokens, and a chat template
             with a default prompt renders the pairs
  plain/     the same without a template and with a head of its own: the tokenizer joins the pairs
  converted/ a Qwen3ForSequenceClassification, as the causal ones are converted to it
  NAME/golden.json  pairs of texts, the tokens of each, logits and scores; and of the causal ones the scores of the texts
                    one behind the other, as vLLM reads them for --hf-overrides

All arithmetic is float32 on the CPU with eager attention, a pair at a time. The script fails unless the scores differ, and
the last layer and both tokens matter.
"""
import json
import pathlib
import shutil
import sys

import sentence_transformers
import tokenizers
import torch
import transformers
from sentence_transformers import CrossEncoder
from tokenizers import decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM, Qwen3ForSequenceClassification

PINNED = {"torch": "2.15.0", "transformers": "5.23.0", "sentence_transformers": "6.2.0"}
CORPUS = """A weir is a low dam that keeps a stream steady.
Paris is the capital of France, and Berlin is the capital of Germany.
The answer can only be "yes" or "no". yes no yes no
query document instruct relevant passages web search
Servers answer requests; clients wait, retry, and sometimes leave early.
""".split("\n")
PAIRS = [
    ("What is a weir?", "A weir is a low dam."),
    ("What is a weir?", "Paris is the capital of France."),
    ("capital of Germany", "Paris is the capital of France, and Berlin is the capital of Germany."),
    ("who waits", "Clients wait at the river bank: \u00fcber, \u4e2d\u6587 and \U0001f600. " * 4),
    ("yes", ""),
    ("the answer is ye", "s or no"),  # as one text, the border is inside a token
]
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
TEMPLATE = """<|im_start|>system
Judge.<|im_end|>
<|im_start|>user
<Instruct>: {{ instruction | default(messages | selectattr("role", "eq", "system") | map(attribute="content") | first | default("search", true), true) }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first }}<|im_end|>
<|im_start|>assistant
"""


def tokenizer(template=None):
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    fast = PreTrainedTokenizerFast(tokenizer_object=t, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=512)
    fast.chat_template = template
    assert fast.convert_tokens_to_ids("yes") is not None and fast.convert_tokens_to_ids("no") is not None
    return fast


def config(**more):
    return Qwen3Config(vocab_size=320, hidden_size=16, intermediate_size=32, num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, head_dim=16,
                       max_position_embeddings=512, rope_theta=10000.0, pad_token_id=0, eos_token_id=2, bos_token_id=0, **more)


def draw(model, seed):
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            p.copy_((1 + 0.4 * torch.randn(p.shape, generator=g) if p.dim() == 1 else torch.randn(p.shape, generator=g) * (0.2 if "embed" in name or "lm_head" in name else 1.5 * p.shape[-1] ** -0.5)).bfloat16().float())
        next(p for name, p in model.named_parameters() if name == "model.norm.weight").mul_(2.0)
    return model.float().eval()


def save(out, network, tok, **more):
    """Saves a folder, by way of sentence-transformers, and opens it again."""
    shutil.rmtree(out, ignore_errors=True)
    network.save_pretrained(out)
    tok.save_pretrained(out)
    options = dict(model_kwargs={"attn_implementation": "eager"}, device="cpu", local_files_only=True)
    CrossEncoder(str(out), **options, **more).save_pretrained(str(out), create_model_card=False)
    return CrossEncoder(str(out), **options)


def scores(ce, identity=False):
    with torch.no_grad():
        return [float(ce.predict([p], batch_size=1, activation_fn=torch.nn.Identity() if identity else None)[0]) for p in PAIRS]


def golden(out, ce):
    tokens = []
    for pair in PAIRS:
        f = ce.preprocess([pair], prompt=ce._resolve_prompt(None, None))
        tokens.append([int(i) for i in f["input_ids"][0]])
    logits = scores(ce, True)
    assert max(logits) - min(logits) > 0.5 and all(-8 < x < 8 for x in logits), logits
    network, tok, texts = ce[0].model, ce.tokenizer, []
    if network.config.architectures[0].endswith("ForCausalLM"):
        yes, no = tok.convert_tokens_to_ids("yes"), tok.convert_tokens_to_ids("no")
        for first, second in PAIRS:
            with torch.no_grad():
                x = network(**tok(first + second, return_tensors="pt")).logits[0, -1]
            texts.append(float(torch.sigmoid(x[yes] - x[no])))
    if out.name == "plain":
        assert abs(texts[-1] - scores(ce)[-1]) > 1e-3
    data = {"versions": PINNED, "pairs": [list(p) for p in PAIRS], "tokens": tokens, "logits": logits, "scores": scores(ce), "texts": texts}
    (out / "golden.json").write_text(json.dumps(data, separators=(",", ":")) + "\n")
    print(out.name, logits)
    return logits


def main():
    for module, version in PINNED.items():
        assert globals()[module].__version__.split("+")[0] == version, (module, globals()[module].__version__)
    root = pathlib.Path(sys.argv[1])
    prompts = dict(prompts={"web": "Find what answers"}, default_prompt_name="web")
    network = draw(Qwen3ForCausalLM(config(tie_word_embeddings=True)), 1)
    ce = save(root / "causal", network, tokenizer(TEMPLATE), **prompts)
    golden(root / "causal", ce)

    network = draw(Qwen3ForCausalLM(config(tie_word_embeddings=False)), 2)
    ce = save(root / "plain", network, tokenizer())
    before = golden(root / "plain", ce)
    for name in ("yes", "no"):
        row = ce.tokenizer.convert_tokens_to_ids(name)
        with torch.no_grad():
            was = ce[0].model.lm_head.weight[row].clone()
            ce[0].model.lm_head.weight[row] = was * 1.5
        assert all(abs(a - b) > 0.01 for a, b in zip(before, scores(ce, True))), name
        with torch.no_grad():
            ce[0].model.lm_head.weight[row] = was

    classes = draw(Qwen3ForSequenceClassification(config(num_labels=1, tie_word_embeddings=False)), 3)
    ce = save(root / "converted", classes, tokenizer(TEMPLATE), **prompts)
    golden(root / "converted", ce)


main()
