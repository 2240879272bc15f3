#!/usr/bin/env python3
"""Writes feedback/emoji.txt: every emoji in Unicode's emoji-test.txt with its alias.

    python3 tools/emoji.py path/to/emoji-test.txt > feedback/emoji.txt

The file is made from version 15.0 (https://unicode.org/Public/emoji/15.0/emoji-test.txt).
An alias is the CLDR short name without "flag: ", colons, commas and quotation marks, and
with "_" for spaces, as in the Python library `emoji`. An emoji may have several spellings,
which differ only in U+FE0F. The first of them is listed: the fully qualified one, or a
component.
"""
import re
import sys

seen = set()
for line in open(sys.argv[1], encoding="utf8"):
    m = re.match(r"([0-9A-F ]+?)\s*;\s*[a-z-]+\s*#\s*\S+\s+E[\d.]+\s+(.*)$", line)
    if not m:
        continue
    emoji = "".join(chr(int(x, 16)) for x in m[1].split())
    if (bare := emoji.replace("\ufe0f", "")) in seen:
        continue
    seen.add(bare)
    name = re.sub("^flag: ", "", m[2]).replace("keycap: ", "keycap_")
    print(emoji, re.sub("[:,“”]", "", name).replace(" ", "_"), sep="\t")
