"""Requests that provoke trouble: one project's feedback, calls, objects, tables and files, and queries of them.

Everything is drawn from one random.Random, so a seed gives the same requests again. Values come
from small pools, so that comparisons are true often enough and keys of orders are equal.
"""

import json
import uuid

TEXTS = ["", "a", "A", "ab", "B", "10", "9", "1.5", "-3", "1e2", "0", "true", "null", "ü", "Ü", "straße", "日本", "👍", "a b", "O'Brien", '"q"', "%", "a_b", "\\", "x\ny"]
NUMBERS = [0, 1, 2, 9, 10, -3, 2**53, 2**53 + 1, 2**63, -(2**63), 12345678901234567890, 12345678901234567891, 0.5, 1.5, -2.25, 1.0, 10.0, 1e300, 5e-324]
KEYS = ["s", "n", "m", "b", "z", "o", "l", "k.d", "ü", "7"]
PATHS = ["s", "n", "m", "b", "z", "o", "l", "k\\.d", "ü", "7", "o.a", "o.k\\.x", "l.0", "l.1", "l.0.a", "nope", "o.nope"]
OPERATORS = ["$eq", "$gt", "$gte", "$in", "$contains", "$lt", "$lte"]
DIRECTIONS = ["asc", "desc"]


class Generator:
    def __init__(self, random, project):
        self.random = random
        self.project = project
        self.feedback_ids = []
        self.call_ids = []
        self.refs = [f"weave:///{project}/object/thing:{v}" for v in ("v0hash", "v1hash")] + [f"weave:///{project}/object/other:v0hash"]
        self.traces = [f"trace-{n}" for n in range(3)]
        self.ops = [f"weave:///{project}/op/{name}:{v}" for name in ("run", "run_2", "Run") for v in ("d1", "d2")] + ["plain", "plain:*x", "o'op"]
        self.seconds = 0

    # Values

    def one(self, pool):
        return self.random.choice(pool)

    def chance(self, p):
        return self.random.random() < p

    def scalar(self):
        return self.one([self.one(TEXTS), self.one(NUMBERS), self.one(TEXTS), self.one(NUMBERS), True, False, None])

    def value(self, depth=2):
        if depth and self.chance(0.25):
            return [self.value(depth - 1) for _ in range(self.random.randrange(3))]
        if depth and self.chance(0.2):
            return {self.one(["a", "k.x", "b"]): self.value(depth - 1) for _ in range(2)}
        return self.scalar()

    def document(self):
        d = {"s": self.one(TEXTS), "n": self.one(NUMBERS), "m": self.value(), "b": self.chance(0.5), "z": None, "k.d": self.scalar(), "ü": self.scalar(), "7": self.scalar()}
        d["o"] = {"a": self.scalar(), "k.x": self.scalar()}
        d["l"] = [self.scalar(), {"a": self.scalar()}] if self.chance(0.3) else [{"a": self.scalar()}, self.scalar()]
        for key in KEYS:
            if self.chance(0.2):
                d.pop(key, None)
        return d

    def uuid(self):
        return str(uuid.UUID(int=self.random.getrandbits(128), version=4))

    def time(self):
        self.seconds += self.one([0, 1, 1, 2, 61])
        fraction = self.one(["", ".5", ".123456", ".000001"])
        return f"2026-03-01T10:{self.seconds // 60:02}:{self.seconds % 60:02}{fraction}" + self.one(["Z", "Z", "+00:00", "+02:00"])

    # Expressions

    def literal(self):
        v = self.scalar()
        return {"$literal": self.one(TEXTS) if v is None and self.chance(0.7) else v}

    def field(self, fields):
        return {"$getField": self.one(fields)}

    def operand(self, fields):
        f = self.field(fields)
        if self.chance(0.15):
            return {"$convert": {"input": f, "to": self.one(["int", "double", "string", "bool"])}}
        return f

    def leaf(self, fields):
        op = self.one(OPERATORS)
        if op == "$contains":
            spec = {"input": self.operand(fields + ["creator"] * 4 if "creator" in fields else fields), "substr": {"$literal": self.one(["", "a", "A", "1", "Ü", "Ü", "ß", "B", '"', "b", "日"])}}
            if self.chance(0.5):
                spec["case_insensitive"] = self.chance(0.8)
            return {op: spec}
        if op == "$in":
            return {op: [self.operand(fields), [self.literal() for _ in range(self.random.randrange(4))]]}
        pair = [self.operand(fields), self.literal() if self.chance(0.9) else self.field(fields)]
        return {op: pair[::-1] if self.chance(0.15) else pair}

    def expression(self, fields, depth=2):
        if depth == 0 or self.chance(0.55):
            return self.leaf(fields)
        op = self.one(["$and", "$or", "$not"])
        if op == "$not":
            return {op: [self.expression(fields, depth - 1)]}
        return {op: [self.expression(fields, depth - 1) for _ in range(self.random.randrange(1, 4) if self.chance(0.97) else 0)]}

    def page(self, body, sorts):
        if self.chance(0.4):
            body["sort_by"] = [{"field": f, "direction": self.one(DIRECTIONS)} for f in self.random.sample(sorts, self.random.randrange(1, 3))]
        if self.chance(0.3):
            body["limit"] = self.one([0, 1, 3, 5, 1000])
        if self.chance(0.2):
            body["offset"] = self.one([0, 1, 4, 1000])
            if self.chance(0.8):
                body.setdefault("limit", self.one([2, 6, 1000]))
        return body

    # Feedback

    def feedback_body(self, id):
        kind = self.one(["custom", "custom", "custom", "wandb.note.1", "wandb.reaction.1", "wandb.runnable.score", "wandb.annotation.x", "wandb.other"])
        body = {"project_id": self.project, "weave_ref": f"weave:///{self.project}/call/{self.one(self.call_ids or ['c'])}", "feedback_type": kind, "payload": self.document()}
        if id:
            body["id"] = id
        if kind == "wandb.note.1":
            body["payload"] = {"note": self.one(["", "fine", "ü" * 1024, "n" * 1025])}
        if kind == "wandb.reaction.1":
            body["payload"] = {"emoji": self.one(["👍", "👍🏽", "❤", "🇺🇸", "👩🏽‍💻", "", "ab", "👍👍"])}
        if kind == "wandb.runnable.score":
            body["payload"] = {"output": self.document()} if self.chance(0.8) else self.document()
            body["runnable_ref"] = f"weave:///{self.project}/{self.one(['object', 'op'])}/{self.one(['score', 'score', 'score', 'else'])}:abc"
            if self.chance(0.7):
                body["call_ref"] = f"weave:///{self.project}/call/c1"
            if self.chance(0.3):
                body["scorer_tags"] = ["good", "a"][: self.random.randrange(3)]
                body["scorer_ratings"] = {"r": self.one([0.5, 1.0])}
        if kind == "wandb.annotation.x" and self.chance(0.7):
            body["annotation_ref"] = f"weave:///{self.project}/object/{self.one(['x', 'x', 'y'])}:abc"
            body["payload"] = {"value": self.scalar()} if self.chance(0.8) else {}
        if self.chance(0.4):
            body["creator"] = self.one(["ann", "Bob", "ü"])
        if self.chance(0.03):
            del body[self.one(["feedback_type", "payload", "weave_ref"])]
        if self.chance(0.03):
            body["surplus"] = 1
        return body

    def feedback_writes(self):
        for _ in range(14):
            id = None if self.chance(0.1) else self.uuid()
            yield "/feedback/create", self.feedback_body(id)
            self.feedback_ids.append(id or "<new>")
        known = [i for i in self.feedback_ids if i != "<new>"]
        for _ in range(4):
            old = self.one(known) if self.chance(0.8) else self.uuid()
            new = self.one([None, old, self.uuid()])
            yield "/feedback/replace", {**self.feedback_body(new), "feedback_id": old}
            known += [new] if new and new not in known else []
        yield "/feedback/create", self.feedback_body(self.one(known))
        by = [{"$eq": [{"$getField": "id"}, {"$literal": self.one(known)}]} for _ in range(2)]
        for expr in [by[0], {"$or": by}, {"$in": [{"$getField": "id"}, [{"$literal": self.one(known)}]]}, {"$eq": [{"$getField": "feedback_type"}, {"$literal": "custom"}]}, {"$and": by[:1]}]:
            if self.chance(0.4):
                yield "/feedback/purge", {"project_id": self.project, "query": {"$expr": expr}}

    def feedback_query(self):
        paths = ["payload." + p for p in PATHS]
        columns = ["feedback_type", "creator", "weave_ref", "runnable_ref", "id"]
        body = {"project_id": self.project}
        if self.chance(0.8):
            body["query"] = {"$expr": self.expression(paths * 2 + ["feedback_type", "creator", "scorer_tags", "scorer_ratings.r"] + (["unknown"] if self.chance(0.05) else []))}
        if self.chance(0.5):
            body["fields"] = ["count(*)"] if self.chance(0.2) else ["id"] + self.random.sample(columns[:4] + paths + ["payload", "scorer_tags"], self.random.randrange(4))
        return "/feedback/query", self.page(body, columns[:2] + ["created_at"] + (["payload.n", "payload.m", "payload.s"] if self.chance(0.3) else []))

    # Calls

    def call_writes(self):
        refused = self.refused = []
        parents = {t: [None] for t in self.traces}
        for n in range(12):
            id, trace = f"call-{n}-{self.random.randrange(1000)}", self.one(self.traces)
            parent = self.one(parents[trace])
            parents[trace].append(id)
            self.call_ids.append(id)
            inputs = self.document()
            if self.chance(0.4):
                inputs["ref"] = self.one(self.refs) if self.chance(0.6) else [{"deep": self.one(self.refs)}]
            start = {"project_id": self.project, "id": id, "trace_id": trace, "op_name": self.one(self.ops), "started_at": self.time(), "attributes": self.document(), "inputs": inputs}
            if parent:
                start["parent_id"] = parent
            for key, pool in [("thread_id", ["th1", "th2"]), ("turn_id", ["tu1"]), ("wb_run_id", ["run1", "run2"]), ("wb_run_step", [0, 1, 5]), ("display_name", ["", "shown", "ü"])]:
                if self.chance(0.3):
                    start[key] = self.one(pool)
            if self.chance(0.06):
                del start[self.one(["op_name", "started_at", "inputs", "attributes"])]
                refused.append(id)
            yield "/call/start", {"start": start}
            if self.chance(0.8):
                output = self.one([self.value(), self.document(), self.document(), None])
                if self.chance(0.3):
                    output = self.one([self.one(self.refs), {"r": self.one(self.refs)}, [self.one(self.refs)]])
                summary = {"usage": {"m": {"total_tokens": self.one([1, 2, 10])}}, "n": self.one(NUMBERS)}
                if self.chance(0.3):
                    summary["status_counts"] = {"error": self.one([0, 1]), "success": 1}
                end = {"project_id": self.project, "id": id, "ended_at": self.time(), "summary": summary, "output": output}
                if self.chance(0.25):
                    end["exception"] = self.one(["", "boom", "ü"])
                if self.chance(0.03):
                    del end[self.one(["summary", "ended_at"])]
                yield "/call/end", {"end": end}
        for _ in range(3):
            yield "/call/update", {"project_id": self.project, "call_id": self.one(self.call_ids), **({"display_name": self.one(["", "new", "日本"])} if self.chance(0.9) else {})}
        for id in self.random.sample(self.call_ids, 3) + ["nobody"]:
            yield "/call/read", {"project_id": self.project, "id": id, **({"include_storage_size": True} if self.chance(0.2) else {})}

    def call_filter(self):
        f = {}
        wild = [r.rsplit(":", 1)[0] + ":*" for r in self.refs]
        pools = {
            "op_names": self.ops + [f"weave:///{self.project}/op/run:*", f"weave:///{self.project}/op/Run:*", f"weave:///{self.project}/op/r:*", "plain:*"],
            "trace_ids": self.traces + ["none"], "parent_ids": self.call_ids, "call_ids": self.call_ids + ["none"], "thread_ids": ["th1", "th2", ""],
            "wb_run_ids": ["run1", "run3"], "input_refs": self.refs + wild, "output_refs": self.refs + wild,
        }
        for key in self.random.sample(sorted(pools), self.one([1, 1, 2])):
            f[key] = [self.one(pools[key]) for _ in range(self.random.randrange(1, 3) if self.chance(0.9) else 0)]
        if self.chance(0.2):
            f["trace_roots_only"] = self.chance(0.8)
        return f

    def call_query(self):
        paths = [f"{c}.{p}" for c in ("inputs", "output", "attributes") for p in PATHS] + ["summary.n", "summary.usage.m.total_tokens", "output", "inputs"]
        columns = ["op_name", "trace_id", "parent_id", "display_name", "exception", "wb_run_step", "thread_id", "summary.weave.status"]
        body = {"project_id": self.project}
        if self.chance(0.4):
            body["filter"] = self.call_filter()
        if self.chance(0.6):
            body["query"] = {"$expr": self.expression(paths + columns * 3 + (["unknown"] if self.chance(0.05) else []))}
        if self.chance(0.2):
            body = {k: v for k, v in body.items() if k != "filter" or v}
            if self.chance(0.6):
                body["limit"] = self.one([1, 3, 1000, 0, -1])
            return "/calls/query_stats", body
        if self.chance(0.2):
            body["columns"] = self.random.sample(["id", "inputs", "output.o", "summary", "display_name", "inputs.s", "attributes", "wb_user_id", "ended_at"], self.random.randrange(4))
        sorts = ["started_at", "ended_at", "op_name", "trace_id", "id", "inputs.n", "inputs.m", "inputs.s", "output.m", "attributes.n", "summary.n", "summary.weave.status", "summary.weave.latency_ms", "display_name", "wb_run_step"]
        return "/calls/stream_query", self.page(body, sorts)

    def call_deletions(self):
        ids = self.random.sample(self.call_ids, 2) + self.refused[:1] + (["nobody"] if self.chance(0.3) else [])
        yield "/calls/delete", {"project_id": self.project, "call_ids": ids if self.chance(0.9) else []}
        yield "/calls/stream_query", {"project_id": self.project}
        yield "/call/read", {"project_id": self.project, "id": ids[0]}

    def call_order(self):
        """Parts of calls in any order and more than once, in a project of their own, each followed by a reading."""
        ids = [self.uuid(), self.uuid()]
        for _ in range(self.random.randrange(3, 7)):
            id = self.one(ids)
            project = self.project + ("-else" if self.chance(0.1) else "")
            start = {"start": {"project_id": project, "id": id, "trace_id": "t", "op_name": self.one(["a", "b"]), "started_at": self.time(), "attributes": {}, "inputs": {"n": self.random.randrange(9)}}}
            end = {"end": {"project_id": project, "id": id, "ended_at": self.time(), "summary": {}, "output": self.random.randrange(9)}}
            update = {"project_id": project, "call_id": id, "display_name": self.one(["x", ""])}
            delete = {"project_id": project, "call_ids": [id]}
            yield self.one([("/call/start", start)] * 3 + [("/call/end", end)] * 3 + [("/call/update", update), ("/calls/delete", delete)])
            yield "/call/read", {"project_id": self.project, "id": id}

    # Objects, tables, files

    def object_value(self):
        v = self.one([self.document(), self.document(), self.value(), {"_type": "Op", "weave_type": {"type": "Op"}, "n": self.one(NUMBERS)}, {"_type": "CustomWeaveType", "weave_type": {"type": "Op"}, "n": 1}])
        if isinstance(v, dict) and self.chance(0.4):
            v = {**v, "_class_name": self.one(["Model", "Mine"]), "_bases": self.one([["Object", "BaseModel"], ["Model", "Object", "BaseModel"], ["BaseModel"]])}
        return v

    def objects(self):
        digests, names = {}, ["thing", "other", "op"]
        values = [self.object_value() for _ in range(4)]
        for _ in range(12):
            name = self.one(names) if self.chance(0.95) else self.one(["bad/name", "", "x" * 129, "ünde"])
            answer = yield "/obj/create", {"obj": {"project_id": self.project, "object_id": name, "val": self.one(values)}}
            if answer[0] == 200:
                digests.setdefault(name, []).append(answer[1]["digest"])
        for phase in range(2):
            for _ in range(4):
                name = self.one(names)
                yield "/obj/read", {"project_id": self.project, "object_id": name, "digest": self.one(digests.get(name, ["none"]) + ["latest", "v0", "v1", "v9", "nope"]), **({"metadata_only": True} if self.chance(0.2) else {})}
                f = {}
                for key, pool in [("object_ids", names), ("is_op", None), ("latest_only", None), ("base_object_classes", ["Model", "Object", "Mine"]), ("leaf_object_classes", ["Model", "Mine"]), ("exclude_base_object_classes", ["Model"])]:
                    if self.chance(0.25):
                        f[key] = self.chance(0.5) if pool is None else [self.one(pool) for _ in range(self.random.randrange(3))]
                yield "/objs/query", self.page({"project_id": self.project, "filter": f}, ["object_id", "created_at"])
                refs = [f"weave:///{self.project}/object/{n}:{d}{e}" for n, ds in digests.items() if n in names for d in ds for e in ("", "/key/s", "/key/l/index/0", "/key/o/key/a", "/key/nope", "/key/l/index/9")]
                yield "/refs/read_batch", {"refs": [self.one(refs) for _ in range(self.one([1, 1, 2]))] if refs else []}
            if phase == 0:
                name = self.one(names)
                chosen = [self.one([digests[name][-1], self.one(digests[name])])] if name in digests else ["nope"]
                yield "/obj/delete", {"project_id": self.project, "object_id": name, **({"digests": chosen} if self.chance(0.7) else {})}

    def row(self):
        return {k: v for k, v in self.document().items() if k in ("s", "n", "m", "o", "k.d")}

    def tables(self):
        pool = [self.row() for _ in range(4)] + [{}]
        rows = [self.one(pool) for _ in range(self.one([0, 1, 5, 7]))]
        _, answer = yield "/table/create", {"table": {"project_id": self.project, "rows": rows}}
        digests = [answer["digest"]]
        yield "/table/create", {"table": {"project_id": self.project, "rows": [1]}}
        for _ in range(4):
            updates = []
            for _ in range(self.random.randrange(4)):
                index = self.random.randrange(8) - (self.chance(0.1) * 9)
                updates.append(self.one([{"append": {"row": self.one(pool + [self.row()])}}, {"pop": {"index": index}}, {"insert": {"index": index, "row": self.one(pool)}}]))
            status, answer = yield "/table/update", {"project_id": self.project, "base_digest": self.one(digests) if self.chance(0.9) else "nope", "updates": updates}
            if status == 200:
                digests.append(answer["digest"])
        _, answer = yield "/table/query", {"project_id": self.project, "digest": digests[-1]}
        known = [r["digest"] for r in answer["rows"]] + ["nope"]
        for _ in range(6):
            body = {"project_id": self.project, "digest": self.one(digests + ["nope"] * (self.chance(0.2)))}
            if self.chance(0.3):
                body["filter"] = {"row_digests": [self.one(known) for _ in range(self.random.randrange(3))]}
            yield "/table/query", self.page(body, ["s", "n", "m", "o", "o.a", "nope"])
            yield "/table/query_stats", {"project_id": self.project, "digest": body["digest"]}

    def files(self):
        for content in [self.one(["", "abc", "\x00\xff\r\n--x", "ü" * 50]) for _ in range(2)]:
            _, answer = yield "/file/create", {"project_id": self.project, "content": content}
            yield "/file/content", {"project_id": self.project, "digest": self.one([answer["digest"]] * 3 + ["nope"])}


