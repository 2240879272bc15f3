#!/usr/bin/env python3
"""Writes grammar/testdata/lookaround.json: for patterns with assertions, which of all short
texts contain a match, as Python's re sees it. Go's regexp has no lookaround.

    python3 tools/golden/lookaround.py > grammar/testdata/lookaround.json
"""

import base64
import itertools
import json
import random
import re

ALPHABET = "ab- "
LENGTH = 5

# Of patterns that people use, with their words made short. (\B alone is not among them: until
# 3.14, Python's does not match an empty text.)
PATTERNS = r"""
^(?!ab|a-).+$
^((?!ab)(?!-a).)*$
^(?!.*(a-|[ ]b)).*-[aA]$
^(?!--)[-ab]+$
^([ab](?:(?!.*--)[ab-]*[ab])?)$
^-?([ab](?:(?!.*--)[ab-]*[ab])?) ([ab](?:(?!.*--)[ab-]*[ab])?)$
^(?!ab-)([ab]-)*[ab]+$
^(?![ -]*a)[\s\S]*
^(?![a|A]b)
^(a?-?(?!b+-)b).+a$
^(?!.*-)^(.*[^a]+.*)$
^(?!a$).*$
^(?!aa|b)$
^(?=[^-]+$)(?!\s+$)(.|\n)+$
((?:[^-]*-)*)(?=a(b|a))
^(?!^ab-|b-).*
^(?!.*--)(?=.{1,4}$)((.{1,3}-){1,3}(?![a]*$)[ab]+-?)$
(?=a)b
a(?=b)
(?=.*a)(?=.*b)(?=.*-)
^(?=.*a)(?=.*b).{3,4}$
(?!a)
^(?!)
^(?=)$
(?=(?!a).b)-?
^(?=(?=a)ab)
a(?!b|$)
(?=^a)
b(?=^a)
(?=a$)a
(?:^|a)(?!^)b
(?<=a)b
(?<!a)b
^.*(?<!a)$
^.*(?<=ab|--)$
(?<=^a)b
^(?<!a)b
(?<=a-)(?!b)
(?<![ab])(?=[ab])
\ba\b
\Ba
a\B
^\b
\b$
\bab?\b-
^(\ba\b|-)+$
(?:^|a){2}b
(?:(?=a)|b){2}$
(?:^|-)(?:$|-)
^(?:(?!ab).)*$
^(?:(?<!a)b|a)*$
""".split("\n")[1:-1]


def random_pattern(rng, depth, asserts=True):
    """A random pattern; without asserts it has a fixed width."""
    kind = rng.randrange(12)
    if depth == 0 or kind < 3:
        return rng.choice(["a", "b", "-", " ", ".", "[ab]", "[^a]", r"\w", r"\W"])
    part = lambda: random_pattern(rng, depth - 1, asserts)
    if kind < 6 or not asserts:
        return part() + part()
    if kind == 6:
        return f"(?:{part()}|{part()})"
    if kind == 7:
        return f"(?:{part()})" + rng.choice(["*", "+", "?", "{2}", "{1,2}", "{0,2}"])
    if kind == 8:
        return rng.choice(["^", "$", r"\b", r"\B"]) + part()
    if kind == 9:
        return f"(?{rng.choice(['<=', '<!'])}{random_pattern(rng, 1, False)})" + part()
    return f"(?{rng.choice('=!')}{random_ahead(rng, depth - 1)})" + rng.choice(["", part()])


def random_ahead(rng, depth):
    """What a lookahead may contain: no lookbehind and no word boundary."""
    while True:
        p = random_pattern(rng, depth)
        if "(?<" not in p and r"\b" not in p and r"\B" not in p:
            return p + rng.choice(["", "", "$"])


def main():
    texts = ["".join(t) for n in range(LENGTH + 1) for t in itertools.product(ALPHABET, repeat=n)]
    rng = random.Random(1)
    patterns = PATTERNS + [random_pattern(rng, 4) for _ in range(250)]
    cases = {}
    for p in patterns:
        if len(p) > 90:
            continue
        r = re.compile(p)
        bits = bytearray((len(texts) + 7) // 8)
        for i, t in enumerate(texts):
            if r.search(t):
                bits[i // 8] |= 1 << i % 8
        if p in PATTERNS or any(s in p for s in ("(?=", "(?!", "(?<", r"\b", r"\B")):
            cases[p] = base64.b64encode(bytes(bits)).decode()
    print(json.dumps({"alphabet": ALPHABET, "length": LENGTH, "cases": cases}, indent=0))


main()
