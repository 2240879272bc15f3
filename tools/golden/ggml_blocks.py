"""Golden data of package weights: blocks of every type of ggml, and the numbers that ggml makes of them.

    pip install -r requirements.txt        (gguf 0.19.0, llama-cpp-python 0.3.36, which builds ggml)
    python ggml_blocks.py ../../weights/testdata/blocks ../../models/weir-tiny [LIBGGML-BASE.SO]

Writes TYPE.gz for each type: 4 bytes with the number of columns, the blocks, and a float32 for
each column, little-endian. The blocks are random bytes, and what ggml's own quantizer
(ggml_quantize_chunk), with and without an importance matrix, makes of random numbers, of rows
of a trained model (weir-tiny before its last training, in the committed files), and of rows that are unusual: zeros, one outlier, a constant, numbers that
are very large or very small. The numbers are those of ggml's dequantize_row_*, which its
type traits call to_float. The Python package gguf has to agree in every bit wherever it knows
the type, or this program fails. NaNs are written as one and the same.
"""

import ctypes
import gzip
import importlib.util
import json
import pathlib
import struct
import sys

import gguf
import numpy as np

BLOCK = 256  # columns of the largest blocks; every row has as many or more
NUMBERS = {t.name: t.value for t in gguf.GGMLQuantizationType} | {"Q2_0": 42}
TYPES = """Q4_0 Q4_1 Q5_0 Q5_1 Q8_0 Q2_K Q3_K Q4_K Q5_K Q6_K IQ1_S IQ1_M IQ2_XXS IQ2_XS IQ2_S IQ3_XXS IQ3_S IQ4_NL IQ4_XS
    TQ1_0 TQ2_0 MXFP4 NVFP4 Q1_0 Q2_0""".split()
# float16 scales within a block of a type, for random blocks whose numbers are finite.
HALVES = {
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2],
    "Q5_K": [0, 2], "Q6_K": [208], "IQ1_S": [0], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "IQ4_NL": [0], "IQ4_XS": [0], "TQ1_0": [52], "TQ2_0": [64], "Q1_0": [0], "Q2_0": [0], "IQ1_M": [], "MXFP4": [], "NVFP4": [],
}


class Traits(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("columns", ctypes.c_int64), ("interleave", ctypes.c_int64), ("bytes", ctypes.c_size_t),
                ("quantized", ctypes.c_bool), ("to_float", ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64))]


class GGML:
    def __init__(self, path):
        lib = self.lib = ctypes.CDLL(path)
        lib.ggml_get_type_traits.restype = ctypes.POINTER(Traits)
        lib.ggml_quantize_requires_imatrix.restype = ctypes.c_bool
        lib.ggml_quantize_chunk.restype = ctypes.c_size_t
        lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p] + [ctypes.c_int64] * 3 + [ctypes.c_void_p]

    def traits(self, kind):
        return self.lib.ggml_get_type_traits(NUMBERS[kind]).contents

    def needs_importance(self, kind):
        return self.lib.ggml_quantize_requires_imatrix(NUMBERS[kind])

    def quantize(self, kind, rows, importance=None):
        t, rows = self.traits(kind), np.ascontiguousarray(rows, np.float32)
        out = np.zeros(rows.size // t.columns * t.bytes, np.uint8)
        weights = None if importance is None else np.ascontiguousarray(importance, np.float32)
        size = self.lib.ggml_quantize_chunk(NUMBERS[kind], rows.ctypes.data, out.ctypes.data, 0, rows.shape[0], rows.shape[1],
                                            None if weights is None else weights.ctypes.data)
        assert size == out.size, (kind, size, out.size)
        return out

    def widen(self, kind, blocks):
        t = self.traits(kind)
        out = np.zeros(blocks.size // t.bytes * t.columns, np.float32)
        t.to_float(blocks.ctypes.data, out.ctypes.data, out.size)
        return out


def trained_rows(folder, count):
    """Rows of 256 numbers of the projections of a model that was trained."""
    with open(pathlib.Path(folder) / "model.safetensors", "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        start, rows = f.tell(), []
        names = [n for n in sorted(header) if n.endswith("_proj.weight") and header[n]["shape"][1] == BLOCK]
        for i in range(count):
            f.seek(start + header[names[i % len(names)]]["data_offsets"][0] + i // len(names) * BLOCK * 2)
            bits = np.frombuffer(f.read(BLOCK * 2), np.uint16).astype(np.uint32) << 16
            rows.append(bits.view(np.float32))
    return np.stack(rows)


def unusual_rows(rng):
    normal = rng.standard_normal(BLOCK)
    outlier, ramp = 0.01 * normal, np.linspace(-1, 1, BLOCK)
    outlier[17] = 30
    return np.stack([np.zeros(BLOCK), np.ones(BLOCK), outlier, ramp, abs(normal), normal * 1e4, normal * 1e-7, normal * 1e-30]).astype(np.float32)


def random_blocks(rng, kind, t, finite, count):
    blocks = rng.integers(0, 256, (count, t.bytes), np.uint8)
    every = min(count, 2 * -(-256 // t.bytes))  # blocks that have every byte in turn
    blocks[:every] = np.resize(np.arange(256), (every, t.bytes))
    for at in HALVES[kind] if finite else []:
        scales = rng.standard_normal(count).astype(np.float16)
        scales[:3] = [65504, 2**-24, -0.0]  # the largest, the smallest, a negative zero
        blocks[:, at : at + 2] = scales.view(np.uint8).reshape(count, 2)
    order = np.arange(count * 4).astype(np.uint8)
    if kind == "MXFP4":  # every exponent
        blocks[:, 0] = order[:count] if finite else 255 - order[:count]
    if kind == "NVFP4":  # every scale
        blocks[:, :4] = order.reshape(count, 4)
    return blocks.reshape(-1)


def blocks_of(ggml, kind, trained):
    rng = np.random.default_rng(NUMBERS[kind])
    t = ggml.traits(kind)
    per = BLOCK // t.columns
    yield random_blocks(rng, kind, t, True, 24 * per)
    yield random_blocks(rng, kind, t, False, 8 * per)
    rows = np.concatenate([rng.standard_normal((2, BLOCK)) * 0.05, trained, unusual_rows(rng)])
    importance = rng.random(BLOCK) + 0.1
    if not ggml.needs_importance(kind):
        yield ggml.quantize(kind, rows)
    yield ggml.quantize(kind, rows, importance)


def same(a, b):
    return bool(np.all((a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))))


def compare(kind, blocks, numbers):
    """Ends the program if package gguf makes other numbers of the blocks."""
    if not hasattr(gguf.quants, kind):
        return
    with np.errstate(all="ignore"):
        peer = gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind])
    if not same(numbers, peer):
        at = np.flatnonzero((numbers != peer) & ~(np.isnan(numbers) & np.isnan(peer)))
        sys.exit(f"{kind}: gguf differs at {len(at)} of {numbers.size}, first {at[0]}: {numbers[at[0]]} and {peer[at[0]]}")


def main(out, model, library=None):
    if library is None:
        library = next(pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent.glob("lib/libggml-base.so"))
    ggml, out = GGML(str(library)), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    trained = trained_rows(model, 4)
    for kind in TYPES:
        t = ggml.traits(kind)
        blocks = np.concatenate(list(blocks_of(ggml, kind, trained)))
        numbers = ggml.widen(kind, blocks)
        numbers[np.isnan(numbers)] = np.nan
        compare(kind, blocks, numbers)
        many = random_blocks(np.random.default_rng(0), kind, t, False, 10000)  # every place of a grid
        compare(kind, many, ggml.widen(kind, many))
        data = struct.pack("<I", numbers.size) + blocks.tobytes() + numbers.astype("<f4").tobytes()
        (out / f"{kind}.gz").write_bytes(gzip.compress(data, 9, mtime=0))
        print(f"{kind}: {numbers.size} columns, {np.isnan(numbers).sum()} NaN, {np.isinf(numbers).sum()} infinite" + ("" if hasattr(gguf.quants, kind) else "; not in package gguf"))


if __name__ == "__main__":
    main(*sys.argv[1:])
