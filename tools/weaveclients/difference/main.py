"""Runs in the environment of the reference. Called by differential.py.

Usage: python main.py URL KEY SEED ROUNDS SHOW
"""

import json
import random
import re
import sys
import time

import compare
import generate
import named
import sides


def by_id(id):
    return {"$expr": {"$eq": [{"$getField": "id"}, {"$literal": id}]}}


def settle(c, g, path, body, raw):
    """After a write that one server took and the other refused, removes from both what it wrote."""
    if path.startswith("/feedback/"):
        ids = [body.get("id"), body.get("feedback_id"), *(r[1].get("id") for r in raw if r[0] == 200)]
        if path == "/feedback/purge":
            ids += re.findall(r"[0-9a-f-]{36}", json.dumps(body["query"]))
        for side in (c.reference, c.weir):
            for id in filter(None, ids):
                side.post("/feedback/purge", {"project_id": g.project, "query": by_id(id)})
    elif path in ("/call/start", "/call/end") and "/order-" not in g.project:
        for side in (c.reference, c.weir):
            side.post("/calls/delete", {"project_id": g.project, "call_ids": [body[path[6:]]["id"]]})


def drive(c, g, requests):
    """Sends what a generator gives, and tells it the reference's answers."""
    answer = None
    try:
        while True:
            path, body = requests.send(answer)
            raw = c.ask(path, body)
            c.context.history.append((path, body))
            if raw[0][0] != raw[1][0]:
                settle(c, g, path, body, raw)
            elif path == "/feedback/replace" and raw[0][0] != 200:
                c.ask("/feedback/query", {"project_id": g.project, "query": by_id(body["feedback_id"])})
                settle(c, g, path, body, raw)
            if path.endswith("create") or path.endswith("replace"):
                time.sleep(0.002)  # Each record gets a millisecond of its own, which is what weir orders by.
            answer = raw[0]
    except StopIteration:
        pass


def world(c, rng, n):
    for part in ("feedback", "calls", "order", "objects", "tables", "files"):
        g = generate.Generator(rng, f"acme/{part}-{n}")
        c.context.history = []
        if part == "feedback":
            drive(c, g, g.feedback_writes())
            drive(c, g, (g.feedback_query() for _ in range(40)))
        elif part == "calls":
            drive(c, g, g.call_writes())
            drive(c, g, (g.call_query() for _ in range(60)))
            drive(c, g, g.call_deletions())
        else:
            drive(c, g, {"order": g.call_order, "objects": g.objects, "tables": g.tables, "files": g.files}[part]())


def show(entry):
    path, body, a, b, bad = entry
    print(f"\nPOST {path}\n  {json.dumps(body, ensure_ascii=False)[:3000]}\n  reference {a[0]} {json.dumps(a[1], ensure_ascii=False)[:700]}\n  weir      {b[0]} {json.dumps(b[1], ensure_ascii=False)[:700]}")
    for d in bad[:3]:
        print("  ", {k: v if k != "record" else "…" for k, v in vars(d).items() if k not in ("path", "body", "a", "b", "context")})


def main():
    url, key, seed, rounds, most = sys.argv[1], sys.argv[2], *map(int, sys.argv[3:6])
    c = compare.Comparison(None, sides.Weir(url, key), named)
    rng = random.Random(seed)
    for n in range(rounds):
        c.reference = sides.Reference()
        world(c, rng, n)
    for entry in c.unexplained[:most]:
        show(entry)
    bad = len(c.unexplained)
    print(f"{c.requests} requests with {c.asked} more to explain differences: {c.equal} equal answers, {c.requests - c.equal - bad} with differences that have a name, {bad} without")
    names = {}
    for name, _, why, _ in named.TABLE:
        names.setdefault(name, why)
    for name, why in sorted(names.items(), key=lambda n: -c.counts[n[0]]):
        print(f"{c.counts[name]:6}  {name}: {why}" if c.counts[name] else f"     0  {name} was not seen in these rounds")
    sys.exit(1 if bad else 0)


main()
