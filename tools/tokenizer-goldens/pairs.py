#!/usr/bin/env python3
"""Makes tokenizer/testdata/pairs.json.gz: what post-processors make of two texts, cut and whole.

usage: pairs.py TESTDATA      (the folder tokenizer/testdata)

Needs tokenizers==0.23.3 (Apache-2.0). The vocabulary is made here.
"""
import gzip
import json
import sys

from tokenizers import Tokenizer

WORDS = ["[UNK]", "[CLS]", "[SEP]", "what", "is", "a", "weir", "low", "dam", "river", "in", "the", "it", "##s", "."]
CLS, SEP = {"id": "[CLS]", "ids": [1], "tokens": ["[CLS]"]}, {"id": "[SEP]", "ids": [2, 2], "tokens": ["[SEP]", "[SEP]"]}


def special(name, kind=0):
    return {"SpecialToken": {"id": name, "type_id": kind}}


def text(name, kind=0):
    return {"Sequence": {"id": name, "type_id": kind}}


def template(single, pair):
    return {"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {"[CLS]": CLS, "[SEP]": SEP}}


single = [special("[CLS]"), text("A"), special("[SEP]")]
POST = {
    "none": None,
    "bytes": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
    "bert": {"type": "BertProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2]},
    "roberta": {"type": "RobertaProcessing", "cls": ["[CLS]", 1], "sep": ["[SEP]", 2], "trim_offsets": True, "add_prefix_space": False},
    "template": template(single, [special("[CLS]"), text("A"), special("[SEP]"), text("B", 1), special("[SEP]", 1)]),
    "doubled": template(single, [special("[CLS]"), text("A"), special("[SEP]"), special("[SEP]"), text("B"), special("[SEP]")]),
    "turned": template(single, [special("[SEP]", 2), text("B", 1), special("[CLS]"), text("A", 3)]),
    "sequence": {"type": "Sequence", "processors": [{"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
                                                    template(single, [text("A"), special("[CLS]", 1), text("B", 1)])]},
}
PAIRS = [
    ["what is a weir", "a weir is a low dam in a river ."],
    ["a weir is a low dam in a river . it is low .", "river"],
    ["the dam", "its dam"],
    ["", "a weir"],
    ["a weir", ""],
]
LIMITS = [-1, 0, 2, 3, 4, 5, 6, 7, 8, 9, 11, 14, 40]

out = []
for name, post in POST.items():
    file = {
        "version": "1.0", "truncation": None, "padding": None, "normalizer": None, "added_tokens": [],
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": post, "decoder": None,
        "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##", "max_input_chars_per_word": 100, "vocab": {w: i for i, w in enumerate(WORDS)}},
    }
    cases = []
    for first, second in PAIRS:
        for limit in LIMITS:
            tok = Tokenizer.from_str(json.dumps(file))
            if limit >= 0:
                if limit < tok.num_special_tokens_to_add(True):
                    continue  # the library refuses it
                tok.enable_truncation(limit, strategy="longest_first")
            got = tok.encode(first, second)
            cases.append([first, second, limit, got.ids, got.type_ids])
    out.append({"name": name, "file": file, "cases": cases})
with gzip.GzipFile(sys.argv[1] + "/pairs.json.gz", "wb", mtime=0) as f:
    f.write(json.dumps(out, separators=(",", ":")).encode())
