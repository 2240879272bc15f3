"""Measures the demo model through a running server, so that the server's reading of calls is measured too.

    weir serve --port 8000 models/weir-tiny &
    python evaluate.py [--url http://127.0.0.1:8000/v1] [--conversations 200] [--seed 9001] [--think] [--show]

Needs Python alone. Conversations come from the generators of the corpus with a seed that training does not use. Every turn
of the assistant is asked for greedily, with the turns before it as the corpus has them, and compared with the corpus's:
- "call opened": a call was due, and the calls made have the right names in the right order;
- "arguments exact": of the turns with a call due, those whose calls are the right ones with equal JSON arguments;
- "no call": words were due, and no call was made; "plain" needs no tool, "refusal" has no tool that fits, "result" uses one;
- "words exact": words were due, and the answer is the corpus's to the letter.
Then 250 conversations without tools and with the seven tools of the first version, of which the last turn is asked for; a
story counts as exact when it opens and ends as the corpus's stories do.
"""
import argparse
import collections
import concurrent.futures
import json
import random
import re
import urllib.request

import corpus
import toolcorpus

STORY_ASKED = re.compile(r"story|A bedtime")


def ask(url, messages, tools, think):
    body = {"model": "weir-tiny", "messages": messages, "temperature": 0, "max_tokens": 300,
            "chat_template_kwargs": {"enable_thinking": think}}
    if tools:
        body["tools"] = tools
    request = urllib.request.Request(url + "/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["choices"][0]["message"]


def for_wire(messages):
    """The corpus's messages in the form of the interface: calls have ids and their arguments are strings."""
    out, pending, n = [], [], 0
    for m in messages:
        w = {"role": m["role"], "content": m["content"]}
        if m.get("tool_calls"):
            w["tool_calls"] = []
            for c in m["tool_calls"]:
                n += 1
                pending.append(f"call_{n}")
                f = c["function"]
                w["tool_calls"].append({"id": pending[-1], "type": "function", "function": {
                    "name": f["name"], "arguments": json.dumps(f["arguments"], ensure_ascii=False)}})
        if m["role"] == "tool":
            w["tool_call_id"] = pending.pop(0)
        out.append(w)
    return out


def pairs(calls):
    """Names and arguments, comparable: 1, 1.0 and true stay different."""
    out = []
    for c in calls:
        a = c["function"]["arguments"]
        try:
            a = json.loads(a) if isinstance(a, str) else a
        except ValueError:
            pass
        out.append((c["function"]["name"], json.dumps(a, sort_keys=True)))
    return out


def judge(messages, i, got):
    """Returns what kind of turn message i is and for each measure whether the answer meets it."""
    want, calls = messages[i], pairs(got.get("tool_calls") or [])
    if want.get("tool_calls"):
        due = pairs(want["tool_calls"])
        if want.get("open_end"):  # the calls of the next turn may be made at once
            due = (due + pairs(messages[i + 2]["tool_calls"]))[:max(len(due), len(calls))]
        return "call", {"call opened": [c[0] for c in calls] == [d[0] for d in due], "arguments exact": calls == due}
    kind = "result" if messages[i - 1]["role"] == "tool" else "refusal" if want["content"] == toolcorpus.REFUSAL else "plain"
    text = (got.get("content") or "").strip()
    same = text == want["content"]
    if STORY_ASKED.search(messages[i - 1]["content"]):
        same = bool(STORY.fullmatch(text.removeprefix("Arr! ")))
    return kind, {"no call": not calls, "words exact": not calls and same}


def pattern(templates):
    return "(?:" + "|".join(re.sub(r"\\\{\w+\\\}", r".+?", re.escape(t)) for t in templates) + ")"


STORY = re.compile(pattern(corpus.STORY_OPEN) + " .* " + pattern(corpus.STORY_END))


def measure(a, samples, turns):
    jobs = [(s, i) for s in samples for i in turns(s["messages"])]
    with concurrent.futures.ThreadPoolExecutor(a.parallel) as pool:
        answers = list(pool.map(lambda j: ask(a.url, for_wire(j[0]["messages"][:j[1]]), j[0]["tools"], a.think), jobs))
    counts = collections.defaultdict(lambda: [0, 0])
    for (s, i), got in zip(jobs, answers):
        kind, marks = judge(s["messages"], i, got)
        if not s["tools"]:
            kind = "numbers" if any(c.isdigit() for c in s["messages"][i]["content"]) else "text"
        for measure, met in marks.items():
            for k in {kind, "all with words" if "no call" in marks else kind}:
                counts[measure, k][0] += met
                counts[measure, k][1] += 1
        if a.show and not all(marks.values()):
            print("MISS", kind, marks, "\n  asked", json.dumps(s["messages"][i - 1], ensure_ascii=False), "\n  due", s["messages"][i].get("tool_calls") or s["messages"][i]["content"],
                  "\n  got", json.dumps(got, ensure_ascii=False), "\n  tools", [t["function"]["name"] for t in s["tools"] or []])
    for (measure, kind), (n, of) in sorted(counts.items()):
        print(f"  {measure}, {kind}: {n} of {of} ({100 * n / of:.1f} %)")


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--url", default="http://127.0.0.1:8000/v1")
    ap.add_argument("--conversations", type=int, default=200)
    ap.add_argument("--seed", type=int, default=9001)
    ap.add_argument("--parallel", type=int, default=4)
    ap.add_argument("--think", action="store_true", help="ask with enable_thinking")
    ap.add_argument("--show", action="store_true", help="print each turn that misses")
    a = ap.parse_args()
    rng = random.Random(a.seed)
    print(f"{a.conversations} conversations with tools, every turn:")
    measure(a, [toolcorpus.with_tools(rng) for _ in range(a.conversations)], lambda ms: [i for i, m in enumerate(ms) if m["role"] == "assistant"])
    old = a.conversations * 5 // 4
    print(f"{old * 7 // 10} conversations without tools, the last turn:")
    measure(a, [{"messages": corpus.conversation(rng), "tools": None} for _ in range(old * 7 // 10)], lambda ms: [len(ms) - 1])
    print(f"{old - old * 7 // 10} conversations with the seven tools, every turn:")
    measure(a, [toolcorpus.seven(rng) for _ in range(old - old * 7 // 10)], lambda ms: [i for i, m in enumerate(ms) if m["role"] == "assistant"])


if __name__ == "__main__":
    main()
