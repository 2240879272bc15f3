"""Measures what a long prompt does to running streams, and they to it.

    make build && python3 tools/load/latecomer.py MODEL TOKENS [FLAGS OF SERVE]

The prompt's time to its first token is measured alone; then 32 streams run, and the times between their tokens are measured for
a while before it comes and until its first token. Set WEIR to measure another program than build/weir.
"""
import random
import sys
import threading
import time

from common import Server, percentile

STREAMS = 32


def main():
    tokens, r = int(sys.argv[2]), random.Random(7)

    def words(n):
        return [r.randrange(100, 3500) for _ in range(n)]

    def first_token(server):
        began = time.time()
        status, text = server.ask("POST", "/v1/completions", {"prompt": words(tokens), "max_tokens": 1, "temperature": 0})
        if status != 200:
            raise SystemExit(text)
        return time.time() - began

    def stream(server, times, ready, stop):
        # Random weights may draw tokens that have no text and no event, so only some may be drawn.
        body = {"prompt": words(32), "max_tokens": 4000, "temperature": 0, "ignore_eos": True, "stream": True, "allowed_token_ids": list(range(300, 400))}
        c, answer = server.open("POST", "/v1/completions", body)
        for line in answer:
            if line.startswith(b"data: {"):
                times.append(time.time())
                ready.set()
                if stop.is_set():
                    break
        c.close()

    with Server(sys.argv[1], "--max-num-seqs", str(STREAMS + 1), *sys.argv[3:]) as s:
        alone = first_token(s)
        print(f"{tokens} tokens alone: first token after {alone:.1f} s", flush=True)
        stop, runs = threading.Event(), []
        for _ in range(STREAMS):
            times, ready = [], threading.Event()
            t = threading.Thread(target=stream, args=(s, times, ready, stop), daemon=True)
            t.start()
            runs.append((times, t, ready))
        for _, _, ready in runs:
            ready.wait()
        quiet = time.time()
        time.sleep(30)
        came = time.time()
        beside = first_token(s)
        end = time.time()
        stop.set()

        def gaps(begin, end):
            return [b - a for times, _, _ in runs for a, b in zip(times, times[1:]) if begin <= a and b <= end]
        for what, part in (("before", gaps(quiet, came)), ("beside it", gaps(came, end))):
            print(f"{STREAMS} streams {what}: {len(part)} gaps, p50 {percentile(part, 50) * 1e3:.0f} ms, p99 {percentile(part, 99) * 1e3:.0f} ms", flush=True)
        print(f"{tokens} tokens beside {STREAMS} streams: first token after {beside:.1f} s, {beside / alone:.2f} times", flush=True)


if __name__ == "__main__":
    main()
