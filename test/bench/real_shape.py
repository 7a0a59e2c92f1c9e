# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""real_shape.py NAME [--layers N] [--type q4_0|q8_0|bf16|mxfp4|nvfp4] OUT.gguf

Writes a GGUF file of the shape that a published model has, with random weights: its widths, numbers of heads and experts, vocabulary and context, of as many
layers as asked for. What a compiler does of a tiny model it need not do of these: contexts are longer than a split of the keys, widths are no powers of two,
offsets outgrow 32 bits. What comes out is compared with llama.cpp, whose activations have 8 bits: KL is 1e-6 to 1e-3 where both compute the same model (of phimoe,
whose routers it takes for those of mixtral, it does not).

Needs PyPI numpy, torch and transformers, which know the tensors of each model by its config. NAME is one of the list that --help prints.
"""
import argparse
import json
import math
import pathlib
import re
import struct
import sys

import numpy as np
import torch
import transformers

# Its safetensors is that of the test tools, of which nothing is used here; transformers has imported PyPI's.
sys.path.append(str(pathlib.Path(__file__).parent.parent / "tools"))
import gguf_families  # noqa: E402
import make_gguf  # noqa: E402

GEMMA4 = {"global_head_dim": 512, "final_logit_softcapping": 30.0}
LLAMA = {"rope_theta": 1e6, "rms_norm_eps": 1e-5}
LFM2 = {"vocab_size": 65536, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 8, "conv_L_cache": 3, "norm_eps": 1e-5,
        "rope_theta": 1e6, "max_position_embeddings": 32768}


def layers_of(count, attending, other="conv"):
    return ["full_attention" if layer in attending else other for layer in range(count)]


# (model_type, what differs from the defaults of the model's config class). Figures are those of the published config.json.
SHAPES = {
    "mistral-7b": ("llama", {**LLAMA, "vocab_size": 32768, "hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32,
                             "num_attention_heads": 32, "num_key_value_heads": 8, "max_position_embeddings": 32768}),
    "qwen2.5-0.5b": ("qwen2", {"vocab_size": 151936, "hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14,
                               "num_key_value_heads": 2, "rope_theta": 1e6, "tie_word_embeddings": True}),
    "qwen3-4b": ("qwen3", {"vocab_size": 151936, "hidden_size": 2560, "intermediate_size": 9728, "num_hidden_layers": 36, "num_attention_heads": 32,
                           "num_key_value_heads": 8, "head_dim": 128, "max_position_embeddings": 40960, "rope_theta": 1e6,
                           "tie_word_embeddings": True}),
    "qwen3-30b-a3b": ("qwen3_moe", {"vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "moe_intermediate_size": 768,
                                    "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128, "num_experts": 128,
                                    "num_experts_per_tok": 8, "norm_topk_prob": True, "max_position_embeddings": 40960, "rope_theta": 1e6}),
    "qwen1.5-moe": ("qwen2_moe", {"num_hidden_layers": 24, "num_key_value_heads": 16, "max_position_embeddings": 8192, "rope_theta": 1e6}),
    "gemma3-4b": ("gemma3_text", {"vocab_size": 262208, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34,
                                  "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 1024}),
    # The parts of Gemma 4's small models, keys that layers share and embeddings of each layer; and of its large ones, keys that are values,
    # and experts beside the feed-forward block.
    "gemma4-small": ("gemma4_text", {**GEMMA4, "hidden_size": 1536, "intermediate_size": 6144, "num_hidden_layers": 35, "num_key_value_heads": 1,
                                     "num_kv_shared_layers": 20, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 256,
                                     "layer_types": 7 * [*4 * ["sliding_attention"], "full_attention"]}),
    "gemma4-large": ("gemma4_text", {**GEMMA4, "hidden_size": 5376, "intermediate_size": 21504, "num_hidden_layers": 60, "num_attention_heads": 32,
                                     "num_key_value_heads": 16, "num_global_key_value_heads": 4, "attention_k_eq_v": True, "sliding_window": 1024,
                                     "hidden_size_per_layer_input": 0}),
    "gemma4-experts": ("gemma4_text", {**GEMMA4, "hidden_size": 2816, "intermediate_size": 2112, "num_hidden_layers": 30, "num_attention_heads": 16,
                                       "num_key_value_heads": 8, "num_global_key_value_heads": 2, "attention_k_eq_v": True, "sliding_window": 1024,
                                       "hidden_size_per_layer_input": 0, "enable_moe_block": True, "num_experts": 128, "top_k_experts": 8,
                                       "moe_intermediate_size": 704}),
    "gemma2-2b": ("gemma2", {"max_position_embeddings": 8192}),
    "phi3-mini": ("phi3", {"sliding_window": None}),
    "phi2": ("phi", {"vocab_size": 51200, "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 32, "num_attention_heads": 32,
                     "partial_rotary_factor": 0.4}),
    "mixtral-8x7b": ("mixtral", {"max_position_embeddings": 32768}),
    "olmoe-1b-7b": ("olmoe", {"intermediate_size": 1024}),
    "olmo2-1b": ("olmo2", {"vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 16,
                           "rms_norm_eps": 1e-6, "rope_theta": 5e5, "max_position_embeddings": 4096}),
    "granite-2b": ("granite", {"vocab_size": 49155, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 40, "num_attention_heads": 32,
                               "num_key_value_heads": 8, "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22,
                               "attention_multiplier": 0.015625, "rope_theta": 1e7, "tie_word_embeddings": True}),
    "starcoder2-3b": ("starcoder2", {"sliding_window": None, "max_position_embeddings": 16384}),
    "falcon-7b": ("falcon", {"num_attention_heads": 71, "alibi": False}),
    "stablelm-1.6b": ("stablelm", {"vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 5632, "num_hidden_layers": 24,
                                   "partial_rotary_factor": 0.25, "use_qkv_bias": True}),
    "command-r7b": ("cohere2", {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
                                "num_key_value_heads": 8, "logit_scale": 0.25}),
    "glm4-9b": ("glm4", {"num_hidden_layers": 40, "max_position_embeddings": 32768}),
    "smollm3-3b": ("smollm3", {"rope_theta": 5e6, "max_position_embeddings": 65536}),
    "minicpm3-4b": ("minicpm3", {}),
    "pythia-410m": ("gpt_neox", {"vocab_size": 50304, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 16}),
    "gpt2": ("gpt2", {}),
    # Layers with a state in the place of attention.
    "granite-4.0-h-micro": ("granitemoehybrid", {
        "vocab_size": 100352, "hidden_size": 2048, "intermediate_size": 8192, "shared_intermediate_size": 8192, "num_hidden_layers": 40,
        "layer_types": layers_of(40, [5, 15, 25, 35], "linear_attention"), "num_attention_heads": 32, "num_key_value_heads": 8, "num_local_experts": 0,
        "mamba_n_heads": 64, "mamba_d_head": 64, "mamba_d_state": 128, "embedding_multiplier": 12.0, "logits_scaling": 8.0, "residual_multiplier": 0.22,
        "attention_multiplier": 0.015625, "rms_norm_eps": 1e-5, "tie_word_embeddings": True}),
    "falcon-h1-1.5b": ("falcon_h1", {
        "vocab_size": 65537, "hidden_size": 2048, "intermediate_size": 4096, "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2,
        "head_dim": 128, "mamba_d_ssm": 3072, "mamba_n_heads": 48, "mamba_d_head": 64, "mamba_d_state": 256, "rope_theta": 1e11,
        "max_position_embeddings": 131072}),
    "mamba2-2.7b": ("mamba2", {"vocab_size": 50288, "hidden_size": 2560, "num_hidden_layers": 64, "num_heads": 80, "n_groups": 1, "tie_word_embeddings": True}),
    "mamba-2.8b": ("mamba", {"vocab_size": 50280, "hidden_size": 2560, "intermediate_size": 5120, "num_hidden_layers": 64, "state_size": 16, "time_step_rank": 160}),
    "jamba-3b": ("jamba", {
        "vocab_size": 65536, "hidden_size": 2560, "intermediate_size": 8192, "num_hidden_layers": 28, "num_attention_heads": 20, "num_key_value_heads": 1,
        "attn_layer_period": 14, "attn_layer_offset": 7, "num_experts": 1, "num_experts_per_tok": 1, "mamba_dt_rank": 160, "max_position_embeddings": 262144}),
    "kimi-linear-48b-a3b": ("kimi_linear", {
        "vocab_size": 163840, "hidden_size": 2304, "intermediate_size": 9216, "moe_intermediate_size": 1024, "num_hidden_layers": 27,
        "layer_types": layers_of(27, [3, 7, 11, 15, 19, 23, 26], "linear_attention"), "mlp_layer_types": ["dense"] + ["sparse"] * 26,
        "num_attention_heads": 32, "num_key_value_heads": 32, "kv_lora_rank": 512, "q_lora_rank": None, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "v_head_dim": 128, "linear_num_heads": 32, "linear_head_dim": 128, "linear_conv_kernel_dim": 4, "num_experts": 256, "num_experts_per_token": 8,
        "num_shared_experts": 1, "routed_scaling_factor": 2.446, "moe_renormalize": True, "max_position_embeddings": 1048576}),
    # Each layer a mixer, experts or attention, as the letters of the published pattern say.
    "nemotron-3-nano": ("nemotron_h", {
        "vocab_size": 131072, "hidden_size": 2688, "layers_block_type": [
            {"M": "linear_attention", "E": "moe", "*": "full_attention"}[kind] for kind in "MEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEM*EMEMEMEM*EMEMEMEME"],
        "mamba_num_heads": 64, "mamba_head_dim": 64, "ssm_state_size": 128, "n_groups": 8, "num_attention_heads": 32, "num_key_value_heads": 2,
        "head_dim": 128, "intermediate_size": 1856, "moe_intermediate_size": 1856, "moe_shared_expert_intermediate_size": 3712, "n_routed_experts": 128,
        "num_experts_per_tok": 6, "n_shared_experts": 1, "n_group": 1, "topk_group": 1, "routed_scaling_factor": 2.5, "norm_topk_prob": True,
        "max_position_embeddings": 262144}),
    "qwen3.5-9b": ("qwen3_5_text", {}),
    "qwen3.5-2b": ("qwen3_5_text", {"hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 24, "num_attention_heads": 8, "num_key_value_heads": 2,
                                    "linear_num_value_heads": 16, "tie_word_embeddings": True}),
    "qwen3-next": ("qwen3_next", {}),
    "lfm2-1.2b": ("lfm2", {**LFM2, "intermediate_size": 12288, "num_hidden_layers": 16, "layer_types": layers_of(16, [2, 5, 8, 10, 12, 14])}),
    "lfm2-8b-a1b": ("lfm2_moe", {**LFM2, "intermediate_size": 7168, "moe_intermediate_size": 1792, "num_hidden_layers": 24, "num_experts": 32,
                                 "num_experts_per_tok": 4, "num_dense_layers": 2, "layer_types": layers_of(24, [2, 6, 10, 14, 18, 21])}),
}


def sliding(c):
    return {**gguf_families.rms_norm(c), **gguf_families.lengths(c), "attention.sliding_window": c["sliding_window"]}


def experts(c, number, width=None):
    keys = {**gguf_families.rotary(c), **gguf_families.rms_norm(c), **gguf_families.lengths(c), "expert_count": c[number], "expert_used_count": c["num_experts_per_tok"]}
    return {**keys, "expert_feed_forward_length": c[width]} if width else keys


# Keys of families whose tiny files are no work of make_gguf.py.
KEYS = {
    "llama": lambda c: {**gguf_families.rotary(c), **gguf_families.rms_norm(c)},
    "mixtral": lambda c: experts(c, "num_local_experts"),
    "qwen3_moe": lambda c: experts(c, "num_experts", "moe_intermediate_size"),
    "gemma2": lambda c: {**sliding(c), "attn_logit_softcapping": float(c["attn_logit_softcapping"]),
                         "final_logit_softcapping": float(c["final_logit_softcapping"])},
    "gemma3_text": lambda c: {**sliding(c), "rope.freq_base": 1e6},
    # With keys and values of the latent apart, which is one head.
    "kimi_linear": lambda c: {**gguf_families.kimi_linear(c)[0],
                              "attention.head_count_kv": [int(kind != "linear_attention") for kind in c["layer_types"]]},
}
NAMES = json.loads(make_gguf.NAMES.read_text()) | {"gemma4_text": gguf_families.GEMMA4}
NAMES["nemotron_h"] = NAMES["nemotron_h_latent"]  # the architecture that has experts
# What transformers calls a tensor now, as gguf-names.json has it.
RENAMED = {"kimi_linear": [(".forget_gate.", "."), (".mlp.gate.", ".block_sparse_moe.gate."), (".mlp.shared_experts.", ".block_sparse_moe.shared_experts.")],
           "nemotron_h": [("model.", "backbone.")], "mixtral": [(".mlp.gate.", ".block_sparse_moe.gate.")], "gpt_neox": [("lm_head.weight", "embed_out.weight")]}
F32, Q4_0, Q8_0, BF16, MXFP4, NVFP4 = 0, 2, 8, 30, 39, 40
TYPES = {"q4_0": Q4_0, "q8_0": Q8_0, "bf16": BF16, "mxfp4": MXFP4, "nvfp4": NVFP4}
BLOCK = {F32: (1, 4), BF16: (1, 2), Q4_0: (32, 18), Q8_0: (32, 34), MXFP4: (32, 17), NVFP4: (64, 36)}  # numbers, bytes


def of_gpt_oss_20b(layers):
    """Architecture, keys and tensors of gpt-oss-20b, whose experts are stored in 4 bits from the start, as a converter writes them."""
    keys = {"context_length": 131072, "embedding_length": 2880, "block_count": layers or 24, "feed_forward_length": 2880, "attention.head_count": 64,
            "attention.head_count_kv": 8, "attention.key_length": 64, "attention.value_length": 64, "attention.layer_norm_rms_epsilon": 1e-5,
            "attention.sliding_window": 128, "rope.freq_base": 150000.0, "rope.dimension_count": 64, "rope.scaling.type": "yarn", "rope.scaling.factor": 32.0,
            "rope.scaling.original_context_length": 4096, "expert_count": 32, "expert_used_count": 4, "expert_feed_forward_length": 2880, "vocab_size": 201088}
    tensors = {"token_embd.weight": [201088, 2880], "output.weight": [201088, 2880], "output_norm.weight": [2880]}
    for layer in range(keys["block_count"]):
        block = {"attn_norm.weight": [2880], "post_attention_norm.weight": [2880], "attn_sinks.weight": [64], "ffn_gate_inp.weight": [32, 2880], "ffn_gate_inp.bias": [32]}
        for part, rows, columns in (("q", 4096, 2880), ("k", 512, 2880), ("v", 512, 2880), ("output", 2880, 4096)):
            block |= {f"attn_{part}.weight": [rows, columns], f"attn_{part}.bias": [rows]}
        for part in ("gate", "up", "down"):
            block |= {f"ffn_{part}_exps.weight": [32, 2880, 2880], f"ffn_{part}_exps.bias": [32, 2880]}
        tensors |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return "gpt-oss", keys, tensors


def of_deepseek_v2_lite(layers):
    """Of DeepSeek-V2-Lite: latent attention, 6 of 64 experts beside two that all tokens have."""
    keys = {"context_length": 163840, "embedding_length": 2048, "block_count": layers or 27, "feed_forward_length": 10944, "attention.head_count": 16,
            "attention.head_count_kv": 1, "attention.kv_lora_rank": 512, "attention.key_length": 576, "attention.value_length": 512, "attention.key_length_mla": 192,
            "attention.value_length_mla": 128, "attention.layer_norm_rms_epsilon": 1e-6, "rope.freq_base": 10000.0, "rope.dimension_count": 64,
            "rope.scaling.type": "yarn", "rope.scaling.factor": 40.0, "rope.scaling.original_context_length": 4096, "rope.scaling.yarn_log_multiplier": 0.0707,
            "leading_dense_block_count": 1, "expert_count": 64, "expert_used_count": 6, "expert_shared_count": 2, "expert_feed_forward_length": 1408,
            "expert_weights_scale": 1.0, "expert_weights_norm": False, "expert_gating_func": 1, "vocab_size": 102400}
    tensors = {"token_embd.weight": [102400, 2048], "output.weight": [102400, 2048], "output_norm.weight": [2048]}
    for layer in range(keys["block_count"]):
        block = {"attn_norm.weight": [2048], "ffn_norm.weight": [2048], "attn_q.weight": [16 * 192, 2048], "attn_kv_a_mqa.weight": [576, 2048],
                 "attn_kv_a_norm.weight": [512], "attn_k_b.weight": [16, 512, 128], "attn_v_b.weight": [16, 128, 512], "attn_output.weight": [2048, 2048]}
        if layer == 0:
            block |= {f"ffn_{part}.weight": [10944, 2048][::1 if part != "down" else -1] for part in ("gate", "up", "down")}
        else:
            block["ffn_gate_inp.weight"] = [64, 2048]
            for part in ("gate", "up", "down"):
                turn = 1 if part != "down" else -1
                block |= {f"ffn_{part}_exps.weight": [64, *[1408, 2048][::turn]], f"ffn_{part}_shexp.weight": [2816, 2048][::turn]}
        tensors |= {f"blk.{layer}.{name}": shape for name, shape in block.items()}
    return "deepseek2", keys, tensors


# Shapes that are said in GGUF's own terms.
IN_GGUF = {"gpt-oss-20b": of_gpt_oss_20b, "deepseek-v2-lite": of_deepseek_v2_lite}


def tensors_of(family, config, known, model):
    """GGUF's names and shapes."""
    names = make_gguf.kin_names(NAMES, NAMES[family])["names"]
    tied = config.tie_word_embeddings
    found = {}
    for name, tensor in model.state_dict().items():
        shape = list(tensor.shape)
        if (tied and name == "lm_head.weight") or re.search(r"inv_freq|masked_bias|\.attn\.bias$", name):
            continue
        if match := re.search(r"layers\.(\d+)\..*\.experts\.(gate_up|up|down)_proj$", name):
            of_experts = f"blk.{match[1]}.ffn_{{}}_exps.weight"
            if match[2] != "gate_up":
                found[of_experts.format(match[2])] = shape
            else:
                for part in ("gate", "up"):
                    found[of_experts.format(part)] = [shape[0], shape[1] // 2, shape[2]]
            continue
        if match := re.search(r"layers\.(\d+)\.shared_mlp\.(in|out)put_linear", name):  # of a model without experts
            for part in ("gate", "up") if match[2] == "in" else ("down",):
                found[f"blk.{match[1]}.ffn_{part}.weight"] = [shape[0] // 2, shape[1]] if match[2] == "in" else shape
            continue
        for old, new in RENAMED.get(family, []):
            name = name.replace(old, new)
        if family == "kimi_linear" and (parts := kimi_parts(known, name, shape)):
            found |= parts
            continue
        gguf = make_gguf.gguf_name(names, name)
        if family == "gpt2" and re.search(r"(attn_qkv|attn_output|ffn_up|ffn_down)\.weight", gguf):
            shape.reverse()  # convolutions of one tap
        shape = [size for size in shape if size > 1] or [1]
        found[gguf] = gguf_families.mixer_shape(known, gguf, shape) if family in gguf_families.MIXERS else shape
    if family == "gemma4_text":
        found["rope_freqs.weight"] = [config.per_layer_config["full_attention"].head_dim // 2]
    return found


def kimi_parts(c, name, shape):
    """Of Kimi Linear: the convolution of queries, keys and values as one of each, and what gives keys and values of their latent apart; in the converter's dimensions."""
    layer = re.search(r"layers\.(\d+)", name)
    block = f"blk.{layer[1]}." if layer else ""
    if name.endswith(".conv1d.weight"):
        return {f"{block}ssm_conv1d_{part}.weight": [1, shape[0] // 3, 1, shape[2]] for part in "qkv"}
    if name.endswith(".A_log"):
        return {f"{block}ssm_a": [1, 1, c["linear_num_heads"], 1]}
    if name.endswith(".kv_b_proj.weight"):
        heads, rank = c["num_attention_heads"], c["kv_lora_rank"]
        return {f"{block}attn_k_b.weight": [heads, rank, c["qk_nope_head_dim"]], f"{block}attn_v_b.weight": [heads, c["v_head_dim"], rank]}
    return {}


def random_blocks(kind, count, deviation, rng):
    if kind in (F32, BF16):
        numbers = (rng.standard_normal(count, dtype=np.float32) * deviation).astype(np.float32)
        return numbers.tobytes() if kind == F32 else (numbers.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    per_block, size = BLOCK[kind]
    blocks = np.empty((count // per_block, size), np.uint8)
    if kind == MXFP4:  # powers of two beside the deviation of codes, which is 2.9
        blocks[:, 0] = 127 + round(math.log2(deviation / 2.9)) + rng.integers(-1, 2, len(blocks))
        blocks[:, 1:] = np.frombuffer(rng.bytes(16 * len(blocks)), np.uint8).reshape(-1, 16)
        return blocks.tobytes()
    if kind == NVFP4:  # E4M3 below 2^-6 is a multiple of 2^-9
        blocks[:, :4] = np.clip(round(deviation / 2.9 * 512) + rng.integers(-1, 2, (len(blocks), 4)), 1, 7)
        blocks[:, 4:] = np.frombuffer(rng.bytes(32 * len(blocks)), np.uint8).reshape(-1, 32)
        return blocks.tobytes()
    codes = 4.6 if kind == Q4_0 else 73.0  # their own deviation
    scales = deviation / codes * (0.7 + 0.6 * rng.random(len(blocks), dtype=np.float32))
    blocks[:, :2] = scales.astype(np.float16).view(np.uint8).reshape(-1, 2)
    numbers = np.frombuffer(rng.bytes((size - 2) * len(blocks)), np.int8)
    blocks[:, 2:] = (numbers if kind == Q4_0 else np.maximum(numbers, -127)).view(np.uint8).reshape(-1, size - 2)
    return blocks.tobytes()


def is_vector(name, shape):
    return len(shape) == 1 or bool(re.search(r"ssm_(a|d|norm\.weight)$", name))


def type_of(name, shape, wanted):
    is_small = is_vector(name, shape) or re.search("ffn_gate_inp|position|_exps.bias$", name)
    if wanted == MXFP4 and "_exps.weight" not in name:
        wanted = Q8_0  # as published files have it
    return F32 if is_small or shape[-1] % BLOCK[wanted][0] else wanted


def write(path, keys, tensors, wanted, rng):
    places, end = {}, 0
    for name, shape in tensors.items():
        kind = type_of(name, shape, wanted)
        numbers, size = BLOCK[kind]
        places[name] = (shape, kind, end)
        end = -(-(end + math.prod(shape) // numbers * size) // 32) * 32
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(make_gguf.pair(*entry) for entry in keys.items())
    for name, (shape, kind, offset) in places.items():
        head += make_gguf.text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, offset)
    head += bytes(-len(head) % 32)
    with open(path, "wb") as file:
        file.write(head)
        for name, (shape, kind, offset) in places.items():
            file.seek(len(head) + offset)
            left, deviation = math.prod(shape), 0.05 if is_vector(name, shape) else 0.8 / math.sqrt(shape[-1])
            if is_vector(name, shape):
                numbers = rng.standard_normal(left, dtype=np.float32) * 0.05 + bool(re.search(r"norm(.*weight)?$|layer_output_scale|rope_freqs|\.scale$", name))
                numbers = -np.exp(numbers) if name.endswith("ssm_a") else numbers  # a rate of decay
                file.write(numbers.astype(np.float32).tobytes())
                left = 0
            while left:
                part = min(left, 1 << 24)
                file.write(random_blocks(kind, part, deviation, rng))
                left -= part
        file.truncate(len(head) + end)


def by_transformers(options):
    """Architecture, keys and tensors of a shape whose model transformers can make."""
    family, differing = SHAPES[options.name]
    if options.layers:
        if "layers_block_type" not in differing:  # which says how many there are
            differing = {**differing, "num_hidden_layers": options.layers}
        for kinds in {"layer_types", "layers_block_type", "mlp_layer_types"} & differing.keys():
            differing = {**differing, kinds: differing[kinds][:options.layers]}
    config = transformers.AutoConfig.for_model(family, **differing)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    known = gguf_families.Config({key: value for key, value in {**json.loads(config.to_json_string()), **differing}.items() if value is not None})
    extra = KEYS[family](known) if family in KEYS else gguf_families.FAMILIES[family](known)[0]
    return NAMES[family]["architecture"], {**gguf_families.common_keys(known), **extra}, tensors_of(family, config, known, model)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", choices=[*SHAPES, *IN_GGUF])
    parser.add_argument("out", type=pathlib.Path, metavar="OUT.gguf")
    parser.add_argument("--layers", type=int, help="default: all that the model has")
    parser.add_argument("--type", choices=TYPES, default="q4_0", help="of matrices (q4_0)")
    options = parser.parse_args()
    architecture, keys, tensors = IN_GGUF[options.name](options.layers) if options.name in IN_GGUF else by_transformers(options)
    keys = {"general.architecture": architecture, "tokenizer.ggml.model": "no_vocab"} | {f"{architecture}.{key}": value for key, value in keys.items() if value is not None}
    write(options.out, keys, tensors, TYPES[options.type], np.random.default_rng(1))
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
