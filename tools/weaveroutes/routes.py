"""Lists the routes that installed clients of Weave and ART call, and checks a server for them.

Usage: python routes.py SITE_PACKAGES...            prints the routes, sorted, one in a line
       python routes.py --check URL KEY < routes    asks a running server for each of them

A route is read off the texts that begin with a slash in the modules that talk to the server;
what a program fills in is {}. A server lacks a route if every method is answered with 404 and
the words of an unknown path. The list of the pinned versions is routes.txt.
"""

import ast
import base64
import pathlib
import re
import sys
import urllib.error
import urllib.request

MODULES = ["weave/vendor/weave_server_sdk/resources", "weave_server_sdk/resources", "weave/trace_server_bindings", "weave/trace/urls.py", "art/serverless"]
SHAPE = re.compile(r"^/(?:[a-zA-Z0-9_.-]+|\{\})(?:/(?:[a-zA-Z0-9_.-]+|\{\}))*$")
# Pages of the web front end, and paths of files.
NOT_ROUTES = re.compile(r"^/(tmp|home|weave|usr|etc|calls/\{\}$|authorize|workspace)")


def text(node):
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return re.sub(r"\{[^}]*\}", "{}", node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(text(v) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return ""


def routes(site):
    for module in MODULES:
        root = pathlib.Path(site) / module
        for file in [root] if root.is_file() else sorted(root.rglob("*.py")):
            tree = ast.parse(file.read_text())
            inner = {id(v) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for v in node.values}
            for node in ast.walk(tree):
                s = text(node) if isinstance(node, (ast.Constant, ast.JoinedStr)) and id(node) not in inner else ""
                if s != "/" and SHAPE.match(s) and not NOT_ROUTES.match(s):
                    yield "/v1" + s if s.startswith("/preview/") else s


def check(url, key):
    missing = 0
    auth = {"Basic": "Basic " + base64.b64encode(b"api:" + key.encode()).decode(), "Bearer": "Bearer " + key}
    for line in sys.stdin:
        route = line.strip()
        path = re.sub(r"\{\}", "x", route)
        header = auth["Bearer" if path.startswith("/v1/") else "Basic"]
        statuses = []
        for method in ["GET", "POST", "PUT", "DELETE"]:
            r = urllib.request.Request(url + path, method=method, data=b"{}" if method in ("POST", "PUT") else None, headers={"Authorization": header, "Content-Type": "application/json"})
            try:
                statuses.append((urllib.request.urlopen(r).status, ""))
            except urllib.error.HTTPError as e:
                statuses.append((e.code, e.read().decode(errors="replace")))
        if all(status == 404 and "Not Found" in body for status, body in statuses):
            missing += 1
            print("missing:", route)
    print(missing, "routes are missing")
    return missing


if __name__ == "__main__":
    if sys.argv[1] == "--check":
        sys.exit(1 if check(sys.argv[2], sys.argv[3]) else 0)
    for route in sorted({r for site in sys.argv[1:] for r in routes(site)}):
        print(route)
