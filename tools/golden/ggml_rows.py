"""Quantized weights of tiny models for package model.

    pip install -r requirements.txt        (gguf 0.19.0, llama-cpp-python 0.3.36, which builds ggml and llama.cpp)
    python ggml_rows.py ../../model/testdata/quantised ../../models/weir-tiny [FOLDER]

FOLDER has libggml-base.so and llama-quantize of llama.cpp; without it the libraries of
llama-cpp-python are used. Writes

  TYPE.gz                 for each type of blocks: 96 rows of 256 columns of a trained model, as ggml's own quantizer rounds them; the
                          committed ones are of weir-tiny before its last training
  mixed-q4_k_m.gguf       a network of one layer of such rows in bfloat16, as llama-quantize makes Q4_K_M of it: attn_v is Q6_K,
                          attn_q and attn_k are Q4_K
"""

import gzip
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy as np
from ggml_blocks import BLOCK, GGML, TYPES, trained_rows

ROWS = 96
HIDDEN, HEADS, KV_HEADS, SIZE, VOCABULARY = 256, 4, 2, 64, 96


def bfloat16(x):
    return (np.ascontiguousarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def network(path, rows):
    rng = np.random.default_rng(7)
    w = gguf.GGUFWriter(path, "llama")
    w.add_name("mixed")
    w.add_context_length(256)
    w.add_embedding_length(HIDDEN)
    w.add_feed_forward_length(HIDDEN)
    w.add_block_count(1)
    w.add_head_count(HEADS)
    w.add_head_count_kv(KV_HEADS)
    w.add_rope_dimension_count(SIZE)
    w.add_rope_freq_base(10000.0)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_vocab_size(VOCABULARY)
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list([f"<{i}>" for i in range(VOCABULARY)])
    w.add_token_types([1] * VOCABULARY)
    w.add_token_merges(["< 1"])
    w.add_eos_token_id(2)

    def matrix(name, n):
        # Sums of two rows, so that no row occurs twice.
        a, b = rng.integers(0, len(rows), (2, n))
        data = bfloat16(rows[a] + rows[b] * rng.choice([-1, 1], (n, 1)))
        w.add_tensor(name, data.view(np.uint8), raw_dtype=gguf.GGMLQuantizationType.BF16)

    def vector(name):
        w.add_tensor(name, (1 + 0.1 * rng.standard_normal(HIDDEN)).astype(np.float32))

    matrix("token_embd.weight", VOCABULARY)
    vector("output_norm.weight")
    vector("blk.0.attn_norm.weight")
    matrix("blk.0.attn_q.weight", HEADS * SIZE)
    matrix("blk.0.attn_k.weight", KV_HEADS * SIZE)
    matrix("blk.0.attn_v.weight", KV_HEADS * SIZE)
    matrix("blk.0.attn_output.weight", HIDDEN)
    vector("blk.0.ffn_norm.weight")
    matrix("blk.0.ffn_gate.weight", HIDDEN)
    matrix("blk.0.ffn_up.weight", HIDDEN)
    matrix("blk.0.ffn_down.weight", HIDDEN)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def quantize(source, target, folder):
    if folder is not None:
        subprocess.run([folder / "llama-quantize", source, target, "Q4_K_M", "1"], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return
    import llama_cpp
    params = llama_cpp.llama_model_quantize_default_params()
    params.ftype, params.nthread = llama_cpp.LLAMA_FTYPE_MOSTLY_Q4_K_M, 1
    assert llama_cpp.llama_model_quantize(str(source).encode(), str(target).encode(), params) == 0


def main(out, model, folder=None):
    out, folder = pathlib.Path(out), folder and pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    libraries = folder or pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent / "lib"
    ggml, rows = GGML(str(libraries / "libggml-base.so")), trained_rows(model, ROWS)
    assert rows.shape == (ROWS, BLOCK)
    importance = np.random.default_rng(1).random(BLOCK) + 0.1
    for kind in TYPES:
        blocks = ggml.quantize(kind, rows, importance if ggml.needs_importance(kind) else None)
        (out / f"{kind}.gz").write_bytes(gzip.compress(blocks.tobytes(), 9, mtime=0))
    with tempfile.TemporaryDirectory() as temporary:
        source = pathlib.Path(temporary) / "bf16.gguf"
        network(source, rows)
        quantize(source, out / "mixed-q4_k_m.gguf", folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
