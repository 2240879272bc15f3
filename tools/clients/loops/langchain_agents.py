"""LangChain's agents over chat completions, responses and messages: loops of tools, plain and streamed, and answers with a
schema."""

from typing import Literal

from langchain.agents import create_agent
from langchain.agents.structured_output import ProviderStrategy, ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessageChunk
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from pydantic import BaseModel

from common import add_numbers, check, key, model, run, sum_question, url, weather_in, weather_question

greedy = {"model": model, "api_key": key, "temperature": 0, "max_tokens": 200, "max_retries": 0}
models = {
    "chat": lambda **more: ChatOpenAI(base_url=url + "/v1", use_responses_api=False, **greedy, **more),
    "responses": lambda **more: ChatOpenAI(base_url=url + "/v1", use_responses_api=True, **greedy, **more),
    "continued": lambda **more: ChatOpenAI(base_url=url + "/v1", use_responses_api=True, use_previous_response_id=True, **greedy, **more),
    "messages": lambda **more: ChatAnthropic(base_url=url, **{**greedy, "temperature": None}, **more),
}


@tool
def add(a: int, b: int) -> str:
    """Add two integers."""
    return add_numbers(a, b)


@tool
def get_weather(city: Literal["Oslo"]) -> str:
    """Tell the weather in a city."""
    return weather_in(city)


class Person(BaseModel):
    """What is known of a person."""

    tall: bool
    fast: bool


def user(question):
    return {"messages": [{"role": "user", "content": question}]}


def plain():
    for name, kind in models.items():
        agent = create_agent(kind(), [add, get_weather])
        for question in (sum_question, weather_question):
            messages = agent.invoke(user(question))["messages"]
            assert [m.type for m in messages] == ["human", "ai", "tool", "ai"], (name, messages)
            assert messages[-1].usage_metadata["output_tokens"] > 0, (name, messages)
            check(messages[-1].text, question)


async def streamed():
    for name, kind in models.items():
        agent = create_agent(kind(), [add, get_weather], system_prompt="Use the tools when they help.")
        text, pieces, calls = "", 0, None
        async for piece, _ in agent.astream(user(weather_question), stream_mode="messages"):
            if isinstance(piece, AIMessageChunk):
                calls = piece if calls is None else calls + piece if calls.id == piece.id else piece
                text = text + piece.text if piece.text else text
                pieces += len(piece.tool_call_chunks)
        assert pieces > 1, (name, pieces)
        check(text, weather_question)


def structured():
    for name, kind in models.items():
        if name != "messages":
            method = kind().with_structured_output(Person, method="json_schema", strict=True)
            assert isinstance(method.invoke("Who?"), Person), name
        assert isinstance(kind().with_structured_output(Person, **({} if name == "messages" else {"method": "function_calling"})).invoke("Who?"), Person), name
        for strategy in (ToolStrategy, ProviderStrategy):
            answer = create_agent(kind(), [], response_format=strategy(Person)).invoke(user("Who?"))
            assert isinstance(answer["structured_response"], Person), (name, answer)


run(plain, streamed, structured)
