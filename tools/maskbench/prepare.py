"""Writes the cases of MaskBench as one JSON object a line, for all engines: the id, the schema, and
for each instance its text as MaskBench writes it, its tokens and whether it is valid.

usage: prepare.py MASKBENCH_DATA TOKENIZER_JSON > cases.jsonl
"""
import json
import pathlib
import sys

from tokenizers import Tokenizer


def main(data, tokenizer):
    encode = Tokenizer.from_file(tokenizer).encode
    for path in sorted(pathlib.Path(data).glob("*.json")):
        case = json.loads(path.read_text())
        tests = []
        for test in case["tests"]:
            text = json.dumps(test["data"], ensure_ascii=False)
            tests.append({"text": text, "tokens": encode(text, add_special_tokens=False).ids, "valid": test["valid"]})
        print(json.dumps({"id": path.stem, "schema": case["schema"], "tests": tests}))


main(*sys.argv[1:])
