#!/usr/bin/env python3
"""Makes tokenizer/testdata/gguf.json.gz: what llama.cpp makes of texts with the vocabularies of
GGUF files, for every name of a pre-tokenizer and for every kind of vocabulary.

usage: ggufvocab.py TESTDATA      (the folder tokenizer/testdata)

Needs gguf==0.19.0 and llama-cpp-python==0.3.36 (MIT), whose library may be built without any
backend. All vocabularies are made here, out of the mini tokenizers of the same folder.
"""
import base64
import ctypes
import gzip
import json
import os
import random
import sys
import tempfile

import gguf
import llama_cpp

NAMES = """default llama3 llama-v3 llama-bpe falcon3 falcon-h1 pixtral midm-2.0 lfm2 jina-v5-nano minicpm5 deepseek-llm deepseek-coder
deepseek-v3 spark2_5 youtu falcon mpt starcoder gpt-2 phi-2 jina-es jina-de gigachat jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert
jais-2 jina-v1-en jina-v2-code roberta-bpe refact command-r qwen2 deepseek-r1-qwen kormo f2llmv2 qwen35 stablelm2 olmo dbrx smaug-bpe
poro-chat chatglm-bpe glm4 glm5 viking jais tekken smollm codeshell bloom gpt3-finnish exaone exaone4 exaone-moe chameleon minerva-7b
megrez gpt-4o llama4 kanana2 talkie granite-embed-multi-97m tiny_aya cohere2moe superbpe trillion granite-docling bailingmoe bailingmoe2
llada-moe seed-coder hunyuan hunyuan-dense hy_v4 joyai-llm kimi-k2 ufakzeka grok-2 afmoe laguna minimax-m2 solar-open mellum2""".split()


def read(path):
    with gzip.open(path, "rt", encoding="utf-8") as f:
        return json.load(f)


class Vocabulary:
    """A vocabulary in a GGUF file of its own, opened by llama.cpp."""

    def __init__(self, folder, meta):
        path = os.path.join(folder, "vocab.gguf")
        w = gguf.GGUFWriter(path, "llama")
        w.add_context_length(64)
        w.add_embedding_length(64)
        w.add_block_count(1)
        w.add_feed_forward_length(64)
        w.add_head_count(1)
        w.add_layer_norm_rms_eps(1e-5)
        w.add_rope_dimension_count(64)
        for key, value in meta.items():
            if key in ("general.name",):
                w.add_string(key, value)
            elif isinstance(value, bool):
                w.add_bool(key, value)
            elif isinstance(value, int):
                w.add_uint32(key, value)
            elif isinstance(value, str):
                w.add_string(key, value)
            elif isinstance(value, bytes):
                w.add_key_value(key, list(value), gguf.GGUFValueType.ARRAY, sub_type=gguf.GGUFValueType.UINT8)
            else:
                w.add_array(key, value)
        w.write_header_to_file()
        w.write_kv_data_to_file()
        w.close()
        params = llama_cpp.llama_model_default_params()
        params.vocab_only = True
        self.model = llama_cpp.llama_model_load_from_file(path.encode(), params)
        assert self.model, meta.get("tokenizer.ggml.pre")
        self.vocab = llama_cpp.llama_model_get_vocab(self.model)

    def encode(self, text, special):
        raw = text.encode()
        room = (llama_cpp.llama_token * (4 * len(raw) + 64))()
        n = llama_cpp.llama_tokenize(self.vocab, raw, len(raw), room, len(room), special, True)
        assert n >= 0
        return list(room[:n])

    def decode(self, ids):
        room = ctypes.create_string_buffer(64 * len(ids) + 64)
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        n = llama_cpp.llama_detokenize(self.vocab, tokens, len(ids), room, len(room), False, True)
        assert n >= 0
        return room.raw[:n].decode("utf-8", "replace")

    def ends(self):
        n = llama_cpp.llama_vocab_n_tokens(self.vocab)
        return [i for i in range(n) if llama_cpp.llama_vocab_is_eog(self.vocab, i)]

    def close(self):
        llama_cpp.llama_model_free(self.model)


def texts(samples):
    rng = random.Random(17)
    short = [s["Text"] if "Text" in s else s["text"] for s in samples]
    out = rng.sample([t for t in short if 0 < len(t) < 160], 110)
    pieces = ["the", " the", "The", "THE", " ", "  ", "   ", "\n", "\n\n", "\r\n", "\t", "1", "12", "123", "1234", "1234567", "1,234.5", "'s", "'LL", "don't",
              "é", "e\u0301", "中文", "日本語", "カタカナ", "한국어", "русский", "हिन्दी", "عربي", "ไทย", "🙂", "👩‍👩‍👧", "!", "...", "?!", "(", ")", "|", "$", "+", "<=>",
              "^", "~", "`", "_", "/", "//", "-", "\u00a0", "\u3000", "<|end|>", "<s>", "hello", "World", "camelCase", "XMLHttp", "٣", "²", "。", "，", "“", "”"]
    for _ in range(110):
        out.append("".join(rng.choice(pieces) for _ in range(rng.randint(1, 14))))
    return out


def byte_level(mini):
    """The metadata of a byte-level vocabulary, but for the name of its pre-tokenizer."""
    model = mini["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    types = [1] * len(tokens)
    for name, kind in (("<|bos|>", 3), ("<|im_end|>", 3), ("<mine>", 4), ("[PAD0]", 5)):
        if name not in model["vocab"]:
            tokens.append(name)
            types.append(kind)
    merges = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    bos = tokens.index("<|bos|>")
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.merges": merges,
            "tokenizer.ggml.bos_token_id": bos, "tokenizer.ggml.eos_token_id": bos + 1}


def scored(mini, seed=None):
    """The metadata of a SentencePiece vocabulary; with a seed, of one with few different scores."""
    model = mini["model"]
    tokens = sorted(model["vocab"], key=model["vocab"].get)
    rank = {}
    for i, m in enumerate(model["merges"]):
        a, b = m.split(" ") if isinstance(m, str) else m
        rank.setdefault(a + b, i)
    rng = random.Random(seed)
    scores, types = [], []
    for t in tokens:
        types.append(2 if t == "<unk>" else 3 if t in ("<s>", "</s>") else 6 if len(t) == 6 and t.startswith("<0x") else 1)
        scores.append(float(-rank.get(t, 0)) if seed is None else float(-rng.randint(0, 6)))
    for name, kind in (("<s>", 3), ("</s>", 3), ("<|im_end|>", 3), ("<mine>", 4), ("  ", 4)):
        if name not in tokens:
            tokens.append(name)
            types.append(kind)
            scores.append(-1000.0)
    meta = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.scores": scores}
    for key, name in (("bos", "<s>"), ("eos", "</s>"), ("unknown", "<unk>")):
        if name in tokens:
            meta[f"tokenizer.ggml.{key}_token_id"] = tokens.index(name)
    return meta


def losing(meta):
    """A vocabulary in which some characters of pieces are no pieces themselves."""
    rng = random.Random(5)
    tokens = [f"[lost {i}]" if len(t) == 1 and rng.random() < 0.4 else t for i, t in enumerate(meta["tokenizer.ggml.tokens"])]
    return {**meta, "tokenizer.ggml.tokens": tokens}


def characters(mini):
    model = mini["model"]
    meta = scored(mini)
    del meta["tokenizer.ggml.scores"]
    meta["tokenizer.ggml.model"] = "gemma4"
    meta["tokenizer.ggml.merges"] = [m if isinstance(m, str) else " ".join(m) for m in model["merges"]]
    return meta


def unigram(pipelines):
    """The metadata of a Unigram vocabulary."""
    model = next(f["file"] for f in pipelines["files"] if f["name"] == "Unigram")["model"]
    tokens = ["<pad>", "</s>", "<unk>"] + [p for p, _ in model["vocab"][4:]] + ["<mine>", "the unused"]
    scores = [0.0, 0.0, 0.0] + [float(s) for _, s in model["vocab"][4:]] + [0.0, -3.0]
    tokens = [t if "\0" not in t else f"[{i}]" for i, t in enumerate(tokens)]  # the library takes texts of C
    types = [3, 3, 2] + [1] * (len(tokens) - 5) + [4, 5]
    return {"tokenizer.ggml.model": "t5", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": types, "tokenizer.ggml.scores": scores,
            "tokenizer.ggml.precompiled_charsmap": base64.b64decode(pipelines["charsmap"]), "tokenizer.ggml.add_space_prefix": True,
            "tokenizer.ggml.remove_extra_whitespaces": True, "tokenizer.ggml.eos_token_id": 1, "tokenizer.ggml.unknown_token_id": 2, "tokenizer.ggml.padding_token_id": 0}


def word_piece(pipelines):
    """The metadata of a WordPiece vocabulary, with the marks that conversions give it."""
    model = next(f["file"] for f in pipelines["files"] if f["name"] == "BERT")["model"]
    names = sorted(model["vocab"], key=model["vocab"].get)
    special = names[:5]
    tokens = [n if n in special else n[2:] if n.startswith("##") else "\u2581" + n for n in names]
    tokens = [t if t not in tokens[:i] and "\0" not in t else f"[unused{i}]" for i, t in enumerate(tokens)]
    return {"tokenizer.ggml.model": "bert", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.token_type": [3 if n in special else 1 for n in names],
            "tokenizer.ggml.bos_token_id": 2, "tokenizer.ggml.seperator_token_id": 3, "tokenizer.ggml.unknown_token_id": 1, "tokenizer.ggml.padding_token_id": 0}


def main(folder):
    silent = llama_cpp.llama_log_callback(lambda *_: None)  # has to live as long as the library
    llama_cpp.llama_log_set(silent, ctypes.c_void_p())
    list_of_texts = texts(read(os.path.join(folder, "samples.json.gz")))
    mini = {name: read(os.path.join(folder, "mini", name + ".json.gz")) for name in ("bl-llama3", "spm-llama2", "spm-gemma")}
    pipelines = read(os.path.join(folder, "pipelines.json.gz"))
    out = {"texts": list_of_texts, "names": {}, "results": [], "kinds": []}
    known = {}
    with tempfile.TemporaryDirectory() as tmp:
        base = byte_level(mini["bl-llama3"])
        for name in NAMES:
            v = Vocabulary(tmp, {**base, "tokenizer.ggml.pre": name})
            ids = [v.encode(t, False) for t in list_of_texts]
            whole = v.encode(list_of_texts[0], True)
            key = json.dumps(ids)
            if key not in known:
                known[key] = len(out["results"])
                out["results"].append(ids)
            out["names"][name] = {"result": known[key], "around": whole[: len(whole) - len(ids[0])], "ends": v.ends()}
            v.close()
        kinds = [("llama", scored(mini["spm-llama2"])), ("llama, ties", scored(mini["spm-llama2"], 1)), ("llama, more ties", scored(mini["spm-gemma"], 2)),
                 ("llama, no prefix", {**scored(mini["spm-gemma"]), "tokenizer.ggml.add_space_prefix": False}),
                 ("llama, lost characters", losing(scored(mini["spm-llama2"], 3))),
                 ("gemma4", characters(mini["spm-gemma"])), ("t5", unigram(pipelines)),
                 ("t5, spaces kept", {**unigram(pipelines), "tokenizer.ggml.remove_extra_whitespaces": False}),
                 ("bert", word_piece(pipelines)), ("bert, cased", {**word_piece(pipelines), "tokenizer.ggml.normalizer.lowercase": False})]
        for name, meta in kinds:
            v = Vocabulary(tmp, meta)
            ids = [v.encode(t, False) for t in list_of_texts]
            whole = v.encode(list_of_texts[0], True)
            meta = {k: list(v) if isinstance(v, bytes) else v for k, v in meta.items()}
            out["kinds"].append({"name": name, "meta": meta, "ids": ids, "special": whole, "text": [v.decode(i) for i in ids], "ends": v.ends()})
            v.close()
        out["base"] = base
    data = json.dumps(out, ensure_ascii=False, separators=(",", ":")).encode()
    with open(os.path.join(folder, "gguf.json.gz"), "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
