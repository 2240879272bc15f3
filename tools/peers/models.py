"""Writes models in published shapes, with random bfloat16 weights, as GGUF files for
llama.cpp and its forks:

    python models.py OUT llama-3.2-1b qwen3-0.6b

llama-quantize converts them to the other types:

    llama-quantize --pure OUT/llama-3.2-1b-bf16.gguf OUT/llama-3.2-1b-q8_0.gguf Q8_0
    llama-quantize --pure OUT/llama-3.2-1b-bf16.gguf OUT/llama-3.2-1b-q4_0.gguf Q4_0

    llama-quantize OUT/llama-3.2-1b-bf16.gguf OUT/llama-3.2-1b-q4_k_m.gguf Q4_K_M

With --pure the head has the same type as the rest, as in weights that weir rounds itself. By
default it has a larger type, which is slower. The files that all engines read, Q4_K_M, Q5_K_M,
Q6_K and IQ4_XS, are mixed by default, as those that people have.
"""

import sys
from pathlib import Path

import gguf
import numpy as np

# The same as in bench/compute/shapes.go.
SHAPES = {
    "qwen3-0.6b": dict(arch="qwen3", vocab=151936, hidden=1024, inner=3072, layers=28, heads=16, kv=8, dim=128, positions=40960, theta=1e6, eps=1e-6),
    "llama-3.2-1b": dict(arch="llama", vocab=128256, hidden=2048, inner=8192, layers=16, heads=32, kv=8, dim=64, positions=131072, theta=5e5, eps=1e-5),
    "llama-3.1-8b": dict(arch="llama", vocab=128256, hidden=4096, inner=14336, layers=32, heads=32, kv=8, dim=128, positions=131072, theta=5e5, eps=1e-5, untied=True),
}


def write(path, s):
    rng = np.random.default_rng(1)
    w = gguf.GGUFWriter(path, s["arch"])
    w.add_vocab_size(s["vocab"])
    w.add_context_length(s["positions"])
    w.add_embedding_length(s["hidden"])
    w.add_feed_forward_length(s["inner"])
    w.add_block_count(s["layers"])
    w.add_head_count(s["heads"])
    w.add_head_count_kv(s["kv"])
    w.add_key_length(s["dim"])
    w.add_value_length(s["dim"])
    w.add_rope_dimension_count(s["dim"])
    w.add_rope_freq_base(s["theta"])
    w.add_layer_norm_rms_eps(s["eps"])
    w.add_file_type(gguf.LlamaFileType.MOSTLY_BF16)
    w.add_tokenizer_model("no_vocab")

    # All tensors are cut out of one array at random offsets. The values do not change the speed.
    largest = s["vocab"] * s["hidden"]
    bits = (rng.standard_normal(largest + 65536, dtype=np.float32) * 0.02).view(np.uint32)
    numbers = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)

    def matrix(name, rows, cols):
        at = int(rng.integers(65536))
        data = numbers[at : at + rows * cols].reshape(rows, cols).view(np.uint8).reshape(rows, cols * 2)
        w.add_tensor(name, data, raw_dtype=gguf.GGMLQuantizationType.BF16)

    def vector(name, n):
        w.add_tensor(name, (1 + 0.1 * rng.standard_normal(n)).astype(np.float32))

    hidden, q, kv = s["hidden"], s["heads"] * s["dim"], s["kv"] * s["dim"]
    matrix("token_embd.weight", s["vocab"], hidden)
    for i in range(s["layers"]):
        at = f"blk.{i}."
        vector(at + "attn_norm.weight", hidden)
        matrix(at + "attn_q.weight", q, hidden)
        matrix(at + "attn_k.weight", kv, hidden)
        matrix(at + "attn_v.weight", kv, hidden)
        if s["arch"] == "qwen3":
            vector(at + "attn_q_norm.weight", s["dim"])
            vector(at + "attn_k_norm.weight", s["dim"])
        matrix(at + "attn_output.weight", hidden, q)
        vector(at + "ffn_norm.weight", hidden)
        matrix(at + "ffn_gate.weight", s["inner"], hidden)
        matrix(at + "ffn_up.weight", s["inner"], hidden)
        matrix(at + "ffn_down.weight", hidden, s["inner"])
    vector("output_norm.weight", hidden)
    if s.get("untied"):
        matrix("output.weight", s["vocab"], hidden)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


if __name__ == "__main__":
    if len(sys.argv) < 3 or not set(sys.argv[2:]) <= SHAPES.keys():
        sys.exit(f"usage: models.py FOLDER SHAPE...; shapes: {', '.join(SHAPES)}")
    for name in sys.argv[2:]:
        write(Path(sys.argv[1]) / f"{name}-bf16.gguf", SHAPES[name])
