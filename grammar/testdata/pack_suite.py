#!/usr/bin/env python3
"""Packs JSON-Schema-Test-Suite for the tests of package grammar.

    python3 pack_suite.py FOLDER

FOLDER is a copy of https://github.com/json-schema-org/JSON-Schema-Test-Suite. The result is
one object: by file, the groups of each draft. Comments are left out.
"""

import gzip
import json
import pathlib
import sys

DRAFTS = ["draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"]


def groups(path):
    return [
        {
            "description": g["description"],
            "schema": g["schema"],
            "tests": [{k: t[k] for k in ("description", "data", "valid")} for t in g["tests"]],
        }
        for g in json.loads(path.read_text())
    ]


def main():
    root = pathlib.Path(sys.argv[1])
    files = {}
    for draft in DRAFTS:
        tests = root / "tests" / draft
        for p in tests.rglob("*.json"):
            files.setdefault(str(p.relative_to(tests).with_suffix("")), {})[draft] = groups(p)
    suite = {name: files[name] for name in sorted(files)}  # the drafts of a file together are smaller
    text = json.dumps(suite, ensure_ascii=False, separators=(",", ":"))
    out = pathlib.Path(__file__).with_name("json_schema_test_suite.json.gz")
    out.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    print(len(text), out.stat().st_size)


if __name__ == "__main__":
    main()
