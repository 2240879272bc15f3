# The same work by torch as weir gpu-check times: its one argument says which, as
# JSON; the answers are lines of JSON, one for each item, in order.
import json, statistics, sys, time

import torch
import torch.nn.functional as F

job = json.loads(sys.argv[1])
dev = job["device"]
cuda = dev != "cpu"
if cuda:
    torch.cuda.set_device(dev)
torch.set_grad_enabled(False)
torch.manual_seed(1)


def say(**line):
    print(json.dumps(line), flush=True)


def noise(*shape):
    return torch.randn(*shape, device=dev, dtype=torch.bfloat16)


def wait():
    if cuda:
        torch.cuda.synchronize()


def seconds(call, least=1):
    """Time of call(i) for i in turn: the median of five replays of a graph of calls."""
    call(0)
    wait()
    began = time.perf_counter()
    call(0)
    wait()
    reps = max(least, min(50, int(0.02 / max(time.perf_counter() - began, 1e-6))))
    if not cuda:
        began = time.perf_counter()
        call(0)
        return time.perf_counter() - began, "eager, on the CPU"
    how, graph = "graph", torch.cuda.CUDAGraph()
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            call(0)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            for i in range(reps):
                call(i)
        run = graph.replay
    except RuntimeError:
        how = "eager"
        torch.cuda.synchronize()

        def run():
            for i in range(reps):
                call(i)

    times = []
    for _ in range(6):
        a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        a.record()
        run()
        b.record()
        b.synchronize()
        times.append(a.elapsed_time(b) / 1e3 / reps)
    return statistics.median(times[1:]), how


def attention(q, k, v, causal):
    """Heads share keys and values; an old torch gets them repeated."""
    if q.shape[1] == k.shape[1]:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)
    try:
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    except TypeError:
        n = q.shape[1] // k.shape[1]
        return F.scaled_dot_product_attention(q, k.repeat_interleave(n, 1), v.repeat_interleave(n, 1), is_causal=causal)


weights = {}


def linear(rows, n, k):
    if (n, k) not in weights:
        weights.clear()  # one shape at a time, more of it than the cache holds
        copies = max(1, 256 * 1024 * 1024 // (n * k * 2)) if cuda else 1
        weights[n, k] = [noise(n, k) for _ in range(copies)]
    w, x = weights[n, k], noise(rows, k)
    return seconds(lambda i: F.linear(x, w[i % len(w)]), len(w))


def prefill(heads, kv, dim, n):
    weights.clear()
    q, k, v = noise(1, heads, n, dim), noise(1, kv, n, dim), noise(1, kv, n, dim)
    return seconds(lambda i: attention(q, k, v, True))


def decode(heads, kv, dim, seqs, n):
    weights.clear()
    q, k, v = noise(seqs, heads, 1, dim), noise(seqs, kv, n, dim), noise(seqs, kv, n, dim)
    return seconds(lambda i: attention(q, k, v, False))


class Layer(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        h, d = m["hidden"], m["dim"]
        self.norms = [torch.ones(h, device=dev, dtype=torch.bfloat16) for _ in range(2)]
        self.qkv = noise((m["heads"] + 2 * m["kv"]) * d, h) * 0.02
        self.out = noise(h, m["heads"] * d) * 0.02
        self.gate_up = noise(2 * m["mlp"], h) * 0.02
        self.down = noise(h, m["mlp"]) * 0.02

    def forward(self, x, turn, cache):
        m, (b, t, h) = self.m, x.shape
        y = F.linear(F.rms_norm(x, (h,), self.norms[0], 1e-5), self.qkv)
        y = y.view(b, t, -1, m["dim"]).transpose(1, 2)
        q, k, v = y.split([m["heads"], m["kv"], m["kv"]], 1)
        q, k = turn(q), turn(k)
        if cache is not None:  # of the positions before, the last one being this token's
            cache[0][:, :, -1:] = k
            cache[1][:, :, -1:] = v
            k, v = cache
        y = attention(q, k, v, t > 1).transpose(1, 2).reshape(b, t, -1)
        x = x + F.linear(y, self.out)
        gate, up = F.linear(F.rms_norm(x, (h,), self.norms[1], 1e-5), self.gate_up).chunk(2, -1)
        return x + F.linear(F.silu(gate) * up, self.down)


class Model(torch.nn.Module):
    def __init__(self, m):
        super().__init__()
        self.m = m
        self.embedding = noise(m["vocab"], m["hidden"]) * 0.02
        self.norm = torch.ones(m["hidden"], device=dev, dtype=torch.bfloat16)
        self.layers = torch.nn.ModuleList(Layer(m) for _ in range(m["layers"]))

    def turn(self, first, count):
        half = self.m["dim"] // 2
        f = 500000.0 ** (-torch.arange(half, device=dev) / half)
        a = torch.arange(first, first + count, device=dev)[:, None] * f
        cos, sin = (torch.cat([g(a), g(a)], -1).to(torch.bfloat16) for g in (torch.cos, torch.sin))

        def rotate(x):
            return x * cos + torch.cat([-x[..., half:], x[..., :half]], -1) * sin

        return rotate

    def forward(self, tokens, turn, caches):
        x = F.embedding(tokens, self.embedding)
        for i, layer in enumerate(self.layers):
            x = layer(x, turn, caches[i] if caches else None)
        x = F.rms_norm(x[:, -1], (self.m["hidden"],), self.norm, 1e-5)
        return F.linear(x, self.embedding).argmax(-1)


model = None


def forward(kind, batch, n):
    """A prompt of n tokens, or a token for each of batch sequences of n positions."""
    global model
    weights.clear()
    model = model or Model(job["model"])
    m = job["model"]
    if kind == "prefill":
        tokens, turn = torch.randint(m["vocab"], (1, n), device=dev), model.turn(0, n)
        return seconds(lambda i: model(tokens, turn, None))
    tokens, turn = torch.randint(m["vocab"], (batch, 1), device=dev), model.turn(n - 1, 1)
    caches = [[noise(batch, m["kv"], n, m["dim"]) for _ in range(2)] for _ in range(m["layers"])]
    return seconds(lambda i: model(tokens, turn, caches))


say(torch=torch.__version__, device=torch.cuda.get_device_name() if cuda else "cpu")
kinds = {"linear": linear, "prefill": prefill, "decode": decode, "forward": forward}
for key, kind, *args in job["items"]:
    try:
        if kind != "forward":
            model = None
        s, how = kinds[kind](*args)
        say(key=key, us=s * 1e6, how=how)
    except Exception as e:  # what one item cannot do says nothing about the next
        say(key=key, why=f"{type(e).__name__}: {e}"[:300])
