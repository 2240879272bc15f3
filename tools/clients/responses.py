"""OpenAI's Python SDK and its Agents SDK against /v1/responses of a running weir: answers whole,
streamed and parsed, turns that continue, what is kept, and loops of tools. responses.test.mjs
starts the server and runs this; WEIR_URL and WEIR_API_KEY say where it is."""

import asyncio
import os

from agents import Agent, ModelSettings, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled
from openai import AsyncOpenAI, NotFoundError, OpenAI
from pydantic import BaseModel

where = {"base_url": os.environ["WEIR_URL"] + "/v1", "api_key": os.environ["WEIR_API_KEY"], "max_retries": 0}
client = OpenAI(**where)
model = "weir-tiny"
short = {"model": model, "temperature": 0, "max_output_tokens": 200}


class Person(BaseModel):
    tall: bool
    fast: bool


def plain():
    one = client.responses.create(input="What is the capital of France?", **short)
    assert one.status == "completed" and "Paris" in one.output_text, one
    two = client.responses.create(input="Are you sure?", previous_response_id=one.id, **short)
    earlier = one.usage.input_tokens + one.usage.output_tokens
    assert two.usage.input_tokens > earlier and two.usage.input_tokens_details.cached_tokens >= earlier // 16 * 16 > 0, (one.usage, two.usage)
    assert client.responses.retrieve(two.id).output_text == two.output_text
    items = list(client.responses.input_items.list(two.id))
    assert len(items) == 1 and items[0].content[0].text == "Are you sure?", items
    counted = client.responses.input_tokens.count(model=model, input="What is the capital of France?")
    assert counted.input_tokens == one.usage.input_tokens
    client.responses.delete(one.id)
    try:
        client.responses.retrieve(one.id)
        raise AssertionError("it is still there")
    except NotFoundError:
        pass


def streamed():
    with client.responses.stream(input="What is the capital of France?", **short) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        final = stream.get_final_response()
    assert "Paris" in text and final.output_text == text, (text, final)
    with client.responses.stream(input="Who?", text_format=Person, **short) as stream:
        stream.until_done()
        final = stream.get_final_response()
    assert isinstance(final.output_parsed, Person), final


def parsed():
    r = client.responses.parse(input="Who?", text_format=Person, **short)
    assert isinstance(r.output_parsed, Person), r


def tools():
    both = [
        {"type": "function", "name": "weather", "strict": True, "parameters": {
            "type": "object", "properties": {"celsius": {"type": "boolean"}}, "required": ["celsius"], "additionalProperties": False}},
        {"type": "custom", "name": "pick", "format": {"type": "grammar", "syntax": "regex", "definition": "(red|green)-[0-9]{2}"}},
        {"type": "web_search"},
    ]
    for name, kind in [("weather", "function"), ("pick", "custom")]:
        choice = {"type": kind, "name": name}
        one = client.responses.create(input="Go on.", tools=both, tool_choice=choice, **short)
        call = one.output[-1]
        assert call.name == name, one
        if kind == "custom":
            assert call.input[:3] in ("red", "gre"), call
        with client.responses.stream(input="Go on.", tools=both, tool_choice=choice, **short) as stream:
            stream.until_done()
            assert stream.get_final_response().output[-1].name == name
        result = [{"type": call.type + "_output", "call_id": call.call_id, "output": "warm"}]
        two = client.responses.create(input=result, previous_response_id=one.id, tools=both, **short)
        assert two.status == "completed" and two.output_text, two


async def agents():
    set_tracing_disabled(True)
    asked = []

    @function_tool
    def city(large: bool) -> str:
        """A city."""
        asked.append(large)
        return "Oslo"

    agent = Agent(
        name="guide", instructions="Help.", tools=[city], model=OpenAIResponsesModel(model, AsyncOpenAI(**where)),
        model_settings=ModelSettings(tool_choice="required", temperature=0, max_tokens=200),
    )
    for more in ({}, {"auto_previous_response_id": True}):
        asked.clear()
        result = await Runner.run(agent, "Where?", **more)
        assert len(asked) == 1 and result.final_output, result
    asked.clear()
    run = Runner.run_streamed(agent, "Where?")
    events = [e async for e in run.stream_events()]
    assert len(asked) == 1 and run.final_output and events, run


for part in (plain, streamed, parsed, tools):
    part()
    print(part.__name__, "ok")
asyncio.run(agents())
print("agents ok")
