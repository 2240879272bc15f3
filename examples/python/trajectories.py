"""Logs a group of rollouts with rewards, then reads their metrics and exports them.

Only the standard library is needed. OpenPipe ART's client logs to the same function.
"""

import json
import os
import urllib.request

URL = os.environ.get("WEIR_URL", "http://127.0.0.1:8000") + "/v1/preview/models/capitals"
KEY = os.environ.get("WEIR_API_KEY", "none")


def call(path, body=None):
    request = urllib.request.Request(
        URL + path,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Authorization": "Bearer " + KEY},
    )
    with urllib.request.urlopen(request) as response:
        return response.read().decode()


def rollout(answer, reward):
    """A conversation that somebody has judged."""
    return {
        "messages_and_choices": [
            {"role": "user", "content": "What is the capital of France?"},
            {"role": "assistant", "content": answer},
        ],
        "reward": reward,
    }


group = {"trajectories": [rollout("Paris.", 1.0), rollout("I think it is Lyon.", 0.0)], "metadata": {"question": "france"}}
print("logged:", call("/log", {"split": "train", "step": 1, "trajectory_groups": [group]}))
print("metrics:", call("/metrics?split=train"))
print("the good ones, a line each:")
print(call("/export?format=jsonl&split=train&min_reward=0.5"), end="")
