#!/usr/bin/env python3
"""Packs the mini tokenizers and their expected results for tokenizer/testdata.

usage: pack.py VECTORS/tokenizers OUT

An expected text is kept only if it differs from its sample. Equal inputs give byte-equal
outputs.
"""
import glob
import gzip
import json
import os
import sys


def write(path, value):
    data = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(data)


def main(src, out):
    samples = json.load(open(os.path.join(src, "samples.json"), encoding="utf-8"))
    os.makedirs(os.path.join(out, "mini"), exist_ok=True)
    write(os.path.join(out, "samples.json.gz"), samples)
    for path in sorted(glob.glob(os.path.join(src, "mini", "*.json"))):
        if path.endswith(".expected.json"):
            continue
        name = os.path.basename(path)[: -len(".json")]
        write(os.path.join(out, "mini", name + ".json.gz"), json.load(open(path, encoding="utf-8")))
        want = json.load(open(path[: -len(".json")] + ".expected.json", encoding="utf-8"))
        assert len(want) == len(samples)
        write(os.path.join(out, "mini", name + ".expected.json.gz"), {
            "ids": [w["ids"] for w in want],
            "dec": {str(i): w["dec"] for i, (w, s) in enumerate(zip(want, samples)) if w["dec"] != s["text"]},
        })


if __name__ == "__main__":
    main(*sys.argv[1:])
