# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make.py: writes mixtral.gguf, qwen3_moe.gguf and lattices.gguf (qwen3_moe, one layer, in types of lattices), whose tensors are of several types,
with NAME/golden.safetensors beside them.

As files that are quantised with care have it: types differ between tensors of a layer, between layers and, where experts are stored
one by one as files from before stacking have them, between experts. The oracle is numpy (f64) over the dequantised weights; needs
what ../gguf/make.py needs.
"""
import os
import pathlib
import sys

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from safetensors.numpy import save_file

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "gguf"))
from make import EPS, HEADS, KV_HEADS, VOCABULARY, norm, rotate, stored  # noqa: E402

HIDDEN, EXPERTS, TOP_K, LAYERS = 256, 3, 2, 3
HEAD_DIM = HIDDEN // HEADS


def kinds(name, layer, per_expert):
    """Stored types of a layer's matrices: of the last layer, those of its experts one by one."""
    if name == "lattices":
        attention = {"attn_q": T.IQ2_S, "attn_k": T.IQ2_S, "attn_v": T.Q4_K, "attn_output": T.IQ3_S}
        return attention, {"ffn_gate": [T.IQ2_XXS] * EXPERTS, "ffn_up": [T.IQ2_XXS] * EXPERTS, "ffn_down": [T.IQ3_XXS] * EXPERTS}
    attention = {"attn_q": T.Q4_K, "attn_k": T.Q4_K, "attn_v": (T.Q6_K, T.Q4_K, T.Q8_0)[layer], "attn_output": T.Q5_K}
    gate, up, down = ((T.Q4_K, T.Q4_K, T.Q8_0), (T.Q4_K, T.Q6_K, T.Q5_0), (T.Q6_K, T.Q6_K, T.Q8_0))[layer]
    experts = {"ffn_gate": [gate] * EXPERTS, "ffn_up": [up] * EXPERTS, "ffn_down": [down] * EXPERTS}
    if per_expert and layer == LAYERS - 1:
        experts["ffn_gate"][1], experts["ffn_up"][0], experts["ffn_down"][2] = T.Q4_K, T.F16, T.F32
    return attention, experts


def half_rotate(x):
    """Pairs (i, i + head_dim / 2), as qwen3 has them."""
    order = np.arange(HEAD_DIM).reshape(2, -1).T.ravel()
    return rotate(x[..., order])[..., np.argsort(order)]


def attend(w, x, is_qwen):
    rows = len(x)
    turn = half_rotate if is_qwen else rotate
    q, k, v = ((x @ w[f"attn_{p}"].T).reshape(rows, -1, HEAD_DIM) for p in "qkv")
    if is_qwen:
        q, k = norm(q, w["attn_q_norm"]), norm(k, w["attn_k_norm"])
    q, k, v = turn(q), turn(k).repeat(HEADS // KV_HEADS, 1), v.repeat(HEADS // KV_HEADS, 1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(HEAD_DIM) + np.triu(np.full((rows, rows), -np.inf), 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(rows, HIDDEN) @ w["attn_output"].T


def mix(w, x):
    """The experts with the best probabilities, weighted by these over their sum."""
    logits = x @ w["ffn_gate_inp"].T
    p = np.exp(logits - logits.max(-1, keepdims=True))
    out = np.zeros_like(x)
    for row in range(len(x)):
        chosen = np.argsort(-p[row])[:TOP_K]
        for expert in chosen:
            gate = x[row] @ w["ffn_gate"][expert].T
            inner = gate / (1 + np.exp(-gate)) * (x[row] @ w["ffn_up"][expert].T)
            out[row] += p[row, expert] / p[row, chosen].sum() * (inner @ w["ffn_down"][expert].T)
    return out


def write(folder, name, rng):
    is_qwen, layers, inner_width = name != "mixtral", 1 if name == "lattices" else LAYERS, 256 if name == "lattices" else 32
    writer = gguf.GGUFWriter(os.path.join(folder, name + ".gguf"), "qwen3moe" if is_qwen else "llama")
    writer.add_block_count(layers), writer.add_context_length(64), writer.add_embedding_length(HIDDEN)
    writer.add_feed_forward_length(inner_width), writer.add_head_count(HEADS), writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(EPS), writer.add_rope_freq_base(10000.0), writer.add_vocab_size(VOCABULARY)
    writer.add_expert_count(EXPERTS), writer.add_expert_used_count(TOP_K)
    if is_qwen:
        writer.add_key_length(HEAD_DIM), writer.add_value_length(HEAD_DIM), writer.add_expert_feed_forward_length(inner_width)
    else:
        writer.add_rope_dimension_count(HEAD_DIM)

    def add(name, shape, kind):
        values = 1 + 0.1 * rng.standard_normal(shape) if len(shape) == 1 else 1.5 * rng.standard_normal(shape) / np.sqrt(shape[-1])
        data, meaning = stored(values.astype(np.float32), kind, rng)
        writer.add_tensor(name, data, raw_dtype=kind)
        return meaning

    def add_experts(prefix, role, shape, kinds):
        """(experts, out, in) in one tensor where all are of one type, and one by one where not."""
        parts = [stored((1.5 * rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32), kind, rng) for kind in kinds]
        if len(set(kinds)) == 1:
            writer.add_tensor(f"{prefix}.{role}_exps.weight", np.stack([data for data, _ in parts]), raw_dtype=kinds[0])
        else:
            for expert, ((data, _), kind) in enumerate(zip(parts, kinds)):
                writer.add_tensor(f"{prefix}.{role}.{expert}.weight", data, raw_dtype=kind)
        return [meaning for _, meaning in parts]

    ids = rng.integers(0, VOCABULARY, 20)
    table = add("token_embd.weight", (VOCABULARY, HIDDEN), T.Q6_K)
    x = table[ids]
    for layer in range(layers):
        prefix = f"blk.{layer}"
        attention, experts = kinds(name, layer, per_expert=not is_qwen)
        w = {role: add(f"{prefix}.{role}.weight", (HIDDEN,), T.F32) for role in ("attn_norm", "ffn_norm")}
        if is_qwen:
            w.update({role: add(f"{prefix}.{role}.weight", (HEAD_DIM,), T.F32) for role in ("attn_q_norm", "attn_k_norm")})
        for role, kind in attention.items():
            w[role] = add(f"{prefix}.{role}.weight", (HIDDEN // 4 if role in ("attn_k", "attn_v") else HIDDEN, HIDDEN), kind)
        w["ffn_gate_inp"] = add(f"{prefix}.ffn_gate_inp.weight", (EXPERTS, HIDDEN), T.F32)
        for role, kind in experts.items():
            w[role] = add_experts(prefix, role, (HIDDEN, inner_width) if role == "ffn_down" else (inner_width, HIDDEN), kind)
        x = x + attend(w, norm(x, w["attn_norm"]), is_qwen)
        x = x + mix(w, norm(x, w["ffn_norm"]))
    output_norm = add("output_norm.weight", (HIDDEN,), T.F32)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
    logits = norm(x, output_norm) @ table.T
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    save_file({"case.input_ids": ids[None].astype(np.int64), "case.logits": logits[None].astype(np.float32)},
              os.path.join(folder, name, "golden.safetensors"))


if __name__ == "__main__":
    for seed, name in enumerate(["mixtral", "qwen3_moe", "lattices"]):
        write(os.path.dirname(os.path.abspath(__file__)), name, np.random.default_rng(40 + seed))
