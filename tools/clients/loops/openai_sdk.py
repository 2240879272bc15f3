"""openai-python: loops of tools over chat completions and responses, plain, streamed and parsed."""

import json
from typing import Literal

import openai
from openai import AsyncOpenAI, OpenAI
from openai.lib.responses_tool_runner import AsyncRegisteredFunction, AsyncResponsesToolRunner, RegisteredFunction, ResponsesToolRunner
from pydantic import BaseModel

from common import add_numbers, asked, check, key, model, run, sum_question, url, weather_in, weather_question

where = {"base_url": url + "/v1", "api_key": key, "max_retries": 0}
client = OpenAI(**where)
chat = {"model": model, "temperature": 0}
question = [{"role": "user", "content": sum_question}]


class add(BaseModel):
    """Add two integers."""

    a: int
    b: int


class get_weather(BaseModel):
    """Tell the weather in a city."""

    city: Literal["Oslo"]


class Person(BaseModel):
    tall: bool
    fast: bool


def results(message):
    return [{"role": "tool", "tool_call_id": c.id, "content": add_numbers(**json.loads(c.function.arguments))} for c in message.tool_calls]


def chat_plain():
    tools = [openai.pydantic_function_tool(add), openai.pydantic_function_tool(get_weather)]
    one = client.chat.completions.create(messages=question, tools=tools, tool_choice="required", **chat)
    assert one.choices[0].finish_reason == "tool_calls", one
    message = one.choices[0].message
    two = client.chat.completions.create(messages=[*question, message, *results(message)], tools=tools, tool_choice="auto", **chat)
    assert two.choices[0].finish_reason == "stop", two
    check(two.choices[0].message.content)


def chat_stream():
    """The helper .stream() parses the arguments of strict tools as they come."""
    tools = [openai.pydantic_function_tool(add)]
    named = {"type": "function", "function": {"name": "add"}}
    with client.chat.completions.stream(messages=question, tools=tools, tool_choice=named, stream_options={"include_usage": True}, **chat) as stream:
        kinds = [e.type for e in stream]
        one = stream.get_final_completion()
    assert "tool_calls.function.arguments.delta" in kinds and kinds.count("tool_calls.function.arguments.done") == 1, kinds
    message = one.choices[0].message
    assert message.tool_calls[0].function.parsed_arguments == add(a=23, b=58) and one.usage.completion_tokens > 0, one
    with client.chat.completions.stream(messages=[*question, message, *results(message)], tools=tools, **chat) as stream:
        text = "".join(e.delta for e in stream if e.type == "content.delta")
        assert stream.get_final_completion().choices[0].message.content == text
    check(text)


def chat_parse():
    tools = [openai.pydantic_function_tool(add)]
    one = client.chat.completions.parse(messages=question, tools=tools, tool_choice="required", parallel_tool_calls=False, **chat)
    message = one.choices[0].message
    assert message.tool_calls[0].function.parsed_arguments == add(a=23, b=58), one
    two = client.chat.completions.parse(messages=[*question, message, *results(message)], tools=tools, tool_choice="none", response_format=Person, **chat)
    assert isinstance(two.choices[0].message.parsed, Person), two
    asked.clear()


def responses_plain():
    tools = [openai.pydantic_responses_function_tool(add)]
    one = client.responses.create(input=sum_question, tools=tools, tool_choice="required", temperature=0, model=model)
    call = one.output[-1]
    output = {"type": "function_call_output", "call_id": call.call_id, "output": add_numbers(**json.loads(call.arguments))}
    two = client.responses.create(input=[output], previous_response_id=one.id, tools=tools, temperature=0, model=model)
    check(two.output_text)
    asked.append((23, 58))
    three = client.responses.create(input=[*question, *one.output, output], tools=tools, store=False, temperature=0, model=model)
    check(three.output_text)


def responses_stream():
    tool = openai.pydantic_responses_function_tool(add)
    named = {"type": "function", "name": "add"}
    with client.responses.stream(input=sum_question, tools=[tool], tool_choice=named, temperature=0, model=model) as stream:
        arguments = "".join(e.delta for e in stream if e.type == "response.function_call_arguments.delta")
        one = stream.get_final_response()
    call = one.output[-1]
    assert call.arguments == arguments, one
    output = {"type": "function_call_output", "call_id": call.call_id, "output": add_numbers(**json.loads(arguments))}
    with client.responses.stream(input=[output], previous_response_id=one.id, tools=[tool], temperature=0, model=model) as stream:
        text = "".join(e.delta for e in stream if e.type == "response.output_text.delta")
        assert stream.get_final_response().output_text == text
    check(text)


def responses_parse():
    tools = [openai.pydantic_responses_function_tool(add)]
    one = client.responses.parse(input=sum_question, tools=tools, tool_choice="required", temperature=0, model=model)
    assert one.output[-1].parsed_arguments == add(a=23, b=58), one
    two = client.responses.parse(input="Who?", text_format=Person, tools=tools, tool_choice="none", temperature=0, model=model)
    assert isinstance(two.output_parsed, Person), two


async def runner():
    """The tool runner: functions that it runs itself until there is an answer."""
    function = RegisteredFunction.from_tool(openai.pydantic_responses_function_tool(get_weather), execute=lambda args: weather_in(args.city))
    for stream in (False, True):
        params = {"model": model, "input": weather_question, "temperature": 0}
        final = ResponsesToolRunner(functions=[function]).run(client, params, stream=stream)
        check(final.output_text, weather_question)

    async def weather(args):
        return weather_in(args.city)

    function = AsyncRegisteredFunction.from_tool(openai.pydantic_responses_function_tool(get_weather), execute=weather)
    final = await AsyncResponsesToolRunner(functions=[function]).run(AsyncOpenAI(**where), params, stream=True)
    check(final.output_text, weather_question)


run(chat_plain, chat_stream, chat_parse, responses_plain, responses_stream, responses_parse, runner)
