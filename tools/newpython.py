"""Prints a Python 3.12 or 3.13: this one if it is, else one that PATH or pyenv has. Some packages take no other."""

import os
import pathlib
import shutil
import subprocess
import sys

OLDEST, NEWEST = (3, 12), (3, 13)


def suits(program):
    """Whether the program starts and is of a version that will do. What pyenv puts on PATH may only say that it is not in use."""
    try:
        done = subprocess.run([program, "-c", "import sys; print(*sys.version_info[:2])"], capture_output=True, text=True, timeout=60)
        return done.returncode == 0 and OLDEST <= tuple(map(int, done.stdout.split())) <= NEWEST
    except (OSError, ValueError, subprocess.SubprocessError):
        return False


def candidates():
    yield sys.executable
    names = [f"python3.{minor}" for minor in range(OLDEST[1], NEWEST[1] + 1)]
    yield from filter(None, map(shutil.which, names))
    root = pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv"))
    for name in names:
        yield from map(str, root.glob(f"versions/*/bin/{name}"))


def find():
    """The program, or the end of this one."""
    for program in candidates():
        if suits(program):
            return program
    sys.exit("No Python 3.12 or 3.13 is on PATH or in pyenv, and some packages take no other: install one.")


if __name__ == "__main__":
    print(find())
