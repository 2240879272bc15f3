"""Runs checks.py with several versions of Weave's client, and the checks of ART's, against weir.

Usage: python run.py [--weir ./weir] [--venvs build/weaveclients] [--only weave|openpipe-art] [--version V]

For each version of pins.txt it makes an environment (once), starts a server with a fresh data
directory and a key, and runs the checks twice for Weave: with writes in batches (the default)
and without. It prints a table of versions and checks, and exits with 1 if one failed.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
KEY = "local-0123456789012345678901234567890123456789"
# What ART's client imports of its dependencies, which include all that trains. Earlier versions
# send no key with a newer openai (2.54 and 3).
ART_NEEDS = ["litellm", "weave", "polars", "typer", "tblib", "nest-asyncio", "setproctitle", "numpy", "pyarrow", "duckdb"]
OPENAI_FOR_ART = {"0.5.0": "openai==1.99.1", "0.5.7": "openai==2.14.0"}


def pins(only, version):
    for line in (HERE / "pins.txt").read_text().splitlines():
        package, _, v = line.partition(" ")
        if not line.startswith("#") and v and only in (None, package) and version in (None, v):
            yield package, v


def environment(venvs, package, version):
    dir = pathlib.Path(venvs) / f"{package}-{version}"
    python = dir / "bin" / "python"
    if not (dir / "ready").exists():
        shutil.rmtree(dir, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", dir], check=True)
        spec = package if version == "newest" else f"{package}=={version}"
        pip = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        if package == "openpipe-art":
            subprocess.run([*pip, "--no-deps", spec], check=True)
            subprocess.run([*pip, *ART_NEEDS, OPENAI_FOR_ART.get(version, "openai")], check=True)
        else:
            subprocess.run([*pip, spec], check=True)
        (dir / "ready").touch()
    return python


class Server:
    def __init__(self, weir):
        self.dir = tempfile.mkdtemp(prefix="weir-clients-")
        self.log = open(os.path.join(self.dir, "log"), "w+")
        self.process = subprocess.Popen([weir, "serve", "--device", "sim", "--port", "0", "--data-dir", os.path.join(self.dir, "data"), "--api-key", KEY], stderr=self.log, stdout=self.log)
        for _ in range(100):
            self.log.seek(0)
            m = re.search(r"msg=listening url=(\S+)", self.log.read())
            if m:
                self.url = m[1]
                return
            time.sleep(0.1)
        raise SystemExit("weir does not start")

    def close(self):
        self.process.terminate()
        self.process.wait(30)
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


def weave_checks(weir, python, batches):
    server = Server(weir)
    out = os.path.join(server.dir, "out")
    env = {**os.environ, "WEAVE_USE_SERVER_CACHE": "false", "HOME": server.dir}
    if not batches:
        env.update(WEAVE_ENABLE_CALLS_COMPLETE="false", WEAVE_USE_CALLS_COMPLETE="false", WEAVE_SHOULD_BATCH="false")
    try:
        p = subprocess.run([python, HERE / "checks.py", server.url, KEY, "acme/support", out], env=env, capture_output=True, text=True, timeout=600)
        lines = [json.loads(line) for line in open(out)] if os.path.exists(out) else []
        if not lines or lines[-1]["name"] != "finish":
            lines.append({"name": "finish", "ok": False, "detail": (p.stderr or p.stdout)[-500:]})
        return lines
    finally:
        server.close()


def art_checks(weir, python):
    server = Server(weir)
    try:
        p = subprocess.run([python, HERE.parent / "artclient" / "check.py", server.url, KEY], capture_output=True, text=True, timeout=600, env={**os.environ, "HOME": server.dir})
        return [{"name": "register, log, checkpoints, export", "ok": p.returncode == 0, "detail": "" if p.returncode == 0 else (p.stdout + p.stderr)[-600:]}]
    finally:
        server.close()


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weir", default="./weir")
    a.add_argument("--venvs", default="build/weaveclients")
    a.add_argument("--only", choices=["weave", "openpipe-art"])
    a.add_argument("--version")
    a = a.parse_args()
    failed = 0
    for package, version in pins(a.only, a.version):
        python = environment(a.venvs, package, version)
        for batches in [True, False] if package == "weave" else [True]:
            lines = weave_checks(a.weir, python, batches) if package == "weave" else art_checks(a.weir, python)
            bad = [line for line in lines if not line["ok"]]
            skipped = [line for line in lines if line.get("skipped")]
            failed += len(bad)
            how = "" if package != "weave" else " with batches" if batches else " one by one"
            print(f"{package} {version}{how}: {len(lines) - len(bad) - len(skipped)} of {len(lines)} checks passed, {len(skipped)} skipped", flush=True)
            for line in bad + skipped:
                print(f"    {line['name']}: {line['detail']}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
