"""Sends the same generated requests to weir and to Weave's own SqliteTraceServer, and compares the answers.

Usage: python differential.py [--weir ./weir] [--venv build/weaveclients/difference] [--seed 1] [--rounds 40] [--show 10]

The reference is the server that Weave shipped for tests in its Python package until version
0.52.42; later packages lack it. The script makes an environment with that package and with
what its server imports (once), starts weir with a fresh data directory, and runs
difference/main.py in the environment. It exits with 1 if an answer differs in a way that
difference/named.py does not name; what it names is meant, and has a reason there.
"""

import argparse
import pathlib
import shutil
import subprocess
import sys

import run

# The package was published without what its server needs.
NEEDS = ["weave==0.52.42", "ddtrace==4.16.0", "emoji==2.16.0", "sqlparse==0.6.1", "redis==8.1.0", "clickhouse-connect==1.12.0", "numpy"]


def environment(dir):
    python = dir / "bin" / "python"
    if not (dir / "ready").exists():
        shutil.rmtree(dir, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", dir], check=True)
        subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *NEEDS], check=True)
        (dir / "ready").touch()
    return python


def main():
    a = argparse.ArgumentParser()
    a.add_argument("--weir", default="./weir")
    a.add_argument("--venv", default="build/weaveclients/difference", type=pathlib.Path)
    a.add_argument("--seed", default=1, type=int, help="another seed makes other requests")
    a.add_argument("--rounds", default=40, type=int, help="about 220 requests each")
    a.add_argument("--show", default=10, type=int, help="how many of the differences without a name are printed in full")
    a = a.parse_args()
    python = environment(a.venv)
    server = run.Server(a.weir)
    try:
        main = run.HERE / "difference" / "main.py"
        p = subprocess.run([python, "-W", "ignore", main, server.url, run.KEY, *map(str, (a.seed, a.rounds, a.show))])
    finally:
        server.close()
    sys.exit(p.returncode)


if __name__ == "__main__":
    main()
