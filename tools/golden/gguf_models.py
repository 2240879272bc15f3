"""GGUF files of package model and package weights/gguf, written by llama.cpp's converter and by the gguf package.

    pip install -r requirements.txt gguf==0.19.0 sentencepiece==0.2.3
    python gguf_models.py LLAMA_CPP ../../model/testdata ../../weights/gguf/testdata

LLAMA_CPP is a folder with the source of llama.cpp: vendor/llama.cpp in the source package of llama-cpp-python 0.3.36. Writes

  model/testdata/gguf/NAME.gguf       what convert_hf_to_gguf.py makes of the checkpoint model/testdata/NAME (tools/golden/models.py)
  weights/gguf/testdata/values.gguf   metadata of all types, and tensors of several, and values.json, which says what they are

The checkpoints have no tokenizer, so that a vocabulary of made-up tokens takes its place. Everything else is the converter's.
"""
import json
import pathlib
import runpy
import subprocess
import sys

import numpy as np

GGUF = "0.19.0"
# The types keep every number of the checkpoint.
CONVERT = {
    "llama2": ("llama2", ["--outtype", "f32"]),
    "llama2-fused": ("llama2", ["--outtype", "f32", "--fuse-qkv"]),
    "llama3": ("llama3", ["--outtype", "f16"]),
    "llama-bias": ("llama-bias", ["--outtype", "f32"]),
    "mistral": ("mistral", ["--outtype", "bf16"]),
    "qwen2": ("qwen2", ["--outtype", "bf16"]),
    "qwen2-yarn": ("qwen2-yarn", ["--outtype", "f32"]),
    "qwen3": ("qwen3", ["--outtype", "f32", "--split-max-tensors", "13"]),
}


def vocabulary(self):
    n, w = self.hparams["vocab_size"], self.gguf_writer
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("llama-bpe")
    w.add_token_list([f"<{i}>" for i in range(n)])
    w.add_token_types([1] * n)
    eos = self.hparams.get("eos_token_id")
    if eos is not None:
        w.add_eos_token_id(eos[0] if isinstance(eos, list) else eos)


def convert(source, root):
    sys.path[:0] = [str(source / "gguf-py"), str(source)]  # the converter comes with a gguf package of its own
    from conversion import llama, qwen
    for cls in (llama.LlamaModel, qwen.Qwen2Model, qwen.Qwen3Model):
        cls.set_vocab = vocabulary
    out = root / "gguf"
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*.gguf"):
        old.unlink()
    for name, (checkpoint, options) in CONVERT.items():
        sys.argv = ["convert_hf_to_gguf.py", str(root / checkpoint), "--outfile", str(out / f"{name}.gguf"), "--model-name", name, *options]
        runpy.run_path(str(source / "convert_hf_to_gguf.py"), run_name="__main__")


def values(out):
    import gguf
    out.mkdir(parents=True, exist_ok=True)
    w = gguf.GGUFWriter(out / "values.gguf", "llama")
    w.add_custom_alignment(64)
    numbers = dict(uint8=255, int8=-128, uint16=65535, int16=-32768, uint32=4294967295, int32=-2147483648,
                   uint64=2**63 - 1, int64=-(2**63), float32=0.15625, float64=1e300)
    for kind, v in numbers.items():
        getattr(w, f"add_{kind}")(f"x.{kind}", v)
    w.add_bool("x.bool", True)
    w.add_string("x.string", "Grüße, 世界\n\0")
    arrays = {"x.ints": [1, -2, 3], "x.floats": [0.5, -0.25], "x.strings": ["a", "", "ö"], "x.bools": [True, False]}
    for key, v in arrays.items():
        w.add_array(key, v)
    rng = np.random.default_rng(1)
    tensors = {"f32": rng.standard_normal((2, 3)).astype(np.float32), "f16": rng.standard_normal((4, 3, 2)).astype(np.float16),
               "i32": np.arange(5, dtype=np.int32), "f64": rng.standard_normal(3)}
    doc = dict(numbers=numbers, string="Grüße, 世界\n\0", arrays=arrays, tensors={})
    for name, t in tensors.items():
        w.add_tensor(name, t)
        doc["tensors"][name] = dict(shape=t.shape, type=name.upper(), hex=t.tobytes().hex())
    for kind in ("Q8_0", "Q4_0"):
        q = gguf.quants.quantize(rng.standard_normal((3, 64)).astype(np.float32), gguf.GGMLQuantizationType[kind])
        w.add_tensor(kind.lower(), q, raw_dtype=gguf.GGMLQuantizationType[kind])
        doc["tensors"][kind.lower()] = dict(shape=[3, 64], type=kind, hex=q.tobytes().hex())
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    (out / "values.json").write_text(json.dumps(doc, indent=1, ensure_ascii=True) + "\n")


def main():
    import importlib.metadata
    have = importlib.metadata.version("gguf")
    if have != GGUF:
        sys.exit(f"made with gguf {GGUF}, found {have}")
    source, models, files = map(pathlib.Path, sys.argv[1:4])
    if sys.argv[4:] == ["convert"]:
        convert(source.resolve(), models)
        return
    values(files)
    subprocess.run([sys.executable, __file__, *sys.argv[1:4], "convert"], check=True)


if __name__ == "__main__":
    main()
