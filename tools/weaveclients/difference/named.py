"""The named differences between weir and Weave's SqliteTraceServer, each with the reason why weir's answer is meant.

An entry has a name, the kind of difference that it is about (compare.py says which there are),
a sentence, and a function that recognises it. The functions are as narrow as they can be: what
they do not recognise fails the run. Those about conditions and orders also demand that
weir's answer is what documented.py says. Rules that begin with F are in
docs/interface/feedback.md, those with W in docs/interface/weave.md; numbers alone are the rules
of section 8.3 of the first.
"""

import json

import documented
from documented import MISSING, kind

TABLE = []


def named(name, difference, why):
    def add(matches):
        TABLE.append((name, difference, why, matches))
        return matches
    return add


def name(d):
    for n, difference, _, matches in TABLE:
        if d.kind == difference and matches(d):
            return n
    return None


def reason(answer):
    return str((answer[1] or {}).get("reason") or (answer[1] or {}).get("detail")) if isinstance(answer[1], dict) else ""


# Errors

@named("sentences of errors", "sentence", "Both refuse a request with the same status; the sentence is for people, and each server has its own.")
def _(d):
    return d.a[0] in (400, 403, 404, 422)


@named("offset without limit", "status", "SQL wants a LIMIT before an OFFSET, so the reference fails on feedback with an offset alone; weir skips as many records.")
def _(d):
    return d.path == "/feedback/query" and "offset" in d.body and "limit" not in d.body and d.a[0] == 500 and 'near "OFFSET"' in reason(d.a) and d.b[0] in (200, 400)


@named("integers beyond 64 bits", "status", "SQLite takes no larger constants and the reference fails; weir compares integers of any size.")
def _(d):
    return d.a[0] == 500 and "OverflowError" in reason(d.a) and d.b[0] == 200


@named("names of objects", "status", "A name that is no name of an object is 403 in Weave. weir says 400 or 422, because no right is missing.")
def _(d):
    return d.path == "/obj/create" and d.a[0] == 403 and d.b[0] in (400, 422) and "InvalidFieldError" in reason(d.a)


@named("members of later versions", "status", "The reference refuses members of feedback that it does not know. weir keeps them, because clients of later versions send more (F-17).")
def _(d):
    return d.path in ("/feedback/create", "/feedback/replace") and "surplus" in d.body and d.a[0] == 422 and "Extra inputs" in reason(d.a) and d.b[0] in (200, 400, 409)


@named("one id twice", "status", "Weave stores a second record of feedback with the id of another one; weir keeps ids unique and answers 409 (F-25).")
def _(d):
    return d.path in ("/feedback/create", "/feedback/replace") and d.a[0] == 200 and d.b[0] == 409 and "id" in d.body


@named("purge by $in", "status", "weir also purges by an $in of ids, which names them as surely as an $or does.")
def _(d):
    return d.path == "/feedback/purge" and (d.a[0], d.b[0]) == (400, 200) and list(d.body["query"]["$expr"]) == ["$in"]


@named("references without an object", "status", "Weave looks up the annotation spec that a record names and answers 404 if there is none. weir stores records before what they refer to (F-34).")
def _(d):
    return d.path in ("/feedback/create", "/feedback/replace") and d.a[0] == 404 and "annotation_ref" in d.body and d.b[0] in (200, 409)


@named("edges that lead nowhere", "status", "The reference fails with 500 if a reference leads to a member that is not there; weir answers 404 (W-220).")
def _(d):
    return d.path == "/refs/read_batch" and d.a[0] == 500 and reason(d.a).split(":")[0] in ("KeyError", "IndexError", "TypeError", "ValueError") and d.b[0] == 404


@named("tables that are not there", "status", "The reference fails with 500 if it changes or counts a table that is not there; weir answers 404, or 400 for an index that no table has.")
def _(d):
    known = reason(d.a).startswith(("IndexError: list index out of range", "RuntimeError: ('Unexpected number of results'"))
    negative = any(u.get(k, {}).get("index", 0) < 0 for u in d.body.get("updates", []) for k in ("pop", "insert"))
    return d.path in ("/table/update", "/table/query_stats") and d.a[0] == 500 and known and (d.b[0] == 404 and d.body.get("base_digest", d.body.get("digest")) == "nope" or d.b[0] == 400 and negative)


@named("unknown fields", "status", "The reference fails with 500 if a query names a field that calls do not have, unless SQLite does not come to it; weir answers 400, as the reference does for feedback.")
def _(d):
    query = json.dumps(d.body.get("query"))
    failed = d.a[0] == 500 and "OperationalError" in reason(d.a) or d.a[0] == 200 and (d.a[1] == [] or '"unknown"}, []]' in query or '"unknown"}, "to"' in query and "}, []]" in query)
    return d.path.startswith("/calls/") and failed and d.b == (400, {"reason": "Unknown field: unknown"})


@named("quotes in filters", "status", "The reference writes the values of a filter into its statement, so one with an apostrophe ends it. weir looks them up.")
def _(d):
    return d.path.startswith("/calls/") and d.a[0] == 500 and "syntax error" in reason(d.a) and any("'" in v for vs in (d.body.get("filter") or {}).values() if isinstance(vs, list) for v in vs) and d.b[0] == 200


# Members of answers

@named("total_count", "member", "weir adds to an answer of feedback how many records match.")
def _(d):
    if d.path != "/feedback/query" or d.at != ("total_count",) or d.x != MISSING:
        return False
    rows = d.b[1]["result"]
    if d.body.get("fields") == ["count(*)"]:
        return rows == [{"count(*)": d.y}]
    return len(rows) <= d.y if "limit" in d.body or "offset" in d.body else len(rows) == d.y


@named("columns of later versions", "member", "Records of feedback have the columns that Weave's clients from 0.53 on know; the reference is older.")
def _(d):
    return d.path == "/feedback/query" and d.x == MISSING and d.y == "" and d.at[-1] in ("span_agent_name", "span_agent_version", "span_conversation_id", "span_trace_id", "span_status_code", "scorer_trace_id")


@named("types of payload values", "member", "SQLite gives booleans at a path as 0 and 1, objects and arrays as text, and integers beyond 64 bits as floats; weir gives what was sent.")
def _(d):
    if d.path != "/feedback/query" or len(d.at) != 1 or not d.at[0].startswith("payload."):
        return False
    if kind(d.y) == "boolean":
        return d.x == int(d.y) and kind(d.x) == "number"
    if kind(d.y) == "composite":
        return kind(d.x) == "text"
    return isinstance(d.y, int) and abs(d.y) >= 2**63 - 1 and d.x == float(d.y)


def spelled(path):
    return any(p.lstrip("-").isdigit() or not p.isascii() for p in path.split("."))


@named("names of members", "member", "SQLite takes a number in a path for an index alone, and does not find names with letters beyond ASCII, which Weave stores escaped. weir finds members by these names.")
def _(d):
    return d.path == "/feedback/query" and len(d.at) == 1 and d.at[0].startswith("payload.") and spelled(d.at[0]) and d.x is None and d.y is not None


@named("count without a row", "member", "SQL counts and then takes a page of the one row that it has. weir's count has no pages.")
def _(d):
    return d.path == "/feedback/query" and d.body.get("fields") == ["count(*)"] and d.at == ("result",) and d.x == [] and len(d.y) == 1 and (d.body.get("limit") == 0 or d.body.get("offset", 0) > 0)


@named("columns that were not asked for", "member", "weir leaves out what a query of calls does not ask for; the reference answers all columns, with null or a status that it guesses in these.")
def _(d):
    asked = [c.split(".")[0] for c in d.body.get("columns") or []]
    return d.path == "/calls/stream_query" and bool(asked) and len(d.at) == 1 and d.y == MISSING and d.at[0] not in asked


@named("members without a value", "member", "What nobody asked for, sizes, tags and aliases, is left out by weir and null in the reference.")
def _(d):
    return d.path in ("/calls/stream_query", "/call/read", "/obj/read", "/objs/query") and d.x is None and d.y == MISSING and d.at[-1] in ("storage_size_bytes", "total_storage_size_bytes", "tags", "aliases")


@named("sizes of objects", "member", "weir answers how many bytes the value of an object has, as Weave's large server does; the reference does not know.")
def _(d):
    return d.path in ("/obj/read", "/objs/query") and d.at[-1] == "size_bytes" and d.x is None and isinstance(d.y, int)


@named("sizes of calls", "member", "weir counts the bytes that it keeps; Weave's JSON has white space and escapes.")
def _(d):
    return d.path == "/call/read" and d.at[-1] == "storage_size_bytes" and "include_storage_size" in d.body and isinstance(d.x, int) and isinstance(d.y, int) and d.y <= d.x


@named("size that was not asked for", "member", "Without include_total_storage_size the size of the calls is null in weir, as nobody knows it; the reference says 0.")
def _(d):
    return d.path == "/calls/query_stats" and d.at == ("total_storage_size_bytes",) and "include_total_storage_size" not in d.body and d.x == 0 and d.y is None


@named("number of deleted calls", "member", "weir counts the calls that were there and are gone; the reference counts each id of the request, and those below once more.")
def _(d):
    return d.path == "/calls/delete" and d.at == ("num_deleted",) and d.y < d.x


def republished(d):
    """Whether a version was published twice and a version of an object deleted."""
    created = [(b["obj"]["object_id"], repr(b["obj"]["val"])) for p, b in d.context.history if p == "/obj/create"]
    return any(p == "/obj/delete" for p, _ in d.context.history) and any(created.count(c) > 1 for c in created)


@named("latest after a deletion", "member", "If the latest version is deleted, the version that was published last before it becomes the latest in weir, also if it was published again (W-205); the reference looks at when versions were made.")
def _(d):
    asked = d.path in ("/objs/query", "/obj/read") and d.at[-1] == "is_latest" or d.path == "/obj/read" and d.body["digest"] == "latest"
    return asked and republished(d)


@named("latest after a deletion", "set", "If the latest version is deleted, the version that was published last before it becomes the latest in weir, also if it was published again (W-205); the reference looks at when versions were made.")
def _(d):
    return d.path == "/objs/query" and bool(d.body["filter"].get("latest_only")) and republished(d)


BELOW = "weir deletes what lies below the calls that a request names, also if such a call itself is not there (W-130); the reference then leaves what lies below it."


def below_nothing(d, deletions):
    """The calls below those that deletions name and whose starts were refused."""
    starts = [b["start"] for p, b in d.context.history if p == "/call/start"]
    whole = {s["id"] for s in starts if {"op_name", "started_at", "inputs", "attributes"} <= s.keys()}
    found = {i for b in deletions for i in b["call_ids"]} - whole - {"nobody"}
    for _ in starts:
        found |= {s["id"] for s in starts if s.get("parent_id") in found}
    return found & whole


@named("below calls that are not there", "member", BELOW)
def _(d):
    return d.path == "/calls/delete" and d.at == ("num_deleted",) and d.y > d.x and bool(below_nothing(d, [d.body]))


@named("below calls that are not there", "everything", BELOW)
def _(d):
    deletions = [b for p, b in d.context.history if p == "/calls/delete"]
    return d.path == "/calls/stream_query" and d.keys[1] < d.keys[0] and {k for k, in d.keys[0] - d.keys[1]} <= below_nothing(d, deletions)


@named("replacements that fail", "everything", "The reference removes the old record before it looks whether the emoji of the new one is one, and then has neither. weir replaces in one step (F-26, F-27).")
def _(d):
    path, body = d.context.history[-1] if d.context.history else ("", {})
    return path == "/feedback/replace" and body.get("feedback_type") == "wandb.reaction.1" and d.keys[0] <= d.keys[1] and d.keys[1] - d.keys[0] == {(body["feedback_id"],)}


# Conditions

def condition(name, why):
    """An entry about the truth of a condition for a record, where weir is as documented."""
    def add(matches):
        named(name, "leaf", why)(lambda d: d.y is documented.truth(d.leaf) and matches(d, d.leaf))
        return matches
    return add


def simple(leaf):
    """The kinds of the value and of the constants, or of the other field."""
    v = kind(documented.convert(leaf.value, leaf.to))
    return v, {kind(c) for c in ([documented.convert(leaf.other, leaf.other_to)] if leaf.fields else leaf.literals)}


@condition("null and what is not there", "In weir $eq and $in with the constant null are true of null and of what is not there; SQL's answer is neither true nor false.")
def _(d, leaf):
    return d.x is None and d.y is True and leaf.op in ("$eq", "$in") and None in leaf.literals and simple(leaf)[0] == "nothing"


@condition("names of members in conditions", "SQLite takes a number in a path for an index alone, and does not find names with letters beyond ASCII, which Weave stores escaped. weir finds members by these names.")
def _(d, leaf):
    hidden = [v for f, v in ((leaf.field, leaf.value), (leaf.other_field, leaf.other)) if spelled(f) and kind(v) != "nothing"]
    return bool(hidden) and (d.x is None or d.x is True and leaf.op == "$eq" and leaf.literals == [None])


@condition("empty names of calls", "An empty display_name is a text in SQLite. In weir a call without a name has null there, as Weave's answers have.")
def _(d, leaf):
    return (leaf.field == "display_name" and leaf.value is None or leaf.other_field == "display_name" and leaf.other is None) and d.x is not None


@condition("empty exceptions", "To a condition of the reference a call with an empty exception has the status error. In weir it has that of Weave's own answers, in which an empty exception is none (W-122).")
def _(d, leaf):
    return leaf.field == "summary.weave.status" and d.record["exception"] == ""


@condition("fractions beside integers", "The reference reads a field as an integer beside a constant that is one, and a fraction then is nothing. weir compares numbers.")
def _(d, leaf):
    return d.x is None and d.y is True and isinstance(leaf.value, float) and any(isinstance(c, int) for c in leaf.literals)


@condition("not of what cannot be compared", "SQL has a third truth for null, what is not there and conversions that fail, and $not of it matches nothing. In weir such a comparison is false and its $not true.")
def _(d, leaf):
    return d.x is None and d.y is False


@condition("lists of several types", "Beside an $in with constants of several types the reference compares texts. weir compares with each constant as $eq does.")
def _(d, leaf):
    return d.path.startswith("/calls/") and leaf.op == "$in" and len({type(c) for c in leaf.literals}) > 1


@condition("references", "Weave keeps references with an inner name of their project, so parts of them and texts around them compare differently. weir keeps them as they were sent.")
def _(d, leaf):
    return isinstance(leaf.value, str) and leaf.value.startswith("weave:///") and leaf.op not in ("$eq", "$in")


@condition("large integers", "SQLite reads integers at paths as 64 bits or floats; weir compares integers exactly, whatever their size (rule 2).")
def _(d, leaf):
    return any(isinstance(v, int) and abs(v) >= 2**53 for v in [leaf.value, *leaf.literals]) and simple(leaf)[0] == "number" and simple(leaf)[1] <= {"number"}


@condition("conversions", "SQLite's CAST makes 0 of a text that is no number, and 1 of true as a text. In weir such a conversion fails, and true is \"true\".")
def _(d, leaf):
    return leaf.to is not None or leaf.fields and leaf.other_to is not None


@condition("objects and arrays", "SQLite compares objects and arrays as the text that they were stored as. weir compares them with nothing (rule 3), and searches them as they were sent.")
def _(d, leaf):
    return kind(leaf.value) == "composite" or leaf.fields and kind(leaf.other) == "composite"


@condition("two fields", "The reference compares two fields of calls as texts. weir compares numbers as numbers, and values of different kinds not at all (rules 2 and 3).")
def _(d, leaf):
    return leaf.fields and d.path.startswith("/calls/") and "." in leaf.field + leaf.other_field


@condition("numbers as texts", "SQLite writes large and small numbers in its own way when it searches them. weir searches what was sent.")
def _(d, leaf):
    return leaf.op == "$contains" and kind(leaf.value) == "number" and (isinstance(leaf.value, float) or abs(leaf.value) >= 2**63 - 1)


@condition("numbers and texts", "SQLite puts all numbers before all texts. weir reads a number or boolean as its text beside a constant text, and a text as the number that it spells beside a number; where that is not possible they do not compare (rule 1).")
def _(d, leaf):
    v, constants = simple(leaf)
    return v == "text" and "number" in constants or v in ("number", "boolean") and "text" in constants and leaf.op != "$contains"


@condition("booleans", "In SQLite true is the number 1 in every comparison and search. In weir a boolean is \"true\" or \"false\" beside a text and nothing beside a number, and only a constant that is a boolean reads 1, 0 and these texts as booleans (rule 1).")
def _(d, leaf):
    v, constants = simple(leaf)
    return v == "boolean" and "number" in constants or v in ("number", "text") and "boolean" in constants or v == "boolean" and leaf.op == "$contains"


@condition("upper and lower case", "SQLite knows the case of ASCII letters alone; weir folds all of Unicode (rule 6).")
def _(d, leaf):
    return leaf.fold and not (leaf.literals[0].isascii() and documented.scalar(leaf.value).isascii())


def wildcard(d):
    names = d.condition.get("op_names") or []
    return [n[:-2] for n in names if n.endswith(":*")]


@named("no threads", "filter", "An empty list of thread_ids asks for nothing in the reference and for everything in weir, as all other empty lists do in both, and as this one does in Weave's large server.")
def _(d):
    return d.condition == {"thread_ids": []} and (d.x, d.y) == (False, True)


@named("versions of ops", "filter", "name:* stands for all that begins with \"name\" in the reference, in either case and with _ for any letter. In weir it stands for the versions of exactly this op, as in Weave's large server.")
def _(d):
    op = d.record["op_name"]
    def like(n):
        return len(op) >= len(n) and all(a in ("_", "%") or a.lower() == b.lower() for a, b in zip(n, op))
    exact = any(op.startswith(n + ":") for n in wildcard(d)) or op in d.condition.get("op_names", [])
    return list(d.condition) == ["op_names"] and (d.x, d.y) == (True, False) and not exact and any(like(n) for n in wildcard(d))


# Orders

def order(name, why):
    """An entry about two rows in another order, where weir's is as documented. It gets the key that decides."""
    def add(matches):
        named(name, "order", why)(lambda d: bool(d.keys) and as_documented(d) and matches(d, *decision(d)))
        return matches
    return add


def each(d):
    for field, direction, p, q in d.keys:
        yield field, p, q, documented.ordered(p, q, direction == "desc", d.path == "/table/query")


def as_documented(d):
    return next((c for _, _, _, c in each(d) if c), 0) < 0


def decision(d):
    """The first key whose values differ, with whether they are equal in weir's order."""
    return next(((f, p, q, c == 0) for f, p, q, c in each(d) if not (p == q and kind(p) == kind(q))), ("id", None, None, True))


@order("times", "The reference compares times as texts, with and without a fraction and in several time zones; weir compares the points in time.")
def _(d, field, p, q, equal):
    return field in ("started_at", "ended_at") and kind(p) == kind(q) == "text" and not equal


@order("order of equal rows", "Rows that are equal in all that was asked for have no order in SQL, and another one with a limit than without. weir orders them by id, and rows of tables by their place.")
def _(d, field, p, q, equal):
    return field == "id" and d.path == "/feedback/query"


@named("order of equal rows", "slice", "Rows that are equal in all that was asked for have no order in SQL, and another one with a limit than without. weir orders them by id, and rows of tables by their place.")
def _(d):
    return d.side == 0 and bool(d.body.get("sort_by")) and "limit" in d.body


@order("order of empty exceptions", "In the order of the reference a call with an empty exception has the status error. In weir it has that of Weave's own answers, in which an empty exception is none (W-122).")
def _(d, field, p, q, equal):
    return any(f == "summary.weave.status" for f, _, _, _ in d.keys) and any(r["exception"] == "" for r in d.rows)


@order("order of empty names", "An empty display_name comes before null in SQLite. In weir both are null.")
def _(d, field, p, q, equal):
    return any(f == "display_name" and p is None and q is None for f, _, p, q in d.keys)


@order("order of objects in tables", "SQLite compares objects and arrays in rows as texts. In weir they come after all texts and have no order of their own (W-212).")
def _(d, field, p, q, equal):
    return d.path == "/table/query" and "composite" in (kind(p), kind(q))


@order("large integers", "SQLite reads integers at paths as 64 bits or floats; weir compares integers exactly, whatever their size (rule 2).")
def _(d, field, p, q, equal):
    return kind(p) == kind(q) == "number" and isinstance(p, int) and isinstance(q, int) and min(abs(p), abs(q)) >= 2**53


@order("order of kinds", "SQLite puts null and what is not there first, then numbers, texts and the text of objects. weir puts numbers first, then text, then other values, and what is not there last, in both directions, as Weave's large server does.")
def _(d, field, p, q, equal):
    return d.path != "/table/query" and (kind(p) != kind(q) or kind(p) in ("composite", "nothing"))


@order("duration of running calls", "A call that runs has the duration 0 in the reference, and none in weir; others have fractions of a millisecond in the reference.")
def _(d, field, p, q, equal):
    return any(f == "summary.weave.latency_ms" for f, _, _, _ in d.keys)


# Parts of calls in any order

def story(d):
    """What the rules W-110 to W-116 and W-131 make of the parts of a call that were sent: the call, and what was unusual."""
    id, project = d.body["id"], d.body["project_id"]
    call = {"start": None, "end": None, "name": None}
    deleted, odd = False, []
    for path, body in d.context.history:
        body = body.get("start") or body.get("end") or body
        if path == "/call/read" or id not in (body.get("id"), body.get("call_id"), *body.get("call_ids", [])):
            continue
        if body["project_id"] != project:
            odd.append("another project")
            continue
        if path == "/calls/delete":
            deleted = deleted or any(call.values())
            odd += [] if call["start"] else ["deleted before it began"]
        elif deleted:
            odd.append("written after it was deleted")
        elif path == "/call/start":
            odd += ["begun twice"] if call["start"] else []
            call["start"] = call["start"] or body
        else:
            odd += [] if call["start"] else ["ended before it began"]
            call["end" if path == "/call/end" else "name"] = body
    return (None if deleted or not call["start"] else call), odd


@named("parts of calls in any order", "member", "The reference forgets an end or a name that comes before the start, and lets requests about other projects change a call. In weir parts wait for the start, and calls belong to their project (W-110 to W-116).")
def _(d):
    if d.path != "/call/read" or "/order-" not in d.body["project_id"]:
        return False
    call, odd = story(d)
    got = d.b[1]["call"]
    if call is None or got is None:
        return bool(odd) and (call is None) == (got is None)
    end, name = call["end"] or {}, (call["name"] or {}).get("display_name") or None
    return bool(odd) and (got["inputs"], got["output"], got["display_name"], got["op_name"]) == (call["start"]["inputs"], end.get("output"), name, call["start"]["op_name"]) and bool(got["ended_at"]) == bool(end)


@named("calls begun twice", "status", "Ids are unique in all of the reference, which fails with 500 at a second start. In weir they belong to a project, and a second start changes nothing (W-111, W-131).")
def _(d):
    return d.path == "/call/start" and d.a[0] == 500 and "UNIQUE constraint failed: calls.id" in reason(d.a) and d.b[0] == 200 and any(p == "/call/start" and b["start"]["id"] == d.body["start"]["id"] for p, b in d.context.history)
