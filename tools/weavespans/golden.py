"""Writes spans/testdata/reference.jsonl: requests of OpenTelemetry with one span each, in both
encodings, and the calls that Weave's own server makes of them.

Usage: python golden.py > ../../spans/testdata/reference.jsonl, with weave 0.52.42 (the last
version that ships its server) and opentelemetry-proto installed, and TZ=UTC.

The spans are like those of instrumentations that exist, and random ones whose keys and values
are drawn from the attributes that the server knows.
"""

import base64
import json
import random

from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, ArrayValue, KeyValue, KeyValueList

from weave.trace_server.opentelemetry import constants
from weave.trace_server.opentelemetry.python_spans import Resource, Span

random.seed(11)

MESSAGES = [{"role": "user", "content": "What is 1 + 1?"}, {"role": "assistant", "content": "2 \U0001f44d"}]

# Each is the attributes of a span, and other members of it.
SPANS = {
    "chat of OpenTelemetry's conventions": ({
        "gen_ai.operation.name": "chat", "gen_ai.provider.name": "openai", "gen_ai.request.model": "m", "gen_ai.response.model": "m-1",
        "gen_ai.request.temperature": 0.5, "gen_ai.request.max_tokens": 100, "gen_ai.request.stop_sequences": ["a", "b"],
        "gen_ai.response.id": "r1", "gen_ai.response.finish_reasons": ["stop"], "gen_ai.usage.input_tokens": 12, "gen_ai.usage.output_tokens": 3,
        "gen_ai.input.messages": json.dumps(MESSAGES[:1]), "gen_ai.output.messages": json.dumps(MESSAGES[1:]), "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "s"}]),
        "gen_ai.conversation.id": "c-1", "server.address": "localhost", "server.port": 8000,
    }, {"kind": 3}),
    "chat of OpenLLMetry": ({
        "gen_ai.system": "OpenAI", "gen_ai.request.model": "m", "gen_ai.prompt.0.role": "user", "gen_ai.prompt.0.content": "hi", "gen_ai.prompt.1.role": "assistant",
        "gen_ai.prompt.1.content": "[not json", "gen_ai.completion.0.role": "assistant", "gen_ai.completion.0.content": '{"a": 1.0}', "gen_ai.completion.0.finish_reason": "stop",
        "gen_ai.usage.prompt_tokens": 5, "gen_ai.usage.completion_tokens": 7, "llm.usage.total_tokens": 12, "traceloop.span.kind": "workflow",
    }, {"kind": 3}),
    "chat of OpenInference": ({
        "openinference.span.kind": "LLM", "llm.model_name": "m", "llm.system": "openai", "llm.provider": "openai", "llm.invocation_parameters": '{"temperature": 1, "model": "x"}',
        "input.value": '{"messages": [{"role": "user", "content": "hi"}]}', "input.mime_type": "application/json", "output.value": "hello", "output.mime_type": "text/plain",
        "llm.token_count.prompt": 1, "llm.token_count.completion": 2, "llm.token_count.total": 3, "llm.input_messages.0.message.role": "user",
    }, {}),
    "twelve prompts": ({f"gen_ai.prompt.{i}.content": f"p{i}" for i in range(12)}, {}),
    "MLflow": ({"mlflow.spanInputs": '{"q": [1, 2]}', "mlflow.spanOutputs": '"text"', "mlflow.spanType": '"CHAIN"'}, {}),
    "Logfire and PydanticAI": ({"pydantic_ai.all_messages": json.dumps(MESSAGES), "final_result": "42", "gen_ai.agent.name": "agent", "logfire.json_schema": "{}"}, {}),
    "Vercel": ({"ai.prompt": '{"messages":[]}', "ai.response.text": "t", "ai.response.finishReason": "stop", "ai.model.id": "m", "ai.model.provider": "p", "ai.usage.promptTokens": 4, "ai.usage.completionTokens": 5}, {}),
    "Google's ADK": ({"gcp.vertex.agent.llm_request": '{"a": {"b": 1}}', "gcp.vertex.agent.llm_response": "{}", "gcp.vertex.agent.session_id": "s-9"}, {}),
    "input and output alone": ({"input": '{"x": 1}', "output": '["y"]'}, {}),
    "inputs that are no object": ({"inputs": "[1]", "outputs": 5}, {}),
    "nothing that is known": ({"http.request.method": "GET", "http.response.status_code": 200, "list": [1, 2.5, True, "x"], "map": {"a": {"b": [b"\x00\x01"]}}}, {"kind": 2}),
    "no attributes": ({}, {}),
    "attributes of Weave": ({
        "wandb.display_name": "shown", "wandb.thread_id": "t", "wandb.is_turn": True, "wandb.attributes.k": "v", "wandb.attributes.n.m": 1, "wandb.wb_run_id": "run1",
        "wandb.wb_run_step": 3, "wandb.wb_run_step_end": 4, "weave.span.kind": "tool", "input.value": "x",
    }, {}),
    "a thread without a turn": ({"wandb.thread_id": "t", "wandb.is_turn": False}, {}),
    "attributes as JSON": ({"wandb.attributes": '{"a": [1, {"b": null}]}', "gen_ai.system": "s"}, {}),
    "tokens as texts": ({"gen_ai.usage.prompt_tokens": "5", "gen_ai.usage.completion_tokens": "6", "gen_ai.request.model": "m"}, {}),
    "tokens of a cache": ({"gen_ai.usage.input_tokens": 9, "gen_ai.usage.output_tokens": 1, "gen_ai.usage.cache_creation.input_tokens": 2, "gen_ai.usage.cache_read.input_tokens": 3}, {}),
    "times of Langfuse": ({"langfuse.startTime": "2026-01-02T03:04:05.5+00:00", "langfuse.endTime": 1767323046000000000, "input.value": "x"}, {}),
    "an error": ({"input.value": "x"}, {"status": (2, "it broke"), "parent": True, "events": [("exception", {"exception.type": "ValueError", "exception.message": "it broke"})]}),
    "a status that is good": ({"input.value": "x"}, {"status": (1, ""), "links": 2, "trace_state": "a=b"}),
    "texts that look like JSON": ({"input.value": "{broken", "output.value": "[1, 2", "a": "{}", "b": "[]"}, {}),
    "empty values": ({"gen_ai.prompt": "", "input.value": "second", "gen_ai.completion": [], "output.value": "o"}, {}),
}



def names(table):
    return [k[0] if isinstance(k, tuple) else k for k in table]


TREES = names(constants.INPUT_KEYS) + names(constants.OUTPUT_KEYS) + ["gen_ai.request", "llm.invocation_parameters", "gen_ai.system", "wandb.attributes"]
TEXTS = [k for name, keys in constants.ATTRIBUTE_KEYS.items() if name != "model_parameters" for k in names(keys)] + ["wandb.display_name", "wandb.thread_id", "gen_ai.conversation.id"]
NUMBERS = [k for keys in constants.USAGE_KEYS.values() for k in names(keys)] + ["wandb.wb_run_step"]


def scalar():
    return random.choice(["text", "", "5", '{"a": {"b": 1}}', "[1, {}]", "{", "é\U0001f600\u2028", 1, 17, -3, 2.5, 1e300, True, ["x", "y"], [1, 2], "m"])


def random_span():
    attributes = {}
    for key in random.sample(TREES, random.randrange(1, 6)):
        kind = random.randrange(4)
        if kind == 0:
            attributes.update({f"{key}.{i}.content": scalar() for i in range(random.randrange(1, 4))})
        elif kind == 1 or key == "wandb.attributes":
            attributes.update({f"{key}.name": scalar(), f"{key}.other": scalar()})
        else:
            attributes[key] = scalar()
    attributes.update({key: random.choice(["text", "a b", "é\U0001f600", ""]) for key in random.sample(TEXTS, random.randrange(4))})
    attributes.update({key: random.choice([1, 17, "5", 10**12]) for key in random.sample(NUMBERS, random.randrange(4))})
    # Weave's server rejects a span whose key has a value and goes on below it; weir keeps both.
    return {k: v for k, v in attributes.items() if not any(o.startswith(k + ".") for o in attributes)}, {"kind": random.randrange(6)}


def any_value(v):
    if isinstance(v, bool):
        return AnyValue(bool_value=v)
    if isinstance(v, int):
        return AnyValue(int_value=v)
    if isinstance(v, float):
        return AnyValue(double_value=v)
    if isinstance(v, bytes):
        return AnyValue(bytes_value=v)
    if isinstance(v, list):
        return AnyValue(array_value=ArrayValue(values=[any_value(x) for x in v]))
    if isinstance(v, dict):
        return AnyValue(kvlist_value=KeyValueList(values=key_values(v)))
    return AnyValue(string_value=v)


def key_values(d):
    return [KeyValue(key=k, value=any_value(v)) for k, v in d.items()]


def request(attributes, more):
    req = ExportTraceServiceRequest()
    rs = req.resource_spans.add()
    rs.resource.attributes.extend(key_values({"service.name": "test", "wandb.entity": "acme", "wandb.project": "demo"}))
    ss = rs.scope_spans.add()
    ss.scope.name, ss.scope.version = "scope", "1"
    s = ss.spans.add()
    s.trace_id, s.span_id, s.name = random.randbytes(16), random.randbytes(8), random.choice(["chat m", "workflow", "é op", "n" * 40])
    s.kind = more.get("kind", 1)
    s.start_time_unix_nano = 1767323045123456000 + random.randrange(10**9) * 1000
    s.end_time_unix_nano = s.start_time_unix_nano + random.randrange(10**7) * 1000
    s.attributes.extend(key_values(attributes))
    if more.get("parent"):
        s.parent_span_id = random.randbytes(8)
    s.trace_state = more.get("trace_state", "")
    s.status.code, s.status.message = more.get("status", (0, ""))
    for name, attrs in more.get("events", []):
        s.events.add(name=name, time_unix_nano=s.start_time_unix_nano + 5, attributes=key_values(attrs))
    for _ in range(more.get("links", 0)):
        s.links.add(trace_id=random.randbytes(16), span_id=random.randbytes(8), attributes=key_values({"k": 1}))
    return req


def otlp_json(req):
    """The request as OTLP has it in JSON: ids in hexadecimal, constants as numbers."""

    def ids(v):
        if isinstance(v, dict):
            return {k: base64.b64decode(x).hex() if k in ("traceId", "spanId", "parentSpanId") else ids(x) for k, x in v.items()}
        return [ids(x) for x in v] if isinstance(v, list) else v

    return ids(json_format.MessageToDict(req, use_integers_for_enums=True))


def main():
    cases = [(name, *s) for name, s in SPANS.items()] + [(f"random {i}", *random_span()) for i in range(120)]
    for name, attributes, more in cases:
        req = request(attributes, more)
        rs = req.resource_spans[0]
        try:
            start, end = Span.from_proto(rs.scope_spans[0].spans[0], Resource.from_proto(rs.resource)).to_call("acme/demo")
        except (AttributeError, TypeError, ValueError):
            continue  # values of types that the server did not expect
        call = json.loads(start.model_dump_json()) | json.loads(end.model_dump_json(exclude={"summary"}))
        call["summary"] = json.loads(json.dumps(end.summary, default=lambda o: o.model_dump(mode="json") if hasattr(o, "model_dump") else str(o)))
        line = {"name": name, "protobuf": base64.b64encode(req.SerializeToString()).decode(), "json": otlp_json(req), "call": call}
        print(json.dumps(line, ensure_ascii=False))


main()
