"""What single recurrences make of made-up rows, in double precision, for package device/cpu.

    python recurrences.py ../../device/cpu/testdata/recurrences.txt

Written from the papers and not from any code here: the gated delta rule (arXiv:2412.06464, equation 10), Kimi delta
attention, whose decay is one for each key dimension (arXiv:2510.26692), and the recurrences of Mamba 2 (arXiv:2405.21060,
in its form with one scalar for each head) and of Mamba (arXiv:2312.00752, algorithm 2). Each line is a name and numbers: rows one after another, and last the
state, heads one after another, [key][value], or of Mamba [head dimension][state dimension].
"""

import sys

import numpy as np

ROWS = 9


def made_up(seed, *shape):
    """Multiples of 1/64 in [-2, 2), which float32 has exactly."""
    i = np.arange(int(np.prod(shape)), dtype=np.uint64) + np.uint64(seed * 100003)
    h = (i * np.uint64(2654435761)) % np.uint64(1 << 32)
    h = ((h ^ (h >> np.uint64(15))) * np.uint64(2246822519)) % np.uint64(1 << 32)
    return ((h >> np.uint64(24)).astype(np.float64) / 64 - 2).reshape(shape)


def softplus(x):
    return np.logaddexp(0, x)


def delta(seed, key_heads, heads, keys, values, per_channel, lower=0):
    q, k, v = made_up(seed, ROWS, key_heads, keys), made_up(seed + 1, ROWS, key_heads, keys), made_up(seed + 2, ROWS, heads, values)
    width = keys if per_channel else 1
    a, b, bias = made_up(seed + 3, ROWS, heads, width), made_up(seed + 4, ROWS, heads), made_up(seed + 5, heads, width)
    rate = -1 - made_up(seed + 6, heads) / 4
    state, rows = np.zeros((heads, keys, values)), []
    q = np.repeat(q, heads // key_heads, axis=1)
    k = np.repeat(k, heads // key_heads, axis=1)
    norm = lambda x: x / np.sqrt(np.sum(x * x, axis=-1, keepdims=True) + 1e-6)
    for t in range(ROWS):
        query, key, beta = norm(q[t]), norm(k[t]), 2 / (1 + np.exp(-b[t]))
        alpha = np.exp(rate[:, None] * softplus(a[t] + bias))
        if lower:  # as Ling 3.0 bounds it
            alpha = np.exp(lower / (1 + np.exp(rate[:, None] * (a[t] + bias))))
        state = state * alpha[:, :, None]
        # S (I - beta k kᵀ) + beta v kᵀ, turned over
        state = np.stack([s - bt * np.outer(kt, kt) @ s + bt * np.outer(kt, vt) for s, bt, kt, vt in zip(state, beta, key, v[t])])
        rows.append(np.einsum("hk,hkv->hv", query, state) * 0.25)
    return np.concatenate([np.ravel(rows), np.ravel(state)])


def scan(seed, heads, size, groups, states):
    x, b, c = made_up(seed, ROWS, heads, size), made_up(seed + 1, ROWS, groups, states), made_up(seed + 2, ROWS, groups, states)
    step, bias = made_up(seed + 3, ROWS, heads), made_up(seed + 4, heads)
    rate, skip = -1 - made_up(seed + 5, heads) / 4, made_up(seed + 6, heads)
    b, c = np.repeat(b, heads // groups, axis=1), np.repeat(c, heads // groups, axis=1)
    state, rows = np.zeros((heads, size, states)), []
    for t in range(ROWS):
        dt = np.clip(softplus(step[t] + bias), 0.125, 1.5)
        state = np.exp(dt * rate)[:, None, None] * state + np.einsum("h,hp,hn->hpn", dt, x[t], b[t])
        rows.append(np.einsum("hpn,hn->hp", state, c[t]) + skip[:, None] * x[t])
    return np.concatenate([np.ravel(rows), np.ravel(state)])


def selective(seed, columns, states):
    x, b, c = made_up(seed, ROWS, columns), made_up(seed + 1, ROWS, states), made_up(seed + 2, ROWS, states)
    step, bias = made_up(seed + 3, ROWS, columns), made_up(seed + 4, columns)
    rate, skip = -1 - made_up(seed + 5, columns, states) / 4, made_up(seed + 6, columns)
    state, rows = np.zeros((columns, states)), []
    for t in range(ROWS):
        dt = np.clip(softplus(step[t] + bias), 0.125, 1.5)
        state = np.exp(dt[:, None] * rate) * state + np.outer(dt * x[t], b[t])
        rows.append(state @ c[t] + skip * x[t])
    return np.concatenate([np.ravel(rows), np.ravel(state)])


def conv(seed, columns, width):
    x, w, bias = made_up(seed, ROWS, columns), made_up(seed + 1, columns, width), made_up(seed + 2, columns)
    padded = np.concatenate([np.zeros((width - 1, columns)), x])
    y = np.stack([bias + np.einsum("kc,ck->c", padded[t : t + width], w) for t in range(ROWS)])
    return np.ravel(y / (1 + np.exp(-y)))


cases = {
    "delta": delta(1, 1, 2, 16, 24, False),
    "deltaPerChannel": delta(11, 2, 2, 10, 40, True),
    "deltaBounded": delta(41, 1, 1, 8, 20, True, -5),
    "scan": scan(21, 4, 20, 2, 6),
    "selective": selective(71, 70, 5),
    "conv": conv(31, 136, 4),
}
with open(sys.argv[1], "w") as f:
    for name, numbers in cases.items():
        f.write(name + " " + " ".join(f"{n:.8g}" for n in numbers) + "\n")
