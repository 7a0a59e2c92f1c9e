# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a tiny MXFP4 checkpoint of gpt_oss as a GGUF file, as llama.cpp's convert_hf_to_gguf.py does.

make_gpt_oss_gguf.py FOLDER OUT.gguf

The blocks of experts get ggml's order of numbers, rows of gate and up that stand in turn become two tensors. Names are those of PyPI gguf 0.17's
tensor map for MODEL_ARCH.GPT_OSS.
"""
import json
import pathlib
import sys

import gguf_families
import make_gguf
import safetensors

MXFP4 = 39
LAYER = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight", "self_attn.sinks": "attn_sinks.weight",
    "mlp.router.weight": "ffn_gate_inp.weight", "mlp.router.bias": "ffn_gate_inp.bias",
    **{f"self_attn.{hf}_proj.{part}": f"attn_{gguf}.{part}" for hf, gguf in (("q", "q"), ("k", "k"), ("v", "v"), ("o", "output")) for part in ("weight", "bias")},
}
TOP = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}


def blocks_of(pairs, scales, rows):
    """ggml's blocks of these rows: a byte of scale, then 16 of numbers i and i + 16. `pairs` has numbers 2 i and 2 i + 1 in a byte."""
    per_row, out = len(scales) // rows, bytearray()
    for block, scale in enumerate(scales):
        numbers = [nibble for byte in pairs[16 * block:16 * block + 16] for nibble in (byte & 15, byte >> 4)]
        out.append(scale)
        out += bytes(numbers[i] | numbers[i + 16] << 4 for i in range(16))
    size = 17 * per_row
    return [bytes(out[row * size:(row + 1) * size]) for row in range(rows)]


def experts(layer, stored):
    """The tensors of a layer's experts, from what stands behind "mlp.experts." in its names."""
    made = {}
    for kind in ("gate_up_proj", "down_proj"):
        (_, shape, pairs), (_, _, scales), (_, biases_shape, biases) = (stored[f"{kind}_{part}"] for part in ("blocks", "scales", "bias"))
        rows = blocks_of(pairs, scales, shape[0] * shape[1])
        for place, name in enumerate(("gate", "up") if kind == "gate_up_proj" else ("down",)):
            step = 2 if kind == "gate_up_proj" else 1
            made[f"blk.{layer}.ffn_{name}_exps.weight"] = ([shape[0], shape[1] // step, shape[2] * 32], b"".join(rows[place::step]), MXFP4)
            made[f"blk.{layer}.ffn_{name}_exps.bias"] = ([biases_shape[0], biases_shape[1] // step], list(biases)[place::step])
    return made


def main(folder, out):
    folder = pathlib.Path(folder)
    c = gguf_families.Config(json.loads((folder / "config.json").read_text()))
    keys = {**gguf_families.common_keys(c), **gguf_families.rms_norm(c), **gguf_families.lengths(c), "rope.freq_base": c.rope("rope_theta"), "rope.dimension_count": c["head_dim"],
            "attention.sliding_window": c["sliding_window"], "expert_count": c["num_local_experts"], "expert_used_count": c["num_experts_per_tok"],
            "expert_feed_forward_length": c["intermediate_size"], "rope.scaling.type": "yarn", "rope.scaling.factor": c.rope("factor"),
            "rope.scaling.original_context_length": c.rope("original_max_position_embeddings")}
    keys = {"general.architecture": "gpt-oss", "tokenizer.ggml.model": "no_vocab", **{f"gpt-oss.{key}": value for key, value in keys.items()}}
    tensors, of_experts = {}, {}
    for name, tensor in safetensors.load(folder / "model.safetensors").items():
        if name in TOP:
            tensors[TOP[name]] = tensor[1:]
            continue
        layer, part = name.removeprefix("model.layers.").split(".", 1)
        if part.startswith("mlp.experts."):
            of_experts.setdefault(layer, {})[part.removeprefix("mlp.experts.")] = tensor
        else:
            tensors[f"blk.{layer}.{LAYER[part]}"] = tensor[1:]
    for layer, stored in of_experts.items():
        tensors |= experts(layer, stored)
    make_gguf.write(pathlib.Path(out), keys, tensors)


if __name__ == "__main__":
    main(*sys.argv[1:])
