"""Measures what tenants and projects with weights 3 and 1 get of an overloaded server, and how long the lowest priority waits.

    make build && python3 tools/load/shares.py

Each side keeps 32 requests in flight with `weir bench serve`, of which the server computes 16 at a time. After four seconds the
tokens of the next twenty are counted from /metrics. Set WEIR to measure another program than build/weir.
"""
import hashlib
import pathlib
import subprocess
import tempfile
import time

from common import WEIR, Server


def hashed(key):
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


KEYS = f"""keys:
  - {{id: big, hash: "{hashed('key-big')}", weight: 3}}
  - {{id: small, hash: "{hashed('key-small')}", weight: 1}}
  - {{id: one, hash: "{hashed('key-one')}", project_weights: {{team/x: 3, team/y: 1}}}}
  - {{id: admin, hash: "{hashed('key-admin')}", rights: [read, write, admin]}}
# end
"""


class Load:
    """Requests without end, from a `weir bench serve` of their own."""

    def __init__(self, server, key, seed, *args, streams=32):
        self.process = subprocess.Popen([WEIR, "bench", "serve", "--base-url", server.url, "--api-key", key, "--num-prompts", "100000", "--max-concurrency", str(streams),
                                         "--random-input-len", "128", "--random-output-len", "64", "--seed", str(seed), "--disable-tqdm", *args],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()


def shares(what, server, series, label):
    time.sleep(4)
    before, began = server.metric(series, label, "key-admin"), time.time()
    time.sleep(20)
    after, took = server.metric(series, label, "key-admin"), time.time() - began
    rates = sorted(((after[k] - before.get(k, 0)) / took, k) for k in after if after[k] > before.get(k, 0))
    print(f"{what}:", ", ".join(f"{k} {r:.0f} tokens/s" for r, k in rates), f"(ratio {rates[-1][0] / rates[0][0]:.3f})", flush=True)


def lowest(server, n=5):
    """The seconds that requests of the lowest priority take, one after the other."""
    took = []
    for i in range(n):
        began = time.time()
        server.ask("POST", "/v1/chat/completions", {"messages": [{"role": "user", "content": f"Tell me story {i}."}], "max_tokens": 16, "ignore_eos": True, "priority": 100}, "key-small")
        took.append(time.time() - began)
    return " ".join(f"{t:.2f}" for t in took)


def main():
    with tempfile.TemporaryDirectory() as folder:
        keys = pathlib.Path(folder, "keys.yaml")
        keys.write_text(KEYS)
        args = ["--credentials", str(keys), "--max-num-seqs", "16"]
        with Server(*args) as s:
            with Load(s, "key-big", 1), Load(s, "key-small", 2):
                shares("tenants 3:1", s, "weir:tenant_computed_tokens_total", "tenant")
            with Load(s, "key-one", 3, "--header", "OpenAI-Project=team/x"), Load(s, "key-one", 4, "--header", "OpenAI-Project=team/y"):
                shares("projects 3:1", s, "weir:project_generation_tokens_total", "project")
            with Load(s, "key-big", 5), Load(s, "key-small", 6, "--random-input-len", "16", "--random-output-len", "256"):
                shares("tenants 3:1, the second with short prompts and long answers", s, "weir:tenant_computed_tokens_total", "tenant")
        with Server(*args, "--scheduling-policy", "priority") as s:
            for who, key in (("another tenant", "key-big"), ("its own tenant", "key-small")):
                with Load(s, key, 7, "--extra-body", '{"priority":0}', streams=64):
                    time.sleep(3)
                    print(f"priority 100 beside 64 streams of priority 0 of {who}: {lowest(s)} s", flush=True)


if __name__ == "__main__":
    main()
