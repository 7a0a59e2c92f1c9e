# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes golden.json and golden.safetensors beside this file: the weights of ../llama under the config.json here, in plain numpy.

    python make_golden.py            needs numpy and safetensors

Dynamic NTK scaling as transformers defines it (modeling_rope_utils): for a length L beyond max_position_embeddings M,

    theta' = theta (factor L / M - (factor - 1)) ^ (d / (d - 2)),    frequency[i] = theta' ^ (-2 i / d)

in f32. L is the length of the whole sequence at the step; keys that are in the cache keep the rotation they got.
"""
import json
import pathlib

import numpy as np
from safetensors.numpy import load_file, save_file

here = pathlib.Path(__file__).parent
config = json.loads((here / "config.json").read_text())
weights = {name: value.astype(np.float64) for name, value in load_file(here / "../llama/model.safetensors").items()}
heads, kv_heads, dim = config["num_attention_heads"], config["num_key_value_heads"], config["head_dim"]
scaling, limit = config["rope_scaling"], config["max_position_embeddings"]
f32 = np.float32


def rotation(length, positions):
    theta = f32(config["rope_theta"])
    if length > limit:
        growth = f32(scaling["factor"]) * f32(length) / f32(limit) - f32(scaling["factor"] - 1)
        theta = theta * growth ** f32(dim / (dim - 2))
    frequency = f32(1) / theta ** (np.arange(0, dim, 2, dtype=f32) / f32(dim))
    angle = (positions.astype(f32)[:, None] * frequency[None]).astype(np.float64)
    return np.cos(angle), np.sin(angle)


def rotate(x, cos, sin):  # (tokens, heads, dim)
    low, high = x[..., : dim // 2], x[..., dim // 2 :]
    cos, sin = cos[:, None], sin[:, None]
    return np.concatenate([low * cos - high * sin, high * cos + low * sin], -1)


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + config["rms_norm_eps"]) * weight


def step(ids, cache):
    """Logits of every new token (tokens, vocab_size); `cache` is a list of keys and values per layer, and grows."""
    past = cache[0][0].shape[0] if cache else 0
    positions = np.arange(past, past + len(ids))
    cos, sin = rotation(past + len(ids), positions)
    x = weights["model.embed_tokens.weight"][ids]
    for layer in range(config["num_hidden_layers"]):
        w = lambda name: weights[f"model.layers.{layer}.{name}.weight"]
        y = norm(x, w("input_layernorm"))
        q, k, v = ((y @ w(f"self_attn.{p}_proj").T).reshape(len(ids), -1, dim) for p in "qkv")
        q, k = rotate(q, cos, sin), rotate(k, cos, sin)
        if past:
            k, v = (np.concatenate(pair) for pair in zip(cache[layer], (k, v)))
            cache[layer] = (k, v)
        else:
            cache.append((k, v))
        out = np.empty_like(q)
        for head in range(heads):
            key, value = k[:, head * kv_heads // heads], v[:, head * kv_heads // heads]
            scores = q[:, head] @ key.T / np.sqrt(dim)
            scores[np.arange(len(k))[None] > positions[:, None]] = -np.inf
            p = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = p / p.sum(-1, keepdims=True) @ value
        x = x + out.reshape(len(ids), -1) @ w("self_attn.o_proj").T
        y = norm(x, w("post_attention_layernorm"))
        gate = y @ w("mlp.gate_proj").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ w("mlp.up_proj").T)) @ w("mlp.down_proj").T
    return norm(x, weights["model.norm.weight"]) @ weights["lm_head.weight"].T


def main():
    random = np.random.default_rng(7)
    tensors, cases = {}, []
    # Below the limit, up to it, beyond it from the start.
    for name, length in ("short", 9), ("across", 24), ("long", 70):
        ids = random.integers(3, config["vocab_size"], length)
        tensors[f"{name}.input_ids"] = ids[None].astype(np.int64)
        tensors[f"{name}.logits"] = step(ids, [])[None].astype(f32)
        cases.append({"name": name, "kind": "forward", "inputs": {"input_ids": f"{name}.input_ids"},
                      "outputs": {"logits": f"{name}.logits"}})
        cache, new, rows = [], [], []
        logits = step(ids, cache)[-1]
        for _ in range(24):
            rows.append(logits)
            new.append(int(logits.argmax()))
            logits = step(np.array(new[-1:]), cache)[-1]
        tensors[f"{name}.greedy_ids"] = np.array(new)[None]
        tensors[f"{name}.greedy_logits"] = np.array(rows)[None].astype(f32)
        cases.append({"name": f"{name}.greedy", "kind": "greedy", "inputs": {"input_ids": f"{name}.input_ids"},
                      "max_new_tokens": 24, "outputs": {"ids": f"{name}.greedy_ids", "logits": f"{name}.greedy_logits"}})
    context = int(limit * scaling["factor"])
    meta = {"family": "llama_dynamic", "task": "causal-lm", "weights_dtype": "float32", "context": context, "rotates_by_length": True,
            "stats": {}, "cases": cases}
    save_file(tensors, here / "golden.safetensors")
    (here / "golden.json").write_text(json.dumps(meta, indent=1) + "\n")


if __name__ == "__main__":
    main()
