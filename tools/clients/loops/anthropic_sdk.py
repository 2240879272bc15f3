"""Anthropic's Python SDK: loops of tools by hand and by its tool runner, plain and streamed, with the server keeping the
conversation (thread) and without, and parsed answers."""

import json
from typing import Literal

from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from pydantic import BaseModel

from common import add_numbers, asked, check, key, model, run, sum_question, url, weather_in, weather_question

where = {"base_url": url, "api_key": key, "max_retries": 0}
client = Anthropic(**where)
chat = {"model": model, "max_tokens": 200}


@beta_tool
def add(a: int, b: int) -> str:
    """Add two integers.

    Args:
        a: the first
        b: the second
    """
    return add_numbers(a, b)


@beta_tool
def get_weather(city: Literal["Oslo"]) -> str:
    """Tell the weather in a city."""
    return weather_in(city)


@beta_tool
def get_time(city: Literal["Oslo"]) -> str:
    """Tell the time in a city."""
    return '{"time": "12:30"}'


@beta_async_tool(name="get_weather")
async def get_weather_later(city: Literal["Oslo"]) -> str:
    """Tell the weather in a city."""
    return weather_in(city)


class Person(BaseModel):
    tall: bool
    fast: bool


def user(question):
    return [{"role": "user", "content": question}]


def answer(message):
    blocks = [b for b in message.content if b.type == "tool_use"]
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": b.id, "content": add_numbers(**b.input)} for b in blocks]}


def by_hand():
    tools = [add.to_dict(), get_weather.to_dict()]
    one = client.messages.create(messages=user(sum_question), tools=tools, tool_choice={"type": "any"}, **chat)
    assert one.stop_reason == "tool_use", one
    messages = [*user(sum_question), {"role": "assistant", "content": one.content}, answer(one)]
    two = client.messages.create(messages=messages, tools=tools, **chat)
    assert two.stop_reason == "end_turn", two
    check(two.content[0].text)


def by_hand_streamed():
    tools = [add.to_dict(), get_weather.to_dict()]
    with client.messages.stream(messages=user(sum_question), tools=tools, tool_choice={"type": "tool", "name": "add"}, **chat) as stream:
        pieces = "".join(e.partial_json for e in stream if e.type == "input_json")
        one = stream.get_final_message()
    assert json.loads(pieces) == one.content[-1].input and one.stop_reason == "tool_use", (pieces, one)
    messages = [*user(sum_question), {"role": "assistant", "content": one.content}, answer(one)]
    with client.messages.stream(messages=messages, tools=tools, **chat) as stream:
        text = "".join(stream.text_stream)
        assert stream.get_final_message().content[-1].text == text
    check(text)


def runner():
    """The SDK asks for a thread by itself, and says no more than the result of the tool in the second turn."""
    for question, tool in ((sum_question, add), (weather_question, get_weather)):
        turns = list(client.beta.messages.tool_runner(messages=user(question), tools=[add, get_weather], **chat))
        assert [t.stop_reason for t in turns] == ["tool_use", "end_turn"] and turns[1].usage.cache_read_input_tokens > 0, turns
        check(turns[-1].content[-1].text, question)


def runner_without_thread():
    message = client.beta.messages.tool_runner(messages=user(weather_question), tools=[get_weather], thread=False, **chat).until_done()
    check(message.content[-1].text, weather_question)


def runner_streamed():
    runner = client.beta.messages.tool_runner(messages=user(weather_question), tools=[get_weather], stream=True, **chat)
    final = None
    for stream in runner:
        for _ in stream:
            pass
        final = stream.get_final_message()
    check(final.content[-1].text, weather_question)


def runner_with_other_tools():
    """Tools that a program adds and removes between turns are sent in a message of the role system."""
    runner = client.beta.messages.tool_runner(messages=user(weather_question), tools=[get_weather, add], **chat)
    turns = []
    for message in runner:
        turns.append(message.stop_reason)
        if len(turns) == 1:
            runner.add_tools(get_time)
            runner.remove_tools(add)
    assert turns[0] == "tool_use" and turns[-1] == "end_turn" and set(asked) == {"Oslo"}, (turns, asked)
    asked.clear()


async def runner_async():
    later = AsyncAnthropic(**where)
    message = await later.beta.messages.tool_runner(messages=user(weather_question), tools=[get_weather_later], **chat).until_done()
    check(message.content[-1].text, weather_question)


def parsed():
    one = client.messages.parse(messages=user("Who?"), output_format=Person, **chat)
    assert isinstance(one.parsed_output, Person), one
    two = client.beta.messages.parse(messages=user("Who?"), output_format=Person, **chat)
    assert isinstance(two.parsed_output, Person), two


def counted():
    tools = [add.to_dict()]
    counted = client.messages.count_tokens(model=model, messages=user(sum_question), tools=tools)
    whole = client.messages.create(messages=user(sum_question), tools=tools, tool_choice={"type": "none"}, **chat)
    assert counted.input_tokens > 50 and whole.usage.input_tokens + whole.usage.cache_read_input_tokens > 0, (counted, whole)


run(by_hand, by_hand_streamed, runner, runner_without_thread, runner_streamed, runner_with_other_tools, runner_async, parsed, counted)
