"""Measures what a prefix of 8,192 tokens saves when it is read from the disk after a restart.

    make build && python3 tools/load/prefix.py MODEL [FLAGS OF SERVE]

The first request computes the prefix, the second finds it in memory, and after a restart the third reads it from the disk: once
with the pages of the files in the system's cache, and, as root, once without. Set WEIR to measure another program than build/weir.
"""
import json
import os
import random
import sys
import tempfile
import time

from common import Server

TOKENS = 8192


def main():
    r = random.Random(5)
    prefix = [r.randrange(100, 3500) for _ in range(TOKENS)]

    def ask(server, what, tail):
        began = time.time()
        status, text = server.ask("POST", "/v1/completions", {"prompt": prefix + [tail] * 16, "max_tokens": 1})
        if status != 200:
            raise SystemExit(text)
        cached = json.loads(text)["usage"]["prompt_tokens_details"]["cached_tokens"]
        print(f"{what}: {time.time() - began:.2f} s, {cached} tokens cached", flush=True)

    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory() as data:
        args = [*sys.argv[1:], "--kv-offload-dir", folder]
        with Server(*args, data=data) as s:
            ask(s, "computed", 200)
            ask(s, "from memory", 300)
            time.sleep(6)  # copies are written behind
        for what in ("from the disk", "from the disk, pages dropped"):
            if "dropped" in what:
                if os.geteuid() != 0:
                    break
                os.sync()
                with open("/proc/sys/vm/drop_caches", "w") as f:
                    f.write("3")
            with Server(*args, data=data) as s:
                ask(s, what, 400)


if __name__ == "__main__":
    main()
