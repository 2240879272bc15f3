"""What the loops of tools share: where the server is, two tools, and what their loops must come to.

The model is the bundled one, and greedy, so it copies the numbers and the city that it is asked for into its
calls and the results into its answers; a loop that loses a message on the way ends in another text."""

import asyncio
import os

url = os.environ["WEIR_URL"]
key = os.environ["WEIR_API_KEY"]
model = "weir-tiny"

sum_question = "What is 23 plus 58?"
weather_question = "What is the weather in Oslo?"

asked = []  # the arguments of the calls, in order


def add_numbers(a, b):
    asked.append((a, b))
    return '{"sum": %d}' % (a + b)


def weather_in(city):
    asked.append(city)
    return '{"sky": "rainy", "celsius": 7}'


def check(text, question=sum_question):
    """Checks that one call was made, with the question's arguments, and that the answer has its result."""
    calls, text = list(asked), str(text)
    asked.clear()
    if question == sum_question:
        assert calls == [(23, 58)] and "81" in text, (calls, text)
    else:
        assert calls == ["Oslo"] and "rainy" in text, (calls, text)


def run(*parts):
    """Runs functions in order, in one event loop."""

    async def all_of_them():
        for part in parts:
            waiting = part()
            if waiting is not None:
                await waiting
            print(part.__name__, "ok", flush=True)

    asyncio.run(all_of_them())
