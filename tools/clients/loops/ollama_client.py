"""Ollama's Python client: loops of tools, plain and streamed, synchronous and not, and answers with a schema. This interface has no
way to demand a call, so the server has to have a model that calls tools by itself."""

from typing import Literal

from ollama import AsyncClient, Client
from pydantic import BaseModel

from common import check, key, model, run, url, weather_in, weather_question

where = {"host": url, "headers": {"Authorization": "Bearer " + key}}
client = Client(**where)
greedy = {"temperature": 0, "num_ctx": 2048}


def get_weather(city: str) -> str:
    """Tell the weather in a city.

    Args:
        city: the name of the city
    """
    return weather_in(city)


class Person(BaseModel):
    tall: bool
    fast: Literal[True]


def answered(messages, message):
    """Appends the model's message and the results of its calls."""
    messages.append(message)
    for call in message.tool_calls or []:
        messages.append({"role": "tool", "tool_name": call.function.name, "content": get_weather(**call.function.arguments)})


def plain():
    messages = [{"role": "user", "content": weather_question}]
    one = client.chat(model=model, messages=messages, tools=[get_weather], options=greedy)
    assert one.message.tool_calls[0].function.arguments == {"city": "Oslo"} and one.done_reason == "stop", one
    answered(messages, one.message)
    two = client.chat(model=model, messages=messages, tools=[get_weather], options=greedy)
    assert two.eval_count > 0 and not two.message.tool_calls, two
    check(two.message.content, weather_question)


def streamed():
    messages = [{"role": "user", "content": weather_question}]
    calls = []
    for piece in client.chat(model=model, messages=messages, tools=[get_weather], options=greedy, stream=True):
        calls += piece.message.tool_calls or []
        if piece.message.tool_calls:
            answered(messages, piece.message)
    assert len(calls) == 1 and piece.done, (calls, piece)
    pieces = list(client.chat(model=model, messages=messages, tools=[get_weather], options=greedy, stream=True))
    assert len(pieces) > 3, pieces
    check("".join(p.message.content for p in pieces), weather_question)


async def asynchronous():
    later = AsyncClient(**where)
    messages = [{"role": "user", "content": weather_question}]
    answered(messages, (await later.chat(model=model, messages=messages, tools=[get_weather])).message)
    text = ""
    async for piece in await later.chat(model=model, messages=messages, tools=[get_weather], stream=True):
        text += piece.message.content
    check(text, weather_question)


def structured():
    answer = client.chat(model=model, messages=[{"role": "user", "content": "Who?"}], format=Person.model_json_schema(), options=greedy)
    Person.model_validate_json(answer.message.content)


run(plain, streamed, asynchronous, structured)
