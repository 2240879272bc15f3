"""Golden data of package model: tiny random checkpoints and what Hugging Face transformers computes from them.

    pip install -r requirements.txt        (torch 2.15.0, transformers 5.23.0)
    python models.py ../../model/testdata ../../models/weir-tiny

Writes, below the first folder:

  configs.json          config.json files as they are found on the Hub, and how transformers reads them
  NAME/                 a checkpoint of a few ten thousand parameters
    golden.json         prompt, 64 greedy tokens, and the margin of each over the second best
    logits.f32          [rows, vocab] float32: the last rows of the prompt
    hidden.f32          [layers, tokens, hidden] float32: the residual stream after each layer
  weir-tiny/golden.json, logits.f32     the same for the bundled model and one chat prompt
  weir-tiny/heldout.json                prompts and answers of its heldout.jsonl without tools, as tokens

All arithmetic is float32 on the CPU with eager attention, on the weights as they are stored.
"""
import json
import pathlib
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

PINNED = {"torch": "2.15.0", "transformers": "5.23.0"}
GREEDY = 64

# Sizes are unusual on purpose: not multiples of 16 where that can be avoided, a head_dim other than hidden/heads, few KV heads.
# Each config.json is written in the way of its time: with rope_theta and rope_scaling, or with rope_parameters.
CHECKPOINTS = {
    "llama2": dict(
        dtype=torch.float32, prompt=56, old_buffers=True, config=dict(
            architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=96, hidden_size=40, intermediate_size=56,
            num_hidden_layers=3, num_attention_heads=4, hidden_act="silu", max_position_embeddings=256, rms_norm_eps=1e-5,
            tie_word_embeddings=False, rope_scaling=None, pretraining_tp=1, torch_dtype="float32", bos_token_id=1, eos_token_id=2)),
    "llama3": dict(
        dtype=torch.float16, prompt=90, config=dict(
            architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=100, hidden_size=48, intermediate_size=68,
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", max_position_embeddings=512,
            rms_norm_eps=1e-5, tie_word_embeddings=True, attention_bias=False, mlp_bias=False, rope_theta=500000.0,
            rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64,
                              rope_type="llama3"),
            torch_dtype="float16", bos_token_id=1, eos_token_id=[2, 3])),
    "llama-bias": dict(
        dtype=torch.float32, prompt=48, config=dict(
            architectures=["LlamaForCausalLM"], model_type="llama", vocab_size=88, hidden_size=36, intermediate_size=44,
            num_hidden_layers=3, num_attention_heads=3, num_key_value_heads=1, hidden_act="silu", max_position_embeddings=256,
            rms_norm_eps=1e-6, tie_word_embeddings=False, attention_bias=True, mlp_bias=True,
            rope_parameters=dict(rope_type="linear", factor=4.0, rope_theta=10000.0), dtype="float32")),
    "mistral": dict(
        dtype=torch.bfloat16, prompt=72, config=dict(
            architectures=["MistralForCausalLM"], model_type="mistral", vocab_size=96, hidden_size=40, intermediate_size=72,
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=16, hidden_act="silu",
            max_position_embeddings=256, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=16, tie_word_embeddings=False,
            torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2)),
    "qwen2": dict(
        dtype=torch.bfloat16, prompt=60, config=dict(
            architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=104, hidden_size=56, intermediate_size=76,
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, hidden_act="silu", max_position_embeddings=256,
            rms_norm_eps=1e-6, rope_theta=1000000.0, sliding_window=8, use_sliding_window=False, max_window_layers=1,
            tie_word_embeddings=True, torch_dtype="bfloat16", bos_token_id=1, eos_token_id=2)),
    "qwen2-yarn": dict(
        dtype=torch.float32, prompt=100, config=dict(
            architectures=["Qwen2ForCausalLM"], model_type="qwen2", vocab_size=80, hidden_size=36, intermediate_size=52,
            num_hidden_layers=3, num_attention_heads=2, num_key_value_heads=1, hidden_act="silu", max_position_embeddings=256,
            rms_norm_eps=1e-6, rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64,
                                                    rope_theta=10000.0),
            sliding_window=20, use_sliding_window=True, max_window_layers=2, tie_word_embeddings=False, dtype="float32")),
    "qwen3": dict(
        dtype=torch.float32, prompt=64, shards=2, config=dict(
            architectures=["Qwen3ForCausalLM"], model_type="qwen3", vocab_size=96, hidden_size=48, intermediate_size=52,
            num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2, head_dim=24, hidden_act="silu",
            max_position_embeddings=256, rms_norm_eps=1e-6, rope_parameters=dict(rope_type="default", rope_theta=1000000.0),
            sliding_window=None, use_sliding_window=False, layer_types=["full_attention"] * 3, attention_bias=False,
            tie_word_embeddings=False, dtype="float32", bos_token_id=1, eos_token_id=2)),
}

GENERATION = dict(bos_token_id=1, do_sample=True, eos_token_id=[2, 4], temperature=0.6, top_k=20, top_p=0.95,
                  repetition_penalty=1.05, max_new_tokens=512)

QWEN25_YARN = dict(factor=4.0, original_max_position_embeddings=32768, type="yarn")
# Values as published on the Hub, reduced to those that decide the network, and a few configs that rely on defaults.
CONFIGS = {
    "Llama-2-7b": dict(
        architectures=["LlamaForCausalLM"], hidden_act="silu", hidden_size=4096, intermediate_size=11008,
        max_position_embeddings=4096, model_type="llama", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=32,
        pretraining_tp=1, rms_norm_eps=1e-5, rope_scaling=None, tie_word_embeddings=False, torch_dtype="float16",
        vocab_size=32000, bos_token_id=1, eos_token_id=2),
    "Llama-3.1-8B-Instruct": dict(
        architectures=["LlamaForCausalLM"], attention_bias=False, bos_token_id=128000, eos_token_id=[128001, 128008, 128009],
        hidden_act="silu", hidden_size=4096, intermediate_size=14336, max_position_embeddings=131072, mlp_bias=False,
        model_type="llama", num_attention_heads=32, num_hidden_layers=32, num_key_value_heads=8, rms_norm_eps=1e-5,
        rope_scaling=dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=8192,
                          rope_type="llama3"),
        rope_theta=500000.0, tie_word_embeddings=False, torch_dtype="bfloat16", vocab_size=128256),
    "Llama-3.2-1B": dict(
        architectures=["LlamaForCausalLM"], head_dim=64, hidden_act="silu", hidden_size=2048, intermediate_size=8192,
        max_position_embeddings=131072, model_type="llama", num_attention_heads=32, num_hidden_layers=16,
        num_key_value_heads=8, rms_norm_eps=1e-5,
        rope_scaling=dict(factor=32.0, high_freq_factor=4.0, low_freq_factor=1.0, original_max_position_embeddings=8192,
                          rope_type="llama3"),
        rope_theta=500000.0, tie_word_embeddings=True, torch_dtype="bfloat16", vocab_size=128256, eos_token_id=128001),
    "Mistral-7B-v0.1": dict(
        architectures=["MistralForCausalLM"], hidden_act="silu", hidden_size=4096, intermediate_size=14336,
        max_position_embeddings=32768, model_type="mistral", num_attention_heads=32, num_hidden_layers=32,
        num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=10000.0, sliding_window=4096, tie_word_embeddings=False,
        torch_dtype="bfloat16", vocab_size=32000, eos_token_id=2),
    "Mistral-7B-v0.3": dict(
        architectures=["MistralForCausalLM"], hidden_act="silu", hidden_size=4096, intermediate_size=14336,
        max_position_embeddings=32768, model_type="mistral", num_attention_heads=32, num_hidden_layers=32,
        num_key_value_heads=8, rms_norm_eps=1e-5, rope_theta=1000000.0, sliding_window=None, tie_word_embeddings=False,
        torch_dtype="bfloat16", vocab_size=32768, eos_token_id=2),
    "Mistral defaults": dict(
        architectures=["MistralForCausalLM"], model_type="mistral", hidden_size=4096, intermediate_size=14336,
        num_attention_heads=32, num_hidden_layers=2, vocab_size=32000),
    "Mistral with a null head_dim": dict(
        architectures=["MistralForCausalLM"], model_type="mistral", hidden_size=64, intermediate_size=64, head_dim=None,
        num_attention_heads=8, num_hidden_layers=2, vocab_size=320, eos_token_id=[5]),
    "Qwen2.5-7B-Instruct": dict(
        architectures=["Qwen2ForCausalLM"], bos_token_id=151643, eos_token_id=151645, hidden_act="silu", hidden_size=3584,
        intermediate_size=18944, max_position_embeddings=32768, max_window_layers=28, model_type="qwen2",
        num_attention_heads=28, num_hidden_layers=28, num_key_value_heads=4, rms_norm_eps=1e-6, rope_theta=1000000.0,
        sliding_window=131072, tie_word_embeddings=False, torch_dtype="bfloat16", use_sliding_window=False, vocab_size=152064),
    "Qwen2.5-7B-Instruct with YaRN": dict(
        architectures=["Qwen2ForCausalLM"], eos_token_id=151645, hidden_act="silu", hidden_size=3584, intermediate_size=18944,
        max_position_embeddings=32768, max_window_layers=28, model_type="qwen2", num_attention_heads=28, num_hidden_layers=28,
        num_key_value_heads=4, rms_norm_eps=1e-6, rope_theta=1000000.0, rope_scaling=QWEN25_YARN, sliding_window=131072,
        tie_word_embeddings=False, torch_dtype="bfloat16", use_sliding_window=False, vocab_size=152064),
    "Qwen2 with windows": dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=64, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, num_hidden_layers=6, vocab_size=320, use_sliding_window=True, max_window_layers=4,
        sliding_window=32),
    "Qwen2 with layer types": dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=64, intermediate_size=64, num_attention_heads=4,
        num_key_value_heads=2, num_hidden_layers=3, vocab_size=320, use_sliding_window=True, max_window_layers=1,
        sliding_window=32, layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
    "Qwen2 defaults": dict(
        architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=4096, intermediate_size=22016,
        num_attention_heads=32, num_hidden_layers=2, vocab_size=151936),
    "Qwen3-0.6B": dict(
        architectures=["Qwen3ForCausalLM"], attention_bias=False, bos_token_id=151643, eos_token_id=151645, head_dim=128,
        hidden_act="silu", hidden_size=1024, intermediate_size=3072, max_position_embeddings=40960, max_window_layers=28,
        model_type="qwen3", num_attention_heads=16, num_hidden_layers=28, num_key_value_heads=8, rms_norm_eps=1e-6,
        rope_scaling=None, rope_theta=1000000, sliding_window=None, tie_word_embeddings=True, torch_dtype="bfloat16",
        use_sliding_window=False, vocab_size=151936),
    "Qwen3 defaults": dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=4096, intermediate_size=22016,
        num_attention_heads=32, num_hidden_layers=2, vocab_size=151936),
    "Qwen3 YaRN with every option": dict(
        architectures=["Qwen3ForCausalLM"], model_type="qwen3", hidden_size=1024, intermediate_size=3072, head_dim=128,
        num_attention_heads=16, num_key_value_heads=8, num_hidden_layers=2, vocab_size=151936, max_position_embeddings=131072,
        rope_parameters=dict(rope_type="yarn", rope_theta=1000000.0, factor=8.0, original_max_position_embeddings=16384,
                             beta_fast=24.0, beta_slow=2.0, mscale=0.7, mscale_all_dim=0.9, truncate=False)),
    "YaRN with an attention factor and no factor": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256, intermediate_size=64, num_attention_heads=4,
        num_hidden_layers=1, vocab_size=320, max_position_embeddings=65536, rope_theta=250000.0,
        rope_scaling=dict(rope_type="yarn", factor=None, original_max_position_embeddings=4096, attention_factor=1.25)),
    "YaRN without an original length": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256, intermediate_size=64, num_attention_heads=4,
        num_hidden_layers=1, vocab_size=320, max_position_embeddings=8192, rope_scaling=dict(type="yarn", factor=2.0)),
    "linear, old spelling": dict(
        architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=256, intermediate_size=64, num_attention_heads=4,
        num_hidden_layers=1, vocab_size=320, rope_scaling=dict(type="linear", factor=2.5)),
}


def checkpoint(name, spec, root):
    out = root / name
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*"):
        old.unlink()
    (out / "config.json").write_text(json.dumps(spec["config"], indent=1) + "\n")
    if name == "qwen3":
        (out / "generation_config.json").write_text(json.dumps(GENERATION, indent=1) + "\n")
    torch.manual_seed(sum(name.encode()))
    cfg = AutoConfig.from_pretrained(out)
    model = AutoModelForCausalLM.from_config(cfg, dtype=torch.float32)
    with torch.no_grad():
        for pname, p in model.named_parameters():
            if p.ndim == 2:  # large enough that attention selects positions and logits have a standard deviation of a few
                gain = 2.0 if "q_proj" in pname or "k_proj" in pname else 1.0
                # with a tied head, the input token would win by its own embedding unless the layers add more to it
                gain = (2.0 if cfg.tie_word_embeddings else 0.7) if "down_proj" in pname or "o_proj" in pname else gain
                gain = 2.5 if "lm_head" in pname or "embed" in pname and cfg.tie_word_embeddings else gain
                p.normal_(0, gain / p.shape[1] ** 0.5)
            elif pname.endswith("bias"):
                p.normal_(0, 0.5)
            else:
                p.uniform_(0.5, 1.5)
    state = {k: v.to(spec["dtype"]).contiguous() for k, v in model.state_dict().items()}
    if cfg.tie_word_embeddings:
        state.pop("lm_head.weight")
    if spec.get("old_buffers"):  # checkpoints of 2023 contain this buffer, which readers ignore
        for i in range(cfg.num_hidden_layers):
            state[f"model.layers.{i}.self_attn.rotary_emb.inv_freq"] = torch.ones(5)
    save(out, state, spec.get("shards", 1))
    golden(out, AutoModelForCausalLM.from_pretrained(out, dtype=torch.float32, attn_implementation="eager"),
           torch.randint(5, cfg.vocab_size, (spec["prompt"],)).tolist(), out, spec["prompt"], True)


def save(out, state, shards):
    if shards == 1:
        save_file(state, out / "model.safetensors", metadata={"format": "pt"})
        (out / "model.safetensors").chmod(0o644)
        return
    index, names = {}, sorted(state)
    for s in range(shards):
        file = f"model-{s + 1:05d}-of-{shards:05d}.safetensors"
        part = {n: state[n] for n in names[s::shards]}  # so that tensors with similar names are in different files
        save_file(part, out / file, metadata={"format": "pt"})
        (out / file).chmod(0o644)
        index |= {n: file for n in part}
    total = sum(v.numel() * v.element_size() for v in state.values())
    (out / "model.safetensors.index.json").write_text(
        json.dumps({"metadata": {"total_size": total}, "weight_map": dict(sorted(index.items()))}, indent=1) + "\n")


@torch.no_grad()
def golden(src, model, prompt, out, rows, layers):
    model.eval()
    hidden = []
    hooks = [layer.register_forward_hook(lambda m, a, y: hidden.append(y[0] if isinstance(y, tuple) else y))
             for layer in model.model.layers]
    logits = model(torch.tensor([prompt]), use_cache=False).logits[0]
    for h in hooks:
        h.remove()
    std = logits.std(dim=-1).min().item()
    assert std > 1, (src, std)  # otherwise a wrong network could pass the tests
    ids, greedy, margins = list(prompt), [], []
    for _ in range(GREEDY):
        best = model(torch.tensor([ids]), use_cache=False).logits[0, -1].topk(2)
        greedy.append(best.indices[0].item())
        margins.append(round((best.values[0] - best.values[1]).item(), 6))
        ids.append(greedy[-1])
    logits[-rows:].numpy().astype("<f4").tofile(out / "logits.f32")
    if layers:
        torch.stack([b.reshape(len(prompt), -1) for b in hidden]).numpy().astype("<f4").tofile(out / "hidden.f32")
    doc = dict(made_with=PINNED, prompt=prompt, greedy=greedy, margins=margins, rows=rows, std=round(std, 3))
    (out / "golden.json").write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in doc.items()) + "\n}\n")
    print(src, "min std of logits", round(std, 2), "least margin", min(margins), "distinct greedy", len(set(greedy)))


def bundled(src, root):
    tok = AutoTokenizer.from_pretrained(src)
    text = tok.apply_chat_template(
        [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "Tell me a short story."}],
        tokenize=False, add_generation_prompt=True)
    out = root / "weir-tiny"
    out.mkdir(parents=True, exist_ok=True)
    golden(src, AutoModelForCausalLM.from_pretrained(src, dtype=torch.float32, attn_implementation="eager"),
           tok(text, add_special_tokens=False)["input_ids"], out, 8, False)
    rows = []
    for line in (src / "heldout.jsonl").read_text().splitlines():
        s = json.loads(line)
        if s["tools"]:
            continue
        prompt = tok.apply_chat_template(s["messages"][:-1], tokenize=False, add_generation_prompt=True)
        ids = [tok(t, add_special_tokens=False)["input_ids"] for t in (prompt, s["messages"][-1]["content"] + "<|im_end|>")]
        rows.append(json.dumps(dict(prompt=ids[0], answer=ids[1]), separators=(",", ":")))
    (out / "heldout.json").write_text("[\n" + ",\n".join(rows) + "\n]\n")


def read_configs(root):
    """Writes how transformers reads each config: the values that the modules of the network are built from."""
    cases = []
    for name, doc in CONFIGS.items():
        cfg = AutoConfig.for_model(doc["model_type"], **{k: v for k, v in doc.items() if k != "model_type"})
        module = __import__(f"transformers.models.{cfg.model_type}.modeling_{cfg.model_type}", fromlist=["x"])
        rotary = getattr(module, cfg.model_type.capitalize() + "RotaryEmbedding")(cfg)
        n = cfg.num_hidden_layers
        if cfg.model_type == "mistral":
            windows = [cfg.sliding_window or 0] * n
        else:
            types = getattr(cfg, "layer_types", None) or ["full_attention"] * n
            windows = [cfg.sliding_window if t == "sliding_attention" else 0 for t in types]
        eos = cfg.eos_token_id
        cases.append(dict(name=name, config=doc, want=dict(
            kv_heads=cfg.num_key_value_heads, head_dim=getattr(cfg, "head_dim", None) or cfg.hidden_size // cfg.num_attention_heads,
            max_positions=cfg.max_position_embeddings, eps=cfg.rms_norm_eps, tied=cfg.tie_word_embeddings, windows=windows,
            eos=[] if eos is None else eos if isinstance(eos, list) else [eos],
            inv_freq=rotary.inv_freq.tolist(), rope_scale=rotary.attention_scaling)))
    (root / "configs.json").write_text("[\n" + ",\n".join(json.dumps(c) for c in cases) + "\n]\n")


def main():
    have = {"torch": torch.__version__.split("+")[0], "transformers": transformers.__version__}
    if have != PINNED:
        sys.exit(f"made with {PINNED}, found {have}")
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    root, tiny = map(pathlib.Path, sys.argv[1:])
    root.mkdir(parents=True, exist_ok=True)
    read_configs(root)
    for name, spec in CHECKPOINTS.items():
        checkpoint(name, spec, root)
    bundled(tiny, root)


if __name__ == "__main__":
    main()
