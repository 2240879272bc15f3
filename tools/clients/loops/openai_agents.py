"""The OpenAI Agents SDK: loops of tools over responses and chat completions, plain and streamed, with a handoff, an output
type, and turns of which only the newest items are sent."""

import os
from typing import Literal

os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"

from agents import Agent, ModelSettings, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, SQLiteSession, function_tool
from openai import AsyncOpenAI
from pydantic import BaseModel

from common import add_numbers, check, key, model, run, sum_question, url, weather_in, weather_question

client = AsyncOpenAI(base_url=url + "/v1", api_key=key, max_retries=0)
greedy = ModelSettings(temperature=0, max_tokens=200)


@function_tool
def add(a: int, b: int) -> str:
    """Add two integers."""
    return add_numbers(a, b)


@function_tool
def get_weather(city: Literal["Oslo"]) -> str:
    """Tell the weather in a city."""
    return weather_in(city)


class Person(BaseModel):
    tall: bool
    fast: bool


def agent(kind, **options):
    return Agent(**{"name": "guide", "instructions": "Use the tools when they help.", "tools": [add, get_weather], "model": kind(model, client), "model_settings": greedy, **options})


async def streamed(it, question, **options):
    result = Runner.run_streamed(it, question, **options)
    kinds = [e.item.type async for e in result.stream_events() if e.type == "run_item_stream_event"]
    assert kinds[-1] == "message_output_item" and "tool_call_item" in kinds and "tool_call_output_item" in kinds, kinds
    return result


async def loops(kind, **options):
    check((await Runner.run(agent(kind), sum_question, **options)).final_output)
    check((await streamed(agent(kind), weather_question, **options)).final_output, weather_question)


async def responses():
    await loops(OpenAIResponsesModel)


async def responses_continued():
    """Turn 2 is only the tool's result and previous_response_id, because the server keeps the turn before."""
    await loops(OpenAIResponsesModel, auto_previous_response_id=True)


async def chat():
    await loops(OpenAIChatCompletionsModel)


async def conversation(kind):
    """Two questions in one session, each of them with a call."""
    session = SQLiteSession("one")
    for question in (sum_question, weather_question):
        it = agent(kind, model_settings=greedy.resolve(ModelSettings(tool_choice="required")))
        check((await Runner.run(it, question, session=session)).final_output, question)


async def sessions():
    await conversation(OpenAIResponsesModel)
    await conversation(OpenAIChatCompletionsModel)


async def typed(kind):
    it = agent(kind, output_type=Person, tools=[])
    result = await Runner.run(it, "Who?")
    assert isinstance(result.final_output, Person), result.final_output


async def output_types():
    await typed(OpenAIResponsesModel)
    await typed(OpenAIChatCompletionsModel)


async def handed(kind):
    """An agent that is only told to hand over: a handoff is a tool without arguments."""
    other = agent(kind, name="weather", tools=[get_weather], model_settings=greedy.resolve(ModelSettings(tool_choice="get_weather")))
    first = agent(kind, name="desk", tools=[], handoffs=[other], model_settings=greedy.resolve(ModelSettings(tool_choice="transfer_to_weather")))
    result = await Runner.run(first, weather_question)
    assert result.last_agent.name == "weather", result.last_agent
    check(result.final_output, weather_question)


async def handoffs():
    await handed(OpenAIResponsesModel)
    await handed(OpenAIChatCompletionsModel)


run(responses, responses_continued, chat, sessions, output_types, handoffs)
