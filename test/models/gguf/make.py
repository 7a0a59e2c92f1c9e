# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make.py: writes one llama of one layer per tensor type as TYPE.gguf, with TYPE/golden.safetensors beside it, and mixtures of types.

The oracle is the forward pass below in numpy (f64) over the weights as PyPI `gguf` dequantises them. Types that `gguf` cannot
quantise get random blocks with small scales. Needs PyPI numpy, gguf and safetensors; the tests need only its output.
"""
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T, quants
from safetensors.numpy import save_file

HEADS, KV_HEADS, VOCABULARY, EPS = 8, 2, 64, 1e-5
PLAIN = {T.F32: np.float32, T.F16: np.float16}
# Bytes into a block, and number, of its f16 scales: for blocks of random bytes.
SCALES = {T.Q2_K: (80, 2), T.Q3_K: (108, 1), T.Q4_K: (0, 2), T.Q5_K: (0, 2), T.Q6_K: (208, 1), T.IQ4_NL: (0, 1), T.IQ4_XS: (0, 1)}
INTEGERS = {T.IQ1_S: (0, 0.01), T.IQ1_M: (None, 0.01), T.IQ2_XXS: (0, 0.001), T.IQ2_XS: (0, 0.001), T.IQ2_S: (0, 0.001), T.IQ3_XXS: (0, 0.0004),
            T.IQ3_S: (0, 0.0004), T.TQ1_0: (52, 0.08), T.TQ2_0: (64, 0.08), T.Q1_0: (0, 0.08)}
# Of embeddings and the head; queries, keys and values; the attention's result; gate and up; down.
MIXTURES = {"iq_small": (T.IQ3_S, T.IQ2_XXS, T.IQ1_S, T.IQ2_XS, T.IQ1_M), "iq_ternary": (T.IQ2_S, T.IQ3_XXS, T.TQ2_0, T.IQ4_XS, T.TQ1_0),
            "iq_again": (T.TQ2_0, T.IQ1_M, T.IQ3_S, T.IQ2_S, T.IQ2_XXS)}
# Of NVFP4, matrices with a scale of their own, which is another tensor.
FACTORS = {"nvfp4": {"blk.0.attn_q": 0.75, "blk.0.ffn_down": 0.625}}
PARTS = ("token", "attn_q attn_k attn_v", "attn_output", "ffn_gate ffn_up", "ffn_down")
TYPES = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.MXFP4, *SCALES]


def shapes(hidden):
    matrix = {"attn_q": (hidden, hidden), "attn_k": (hidden // 4, hidden), "attn_v": (hidden // 4, hidden),
              "attn_output": (hidden, hidden), "ffn_gate": (hidden, hidden), "ffn_up": (hidden, hidden), "ffn_down": (hidden, hidden)}
    return {"token_embd.weight": (VOCABULARY, hidden), "output_norm.weight": (hidden,),
            **{f"blk.0.{name}.weight": (hidden,) for name in ("attn_norm", "ffn_norm")},
            **{f"blk.0.{name}.weight": shape for name, shape in matrix.items()}}


def signs(data):
    """Q1_0, which `gguf` does not dequantise: an f16 d, then a bit of each of 128 values, lowest first: d where it is set, else -d."""
    blocks = np.ascontiguousarray(data).reshape(-1, 18)
    return np.where(np.unpackbits(blocks[:, 2:], axis=1, bitorder="little"), 1, -1) * blocks[:, :2].copy().view(np.float16).astype(np.float64)


def random_blocks(kind, shape, rng):
    values, size = gguf.GGML_QUANT_SIZES[kind]
    blocks = rng.integers(0, 256, (shape[0] * shape[1] // values, size), dtype=np.uint8)
    if kind == T.NVFP4:  # four scales of E4M3, from 2^-5 to 2^-4
        blocks[:, :4] = blocks[:, :4] % 8 + 16
        return blocks.reshape(shape[0], -1)
    at, count = SCALES.get(kind, (0, 1))
    scales = (0.0004 * (1 + rng.random((len(blocks), count)))).astype(np.float16)
    if kind in INTEGERS:
        at, scale = INTEGERS[kind]
        scales = (scale * (1 + rng.random((len(blocks), 1))) * rng.choice((-1, 1), (len(blocks), 1))).astype(np.float16)
    if kind == T.IQ1_M:  # four bits of it in each of four words
        blocks[:, 49::2] = blocks[:, 49::2] & 15 | (scales.view(np.uint16) >> [[0, 4, 8, 12]] & 15) << 4
    else:
        blocks[:, at:at + 2 * count] = scales.view(np.uint8).reshape(len(blocks), 2 * count)
    return blocks.reshape(shape[0], -1)


def stored(values, kind, rng):
    """(what is written, what it stands for)."""
    if kind in PLAIN:
        data = values.astype(PLAIN[kind])
        return data, data.astype(np.float64)
    data = random_blocks(kind, values.shape, rng) if kind in (*SCALES, *INTEGERS, T.NVFP4) else quants.quantize(values, kind)
    return data, (signs(data) if kind == T.Q1_0 else quants.dequantize(data, kind)).reshape(values.shape).astype(np.float64)


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def rotate(x):
    """(rows, heads, head_dim): pairs (2i, 2i + 1) by position * 10000 ^ (-2i / head_dim)."""
    rows, _, dim = x.shape
    angle = np.arange(rows)[:, None] * 10000.0 ** (-np.arange(0, dim, 2) / dim)
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    out = np.empty_like(x)
    out[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 1::2] * cos + x[..., ::2] * sin
    return out


def forward(w, ids):
    layer = lambda name: w[f"blk.0.{name}.weight"]
    x = w["token_embd.weight"][ids]
    rows, hidden = x.shape
    n = norm(x, layer("attn_norm"))
    q = rotate((n @ layer("attn_q").T).reshape(rows, HEADS, -1))
    k = rotate((n @ layer("attn_k").T).reshape(rows, KV_HEADS, -1)).repeat(HEADS // KV_HEADS, 1)
    v = (n @ layer("attn_v").T).reshape(rows, KV_HEADS, -1).repeat(HEADS // KV_HEADS, 1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(q.shape[-1])
    scores += np.triu(np.full((rows, rows), -np.inf), 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    attended = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), v).reshape(rows, hidden)
    x = x + attended @ layer("attn_output").T
    n = norm(x, layer("ffn_norm"))
    gate = n @ layer("ffn_gate").T
    x = x + (gate / (1 + np.exp(-gate)) * (n @ layer("ffn_up").T)) @ layer("ffn_down").T
    return norm(x, w["output_norm.weight"]) @ w["token_embd.weight"].T


def kind_of(tensor, kinds):
    """Of a mixture, a type for each of PARTS."""
    return next(kind for part, kind in zip(PARTS, kinds) if any(name in tensor for name in part.split()))


def write(folder, name, kinds, rng):
    hidden = 64 if kinds[0] in PLAIN or kinds[0] == T.BF16 else 256
    writer = gguf.GGUFWriter(os.path.join(folder, name + ".gguf"), "llama")
    writer.add_block_count(1), writer.add_context_length(64), writer.add_embedding_length(hidden)
    writer.add_feed_forward_length(hidden), writer.add_head_count(HEADS), writer.add_head_count_kv(KV_HEADS)
    writer.add_layer_norm_rms_eps(EPS), writer.add_rope_freq_base(10000.0), writer.add_rope_dimension_count(hidden // HEADS)
    writer.add_vocab_size(VOCABULARY)
    weights = {}
    for tensor, shape in shapes(hidden).items():
        vector = len(shape) == 1
        kind = T.F32 if vector else kind_of(tensor, kinds)
        values = (1 + 0.1 * rng.standard_normal(shape) if vector else 1.5 * rng.standard_normal(shape) / np.sqrt(hidden))
        data, weights[tensor] = stored(values.astype(np.float32), kind, rng)
        writer.add_tensor(tensor, data, raw_dtype=kind)
        base = tensor.removesuffix(".weight")
        if factor := FACTORS.get(name, {}).get(base):
            writer.add_tensor(base + ".scale", np.array([factor], np.float32)), writer.add_tensor(base + ".input_scale", np.ones(1, np.float32))
            weights[tensor] *= factor
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
    ids = rng.integers(0, VOCABULARY, 20)
    os.makedirs(os.path.join(folder, name), exist_ok=True)
    save_file({"case.input_ids": ids[None].astype(np.int64), "case.logits": forward(weights, ids)[None].astype(np.float32)},
              os.path.join(folder, name, "golden.safetensors"))


if __name__ == "__main__":
    models = {**{kind.name.lower(): (kind,) * len(PARTS) for kind in TYPES}, **MIXTURES, "nvfp4": (T.NVFP4,) * len(PARTS), "q1_0": (T.Q1_0,) * len(PARTS)}
    for i, (name, kinds) in enumerate(models.items()):
        write(os.path.dirname(os.path.abspath(__file__)), name, kinds, np.random.default_rng(i))
