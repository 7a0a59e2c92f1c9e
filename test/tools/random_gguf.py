# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Tiny GGUF files with numbers that depend on the tensors' names alone: of architectures whose models no library at hand has as Hugging Face folders, and of others.

random_gguf.py ARCHITECTURE OUT.gguf [KEY=VALUE…]  writes the file, with keys of the architecture set otherwise; VALUE is JSON, null for none
random_gguf.py ARCHITECTURE FOLDER --golden        writes FOLDER/golden.safetensors and golden.json: what llama.cpp computes of it

Goldens were made with PyPI's llama-cpp-python 0.3.36, keys and values in f32 and without flash attention; tests do not need it. Names and shapes are those that llama.cpp loads: it
refuses a file with others.
"""
import array
import json
import pathlib
import random
import sys

import safetensors
from make_gguf import write

VOCAB, HIDDEN, HEADS, KV_HEADS, LAYERS, WIDTH, HEAD = 64, 32, 4, 2, 2, 48, 8
EXPERTS, CHOSEN, EXPERT_WIDTH = 4, 2, 16
IDS = [5, 17, 3, 42, 60, 8, 8, 33, 21, 50, 2, 11]


def numbers(name, shape):
    """Of matrices such that what they give is about as large as what they read; norms are near 1, biases and the like small."""
    count = 1
    for size in shape:
        count *= size
    draw = random.Random(name)
    if len(shape) > 1:
        spread = 3.0 / shape[-1] ** 0.5 if "embd" not in name else 1.7
        return array.array("f", (spread * (draw.random() - 0.5) for _ in range(count)))
    base, spread = (1.0, 0.6) if "norm" in name and not name.endswith("bias") else (0.0, 0.6)
    return array.array("f", (base + spread * (draw.random() - 0.5) for _ in range(count)))


def common(layers=LAYERS, **others):
    keys = {"context_length": 64, "embedding_length": HIDDEN, "block_count": layers, "feed_forward_length": WIDTH, "attention.head_count": HEADS,
            "attention.head_count_kv": KV_HEADS, "vocab_size": VOCAB}
    return keys | {key.replace("__", "."): value for key, value in others.items()}


RMS = {"attention.layer_norm_rms_epsilon": 1e-5}
LAYER_NORM = {"attention.layer_norm_epsilon": 1e-5}
ROPE = {"rope.dimension_count": HEAD, "rope.freq_base": 10000.0}


def outer(bias=False, tied=False):
    shapes = {"token_embd.weight": [VOCAB, HIDDEN], "output_norm.weight": [HIDDEN]}
    return shapes | ({} if tied else {"output.weight": [VOCAB, HIDDEN]}) | ({"output_norm.bias": [HIDDEN]} if bias else {})


def attention(bias="", kv_heads=KV_HEADS, norms=False):
    shapes = {f"attn_{part}.weight": [heads * HEAD, HIDDEN] for part, heads in (("q", HEADS), ("k", kv_heads), ("v", kv_heads))}
    shapes["attn_output.weight"] = [HIDDEN, HEADS * HEAD]
    for part in bias.split():
        shapes[f"attn_{part}.bias"] = shapes[f"attn_{part}.weight"][:1]
    return shapes | ({"attn_q_norm.weight": [HEAD], "attn_k_norm.weight": [HEAD]} if norms else {})


def fused(bias="", kv_heads=KV_HEADS):
    shapes = {"attn_qkv.weight": [(HEADS + 2 * kv_heads) * HEAD, HIDDEN], "attn_output.weight": [HIDDEN, HEADS * HEAD]}
    return shapes | {f"attn_{part}.bias": shapes[f"attn_{part}.weight"][:1] for part in bias.split()}


def norms(bias=False, names=("attn_norm", "ffn_norm")):
    return {f"{name}.{end}": [HIDDEN] for name in names for end in ("weight", "bias")[:1 + bias]}


def feed_forward(bias=False, gate=True, width=WIDTH):
    shapes = {"ffn_up.weight": [width, HIDDEN], "ffn_down.weight": [HIDDEN, width]} | ({"ffn_gate.weight": [width, HIDDEN]} if gate else {})
    return shapes | ({name.replace("weight", "bias"): shape[:1] for name, shape in shapes.items()} if bias else {})


def fused_gates():
    return {"ffn_up.weight": [2 * WIDTH, HIDDEN], "ffn_down.weight": [HIDDEN, WIDTH]}


def experts(shared=0, correction=False):
    shapes = {"ffn_gate_inp.weight": [EXPERTS, HIDDEN], "ffn_gate_exps.weight": [EXPERTS, EXPERT_WIDTH, HIDDEN], "ffn_up_exps.weight": [EXPERTS, EXPERT_WIDTH, HIDDEN],
              "ffn_down_exps.weight": [EXPERTS, HIDDEN, EXPERT_WIDTH]}
    if shared:
        shapes |= {"ffn_gate_shexp.weight": [shared, HIDDEN], "ffn_up_shexp.weight": [shared, HIDDEN], "ffn_down_shexp.weight": [HIDDEN, shared]}
    return shapes | ({"exp_probs_b.bias": [EXPERTS]} if correction else {})


def model(keys, outside, *layers):
    """Each layer is the shapes of its tensors; the last stands for all that follow."""
    tensors = dict(outside)
    for index in range(keys["block_count"]):
        tensors |= {f"blk.{index}.{name}": shape for name, shape in layers[min(index, len(layers) - 1)].items()}
    return keys, tensors


def t5_outer():
    return {"token_embd.weight": [VOCAB, HIDDEN], "enc.output_norm.weight": [HIDDEN], "enc.blk.0.attn_rel_b.weight": [8, HEADS]}


def t5_layer():
    return {f"attn_{part}.weight": [HIDDEN, HIDDEN] for part in "qkvo"} | norms() | feed_forward()


def llama_like(keys=RMS | ROPE, **others):
    return model(common(**others) | keys, outer(), attention() | norms() | feed_forward())


AHEAD = {"attention.causal": False, "attention.head_count_kv": HEADS}


def embedded():
    return {"token_embd.weight": [VOCAB, HIDDEN], "token_types.weight": [1, HIDDEN], "token_embd_norm.weight": [HIDDEN], "token_embd_norm.bias": [HIDDEN]}


def behind():
    return norms(bias=True, names=("attn_output_norm", "layer_output_norm"))


def elm(heads, kv_heads, width):
    return {"attn_qkv.weight": [(heads + 2 * kv_heads) * HEAD, HIDDEN], "attn_output.weight": [HIDDEN, heads * HEAD], "attn_q_norm.weight": [HEAD],
            "attn_k_norm.weight": [HEAD]} | feed_forward(width=width)


def ungated_experts():
    return {"ffn_gate_inp.weight": [EXPERTS, HIDDEN], "ffn_up_exps.weight": [EXPERTS, WIDTH, HIDDEN], "ffn_down_exps.weight": [EXPERTS, HIDDEN, WIDTH]}


def fused_experts():
    return {"ffn_gate_inp.weight": [EXPERTS, HIDDEN], "ffn_gate_up_exps.weight": [EXPERTS, 2 * EXPERT_WIDTH, HIDDEN], "ffn_down_exps.weight": [EXPERTS, HIDDEN, EXPERT_WIDTH]}


def gated():
    return attention(norms=True) | {"attn_gate.weight": [HEADS * HEAD, HIDDEN]}


def around():
    return norms(names=("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm"))


def laguna(heads):
    return {"attn_q.weight": [heads * HEAD, HIDDEN], "attn_k.weight": [KV_HEADS * HEAD, HIDDEN], "attn_v.weight": [KV_HEADS * HEAD, HIDDEN],
            "attn_output.weight": [HIDDEN, heads * HEAD], "attn_q_norm.weight": [HEAD], "attn_k_norm.weight": [HEAD], "attn_gate.weight": [heads, HIDDEN]}


def mimo(kv_heads):
    return {"attn_q.weight": [HEADS * 12, HIDDEN], "attn_k.weight": [kv_heads * 12, HIDDEN], "attn_v.weight": [kv_heads * HEAD, HIDDEN],
            "attn_output.weight": [HIDDEN, HEADS * HEAD]}


INDEXER = {"attention.indexer.head_count": 2, "attention.indexer.key_length": 128, "attention.indexer.top_k": 64}


def indexer():
    return {"indexer.k_norm.weight": [128], "indexer.k_norm.bias": [128], "indexer.proj.weight": [2, HIDDEN], "indexer.attn_k.weight": [128, HIDDEN],
            "indexer.attn_q_b.weight": [256, 24]}


def latents(others, beside={}, correction=False):
    """Attention to a latent of 16 numbers beside a rotary key of 4; heads have 8 numbers without a rotation, and 8 of values."""
    shapes = norms() | {"attn_q_a.weight": [24, HIDDEN], "attn_q_a_norm.weight": [24], "attn_q_b.weight": [HEADS * 12, 24], "attn_kv_a_mqa.weight": [20, HIDDEN],
                        "attn_kv_a_norm.weight": [16], "attn_k_b.weight": [HEADS, 16, 8], "attn_v_b.weight": [HEADS, 8, 16],
                        "attn_output.weight": [HIDDEN, HEADS * 8]} | beside
    keys = common() | RMS | ROUTED | {
        "attention.head_count_kv": 1, "attention.q_lora_rank": 24, "attention.kv_lora_rank": 16, "attention.key_length": 20, "attention.value_length": 16,
        "attention.key_length_mla": 12, "attention.value_length_mla": 8, "rope.dimension_count": 4, "rope.freq_base": 10000.0, "leading_dense_block_count": 1,
        "expert_shared_count": 1, "expert_weights_scale": 2.0, "expert_weights_norm": True} | others
    return model(keys, outer(), shapes | feed_forward(), shapes | experts(EXPERT_WIDTH, correction))


ROUTED = {"expert_count": EXPERTS, "expert_used_count": CHOSEN, "expert_feed_forward_length": EXPERT_WIDTH}

ARCHITECTURES = {
    "baichuan": lambda: model(common(layers=40) | RMS | ROPE, outer(), attention() | norms() | feed_forward()),
    "baichuan-7b": lambda: model(common(layers=32) | RMS | ROPE, outer(), attention() | norms() | feed_forward()),
    "bailingmoe": lambda: model(common() | RMS | ROPE | ROUTED | {"expert_shared_count": 2, "expert_weights_scale": 1.5, "expert_weights_norm": True},
                                outer(), attention() | norms() | experts(2 * EXPERT_WIDTH)),
    "bailingmoe2": lambda: model(common(layers=3) | RMS | ROPE | ROUTED | {
        "rope.dimension_count": 4, "leading_dense_block_count": 1, "expert_shared_count": 1, "expert_weights_scale": 2.5, "expert_weights_norm": True,
        "expert_gating_func": 2, "expert_group_count": 2, "expert_group_used_count": 1},
        outer(), fused() | norms() | feed_forward() | {"attn_q_norm.weight": [HEAD], "attn_k_norm.weight": [HEAD]},
        fused() | norms() | experts(EXPERT_WIDTH, correction=True) | {"attn_q_norm.weight": [HEAD], "attn_k_norm.weight": [HEAD]}),
    "chatglm": lambda: model(common() | RMS | ROPE | {"rope.dimension_count": 4}, outer(), fused("qkv") | norms() | fused_gates()),
    "codeshell": lambda: model(common() | LAYER_NORM | ROPE, outer(bias=True), fused("qkv output") | norms(bias=True) | feed_forward(bias=True, gate=False)),
    "deepseek": lambda: model(common() | RMS | ROPE | ROUTED | {"leading_dense_block_count": 1, "expert_shared_count": 2, "expert_weights_scale": 1.0},
                              outer(), attention() | norms() | feed_forward(), attention() | norms() | experts(2 * EXPERT_WIDTH)),
    "internlm2": llama_like,
    "jais": lambda: model(common() | LAYER_NORM | {"attention.max_alibi_bias": 8.0, "attention.head_count_kv": HEADS}, outer(bias=True),
                          fused("qkv output", HEADS) | norms(bias=True) | feed_forward(bias=True)),
    "jina-bert-v2": lambda: model(common() | LAYER_NORM | AHEAD, embedded(), behind() | attention("q k v output", kv_heads=HEADS) | feed_forward() | {"ffn_down.bias": [HIDDEN]}),
    "llama-embed": lambda: llama_like(RMS | ROPE | {"attention.causal": False}),
    "maincoder": lambda: model(common() | RMS | ROPE, outer(), attention(norms=True) | norms() | feed_forward()),
    "minicpm": lambda: llama_like(RMS | ROPE | {"embedding_scale": 12.0, "residual_scale": 0.7, "logit_scale": 2.0}),
    "orion": lambda: model(common() | LAYER_NORM | ROPE, outer(bias=True), attention() | norms(bias=True) | feed_forward()),
    "pangu-embedded": lambda: model(common() | RMS | ROPE, outer(tied=True), attention("q k v output") | norms() | feed_forward()),
    "plamo": lambda: model(common() | RMS | ROPE, outer(), attention() | norms(names=["attn_norm"]) | feed_forward()),
    "plm": lambda: model(common() | RMS | {"attention.kv_lora_rank": 16, "attention.key_length": 12, "attention.value_length": 8, "rope.dimension_count": 4,
                                           "attention.head_count_kv": HEADS}, outer(tied=True),
                         norms() | feed_forward(gate=False) | {"attn_q.weight": [HEADS * 12, HIDDEN], "attn_kv_a_mqa.weight": [20, HIDDEN], "attn_kv_a_norm.weight": [16],
                                                               "attn_kv_b.weight": [HEADS * 16, 16], "attn_output.weight": [HIDDEN, HEADS * 8]}),
    "qwen": lambda: model(common() | RMS | ROPE | {"feed_forward_length": 2 * WIDTH, "attention.head_count_kv": HEADS}, outer(),
                          fused("qkv", HEADS) | norms() | feed_forward()),
    "refact": lambda: model(common() | RMS | {"attention.head_count_kv": 1}, outer(), attention(kv_heads=1) | norms() | feed_forward()),
    "smallthinker": lambda: model(common(layers=5) | RMS | ROPE | ROUTED | {"attention.sliding_window": 4096, "expert_gating_func": 2}, outer(),
                                  attention() | norms() | experts()),
    "t5encoder": lambda: model(common(layers=2) | RMS | {"attention.causal": False, "attention.key_length": HEAD, "attention.value_length": HEAD, "attention.head_count_kv": HEADS,
                                                         "attention.relative_buckets_count": 8}, t5_outer(), t5_layer()),
    "xverse": llama_like,
    "plamo3": lambda: model(common(layers=9) | RMS | ROPE | {"attention.key_length": HEAD, "attention.value_length": HEAD, "attention.sliding_window": 4,
                                                             "rope.freq_base": 1000000.0, "rope.freq_base_swa": 10000.0},
                            outer(), fused() | norms() | fused_gates() | {"attn_q_norm.weight": [HEAD], "attn_k_norm.weight": [HEAD],
                                                                                          "post_attention_norm": [HIDDEN], "post_ffw_norm": [HIDDEN]}),
    "openelm": lambda: model(common(layers=3) | RMS | ROPE | {"attention.head_count": [2, 4, 4], "attention.head_count_kv": [1, 1, 2], "feed_forward_length": [24, 48, 40],
                                                              "attention.key_length": HEAD, "attention.value_length": HEAD}, outer(tied=True),
                             *[elm(*shape) | norms() for shape in ((2, 1, 24), (4, 1, 48), (4, 2, 40))]),
    "deci": lambda: model(common(layers=4) | RMS | ROPE | {"attention.head_count": [4, 0, 4, 4], "attention.head_count_kv": [2, 0, 1, 2],
                                                           "feed_forward_length": [48, 24, 48, 40], "attention.key_length": HEAD, "attention.value_length": HEAD}, outer(),
                          attention() | norms() | feed_forward(), norms(names=["ffn_norm"]) | feed_forward(width=24), attention(kv_heads=1) | norms() | feed_forward(),
                          attention() | norms() | feed_forward(width=40)),
    "qwen3vlmoe": lambda: model(common() | RMS | ROUTED | {"rope.freq_base": 10000.0, "rope.dimension_count": HEAD, "rope.dimension_sections": [2, 1, 1, 0],
                                                           "n_deepstack_layers": 0}, outer(), attention(norms=True) | norms() | experts()),
    "neo-bert": lambda: model(common() | RMS | ROPE | AHEAD, {"token_embd.weight": [VOCAB, HIDDEN], "enc.output_norm.weight": [HIDDEN]},
                              fused(kv_heads=HEADS) | norms() | fused_gates()),
    "nomic-bert-moe": lambda: model(common(layers=3) | LAYER_NORM | ROPE | AHEAD | {"moe_every_n_layers": 2, "expert_count": EXPERTS, "expert_used_count": CHOSEN}, embedded(),
                                    behind() | fused("qkv output", HEADS) | feed_forward(bias=True, gate=False),
                                    behind() | fused("qkv output", HEADS) | ungated_experts(),
                                    behind() | fused("qkv output", HEADS) | feed_forward(bias=True, gate=False)),
    # Queries, keys and values in one tensor, or gates and what they multiply, where most converters write them apart.
    "pangu-embedded-fused": lambda: model(common() | RMS | ROPE, outer(tied=True), fused("qkv output") | norms() | feed_forward()),
    "cohere2moe-fused": lambda: model(common(layers=3) | LAYER_NORM | ROPE | ROUTED | {
        "attention.sliding_window": 4, "attention.sliding_window_pattern": [False, True, False], "logit_scale": 0.25, "leading_dense_block_count": 1,
        "expert_weights_norm": True, "expert_gating_func": 2}, outer(tied=True), fused() | norms(names=["attn_norm"]) | feed_forward(),
        fused() | norms(names=["attn_norm"]) | fused_experts()),
    # Of families that are read from Hugging Face folders as well.
    "afmoe": lambda: model(common(layers=5) | RMS | ROPE | ROUTED | {
        "attention.sliding_window": 4, "leading_dense_block_count": 1, "expert_shared_count": 1, "expert_weights_scale": 2.0, "expert_weights_norm": True,
        "expert_gating_func": 2, "attention.key_length": HEAD, "attention.value_length": HEAD},
        outer(), gated() | around() | feed_forward(), gated() | around() | experts(EXPERT_WIDTH, correction=True)),
    "exaone-moe": lambda: model(common(layers=5) | RMS | ROPE | ROUTED | {
        "attention.sliding_window": 4, "attention.sliding_window_pattern": [True, True, True, False, True], "leading_dense_block_count": 1, "expert_shared_count": 1,
        "expert_shared_feed_forward_length": EXPERT_WIDTH, "expert_weights_scale": 2.0, "expert_weights_norm": True, "expert_gating_func": 2},
        outer(), attention(norms=True) | norms() | feed_forward(), attention(norms=True) | norms() | experts(EXPERT_WIDTH, correction=True)),
    "hy_v3": lambda: model(common() | RMS | ROPE | ROUTED | {
        "leading_dense_block_count": 1, "expert_shared_feed_forward_length": 24, "expert_weights_scale": 2.0, "expert_weights_norm": True, "expert_gating_func": 2},
        outer(), attention(norms=True) | norms() | feed_forward(), attention(norms=True) | norms() | experts(24) | {"exp_probs_b": [EXPERTS]}),
    "laguna": lambda: model(common(layers=5) | RMS | ROPE | ROUTED | {
        "attention.head_count": [2, 4, 4, 4, 2], "attention.key_length": HEAD, "attention.value_length": HEAD, "attention.sliding_window": 4, "attention.sliding_window_pattern": 4,
        "rope.dimension_count": 4, "rope.dimension_count_swa": HEAD, "rope.freq_base": 500000.0, "rope.freq_base_swa": 10000.0, "rope.scaling.type": "yarn",
        "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 16, "rope.scaling.yarn_beta_fast": 32.0, "rope.scaling.yarn_beta_slow": 1.0,
        "leading_dense_block_count": 1, "expert_shared_feed_forward_length": 24, "expert_weights_scale": 2.0, "expert_weights_norm": True, "expert_gating_func": 2},
        outer(), laguna(2) | norms() | feed_forward(), *[laguna(4) | norms() | experts(24, correction=True)] * 3, laguna(2) | norms() | experts(24, correction=True)),
    "mimo2": lambda: model(common(layers=3) | RMS | ROPE | ROUTED | {
        "attention.head_count_kv": [1, 2, 2], "attention.key_length": 12, "attention.value_length": HEAD, "attention.sliding_window": 4,
        "attention.sliding_window_pattern": [0, 1, 1], "rope.dimension_count": 4, "rope.freq_base": 5000000.0, "rope.freq_base_swa": 10000.0, "attention.value_scale": 0.7},
        outer(), mimo(1) | norms() | feed_forward(), mimo(2) | norms() | experts(correction=True) | {"attn_sinks.weight": [HEADS]}),
    "dbrx": lambda: model(common() | LAYER_NORM | ROPE | ROUTED | {"attention.clamp_kqv": 1.5, "feed_forward_length": EXPERT_WIDTH}, outer(),
                          fused() | norms(names=("attn_norm", "attn_output_norm")) | experts()),
    "bitnet": lambda: model(common() | RMS | ROPE, outer(tied=True),
                            attention() | norms() | feed_forward() | {"attn_sub_norm.weight": [HIDDEN], "ffn_sub_norm.weight": [WIDTH]}),
    "mistral4": lambda: latents({"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0, "rope.scaling.original_context_length": 32, "rope.scaling.yarn_log_multiplier": 0.1,
                                 "attention.temperature_scale": 0.1, "attention.temperature_length": 32}),
    "deepseek2": lambda: latents({"expert_gating_func": 2, "expert_group_count": 2, "expert_group_used_count": 1, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
                                  "rope.scaling.original_context_length": 16, "rope.scaling.yarn_log_multiplier": 0.1}, correction=True),
    "deepseek32": lambda: latents(INDEXER | {"expert_gating_func": 2}, indexer(), correction=True),
    "gemma2": lambda: model(common() | RMS | {"attention.sliding_window": 4, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 8.0,
                                              "attention.key_length": HEAD, "attention.value_length": HEAD}, outer(tied=True), attention() | around() | feed_forward()),
    "gemma3": lambda: model(common(layers=7) | RMS | {"attention.sliding_window": 4, "rope.freq_base": 1000000.0, "attention.key_length": HEAD, "attention.value_length": HEAD},
                            outer(tied=True), attention(norms=True) | around() | feed_forward()),
    "glm-dsa": lambda: latents(INDEXER | {"expert_gating_func": 2}, indexer(), correction=True),
    "cohere2moe": lambda: model(common(layers=5) | LAYER_NORM | ROPE | ROUTED | {
        "attention.sliding_window": 4, "attention.sliding_window_pattern": [False, True, True, True, False], "logit_scale": 0.25, "leading_dense_block_count": 1,
        "expert_shared_count": 1, "expert_weights_norm": True, "expert_gating_func": 2},
        outer(tied=True), attention() | norms(names=["attn_norm"]) | feed_forward(), attention() | norms(names=["attn_norm"]) | experts(EXPERT_WIDTH)),
    "mellum": lambda: model(common(layers=5) | RMS | ROPE | ROUTED | {
        "attention.sliding_window": 4, "attention.sliding_window_pattern": 4, "rope.scaling.type": "yarn", "rope.scaling.factor": 4.0,
        "rope.scaling.original_context_length": 16}, outer(), attention(norms=True) | norms() | experts()),
    "modern-bert": lambda: model(common(layers=4) | LAYER_NORM | ROPE | AHEAD | {"attention.sliding_window": 6, "rope.freq_base": 160000.0, "rope.freq_base_swa": 10000.0},
                                 {"token_embd.weight": [VOCAB, HIDDEN], "token_embd_norm.weight": [HIDDEN], "output_norm.weight": [HIDDEN]},
                                 norms(names=["ffn_norm"]) | fused(kv_heads=HEADS) | fused_gates(), norms() | fused(kv_heads=HEADS) | fused_gates()),
    "eurobert": lambda: model(common() | RMS | ROPE | AHEAD, outer(tied=True), attention(kv_heads=HEADS) | norms() | feed_forward()),
    "jina-bert-v3": lambda: model(common() | LAYER_NORM | ROPE | AHEAD, embedded(),
                                  behind() | fused("qkv output", HEADS) | feed_forward(bias=True, gate=False)),
    "granite_swa": lambda: model(common(layers=5) | RMS | ROPE | {
        "attention.sliding_window": 4, "attention.sliding_window_pattern": [False, True, True, True, False], "embedding_scale": 2.0, "residual_scale": 0.5, "logit_scale": 2.0,
        "attention.scale": 0.3}, outer(tied=True), attention() | norms() | feed_forward() | {"attn_sinks.weight": [HEADS]}),
}

# The model_type of config.json, where GGUF calls it something else.
MODEL_TYPES = {"llama-embed": "llama", "gemma3": "gemma3_text", "deepseek2": "deepseek_v3", "qwen3vlmoe": "qwen3_vl_moe", "baichuan-7b": "baichuan", "exaone-moe": "exaone_moe", "mimo2": "mimo_v2_flash", "deepseek32": "deepseek_v32", "glm-dsa": "glm_moe_dsa", "cohere2moe": "cohere2_moe",
               "modern-bert": "modernbert", "jina-bert-v3": "jina_embeddings_v3"}


def made(architecture, given={}):
    keys, shapes = ARCHITECTURES[architecture]()
    keys = {key: value for key, value in (keys | given).items() if value is not None}
    name = architecture.removesuffix("-7b").removesuffix("-fused")
    if name == "t5encoder":
        shapes = {tensor.replace("blk", "enc.blk") if tensor.startswith("blk") else tensor: shape for tensor, shape in shapes.items()}
    keys = {"general.architecture": name, "tokenizer.ggml.model": "no_vocab"} | {f"{name}.{key}": value for key, value in keys.items()}
    if "token_types.weight" in shapes:
        keys["tokenizer.ggml.token_type_count"] = 1
    return keys, {tensor: (shape, numbers(tensor, shape)) for tensor, shape in shapes.items()}


def golden(architecture, folder):
    import ctypes

    import llama_cpp as library
    folder.mkdir(exist_ok=True)
    path = folder / "model.gguf"
    write(path, *made(architecture))
    library.llama_backend_init()
    said = []
    keep = library.llama_log_callback(lambda level, text, _: said.append(text.decode(errors="replace")))
    library.llama_log_set(keep, ctypes.c_void_p())
    loaded = library.llama_model_load_from_file(str(path).encode(), library.llama_model_default_params())
    path.unlink()
    if not loaded:
        sys.exit("".join(said[-8:]))
    options = library.llama_context_default_params()
    options.n_ctx, options.n_threads, options.n_threads_batch = 64, 1, 1
    options.type_k = options.type_v = 0
    options.flash_attn_type = 0
    keys = ARCHITECTURES[architecture]()[0]
    encodes = keys.get("attention.causal") is False
    options.embeddings, options.pooling_type = encodes, 0
    context = library.llama_init_from_model(loaded, options)
    batch = library.llama_batch_init(len(IDS), 0, 1)
    batch.n_tokens = len(IDS)
    for place, number in enumerate(IDS):
        batch.token[place], batch.pos[place], batch.n_seq_id[place], batch.logits[place] = number, place, 1, 1
        batch.seq_id[place][0] = 0
    compute = library.llama_encode if library.llama_model_has_encoder(loaded) else library.llama_decode
    if compute(context, batch):
        sys.exit("".join(said[-8:]))
    rows, width, output = (library.llama_get_embeddings_ith, HIDDEN, "last_hidden_state") if encodes else (library.llama_get_logits_ith, VOCAB, "logits")
    logits = array.array("f", (number for place in range(len(IDS)) for number in rows(context, place)[:width]))
    safetensors.save(folder / "golden.safetensors", {"p.input_ids": ("I64", [1, len(IDS)], array.array("q", IDS)), f"p.{output}": ("F32", [1, len(IDS), width], logits)})
    about = {"model_type": MODEL_TYPES.get(architecture.removesuffix("-fused"), architecture.removesuffix("-fused")), "made_by": "llama-cpp-python " + library.__version__, "file": f"random_gguf.py {architecture}"}
    (folder / "golden.json").write_text(json.dumps(about, indent=2) + "\n")
    print(architecture, "logits from", min(logits), "to", max(logits))


if __name__ == "__main__":
    if sys.argv[-1] == "--golden":
        golden(sys.argv[1], pathlib.Path(sys.argv[2]))
    else:
        given = dict(word.split("=", 1) for word in sys.argv[3:])
        write(pathlib.Path(sys.argv[2]), *made(sys.argv[1], {key: json.loads(value) for key, value in given.items()}))
