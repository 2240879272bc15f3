"""How each agent is told where its model is, and what calls the model is to write.

An agent has a command, variables of the environment, files of its home, and the calls by which it
reads a file. Settings are those that its documentation names; none of them changes what it sends.
"""

import dataclasses
import json
import pathlib

MODEL = "weir-agents"
KEY = "local-key"


@dataclasses.dataclass
class Run:
    """One run of an agent: where it works, and what it has to find out."""

    url: str  # of weir
    home: pathlib.Path
    note: pathlib.Path  # the file that the agent is to read
    model: str = MODEL

    @property
    def task(self):
        return f"Read the file {self.note.name} with a tool and say what it holds."


@dataclasses.dataclass
class Agent:
    name: str
    program: str  # below the folder of npm's or Python's programs
    arguments: object  # of a Run
    calls: object = lambda run: []  # of a Run: names and arguments of the calls of the loop, the last of which reads the file
    environment: object = lambda run: {}
    files: object = lambda run: {}  # path below the home: text
    ends: tuple = ()  # name and arguments of a call that comes with the answer, for an agent that has to be told that it is done
    makes: str = ""  # a file that the calls before the last one make
    ignored: frozenset = frozenset()  # fields that weir may leave out
    model: str = MODEL


# What a server on one's own machine cannot run for OpenAI's agents: docs/interface/responses-api.md, P-16.
HOSTED = frozenset(["web_search", "tool_search"])


def codex(run):
    return {".codex/config.toml": f"""
model = "{run.model}"
model_provider = "weir"
[model_providers.weir]
name = "weir"
base_url = "{run.url}/v1"
wire_api = "responses"
"""}


def claude(run):
    return {"ANTHROPIC_BASE_URL": run.url, "ANTHROPIC_API_KEY": KEY, "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_AUTOUPDATER": "1"}


def opencode(package):
    def files(run):
        return {".config/opencode/opencode.json": json.dumps({
            "model": f"weir/{run.model}", "autoupdate": False, "share": "disabled",
            "provider": {"weir": {
                "npm": package, "name": "weir", "options": {"baseURL": f"{run.url}/v1", "apiKey": KEY},
                "models": {run.model: {"name": run.model, "tool_call": True, "limit": {"context": 65536, "output": 32000}}},
            }},
        })}
    return files


def qwen(kind):
    def environment(run):
        if kind == "anthropic":
            return {"ANTHROPIC_BASE_URL": run.url, "ANTHROPIC_API_KEY": KEY, "ANTHROPIC_MODEL": run.model}
        return {"OPENAI_BASE_URL": f"{run.url}/v1", "OPENAI_API_KEY": KEY, "OPENAI_MODEL": run.model}
    return environment


def copilot(kind, **more):
    def environment(run):
        base = run.url if kind == "anthropic" else f"{run.url}/v1"
        return {"COPILOT_PROVIDER_BASE_URL": base, "COPILOT_PROVIDER_TYPE": kind, "COPILOT_PROVIDER_API_KEY": KEY, "COPILOT_MODEL": run.model, "COPILOT_OFFLINE": "true", **more}
    return environment


def aider(run):
    return {"OPENAI_API_BASE": f"{run.url}/v1", "OPENAI_API_KEY": KEY, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


def pi(api):
    def files(run):
        base = run.url if api == "anthropic-messages" else f"{run.url}/v1"
        return {".pi/agent/models.json": json.dumps({"providers": {"weir": {
            "baseUrl": base, "api": api, "apiKey": KEY, "models": [{"id": run.model, "contextWindow": 65536, "maxTokens": 32000}],
        }}})}
    return files


def cline(run):
    settings = {"provider": "openai-compatible", "apiKey": KEY, "model": run.model, "baseUrl": f"{run.url}/v1"}
    return {".cline/data/settings/providers.json": json.dumps({"version": 1, "lastUsedProvider": "openai-compatible", "modes": {}, "providers": {
        "openai-compatible": {"settings": settings, "updatedAt": "2026-11-28T00:00:00.000Z", "tokenSource": "manual"}}})}


def vibe(run):
    return {".vibe/config.toml": f"""
active_model = "{run.model}"
[[providers]]
name = "weir"
api_base = "{run.url}/v1"
api_key_env_var = "WEIR_KEY"
[[models]]
name = "{run.model}"
provider = "weir"
alias = "{run.model}"
"""}


def mini(run):
    return {"OPENAI_API_BASE": f"{run.url}/v1", "OPENAI_API_KEY": KEY, "MSWEA_CONFIGURED": "true", "MSWEA_COST_TRACKING": "ignore_errors", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}


PATCH = "*** Begin Patch\n*** Add File: made.txt\n+made\n*** End Patch\n"

CODEX = Agent("codex", "codex", lambda run: ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", run.task],
              calls=lambda run: [("exec_command", {"cmd": f"cat {run.note.name}"})], files=codex, ignored=HOSTED)
CLAUDE = Agent("claude", "claude", lambda run: ["-p", run.task, "--model", run.model, "--allowedTools", "Read"],
               calls=lambda run: [("Read", {"file_path": str(run.note)})], environment=claude)
OPENCODE = Agent("opencode", "opencode", lambda run: ["run", run.task],
                 calls=lambda run: [("read", {"filePath": str(run.note)})], files=opencode("@ai-sdk/openai-compatible"))
QWEN = Agent("qwen", "qwen", lambda run: ["-p", run.task, "--auth-type", "openai", "--yolo"],
             calls=lambda run: [("read_file", {"file_path": str(run.note)})], environment=qwen("openai"))
COPILOT = Agent("copilot", "copilot", lambda run: ["-p", run.task, "--allow-all-tools"],
                calls=lambda run: [("view", {"path": str(run.note)})], environment=copilot("openai"))
PI = Agent("pi", "pi", lambda run: ["-p", run.task, "--model", f"weir/{run.model}"],
           calls=lambda run: [("read", {"path": run.note.name})], environment=lambda run: {"PI_OFFLINE": "1"}, files=pi("openai-completions"), ignored=frozenset(["store"]))
CLINE = Agent("cline", "cline", lambda run: [run.task], calls=lambda run: [("read_files", {"files": [{"path": str(run.note)}]})], files=cline)
VIBE = Agent("vibe", "vibe", lambda run: ["-p", run.task, "--auto-approve", "--trust"], calls=lambda run: [("read_file", {"path": str(run.note)})],
             environment=lambda run: {"WEIR_KEY": KEY}, files=vibe)
MINI = Agent("mini", "mini", lambda run: ["-m", f"openai/{run.model}", "-t", run.task, "-y", "--exit-immediately"],
             calls=lambda run: [("bash", {"command": f"cat {run.note.name}"})], environment=mini, ends=("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"}))
AIDER = Agent("aider", "aider", lambda run: ["--model", f"openai/{run.model}", "--message", run.task, "--yes-always", "--no-git", "--edit-format", "diff",
                                             "--no-check-update", "--no-show-model-warnings", "--analytics-disable", "--no-show-release-notes", run.note.name],
              environment=aider)

# All agents; and what they send otherwise if they are told of another interface or of a model that they know, or if
# calls have another form.
AGENTS = [
    CODEX,
    dataclasses.replace(CODEX, name="codex-namespace", calls=lambda run: [("multi_agent_v1__close_agent", {"target": "nobody"}), *CODEX.calls(run)]),
    dataclasses.replace(CODEX, name="codex-gpt-5.5", model="gpt-5.5"),
    dataclasses.replace(CODEX, name="codex-gpt-5.5-custom", model="gpt-5.5", makes="made.txt", calls=lambda run: [("apply_patch", {"input": PATCH}), *CODEX.calls(run)]),
    CLAUDE,
    dataclasses.replace(CLAUDE, name="claude-deferred", calls=lambda run: [("ToolSearch", {"query": "select:CronList,Monitor", "max_results": 5}), ("CronList", {}), *CLAUDE.calls(run)]),
    dataclasses.replace(CLAUDE, name="claude-opus-4-7", model="claude-opus-4-7"),
    dataclasses.replace(CLAUDE, name="claude-stream-json", arguments=lambda run: [*CLAUDE.arguments(run), "--output-format", "stream-json", "--verbose"]),
    OPENCODE,
    dataclasses.replace(OPENCODE, name="opencode-responses", files=opencode("@ai-sdk/openai")),
    dataclasses.replace(OPENCODE, name="opencode-messages", files=opencode("@ai-sdk/anthropic")),
    QWEN,
    dataclasses.replace(QWEN, name="qwen-messages", environment=qwen("anthropic"), arguments=lambda run: ["-p", run.task, "--auth-type", "anthropic", "--yolo"]),
    COPILOT,
    dataclasses.replace(COPILOT, name="copilot-responses", environment=copilot("openai", COPILOT_PROVIDER_WIRE_API="responses"), ignored=HOSTED),
    dataclasses.replace(COPILOT, name="copilot-responses-gpt-5.5", environment=copilot("openai", COPILOT_PROVIDER_WIRE_API="responses"), ignored=HOSTED, model="gpt-5.5"),
    dataclasses.replace(COPILOT, name="copilot-messages", environment=copilot("anthropic")),
    PI,
    dataclasses.replace(PI, name="pi-responses", files=pi("openai-responses")),
    dataclasses.replace(PI, name="pi-messages", files=pi("anthropic-messages")),
    CLINE,
    VIBE,
    MINI,
    AIDER,
]
