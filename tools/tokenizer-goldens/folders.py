#!/usr/bin/env python3
"""Makes tokenizer/testdata/folders.json.gz: vocabularies in the files that models have in the
place of a tokenizer.json, and what the libraries that read them make of texts.

usage: folders.py TESTDATA      (the folder tokenizer/testdata)

Needs transformers==5.24.0, tokenizers==0.23.3, sentencepiece==0.2.3, tiktoken==0.14.0 and
mistral_common==1.13.1 (Apache-2.0, MIT). All vocabularies are made here.
"""
import base64
import gzip
import json
import os
import random
import sys
import tempfile

os.environ["HF_HUB_OFFLINE"] = "1"
import sentencepiece
import tiktoken
import transformers
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

import pipelines
from pipelines import PIECES

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
KIMI = "|".join([r"[\p{Han}]+", r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                 r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
                 r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*", r"\s*[\r\n]+", r"\s+(?!\S)", r"\s+"])
TEKKEN = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as f:
        return json.load(f)


def spm(samples, charsmap, **options):
    """A SentencePiece model in the form of tokenizer.model."""
    with tempfile.TemporaryDirectory() as tmp:
        corpus = os.path.join(tmp, "corpus.txt")
        with open(corpus, "w", encoding="utf-8") as f:
            f.write("\n".join(s["text"].replace("\n", " ").replace("\0", "") for s in samples if len(s["text"]) > 20 and max(map(ord, s["text"])) < 0x100))
        sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=os.path.join(tmp, "m"), minloglevel=3, hard_vocab_limit=False, num_threads=1,
                                                 normalization_rule_name="identity", **options)
        data = open(os.path.join(tmp, "m.model"), "rb").read()
    from sentencepiece import sentencepiece_model_pb2 as pb
    m = pb.ModelProto()
    m.ParseFromString(data)
    m.trainer_spec.input[:] = []
    m.trainer_spec.model_prefix = ""
    if charsmap:
        m.normalizer_spec.precompiled_charsmap = charsmap
    return m.SerializeToString()


class Folder:
    """A folder in memory; on disk for the libraries."""

    def __init__(self, name, **files):
        self.name, self.files = name, {k.replace("__", "."): v if isinstance(v, bytes) else json.dumps(v, ensure_ascii=False).encode() for k, v in files.items()}

    def __enter__(self):
        self.tmp = tempfile.TemporaryDirectory()
        for name, data in self.files.items():
            with open(os.path.join(self.tmp.name, name), "wb") as f:
                f.write(data)
        return self

    def __exit__(self, *_):
        self.tmp.cleanup()

    def path(self, name):
        return os.path.join(self.tmp.name, name)

    def result(self, texts, encode, special=None, decode=None):
        ids = [list(encode(t)) for t in texts]
        return {"name": self.name, "files": {k: base64.b64encode(v).decode() for k, v in self.files.items()}, "texts": texts, "ids": ids,
                "special": [list(special(t)) for t in texts[:20]] if special else None, "text": [decode(i) for i in ids] if decode else None}


def token(content, special=True, **flags):
    return {"content": content, "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": special, **flags}


def main(folder):
    rng = random.Random(99)
    samples = read(os.path.join(folder, "samples.json.gz"))
    known = read(os.path.join(folder, "pipelines.json.gz"))
    charsmap = base64.b64decode(known["charsmap"])
    pipelines.rng = rng
    # No text has the name of a special token: those are tried on their own.
    plain = [t.replace("<s>", "<z>").replace("<unk>", "<x>").replace("[MASK]", "[m]").replace("\0", "") for t in pipelines.texts(150, 9)]
    marked = ["".join(rng.choice(PIECES + ["<|x|>", "<|y|>", "<s>", "</s>"]) for _ in range(rng.randint(1, 9))).replace("\0", "").replace("[MASK]", "").replace("<unk>", "") for _ in range(120)]
    plain += ["\u00ad", "\ufeff", "", " ", "  ", "\u2581\u2581x", "a\u2581 the", "\u2581 \u2581hello", "hel\u2581\u2581lo", "\u00ad hello \u00ad"]
    out = []

    # SentencePiece itself.
    common = dict(vocab_size=600, character_coverage=0.995)
    kinds = {
        "BPE": dict(model_type="bpe", byte_fallback=True, remove_extra_whitespaces=False),
        "BPE, merging spaces": dict(model_type="bpe", byte_fallback=True, remove_extra_whitespaces=True),
        "BPE, no prefix": dict(model_type="bpe", byte_fallback=True, add_dummy_prefix=False, remove_extra_whitespaces=False, user_defined_symbols=["\u2581\u2581", "\u2581\u2581\u2581", "<z>", "12", "é"]),
        "BPE, user-defined": dict(model_type="bpe", byte_fallback=True, user_defined_symbols=["<z>", "hel", "Ａ", "\n"], control_symbols=["<c>"]),
        "BPE, no bytes": dict(model_type="bpe"),
        "BPE, suffix": dict(model_type="bpe", byte_fallback=True, treat_whitespace_as_suffix=True),
        "Unigram": dict(model_type="unigram"),
        "Unigram, bytes": dict(model_type="unigram", byte_fallback=True, remove_extra_whitespaces=False),
        "Unigram, user-defined": dict(model_type="unigram", user_defined_symbols=["<z>", "hel", "\u2581\u2581"], control_symbols=["<c>"], pad_id=3),
    }
    models = {}
    for name, options in kinds.items():
        for mapped in (False, True):
            models[name, mapped] = data = spm(samples, charsmap if mapped else b"", **{**common, **options})
            p = sentencepiece.SentencePieceProcessor(model_proto=data)
            with Folder(f"SentencePiece {name}{', map of characters' if mapped else ''}", tokenizer__model=data,
                        tokenizer_config__json={"legacy": True, "add_bos_token": False, "add_eos_token": False}) as f:
                # Where the model merges spaces, or knows no bytes, sentencepiece and transformers decode in different
                # ways: all spaces at the start are left out, and unknown tokens are marks. weir does what transformers does.
                out.append(f.result(plain, p.encode, None, p.decode if name in ("BPE", "BPE, no prefix", "Unigram, bytes") else None))

    # What transformers makes of the same files.
    added = {"420": token("<|x|>"), "421": token("<|y|>", lstrip=True, rstrip=True), "422": token("the mine", special=False)}
    for name, key, config in (("Llama", "BPE", {"tokenizer_class": "LlamaTokenizer", "legacy": False}),
                              ("Llama, legacy", "BPE", {"tokenizer_class": "PreTrainedTokenizerFast", "legacy": True, "add_bos_token": True}),
                              ("Gemma", "BPE, no prefix", {"tokenizer_class": "GemmaTokenizer", "bos_token": "<s>", "eos_token": "</s>"}),
                              ("T5", "Unigram", {"tokenizer_class": "PreTrainedTokenizerFast", "legacy": True, "add_eos_token": True})):
        data = models[key, False]
        size = sentencepiece.SentencePieceProcessor(model_proto=data).get_piece_size()
        decoder = {str(size + i): a for i, a in enumerate(added.values())}
        with Folder("transformers " + name, tokenizer__model=data,
                    tokenizer_config__json={"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "added_tokens_decoder": decoder, **config}) as f:
            t = transformers.AutoTokenizer.from_pretrained(f.tmp.name)
            # A mark of a space in the text itself is left out at the end by sentencepiece, which weir follows.
            out.append(f.result([x for x in marked if name != "T5" or "\u2581" not in x], lambda x: t.encode(x, add_special_tokens=False), t.encode, lambda i: t.decode(i, clean_up_tokenization_spaces=False)))

    # Ranks.
    mini = read(os.path.join(folder, "mini", "bl-llama3.json.gz"))["model"]["vocab"]
    unspell = {}
    for b, n in ((b, 0) for b in range(256)):
        pass
    n = 0
    for b in range(256):
        printable = 32 < b < 127 or (160 < b and b != 173)
        unspell[chr(b if printable else 256 + n)] = b
        n += not printable
    listed = sorted((i, bytes(unspell[c] for c in s)) for s, i in mini.items() if all(c in unspell for c in s))[:1500]
    ranks = {raw: i for i, (_, raw) in enumerate(listed)}
    text = b"".join(base64.b64encode(raw) + b" %d\n" % i for raw, i in ranks.items())
    for name, pattern, config, file in (("Llama 3", LLAMA3, {}, "tokenizer__model"), ("Kimi", KIMI, {"auto_map": {"AutoTokenizer": ["tokenization_kimi.TikTokenTokenizer", None]}}, "tiktoken__model")):
        special = {"<|x|>": len(ranks), "<|y|>": len(ranks) + 3}
        config["added_tokens_decoder"] = {str(v): token(k) for k, v in special.items()}
        e = tiktoken.Encoding("e", pat_str=pattern, mergeable_ranks=ranks, special_tokens=special)
        with Folder("tiktoken " + name, **{file: text}, tokenizer_config__json=config) as f:
            out.append(f.result(plain + [m.replace("<s>", "").replace("</s>", "") for m in marked[:60]], lambda x: e.encode(x, allowed_special="all"), None, e.decode))

    # Tekken.
    vocab = [{"rank": i, "token_bytes": base64.b64encode(raw).decode(), "token_str": None} for raw, i in ranks.items()]
    for version, special in (("v3", None), ("v11", [{"rank": i, "token_str": s, "is_control": True} for i, s in enumerate(["<unk>", "<s>", "</s>", "[INST]", "[/INST]"])])):
        config = {"pattern": TEKKEN, "num_vocab_tokens": len(vocab), "default_vocab_size": len(vocab) - 100 + 30, "default_num_special_tokens": 30, "version": version}
        tekken = {"config": config, "vocab": vocab, **({"special_tokens": special} if special else {})}
        with Folder("tekken " + version, tekken__json=tekken) as f:
            t = Tekkenizer.from_file(f.path("tekken.json"))
            out.append(f.result(plain, lambda x: t.encode(x, bos=False, eos=False), lambda x: t.encode(x, bos=True, eos=False), t.decode))

    # Lists of tokens and of merges.
    full = read(os.path.join(folder, "mini", "bl-gpt2.json.gz"))["model"]
    keep = sorted(full["vocab"], key=full["vocab"].get)[:1200] + ["<|endoftext|>", "<|im_start|>"]
    vocab = {s: i for i, s in enumerate(dict.fromkeys(keep))}
    merges = [m if isinstance(m, str) else " ".join(m) for m in full["merges"]]
    merges = [m for m in merges if m.replace(" ", "") in vocab and all(x in vocab for x in m.split(" "))]
    text = ("#version: 0.2\n" + "\n".join(merges) + "\n").encode()
    for name, config in (("GPT-2", {"tokenizer_class": "GPT2Tokenizer"}), ("GPT-2 with a space", {"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": True}),
                         ("Qwen 2", {"tokenizer_class": "Qwen2Tokenizer", "added_tokens_decoder": {str(len(vocab)): token("<|x|>"), str(vocab["<|im_start|>"]): token("<|im_start|>")}, "eos_token": "<|im_start|>"})):
        with Folder("transformers " + name, vocab__json=vocab, merges__txt=text, tokenizer_config__json=config) as f:
            t = transformers.AutoTokenizer.from_pretrained(f.tmp.name)
            out.append(f.result(plain[:90] + ["a<|endoftext|> b<|im_start|>c <|x|> d"], lambda x: t.encode(x, add_special_tokens=False), t.encode, lambda i: t.decode(i, clean_up_tokenization_spaces=False)))
    bert = next(x["file"] for x in known["files"] if x["name"] == "BERT")["model"]["vocab"]
    bert = [b for b in sorted(bert, key=bert.get) if "\0" not in b and "\n" not in b and "\r" not in b and b.strip() == b]
    for name, config in (("BERT", {"do_lower_case": True}), ("BERT, cased", {"do_lower_case": False, "tokenize_chinese_chars": False, "strip_accents": True})):
        with Folder("transformers " + name, vocab__txt=("\n".join(bert) + "\n").encode(), tokenizer_config__json={"tokenizer_class": "BertTokenizer", **config}) as f:
            t = transformers.AutoTokenizer.from_pretrained(f.tmp.name)
            out.append(f.result(plain[:90] + ["the[MASK] a"], lambda x: t.encode(x, add_special_tokens=False), t.encode, lambda i: t.decode(i, clean_up_tokenization_spaces=False)))

    data = json.dumps(out, ensure_ascii=False, separators=(",", ":")).encode()
    with open(os.path.join(folder, "folders.json.gz"), "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
