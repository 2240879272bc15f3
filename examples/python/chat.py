"""Asks a question, then streams an answer, with OpenAI's own client."""

import os

from openai import OpenAI

client = OpenAI(
    base_url=os.environ.get("WEIR_URL", "http://127.0.0.1:8000") + "/v1",
    api_key=os.environ.get("WEIR_API_KEY", "none"),
)
model = client.models.list().data[0].id

answer = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "What is the capital of France?"}],
    temperature=0,
    max_tokens=50,
)
print(f"{model}: {answer.choices[0].message.content}\n")

stream = client.chat.completions.create(
    model=model,
    messages=[{"role": "user", "content": "Tell me a story about a robot."}],
    max_tokens=50,
    stream=True,
    stream_options={"include_usage": True},
)
for chunk in stream:
    for choice in chunk.choices:
        print(choice.delta.content or "", end="", flush=True)
    if chunk.usage:
        print(f"\n({chunk.usage.completion_tokens} tokens)")
