"""What the measurements of this folder share: a server on a free port, requests, and metrics. Needs Python alone."""
import http.client
import json
import os
import re
import socket
import subprocess
import tempfile
import time

WEIR = os.environ.get("WEIR", "build/weir")


class Server:
    """weir serve with the given arguments, and a folder for its data that goes with it."""

    def __init__(self, *args, data=None):
        self.folder = tempfile.TemporaryDirectory()
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self.process = subprocess.Popen([WEIR, "serve", "--port", str(self.port), "--data-dir", data or self.folder.name, *args],
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for _ in range(1200):
            try:
                if self.ask("GET", "/ready")[0] == 200:
                    return
            except OSError:
                pass
            if self.process.poll() is not None:
                raise SystemExit(f"weir serve has ended with status {self.process.returncode}: {args}")
            time.sleep(0.1)
        raise SystemExit("weir serve is not ready after two minutes")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait()
        self.folder.cleanup()

    def open(self, method, path, body=None, key=None):
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=1800)
        headers = {"Content-Type": "application/json"}
        if key:
            headers["Authorization"] = "Bearer " + key
        c.request(method, path, json.dumps(body) if body is not None else None, headers)
        return c, c.getresponse()

    def ask(self, method, path, body=None, key=None):
        c, r = self.open(method, path, body, key)
        text = r.read().decode()
        c.close()
        return r.status, text

    def metric(self, name, label, key=None):
        """The values of a series by one of its labels."""
        out = {}
        for labels, value in re.findall(name + r"\{([^}]*)\} (\S+)", self.ask("GET", "/metrics", key=key)[1]):
            at = dict(re.findall(r'(\w+)="([^"]*)"', labels)).get(label)
            out[at] = out.get(at, 0) + float(value)
        return out


def percentile(values, p):
    values = sorted(values)
    return values[min(len(values) - 1, int(p / 100 * len(values)))]
