"""Runs vLLM's toy proxy, unmodified, in front of two weirs, of which one computes prompts and the other answers.

    python tools/pdsplit/run.py --weir ./weir --proxy toy_proxy_server.py

The proxy is tests/v1/kv_connector/nixl_integration/toy_proxy_server.py of vLLM's repository, or of its source package on PyPI. Answers have to
be those of a single weir, streamed ones too, and the tokens of prompts have to come from the other server.
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import secrets
import socket
import subprocess
import sys
import tempfile
import time

import httpx


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def wait(url, process):
    for _ in range(600):
        if process.poll() is not None:
            sys.exit(f"{process.args[:3]} ended with {process.returncode}")
        try:
            if httpx.get(url).status_code == 200:
                return
        except httpx.HTTPError:
            pass
        time.sleep(0.1)
    sys.exit(f"{url} does not answer")


def series(port, name):
    text = httpx.get(f"http://127.0.0.1:{port}/metrics").text
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(name, line))


def chat(i, stream):
    body = {
        "messages": [{"role": "user", "content": f"Tell me story {i} about a robot. " * (3 + i % 10)}],
        "max_tokens": 24, "seed": i, "temperature": 0.8, "logprobs": True, "top_logprobs": 3, "stream": stream,
    }
    return "/v1/chat/completions", body


def text(i, stream):
    return "/v1/completions", {"prompt": f"The robot number {i} went to the lake. " * (3 + i % 10), "max_tokens": 24, "seed": i, "temperature": 0.8, "logprobs": 3, "stream": stream}


def choices(port, path, body):
    """All choices of an answer, those of the chunks of a stream one after another."""
    r = httpx.post(f"http://127.0.0.1:{port}{path}", json=body, timeout=120, headers={"Authorization": "Bearer None"})
    r.raise_for_status()
    if not body["stream"]:
        return r.json()["choices"]
    lines = [line[6:] for line in r.text.splitlines() if line.startswith("data: ")]
    if lines[-1] != "[DONE]":
        sys.exit(f"a stream ends with {lines[-1]}")
    return [json.loads(line)["choices"] for line in lines[:-1]]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weir", default="./weir")
    a.add_argument("--proxy", required=True)
    a.add_argument("--requests", type=int, default=100)
    a.add_argument("--model", default="", help="a model for weir serve; the bundled one by default")
    o = a.parse_args()
    single, prefill, decode, transfer, proxy = (free_port() for _ in range(5))
    running = []
    with tempfile.TemporaryDirectory() as folder:
        secret = pathlib.Path(folder, "secret")
        secret.write_text(secrets.token_hex(32))
        secret.chmod(0o600)

        def serve(port, *args):
            model = [o.model] if o.model else []
            p = subprocess.Popen([o.weir, "serve", *model, "--port", str(port), "--data-dir", "", "--log-level", "warn", *args])
            running.append(p)
            wait(f"http://127.0.0.1:{port}/health", p)
            return p

        try:
            serve(single)
            first = serve(prefill, "--role", "prefill", "--kv-transfer-secret-file", str(secret), "--kv-transfer-listen", f"127.0.0.1:{transfer}")
            serve(decode, "--role", "decode", "--kv-transfer-secret-file", str(secret), "--kv-transfer-peers", f"127.0.0.1:{transfer}")
            front = subprocess.Popen([sys.executable, o.proxy, "--port", str(proxy), "--prefiller-hosts", "127.0.0.1", "--prefiller-ports", str(prefill), "--decoder-hosts", "127.0.0.1", "--decoder-ports", str(decode)],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "OPENAI_API_KEY": "None"})
            running.append(front)
            wait(f"http://127.0.0.1:{proxy}/healthcheck", front)

            def one(i):
                path, body = (chat if i % 2 else text)(i, i % 4 > 1)
                want, got = choices(single, path, body), choices(proxy, path, body)
                return want == got
            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                same = list(pool.map(one, range(o.requests)))
            external = series(decode, r'vllm:prompt_tokens_by_source_total\{.*external_kv_transfer')
            prompt = series(decode, r"vllm:prompt_tokens_total\{")
            held = series(prefill, "weir:kv_transfer_leases ")
            print(f"{sum(same)} of {len(same)} answers equal those of a single server; {external:.0f} of {prompt:.0f} prompt tokens came from the partner, {held:.0f} prompts are still held")
            failed = series(decode, "weir:kv_transfer_offers_failed_total") + series(decode, "weir:kv_transfer_failed_total")
            if not all(same) or external < prompt / 2 or failed:
                sys.exit(f"that is not what it should be; {failed:.0f} transfers have failed")
            # The partner dies behind its answer: what it held is computed.
            path, body = chat(1001, False)
            answer = httpx.post(f"http://127.0.0.1:{prefill}{path}", json={**body, "max_tokens": 1, "kv_transfer_params": {"do_remote_decode": True}}).json()
            first.kill()
            first.wait()
            if choices(decode, path, {**body, "kv_transfer_params": answer["kv_transfer_params"]}) != choices(single, path, body):
                sys.exit("without its partner the server answers something else")
            print("a server whose partner was killed answers the same")
        finally:
            for p in running:
                p.kill()


if __name__ == "__main__":
    main()
