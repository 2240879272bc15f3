"""Runs the client of the installed openpipe-art against a running weir.

    python check.py http://127.0.0.1:8000 KEY

registers a model, logs trajectories, asks for the step, deletes checkpoints, starts a
training job, which has to be refused with a sentence, and reads back what was logged. What
the server says is counted, not what the client believes. The server needs a data directory.
The last line is a summary; the status is 0 if all of it held.

openpipe-art is installed without its dependencies, which include all that trains:

    pip install --no-deps openpipe-art==0.5.18
    pip install openai litellm weave polars typer tblib nest-asyncio setproctitle numpy pyarrow duckdb

0.5.0 needs openai 1.99.1, and 0.5.7 and 0.5.16 need version 2 of openai: their clients send no
key with version 3.

Versions to 0.5.7 import everything that trains when they are imported. If that is not
installed, this program puts an empty module in its place: nothing here trains.
"""

import asyncio
import importlib.metadata
import json
import os
import sys
import tempfile
import types
import urllib.error
import urllib.request
import uuid

base, key = sys.argv[1].rstrip("/"), sys.argv[2]
for name in ("WANDB_API_KEY", "OPENAI_API_KEY"):
    os.environ.pop(name, None)  # with a key of W&B, model.log would call W&B
os.chdir(tempfile.mkdtemp())  # where newer clients write their files

try:
    import art
except ImportError:
    for name in [m for m in sys.modules if m == "art" or m.startswith("art.")]:
        del sys.modules[name]
    stub = types.ModuleType("art.tinker")
    stub.TinkerBackend = object
    sys.modules["art.tinker"] = stub
    import art
try:
    from art.serverless import ServerlessBackend
except ImportError:
    from art.serverless.backend import ServerlessBackend
from openai.types.chat.chat_completion import Choice

version = importlib.metadata.version("openpipe-art")
failures = []


def check(what, have, want):
    if have != want:
        failures.append(what)
        print(f"openpipe-art {version}: {what}: {have!r}, want {want!r}")


def raw(path, method="GET"):
    request = urllib.request.Request(base + path, method=method, headers={"Authorization": f"Bearer {key}"})
    with urllib.request.urlopen(request) as answer:
        return answer.read()


def ask(path, method="GET", lines=False):
    text = raw(path, method).decode()
    return [json.loads(line) for line in text.splitlines()] if lines else json.loads(text)


def choice(text):
    return Choice.model_validate({
        "index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text},
        "logprobs": {"content": [{"token": text, "logprob": -0.25, "bytes": list(text.encode()), "top_logprobs": []}], "refusal": None},
    })


def group(rewards, step, metrics):
    """A group of trajectories that the policy of a step has made."""
    made = []
    for i, reward in enumerate(rewards):
        t = art.Trajectory(
            messages_and_choices=[{"role": "user", "content": "Say yes."}, choice(f"yes {i}")],
            reward=reward, metrics=metrics, metadata={"scenario": "s1"}, logs=["a line"],
        )
        for name in ("initial_policy_version", "final_policy_version"):
            if name in type(t).model_fields:
                setattr(t, name, step)
        made.append(t)
    return art.TrajectoryGroup(made)


async def main():
    backend = ServerlessBackend(api_key=key, base_url=base + "/v1")
    entity, project, name = "acme", "art-" + uuid.uuid4().hex[:8], "agent"

    def model():
        return art.TrainableModel(name=name, project=project, entity=entity, base_model="weir-tiny")

    # Registering, twice: the second time it is the same model.
    m = model()
    await m.register(backend)
    again = model()
    await again.register(backend)
    listed = ask(f"/v1/preview/models?entity={entity}&project={project}")["data"]
    check("models on the server", [(e["id"], e["name"], e["base_model"]) for e in listed], [(m.id, name, "weir-tiny")])
    check("the second registration", again.id, m.id)
    check("where answers are asked for", m.inference_base_url.rstrip("/"), base + "/v1")
    check("the step of a new model", await m.get_step(), 0)

    # What model.log does differs: to 0.5.7 it posts to the server; later it writes files.
    groups = [group([0.0, 1.0], 1, {"turns": 1}), group([1.0, 1.0], 2, {"turns": 2})]
    sends = hasattr(backend, "_log")
    await m.log(groups, split="val")
    path = f"/v1/preview/models/{m.id}"
    if not sends:
        check("trajectories that a client keeps to itself", ask(path)["trajectories"], 0)
        await backend._client.models.log(model_id=m.id, trajectory_groups=groups, split="val")
    have = ask(path)
    check("trajectories on the server", (have["logs"], have["groups"], have["trajectories"]), (1, 2, 4))
    versions = "final_policy_version" in art.Trajectory.model_fields
    if not versions:
        # Without versions the trajectories belong to no step; a request of our own has some.
        body = json.dumps({"split": "val", "step": 1, "trajectory_groups": [g.model_dump() for g in groups[:1]]}, default=lambda o: o.model_dump())
        body2 = json.dumps({"split": "val", "step": 2, "trajectory_groups": [g.model_dump() for g in groups[1:]]}, default=lambda o: o.model_dump())
        for b in (body, body2):
            request = urllib.request.Request(base + path + "/log", data=b.encode(), headers={"Authorization": f"Bearer {key}", "Content-Type": "application/json"})
            urllib.request.urlopen(request).read()

    # Steps and checkpoints: those of the policies that made what was logged.
    check("the step to go on from", await m.get_step(), 2)
    seen = [(c.step, c.metrics.get("val/reward")) async for c in backend._client.models.checkpoints.list(model_id=m.id, limit=1, order="asc")]
    check("checkpoints, page by page", seen, [(0, None), (1, 0.5), (2, 1.0)])
    # Older clients keep the newest and the best by the server's metrics; newer ones the best
    # by their own files, in which everything was logged at step 0.
    kept = [2] if sends else [0, 2]
    try:
        await m.delete_checkpoints()
    except Exception as e:
        if "polars" not in type(e).__module__:
            raise
        print(f"openpipe-art {version}: delete_checkpoints fails in the client, with this version of polars: {e}")
        await backend._delete_checkpoint_files(m, kept)
    left = [c["step"] for c in ask(path + "/checkpoints?order=asc")["data"]]
    check("checkpoints that are left", left, kept)
    gone = await backend._client.models.checkpoints.delete(model_id=m.id, steps=[1, 2, 7])
    check("what deleting says", (gone.deleted_count, gone.not_found_steps), (1, [1, 7]))

    # Reading back.
    lines = ask(path + "/export?format=jsonl", lines=True)
    check("rewards read back", [l["trajectory"]["reward"] for l in lines[:4]], [0.0, 1.0, 1.0, 1.0])
    turn = lines[0]["trajectory"]["messages_and_choices"][1]
    check("log-probabilities read back", turn["logprobs"]["content"][0]["logprob"], -0.25)
    text = raw(path + "/export?format=jsonl-groups").decode()
    try:
        from art.utils.trajectory_logging import deserialize_trajectory_groups
        back = [g.trajectories for g in deserialize_trajectory_groups(text)]
    except ImportError:  # from 0.5.7 on ART's files are Parquet
        back = [[art.Trajectory.model_validate(t) for t in json.loads(line)["trajectories"]] for line in text.splitlines()]
    check("groups read by ART from JSON", [[t.reward for t in g] for g in back][:2], [[0.0, 1.0], [1.0, 1.0]])
    turn = back[0][0].messages_and_choices[1]
    turn = turn if isinstance(turn, Choice) else Choice.model_validate(turn)
    check("a choice read by ART from JSON", turn.logprobs.content[0].logprob, -0.25)
    try:
        from art.utils.trajectory_logging import read_trajectory_groups_parquet
    except ImportError:
        pass
    else:
        with open("all.parquet", "wb") as f:
            f.write(raw(path + "/export?format=parquet"))
        back = read_trajectory_groups_parquet("all.parquet")
        parquet = [[t.reward for t in g.trajectories] for g in back][:2]
        check("groups read by ART from Parquet", parquet, [[0.0, 1.0], [1.0, 1.0]])

    # Training is refused with a sentence.
    try:
        await backend._client.training_jobs.create(model_id=m.id, trajectory_groups=groups)
        check("a training job", "accepted", "refused")
    except Exception as e:
        check("a training job", (getattr(e, "status_code", None), "does not train" in f"{e} {getattr(e, 'body', '')}"), (501, True))

    # Deleting, as far as the version can.
    if hasattr(backend, "delete"):
        await backend.delete(m)
    else:
        ask(path, method="DELETE")
    check("models after deleting", ask(f"/v1/preview/models?entity={entity}&project={project}")["data"], [])
    await backend.close()
    return sends


sends = asyncio.run(main())
print(f"openpipe-art {version}: {'failed: ' + ', '.join(failures) if failures else 'all held'}; model.log {'sends to the server' if sends else 'writes files'}")
sys.exit(1 if failures else 0)
