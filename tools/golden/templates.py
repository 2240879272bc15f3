#!/usr/bin/env python3
"""Renders the test templates of chat/jinja with Jinja2 and writes the results.

The results were made with Python 3.11, Jinja2 3.1.6, MarkupSafe 3.0.4 and transformers
5.23.0; see jinja_env.py. The clock is fixed at 2025-07-10 12:00:00. Run it from the root
of the repository:

    python3 tools/golden/templates.py

It reads testdata/templates/*.jinja and testdata/cases.json and writes two files:
testdata/expected.json has the result of every template with every case, and
testdata/variables.json the variables that each template reads. It also reads
testdata/unit/*.txt and writes the results back into these files, after => for a text and
after =! for an error. A unit case looks like this; the line with @, which sets variables,
may be absent:

    ### name
    @ {"x": [1, 2]}
    {{ x[1:] }}
    => "[2]"
"""

import json
import pathlib
import sys
import warnings

import jinja2.meta

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from jinja_env import environment, render  # noqa: E402

warnings.simplefilter("ignore")
ROOT = pathlib.Path("chat/jinja/testdata")


def templates(env):
    cases = json.loads((ROOT / "cases.json").read_text())
    out, variables = {}, {}
    for path in sorted((ROOT / "templates").glob("*.jinja")):
        source = path.read_text()
        variables[path.name] = sorted(jinja2.meta.find_undeclared_variables(env.parse(source)))
        out[path.name] = {name: render(env, source, {**cases["defaults"], **case}) for name, case in cases["cases"].items()}
    (ROOT / "expected.json").write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")
    (ROOT / "variables.json").write_text(json.dumps(variables, indent=1) + "\n")
    results = [r for by_case in out.values() for r in by_case.values()]
    print(f"{len(out)} templates, {len(results)} renders, {sum('error' in r for r in results)} of them errors")


def unit(env, path):
    out, count = [], 0
    for block in path.read_text().split("### ")[1:]:
        name, _, rest = block.partition("\n")
        lines = rest.split("\n")
        ends = [i for i, line in enumerate(lines) if line.startswith(("=> ", "=! "))]
        lines = lines[:ends[0]] if ends else rest.rstrip("\n").split("\n")
        variables = {}
        body = lines
        if lines and lines[0].startswith("@ "):
            variables, body = json.loads(lines[0][2:]), lines[1:]
        r = render(env, "\n".join(body), variables)
        mark, text = ("=>", r["output"]) if "output" in r else ("=!", r["error"])
        out.append("\n".join([f"### {name}", *lines, f"{mark} {json.dumps(text, ensure_ascii=False)}", ""]))
        count += 1
    path.write_text("\n".join(out))
    print(f"{path.name}: {count} cases")


def main():
    env = environment()
    templates(env)
    for path in sorted((ROOT / "unit").glob("*.txt")):
        unit(env, path)


main()
