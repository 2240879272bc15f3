"""weir's documented rules (docs/interface/feedback.md, section 8.3; weave.md, section 2.9), once more and simply.

A named difference about a condition or an order counts only where weir's answer is what these
functions say. So they guard against defects of weir that look like something known.
"""

import json
import re

MISSING = "<missing>"


def kind(v):
    if v is None or isinstance(v, str) and v == MISSING:
        return "nothing"
    if isinstance(v, bool):
        return "boolean"
    if isinstance(v, (int, float)):
        return "number"
    return "text" if isinstance(v, str) else "composite"


def number(text):
    text = text.strip()
    if not text or re.search(r"[^0-9+\-.eE]", text):
        return None
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            pass
    return None


def scalar(v):
    """The text of a scalar."""
    return json.dumps(v) if kind(v) in ("boolean", "number") else v


def convert(v, to):
    k = kind(v)
    if to is None:
        return v
    if k in ("nothing", "composite"):
        return MISSING
    if to == "string":
        return scalar(v)
    if to == "bool":
        if k == "text":
            return {"true": True, "false": False}.get(v, MISSING)
        return bool(v)
    n = number(v) if k == "text" else int(v) if k == "boolean" else v
    if n is None:
        return MISSING
    # The text of a converted 10.0 is 10.
    return int(n) if to == "int" or isinstance(n, float) and n.is_integer() and abs(n) < 2**53 else n


def read_as(v, constant):
    """A value as the type of the constant that it is compared with (rule 1)."""
    if kind(constant) == "number" and kind(v) == "text":
        n = number(v)
        return v if n is None else n
    if kind(constant) == "text" and kind(v) in ("number", "boolean"):
        return scalar(v)
    if kind(constant) == "boolean":
        if kind(v) == "text":
            return {"true": True, "false": False}.get(v, v)
        if kind(v) == "number" and v in (0, 1):
            return bool(v)
    return v


def compared(a, b):
    """Below, equal or above 0; None if the two cannot be compared (rules 2, 3 and 6)."""
    if kind(a) != kind(b) or kind(a) in ("nothing", "composite"):
        return None
    if kind(a) == "number" and (isinstance(a, float) or isinstance(b, float)):
        a, b = float(a), float(b)
    return (a > b) - (a < b)


def equals(v, constant):
    if constant is None:
        return kind(v) == "nothing"
    return compared(read_as(v, constant), constant) == 0


def contains(v, part, fold, listed):
    if listed and isinstance(v, list):
        return any((x.casefold() == part.casefold()) if fold else x == part for x in v)
    if kind(v) == "nothing":
        return False
    text = json.dumps(v, ensure_ascii=False, separators=(",", ":")) if kind(v) == "composite" else scalar(v)
    return part.lower() in text.lower() if fold else part in text


def truth(leaf):
    """Whether a condition is true of a record."""
    v = convert(leaf.value, leaf.to)
    if leaf.op == "$contains":
        return contains(v, leaf.literals[0], leaf.fold, leaf.field == "scorer_tags" and leaf.to is None)
    if leaf.op == "$in":
        return any(equals(v, c) for c in leaf.literals)
    if leaf.fields:
        c = compared(v, convert(leaf.other, leaf.other_to))
        if leaf.op == "$eq":
            return c == 0
    else:
        constant = leaf.literals[0]
        if leaf.op == "$eq":
            return equals(v, constant)
        c = compared(read_as(v, constant), constant)
    if c is None:
        return False
    if leaf.swapped:
        c = -c
    return {"$gt": c > 0, "$gte": c >= 0, "$lt": c < 0, "$lte": c <= 0}[leaf.op]


RANKS = {"number": 0, "text": 1, "boolean": 2, "composite": 3}


def ordered(a, b, descending, rows=False):
    """Below, equal or above 0 as a comes before, beside or after b. rows: as rows of tables are ordered."""
    if rows:
        a, b = (int(v) if kind(v) == "boolean" else v for v in (a, b))
        rank = {"nothing": 0, "number": 1, "text": 2, "composite": 3}
        c = rank[kind(a)] - rank[kind(b)] or compared(a, b) or 0
        return -c if descending else c
    # Null has the rank of objects and arrays, what is not there comes after it.
    ra, rb = (4 if v == MISSING and isinstance(v, str) else 3 if v is None else RANKS[kind(v)] for v in (a, b))
    c = compared(a, b) or 0
    return ra - rb or (-c if descending else c)
