"""Writes small quantized checkpoints in the forms of Hugging Face, and the numbers that are read from them.

    python tools/golden/quantized.py model/testdata/quantized quantconfig/testdata/lists.json

Each form is packed by the program that it is from: compressed-tensors' compressors, GPTQModel's and AutoAWQ's linear layers,
transformers' FP8 and MXFP4 code, ModelOpt's NVFP4 tensors. The same program reads the numbers again, with scales as float32, because
they would be rounded otherwise. golden.json has the SHA-256 of the float32 numbers of each matrix, and logits.f32 what
transformers computes from these numbers, in float32.

GPTQModel and AutoAWQ are source packages that need torch to be built: install torch first, and them with --no-build-isolation.
"""

import hashlib
import json
import pathlib
import sys
import warnings
from importlib.metadata import version

warnings.filterwarnings("ignore")

import torch
import transformers
from awq.modules.linear.gemm import WQLinear_GEMM
from awq.utils.packing_utils import dequantize_gemm
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.compressors.nvfp4.helpers import unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationConfig, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.quantization.utils import calculate_qparams, generate_gparam
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.quantization.config import FORMAT, QuantizeConfig
from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module
from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor
from safetensors.torch import save_file
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.integrations.finegrained_fp8 import Fp8Dequantize, Fp8Quantize
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

HERE = pathlib.Path(__file__).parent
PINNED = dict(line.split("==") for line in (HERE / "quantized-requirements.txt").read_text().split())
FP8 = torch.float8_e4m3fn
ROWS = 12  # of logits, and tokens of the prompt

NETWORKS = {
    "llama": dict(architectures=["LlamaForCausalLM"], model_type="llama", hidden_size=64, intermediate_size=96, num_attention_heads=4,
                  num_key_value_heads=2, num_hidden_layers=1, vocab_size=96, max_position_embeddings=64, rms_norm_eps=1e-5,
                  rope_theta=10000.0, tie_word_embeddings=False, eos_token_id=2),
    # Its queries, keys and values have biases.
    "qwen2": dict(architectures=["Qwen2ForCausalLM"], model_type="qwen2", hidden_size=64, intermediate_size=96, num_attention_heads=4,
                  num_key_value_heads=2, num_hidden_layers=1, vocab_size=96, max_position_embeddings=64, rms_norm_eps=1e-6,
                  rope_theta=10000.0, tie_word_embeddings=True, use_sliding_window=False, eos_token_id=2),
}


class Kind:
    """A form: its config, and how it packs the matrix of a module. A module for which pack returns None is not quantized."""

    def __init__(self, config, pack, network="llama", file=None, key="quantization_config", extra=None):
        self.config, self.pack, self.network, self.file, self.key, self.extra = config, pack, network, file, key, extra or {}


def digest(numbers):
    """The hash of the numbers, in which zeros have no sign: of codes that stand for -0, ModelOpt makes 0."""
    return hashlib.sha256((numbers + 0.0).numpy().astype("<f4").tobytes()).hexdigest()


def compressed(fmt, weights, inputs=None, targets=("Linear",), scale_dtype=torch.bfloat16, ignore=("lm_head",), more=()):
    """A form of compressed-tensors. more are further (format, weights, inputs, targets); the first that fits counts."""
    schemes = []
    for f, w, i, t in [(fmt, weights, inputs, targets), *more]:
        args = QuantizationArgs(**w)
        schemes.append(QuantizationScheme(targets=list(t), weights=args, input_activations=QuantizationArgs(**i) if i else None, format=f))
    config = QuantizationConfig(config_groups={f"group_{n}": s for n, s in enumerate(schemes)}, quantization_status="compressed",
                                format=fmt if not more else "mixed-precision", ignore=list(ignore)).model_dump(mode="json")

    def pack(name, w):
        from compressed_tensors.utils.match import match_name
        if any(match_name(name, i) for i in ignore):
            return None
        for scheme in schemes:
            if any(t == "Linear" or match_name(name, t) for t in scheme.targets):
                return compress(scheme, w, scale_dtype)
        return None

    return Kind(config, pack)


def compress(scheme, w, scale_dtype):
    args = scheme.weights
    strategy = str(getattr(args.strategy, "value", args.strategy))
    if strategy == "tensor":
        low, high = w.min().reshape(1), w.max().reshape(1)
    elif strategy == "channel":
        low, high = w.amin(1, keepdim=True), w.amax(1, keepdim=True)
    elif strategy in ("group", "tensor_group"):
        parts = w.reshape(w.shape[0], -1, args.group_size)
        low, high = parts.amin(-1), parts.amax(-1)
    else:
        a, b = args.block_structure
        padded = torch.nn.functional.pad(w, (0, -w.shape[1] % b, 0, -w.shape[0] % a))
        parts = padded.reshape(padded.shape[0] // a, a, padded.shape[1] // b, b)
        low, high = parts.amin((1, 3)), parts.amax((1, 3))
    state = {"weight": w}
    total = None
    if scheme.format == "nvfp4-pack-quantized":
        total = state["weight_global_scale"] = generate_gparam(w.min().reshape(1), w.max().reshape(1))
    scale, zero = calculate_qparams(low, high, args, global_scale=total)
    state["weight_scale"] = scale if args.num_bits == 4 and args.type == "float" else scale.to(scale_dtype)
    state["weight_zero_point"] = zero
    if scheme.input_activations is not None and scheme.input_activations.dynamic is False:
        state["input_scale"] = torch.tensor([0.125], dtype=scale_dtype)
    packer = BaseCompressor.get_value_from_registry(scheme.format)
    stored = packer.compress(state, scheme)
    if total is not None:  # its reader would compute in bfloat16
        codes = unpack_fp4_from_uint8(stored["weight_packed"], *w.shape, dtype=torch.float32)
        return stored, dequantize(codes, stored["weight_scale"].float(), args=args, global_scale=total, dtype=torch.float32)
    again = dict(stored)
    if again["weight_scale"].dtype == scale_dtype:
        again["weight_scale"] = again["weight_scale"].float()
    return stored, packer.decompress(again, scheme)["weight"].float()


def grid(w, bits, group, sym, order=None):
    """Scales and zero points [N, groups] of rounding to the nearest, and the group of each column."""
    k = w.shape[1]
    group = k if group == -1 else group
    g_idx = torch.arange(k) // group if order is None else order // group
    groups = int(g_idx.max()) + 1
    scales, zeros = torch.zeros(w.shape[0], groups), torch.zeros(w.shape[0], groups)
    top = 2**bits - 1
    for g in range(groups):
        part = w[:, g_idx == g]
        if sym:
            scales[:, g] = part.abs().amax(1) * 2 / top
            zeros[:, g] = (top + 1) // 2
        else:
            low, high = part.amin(1).clamp(max=0), part.amax(1).clamp(min=0)
            scales[:, g] = (high - low) / top
            zeros[:, g] = torch.round(-low / scales[:, g])
    return scales, zeros, g_idx.to(torch.int32)


def linear(w):
    layer = torch.nn.Linear(w.shape[1], w.shape[0], bias=False)
    layer.weight.data = w.clone()
    return layer


def gptq(bits, group, sym, desc_act=False, v2=False, rules=None, head=False, zero_bias=False, **kind):
    config = dict(quant_method="gptq", bits=bits, group_size=group, sym=sym, desc_act=desc_act, lm_head=head,
                  checkpoint_format="gptq_v2" if v2 else "gptq", pack_dtype="int32")
    if rules:
        config["dynamic"] = rules[0]

    def pack(name, w):
        b, g = bits, group
        if name == "lm_head" and not head:
            return None
        if rules:
            special = rules[1](name)
            if special is None:
                return None
            b, g = special or (b, g)
        n, k = w.shape
        order = torch.randperm(k) if desc_act else None
        scales, zeros, g_idx = grid(w, b, g, sym, order)
        layer = TorchLinear(bits=b, group_size=g, sym=sym, desc_act=desc_act, in_features=k, out_features=n, bias=False, format=FORMAT.GPTQ_V2)
        layer.pack_original(linear(w), scales, zeros, g_idx)
        stored = {x: getattr(layer, x).clone() for x in ("qweight", "qzeros", "scales", "g_idx")}
        layer.post_init()
        layer.scales = layer.scales.float()
        numbers = layer.dequantize_weight().float().T.contiguous()
        if not v2:
            convert_gptq_v2_to_v1_format_module(layer, QuantizeConfig(bits=b, group_size=g))
            stored["qzeros"] = layer.qzeros.clone()
        if zero_bias:
            stored["bias"] = torch.zeros(n, dtype=torch.float16)
        return stored, numbers

    return Kind(config, pack, **kind)


def awq(group, **kind):
    config = dict(quant_method="awq", bits=4, group_size=group, version="gemm", zero_point=True, modules_to_not_convert=["o_proj"])

    def pack(name, w):
        if name == "lm_head" or "o_proj" in name:
            return None
        scales, zeros, _ = grid(w, 4, group, False)
        scales, zeros = scales.T.contiguous(), zeros.T.contiguous()
        layer = WQLinear_GEMM.from_linear(linear(w), 4, group, scales=scales, zeros=zeros)
        stored = {x: getattr(layer, x) for x in ("qweight", "qzeros", "scales")}
        return stored, dequantize_gemm(layer.qweight, layer.qzeros, layer.scales.float(), 4, group).T.contiguous()

    return Kind(config, pack, **kind)


class Quantizer:
    def __init__(self, block, fmt):
        self.quantization_config = type("Config", (), dict(weight_block_size=block, scale_fmt=fmt))()


def fp8(block, fmt="float", static=False, left_out=()):
    config = dict(quant_method="fp8", activation_scheme="static" if static else "dynamic", fmt="e4m3", weight_block_size=block,
                  modules_to_not_convert=["lm_head", "model.layers.0.input_layernorm", *left_out])
    if fmt != "float":
        config["scale_fmt"] = fmt
    quantizer = Quantizer(block, fmt)

    def pack(name, w):
        if name in config["modules_to_not_convert"]:
            return None
        stored = Fp8Quantize(quantizer)._quantize_one("weight", w)
        stored = {"weight": stored["weight"], "weight_scale_inv": stored["weight_scale_inv"]}
        numbers = Fp8Dequantize(quantizer)._dequantize_one(stored["weight"], stored["weight_scale_inv"], torch.float32)
        if block is None:
            stored["weight_scale_inv"] = stored["weight_scale_inv"].reshape(())
        if static:
            stored["activation_scale"] = torch.tensor(0.25)
        return stored, numbers

    return Kind(config, pack)


def fbgemm():
    """FP8 with a scale for each row. FBGEMM's own packer needs a GPU; this is its formula."""
    config = dict(quant_method="fbgemm_fp8", activation_scale_ub=1200.0, modules_to_not_convert=["lm_head", "model.layers.0.self_attn.q_proj"])

    def pack(name, w):
        if name in config["modules_to_not_convert"]:
            return None
        scale = w.abs().amax(1, keepdim=True) / torch.finfo(FP8).max
        stored = {"weight": (w / scale).to(FP8), "weight_scale": scale, "input_scale_ub": torch.tensor([1200.0])}
        return stored, stored["weight"].float() * scale

    return Kind(config, pack)


def modelopt(algo):
    config = dict(producer=dict(name="modelopt", version=PINNED["nvidia-modelopt"]),
                  quantization=dict(quant_algo=algo, kv_cache_quant_algo="FP8", group_size=16, exclude_modules=["lm_head", "*o_proj"]))

    def pack(name, w):
        if name == "lm_head" or name.endswith("o_proj"):
            return None
        if algo == "FP8":
            scale = w.abs().max() / torch.finfo(FP8).max
            stored = {"weight": (w / scale).to(FP8), "weight_scale": scale, "input_scale": torch.tensor(0.01)}
            return stored, stored["weight"].float() * scale
        tensor, scale, second = NVFP4QTensor.quantize(w, 16)
        numbers = tensor.dequantize(torch.float32, scale=scale, double_scale=second, block_sizes={-1: 16})
        stored = {"weight": tensor._quantized_data, "weight_scale": scale, "weight_scale_2": second, "input_scale": torch.tensor(0.01)}
        return stored, numbers

    return Kind(config, pack, file="hf_quant_config.json",
                extra={"model.layers.0.self_attn.k_proj.k_scale": torch.tensor(1.0), "model.layers.0.self_attn.v_proj.v_scale": torch.tensor(1.0)})


INT8 = dict(num_bits=8, type="int", symmetric=True, strategy="channel")
TOKEN8 = dict(num_bits=8, type="int", symmetric=True, strategy="token", dynamic=True)
FLOAT8 = dict(num_bits=8, type="float", symmetric=True)
INT4 = dict(num_bits=4, type="int", strategy="group", group_size=32)


def with_old_config(kind):
    """Files of AutoGPTQ: the config lies beside config.json, and says nothing of the method."""
    kind.config = {k: v for k, v in kind.config.items() if k in ("bits", "group_size", "sym", "desc_act")}
    kind.file = "quantize_config.json"
    return kind


def of_attention(name):
    return False if "self_attn.q_proj" in name else (8, -1) if "gate_proj" in name else None if "o_proj" in name else (4, 32)


KINDS = {
    "fp8-block": fp8([32, 32]),
    "fp8-ue8m0": fp8([16, 32], "ue8m0", left_out=["model.layers.0.mlp.down_proj"]),
    "fp8-static": fp8(None, static=True),
    "fbgemm": fbgemm(),
    "ct-fp8-tensor": compressed("float-quantized", FLOAT8 | dict(strategy="tensor"), FLOAT8 | dict(strategy="tensor", dynamic=False)),
    "ct-fp8-channel": compressed("float-quantized", FLOAT8 | dict(strategy="channel"), FLOAT8 | dict(strategy="token", dynamic=True)),
    "ct-fp8-block": compressed("float-quantized", FLOAT8 | dict(strategy="block", block_structure=[48, 40]), FLOAT8 | dict(strategy="token", dynamic=True), scale_dtype=torch.float32),
    "ct-w8a8": compressed("int-quantized", INT8, TOKEN8),
    "ct-w8a8-static": compressed("int-quantized", INT8 | dict(strategy="tensor"), INT8 | dict(strategy="tensor", dynamic=False), scale_dtype=torch.float32),
    "ct-w8a16-asym": compressed("naive-quantized", INT8 | dict(symmetric=False)),
    "ct-w4a16": compressed("pack-quantized", INT4 | dict(symmetric=True), scale_dtype=torch.float16),
    "ct-w4a16-asym": compressed("pack-quantized", INT4 | dict(symmetric=False)),
    "ct-w3a16": compressed("pack-quantized", INT4 | dict(num_bits=3, group_size=16, symmetric=False)),
    "ct-mixed": compressed(
        "pack-quantized", INT8, None, targets=["re:.*self_attn.(q|k|v)_proj$"], ignore=["lm_head", "re:.*o_proj"],
        more=[("pack-quantized", INT4 | dict(symmetric=False), None, ["re:.*mlp.(gate|up)_proj$"]),
              ("int-quantized", INT8, TOKEN8, ["model.layers.0.mlp.down_proj"])]),
    "ct-nvfp4": compressed("nvfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16, scale_dtype=FP8),
                           dict(num_bits=4, type="float", symmetric=True, strategy="tensor_group", group_size=16, dynamic="local", scale_dtype=FP8)),
    "ct-mxfp4": compressed("mxfp4-pack-quantized", dict(num_bits=4, type="float", symmetric=True, strategy="group", group_size=32, scale_dtype=torch.uint8)),
    "gptq-4": gptq(4, 32, True, zero_bias=True),
    "gptq-4-desc": gptq(4, 32, False, desc_act=True, network="qwen2"),
    "gptq-8-v2": gptq(8, 16, False, v2=True, head=True),
    "gptq-3": gptq(3, 32, False, desc_act=True),
    "gptq-2": with_old_config(gptq(2, 16, True)),
    "gptq-dynamic": gptq(4, 32, True, rules=({"-:.*o_proj": {}, "+:.*gate_proj": {"bits": 8, "group_size": -1}}, of_attention)),
    "awq": awq(32, network="qwen2"),
    "modelopt-nvfp4": modelopt("NVFP4"),
    "modelopt-fp8": modelopt("FP8"),
}


@torch.no_grad()
def checkpoint(name, kind, root):
    out = root / name
    out.mkdir(parents=True, exist_ok=True)
    for old in out.glob("*"):
        old.unlink()
    torch.manual_seed(sum(name.encode()))
    document = dict(NETWORKS[kind.network])
    (out / "config.json").write_text(json.dumps(document))
    config = AutoConfig.from_pretrained(out)
    model = AutoModelForCausalLM.from_config(config, dtype=torch.float32, attn_implementation="eager")
    for pname, p in model.named_parameters():
        if p.ndim == 2:
            p.normal_(0, (2.5 if "lm_head" in pname or "embed" in pname and config.tie_word_embeddings else 1.0) / p.shape[1] ** 0.5)
        elif pname.endswith("bias"):
            p.normal_(0, 0.5)
        else:
            p.uniform_(0.5, 1.5)
        p.copy_(p.to(torch.bfloat16))
    stored, matrices = {}, {}
    for mname, module in model.named_modules():
        if not isinstance(module, torch.nn.Linear) or mname == "lm_head" and config.tie_word_embeddings:
            continue
        packed = kind.pack(mname, module.weight.data)
        if packed is None:
            continue
        parts, numbers = packed
        stored |= {f"{mname}.{suffix}": t.contiguous() for suffix, t in parts.items()}
        assert numbers.shape == module.weight.shape and (numbers - module.weight).abs().mean() < 0.5 * module.weight.abs().mean(), (name, mname)
        matrices[f"{mname}.weight"] = dict(sha256=digest(numbers), first=numbers.flatten()[:4].tolist())
        module.weight.copy_(numbers)
    for pname, p in model.named_parameters():
        if pname not in matrices:
            stored[pname] = p.to(torch.bfloat16).contiguous()
    if config.tie_word_embeddings:
        stored.pop("lm_head.weight", None)
    stored |= kind.extra
    save_file(stored, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    if kind.file:
        (out / kind.file).write_text(json.dumps(kind.config, indent=1) + "\n")
    else:
        document[kind.key] = kind.config
    (out / "config.json").write_text(json.dumps(document, indent=1) + "\n")
    prompt = torch.randint(5, config.vocab_size, (ROWS,)).tolist()
    logits = model.eval()(torch.tensor([prompt]), use_cache=False).logits[0]
    assert logits.std(dim=-1).min() > 1, name
    logits.numpy().astype("<f4").tofile(out / "logits.f32")
    lines = [f'"made_with": {json.dumps(PINNED)}', f'"prompt": {prompt}']
    lines.append('"matrices": {\n' + ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in matrices.items()) + "\n }")
    (out / "golden.json").write_text("{\n " + ",\n ".join(lines) + "\n}\n")
    print(name, sum(f.stat().st_size for f in out.glob("*")), "bytes,", len(matrices), "matrices")


def experts(root):
    """The experts of gpt-oss: two matrices of FP4 with scales that are powers of two."""
    torch.manual_seed(1)
    blocks = torch.randint(0, 256, (2, 48, 3, 16), dtype=torch.uint8)
    scales = torch.randint(110, 140, (2, 48, 3), dtype=torch.uint8)
    numbers = convert_moe_packed_tensors(blocks, scales, dtype=torch.float32).transpose(1, 2).contiguous()  # as blocks has it: [expert, out, in]
    out = root / "mxfp4-experts"
    out.mkdir(parents=True, exist_ok=True)
    save_file({"experts.gate_up_proj_blocks": blocks, "experts.gate_up_proj_scales": scales}, out / "model.safetensors", metadata={"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    (out / "golden.json").write_text(json.dumps(dict(shape=list(numbers.shape), sha256=digest(numbers))) + "\n")


NAMES = ["lm_head", "model.embed_tokens", "model.layers.1.self_attn.q_proj", "model.layers.11.self_attn.q_proj", "model.layers.1.self_attn.qkv_b_proj",
         "model.layers.1.mlp.gate", "model.layers.1.mlp.gate_proj", "model.layers.2.mlp.experts.3.down_proj", "vision.fc1", "model.norm"]
ENTRIES = ["lm_head", "model.layers.1", "model.layers.1.", "layers.1", "gate", "mlp.gate", "b_proj", "q_proj", "model.layers.*.self_attn", "model.layers.[0-9].mlp",
           ".*experts.*", "self_attn", "model", "fc1", "(", "x|lm_head", ".*gate$", "model.layers.1.mlp.gate", "Linear", "re:.*gate", "re:model.layers.[12].",
           "re:lm_head$", "re:gate", ".", ""]


def lists(path):
    """Which names each entry of a list stands for, as the programs say that the lists are from."""
    from awq.utils.module import exclude_layers_to_not_quantize
    from compressed_tensors.utils.match import is_match
    from gptqmodel.quantization.config import dynamic_get
    from transformers.quantizers.quantizers_utils import should_convert_module

    module = torch.nn.Linear(1, 1)

    def matched(test):
        out = {}
        for entry in ENTRIES:
            try:
                out[entry] = [n for n in NAMES if test(entry, n)]
            except Exception:  # a pattern that is none
                out[entry] = None
        return out

    document = dict(
        names=NAMES,
        transformers=matched(lambda e, n: not should_convert_module(n, [e])),
        autoawq=matched(lambda e, n: not exclude_layers_to_not_quantize({n: module}, [e])),
        compressed_tensors=matched(lambda e, n: is_match(n, module, e)),
        gptqmodel=matched(lambda e, n: dynamic_get({"-:" + e: {}}, n) is False))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in document.items()) + "\n}\n")


def main():
    have = {name: version(name).split("+")[0] for name in PINNED}
    if have != PINNED:
        sys.exit(f"made with {PINNED}, found {have}")
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(1)
    root = pathlib.Path(sys.argv[1])
    root.mkdir(parents=True, exist_ok=True)
    lists(pathlib.Path(sys.argv[2]))
    for name, kind in KINDS.items():
        checkpoint(name, kind, root)
    experts(root)


if __name__ == "__main__":
    main()
