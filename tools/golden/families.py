"""Golden data of package model for families put together of pieces: tiny random checkpoints and what transformers computes.

    pip install -r requirements.txt        (torch 2.15.0, transformers 5.23.0)
    python families.py ../../model/testdata/families [NAME ...]

Writes for each family of FAMILIES, below the folder:

  NAME/config.json, model.safetensors   as transformers saves them, so with the tensors' names of the hub
  NAME/golden.json                      prompt, log-probabilities of its tokens, 48 greedy tokens and theirs, and
                                        some numbers of the hidden states after every layer

All arithmetic is float32 on the CPU with eager attention. Every parameter is drawn. The script fails unless
each kind of parameter, and each edit of the configuration that a family lists, moves a log-probability of the
prompt by 0.05, so that a network without it would not pass, and unless 12 of the greedy tokens are distinct.
"""
import copy
import json
import math
import pathlib
import re
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import AutoConfig, AutoModelForCausalLM, CONFIG_MAPPING

from families_list import FAMILIES as NEWER
from families_older import OLDER

FAMILIES = {**NEWER, **OLDER}

PINNED = {"torch": "2.15.0", "transformers": "5.23.0"}
GREEDY, PROMPT = 48, 60
LEAST_MOVE = 0.05
DISTINCT = 12
COLUMNS = 8  # of a hidden state


def build(spec):
    kind = spec["model_type"]
    values = {k: v for k, v in spec["config"].items()}
    config = CONFIG_MAPPING[kind](**values)
    how = spec.get("attention", "eager")
    config._attn_implementation = how
    if "text_config" in values:
        config.get_text_config()._attn_implementation = how
    cls = getattr(transformers, spec.get("cls", spec["architecture"]))
    torch.manual_seed(spec.get("seed", 1))
    model = cls._from_config(config, attn_implementation=how, dtype=torch.float32) if hasattr(cls, "_from_config") else cls(config)
    return model.float().eval(), config


def is_norm(name, p):
    return p.dim() == 1 and ("norm" in name or ".ln_" in name) and name.endswith("weight")


def draw(model, spec):
    """Gives every parameter and stored buffer a value."""
    g = torch.Generator().manual_seed(spec.get("seed", 1))
    normal = lambda p: torch.randn(p.shape, generator=g)
    one_based = spec.get("plus_one", False)
    with torch.no_grad():
        for name, p in sorted(list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if n in model.state_dict()]):
            if name.endswith("A_log"):
                p.copy_(0.5 + 0.5 * normal(p))
            elif name.endswith("dt_bias"):
                p.copy_(-1 + normal(p))
            elif name.endswith(".D"):
                p.copy_(1 + 0.5 * normal(p))
            elif name.endswith("sinks"):
                p.copy_(0.5 + normal(p))
            elif "layer_scalar" in name:
                p.copy_(0.8 + 0.2 * torch.rand(p.shape, generator=g))
            elif "act_fn" in name:
                p.copy_(p + 0.2 * normal(p)) if name.endswith(("alpha_p", "alpha_n")) else None
            elif "correction_bias" in name or "expert_bias" in name:
                p.copy_(0.3 * normal(p))
            elif is_norm(name, p):
                plain = spec.get("plain_norm", "linear_attn.norm")
                base = 0.0 if one_based and plain not in name else 1.0
                post = spec.get("post", 1.0) if "post_" in name else 1.0
                p.copy_(base + (post - 1) + 0.4 * post * normal(p))
            elif "per_expert_scale" in name or name.endswith("router.scale"):
                p.copy_(1 + 0.4 * normal(p))
            elif p.dim() <= 1:
                p.copy_(0.3 * normal(p))
            elif "conv" in name:
                p.copy_(normal(p) / math.sqrt(p.shape[-1]))
            elif "embed" in name:
                p.copy_(normal(p) * spec.get("embed", 1.0))
            else:
                p.copy_(normal(p) * spec.get("gain", 1.0) / math.sqrt(p.shape[-1]))
            p.copy_(p.bfloat16().float())
        model.tie_weights()


def draw_mxfp4(model, seed):
    """Gives the experts of gpt-oss numbers that MXFP4 has. Returns the tensors that say them in the form of the published files."""
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors
    g = torch.Generator().manual_seed(seed)
    packed = {}
    for name, p in model.named_parameters():
        if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
            experts, columns, rows = p.shape  # turned over, as transformers keeps them
            blocks = torch.randint(0, 256, (experts, rows, columns // 32, 16), generator=g, dtype=torch.uint8)
            scales = torch.randint(121, 125, (experts, rows, columns // 32), generator=g, dtype=torch.uint8)
            with torch.no_grad():
                p.copy_(convert_moe_packed_tensors(blocks, scales).float())
            packed[name] = {name + "_blocks": blocks, name + "_scales": scales}
    return packed


def logprobs(model, tokens):
    with torch.no_grad():
        return torch.log_softmax(model(input_ids=torch.tensor([tokens])).logits[0].double(), -1)


def greedy(model, prompt):
    tokens = list(prompt)
    for _ in range(GREEDY):
        tokens.append(int(logprobs(model, tokens)[-1].argmax()))
    return tokens[len(prompt):]


def layers(model, prompt):
    """What each layer of the decoder hands on, at three positions of the prompt, in COLUMNS columns. None for a network of several streams."""
    found = [m for n, m in model.named_modules() if isinstance(m, torch.nn.ModuleList) and n.split(".")[-1] in ("layers", "h", "blocks") and len(m) == model.config.get_text_config().num_hidden_layers]
    states = []
    hooks = [layer.register_forward_hook(lambda module, given, out: states.append(out[0] if isinstance(out, tuple) else out)) for layer in found[0]]
    logprobs(model, prompt)
    for hook in hooks:
        hook.remove()
    if states[0].dim() != 3:
        return None
    positions = [1, len(prompt) // 2, len(prompt) - 1]
    columns = [c * states[0].shape[-1] // COLUMNS for c in range(COLUMNS)]
    return {"positions": positions, "columns": columns, "layers": [[[float(f"{x:.6g}") for x in s[0, p, columns].tolist()] for p in positions] for s in states]}


def sharpen(model, spec, prompt):
    """Scales the last norm (or what is behind it) so that greedy tokens have probabilities between 0.2 and 0.5."""
    name = spec.get("final")
    norm = next(p for n, p in model.named_parameters() if n.endswith(name)) if name else next(
        p for n, p in reversed(list(model.named_parameters())) if re.search(r"(^|\.)(norm|final_layernorm|norm_f|embedding_norm)\.weight$", n))
    one = 1.0 if spec.get("plus_one", False) else 0.0
    base = norm.detach().clone() + one
    low, high = 1e-3, 1e3
    for _ in range(40):
        mid = math.sqrt(low * high)
        with torch.no_grad():
            norm.copy_((base * mid - one).bfloat16().float())
        p = logprobs(model, prompt).exp().max(-1).values[len(prompt) // 2:].median()
        low, high = (mid, high) if p < 0.35 else (low, mid)


def moves(model, prompt, before):
    after = logprobs(model, prompt)
    at = torch.arange(len(prompt) - 1)
    want = torch.tensor(prompt[1:])
    return float((after[at, want] - before[at, want]).abs().max())


def steady(model, prompt):
    """Whether no choice, of an expert or a position, is so close that rounding may turn it."""
    before = logprobs(model, prompt)
    table = model.get_input_embeddings().weight
    kept, g = table.detach().clone(), torch.Generator().manual_seed(1)
    moved = 0.0
    for _ in range(4):
        with torch.no_grad():
            table.copy_(kept * (1 + 1e-6 * torch.randn(kept.shape, generator=g)))
        moved = max(moved, moves(model, prompt, before))
    with torch.no_grad():
        table.copy_(kept)
    return moved < 1e-3


def check_parameters(model, spec, prompt):
    before = logprobs(model, prompt)
    kinds = {}
    state = model.state_dict()
    for name in state:
        if any(s in name for s in spec.get("towers", [])):
            continue
        kinds.setdefault(re.sub(r"\.\d+", ".N", name), []).append(name)
    for kind, names in kinds.items():
        if any(s in kind for s in spec.get("same", [])):
            continue
        kept = {n: state[n].clone() for n in names}
        with torch.no_grad():
            for n in names:
                neutral = torch.zeros_like(state[n])
                if "norm" in n and n.endswith("weight") and not (spec.get("plus_one") and spec.get("plain_norm", "linear_attn.norm") not in n):
                    neutral = torch.ones_like(state[n]) * (state[n].abs().mean() if n.endswith(("model.norm.weight", "norm_f.weight")) else 1)
                if "scalar" in n or "scale" in n:
                    neutral = torch.ones_like(state[n])
                state[n].copy_(neutral)
        moved = moves(model, prompt, before)
        with torch.no_grad():
            for n in names:
                state[n].copy_(kept[n])
        if not moved >= LEAST_MOVE:
            raise SystemExit(f"{spec['name']}: {kind} moves a log-probability by {moved:.3g} only")


def check_edits(model, config, spec, prompt):
    before = logprobs(model, prompt)
    for path, value in spec.get("edits", {}).items():
        other = copy.deepcopy(config)
        at = other.get_text_config()
        *parts, last = path.split(".")
        for p in parts:
            at = at[p] if isinstance(at, dict) else getattr(at, p)
        if isinstance(at, dict):
            at[last] = value
        else:
            setattr(at, last, value)
        cls = type(model)
        changed = cls._from_config(other, attn_implementation=spec.get("attention", "eager"), dtype=torch.float32).float().eval()
        own = {k: v for k, v in model.state_dict().items() if k in changed.state_dict() and changed.state_dict()[k].shape == v.shape}
        changed.load_state_dict(own, strict=False)
        moved = moves(changed, prompt, before)
        if not moved >= LEAST_MOVE:
            raise SystemExit(f"{spec['name']}: {path} = {value} moves a log-probability by {moved:.3g} only")


def make(folder, name):
    spec = dict(FAMILIES[name], name=name)
    for seed in range(spec.get("seed", 1), spec.get("seed", 1) + 40):
        spec["seed"] = seed
        model, config = build(spec)
        draw(model, spec)
        packed = draw_mxfp4(model, seed) if spec.get("mxfp4") else {}
        text = config.get_text_config()
        g = torch.Generator().manual_seed(seed)
        prompt = torch.randint(5, text.vocab_size, (spec.get("prompt", PROMPT),), generator=g).tolist()
        sharpen(model, spec, prompt)
        tokens = greedy(model, prompt)
        rows = logprobs(model, prompt + tokens)
        best = rows[len(prompt) - 1:-1].topk(2, -1).values
        margin = float((best[:, 0] - best[:, 1]).min())
        if margin > 2e-3 and len(set(tokens)) >= DISTINCT and steady(model, prompt + tokens):
            break
    else:
        raise SystemExit(f"{name}: no seed has clear greedy tokens that vary")
    checked = prompt + tokens if spec.get("stepwise") else prompt
    check_parameters(model, spec, checked)
    check_edits(model, config, spec, checked)
    out = folder / name
    shutil.rmtree(out, ignore_errors=True)
    model.config.architectures = [spec["architecture"]]
    model.save_pretrained(out)
    for extra in ("generation_config.json",):
        (out / extra).unlink(missing_ok=True)
    written = json.loads((out / "config.json").read_text())
    written["architectures"] = [spec["architecture"]]
    tensors = load_file(out / "model.safetensors")
    written["dtype"] = "bfloat16"
    for old, new in spec.get("rename", {}).items():
        tensors = {k.replace(old, new): v for k, v in tensors.items()}
    if "resplit" in spec:  # transformers cuts a convolution into equal parts when it writes it, and the published files do not
        for first in [k for k in tensors if k.endswith(".q_conv1d.weight")]:
            names = [first.replace(".q_conv1d.", f".{part}_conv1d.") for part in "qkv"]
            tensors.update(zip(names, torch.cat([tensors[k] for k in names]).split(spec["resplit"])))
    for extra, shape in spec.get("extra", {}).items():
        tensors[extra] = torch.randn(shape, generator=g)
    for whole, parts in packed.items():
        del tensors[whole]
        tensors.update(parts)
    more = {}
    if packed:
        written["quantization_config"] = {"quant_method": "mxfp4", "modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]}
        more["quantization_config"] = transformers.Mxfp4Config(dequantize=True)
    # All numbers are bfloat16 already: a file of half the size says the same.
    save_file({k: (v if v.dtype == torch.uint8 else v.bfloat16()).contiguous() for k, v in sorted(tensors.items())}, out / "model.safetensors", metadata={"format": "pt"})
    (out / "config.json").write_text(json.dumps(written, indent=1, sort_keys=True) + "\n")
    # What is read again must be the same network.
    again = type(model).from_pretrained(out, attn_implementation=spec.get("attention", "eager"), dtype=torch.float32, **more).float().eval()
    assert float((logprobs(again, prompt) - logprobs(model, prompt)).abs().max()) < 1e-5, name
    if "written" in spec:  # as the code of published checkpoints, which transformers does not have, calls the same
        written.update(spec["written"])
        (out / "config.json").write_text(json.dumps({k: v for k, v in written.items() if v is not ...}, indent=1, sort_keys=True) + "\n")
    at = torch.arange(len(prompt) + GREEDY - 1)
    all_lp = rows[at, torch.tensor((prompt + tokens)[1:])].tolist()
    if spec.get("stepwise"):  # how a position is computed depends on the length of the sequence: see longrope
        for n in range(len(prompt), len(prompt) + GREEDY):
            row = logprobs(model, (prompt + tokens)[:n])
            if n == len(prompt):
                all_lp[:n - 1] = row[torch.arange(n - 1), torch.tensor(prompt[1:])].tolist()
            all_lp[n - 1] = float(row[-1, tokens[n - len(prompt)]])
    (out / "golden.json").write_text(json.dumps({
        "prompt": prompt, "prompt_logprobs": [round(x, 7) for x in all_lp[:len(prompt) - 1]],
        "greedy": tokens, "greedy_logprobs": [round(x, 7) for x in all_lp[len(prompt) - 1:]], "hidden": layers(model, prompt)}) + "\n")
    size = sum(f.stat().st_size for f in out.iterdir())
    probability = best[:, 0].exp()
    print(f"{name}: seed {seed}, {size // 1024} KiB, {len(tensors)} tensors, {len(set(tokens))} greedy tokens, probability {probability.min():.2f} to {probability.max():.2f}, margin {margin:.2g}", flush=True)


if __name__ == "__main__":
    for package, version in PINNED.items():
        got = sys.modules[package].__version__.split("+")[0]
        assert got == version, f"{package} {got} instead of {version}"
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    folder = pathlib.Path(sys.argv[1])
    failed = []
    for name in sys.argv[2:] or FAMILIES:
        try:
            make(folder, name)
        except (SystemExit, Exception) as e:
            failed.append(name)
            print(f"{name}: FAILED: {type(e).__name__}: {e}", flush=True)
    if failed:
        raise SystemExit(f"failed: {' '.join(failed)}")
