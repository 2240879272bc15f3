"""pydantic-ai over chat completions, responses and messages: loops of tools, plain and streamed, and outputs by a tool and
by a schema."""

from typing import Literal

from pydantic import BaseModel
from pydantic_ai import Agent, NativeOutput, ToolOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from common import add_numbers, check, key, model, run, sum_question, url, weather_in, weather_question

openai = OpenAIProvider(base_url=url + "/v1", api_key=key)
schemas = {"supports_json_schema_output": True}  # pydantic-ai knows of Anthropic's own models whether they take schemas
models = {
    "chat": (OpenAIChatModel(model, provider=openai), {"temperature": 0}),
    "responses": (OpenAIResponsesModel(model, provider=openai), {"temperature": 0}),
    "continued": (OpenAIResponsesModel(model, provider=openai), {"temperature": 0, "openai_previous_response_id": "auto"}),
    "messages": (AnthropicModel(model, provider=AnthropicProvider(base_url=url, api_key=key), profile=schemas), {}),
}


class Person(BaseModel):
    tall: bool
    fast: bool


def agents(**options):
    for name, (kind, settings) in models.items():
        yield name, Agent(kind, model_settings={"max_tokens": 200, **settings}, retries=0, **options)


def tools(agent):
    @agent.tool_plain
    def add(a: int, b: int) -> str:
        """Add two integers."""
        return add_numbers(a, b)

    @agent.tool_plain
    def get_weather(city: Literal["Oslo"]) -> str:
        """Tell the weather in a city."""
        return weather_in(city)

    return agent


async def plain():
    for name, agent in agents(instructions="Use the tools when they help."):
        for question in (sum_question, weather_question):
            result = await tools(agent).run(question) if question == sum_question else await agent.run(question)
            assert result.usage.requests == 2 and result.usage.output_tokens > 0, (name, result)
            check(result.output, question)


async def streamed():
    for name, agent in agents():
        async with tools(agent).run_stream(weather_question) as result:
            texts = [text async for text in result.stream_text(debounce_by=None)]
        assert len(texts) > 2, (name, texts)
        check(texts[-1], weather_question)


async def outputs():
    for form in (ToolOutput, NativeOutput):
        for name, agent in agents(output_type=form(Person)):
            result = await agent.run("Who?")
            assert isinstance(result.output, Person), (name, result)
            async with agent.run_stream("Who?") as stream:
                assert isinstance(await stream.get_output(), Person), name


run(plain, streamed, outputs)
