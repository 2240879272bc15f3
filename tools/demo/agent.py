"""An agent in a loop: the bundled model may use a calculator and a table of values until it has the answer.

    make demo-agent                       starts ./weir with the bundled model and runs every task
    python agent.py --url URL [QUESTION]  asks a running server, and the question instead of the tasks

Uses the openai SDK. Prints every message, and ends with status 1 unless each task ends with its right answer.
"""
import argparse
import ast
import json
import operator
import re
import subprocess
import sys

import openai

VALUES = {"price": 37, "count": 24, "rent": 12.5, "manager": "river_owner", "river_owner": "Grace"}
# what is asked, what the answer has to say, and the tools that have to be used for it, in this order
TASKS = [
    ("What is 348 * 27?", "9396", ["calculate"]),
    ("Look up price and count and multiply them.", "888", ["lookup", "lookup", "calculate"]),
    ("Look up rent and multiply it by 6.", "75", ["lookup", "calculate"]),
    ("Look up manager, then look up what it names.", "Grace", ["lookup", "lookup"]),
    ("What is the capital of France?", "Paris", []),
]
TURNS = 8  # an agent that has not answered by then goes in circles


def function(name, description, parameter):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": {
        "type": "object", "properties": {parameter: {"type": "string"}}, "required": [parameter]}}}


TOOLS = [function("calculate", "Evaluate an arithmetic expression.", "expression"), function("lookup", "Look up the value of a key.", "key")]
OPERATORS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.USub: operator.neg}


def calculate(expression):
    """The value of sums of numbers: nothing else that Python knows is evaluated."""
    def value(node):
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return node.value
        if isinstance(node, ast.BinOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.left), value(node.right))
        if isinstance(node, ast.UnaryOp) and type(node.op) in OPERATORS:
            return OPERATORS[type(node.op)](value(node.operand))
        raise ValueError("not a sum")
    v = round(float(value(ast.parse(expression, mode="eval").body)), 4)
    return int(v) if v.is_integer() else v


def use(name, arguments):
    """Runs a tool. Whatever goes wrong is told to the model, which wrote the call."""
    try:
        args = json.loads(arguments)
        if name == "calculate":
            return {"result": calculate(args["expression"])}
        if name == "lookup":
            return {"value": VALUES[args["key"]]} if args["key"] in VALUES else {"error": "not found"}
        return {"error": "no such tool"}
    except (ValueError, KeyError, TypeError, SyntaxError, ZeroDivisionError, RecursionError) as e:
        return {"error": str(e)}


def agent(client, model, question):
    """Returns the answer and the names of the tools that were used for it."""
    messages, used = [{"role": "user", "content": question}], []
    print(f"\nuser       {question}")
    for _ in range(TURNS):
        m = client.chat.completions.create(model=model, messages=messages, tools=TOOLS, temperature=0, max_tokens=200).choices[0].message
        messages.append(m)
        if not m.tool_calls:
            print(f"assistant  {m.content}")
            return m.content or "", used
        for c in m.tool_calls:
            result = json.dumps(use(c.function.name, c.function.arguments))
            print(f"assistant  calls {c.function.name} {c.function.arguments}\ntool       {result}")
            used.append(c.function.name)
            messages.append({"role": "tool", "tool_call_id": c.id, "content": result})
    return "", used


def run(url, question):
    client = openai.OpenAI(base_url=url.rstrip("/") + "/v1", api_key="none", max_retries=0, timeout=60)
    model = client.models.list().data[0].id
    if question:
        return agent(client, model, question)[0] != ""
    wrong = 0
    for question, right, tools in TASKS:
        answer, used = agent(client, model, question)
        if not re.search(rf"(?<![\w.]){re.escape(right)}(?!\w|\.\d)", answer) or used != tools:
            print(f"WRONG      the answer has to say {right}, after {tools}")
            wrong += 1
    print(f"\n{len(TASKS) - wrong} of {len(TASKS)} tasks are right")
    return wrong == 0


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("question", nargs="?")
    ap.add_argument("--url", help="address of a running server, such as http://127.0.0.1:8000")
    ap.add_argument("--weir", default="./weir", help="the binary to start without --url")
    a = ap.parse_args()
    if a.url:
        sys.exit(not run(a.url, a.question))
    server = subprocess.Popen([a.weir, "serve", "--port", "0", "--kv-cache-memory", "256MiB"], stderr=subprocess.PIPE, text=True)
    try:
        url = None
        for line in server.stderr:
            if m := re.search(r"msg=listening url=(\S+)", line):
                url = m[1]
            if "msg=ready" in line:
                break
        if url is None:
            sys.exit("the server did not start")
        good = run(url, a.question)
    finally:
        server.terminate()
        server.communicate()
    sys.exit(not good)


if __name__ == "__main__":
    main()
