"""Writes a hybrid in the shape of Qwen3.5 0.8B with random weights as a folder that weir serves:

    python checkpoint.py FOLDER --template chat_template.jinja [--layers N]

The tokenizer is that of the bundled model, whose special tokens are those of Qwen, so that the template
that is published with Qwen3.5 works (llama.cpp has it, too, as models/templates/Qwen3.5-4B.jinja). Token ids that
the tokenizer does not know have no text; the head computes them all the same.
"""

import argparse
import json
import shutil
from pathlib import Path

import numpy as np

from models import DEVIATION, SHAPES

BUNDLED = Path(__file__).resolve().parents[2] / "models" / "weir-tiny"
NAME = "qwen3.5-0.8b"


def config(s, layers):
    d = s["delta"]
    return {
        "architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "vocab_size": s["vocab"], "hidden_size": s["hidden"], "intermediate_size": s["inner"],
        "num_hidden_layers": layers, "num_attention_heads": s["heads"], "num_key_value_heads": s["kv"], "head_dim": s["dim"], "max_position_embeddings": s["positions"],
        "rms_norm_eps": s["eps"], "tie_word_embeddings": True, "hidden_act": "silu", "full_attention_interval": s["full"], "linear_num_key_heads": d["keys"],
        "linear_num_value_heads": d["values"], "linear_key_head_dim": d["size"], "linear_value_head_dim": d["size"], "linear_conv_kernel_dim": d["conv"],
        "rope_parameters": {"rope_type": "default", "rope_theta": s["theta"], "partial_rotary_factor": s["rotated"] / s["dim"], "mrope_section": s["sections"][:3]},
        "dtype": "bfloat16", "eos_token_id": 2,
    }


def tensors(s, layers):
    """Names, shapes, means and standard deviations. Norms are stored as what is added to 1, but for that of the delta net."""
    d, hidden = s["delta"], s["hidden"]
    keys, values = d["keys"] * d["size"], d["values"] * d["size"]
    yield "model.embed_tokens.weight", (s["vocab"], hidden), 0, DEVIATION
    yield "model.norm.weight", (hidden,), 0, 0.1
    for i in range(layers):
        at = f"model.layers.{i}."
        yield at + "input_layernorm.weight", (hidden,), 0, 0.1
        yield at + "post_attention_layernorm.weight", (hidden,), 0, 0.1
        for name, shape in (("gate_proj", (s["inner"], hidden)), ("up_proj", (s["inner"], hidden)), ("down_proj", (hidden, s["inner"]))):
            yield f"{at}mlp.{name}.weight", shape, 0, DEVIATION
        if (i + 1) % s["full"]:
            at += "linear_attn."
            for name, shape in (("in_proj_qkv", (2 * keys + values, hidden)), ("in_proj_z", (values, hidden)), ("in_proj_a", (d["values"], hidden)), ("in_proj_b", (d["values"], hidden)), ("out_proj", (hidden, values))):
                yield f"{at}{name}.weight", shape, 0, DEVIATION
            yield at + "conv1d.weight", (2 * keys + values, 1, d["conv"]), 0, 0.3
            yield at + "A_log", (d["values"],), 0, 0.1
            yield at + "dt_bias", (d["values"],), 0, 0.1
            yield at + "norm.weight", (d["size"],), 1, 0.1
        else:
            at += "self_attn."
            q, kv = s["heads"] * s["dim"], s["kv"] * s["dim"]
            for name, shape in (("q_proj", (2 * q, hidden)), ("k_proj", (kv, hidden)), ("v_proj", (kv, hidden)), ("o_proj", (hidden, q))):
                yield f"{at}{name}.weight", shape, 0, DEVIATION
            yield at + "q_norm.weight", (s["dim"],), 0, 0.1
            yield at + "k_norm.weight", (s["dim"],), 0, 0.1


def bfloat16(x):
    bits = x.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def main():
    p = argparse.ArgumentParser(description="Writes a hybrid with random weights as a folder that weir serves.")
    p.add_argument("folder", type=Path)
    p.add_argument("--template", type=Path, required=True, help="chat template")
    p.add_argument("--layers", type=int, default=SHAPES[NAME]["layers"])
    o = p.parse_args()
    s, rng = SHAPES[NAME], np.random.default_rng(1)
    o.folder.mkdir(parents=True, exist_ok=True)
    (o.folder / "config.json").write_text(json.dumps(config(s, o.layers), indent=1))
    (o.folder / "generation_config.json").write_text(json.dumps({"eos_token_id": 2}))
    shutil.copy(o.template, o.folder / "chat_template.jinja")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(BUNDLED / name, o.folder / name)
    limit = json.loads((o.folder / "tokenizer_config.json").read_text())
    limit["model_max_length"] = s["positions"]
    (o.folder / "tokenizer_config.json").write_text(json.dumps(limit))
    header, at = {}, 0
    for name, shape, _, _ in tensors(s, o.layers):
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(o.folder / "model.safetensors", "wb") as f:
        f.write(len(text).to_bytes(8, "little") + text)
        for _, shape, mean, deviation in tensors(s, o.layers):
            f.write(bfloat16(mean + deviation * rng.standard_normal(shape, dtype=np.float32)).tobytes())


if __name__ == "__main__":
    main()
