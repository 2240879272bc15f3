"""A folder with a model for the simulated device: a tokenizer and a chat template that are published,
and a network of one layer whose vocabulary is as large. The weights are a hole in a file, because
the simulated device never reads them.
"""

import json
import math
import shutil
import struct

CONTEXT = 65536
HIDDEN, HEAD, VOCAB = 32, 32, 151936


def shapes():
    layer = "model.layers.0."
    yield "model.embed_tokens.weight", [VOCAB, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    for name in ["input_layernorm", "post_attention_layernorm"]:
        yield f"{layer}{name}.weight", [HIDDEN]
    for name in ["q", "k", "v", "o"]:
        yield f"{layer}self_attn.{name}_proj.weight", [HIDDEN, HIDDEN]
    for name in ["q", "k"]:
        yield f"{layer}self_attn.{name}_norm.weight", [HEAD]
    for name in ["gate", "up", "down"]:
        yield f"{layer}mlp.{name}_proj.weight", [HIDDEN, HIDDEN]


def write(folder, tokenizer):
    """Writes the model into folder, with the tokenizer of the folder tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ["tokenizer.json", "tokenizer_config.json"]:
        shutil.copyfile(tokenizer / name, folder / name)
    config = {
        "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_act": "silu", "hidden_size": HIDDEN, "intermediate_size": HIDDEN,
        "head_dim": HEAD, "num_attention_heads": 1, "num_key_value_heads": 1, "num_hidden_layers": 1, "vocab_size": VOCAB, "rms_norm_eps": 1e-6,
        "rope_theta": 1000000.0, "max_position_embeddings": CONTEXT, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "eos_token_id": 151645,
    }
    (folder / "config.json").write_text(json.dumps(config))
    header, end = {}, 0
    for name, shape in shapes():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(folder / "model.safetensors", "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        f.truncate(8 + len(text) + end)
