"""Descriptions of the GGUF files that llama.cpp's converter makes of the checkpoints in model/testdata/families.

    pip install -r requirements.txt gguf==0.19.0
    python gguf_families.py LLAMA_CPP ../../model/testdata [NAME...]

LLAMA_CPP is a folder with the source of llama.cpp: vendor/llama.cpp in the source package of llama-cpp-python 0.3.36. Writes
model/testdata/gguf-families/NAME.json, from which a test makes the file: its metadata, and for each tensor where its numbers stand in
the checkpoint. The files themselves would be as large as the checkpoints.

Where a number comes from is found out, not known: the converter also gets checkpoints of the same shapes whose numbers count up from 0,
are all 0, and are all 1. Numbers that are not a factor and a summand away from one of the checkpoint's (-exp(A_log)) are written
down as they are. In the end the tensors are made of the description here, and compared with what the converter made of the checkpoint.

The checkpoints have no tokenizer, so that a vocabulary of made-up tokens takes its place, which the description leaves out.
"""
import contextlib
import hashlib
import importlib
import importlib.metadata
import io
import json
import pathlib
import pkgutil
import runpy
import shutil
import sys
import tempfile

import numpy as np
import torch
from safetensors.torch import load_file, save_file

GGUF = "0.19.0"

# What published configurations have and the converter reads, and transformers does not write, or ... for what they have not.
PUBLISHED = {
    "bamba": {"attn_rotary_emb": 4},
    "bloom": {"seq_length": 2048},
    "cohere2": {"rotary_pct": 1.2},  # of hidden_size / heads, which is the size of a head there
    "falcon": {"num_kv_heads": 1},  # transformers writes the number of heads, whatever multi_query says
    "gpt2_plain": {"n_ctx": 128},
    "gpt_neox": {"rotary_pct": 0.5, "model_type": "unknown"},
    "gpt_neox_serial": {"rotary_pct": 0.5, "model_type": "unknown"},
    "glm": {"attention_dim": 8, "seq_length": 256},  # heads have hidden_size / heads numbers there
    "granite4_dense": {"layer_types": ["attention"] * 4, "num_experts_per_tok": 0},
    "granitemoehybrid": lambda doc: {"layer_types": ["mamba" if t == "linear_attention" else "attention" for t in doc["layer_types"]]},
    "deepseek_v32": {"num_nextn_predict_layers": 1},
    "glm_moe_dsa": {"num_nextn_predict_layers": 1},
    # It computes the base of Hunyuan's rotations from alpha for heads of 128 alone.
    "hunyuan_moe": lambda doc: {"max_position_embeddings": 32768, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0 * 1000.0 ** (8 / 6)},
                                "moe_intermediate_size": [doc["intermediate_size"]] * doc["num_hidden_layers"], "num_shared_expert": [1] * doc["num_hidden_layers"]},
    "hunyuan": {"max_position_embeddings": 32768},  # the only ones for which it knows a context length
    "kimi_linear": {"linear_attn_config": {"kda_layers": [1, 2, 4], "full_attn_layers": [3], "head_dim": 8, "num_heads": 4, "short_conv_kernel_size": 4}, "first_k_dense_replace": 1},
    "mimo_v2_flash": lambda doc: {"swa_head_dim": 18, "swa_num_attention_heads": 4, "swa_v_head_dim": 12, "swa_num_key_value_heads": 2, "topk_method": "noaux_tc",
                                  "hybrid_layer_pattern": [int(t == "sliding_attention") for t in doc["layer_types"]],
                                  "layernorm_epsilon": doc["rms_norm_eps"], "rope_theta": 5000000.0, "swa_rope_theta": 10000.0, "partial_rotary_factor": 0.334, "rope_parameters": None,
                                  "model_type": "mimo"},  # one for which transformers does not rewrite the configuration
    "minimax_m2": {"rotary_dim": 6},
    "mpt_plain": {"architectures": ["MPTForCausalLM"]},
    "mistral4": {"architectures": ["Mistral3ForConditionalGeneration"]},
    "granite4_h_dense": {"layer_types": ["mamba", "attention", "mamba"], "num_experts_per_tok": 0},
    "nemotron_h": {"mamba_d_head": 10},
    "nemotron_h_dense": {"mamba_d_head": 10, "hybrid_override_pattern": "M-*-M", "num_hidden_layers": 5, "layers_block_type": ..., "num_experts_per_tok": ...,
                         "model_type": "unknown"},
    "nemotron": lambda doc: {"rope_parameters": {**doc["rope_parameters"], "partial_rotary_factor": 0.67}},  # of hidden_size / heads
    "solar_open": lambda doc: {"rope_parameters": {**doc["rope_parameters"], "partial_rotary_factor": 1.0}},
    "phimoe": lambda doc: {"architectures": ["PhiMoEForCausalLM"], "rope_parameters": {**doc["rope_parameters"], "original_max_position_embeddings": 256}},
    "qwen3_5": {"mtp_num_hidden_layers": 1},
    "qwen3_next": {"mtp_num_hidden_layers": 1},
    "qwen3_5_moe": {"mtp_num_hidden_layers": 1},
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


def prepare(source):
    """All classes of the converter get the vocabulary of made-up tokens, whatever they would have read."""
    sys.path[:0] = [str(source / "gguf-py"), str(source)]  # the converter comes with a gguf package of its own
    import conversion
    for module in pkgutil.iter_modules(conversion.__path__):
        for value in vars(importlib.import_module(f"conversion.{module.name}")).values():
            if isinstance(value, type) and hasattr(value, "set_vocab"):
                value.set_vocab = vocabulary
    from conversion.stablelm import StableLMModel
    modify = StableLMModel.modify_tensors

    def whole(self, *args):
        """It returns the norms of heads where it should yield from them."""
        stacked = yield from modify(self, *args)
        if stacked is not None:
            yield from stacked
    StableLMModel.modify_tensors = whole


def convert(source, checkpoint, tensors):
    """What the converter makes of a checkpoint with these tensors."""
    import gguf
    with tempfile.TemporaryDirectory() as folder:
        at = pathlib.Path(folder) / checkpoint.name
        at.mkdir()
        doc = json.loads((checkpoint / "config.json").read_text())
        edit = PUBLISHED.get(checkpoint.name, {})
        doc.update(edit(doc) if callable(edit) else edit)
        doc = {k: v for k, v in doc.items() if v is not ...}
        (at / "config.json").write_text(json.dumps(doc))
        save_file({k: v.contiguous() for k, v in tensors.items()}, at / "model.safetensors", metadata={"format": "pt"})
        # Gemma's class cuts the embedding to the size of the tokenizer.
        size = doc.get("vocab_size") or doc["text_config"]["vocab_size"]
        (at / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE", "vocab": {f"<{i}>": i for i in range(size)}}, "added_tokens": []}))
        out = pathlib.Path(folder) / "out.gguf"
        sys.argv = ["convert_hf_to_gguf.py", str(at), "--outfile", str(out), "--model-name", checkpoint.name, "--outtype", "f32"]
        log = io.StringIO()
        try:
            with contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
                runpy.run_path(str(source / "convert_hf_to_gguf.py"), run_name="__main__")
        except SystemExit as e:
            if e.code:
                raise RuntimeError(log.getvalue()[-500:]) from e
        if not out.exists():
            raise RuntimeError(f"several files: {log.getvalue()[-500:]}")
        reader = gguf.GGUFReader(out)
        found = {}
        for t in reader.tensors:
            if t.tensor_type != gguf.GGMLQuantizationType.F32:
                raise RuntimeError(f"{t.name} is {t.tensor_type}")
            found[t.name] = ([int(n) for n in t.shape], np.array(t.data, dtype=np.float32).ravel())
        return keys_of(reader), found


def keys_of(reader, tokenizer=False):
    """The metadata, [key, type, value], without those that say nothing about the network, and perhaps without the tokenizer."""
    import gguf
    keys = []
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name.startswith("tokenizer.") and not tokenizer and name != "tokenizer.ggml.eos_token_id":
            continue
        if name.startswith("general.") and name not in ("general.architecture", "general.type"):
            continue
        kinds = [gguf.GGUFValueType(k).name.lower() for k in field.types]
        value = field.contents()
        if kinds == ["array", "float32"]:
            value = [max(x, -float(np.finfo(np.float32).max)) for x in value]  # JSON has no infinity
        keys.append([name, " ".join(kinds), value])
    return keys


def counting(tensors):
    """The same shapes with numbers 0, 4, 8, ..., and where those of each tensor begin."""
    at, result, begins = 0, {}, []
    for name in sorted(tensors):
        n = tensors[name].numel()
        begins.append((at, name))
        result[name] = (torch.arange(at, at + n, dtype=torch.float64) * 4).to(torch.float32).reshape(tensors[name].shape)
        at += n
    if at * 4 >= 1 << 24:
        raise RuntimeError("too many numbers to count them in float32")
    return result, begins


def runs(index):
    """The index as loops, [start, [[count, stride], ...]], outermost first."""
    i, found = 0, []
    while i < len(index):
        n, stride = 1, 0
        if i + 1 < len(index):
            stride = int(index[i + 1] - index[i])
            different = np.flatnonzero(np.diff(index[i:]) != stride)
            n = int(different[0]) + 1 if len(different) else len(index) - i
        found.append([int(index[i]), [[n, stride if n > 1 else 1]]])
        i += n
    while True:
        merged, i = [], 0
        while i < len(found):
            n = 1
            while i + n < len(found) and found[i + n][1] == found[i][1] and found[i + n][0] - found[i + n - 1][0] == found[i + 1][0] - found[i][0]:
                n += 1
            start, loops = found[i]
            if n > 1:
                loops = [[n, found[i + 1][0] - start]] + loops
            merged.append([start, loops])
            i += n
        if len(merged) == len(found):
            return found
        found = merged


def describe(name, shape, numbers, zeros, ones, begins, sizes, real):
    """The description of a tensor by what the converter made of the three checkpoints."""
    d = {"name": name, "shape": shape}
    with np.errstate(all="ignore"):
        summand = zeros.astype(np.float64)
        factor = ones.astype(np.float64) - summand
        index = (numbers.astype(np.float64) - summand) / factor / 4
    if not np.isfinite(index).all() or (np.abs(index - np.round(index)) > 0.2).any() or (factor == 0).any() or (np.round(index) >= begins[-1][0] + sizes[begins[-1][1]]).any() or len(set(summand)) > 1:
        d["data"] = real.tobytes().hex()
        return d
    index = np.round(index).astype(np.int64)
    which = np.searchsorted([at for at, _ in begins], index, side="right") - 1
    parts, i = [], 0
    factor = factor.astype(np.float32)
    cuts = np.flatnonzero((np.diff(which) != 0) | (np.diff(factor) != 0)) + 1
    if len(cuts) > 2000:
        raise RuntimeError(f"{name} has {len(cuts)} parts")
    for i, j in zip([0, *cuts], [*cuts, len(index)]):
        at, source = begins[which[i]]
        for start, loops in runs(index[i:j] - at):
            p = {"from": source}
            if [start, loops] != [0, [[sizes[source], 1]]]:
                p["at"], p["loops"] = start, loops
            if factor[i] != 1:
                p["times"] = float(factor[i])
            parts.append(p)
    d["parts"] = parts
    if summand[0]:
        d["plus"] = float(summand[0])
    return d


def make(d, tensors):
    """The numbers of a tensor by its description."""
    if "data" in d:
        return np.frombuffer(bytes.fromhex(d["data"]), dtype=np.float32)
    out = []
    for p in d["parts"]:
        flat = tensors[p["from"]].float().numpy().ravel()
        index = np.array([p.get("at", 0)])
        for n, stride in p.get("loops", [[len(flat), 1]]):
            index = (index[:, None] + np.arange(n)[None, :] * stride).ravel()
        out.append(flat[index] * np.float32(p.get("times", 1)) + np.float32(d.get("plus", 0)))
    return np.concatenate(out)


def write(source, root, name):
    checkpoint = root / "families" / name
    tensors = load_file(checkpoint / "model.safetensors")
    keys, real = convert(source, checkpoint, tensors)
    save(root / "gguf-families" / f"{name}.json", tensors, keys, real, lambda made: convert(source, checkpoint, made)[1])


def save(path, tensors, keys, real, convert):
    """Writes the description of a file with these metadata and tensors, by what the converter makes of other numbers in tensors."""
    numbered, begins = counting(tensors)
    sizes = {n: t.numel() for n, t in tensors.items()}
    numbers = convert(numbered)
    zeros = convert({n: torch.zeros_like(t, dtype=torch.float32) for n, t in tensors.items()})
    ones = convert({n: torch.ones_like(t, dtype=torch.float32) for n, t in tensors.items()})
    described, digest, far = [], hashlib.sha256(), 0.0
    for t, (shape, values) in real.items():
        d = describe(t, shape, numbers[t][1], zeros[t][1], ones[t][1], begins, sizes, values)
        made = make(d, tensors)
        if made.tobytes() != values.tobytes():
            off = np.abs(made - values).max() / np.abs(values).max()
            if off > 1e-6:
                raise RuntimeError(f"{t} is not what its description makes of it: {off}")
            far = max(far, float(off))
        digest.update(made.tobytes())
        described.append(d)
    lines = ",\n".join(json.dumps(d, separators=(",", ":")) for d in described)
    path.write_text('{"keys":[\n' + ",\n".join(json.dumps(k, separators=(",", ":")) for k in keys) + '\n],"tensors":[\n' + lines + f'\n],"sha256":"{digest.hexdigest()}"}}\n')
    data = sum(len(d["data"]) // 2 for d in described if "data" in d)
    print(path.stem, "ok" if far == 0 else f"within {far:.1e}", f"{data} bytes as they are", path.stat().st_size, flush=True)


def main():
    have = importlib.metadata.version("gguf")
    if have != GGUF:
        sys.exit(f"made with gguf {GGUF}, found {have}")
    source, root, names = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]), sys.argv[3:]
    prepare(source)
    for name in names or sorted(p.name for p in (root / "families").iterdir()):
        try:
            write(source, root, name)
        except Exception as e:
            print(name, "FAILED", type(e).__name__, str(e)[:300])


if __name__ == "__main__":
    main()
