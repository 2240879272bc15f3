#!/usr/bin/env python3
"""Writes feedback/emoji.txt: every emoji up to Emoji 17.0 with its alias.

    pip install emoji==2.16.0
    python3 tools/emojitable.py > feedback/emoji.txt

The aliases are those of the Python library `emoji`, which Weave's servers take them from. An
emoji may have several spellings, which differ only in U+FE0F. The fully qualified one is
listed, or a component.
"""
import emoji

NEWEST = 17
LISTED = (emoji.STATUS["fully_qualified"], emoji.STATUS["component"])

seen = {}
for text, data in emoji.EMOJI_DATA.items():
    if data["status"] in LISTED and data["E"] <= NEWEST:
        seen.setdefault(text.replace("\ufe0f", ""), (text, data["en"].strip(":")))
for bare in sorted(seen):
    print(*seen[bare], sep="\t")
