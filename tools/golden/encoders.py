"""Golden data of models that embed or classify: tiny random checkpoints and what sentence-transformers computes.

    pip install -r encoders-requirements.txt        (torch 2.15.0, transformers 5.23.0, sentence-transformers 6.2.0)
    python encoders.py ../../model/testdata [NAME ...]

Writes for each of ENCODERS, below encoders in the folder, and of CLASSIFIERS, below classifiers:

  NAME/...            the folder as sentence-transformers saves it, or as it saved it some years ago
  NAME/golden.json    texts, the tokens of each, and their vectors; of a classifier pairs of texts, their tokens and types, logits and scores

All arithmetic is float32 on the CPU with eager attention, a text at a time. Every parameter is drawn, and stored in float16, which holds it
exactly. The script fails unless float64 gives nearly the same, all texts lie below a cosine of 0.9 of each other, and each kind of parameter, and each edit of the
configuration that is listed, moves a component by at least a hundred times the tolerance of the tests.
"""
import copy
import json
import math
import pathlib
import re
import shutil
import sys

import numpy
import sentence_transformers
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Pooling
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from encoders_list import CLASSIFIERS, ENCODERS

PINNED = {"torch": "2.15.0", "transformers": "5.23.0", "sentence_transformers": "6.2.0", "tokenizers": "0.23.3"}
MOST_COSINE, LEAST_MOVE, MOST_UNSTEADY = 0.9, 1e-3, 3e-6

CORPUS = """The quick brown fox jumps over the lazy dog near the river bank.
A weir is a low dam that keeps a stream steady, and this one keeps streams of tokens steady.
Paris is the capital of France, and Berlin is the capital of Germany.
How much protein should a female eat every day? The average requirement is 46 grams.
Der Fluss fließt langsam durch die Stadt, während die Kinder am Ufer spielen.
El río cruza la ciudad; los niños juegan en la orilla todo el día.
Embedding models turn sentences into vectors that can be compared with each other.
In 1969 people walked on the moon for the first time, which millions watched.
Servers answer requests; clients wait, retry, and sometimes leave early.
""".strip().split("\n")

TEXTS = [
    "A weir keeps the stream steady.",
    "HOW much Protein should people eat?",
    "Der Fluß fließt während des Tages, café naïve",
    "1969",
    "The capital of France is Paris; the capital of Germany is Berlin, and requests wait at the river bank for the first time in the day.",
    "vectors, sentences and unknown words: zyzzyva \u4e2d\u6587 \U0001f600!",
    "los niños juegan",
    "Clients  retry\tearly -- sometimes...",
]


def wordpiece():
    t = tokenizers.Tokenizer(models.WordPiece(unk_token="[UNK]"))
    t.normalizer, t.pre_tokenizer = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.train_from_iterator(CORPUS, trainers.WordPieceTrainer(vocab_size=260, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return t, dict(pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", mask_token="[MASK]",
                   model_input_names=["input_ids", "token_type_ids", "attention_mask"])


ROBERTA_TOKENS = dict(bos_token="<s>", pad_token="<pad>", eos_token="</s>", unk_token="<unk>", mask_token="<mask>", cls_token="<s>", sep_token="</s>")


def bytelevel():
    t = tokenizers.Tokenizer(models.BPE())
    t.pre_tokenizer, t.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=360, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], show_progress=False,
                                                      initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    t.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return t, ROBERTA_TOKENS


def unigram():
    t = tokenizers.Tokenizer(models.Unigram())
    t.normalizer = normalizers.Sequence([normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(tokenizers.Regex(" {2,}"), " ")])
    t.pre_tokenizer, t.decoder = pre_tokenizers.Metaspace(), decoders.Metaspace()
    t.train_from_iterator(CORPUS, trainers.UnigramTrainer(vocab_size=240, special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"], unk_token="<unk>", show_progress=False))
    t.post_processor = processors.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)])
    return t, ROBERTA_TOKENS


def gemma():
    t = tokenizers.Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.normalizer, t.decoder = normalizers.Replace(" ", "\u2581"), decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    special = ["<pad>", "<eos>", "<bos>", "<unk>"] + [f"<0x{i:02X}>" for i in range(256)]
    t.train_from_iterator(CORPUS, trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False))
    made = json.loads(t.to_str())
    made["added_tokens"] = [a for a in made["added_tokens"] if not a["content"].startswith("<0x")]
    t = tokenizers.Tokenizer.from_str(json.dumps(made))
    t.post_processor = processors.TemplateProcessing(single="<bos> $A <eos>", pair="<bos> $A <eos> <bos>:1 $B:1 <eos>:1", special_tokens=[("<bos>", 2), ("<eos>", 1)])
    return t, dict(pad_token="<pad>", eos_token="<eos>", bos_token="<bos>", unk_token="<unk>")


def tokenizer_of(spec):
    t, special = globals()[spec["tokenizer"]]()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=t, model_max_length=spec.get("length", 512), **special)


def build(spec, vocab):
    values = {k: (vocab if v is ... else v) for k, v in spec["config"].items()}
    cls = getattr(transformers, spec["cls"])
    config = cls.config_class(**values)
    torch.manual_seed(1)
    return cls._from_config(config, attn_implementation="eager", dtype=torch.float32).eval()


def is_norm(name, p):
    return p.dim() == 1 and "norm" in name.lower() and name.endswith("weight")


def draw(named, seed, spec):
    """Gives every parameter a value that float16 holds."""
    g = torch.Generator().manual_seed(seed)
    normal = lambda p: torch.randn(p.shape, generator=g)
    with torch.no_grad():
        for name, p in sorted(named):
            if is_norm(name, p):
                p.copy_((0.0 if spec.get("plus_one") else 1.0) + 0.3 * normal(p))
            elif p.dim() <= 1:
                p.copy_(0.2 * normal(p))
            elif "word_embed" in name or "tok_embed" in name or "embed_tokens" in name:
                p.copy_(normal(p) * spec.get("embed", 1.5))
            elif "embed" in name:
                p.copy_(normal(p) * 0.5)
            else:
                p.copy_(normal(p) * spec.get("gain", 2.0) / math.sqrt(p.shape[-1]))
            p.copy_(p.half().float())


def neutral(state, names, spec):
    for n in names:
        plain = is_norm(n, state[n]) and not spec.get("plus_one")
        state[n].copy_(torch.ones_like(state[n]) if plain else torch.zeros_like(state[n]))


def check_parameters(model, answer, spec, name):
    """Fails where a kind of parameter changes nothing that a test would see."""
    before, kinds, state = answer(), {}, model.state_dict()
    for n in state:
        kinds.setdefault(re.sub(r"\.\d+", ".N", n), []).append(n)
    for kind, names in kinds.items():
        if "position_ids" in kind or any(s in kind for s in spec.get("same", [])):
            continue
        kept = {n: state[n].clone() for n in names}
        with torch.no_grad():
            neutral(state, names, spec)
            moved = float(abs(answer() - before).max())
            for n in names:
                state[n].copy_(kept[n])
        if not moved >= LEAST_MOVE:
            raise SystemExit(f"{name}: {kind} moves a number by {moved:.3g} only")


def reload_edited(folder, path, value):
    """A copy of the folder with another value in its config.json."""
    other = folder.parent / (folder.name + "-edited")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(folder, other)
    config = json.loads((other / "config.json").read_text())
    at = config
    *parts, last = path.split(".")
    for p in parts:
        at = at[p]
    at[last] = value
    (other / "config.json").write_text(json.dumps(config))
    return other


def check_edits(folder, answer_of, spec, name):
    before = answer_of(folder)
    for path, value in spec.get("edits", {}).items():
        other = reload_edited(folder, path, value)
        moved = float(abs(answer_of(other) - before).max())
        shutil.rmtree(other)
        if not moved >= LEAST_MOVE:
            raise SystemExit(f"{name}: {path} = {value} moves a number by {moved:.3g} only")


def shrink(folder, spec):
    """Stores the network's numbers in float16, under the names of norms that the first checkpoints had if spec wants them."""
    tensors = load_file(folder / "model.safetensors")
    if spec.get("gamma"):
        tensors = {k.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): v for k, v in tensors.items()}
    for old, new in spec.get("rename", {}).items():
        tensors = {re.sub(old, new, k): v for k, v in tensors.items()}
    save_file({k: v.half().contiguous() for k, v in sorted(tensors.items())}, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config.update(architectures=[spec["cls"]], **spec.get("write", {}))
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
    for extra in ("README.md", "generation_config.json"):
        (folder / extra).unlink(missing_ok=True)


def age(folder, spec):
    """Writes the settings around the network as sentence-transformers 2.2 did."""
    modules = json.loads((folder / "modules.json").read_text())
    for m in modules:
        m["type"] = "sentence_transformers.models." + m["type"].rsplit(".", 1)[1]
    (folder / "modules.json").write_text(json.dumps(modules, indent=2))
    (folder / "1_Pooling/config.json").write_text(json.dumps({"word_embedding_dimension": spec["config"]["hidden_size"], **{
        f"pooling_mode_{k}": k == {"mean": "mean_tokens", "cls": "cls_token"}[spec["pooling"]] for k in ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")}}))
    (folder / "sentence_bert_config.json").write_text(json.dumps(spec["old"]))


def rename_keys(folder, spec):
    """Writes config.json with the keys of the code that a published checkpoint brings, which transformers itself does not read."""
    config = json.loads((folder / "config.json").read_text())
    config = {spec["keys"].get(k, k): v for k, v in config.items() if spec["keys"].get(k, k)}
    config.update(spec["more"])
    (folder / "config.json").write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")


def open_embedder(folder):
    return SentenceTransformer(str(folder), device="cpu", model_kwargs=dict(dtype=torch.float32, attn_implementation="eager"))


def vectors(st):
    return numpy.stack([st.encode(t, batch_size=1, convert_to_numpy=True) for t in TEXTS]).astype(numpy.float64)


def apart(v):
    unit = v / numpy.linalg.norm(v, axis=-1, keepdims=True)
    return float((unit @ unit.T - 2 * numpy.eye(len(v))).max())


def center(st, spec):
    """Moves the bias that is added last, so that the vectors of the texts have a mean of about 0."""
    state = dict(st[0].model.named_parameters())
    names = [n for n in state if re.search(spec["last"], n)] if "last" in spec else []
    if names:
        with torch.no_grad():
            pooled = torch.cat([st[1](st[0](st.preprocess([t])))["sentence_embedding"] for t in TEXTS])
            p = state[names[-1]]
            p.copy_((p - pooled.mean(0)).half().float())


def unsteady(model, answer):
    """How far the answer in float32 is from that in float64. Networks with sharp attention swell roundings, and others would not repeat them."""
    before = answer()
    model.double()
    after = answer()
    model.float()
    return float(abs(after - before).max())


def modules(spec, raw, hidden):
    parts = [Transformer(str(raw), model_kwargs=dict(dtype=torch.float32, attn_implementation="eager")), Pooling(hidden, spec["pooling"])]
    for m in spec["modules"]:
        size = parts[-1].out_features if isinstance(parts[-1], Dense) else hidden
        parts.append(Normalize() if m == "Normalize" else Dense(size, *m))
    return parts


def make_embedder(folder, name, spec):
    out, raw = folder / name, folder / (name + "-raw")
    tok = tokenizer_of(spec)
    model = build(spec, len(tok))
    model.save_pretrained(raw)
    tok.save_pretrained(raw)
    st = SentenceTransformer(modules=modules(spec, raw, model.config.hidden_size), device="cpu").eval()
    for seed in range(1, 60):
        for part in st:
            draw(list(part.named_parameters()), seed, spec)
        center(st, spec)
        v = vectors(st)
        if apart(v) < MOST_COSINE and unsteady(st, lambda: vectors(st)) < MOST_UNSTEADY:
            break
    else:
        raise SystemExit(f"{name}: no seed has texts that are far apart and steady, the last {apart(v):.2f} {unsteady(st, lambda: vectors(st)):.2g}")
    check_parameters(st[0].model, lambda: vectors(st), spec, name)
    shutil.rmtree(out, ignore_errors=True)
    st.save(str(out), create_model_card=False)
    if "whole" in spec:  # with what the class has beside the encoder
        model.get_submodule(spec["whole"]).load_state_dict(st[0].model.state_dict(), strict=False)
        model.save_pretrained(out)
    shrink(out, spec)
    if "old" in spec:
        age(out, spec)
    shutil.rmtree(raw)
    again = open_embedder(out)
    assert float(abs(vectors(again) - v).max()) < 1e-6, name
    check_edits(out, lambda f: vectors(open_embedder(f)), spec, name)
    t = again.tokenizer
    (out / "golden.json").write_text(json.dumps({"texts": TEXTS, "tokens": [t(x)["input_ids"] for x in TEXTS],
                                                 "vectors": [[round(float(x), 8) for x in row] for row in v]}) + "\n")
    if "keys" in spec:
        rename_keys(out, spec)
    report(out, name, seed, f"cosine at most {apart(v):.2f}")


PAIRS = [(TEXTS[a], TEXTS[b]) for a, b in ((1, 0), (1, 4), (6, 2), (3, 3), (4, 5), (7, 6))]


def open_classifier(folder):
    return CrossEncoder(str(folder), device="cpu", model_kwargs=dict(dtype=torch.float32, attn_implementation="eager"))


def scores(ce, activation):
    rows = [ce.predict([p], batch_size=1, activation_fn=activation, convert_to_numpy=True)[0] for p in PAIRS]
    return numpy.stack(rows).astype(numpy.float64).reshape(len(PAIRS), -1)


def make_classifier(folder, name, spec):
    """A classifier's folder. Its logits for the pairs are spread, so that they tell networks apart."""
    out, raw = folder / name, folder / (name + "-raw")
    tok = tokenizer_of(spec)
    model = build(spec, len(tok))
    model.save_pretrained(raw)
    tok.save_pretrained(raw)
    activation = getattr(torch.nn, spec["activation"])() if "activation" in spec else None
    if isinstance(activation, torch.nn.Softmax):
        activation = torch.nn.Softmax(dim=-1)
    ce = CrossEncoder(str(raw), device="cpu", activation_fn=activation, model_kwargs=dict(dtype=torch.float32, attn_implementation="eager"))
    ce.eval()
    plain = torch.nn.Identity()
    for seed in range(1, 60):
        draw(list(ce[0].model.named_parameters()), seed, spec)
        logits = scores(ce, plain)
        spread = float(numpy.abs(logits[:, None] - logits[None]).max(-1)[~numpy.eye(len(PAIRS), dtype=bool)].min())
        if spread > 0.02 and abs(logits).max() < 6 and unsteady(ce, lambda: scores(ce, plain)) < MOST_UNSTEADY:
            break
    else:
        raise SystemExit(f"{name}: no seed tells pairs apart and is steady, the last {spread:.2g} {unsteady(ce, lambda: scores(ce, plain)):.2g}")
    check_parameters(ce[0].model, lambda: scores(ce, plain), spec, name)
    shutil.rmtree(out, ignore_errors=True)
    ce.save(str(out), create_model_card=False)
    if "old" in spec:  # as sentence-transformers 4 saved it
        for extra in ("modules.json", "sentence_bert_config.json", "config_sentence_transformers.json"):
            (out / extra).unlink(missing_ok=True)
        spec = dict(spec, write={"sentence_transformers": {"activation_fn": f"torch.nn.modules.linear.{spec['activation']}", "version": "4.1.0"}})
    shrink(out, spec)
    shutil.rmtree(raw)
    again = open_classifier(out)
    t = again.tokenizer
    assert float(abs(scores(again, plain) - logits).max()) < 1e-6, name
    pairs = [t(a, b) for a, b in PAIRS]
    assert max(len(x["input_ids"]) for x in pairs) <= t.model_max_length, f"{name}: pairs are cut"
    (out / "golden.json").write_text(json.dumps({
        "pairs": PAIRS, "tokens": [x["input_ids"] for x in pairs], "types": [x.get("token_type_ids", [0] * len(x["input_ids"])) for x in pairs],
        "logits": logits.round(8).tolist(), "scores": scores(again, None).round(8).tolist()}) + "\n")
    report(out, name, seed, f"logits {spread:.2f} apart")


def report(out, name, seed, what):
    size = sum(f.stat().st_size for f in out.rglob("*") if f.is_file())
    print(f"{name}: seed {seed}, {size // 1024} KiB, {what}", flush=True)


if __name__ == "__main__":
    for package, version in PINNED.items():
        got = sys.modules[package].__version__.split("+")[0]
        assert got == version, f"{package} {got} instead of {version}"
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(sys.argv[1])
    for kind in ("encoders", "classifiers"):
        (folder / kind).mkdir(parents=True, exist_ok=True)
    failed = []
    for name in sys.argv[2:] or ENCODERS | CLASSIFIERS:
        try:
            if name in ENCODERS:
                make_embedder(folder / "encoders", name, ENCODERS[name])
            else:
                make_classifier(folder / "classifiers", name, CLASSIFIERS[name])
        except (SystemExit, Exception) as e:
            failed.append(name)
            print(f"{name}: FAILED: {type(e).__name__}: {e}", flush=True)
    if failed:
        raise SystemExit(f"failed: {' '.join(failed)}")
