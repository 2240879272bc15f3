"""Writes models in published shapes, with random weights, as GGUF files for weir, llama.cpp and its
forks:

    python models.py OUT llama-3.2-1b qwen3-0.6b
    python models.py OUT qwen3-30b-a3b:q4_0 gpt-oss-20b:mxfp4 qwen3.5-0.8b:q4_0

A shape alone is written in bfloat16, which llama-quantize converts to other types:

    llama-quantize --pure OUT/llama-3.2-1b-bf16.gguf OUT/llama-3.2-1b-q8_0.gguf Q8_0
    llama-quantize --pure OUT/llama-3.2-1b-bf16.gguf OUT/llama-3.2-1b-q4_0.gguf Q4_0

    llama-quantize OUT/llama-3.2-1b-bf16.gguf OUT/llama-3.2-1b-q4_k_m.gguf Q4_K_M

With --pure the head has the same type as the rest, as in weights that weir rounds itself. By
default it has a larger type, which is slower. The files that all engines read, Q4_K_M, Q5_K_M,
Q6_K and IQ4_XS, are mixed by default, as those that people have.

A shape with a type is written in that type at once, with random codes, since the numbers of the
largest shapes would not fit into a machine's memory: q4_0 and q8_0 for all matrices, or mxfp4 for
experts and q8_0 for the others. Routers, biases and vectors are float32. --max-gib (default 16) leaves out
the last layers of a shape that is larger, and --layers leaves out more of them.
"""

import argparse
from pathlib import Path

import gguf
import numpy as np

# The same as in bench/compute/shapes.go.
SHAPES = {
    "qwen3-0.6b": dict(arch="qwen3", vocab=151936, hidden=1024, inner=3072, layers=28, heads=16, kv=8, dim=128, positions=40960, theta=1e6, eps=1e-6),
    "llama-3.2-1b": dict(arch="llama", vocab=128256, hidden=2048, inner=8192, layers=16, heads=32, kv=8, dim=64, positions=131072, theta=5e5, eps=1e-5),
    "llama-3.1-8b": dict(arch="llama", vocab=128256, hidden=4096, inner=14336, layers=32, heads=32, kv=8, dim=128, positions=131072, theta=5e5, eps=1e-5, untied=True),
    "qwen3-30b-a3b": dict(arch="qwen3moe", vocab=151936, hidden=2048, inner=6144, layers=48, heads=32, kv=4, dim=128, positions=40960, theta=1e6, eps=1e-6, untied=True,
                          experts=128, used=8, expert=768),
    "gpt-oss-20b": dict(arch="gpt-oss", vocab=201088, hidden=2880, inner=2880, layers=24, heads=64, kv=8, dim=64, positions=131072, theta=1.5e5, eps=1e-5, untied=True,
                        experts=32, used=4, expert=2880, window=128, bias=True, yarn=(32.0, 4096)),
    "qwen3.5-0.8b": dict(arch="qwen35", vocab=248320, hidden=1024, inner=3584, layers=24, heads=8, kv=2, dim=256, positions=262144, theta=1e7, eps=1e-6,
                         rotated=64, sections=[11, 11, 10, 0], full=4, delta=dict(keys=16, values=16, size=128, conv=4)),
}

Type = gguf.GGMLQuantizationType
FILE_TYPES = {"bf16": gguf.LlamaFileType.MOSTLY_BF16, "q4_0": gguf.LlamaFileType.MOSTLY_Q4_0, "q8_0": gguf.LlamaFileType.MOSTLY_Q8_0, "mxfp4": gguf.LlamaFileType.MOSTLY_MXFP4_MOE}
DEVIATION = 0.02  # of weights, as most models are initialised
SLACK = 65536  # blocks by which tensors are shifted against each other


def random_blocks(rng, kind, count, deviation):
    """count blocks of a type, as rows of bytes. Numbers have a mean of 0 and that standard deviation."""
    codes = gguf.GGML_QUANT_SIZES[kind][1] - {Type.BF16: 0, Type.MXFP4: 1}.get(kind, 2)
    if kind == Type.BF16:  # a block is a number
        bits = (rng.standard_normal(count, dtype=np.float32) * np.float32(deviation)).view(np.uint32)
        return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16).view(np.uint8).reshape(count, 2)
    out = np.frombuffer(rng.bytes(count * (codes + (1 if kind == Type.MXFP4 else 2))), np.uint8).reshape(count, -1).copy()
    if kind == Type.MXFP4:  # exponents of 2; the codes' standard deviation is 2.9
        low = int(np.floor(np.log2(deviation / 2.9)))
        out[:, 0] = rng.integers(127 + low, 129 + low, count, dtype=np.uint8)
        return out
    # A random sign, because codes of four bits have a mean of -0.5.
    spread = {Type.Q4_0: 4.6, Type.Q8_0: 73.9}[kind]
    scales = deviation / spread * rng.uniform(0.7, 1.3, count) * rng.choice([-1, 1], count)
    out[:, :2] = scales.astype(np.float16).view(np.uint8).reshape(count, 2)
    return out


class Model:
    """The tensors of a shape: listed first, so that their size is known, and written then."""

    def __init__(self, shape, kind):
        self.s, self.matrices = shape, {"bf16": Type.BF16, "q4_0": Type.Q4_0, "q8_0": Type.Q8_0, "mxfp4": Type.Q8_0}[kind]
        self.experts = Type.MXFP4 if kind == "mxfp4" else self.matrices
        self.list = []  # (name, dimensions, type, mean, standard deviation)

    def matrix(self, name, *dims, kind=None, deviation=DEVIATION):
        self.list.append((name, dims, kind or self.matrices, 0, deviation))

    def vector(self, name, *dims, mean=1.0, deviation=0.1):
        self.list.append((name, dims, Type.F32, mean, deviation))

    def bias(self, name, *dims):
        self.vector(name, *dims, mean=0, deviation=DEVIATION)

    def bytes(self):
        total = 0
        for _, dims, kind, _, _ in self.list:
            block, size = (1, 4) if kind == Type.F32 else gguf.GGML_QUANT_SIZES[kind]
            total += int(np.prod(dims)) // block * size
        return total

    def outside(self):
        s = self.s
        # Experts are chosen by what tells rows apart, which must not drown in what attention makes of the same
        # positions for all of them.
        self.matrix("token_embd.weight", s["vocab"], s["hidden"], deviation=1 if "experts" in s else DEVIATION)
        self.vector("output_norm.weight", s["hidden"])
        if s.get("untied"):
            self.matrix("output.weight", s["vocab"], s["hidden"])

    def layer(self, i):
        s, at = self.s, f"blk.{i}."
        self.vector(at + "attn_norm.weight", s["hidden"])
        if "full" in s and (i + 1) % s["full"]:
            self.delta(at, s["delta"])
        else:
            self.attention(at)
        norm = "ffn_norm" if s["arch"] in ("llama", "qwen3", "qwen3moe") else "post_attention_norm"
        self.vector(at + norm + ".weight", s["hidden"])
        if "experts" in s:
            self.mixture(at)
        else:
            self.matrix(at + "ffn_gate.weight", s["inner"], s["hidden"])
            self.matrix(at + "ffn_up.weight", s["inner"], s["hidden"])
            self.matrix(at + "ffn_down.weight", s["hidden"], s["inner"])

    def attention(self, at):
        s = self.s
        q, kv = s["heads"] * s["dim"], s["kv"] * s["dim"]
        gated = 2 if s["arch"] == "qwen35" else 1  # each head of queries has a gate
        for name, rows, columns in (("attn_q", gated * q, s["hidden"]), ("attn_k", kv, s["hidden"]), ("attn_v", kv, s["hidden"]), ("attn_output", s["hidden"], q)):
            self.matrix(at + name + ".weight", rows, columns)
            if s.get("bias"):
                self.bias(at + name + ".bias", rows)
        if s["arch"].startswith("qwen3"):
            self.vector(at + "attn_q_norm.weight", s["dim"])
            self.vector(at + "attn_k_norm.weight", s["dim"])
        if s["arch"] == "gpt-oss":
            self.bias(at + "attn_sinks.weight", s["heads"])

    def delta(self, at, d):
        hidden, keys, values = self.s["hidden"], d["keys"] * d["size"], d["values"] * d["size"]
        self.matrix(at + "attn_qkv.weight", 2 * keys + values, hidden)
        self.matrix(at + "attn_gate.weight", values, hidden)
        self.vector(at + "ssm_conv1d.weight", 2 * keys + values, d["conv"], mean=0, deviation=0.3)
        self.vector(at + "ssm_dt.bias", d["values"], mean=0)
        self.vector(at + "ssm_a", d["values"], mean=-1)
        self.matrix(at + "ssm_alpha.weight", d["values"], hidden)
        self.matrix(at + "ssm_beta.weight", d["values"], hidden)
        self.vector(at + "ssm_norm.weight", d["size"])
        self.matrix(at + "ssm_out.weight", hidden, values)

    def mixture(self, at):
        s = self.s
        # Rows are normed, so that logits have a standard deviation of 1 or so and experts are chosen evenly.
        self.vector(at + "ffn_gate_inp.weight", s["experts"], s["hidden"], mean=0, deviation=DEVIATION)
        for name, rows, columns in (("gate", s["expert"], s["hidden"]), ("up", s["expert"], s["hidden"]), ("down", s["hidden"], s["expert"])):
            self.matrix(f"{at}ffn_{name}_exps.weight", s["experts"], rows, columns, kind=self.experts)
            if s.get("bias"):
                self.bias(f"{at}ffn_{name}_exps.bias", s["experts"], rows)
        if s.get("bias"):
            self.bias(at + "ffn_gate_inp.bias", s["experts"])

    def write(self, w):
        rng = np.random.default_rng(1)
        # All matrices of a type are cut out of one array, at random offsets. The values do not change the speed.
        largest = {}
        for _, dims, kind, _, deviation in self.list:
            if kind != Type.F32:
                key = (kind, deviation)
                largest[key] = max(largest.get(key, 0), int(np.prod(dims)) // gguf.GGML_QUANT_SIZES[kind][0])
        blocks = {key: random_blocks(rng, key[0], n + SLACK, key[1]) for key, n in largest.items()}
        for name, dims, kind, mean, deviation in self.list:
            if kind == Type.F32:
                w.add_tensor(name, (mean + deviation * rng.standard_normal(dims)).astype(np.float32))
                continue
            at, n = int(rng.integers(SLACK)), int(np.prod(dims)) // gguf.GGML_QUANT_SIZES[kind][0]
            w.add_tensor(name, blocks[kind, deviation][at : at + n].reshape(*dims[:-1], -1), raw_dtype=kind)


def metadata(w, s, layers):
    w.add_vocab_size(s["vocab"])
    w.add_context_length(s["positions"])
    w.add_embedding_length(s["hidden"])
    w.add_feed_forward_length(s["inner"])
    w.add_block_count(layers)
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv"])
    w.add_key_length(s["dim"])
    w.add_value_length(s["dim"])
    w.add_rope_dimension_count(s.get("rotated", s["dim"]))
    w.add_rope_freq_base(s["theta"])
    w.add_layer_norm_rms_eps(s["eps"])
    if "experts" in s:
        w.add_expert_count(s["experts"])
        w.add_expert_used_count(s["used"])
        w.add_expert_feed_forward_length(s["expert"])
    if "window" in s:
        w.add_sliding_window(s["window"])
    if "yarn" in s:
        w.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        w.add_rope_scaling_factor(s["yarn"][0])
        w.add_rope_scaling_orig_ctx_len(s["yarn"][1])
    if "delta" in s:
        d = s["delta"]
        w.add_rope_dimension_sections(s["sections"])
        w.add_uint32(f"{s['arch']}.full_attention_interval", s["full"])
        w.add_ssm_conv_kernel(d["conv"])
        w.add_ssm_state_size(d["size"])
        w.add_ssm_group_count(d["keys"])
        w.add_ssm_time_step_rank(d["values"])
        w.add_ssm_inner_size(d["values"] * d["size"])
    w.add_tokenizer_model("no_vocab")


def write(folder, name, kind, most, layers):
    s = SHAPES[name]
    m, n = Model(s, kind), 0
    m.outside()
    while n < min(layers or s["layers"], s["layers"]):
        before = len(m.list)
        m.layer(n)
        if m.bytes() > most:
            del m.list[before:]
            break
        n += 1
    w = gguf.GGUFWriter(folder / f"{name}-{kind}.gguf", s["arch"])
    metadata(w, s, n)
    w.add_file_type(FILE_TYPES[kind])
    m.write(w)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    print(f"{name}-{kind}.gguf: {n} of {s['layers']} layers, {m.bytes() / 2**30:.2f} GiB")


def main():
    p = argparse.ArgumentParser(description="Writes GGUF files in published shapes with random weights.")
    p.add_argument("folder", type=Path)
    p.add_argument("shapes", nargs="+", metavar="SHAPE[:TYPE]", help=f"shapes: {', '.join(SHAPES)}; types: {', '.join(FILE_TYPES)}")
    p.add_argument("--max-gib", type=float, default=16, help="largest size of a file")
    p.add_argument("--layers", type=int, default=0, help="largest number of layers; 0: all")
    o = p.parse_args()
    wanted = [(name, kind or "bf16") for name, _, kind in (x.partition(":") for x in o.shapes)]
    for name, kind in wanted:
        if name not in SHAPES or kind not in FILE_TYPES:
            p.error(f"no shape {name}:{kind}")
    for name, kind in wanted:
        write(o.folder, name, kind, o.max_gib * 2**30, o.layers)


if __name__ == "__main__":
    main()
