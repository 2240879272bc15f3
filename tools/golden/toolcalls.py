#!/usr/bin/env python3
"""Renders conversations with calls of tools by the chat templates that are published with
models, and writes the assistant's turns for the tests of chat/toolcall.

The templates are other people's texts and stay where they are; only what they make of our own
conversations is kept. They come from two source packages, of which nothing else is needed:

    pip download --no-deps --no-binary :all: llama-cpp-python==0.3.36    vendor/llama.cpp/models/templates
    pip download --no-deps --no-binary :all: vllm==0.11.0                examples

One more, Jamba's, is a text in the tests of a third (github.com/huggingface/huggingface.js,
packages/jinja/test/e2e.test.js, ai21labs/AI21-Jamba-Large-1.6), and is to be saved as
ai21labs_AI21-Jamba-Large-1.6.jinja in one of the two folders. Two are for Phi-4-mini, and belong there as
well: the model's own, a line of its tokenizer_config.json (which phi_fc.py of
github.com/ShishirPatil/gorilla quotes), as microsoft-Phi-4-mini-instruct.jinja, and
models/templates/llama-cpp-microsoft-Phi-4-mini-instruct.jinja of github.com/ggml-org/llama.cpp.

The results were made with Python 3.11, Jinja2 3.1.6, MarkupSafe 3.0.4 and transformers 5.23.0
(see jinja_env.py). Run it from the root of the repository, with the two folders:

    python3 tools/golden/toolcalls.py llama_cpp_python-0.3.36/vendor/llama.cpp/models/templates vllm-0.11.0/examples

It writes chat/toolcall/testdata/golden.json. A turn is what follows the generation prompt, without
the token that ends it. Where a template leaves something of a message out, the expected text is
empty, and where it refuses a conversation, such as one with two calls, that one is left out; the
script prints both. A turn that is the same as an earlier one is left out too.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from jinja_env import environment, render  # noqa: E402
from toolcalls_list import CONVERSATIONS, FAMILIES, FORMS, TOOLS  # noqa: E402

OUT = pathlib.Path("chat/toolcall/testdata/golden.json")
QUESTION = {"role": "user", "content": "What is new?"}


def message(family, conversation):
    """The assistant's message as the template of a family takes it."""
    calls = []
    for i, (name, arguments) in enumerate(conversation["calls"]):
        if family.get("arguments") == "text":
            arguments = json.dumps(arguments, ensure_ascii=False)
        id = f"functions.{name}:{i}" if family["format"] == "kimi_k2" else f"aB3dE6gH{i}"
        calls.append({"id": id, "type": "function", "function": {"name": name, "arguments": arguments}})
    if write := family.get("write"):
        return {"role": "assistant", "content": written(write, conversation)}
    thought = conversation.get("reasoning", "")
    m = {"role": "assistant", "content": conversation.get("content", family.get("empty", "")), "tool_calls": calls}
    if thought:
        m |= {"reasoning_content": thought, "reasoning": thought, "thinking": thought}
    return m


def written(write, conversation):
    """The text of a message with calls in a documented form."""
    before = conversation.get("content", "")
    return before + ("\n" if before else "") + write(conversation["calls"])


def turn(env, source, family, conversation):
    """The end of the generation prompt, and what follows it."""
    context = {"bos_token": "", "eos_token": "", "tools": TOOLS, **family.get("variables", {})}
    results = []
    for messages, generate in (([QUESTION], True), ([QUESTION, message(family, conversation)], False)):
        r = render(env, source, {**context, "messages": messages, "add_generation_prompt": generate})
        if "error" in r:
            return r
        results.append(r["output"])
    prompt, text = results
    if not text.startswith(prompt):  # a prompt that opens or closes thoughts which the message has not
        n = next(i for i, (a, b) in enumerate(zip(prompt, text)) if a != b)
        if (tag := prompt.rfind("<", 0, n)) > prompt.rfind(">", 0, n):  # they differ within a tag
            n = tag
        rest, text = prompt[n:], text[n:]
        if rest.strip() != "<think>" or not text.startswith("</think>"):  # nothing was thought
            prompt = prompt[:n]
    else:
        text = text[len(prompt):]
    for end in family["ends"]:
        if (at := text.rfind(end)) >= 0 and not text[at + len(end):].strip():
            text = text[:at]
            break
    else:
        sys.exit(f"{family['template']}: the turn does not end in one of {family['ends']}: {text!r}")
    return {"prompt": prompt[-60:], "turn": text}


def environments():
    """One that renders as transformers does, and one for templates that it refuses: they append
    to lists, or read JSON by a filter that only llama.cpp has."""
    strict, lax = environment(), environment()
    lax.is_safe_attribute = lambda obj, attr, value: True
    lax.filters["from_json"] = json.loads
    return {False: strict, True: lax}


def main():
    folders = [pathlib.Path(a) for a in sys.argv[1:]]
    envs, out = environments(), []
    for family in FAMILIES:
        path = next((p for f in folders if (p := f / family["template"]).exists()), None)
        if path is None:
            sys.exit(f"no {family['template']} in the given folders")
        source, turns, left = path.read_text(), [], {}
        for conversation in CONVERSATIONS:
            r = turn(envs[family.get("lax", False)], source, family, conversation)
            if "error" in r:
                left.setdefault(r["error"], []).append(conversation["name"])
                continue
            expected = {}
            for part in ("content", "reasoning"):
                expected[part] = conversation.get(part, "")
                if expected[part] not in r["turn"]:
                    left.setdefault(f"no {part}", []).append(conversation["name"])
                    expected[part] = ""
            calls = [{"name": name, "arguments": arguments} for name, arguments in conversation["calls"]]
            if any(r["turn"] == t["turn"] for t in turns):
                continue
            if not all(name in r["turn"] for name, _ in conversation["calls"]):
                left.setdefault("a call is left out", []).append(conversation["name"])
                continue
            if conversation["name"] in family.get("wrong", ()):
                left.setdefault("written in another way than the model is to write it", []).append(conversation["name"])
                continue
            turns.append({"name": conversation["name"], **r, **expected, "calls": calls})
        for what, names in left.items():
            print(f"{family['template']}: {what}: {', '.join(names)}")
        out.append({"format": family["format"], "template": family["template"], "turns": turns})
    for form in FORMS:
        turns = []
        for c in CONVERSATIONS:
            if "reasoning" not in c:
                calls = [{"name": name, "arguments": arguments} for name, arguments in c["calls"]]
                turns.append({"name": c["name"], "prompt": "", "turn": written(form["write"], c), "content": c.get("content", ""), "reasoning": "", "calls": calls})
        out.append({"format": form["format"], "template": form["template"], "turns": turns})
    tools = [t["function"] for t in TOOLS]
    OUT.parent.mkdir(exist_ok=True)
    OUT.write_text(json.dumps({"tools": tools, "families": out}, indent=1, ensure_ascii=False) + "\n")
    print(f"{len(out)} templates, {sum(len(f['turns']) for f in out)} turns")


main()
