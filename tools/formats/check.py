"""Reads random strings of each format of JSON Schema with validators that are in use.

usage: check.py DIR, where TestTextsOfFormats has written a list of strings FORMAT.json for
each format. What any validator refuses is shown, and the exit status is 1.
"""

import json
import pathlib
import re
import sys
import urllib.parse
from datetime import date, datetime, time, timedelta
from ipaddress import IPv4Address, IPv6Address
from uuid import UUID

import jsonschema
from pydantic import AnyUrl, EmailStr, TypeAdapter

# The types of Pydantic whose schemas have these formats.
PYDANTIC = {
    "date": date,
    "date-time": datetime,
    "time": time,
    "duration": timedelta,
    "email": EmailStr,
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
    "uuid": UUID,
    "uri": AnyUrl,
}
# What Python's standard library reads.
STANDARD = {
    "date": date.fromisoformat,
    "date-time": datetime.fromisoformat,
    "time": time.fromisoformat,
    "ipv4": IPv4Address,
    "ipv6": IPv6Address,
    "uuid": UUID,
    "uri": urllib.parse.urlsplit,
    "uri-reference": urllib.parse.urlsplit,
    "iri": urllib.parse.urlsplit,
    "iri-reference": urllib.parse.urlsplit,
    "regex": re.compile,
}


def checks(name):
    """The validators of a format: pairs of a name and a function that raises."""
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    if name in checker.checkers:
        yield "jsonschema", lambda s: checker.check(s, name)
    else:
        print(f"{name}: jsonschema has no check; install its extra format")
    if name in PYDANTIC:
        yield "pydantic", TypeAdapter(PYDANTIC[name]).validate_python
    if name in STANDARD:
        yield "Python", STANDARD[name]


def main(folder):
    bad = 0
    for path in sorted(pathlib.Path(folder).glob("*.json")):
        texts = json.loads(path.read_text())
        for who, check in checks(path.stem):
            failed = []
            for text in texts:
                try:
                    check(text)
                except Exception as e:
                    failed.append((text, str(e).replace("\n", " ")))
            print(f"{path.stem}: {who} refuses {len(failed)} of {len(texts)}")
            for text, why in sorted(failed, key=lambda f: len(f[0]))[:8]:
                print(f"    {text!r}: {why[:200]}")
            bad += len(failed)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
