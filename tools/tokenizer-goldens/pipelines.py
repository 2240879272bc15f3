#!/usr/bin/env python3
"""Makes tokenizer/testdata/pipelines.json.gz: what Hugging Face's library makes of texts with
each normalizer, pre-tokenizer, post-processor, decoder and model.

usage: pipelines.py TESTDATA      (the folder tokenizer/testdata)

Needs tokenizers==0.23.3 and sentencepiece==0.2.3 (Apache-2.0). All vocabularies and texts are
made up here.
"""
import base64
import gzip
import io
import json
import os
import random
import sys
import tempfile
import unicodedata

import sentencepiece
from sentencepiece import sentencepiece_model_pb2 as spm
from tokenizers import NormalizedString, Tokenizer

rng = random.Random(4711)

PIECES = ["the", " the", "The", "THE", "hello", "World", "un", "related", "ing", "don't", "I'm", "we've", " ", "  ", "   ", "\t", "\n", "\r\n", "\u00a0", "\u2003", "\u3000",
          "\u200b", "\u200d", "\ufeff", "\u0085", "\u2028", "\x00", "\x07", "\x1b", "\ufffd", "\u00ad", ".", ",", "!", "?", "'", '"', "-", "_", "$", "+", "<", "=", "^", "`", "|", "~", "#", "##", "@",
          "1", "12", "123", "²", "½", "Ⅷ", "٣", "९", "é", "e\u0301", "É", "ñ", "n\u0303", "å", "Å", "\u212b", "ü", "ß", "ẞ", "İ", "ı", "Σ", "ς", "ſ", "ǆ", "ﬁ", "ﬀ", "ﷺ", "①", "㌔", "Ａ", "ｂ", "１",
          "a\u0301\u0327\u0323", "\u0301", "\u0345", "q\u0307\u0323", "中", "文", "字", "龍", "㐀", "豈", "日本語", "カタカナ", "ひらがな", "ｶﾞ", "ー", "한국어", "각", "\u1112\u1161\u11ab",
          "русский", "Й", "ελληνικά", "ά", "עברית", "שׁ", "عربي", "لَا", "हिन्दी", "ไทย", "กำ", "ქართული", "🙂", "👩‍👩‍👧", "🇩🇪", "👍🏽", "❤️", "▁", "▁▁", "</w>", "<unk>", "[MASK]", "<s>", "。", "，", "“", "”", "…", "‽", "•", "Ω", "µ"]


def random_char():
    while True:
        c = chr(rng.choice([rng.randrange(0x20, 0x250), rng.randrange(0x300, 0x700), rng.randrange(0x900, 0x1200), rng.randrange(0x1e00, 0x2200), rng.randrange(0x3000, 0x3200),
                            rng.randrange(0xac00, 0xac80), rng.randrange(0xf900, 0x10000), rng.randrange(0x1f300, 0x1f650)]))
        # The library's tables are of older versions of Unicode.
        if unicodedata.category(c) not in ("Cs", "Cn") and ord(c) not in OLD:
            return c


# Characters that are newer than the tables of some part of the library.
OLD = {0x312f, *range(0xfd40, 0xfd50)}


def texts(n, longest=10):
    out = []
    for _ in range(n):
        out.append("".join(rng.choice(PIECES) if rng.random() < 0.85 else random_char() for _ in range(rng.randint(1, longest))))
    return out


def base(model, **parts):
    return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "post_processor": None, "decoder": None,
            **parts, "model": model}


def added(vocab, *names):
    return [{"id": vocab.index(n), "content": n, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} for n in names]


def word_level():
    return {"type": "WordLevel", "vocab": {"[UNK]": 0}, "unk_token": "[UNK]"}


def byte_level():
    """A byte-level BPE model."""
    letters, n = [], 0
    for b in range(256):
        printable = 32 < b < 127 or (160 < b and b != 173)
        letters.append(chr(b if printable else 256 + n))
        n += not printable
    merges = [("t", "h"), ("th", "e"), ("Ġ", "the"), ("Ġ", "Ġ"), ("Ã", "©"), ("1", "2"), ("i", "n"), ("in", "g"), ("Ċ", "Ġ")]
    vocab = {s: i for i, s in enumerate(letters + [a + b for a, b in merges])}
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False,
            "ignore_merges": False, "vocab": vocab, "merges": [list(m) for m in merges]}


def charsmap(pairs):
    """A small map of characters, compiled by sentencepiece."""
    with tempfile.TemporaryDirectory() as tmp:
        rules = os.path.join(tmp, "rules.tsv")
        with open(rules, "w") as f:
            for a, b in pairs:
                f.write(" ".join("%X" % ord(c) for c in a) + "\t" + " ".join("%X" % ord(c) for c in b) + "\n")
        corpus = os.path.join(tmp, "corpus.txt")
        with open(corpus, "w") as f:
            f.write("\n".join(["hello world the quick brown fox jumps over lazy dogs"] * 50))
        sentencepiece.SentencePieceTrainer.train(input=corpus, model_prefix=os.path.join(tmp, "m"), vocab_size=40, normalization_rule_tsv=rules, hard_vocab_limit=False,
                                                 minloglevel=3)
        m = spm.ModelProto()
        m.ParseFromString(open(os.path.join(tmp, "m.model"), "rb").read())
        return m.normalizer_spec.precompiled_charsmap


def small_charsmap():
    pairs = []
    for p in PIECES + [chr(c) for c in list(range(0xa0, 0x100)) + list(range(0xff01, 0xff60)) + list(range(0x2460, 0x2480))]:
        to = unicodedata.normalize("NFKC", p)
        if len(p) <= 4 and to != p and "\x00" not in p:
            pairs.append((p, to))
    pairs += [("\u200b", " "), ("\ufeff", ""), ("\n", " "), ("\t", " "), ("\r", " "), ("e", "E"), ("ell", "ELL"), ("\u00ad", ""), ("a\u0301", "á"), ("q\u0307", "Q")]
    return charsmap(dict(pairs).items())


def decode(t, ids, skip):
    """The text of ids; None where the library panics: a Strip of more characters than there are."""
    try:
        return t.decode(ids, skip_special_tokens=skip)
    except BaseException as e:
        if type(e).__name__ != "PanicException":
            raise
        return None


def main(folder):
    out = {}
    plain = texts(220)
    blob = small_charsmap()
    out["charsmap"] = base64.b64encode(blob).decode()

    normalizers = {"NFD": {"type": "NFD"}, "NFKC": {"type": "NFKC"}, "NFKD": {"type": "NFKD"}, "NFC": {"type": "NFC"}, "Lowercase": {"type": "Lowercase"},
                   "NFD, StripAccents": {"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]},
                   "Strip": {"type": "Strip", "strip_left": True, "strip_right": True}, "Strip left": {"type": "Strip", "strip_left": True, "strip_right": False},
                   "Nmt": {"type": "Nmt"}, "Replace": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": "▁"},
                   "Replace spaces": {"type": "Replace", "pattern": {"Regex": r"[\s\u200b]+"}, "content": " "}, "Replace letters": {"type": "Replace", "pattern": {"Regex": r"\p{L}(?=\p{N})"}, "content": ""},
                   "trimmed": {"type": "Replace", "pattern": {"Regex": r"\A +| +\z"}, "content": ""}, "first mark": {"type": "Replace", "pattern": {"Regex": r"\A▁"}, "content": "▁▁"},
                   "lines": {"type": "Replace", "pattern": {"Regex": r"^[\p{L}\s]|[\p{L}\s]$"}, "content": "-"}, "boundaries": {"type": "Replace", "pattern": {"Regex": r"\b.\B|.\b\s"}, "content": "-"},
                   "Precompiled": {"type": "Precompiled", "precompiled_charsmap": out["charsmap"]}}
    for clean in (True, False):
        for chinese in (True, False):
            for accents in (True, False, None):
                for lower in (True, False):
                    normalizers[f"Bert {clean} {chinese} {accents} {lower}"] = {"type": "BertNormalizer", "clean_text": clean, "handle_chinese_chars": chinese, "strip_accents": accents,
                                                                                "lowercase": lower}
    out["texts"] = plain
    out["normalizers"] = []
    for name, n in normalizers.items():
        t = Tokenizer.from_str(json.dumps(base(word_level(), normalizer=n)))
        out["normalizers"].append({"name": name, "normalizer": n, "want": [t.normalizer.normalize_str(x) for x in plain]})

    pre = {"Whitespace": {"type": "Whitespace"}, "WhitespaceSplit": {"type": "WhitespaceSplit"}, "BertPreTokenizer": {"type": "BertPreTokenizer"},
           "CharDelimiterSplit": {"type": "CharDelimiterSplit", "delimiter": "e"}, "UnicodeScripts": {"type": "UnicodeScripts"}, "FixedLength": {"type": "FixedLength", "length": 3},
           "both": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"}, {"type": "Digits", "individual_digits": True}]},
           "scripts": {"type": "Sequence", "pretokenizers": [{"type": "UnicodeScripts"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}]}}
    for b in ("Isolated", "Removed", "Contiguous", "MergedWithPrevious", "MergedWithNext"):
        pre["Punctuation " + b] = {"type": "Punctuation", "behavior": b}
    out["pre"] = []
    for name, p in pre.items():
        t = Tokenizer.from_str(json.dumps(base(word_level(), pre_tokenizer=p)))
        out["pre"].append({"name": name, "pre": p, "want": [[a for a, _ in t.pre_tokenizer.pre_tokenize_str(x)] for x in plain]})

    # Decoders: lists of tokens of a vocabulary.
    vocab = ["[UNK]", "hello", "##ing", "##", "the", "▁the", "▁", "▁▁a", "</w>", "a</w>", "b</w>c", "b", "<pad>", "|", ".", ",", "?", "!", "'", "n't", "'m", "do", "not", "do not", "'s", "'ve", "##.", "  x  ", " ", "xx",
             "x", "xax", "é", "##é", "<0x41>", "<0xC3>", "<0xA9>", "<0xE2>", "<0x96>", "<0x81>", "<0x20>", "1 .", " do not", "[CLS]"]
    ids = [[rng.randrange(len(vocab)) for _ in range(rng.randint(0, 9))] for _ in range(250)]
    replace = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
    fuse, fallback = {"type": "Fuse"}, {"type": "ByteFallback"}
    decoders = {"none": None, "WordPiece": {"type": "WordPiece", "prefix": "##", "cleanup": True}, "WordPiece raw": {"type": "WordPiece", "prefix": "##", "cleanup": False},
                "BPEDecoder": {"type": "BPEDecoder", "suffix": "</w>"}, "CTC": {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": True},
                "CTC raw": {"type": "CTC", "pad_token": "<pad>", "word_delimiter_token": "|", "cleanup": False}, "Fuse": fuse,
                "Strip": {"type": "Strip", "content": "x", "start": 1, "stop": 2}, "Strip, Fuse": [{"type": "Strip", "content": " ", "start": 2, "stop": 1}, fuse],
                "Fuse, Strip": [fuse, {"type": "Strip", "content": "x", "start": 2, "stop": 0}], "Fuse, Strip at the end": [fuse, {"type": "Strip", "content": "x", "start": 1, "stop": 2}],
                "Replace": [{"type": "Replace", "pattern": {"Regex": "x+|▁"}, "content": "-"}, fallback, fuse], "Fuse, Replace": [fallback, fuse, replace],
                "Metaspace": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True},
                "Metaspace never": {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never", "split": True},
                "ByteFallback, Metaspace": [fallback, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}],
                "Llama": [replace, fallback, fuse, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]}
    out["decoding"] = {"vocab": vocab, "ids": ids, "decoders": []}
    for name, d in decoders.items():
        d = {"type": "Sequence", "decoders": d} if isinstance(d, list) else d
        model = {"type": "WordLevel", "vocab": {v: i for i, v in enumerate(vocab)}, "unk_token": "[UNK]"}
        t = Tokenizer.from_str(json.dumps(base(model, decoder=d, added_tokens=added(vocab, "[CLS]"))))
        out["decoding"]["decoders"].append({"name": name, "decoder": d, "want": [decode(t, x, False) for x in ids], "skip": [decode(t, x, True) for x in ids]})

    # Models.
    hexed = ["<0x%02X>" % b for b in range(256)]
    letters = sorted(set("".join(PIECES)) - set("\x00中文▁"))
    words = sorted({p.strip() for p in PIECES if p.strip()} | {"th", "he", "hel", "lo", "el", "ell", "ing", "rel", "ated", "ate", "at", "Wor", "ld"})
    scored = []
    for w in ["▁"] + letters + [x for w in words for x in (w, "▁" + w)]:
        if w not in [s for s, _ in scored] and w not in ("<unk>", "<s>"):
            scored.append((w, round(-rng.random() * 12, rng.choice([0, 1, 4]))))
    bert = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + sorted(set(letters) | {w.lower() for w in words} | set(words)) + ["##" + x for x in sorted({"ing", "ed", "s", "lated", "l", "o", "e", "d", "r", "é", "ский"})]
    bert = list(dict.fromkeys(bert))
    cls = {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]}, "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}
    tok = lambda n: {"SpecialToken": {"id": n, "type_id": 0}}
    seq = {"Sequence": {"id": "A", "type_id": 0}}
    template = {"type": "TemplateProcessing", "single": [tok("[CLS]"), seq, tok("[SEP]")], "pair": [seq, {"Sequence": {"id": "B", "type_id": 1}}], "special_tokens": cls}
    wordpiece = lambda **k: {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {v: i for i, v in enumerate(bert)}, **k}
    bert_file = lambda post, **k: base(wordpiece(**k), normalizer={"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True},
                                       pre_tokenizer={"type": "BertPreTokenizer"}, post_processor=post, decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
                                       added_tokens=added(bert, *bert[:5]))
    start = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    def unigram(extra=(), **k):
        vocab = start + list(extra) + scored
        space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        return base({"type": "Unigram", "unk_id": 3, "vocab": vocab, "byte_fallback": bool(extra)}, normalizer={"type": "Precompiled", "precompiled_charsmap": out["charsmap"]},
                    **{"pre_tokenizer": space, "decoder": space, **k}, added_tokens=added([v for v, _ in vocab], "<s>", "<pad>", "</s>", "<unk>"),
                    post_processor={"type": "TemplateProcessing", "single": [seq, tok("</s>")], "pair": [seq], "special_tokens": {"</s>": {"id": "</s>", "ids": [2], "tokens": ["</s>"]}}})
    level = list(dict.fromkeys(["[UNK]"] + words))
    files = {"BERT": bert_file(template), "BertProcessing": bert_file({"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]}),
             "RobertaProcessing": bert_file({"type": "RobertaProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2], "trim_offsets": True, "add_prefix_space": False}),
             "short words": bert_file(None, max_input_chars_per_word=4),
             "Unigram": unigram(), "Unigram, bytes": unigram([(h, 0.0) for h in hexed], decoder={"type": "Sequence", "decoders": [fallback, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]}),
             "Unigram, T5": unigram(pre_tokenizer={"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"}, {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}]}),
             "Unigram, whole": unigram(pre_tokenizer={"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}),
             "ByteLevel normalizer": base(byte_level(), normalizer={"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "ByteLevel"}]},
                                          decoder={"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}),
             "WordLevel": base({"type": "WordLevel", "vocab": {v: i for i, v in enumerate(level)}, "unk_token": "[UNK]"}, pre_tokenizer={"type": "Whitespace"})}
    out["files"] = []
    for name, f in files.items():
        t = Tokenizer.from_str(json.dumps(f))
        cases = []
        for x in plain:
            ids = t.encode(x, add_special_tokens=False).ids
            cases.append([ids, t.encode(x, add_special_tokens=True).ids, t.decode(ids, skip_special_tokens=False)])
        out["files"].append({"name": name, "file": f, "want": cases})

    data = json.dumps(out, ensure_ascii=False, separators=(",", ":")).encode()
    with open(os.path.join(folder, "pipelines.json.gz"), "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(data)


if __name__ == "__main__":
    main(*sys.argv[1:])
