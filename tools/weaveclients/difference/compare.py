"""Compares the two answers to a request and explains how they differ.

A difference of an answer is taken apart until each part can be named on its own:

- another status, or another member of an answer, is looked up in the table of named.py as it is;
- if a query found other records, each condition of its expression and of its filter is asked
  alone, and so is its $not, because SQL has a third truth beside true and false. Which
  records each server found has to follow from these truths, and each that differs for a record
  in question is looked up together with that record's value;
- if a query has another order, the first pair of neighbours that is the other way round is
  looked up with the values that decide between the two.

So a defect cannot hide in a long expression behind a difference that is known.
"""

import collections
import datetime
import json
import types

import sides

MISSING = "<missing>"
TIMES = {"started_at", "ended_at"}
MADE = {"created_at", "deleted_at"}
BINARY = ["$eq", "$gt", "$gte", "$lt", "$lte"]
KEY = {"/feedback/query": ["id"], "/calls/stream_query": ["id"], "/table/query": ["digest", "original_index"], "/objs/query": ["object_id", "digest"]}
ROWS = {"/feedback/query": "result", "/table/query": "rows", "/objs/query": "objs"}


def same(a, b):
    """Equality of JSON, in which 1, 1.0 and true are three things."""
    if type(a) is not type(b):
        return False
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(map(same, a, b))
    return a == b


def parts(a, b, at=()):
    """The places at which two values differ, each as (path, a, b)."""
    if isinstance(a, dict) and isinstance(b, dict):
        for k in sorted(a.keys() | b.keys()):
            yield from parts(a.get(k, MISSING), b.get(k, MISSING), (*at, k))
    elif isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        for i, (x, y) in enumerate(zip(a, b)):
            yield from parts(x, y, (*at, i))
    elif not same(a, b):
        yield at, a, b


def steps(path):
    return [p.replace("\0", ".") for p in path.replace("\\.", "\0").split(".")]


def value_at(record, field):
    """The value of a field in a record as it was written, or MISSING."""
    if field in record:
        return record[field]
    v = record
    for step in steps(field):
        if isinstance(v, dict) and step in v:
            v = v[step]
        elif isinstance(v, list) and step.isdigit() and int(step) < len(v):
            v = v[int(step)]
        else:
            return MISSING
    return v


def operand(node):
    """The field of an operand, and what it is converted to."""
    if "$convert" in node:
        return node["$convert"]["input"]["$getField"], node["$convert"]["to"]
    return node["$getField"], None


def leaves(expr):
    op, args = next(iter(expr.items()))
    if op in ("$and", "$or", "$not"):
        for a in args:
            yield from leaves(a)
    else:
        yield expr


def combined(expr, truths):
    """The truth of an expression in SQL's logic of three values, of the truths of its leaves."""
    op, args = next(iter(expr.items()))
    if op not in ("$and", "$or", "$not"):
        return truths[json.dumps(expr)]
    each = [combined(a, truths) for a in args]
    if op == "$not":
        return None if each[0] is None else not each[0]
    decides = op == "$or"
    return decides if decides in each else None if None in each else not decides


def sliced(keys, body, path):
    limit, offset = body.get("limit"), body.get("offset") or 0
    if path == "/calls/stream_query" and not limit:
        limit = None
    return keys[offset:][: limit if limit is None else max(limit, 0)]


class Comparison:
    def __init__(self, reference, weir, named):
        self.reference, self.weir, self.named = reference, weir, named
        self.requests = self.equal = self.asked = 0
        self.counts = collections.Counter()
        self.unexplained = []
        self.ids = {}
        self.context = types.SimpleNamespace(history=[])

    # Asking

    def normal(self, v, key=None):
        if isinstance(v, dict):
            return {k: self.normal(x, k) for k, x in v.items()}
        if isinstance(v, list):
            return [self.normal(x) for x in v]
        if not isinstance(v, str):
            return v
        if key == "wb_user_id" and v in (sides.USER, "api"):
            return "<user>"
        if key in MADE:
            return "<time>"
        if key in TIMES:
            try:
                return datetime.datetime.fromisoformat(v).astimezone(datetime.timezone.utc).isoformat(timespec="microseconds")
            except ValueError:
                return v
        return self.ids.get(v, v)

    def both(self, path, body):
        self.asked += 1
        return tuple((status, self.normal(answer)) for status, answer in (s.post(path, body) for s in (self.reference, self.weir)))

    def ask(self, path, body):
        """Sends a request to both, notes how the answers differ, and returns them."""
        raw = self.reference.post(path, body), self.weir.post(path, body)
        if path in ("/feedback/create", "/feedback/replace") and raw[0][0] == raw[1][0] == 200 and not body.get("id"):
            new = f"<new {len(self.ids) // 2}>"
            self.ids.update({r[1]["id"]: new for r in raw})
        a, b = [(status, self.normal(answer)) for status, answer in raw]
        self.requests += 1
        if same(a, b):
            self.equal += 1
            return raw
        found = []
        for d in self.differences(path, body, a, b):
            d.path, d.body, d.a, d.b, d.context = path, body, a, b, self.context
            found.append((self.named.name(d), d))
        for name in {n for n, _ in found}:
            self.counts[name] += 1
        if not found:
            found = [(None, types.SimpleNamespace(kind="nothing found to explain"))]
        bad = [d for n, d in found if n is None]
        if bad:
            self.unexplained.append((path, body, a, b, bad))
        return raw

    def difference(self, kind, **more):
        return types.SimpleNamespace(kind=kind, **more)

    # Taking differences apart

    def differences(self, path, body, a, b):
        if a[0] != b[0]:
            return self.status(path, body, a, b)
        if a[0] != 200:
            return [self.difference("sentence")]
        if path in KEY or path == "/calls/query_stats":
            return self.query(path, body, a[1], b[1])
        return [self.difference("member", at=at, x=x, y=y, record=None) for at, x, y in parts(a[1], b[1])]

    def status(self, path, body, a, b):
        whole = self.difference("status", path=path, body=body, a=a, b=b, leaf=None, context=self.context)
        if self.named.name(whole) or "query" not in body:
            return [whole]
        for leaf in leaves(body["query"]["$expr"]):
            alone = {"project_id": body["project_id"], "query": {"$expr": leaf}}
            la, lb = self.both("/feedback/query" if "feedback" in path else "/calls/stream_query", alone)
            d = self.difference("status", path=path, body=alone, a=la, b=lb, leaf=leaf, context=self.context)
            if (la[0], lb[0]) == (a[0], b[0]) and self.named.name(d):
                return [d]
        return [whole]

    def rows(self, path, answer):
        rows = answer if isinstance(answer, list) else answer[ROWS[path]]
        return {tuple(r.get(k) for k in KEY[path]): r for r in rows}

    def query(self, path, body, a, b):
        counted = path == "/calls/query_stats" or body.get("fields") == ["count(*)"]
        if counted:
            return self.count(path, body, a, b)
        ra, rb = self.rows(path, a), self.rows(path, b)
        found = [self.difference("twice", side=s) for s, rows, x in ((0, ra, a), (1, rb, b)) if len(rows) != len(x if isinstance(x, list) else x[ROWS[path]])]
        if list(ra) != list(rb):
            found += self.sets(path, body)
            found += self.order(path, body, list(ra), list(rb))
            found = found or [self.difference("slice", side=None)]
        for key in ra.keys() & rb.keys():
            found += [self.difference("member", at=at, x=x, y=y, record=rb[key]) for at, x, y in parts(ra[key], rb[key])]
        rest = [{k: v for k, v in x.items() if k != ROWS[path]} if isinstance(x, dict) else {} for x in (a, b)]
        return found + [self.difference("member", at=at, x=x, y=y, record=None) for at, x, y in parts(*rest)]

    def count(self, path, body, a, b):
        found = [self.difference("member", at=at, x=x, y=y, record=None) for at, x, y in parts(a, b) if at[-1:] not in [("count",), ("count(*)",), ("has_more",)]]
        if len(found) and len(found) == len(list(parts(a, b))):
            return found
        path = "/calls/stream_query" if path == "/calls/query_stats" else path
        sets = self.sets(path, {k: v for k, v in body.items() if k != "fields"})
        # Each count has to be that of the server's own records.
        for side, answer, rows in zip((0, 1), (a, b), self.whole(path, body)):
            most = body.get("limit") or len(rows)
            counts = [r["count(*)"] for r in answer["result"]] if "result" in answer else [answer["count"]]
            if any(n != (len(rows) if "result" in answer else min(len(rows), most)) for n in counts):
                found.append(self.difference("count", side=side))
        return found + (sets or [self.difference("slice", side=None)])

    def whole(self, path, body):
        rest = {k: v for k, v in body.items() if k not in ("sort_by", "limit", "offset", "fields", "columns")}
        answers = self.both(path, rest)
        return [self.rows(path, answer) if status == 200 else None for status, answer in answers]

    def sets(self, path, body):
        fa, fb = self.whole(path, body)
        if fa is None or fb is None:
            return [self.difference("whole")]
        questioned = fa.keys() ^ fb.keys()
        if not questioned:
            return []
        if path not in ("/feedback/query", "/calls/stream_query"):
            return [self.difference("set", record=(fa | fb)[k], found=k in fa) for k in questioned]
        project = {"project_id": body["project_id"]}
        everything = self.whole(path, project)
        if everything[0].keys() != everything[1].keys():
            return [self.difference("everything", keys=[set(e) for e in everything])]
        conditions = [("filter", {k: v}, {"filter": {k: v}}, None) for k, v in (body.get("filter") or {}).items()]
        expr = body["query"]["$expr"] if "query" in body else None
        for leaf in leaves(expr) if expr else []:
            conditions.append(("leaf", leaf, {"query": {"$expr": leaf}}, {"query": {"$expr": {"$not": [leaf]}}}))
        truths = [collections.defaultdict(dict), collections.defaultdict(dict)]
        for _, condition, yes, no in conditions:
            found = self.whole(path, {**project, **yes})
            other = self.whole(path, {**project, **no}) if no else [everything[s].keys() - found[s].keys() for s in (0, 1)]
            for s in (0, 1):
                for key in everything[s]:
                    truths[s][key][json.dumps(condition)] = True if key in found[s] else False if key in other[s] else None
        found = []
        for key in sorted(questioned):
            for s, full in ((0, fa), (1, fb)):
                t = truths[s][key]
                total = all(t[json.dumps(c)] for kind, c, _, _ in conditions if kind == "filter") and (expr is None or combined(expr, t) is True)
                if total != (key in full):
                    found.append(self.difference("composition", side=s, record=everything[1][key]))
            for kind, condition, _, _ in conditions:
                x, y = (truths[s][key][json.dumps(condition)] for s in (0, 1))
                if x is not y:
                    found.append(self.difference(kind, condition=condition, x=x, y=y, record=everything[1][key], leaf=self.leaf(condition, everything[1][key]) if kind == "leaf" else None))
        return found

    def leaf(self, condition, record):
        """The operator, the operands and the constants of a condition, with the values in a record."""
        op, args = next(iter(condition.items()))
        left, right = (args["input"], args["substr"]) if op == "$contains" else args
        swapped = op in BINARY and "$literal" in left
        if swapped:
            left, right = right, left
        literals = [r["$literal"] for r in (right if op == "$in" else [right]) if "$literal" in r]
        field, to = operand(left)
        other, other_to = operand(right) if op in BINARY and not literals else ("", None)
        value, beside = value_at(record, field), value_at(record, other) if other else None
        return types.SimpleNamespace(
            op=op, field=field, to=to, value=value, literals=literals, swapped=swapped, fold=op == "$contains" and bool(args.get("case_insensitive")),
            fields=bool(other), other_field=other, other_to=other_to, other=beside,
        )

    def keys(self, path, body, everything, p, q):
        """What decides the order of two rows: field, direction and both values, down to what is always different."""
        sorts = [(s["field"], s["direction"]) for s in body.get("sort_by") or []]
        if path == "/calls/stream_query":
            sorts = sorts or [("started_at", "asc")]
            sorts.append(("id", sorts[-1][1] if sorts[-1][0] == "started_at" else "desc"))
        elif path == "/feedback/query":
            made = any(r["id"].startswith("<new") for r in (p, q))  # each server has its own id here
            sorts += [] if made else [("id", "asc")]
            at = [next(n for n, r in enumerate(everything.values()) if r["id"] == x["id"]) for x in (p, q)]
            values = [(f, d, *at) if f == "created_at" else (f, d, value_at(p, f), value_at(q, f)) for f, d in sorts]
            return values + [("id", "asc", 0, 1)] * made
        elif path == "/table/query":
            sorts = [("val." + f, d) for f, d in sorts] + [("original_index", "asc")]
        return [(f, d, value_at(p, f), value_at(q, f)) for f, d in sorts]

    def order(self, path, body, ka, kb):
        ordered = {k: v for k, v in body.items() if k not in ("limit", "offset")}
        answers = self.both(path, ordered)
        if any(status != 200 for status, _ in answers):
            return [self.difference("order", reason="the order alone is refused", keys=[], rows=())]
        oa, ob = [self.rows(path, answer) for _, answer in answers]
        everything = self.whole(path, {k: body[k] for k in ("project_id", "digest") if k in body})[1]
        place = {k: n for n, k in enumerate(oa)}
        common = [k for k in ob if k in place]
        found = []
        for p, q in zip(common, common[1:]):
            if place[p] > place[q]:
                found.append(self.difference("order", keys=self.keys(path, body, everything, everything[p], everything[q]), rows=(everything[p], everything[q]), reason=""))
        for side, keys, full in ((0, ka, list(oa)), (1, kb, list(ob))):
            if keys != sliced(full, body, path):
                found.append(self.difference("slice", side=side))
        return found
