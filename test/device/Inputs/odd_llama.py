# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""odd_llama.py FOLDER [HIDDEN INNER [HEAD_DIM CONTEXT]]: writes a llama of random weights, no size of which is a multiple of a tile, and prompts around a page.

Heads of 24 in groups of 3, a vocabulary of 131, 72 columns, an MLP of 100 and a context of 160 unless others are given; prompts of 1, 63, 64, 65 and 131 tokens in prompts.safetensors,
padded on the left.
"""
import json
import math
import pathlib
import random
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tools"))
import safetensors

HEADS, KV_HEADS, VOCABULARY, LAYERS = 6, 2, 131, 2
LENGTHS = [1, 63, 64, 65, 131]


def weights(rng, hidden, inner, head_dim):
    def tensor(*shape):
        deviation = shape[-1] ** -0.5 if len(shape) > 1 else 1
        return ("F32", shape, [rng.gauss(0, deviation) for _ in range(math.prod(shape))])

    yield "model.embed_tokens.weight", tensor(VOCABULARY, hidden)
    yield "lm_head.weight", tensor(VOCABULARY, hidden)
    yield "model.norm.weight", tensor(hidden)
    for i in range(LAYERS):
        for name, *shape in (("self_attn.q_proj", HEADS * head_dim, hidden), ("self_attn.k_proj", KV_HEADS * head_dim, hidden),
                             ("self_attn.v_proj", KV_HEADS * head_dim, hidden), ("self_attn.o_proj", hidden, HEADS * head_dim),
                             ("mlp.gate_proj", inner, hidden), ("mlp.up_proj", inner, hidden), ("mlp.down_proj", hidden, inner),
                             ("input_layernorm", hidden), ("post_attention_layernorm", hidden)):
            yield f"model.layers.{i}.{name}.weight", tensor(*shape)


def main(folder, hidden=72, inner=100, head_dim=24, context=160):
    folder, hidden, inner, head_dim = pathlib.Path(folder), int(hidden), int(inner), int(head_dim)
    folder.mkdir(parents=True, exist_ok=True)
    rng = random.Random(7)
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": hidden, "num_attention_heads": HEADS,
              "num_key_value_heads": KV_HEADS, "head_dim": head_dim, "intermediate_size": inner, "vocab_size": VOCABULARY,
              "num_hidden_layers": LAYERS, "max_position_embeddings": int(context), "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "hidden_act": "silu", "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    safetensors.save(folder / "model.safetensors", dict(weights(rng, hidden, inner, head_dim)))
    longest = max(LENGTHS)
    ids = [rng.randrange(VOCABULARY) for _ in range(len(LENGTHS) * longest)]
    mask = [int(i >= longest - length) for length in LENGTHS for i in range(longest)]
    shape = (len(LENGTHS), longest)
    safetensors.save(folder / "prompts.safetensors", {"input_ids": ("I64", shape, ids), "attention_mask": ("I64", shape, mask)})


if __name__ == "__main__":
    main(*sys.argv[1:])
