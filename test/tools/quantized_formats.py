# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Weights as quantised Hugging Face folders hold them, and what they stand for.

A function for each quant_method takes (name, weight (out, in), options) and gives (parts by name, numbers): it chooses codes in the simplest way,
lays them out as the format says, and computes the numbers from the parts that it gives, by the format's formula. Formulas are cited there.
"""
import numpy as np
import torch

GROUP = 32


def takes(method, name):
    """Whether the method stores the tensor of that name in parts."""
    return name.endswith(("experts.gate_up_proj", "experts.down_proj")) if method == "mxfp4" else name.endswith(".weight")


def config(method, options):
    """quantization_config."""
    return {"quant_method": method, **CONFIGS[method](options)}


# --- mxfp4 ----------------------------------------------------------------------------------------------------------

# OCP Microscaling Formats (MX) specification 1.0, 5.3.3: E2M1 by code, sign first; a block's scale is 2 ** (E8M0 - 127).
E2M1 = np.array([0, .5, 1, 1.5, 2, 3, 4, 6, 0, -.5, -1, -1.5, -2, -3, -4, -6], np.float32)


def e2m1_pairs(scaled):
    """The nearest numbers of E2M1, two to a byte, the earlier one in its lower bits; and the numbers that these are."""
    codes = np.abs(scaled[..., None] - E2M1).argmin(-1).astype(np.uint8)
    pairs = codes[..., 0::2] | codes[..., 1::2] << 4
    return pairs, np.stack([E2M1[pairs & 15], E2M1[pairs >> 4]], -1).reshape(scaled.shape)


def mxfp4(name, weight, options):
    """Stacked experts (experts, in, out), as transformers has them: NAME_blocks (experts, out, in / 32, 16) and NAME_scales."""
    rows = np.swapaxes(weight, 1, 2)
    blocks = rows.reshape(*rows.shape[:2], -1, 32)
    exponent = np.floor(np.log2(np.abs(blocks).max(-1))) - 2
    pairs, read = e2m1_pairs(blocks / np.exp2(exponent)[..., None])
    parts = {name + "_blocks": pairs, name + "_scales": (exponent + 127).astype(np.uint8)}
    numbers = np.ldexp(read, parts[name + "_scales"].astype(np.int32)[..., None] - 127)
    return parts, np.swapaxes(numbers.reshape(rows.shape), 1, 2)


# --- gptq, awq ------------------------------------------------------------------------------------------------------

def codes_of(weight, bits, group, symmetric):
    """(codes, scales, zeros): w = scale * (code - zero) with an f16 scale; codes (out, in), the others (out, groups)."""
    size = weight.shape[1] if group < 0 else group
    blocks = weight.reshape(weight.shape[0], -1, size)
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    if symmetric:
        scales = (np.maximum(high, -low) / (2 ** (bits - 1) - 1)).astype(np.float16)
        zeros = np.full(scales.shape, 2 ** (bits - 1), np.uint32)
    else:
        scales = ((high - low) / (2 ** bits - 1)).astype(np.float16)
        zeros = np.clip(np.rint(-low / scales), 1, 2 ** bits - 1).astype(np.uint32)
    codes = np.clip(np.rint(blocks / scales[..., None]) + zeros[..., None], 0, 2 ** bits - 1)
    return codes.reshape(weight.shape).astype(np.uint32), scales, zeros


def packed(codes, bits, order=None):
    """Codes along the last axis, 32 / bits to a word of 32 bits; the word's field i has code order[i], or i."""
    count = 32 // bits
    words = codes.reshape(*codes.shape[:-1], -1, count)
    if order:
        words = words[..., order]
    return (words << (bits * np.arange(count, dtype=np.uint32))).sum(-1, dtype=np.uint32).view(np.int32)


def unpacked(words, bits, order=None):
    count = 32 // bits
    fields = words.view(np.uint32)[..., None] >> (bits * np.arange(count, dtype=np.uint32)) & (2 ** bits - 1)
    if order:
        fields = fields[..., np.argsort(order)]
    return fields.reshape(*words.shape[:-1], -1)


def gptq(name, weight, options):
    """W[k][n] = scales[g_idx[k]][n] * (qweight[k][n] - (qzeros[g_idx[k]][n] + 1)) (AutoGPTQ's nn_modules/qlinear); gptq_v2 does not add 1."""
    bits, group, base = options.get("bits", 4), options.get("group_size", GROUP), name.removesuffix(".weight")
    size = weight.shape[1] if group < 0 else group
    order = np.random.default_rng(len(name)).permutation(weight.shape[1]) if options.get("desc_act") else np.arange(weight.shape[1])
    codes, scales, zeros = codes_of(weight[:, order], bits, group, options.get("sym", True))
    offset = 0 if options.get("checkpoint_format") == "gptq_v2" else 1
    g_idx = np.empty(weight.shape[1], np.int32)
    g_idx[order] = np.arange(weight.shape[1]) // size
    unordered = np.empty_like(codes)
    unordered[:, order] = codes
    parts = {base + ".qweight": packed(unordered, bits).T, base + ".qzeros": packed((zeros - offset).T, bits),
             base + ".scales": scales.T, base + ".g_idx": g_idx}
    read, read_zeros = unpacked(np.ascontiguousarray(parts[base + ".qweight"].T), bits), unpacked(parts[base + ".qzeros"], bits) + offset
    numbers = parts[base + ".scales"].astype(np.float32)[g_idx].T * (read.astype(np.float32) - read_zeros.astype(np.float32)[g_idx].T)
    return parts if not options.get("no_g_idx") else {key: part for key, part in parts.items() if not key.endswith("g_idx")}, numbers


AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def awq(name, weight, options):
    """W[k][n] = scales[k / group][n] * (qweight[k][n] - qzeros[k / group][n]) (AutoAWQ's modules/linear/gemm)."""
    group, base = options.get("group_size", GROUP), name.removesuffix(".weight")
    codes, scales, zeros = codes_of(weight, 4, group, False)
    parts = {base + ".qweight": packed(np.ascontiguousarray(codes.T), 4, AWQ_ORDER), base + ".qzeros": packed(np.ascontiguousarray(zeros.T), 4, AWQ_ORDER),
             base + ".scales": scales.T}
    read, read_zeros = unpacked(parts[base + ".qweight"], 4, AWQ_ORDER), unpacked(parts[base + ".qzeros"], 4, AWQ_ORDER)
    of_column = np.arange(weight.shape[1]) // (weight.shape[1] if group < 0 else group)
    return parts, (parts[base + ".scales"].astype(np.float32)[of_column] * (read.astype(np.float32) - read_zeros.astype(np.float32)[of_column])).T


# --- fp8 ------------------------------------------------------------------------------------------------------------

def fp8(name, weight, options):
    """W = weight * weight_scale_inv, a scale for each block (DeepSeek-V3's inference/kernel.py, weight_dequant); or * weight_scale, one of all."""
    block, base = options.get("weight_block_size"), name.removesuffix(".weight")
    rows, columns = block or weight.shape
    down, across = -(-weight.shape[0] // rows), -(-weight.shape[1] // columns)
    scales = np.empty((down, across), np.float32)
    spread = lambda small: np.repeat(np.repeat(small, rows, 0), columns, 1)[:weight.shape[0], :weight.shape[1]]
    for i in range(down):
        for j in range(across):
            scales[i, j] = np.abs(weight[i * rows:(i + 1) * rows, j * columns:(j + 1) * columns]).max() / 448
    if options.get("scale_fmt") == "ue8m0":
        scales = np.exp2(np.ceil(np.log2(scales)))
    stored = torch.from_numpy(weight / spread(scales)).to(torch.float8_e4m3fn)
    parts = {name: stored, base + (".weight_scale_inv" if block else ".weight_scale"): scales if block else scales.reshape(1)}
    if options.get("activation_scheme") == "static":
        parts[base + ".input_scale"] = np.ones(1, np.float32)
    return parts, stored.float().numpy() * spread(scales)


# --- nvfp4 ----------------------------------------------------------------------------------------------------------

def nvfp4_blocks(weight, options):
    """Pairs, the scales of blocks of 16 as E4M3, what multiplies these, and the numbers that all stand for; with half_scales, scales are rounded as they are read."""
    blocks = weight.reshape(weight.shape[0], -1, 16)
    factor = np.float32(np.abs(weight).max() / (6 * 448))
    if options.get("power"):
        factor = np.exp2(np.ceil(np.log2(factor)))
    scales = torch.from_numpy(np.abs(blocks).max(-1) / 6 / factor).to(torch.float8_e4m3fn)
    whole = scales.float().numpy() * factor
    pairs, numbers = e2m1_pairs(blocks / np.where(whole > 0, whole, 1)[..., None])
    if options.get("half_scales"):
        whole = (whole * 128).astype(np.float16).astype(np.float32) / 128
    return pairs.reshape(weight.shape[0], -1), scales, factor, (numbers * whole[..., None]).reshape(weight.shape)


def modelopt(name, weight, options):
    """W = weight * weight_scale * weight_scale_2 (Model Optimizer's NVFP4QTensor)."""
    base = name.removesuffix(".weight")
    pairs, scales, factor, numbers = nvfp4_blocks(weight, options)
    return {name: pairs, base + ".weight_scale": scales, base + ".weight_scale_2": np.array(factor, np.float32),
            base + ".input_scale": np.array(1, np.float32)}, numbers


def compressed_float4(base, weight, options):
    """W = weight_packed * weight_scale / weight_global_scale, or, of MXFP4, * 2 ** (weight_scale - 127)."""
    if options["format"] == "nvfp4-pack-quantized":
        pairs, scales, factor, numbers = nvfp4_blocks(weight, options)
        return {base + ".weight_packed": pairs, base + ".weight_scale": scales, base + ".weight_global_scale": np.array([1 / factor], np.float32),
                base + ".input_global_scale": np.ones(1, np.float32)}, numbers
    blocks = weight.reshape(weight.shape[0], -1, 32)
    exponents = np.floor(np.log2(np.abs(blocks).max(-1))) - 2
    pairs, numbers = e2m1_pairs(blocks / np.exp2(exponents)[..., None])
    return {base + ".weight_packed": pairs.reshape(weight.shape[0], -1), base + ".weight_scale": (exponents + 127).astype(np.uint8)}, \
        (numbers * np.exp2(exponents)[..., None]).reshape(weight.shape).astype(np.float32)


# --- compressed-tensors ---------------------------------------------------------------------------------------------

def compressed_tensors(name, weight, options):
    """W = weight_scale * (weight - weight_zero_point); packed numbers are 2 ** (bits - 1) more (compressed_tensors' pack_to_int32 and dequantize)."""
    base, format, bits, group = name.removesuffix(".weight"), options["format"], options.get("num_bits", 4), options.get("group_size", -1)
    if format in ("nvfp4-pack-quantized", "mxfp4-pack-quantized"):
        return compressed_float4(base, weight, options)
    if format == "float-quantized":
        whole = options.get("strategy") == "tensor"
        scales = np.abs(weight).max(axis=None if whole else 1, keepdims=True).reshape(-1, 1) / np.float32(448)
        stored = torch.from_numpy(weight / scales).to(torch.float8_e4m3fn)
        return {name: stored, base + ".weight_scale": scales.reshape(1) if whole else scales}, stored.float().numpy() * scales
    symmetric = options.get("symmetric", True)
    codes, scales, zeros = codes_of(weight, bits, group, symmetric)
    scales = torch.from_numpy(scales.astype(np.float32)).bfloat16()
    parts = {base + ".weight_scale": scales}
    if format == "pack-quantized":
        parts |= {base + ".weight_packed": packed(codes, bits), base + ".weight_shape": np.array(weight.shape, np.int64)}
        if not symmetric:
            parts[base + ".weight_zero_point"] = np.ascontiguousarray(packed(np.ascontiguousarray(zeros.T), bits).T)
        read = unpacked(parts[base + ".weight_packed"], bits)
        read_zeros = zeros if symmetric else unpacked(np.ascontiguousarray(parts[base + ".weight_zero_point"].T), bits).T
    else:
        parts[name] = (codes.astype(np.int32) - 2 ** (bits - 1)).astype(np.int8)
        read, read_zeros = parts[name].astype(np.float32), zeros.astype(np.float32) - 2 ** (bits - 1)
        if not symmetric:
            parts[base + ".weight_zero_point"] = read_zeros.astype(np.int8)
    of_column = np.arange(weight.shape[1]) // (weight.shape[1] if group < 0 else group)
    return parts, scales.float().numpy()[:, of_column] * (read.astype(np.float32) - read_zeros.astype(np.float32)[:, of_column])


def compressed_config(options):
    is_float, group = options["format"] in ("float-quantized", "nvfp4-pack-quantized", "mxfp4-pack-quantized"), options.get("group_size", -1)
    bits = 8 if options["format"] == "float-quantized" else 4
    weights = {"num_bits": bits if is_float else options.get("num_bits", 4), "type": "float" if is_float else "int", "symmetric": options.get("symmetric", True),
               "strategy": options.get("strategy", "channel" if group < 0 else "group"), "group_size": None if group < 0 else group, "block_structure": None,
               "dynamic": False, "observer": "minmax", "observer_kwargs": {}, "actorder": None}
    scheme = {"targets": ["Linear"], "weights": weights, "input_activations": None, "output_activations": None}
    return {"quant_method": "compressed-tensors", "format": options["format"], "config_groups": {"group_0": scheme}, "ignore": ["lm_head"],
            "kv_cache_scheme": None, "quantization_status": "compressed", "global_compression_ratio": None}


# --- bitsandbytes ---------------------------------------------------------------------------------------------------

def bitsandbytes(name, weight, options):
    """By PyPI's bitsandbytes itself, on a CPU; for LLM.int8, W = weight * SCB / 127, the scale as f16 where it is read so (half_scales)."""
    import bitsandbytes.functional as functional
    matrix, base = torch.from_numpy(np.ascontiguousarray(weight)), name.removesuffix(".weight")
    if options.get("load_in_8bit"):
        codes, largest, _ = functional.int8_vectorwise_quant(matrix.half())
        parts = {name: codes, base + ".SCB": largest, base + ".weight_format": torch.zeros((), dtype=torch.uint8)}
        scales = largest[:, None] / 127
        return parts, (codes.float() * (scales.half().float() if options.get("half_scales") else scales)).numpy()
    codes, state = functional.quantize_4bit(matrix, quant_type=options.get("bnb_4bit_quant_type", "nf4"),
                                            compress_statistics=options.get("bnb_4bit_use_double_quant", False))
    parts = {name: codes} | {f"{name}.{key}": value for key, value in state.as_dict(packed=True).items()}
    return parts, functional.dequantize_4bit(codes, state).numpy()


CONFIGS = {
    "mxfp4": lambda options: {"modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]},
    "gptq": lambda options: {"bits": 4, "group_size": GROUP, "sym": True, "desc_act": False, "damp_percent": 0.01, "true_sequential": True, "lm_head": False,
                             **{key: value for key, value in options.items() if key != "no_g_idx"}},
    "awq": lambda options: {"bits": 4, "group_size": GROUP, "zero_point": True, "version": "gemm", "modules_to_not_convert": None, **options},
    "fp8": lambda options: {"activation_scheme": "dynamic", "fmt": "e4m3", **options},
    "compressed_tensors": compressed_config,
    "modelopt": lambda options: {"quant_algo": "NVFP4", "producer": {"name": "modelopt", "version": "0.37.0"}, "ignore": ["lm_head"],
                                 "kv_cache_scheme": {"dynamic": False, "num_bits": 8, "type": "float"},
                                 "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"dynamic": False, "num_bits": 4, "type": "float",
                                                                                                   "group_size": 16}}}},
    "bitsandbytes": lambda options: {"load_in_4bit": not options.get("load_in_8bit", False), "load_in_8bit": False, "llm_int8_threshold": 6.0,
                                     "bnb_4bit_quant_storage": "uint8",
                                     **{key: value for key, value in options.items() if key != "half_scales"}},
}
