"""What users of Weave's client do, against a running weir. Run by run.py in each environment.

Usage: python checks.py URL KEY PROJECT OUT

Each check is a function; what it wrote is counted on the server by plain HTTP and not by the
client's word. OUT gets a line of JSON for each: its name, ok, whether it was skipped, and why.
"""

import asyncio
import base64
import datetime
import json
import os
import sys
import traceback
import urllib.request

URL, KEY, PROJECT, OUT = sys.argv[1:5]
os.environ.update(
    WF_TRACE_SERVER_URL=URL, WANDB_BASE_URL=URL, WANDB_API_KEY=KEY, WEAVE_PRINT_CALL_LINK="false", WEAVE_LOG_LEVEL="ERROR", WEAVE_RETRY_MAX_ATTEMPTS="2",
    WANDB_ERROR_REPORTING="false", WEAVE_SENTRY_ENV="", DO_NOT_TRACK="1",
)

import weave  # noqa: E402

CHECKS = []


class Skipped(Exception):
    """A check that a version of the client cannot do, with any server."""


# Up to 0.52.20 the client passes an argument to httpx that no version of httpx takes where an
# answer is streamed, so it cannot read calls from any server.
STREAMS = tuple(int(n) for n in weave.__version__.split(".")[:3]) > (0, 52, 20)


def check(f):
    CHECKS.append(f)
    return f


def streams(f):
    """A check whose client has to stream an answer."""

    def g():
        if not STREAMS:
            raise Skipped("this version's client cannot stream answers")
        return f()

    g.__name__ = f.__name__
    return check(g)


def post(path, **body):
    auth = base64.b64encode(b"api:" + KEY.encode()).decode()
    data = json.dumps({"project_id": PROJECT, **body}).encode()
    r = urllib.request.Request(URL + path, data=data, headers={"Content-Type": "application/json", "Authorization": "Basic " + auth})
    return urllib.request.urlopen(r).read().decode()


def calls(**body):
    return [json.loads(line) for line in post("/calls/stream_query", **body).splitlines()]


def feedback(**equal):
    conds = [{"$eq": [{"$getField": k}, {"$literal": v}]} for k, v in equal.items()]
    query = {"query": {"$expr": {"$and": conds}}} if conds else {}
    return json.loads(post("/feedback/query", **query))["result"]


def eq(got, want):
    if got != want:
        raise AssertionError(f"{got!r}, want {want!r}")


client = None


def flush():
    for name in ("flush", "finish"):
        if hasattr(client, name):
            return getattr(client, name)()
    client.future_executor.flush()


@check
def init():
    """weave.init returns a client that is not disabled."""
    global client
    client = weave.init(PROJECT)
    eq(f"{client.entity}/{client.project}", PROJECT)


@check
def ops():
    """Nested, failing, async and generator ops are calls with parents, inputs and outputs."""

    @weave.op
    def leaf(x):
        if x == 2:
            raise ValueError("two")
        return {"y": x * 2}

    @weave.op
    def tree(n):
        return [leaf(i)["y"] for i in range(n)]

    @weave.op
    async def later(x):
        await asyncio.sleep(0)
        return x + 1

    eq(tree(2), [0, 2])
    try:
        tree(3)
    except ValueError:
        pass
    eq(asyncio.run(later(4)), 5)
    flush()
    found = calls()
    names = [c["op_name"].split("/op/")[1].split(":")[0] for c in found]
    eq((names.count("tree"), names.count("leaf"), names.count("later"), len(names)), (2, 5, 1, 8))
    eq(sorted(c["summary"]["weave"]["status"] for c in found), ["error"] * 2 + ["success"] * 6)
    roots = {c["id"] for c in found if c["parent_id"] is None}
    eq(sum(c["parent_id"] in roots for c in found), 5)
    eq([c["output"] for c in found if c["inputs"] == {"n": 2}], [[0, 2]])


@check
def op_code():
    """The code of an op is published, and its file is on the server."""
    refs = {c["op_name"] for c in calls()}
    vals = json.loads(post("/refs/read_batch", refs=sorted(refs)))["vals"]
    eq(all(v.get("files") for v in vals), True)
    file = next(iter(vals[0]["files"].values()))
    eq("def " in post("/file/content", digest=file), True)


@streams
def get_calls():
    """client.get_calls filters, sorts, limits and chooses columns."""
    every = list(client.get_calls())
    eq(len(every), 8)
    newest = list(client.get_calls(limit=1, sort_by=[{"field": "started_at", "direction": "desc"}]))
    eq(newest[0].id, max(every, key=lambda c: c.started_at).id)
    eq(len(list(client.get_calls(filter={"trace_roots_only": True}))), 3)
    query = {"$expr": {"$eq": [{"$getField": "inputs.x"}, {"$literal": 1}]}}
    eq([c.output["y"] for c in client.get_calls(query=query)], [2, 2])
    failed = {"$expr": {"$not": [{"$eq": [{"$getField": "exception"}, {"$literal": None}]}]}}
    eq(len(list(client.get_calls(query=failed))), 2)
    some = list(client.get_calls(columns=["id", "op_name"], limit=2))
    eq(len(some), 2)
    eq(client.get_call(every[0].id).id, every[0].id)


@streams
def children():
    """A call has its children, and can be renamed."""
    root = next(c for c in client.get_calls(filter={"trace_roots_only": True}) if c.inputs.get("n") == 2)
    eq(len(list(root.children())), 2)
    root.set_display_name("a tree")
    flush()
    eq([c["display_name"] for c in calls(filter={"call_ids": [root.id]})], ["a tree"])


def some_call():
    """A call that was just made; it needs no answer that is streamed."""

    @weave.op
    def rated(x):
        return x

    call = rated.call(1)[1]
    flush()
    return call


@check
def reactions_and_notes():
    """call.feedback adds reactions, notes and payloads, and reads them back."""
    c = some_call()
    c.feedback.add_reaction("👍")
    c.feedback.add_note("a note")
    c.feedback.add("custom", {"a": 1})
    flush()
    ref = f"weave:///{PROJECT}/call/{c.id}"
    rows = feedback(weave_ref=ref)
    eq(sorted(r["feedback_type"] for r in rows), ["custom", "wandb.note.1", "wandb.reaction.1"])
    if not STREAMS:
        return
    again = client.get_call(c.id)
    eq(len(list(again.feedback)), 3)
    included = list(client.get_calls(filter={"call_ids": [c.id]}, include_feedback=True))
    eq(len(included[0].summary["weave"]["feedback"]), 3)


@check
def three_writes():
    """Three writes with one client are three records (later versions leave a request id in the headers)."""
    c = some_call()
    before = len(feedback(feedback_type="three"))
    for n in range(3):
        c.feedback.add("three", {"n": n})
    flush()
    eq(sorted(r["payload"]["n"] for r in feedback(feedback_type="three"))[before:], [0, 1, 2])


@check
def get_feedback():
    """client.get_feedback queries by reaction, type and page."""
    eq(len(list(client.get_feedback(reaction="👍"))), 1)
    eq(len(list(client.get_feedback())), 6)
    eq(len(list(client.get_feedback(limit=2))), 2)
    query = {"$expr": {"$eq": [{"$getField": "feedback_type"}, {"$literal": "three"}]}}
    eq(len(list(client.get_feedback(query=weave.trace_server.interface.query.Query(**query) if hasattr(weave, "trace_server") else query))), 3)


@streams
def purge():
    """A record that is purged is gone."""
    c = some_call()
    c.feedback.add("short", {"n": 1})
    flush()
    c = client.get_call(c.id)
    rows = list(c.feedback)
    c.feedback.purge(rows[0].id)
    flush()
    eq([r for r in feedback() if r["id"] == rows[0].id], [])


@check
def annotations():
    """A published annotation spec and feedback of its type."""
    from weave.flow.annotation_spec import AnnotationSpec

    ref = weave.publish(AnnotationSpec(name="Correct", field_schema={"type": "boolean"}), "correct")
    c = some_call()
    c.feedback.add("wandb.annotation.correct", {"value": True}, annotation_ref=ref.uri() if callable(ref.uri) else ref.uri)
    flush()
    eq([r["payload"] for r in feedback(feedback_type="wandb.annotation.correct")], [{"value": True}])


@check
def publish():
    """Objects are published, versioned and read back; refs lead into them."""
    ref = weave.publish({"a": [1, 2.5, {"b": "ü"}]}, "thing")
    same = weave.publish({"a": [1, 2.5, {"b": "ü"}]}, "thing")
    other = weave.publish({"a": 2}, "thing")
    flush()
    eq(ref.digest == same.digest != other.digest, True)
    objs = json.loads(post("/objs/query", filter={"object_ids": ["thing"]}))["objs"]
    eq([o["version_index"] for o in objs], [0, 1])
    eq(weave.ref("thing:v0").get()["a"][2]["b"], "ü")
    eq(weave.ref("thing").get()["a"], 2)


@check
def datasets():
    """Datasets are tables whose rows are read by page and by reference."""
    ref = weave.publish(weave.Dataset(name="ds", rows=[{"q": i, "a": str(i)} for i in range(25)]), "ds")
    flush()
    got = ref.get()
    eq(len(got.rows), 25)
    eq([r["q"] for r in got.rows][:3], [0, 1, 2])
    eq(got.rows[7]["a"], "7")
    obj = json.loads(post("/obj/read", object_id="ds", digest="latest"))["obj"]
    table = obj["val"]["rows"].rsplit("/", 1)[1]
    eq(json.loads(post("/table/query_stats", digest=table))["count"], 25)


@check
def models_and_evaluations():
    """A model, a scorer and an evaluation."""

    class Times(weave.Model):
        k: int

        @weave.op
        def predict(self, q):
            return {"v": self.k * q}

    @weave.op
    def right(output, a):
        return {"ok": output["v"] == int(a)}

    ev = weave.Evaluation(dataset=weave.ref("ds").get(), scorers=[right], name="ev")
    before = len(calls())
    result = asyncio.run(ev.evaluate(Times(k=1)))
    flush()
    eq(result["right"]["ok"]["true_count"], 25)
    eq(len(calls()) - before > 75, True)


@check
def scorers():
    """call.apply_scorer records a score as feedback, where the version has it."""
    if not hasattr(weave, "Scorer"):
        raise Skipped("not in this version")

    class Long(weave.Scorer):
        @weave.op
        def score(self, output):
            return {"long": len(str(output)) > 3}

    @weave.op
    def say(x):
        return "hello " + x

    _, call = say.call("you")
    asyncio.run(call.apply_scorer(Long()))
    flush()
    outputs = [r["payload"]["output"] for r in feedback() if r["feedback_type"].startswith("wandb.runnable.")]
    eq([o for o in outputs if "long" in o], [{"long": True}])


@streams
def expanding():
    """client.get_calls follows references, and filters by feedback."""

    @weave.op
    def given(item):
        return item["n"]

    given(weave.publish({"n": 41}, name="item").get())
    flush()
    query = {"$expr": {"$eq": [{"$getField": "inputs.item.n"}, {"$literal": 41}]}}
    found = list(client.get_calls(query=query, expand_columns=["inputs.item"]))
    eq([c.inputs["item"]["n"] for c in found], [41])
    found[0].feedback.add("judged", {"mark": 7})
    flush()
    query = {"$expr": {"$eq": [{"$getField": "feedback.[judged].payload.mark"}, {"$literal": 7}]}}
    eq([c.id for c in client.get_calls(query=query)], [found[0].id])


@check
def attributes_and_threads():
    """Attributes, and threads where the version has them."""

    @weave.op
    def turn(x):
        return x

    with weave.attributes({"env": "test"}):
        turn(1)
    if hasattr(weave, "thread"):
        with weave.thread("t-1"):
            turn(2)
    flush()
    query = {"$expr": {"$eq": [{"$getField": "attributes.env"}, {"$literal": "test"}]}}
    eq([c["inputs"]["x"] for c in calls(query=query)], [1])
    if hasattr(weave, "thread"):
        eq([c["inputs"]["x"] for c in calls(filter={"thread_ids": ["t-1"]})], [2])


@check
def values():
    """Times, bytes-like objects and large numbers come back."""

    @weave.op
    def echo(v):
        return v

    echo({"big": 12345678901234567890, "when": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.timezone.utc), "t": (1, 2), "n": None})
    flush()
    found = [c for c in calls() if c["op_name"].split("/op/")[1].startswith("echo:")]
    eq(found[0]["inputs"]["v"]["big"], 12345678901234567890)
    if STREAMS:
        eq(client.get_call(found[0]["id"]).inputs["v"]["n"], None)


@streams
def deletion():
    """Deleted calls and objects are gone."""
    roots = list(client.get_calls(filter={"trace_roots_only": True}))
    before = len(calls())
    tree = next(c for c in roots if c.inputs.get("n") == 2)
    client.delete_call(tree)
    flush()
    eq(before - len(calls()), 3)
    weave.ref("thing:v1").get()
    client.delete_object_version(weave.ref("thing:v1"))
    flush()
    objs = json.loads(post("/objs/query", filter={"object_ids": ["thing"]}))["objs"]
    eq([o["version_index"] for o in objs], [0])


@check
def exporter():
    """A program that is instrumented for OpenTelemetry, without Weave's client."""
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    entity, project = PROJECT.split("/")
    resources = {"wandb.entity": entity, "wandb.project": project}
    for compression, attributes, headers in [
        (Compression.NoCompression, resources, {"wandb-api-key": KEY}),
        (Compression.Gzip, {}, {"Authorization": "Basic " + base64.b64encode(b"api:" + KEY.encode()).decode(), "project_id": PROJECT}),
    ]:
        provider = TracerProvider(resource=Resource.create(attributes))
        provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=URL + "/otel/v1/traces", headers=headers, compression=compression)))
        tracer = provider.get_tracer("checks")
        with tracer.start_as_current_span("workflow " + compression.name) as root:
            with tracer.start_as_current_span("chat m", attributes={"gen_ai.request.model": "m", "gen_ai.prompt.0.content": "hi", "gen_ai.usage.prompt_tokens": 5}):
                pass
            try:
                with tracer.start_as_current_span("breaks"):
                    raise ValueError("it broke")
            except ValueError:
                pass
        provider.shutdown()
        trace = format(root.get_span_context().trace_id, "032x")
        found = {c["op_name"]: c for c in calls(filter={"trace_ids": [trace]})}
        eq(sorted(found), ["breaks", "chat m", "workflow " + compression.name])
        eq(found["chat m"]["inputs"], {"gen_ai.prompt": [{"content": "hi"}]})
        eq(found["chat m"]["summary"]["usage"], {"m": {"prompt_tokens": 5}})
        eq(found["chat m"]["parent_id"], format(root.get_span_context().span_id, "016x"))
        eq((found["breaks"]["exception"], found["breaks"]["summary"]["weave"]["status"]), ("ValueError: it broke", "error"))


@check
def conversation():
    """A conversation of Weave's client: its spans are calls below the op that it is in."""
    if not hasattr(weave, "start_conversation"):
        raise Skipped("not in this version")
    from opentelemetry import trace

    @weave.op
    def chatting():
        with weave.start_conversation(agent_name="agent", conversation_id="conv-1") as c:
            with c.start_turn(user_message="hi") as turn:
                with turn.start_llm(model="m", provider_name="weir") as llm:
                    llm.output("hello")

    chatting()
    flush()
    trace.get_tracer_provider().force_flush()
    ops = [c for c in calls() if "/op/chatting:" in c["op_name"]]
    spans = calls(filter={"thread_ids": ["conv-1"]})
    eq(len(spans) >= 2, True)
    eq({c["trace_id"] for c in spans}, {ops[0]["trace_id"]})
    eq([c["attributes"]["operation_name"] for c in spans if c["parent_id"] == ops[0]["id"]], ["invoke_agent"])
    eq([c["output"] for c in spans if c["op_name"].startswith("chat")], [{"gen_ai.output.messages": [{"role": "assistant", "parts": [{"type": "text", "content": "hello"}]}]}])


@check
def finish():
    """Nothing is left to be sent when the program ends."""
    flush()


def main():
    with open(OUT, "w") as out:
        for f in CHECKS:
            line = {"name": f.__name__, "ok": True, "detail": ""}
            try:
                line["detail"] = f() or ""
            except Skipped as e:
                line.update(skipped=True, detail=str(e))
            except BaseException as e:  # noqa: BLE001
                last = traceback.extract_tb(e.__traceback__)[-1]
                line.update(ok=False, detail=f"{type(e).__name__}: {str(e)[:300]} ({last.name}:{last.lineno})")
            out.write(json.dumps(line) + "\n")
            out.flush()


main()
