# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a tiny Hugging Face checkpoint as a GGUF file, as llama.cpp's convert_hf_to_gguf.py does.

make_gguf.py FOLDER OUT.gguf [tokens | texts]

With `tokens`, with the folder's tokenizer. With `texts`, of a folder of sentence-transformers: with its tokenizer, how it pools and its dense layers.
Names are those of test/unit/data/gguf-names.json, and those of GEMMA4_LAYER. What the converter does to a family's numbers is said below: rows of queries and keys that
it permutes for interleaved rotary embedding, fused projections that it puts in order, norms to which it adds 1, experts that it stacks, keys
that it writes. What llama.cpp (llama-cpp-python 0.3.36) computes from these files was once found to be what the goldens say, within its f16 tables.
"""
import array
import json
import math
import pathlib
import re
import statistics
import struct
import sys

import safetensors

NAMES = pathlib.Path(__file__).parent.parent / "unit/data/gguf-names.json"
U32, I32, F32, BOOL, STRING, F32_TENSOR = 4, 5, 6, 7, 8, 0


def rows_in(order, shape, values):
    """The rows of a matrix or a vector, in another order."""
    width = len(values) // shape[0]
    moved = array.array("f")
    for row in order:
        moved.extend(values[row * width:(row + 1) * width])
    return moved


def permuted(heads):
    """Rows (heads, 2, half) as (heads, half, 2): halves that rotate with each other become neighbours."""
    def change(shape, values):
        dim = shape[0] // heads
        return rows_in([h * dim + part * (dim // 2) + i for h in range(heads) for i in range(dim // 2) for part in range(2)], shape, values)
    return change


def by_part(kv_heads, group):
    """Rows of q, k and v, KV head by KV head, as all queries, all keys, all values."""
    def change(shape, values):
        dim = shape[0] // (kv_heads * (group + 2))
        rows = [range(0, group * dim), range(group * dim, (group + 1) * dim), range((group + 1) * dim, (group + 2) * dim)]
        return rows_in([h * (group + 2) * dim + row for part in rows for h in range(kv_heads) for row in part], shape, values)
    return change


def turned(shape, values):
    """A matrix that is stored as (in, out), as (out, in)."""
    rows, width = shape
    shape.reverse()
    return array.array("f", [values[row * width + column] for column in range(width) for row in range(rows)])


def plus_one(shape, values):
    return array.array("f", [value + 1 for value in values])


# What the converter writes where a config does not say it.
WRITTEN = {"intermediate_size": lambda c: 4 * c["hidden_size"], "max_position_embeddings": lambda c: 2048}


class Config(dict):
    """config.json under Hugging Face's common names."""
    OWN = {"num_hidden_layers": ("n_layer", "num_layers", "n_layers"), "hidden_size": ("n_embd", "d_model"),
           "num_attention_heads": ("n_head", "num_heads", "n_heads"), "intermediate_size": ("n_inner", "ffn_dim", "ffn_hidden_size"),
           "max_position_embeddings": ("n_positions", "max_seq_len"),
           "rms_norm_eps": ("layer_norm_eps", "layer_norm_epsilon", "norm_epsilon", "norm_eps")}

    def __missing__(self, key):
        if key == "num_key_value_heads":
            return self["num_attention_heads"]
        if key == "head_dim":
            return self["hidden_size"] // self["num_attention_heads"]
        for own in self.OWN.get(key, ()):
            if self.get(own) is not None:
                return self[own]
        if key == "num_hidden_layers" and "layers_block_type" in self:
            return len(self["layers_block_type"])
        if key in WRITTEN:
            return WRITTEN[key](self)
        raise KeyError(key)

    def full_rope(self):
        """That of layers that see all tokens, where types of layers have one each."""
        rope = self.get("rope_parameters", {})
        return rope.get("full_attention", rope)

    def rope(self, key, default=None):
        return self.full_rope().get(key, default)

    @property
    def rotary_dim(self):
        return int(self["head_dim"] * self.rope("partial_rotary_factor", 1.0))


def rotary(c):
    return {"rope.dimension_count": c.rotary_dim, "rope.freq_base": float(c.rope("rope_theta", 10000.0))}


def layer_norm(c):
    return {"attention.layer_norm_epsilon": float(c["rms_norm_eps"])}


def rms_norm(c):
    return {"attention.layer_norm_rms_epsilon": float(c["rms_norm_eps"])}


def rotated_pairs(c):
    """As the converter does to families whose halves rotate, where llama.cpp rotates pairs."""
    q, k = permuted(c["num_attention_heads"]), permuted(c["num_key_value_heads"])
    return {"q_proj.weight": q, "q_proj.bias": q, "k_proj.weight": k, "k_proj.bias": k}


def lengths(c):
    return {"attention.key_length": c["head_dim"], "attention.value_length": c["head_dim"]}


def yarn(c):
    """With attention_factor, which the reference reads where the file names none, under the key of OLMo 3's converter."""
    rope = c.full_rope()
    named = {"rope.scaling.attn_factor": float(rope["attention_factor"])} if "attention_factor" in rope else {}
    return {"rope.scaling.type": "yarn", "rope.scaling.factor": float(rope["factor"]),
            "rope.scaling.original_context_length": rope["original_max_position_embeddings"], **named}


def divisors(c):
    """What divides the frequencies of a rotation with Llama 3's scaling, or of one that leaves out the last pairs, in a tensor of the file."""
    rope = c.full_rope()
    if rope.get("rope_type") == "proportional":
        pairs, turning = c["global_head_dim"] // 2, int(c["global_head_dim"] * rope["partial_rotary_factor"] / 2)
        return {"rope_freqs.weight": ([pairs], array.array("f", [1.0] * turning + [1e30] * (pairs - turning)))}
    if rope.get("rope_type") != "llama3":
        return {}
    dim = c.rotary_dim
    numbers, low, high = [], rope["low_freq_factor"], rope["high_freq_factor"]
    for i in range(0, dim, 2):
        turns = rope["original_max_position_embeddings"] / (2 * math.pi * rope["rope_theta"] ** (i / dim))  # within the original context
        share = min(max((turns - low) / (high - low), 0.0), 1.0)
        numbers.append(1 / ((1 - share) / rope["factor"] + share))
    return {"rope_freqs.weight": ([len(numbers)], array.array("f", numbers))}


def stretched(c):
    base = c.rope("rope_theta") * c.rope("alpha") ** (c["head_dim"] / (c["head_dim"] - 2))
    return {**rms_norm(c), **lengths(c), "rope.freq_base": base}


def granite(c):
    return ({**rotary(c), **rms_norm(c), "attention.scale": c["attention_multiplier"], "embedding_scale": c["embedding_multiplier"],
             "residual_scale": c["residual_multiplier"], "logit_scale": c["logits_scaling"]}, rotated_pairs(c))


def granite_experts(c):
    keys, changes = granite(c)
    keys |= {"expert_count": c["num_local_experts"], "expert_used_count": c["num_experts_per_tok"]}
    if c.get("shared_intermediate_size"):
        keys["expert_shared_feed_forward_length"] = c["shared_intermediate_size"]
    return keys, changes


def gemma4(c):
    """Numbers of layers that see all tokens, and of those that see a window; one of each layer where the two differ in KV heads or the MLP in width."""
    sliding, all_dim, layers = [kind == "sliding_attention" for kind in c["layer_types"]], c["global_head_dim"], c["num_hidden_layers"]
    keys = {**rms_norm(c), "attention.key_length": all_dim, "attention.value_length": all_dim, "attention.key_length_swa": c["head_dim"],
            "attention.value_length_swa": c["head_dim"], "rope.dimension_count": all_dim, "rope.dimension_count_swa": c["head_dim"],
            "rope.freq_base": float(c.rope("rope_theta")), "rope.freq_base_swa": float(c["rope_parameters"]["sliding_attention"]["rope_theta"]),
            "attention.sliding_window": c["sliding_window"], "attention.sliding_window_pattern": sliding,
            "attention.shared_kv_layers": c["num_kv_shared_layers"], "embedding_length_per_layer_input": c["hidden_size_per_layer_input"]}
    if c["final_logit_softcapping"]:
        keys["final_logit_softcapping"] = c["final_logit_softcapping"]
    if c.get("num_global_key_value_heads"):
        keys["attention.head_count_kv"] = [c["num_key_value_heads"] if near else c["num_global_key_value_heads"] for near in sliding]
    if c["use_double_wide_mlp"]:
        own = layers - c["num_kv_shared_layers"]
        keys["feed_forward_length"] = [c["intermediate_size"] * (1 if layer < own else 2) for layer in range(layers)]
    if c.get("num_experts"):
        keys |= {"expert_count": c["num_experts"], "expert_used_count": c["top_k_experts"], "expert_feed_forward_length": c["moe_intermediate_size"]}
    return keys, {}


def lfm2(c):
    """Layers that keep a state have no KV heads."""
    return {**rotary(c), **rms_norm(c), "shortconv.l_cache": c["conv_L_cache"],
            "attention.head_count_kv": [0 if kind == "conv" else c["num_key_value_heads"] for kind in c["layer_types"]]}


def lfm2_width(c):
    """The width of feed-forward blocks is what the config's arithmetic makes of it."""
    width, multiple = 2 * c["intermediate_size"] // 3, c["block_multiple_of"]
    return {"feed_forward_length": -(-width // multiple) * multiple}


def minus_power(shape, values):
    return array.array("f", [-math.exp(value) for value in values])


def parts_apart(groups, sizes):
    """Rows of groups one behind the other, each with parts of these sizes, as all first parts, all second ones, …."""
    begins = [sum(sizes[:i]) for i in range(len(sizes))]
    return [group * sum(sizes) + begin + row for begin, size in zip(begins, sizes) for group in range(groups) for row in range(size)]


def tiled(c, dim, before=0):
    """Rows of value heads, of this width each, behind so many others: heads of one key, which stand side by side, as far apart as there are keys."""
    keys, group = c["linear_num_key_heads"], c["linear_num_value_heads"] // c["linear_num_key_heads"]
    return [*range(before), *(before + (key * group + i) * dim + row for i in range(group) for key in range(keys) for row in range(dim))]


def delta_rule(c):
    """Of layers with a state: what stays as it is in all of Qwen's files, and what becomes of norms and rates."""
    keys = {**rotary(c), **rms_norm(c), **lengths(c), "ssm.conv_kernel": c["linear_conv_kernel_dim"], "ssm.state_size": c["linear_key_head_dim"],
            "ssm.group_count": c["linear_num_key_heads"], "ssm.time_step_rank": c["linear_num_value_heads"],
            "ssm.inner_size": c["linear_num_value_heads"] * c["linear_value_head_dim"],
            "full_attention_interval": 1 + c["layer_types"].index("full_attention")}
    if "num_experts" in c:
        keys |= {"expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"],
                 "expert_feed_forward_length": c["moe_intermediate_size"], "expert_shared_feed_forward_length": c["shared_expert_intermediate_size"]}
    return keys, {"linear_attn.norm.weight": lambda shape, values: values, "norm.weight": plus_one, "A_log": minus_power}


def tiled_delta_rule(c):
    """Qwen 3.5's: value heads in another order, by which the converter puts rows, and columns of what reads them."""
    keys, changes = delta_rule(c)
    part = keys["rope.dimension_count"] // 2 // 3
    keys["rope.dimension_sections"] = [keys["rope.dimension_count"] // 2 - 2 * part, part, part, 0]  # of a position's three numbers, which are one for texts
    dim, before = c["linear_value_head_dim"], 2 * c["linear_num_key_heads"] * c["linear_key_head_dim"]
    columns, channels, of_heads = tiled(c, dim), tiled(c, dim, before), tiled(c, 1)
    rows = lambda order: lambda shape, values: rows_in(order, shape, values)
    of_columns = lambda shape, values: array.array("f", [values[row * shape[1] + column] for row in range(shape[0]) for column in columns])
    return keys, {**changes, "A_log": lambda shape, values: rows_in(of_heads, shape, minus_power(shape, values)), "dt_bias": rows(of_heads),
                  "in_proj_a.weight": rows(of_heads), "in_proj_b.weight": rows(of_heads), "in_proj_z.weight": rows(columns),
                  "in_proj_qkv.weight": rows(channels), "conv1d.weight": rows(channels), "linear_attn.out_proj.weight": of_columns}


def state_keys(kernel, state, groups, heads, width):
    """Sizes of Mamba 2's mixer."""
    return {"ssm.conv_kernel": kernel, "ssm.state_size": state, "ssm.group_count": groups, "ssm.time_step_rank": heads, "ssm.inner_size": width}


def mamba_keys(c):
    return state_keys(c["mamba_d_conv"], c["mamba_d_state"], c["mamba_n_groups"], c["mamba_n_heads"], c["mamba_n_heads"] * c["mamba_d_head"])


def mamba2(c):
    """Sizes of attention and of feed-forward blocks, which it has not, are 0 or left out; the context is one that nobody stated."""
    return ({**rms_norm(c), **state_keys(c["conv_kernel"], c["state_size"], c["n_groups"], c["num_heads"], c["num_heads"] * c["head_dim"]),
             "context_length": 2**20, "attention.head_count": 0, "attention.head_count_kv": None, "feed_forward_length": 0}, {"A_log": minus_power})


def granite_hybrid(c):
    """Layers that keep a state have no KV heads. Published models have one width of dense blocks under both of its keys."""
    keys, changes = granite(c)
    attending = [kind in ("attention", "full_attention") for kind in c["layer_types"]]
    keys |= {"context_length": 2**20, "rope.scaling.finetuned": c.get("position_embedding_type") == "rope", "expert_shared_feed_forward_length": c["shared_intermediate_size"],
             "attention.head_count_kv": [c["num_key_value_heads"] if attends else 0 for attends in attending], **mamba_keys(c)}
    if c["num_local_experts"]:
        keys |= {"expert_count": c["num_local_experts"], "expert_used_count": c["num_experts_per_tok"]}
    else:
        keys["feed_forward_length"] = c["shared_intermediate_size"]
    return keys, {**changes, "A_log": minus_power}


def times(factor):
    return lambda shape, values: array.array("f", [value * factor for value in values])


def falcon_h1(c):
    """All multipliers are in the weights."""
    inward, width, keys = c["attention_in_multiplier"], c["mamba_d_ssm"], c["mamba_n_groups"] * c["mamba_d_state"]
    of_rows = [factor * c["ssm_in_multiplier"] for factor, rows in zip(c["ssm_multipliers"], (width, width, keys, keys, c["mamba_n_heads"])) for _ in range(rows)]
    by_row = lambda shape, values: array.array("f", [value * of_rows[i // shape[1]] for i, value in enumerate(values)])
    return ({**rms_norm(c), **lengths(c), **mamba_keys(c), "rope.freq_base": float(c.rope("rope_theta"))},
            {"A_log": minus_power, "q_proj.weight": times(inward), "v_proj.weight": times(inward), "k_proj.weight": times(inward * c["key_multiplier"]),
             "self_attn.o_proj.weight": times(c["attention_out_multiplier"]), "mamba.out_proj.weight": times(c["ssm_out_multiplier"]),
             "gate_proj.weight": times(c["mlp_multipliers"][0]), "down_proj.weight": times(c["mlp_multipliers"][1]), "mamba.in_proj.weight": by_row,
             "lm_head.weight": times(c["lm_head_multiplier"]), "embed_tokens.weight": times(c["embedding_multiplier"])})


def nemotron_h(c):
    """A layer is what it has numbers of."""
    kinds = c["layers_block_type"]
    return ({**layer_norm(c), **lengths(c), "block_count": len(kinds), "rope.scaling.finetuned": False,
             "attention.head_count_kv": [c["num_key_value_heads"] if kind == "full_attention" else 0 for kind in kinds],
             "feed_forward_length": [c["intermediate_size"] if kind == "mlp" else 0 for kind in kinds],
             **state_keys(c["conv_kernel"], c["ssm_state_size"], c["n_groups"], c["mamba_num_heads"], c["mamba_num_heads"] * c["mamba_head_dim"])},
            {**rotated_pairs(c), "A_log": minus_power})


# Of Mamba 2's mixer: which families have it, and their key for the groups of heads.
MIXERS = {"mamba2": "n_groups", "nemotron_h": "n_groups", "falcon_h1": "mamba_n_groups", "granitemoehybrid": "mamba_n_groups"}


def mixer_shape(c, name, shape):
    """As the converter has it of the mixer's vectors: numbers of heads are (heads, 1), its norm's (groups, width)."""
    if re.search(r"\.ssm_[ad]$", name):
        return [*shape, 1]
    groups = c[MIXERS[c["model_type"]]]
    return [groups, shape[0] // groups] if name.endswith(".ssm_norm.weight") else shape


def falcon_kv_heads(c):
    return 1 if c["multi_query"] and not c["new_decoder_architecture"] else c["num_kv_heads"]


# DistilBERT's names of what BERT has under others; the converter has one name for both.
DISTILBERT_NAMES = {"transformer.layer": "encoder.layer", "attention.q_lin": "attention.self.query", "attention.k_lin": "attention.self.key",
                    "attention.v_lin": "attention.self.value", "attention.out_lin": "attention.output.dense", "sa_layer_norm": "attention.output.LayerNorm",
                    "ffn.lin1": "intermediate.dense", "ffn.lin2": "output.dense", "output_layer_norm": "output.LayerNorm"}


# Names of the parts of one layer. Experts stay as the checkpoint stacks them, gate and up in one tensor.
GEMMA4_LAYER = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "pre_feedforward_layernorm.weight": "ffn_norm.weight", "post_feedforward_layernorm.weight": "post_ffw_norm.weight", "layer_scalar": "layer_output_scale.weight",
    **{f"self_attn.{part}_proj.weight": f"attn_{part}.weight" for part in "qkv"}, "self_attn.o_proj.weight": "attn_output.weight",
    **{f"self_attn.{part}_norm.weight": f"attn_{part}_norm.weight" for part in "qk"},
    **{f"mlp.{part}_proj.weight": f"ffn_{part}.weight" for part in ("gate", "up", "down")},
    "per_layer_input_gate.weight": "inp_gate.weight", "per_layer_projection.weight": "proj.weight", "post_per_layer_input_norm.weight": "post_norm.weight",
    "router.proj.weight": "ffn_gate_inp.weight", "router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
    "experts.gate_up_proj": "ffn_gate_up_exps.weight", "experts.down_proj": "ffn_down_exps.weight",
    "post_feedforward_layernorm_1.weight": "post_ffw_norm_1.weight", "post_feedforward_layernorm_2.weight": "post_ffw_norm_2.weight",
    "pre_feedforward_layernorm_2.weight": "pre_ffw_norm_2.weight"}
GEMMA4 = {"architecture": "gemma4", "names": {
    "model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight", "model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
    "model.per_layer_model_projection.weight": "per_layer_model_proj.weight", "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
    **{f"model.layers.0.{part}": f"blk.0.{named}" for part, named in GEMMA4_LAYER.items()}}}


def roberta(c):
    """Positions begin behind that of padding: the converter leaves out the rows before them."""
    first = c["pad_token_id"] + 1
    return ({**layer_norm(c), "attention.causal": False, "context_length": c["max_position_embeddings"] - first},
            {"position_embeddings.weight": lambda shape, values: values[first * shape[1]:]})


def state_parts(c, name, shape, values):
    """Qwen3-Next's matrix of queries, keys, values and their gates, key head by key head, as one of the gates and one of all others."""
    if c["model_type"] in MIXERS:
        return [(name, (mixer_shape(c, name, shape), values))]
    if not name.endswith(".ssm_in.weight"):
        return [(name, (shape, values))]
    key, value = c["linear_key_head_dim"], c["linear_num_value_heads"] // c["linear_num_key_heads"] * c["linear_value_head_dim"]
    order = parts_apart(c["linear_num_key_heads"], [key, key, value, value])
    gates = len(order) - c["linear_num_value_heads"] * c["linear_value_head_dim"]
    return [(name.replace("ssm_in", part), ([len(rows), shape[1]], rows_in(rows, shape, values)))
            for part, rows in (("attn_qkv", order[:gates]), ("attn_gate", order[gates:]))]


# Of each family: (its keys beside the common ones, what becomes of tensors whose names end so).
FAMILIES = {
    "apertus": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c)}, {}),
    "arcee": lambda c: ({**rotary(c), **rms_norm(c), **yarn(c)}, rotated_pairs(c)),
    "bert": lambda c: ({**layer_norm(c), "attention.causal": False}, {}),
    "bloom": lambda c: (layer_norm(c), {"query_key_value.weight": by_part(c["num_attention_heads"], 1),
                                        "query_key_value.bias": by_part(c["num_attention_heads"], 1)}),
    "falcon_h1": falcon_h1,
    "falcon": lambda c: ({**layer_norm(c), "tensor_data_layout": "jploski", "attention.head_count_kv": falcon_kv_heads(c)},
                         {"query_key_value.weight": by_part(falcon_kv_heads(c), c["num_attention_heads"] // falcon_kv_heads(c))}),
    "cohere": lambda c: ({**rotary(c), **layer_norm(c), "logit_scale": c["logit_scale"]}, {}),
    "cohere2": lambda c: ({**rotary(c), **layer_norm(c), "logit_scale": c["logit_scale"], "attention.sliding_window": c["sliding_window"]}, {}),
    "distilbert": lambda c: ({"attention.layer_norm_epsilon": 1e-12, "attention.causal": False, "embedding_length": c["dim"], "block_count": c["n_layers"],
                              "feed_forward_length": c["hidden_dim"], "attention.head_count": c["n_heads"], "attention.head_count_kv": c["n_heads"]}, {}),
    "dots1": lambda c: ({**rotary(c), **rms_norm(c), "expert_count": c["n_routed_experts"], "expert_used_count": c["num_experts_per_tok"],
                         "expert_shared_count": c["n_shared_experts"], "expert_feed_forward_length": c["moe_intermediate_size"],
                         "expert_weights_scale": c["routed_scaling_factor"], "expert_weights_norm": c["norm_topk_prob"], "expert_gating_func": 2,
                         "leading_dense_block_count": c["first_k_dense_replace"]}, {}),
    "ernie4_5_moe": lambda c: ({**rms_norm(c), **rotary(c), **lengths(c), "expert_count": c["moe_num_experts"], "expert_used_count": c["moe_k"],
                                "interleave_moe_layer_step": c["moe_layer_interval"], "leading_dense_block_count": c["moe_layer_start_index"],
                                "expert_feed_forward_length": c["moe_intermediate_size"], "expert_shared_count": c["moe_num_shared_experts"],
                                "expert_shared_feed_forward_length": c["intermediate_size"] // c["num_key_value_heads"]}, {}),
    "ernie4_5": lambda c: ({**rms_norm(c), **rotary(c), **lengths(c)}, {}),
    "exaone": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
    "exaone4": lambda c: ({**rotary(c), **rms_norm(c), "attention.sliding_window": c["sliding_window"],
                           "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in c["layer_types"]]}, {}),
    "gemma": lambda c: ({**rms_norm(c), **lengths(c)}, {"norm.weight": plus_one}),
    "gemma3_text": lambda c: ({**rms_norm(c), **lengths(c), "rope.freq_base": float(c.rope("rope_theta")), "attention.sliding_window": c["sliding_window"],
                               "rope.freq_base_swa": float(c["rope_parameters"]["sliding_attention"]["rope_theta"]),
                               "attention.sliding_window_pattern": 1 + c["layer_types"].index("full_attention")}, {"norm.weight": plus_one}),
    "gemma4_text": gemma4,
    "glm4": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
    "gemma3n_text": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), "altup.num_inputs": c["altup_num_inputs"], "feed_forward_length": c["intermediate_size"][0],
                                "altup.active_idx": c["altup_active_idx"], "embedding_length_per_layer_input": c["hidden_size_per_layer_input"],
                                "rope.freq_base_swa": float(c["rope_parameters"]["sliding_attention"]["rope_theta"]),
                                "attention.shared_kv_layers": c["num_kv_shared_layers"], "attention.sliding_window": c["sliding_window"],
                                "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in c["layer_types"]],
                                "activation_sparsity_scale": [statistics.NormalDist().inv_cdf(share) if share else -math.inf
                                                              for share in c["activation_sparsity_pattern"]]}, {}),
    "glm4_moe": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), "expert_count": c["n_routed_experts"],
                            "expert_used_count": c["num_experts_per_tok"], "expert_shared_count": c["n_shared_experts"],
                            "expert_feed_forward_length": c["moe_intermediate_size"], "expert_weights_scale": c["routed_scaling_factor"],
                            "expert_weights_norm": c["norm_topk_prob"], "expert_gating_func": 2,
                            "leading_dense_block_count": c["first_k_dense_replace"]}, {}),
    "gpt_bigcode": lambda c: (layer_norm(c), {}),
    "gpt2": lambda c: (layer_norm(c), {end: turned for end in ("c_attn.weight", "c_proj.weight", "c_fc.weight")}),
    "gpt_neox": lambda c: ({**rotary(c), **layer_norm(c), "use_parallel_residual": c["use_parallel_residual"]},
                           {"query_key_value.weight": by_part(c["num_attention_heads"], 1),
                            "query_key_value.bias": by_part(c["num_attention_heads"], 1)}),
    "granite": granite,
    "granitemoe": granite_experts,
    "granitemoehybrid": granite_hybrid,
    "granitemoeshared": granite_experts,
    "hunyuan_v1_dense": lambda c: (stretched(c), {}),
    "hunyuan_v1_moe": lambda c: ({**stretched(c), "expert_count": c["num_experts"], "expert_used_count": c["moe_topk"], "expert_shared_count": 1,
                                  "expert_feed_forward_length": c["intermediate_size"],
                                  "expert_shared_feed_forward_length": c["intermediate_size"]}, {}),
    "jais2": lambda c: ({**rotary(c), **layer_norm(c)}, {}),
    "lfm2": lambda c: ({**lfm2(c), **lfm2_width(c)}, {}),
    "lfm2_moe": lambda c: ({**lfm2(c), "expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"],
                            "expert_feed_forward_length": c["moe_intermediate_size"], "expert_gating_func": 2,
                            "expert_weights_scale": c["routed_scaling_factor"], "leading_dense_block_count": c["num_dense_layers"]}, {}),
    "llama4_text": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), "feed_forward_length": c["intermediate_size_mlp"],
                               "expert_feed_forward_length": c["intermediate_size"], "expert_count": c["num_local_experts"],
                               "expert_used_count": c["num_experts_per_tok"], "interleave_moe_layer_step": c["interleave_moe_layer_step"],
                               # Not the converter's, which expects 8192: Ollama's files say it.
                               "attention.chunk_size": c["attention_chunk_size"]}, {}),
    "mamba2": mamba2,
    "minicpm3": lambda c: ({**rms_norm(c), "attention.q_lora_rank": c["q_lora_rank"], "attention.kv_lora_rank": c["kv_lora_rank"],
                            "attention.key_length": c["qk_nope_head_dim"] + c["qk_rope_head_dim"],
                            "rope.dimension_count": c["qk_rope_head_dim"]}, {}),
    "minimax_m2": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), "expert_count": c["num_local_experts"],
                              "expert_used_count": c["num_experts_per_tok"], "expert_feed_forward_length": c["intermediate_size"],
                              "expert_gating_func": 2}, {}),
    "ministral3": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), **yarn(c), "attention.temperature_scale": c.rope("llama_4_scaling_beta"),
                              "rope.scaling.yarn_log_multiplier": c.rope("mscale_all_dim")}, rotated_pairs(c)),
    "mpt": lambda c: ({**layer_norm(c), "attention.max_alibi_bias": float(c["attn_config"]["alibi_bias_max"]),
                       **({"attention.clamp_kqv": c["attn_config"]["clip_qkv"]} if c["attn_config"]["clip_qkv"] else {})}, {}),
    "nemotron": lambda c: ({**rotary(c), **layer_norm(c)}, {"norm.weight": plus_one}),
    "nemotron_h": nemotron_h,
    "nomic_bert": lambda c: ({**rotary(c), **layer_norm(c), "attention.causal": False}, {}),
    "olmo": lambda c: ({"attention.layer_norm_epsilon": 1e-5, "attention.clamp_kqv": c["clip_qkv"]}, rotated_pairs(c)),
    "olmo2": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
    "olmo3": lambda c: ({**rotary(c), **rms_norm(c), **yarn(c), "attention.sliding_window": c["sliding_window"],
                         "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in c["layer_types"]]}, {}),
    "olmoe": lambda c: ({**rotary(c), **rms_norm(c), "expert_count": c["num_experts"],
                         "expert_used_count": c["num_experts_per_tok"]}, {}),
    "phi": lambda c: ({**rotary(c), **layer_norm(c)}, {}),
    "phi3": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
    "phimoe": lambda c: ({**rotary(c), **rms_norm(c), "expert_count": c["num_local_experts"],
                          "expert_used_count": c["num_experts_per_tok"]}, {}),
    "qwen2": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
    "qwen2_vl": lambda c: ({**rotary(c), **rms_norm(c), "rope.dimension_sections": [*c.rope("mrope_section"), 0]}, {}),
    "qwen3_vl": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), "rope.dimension_sections": [*c.rope("mrope_section"), 0],
                            "n_deepstack_layers": 3}, {}),
    "qwen2_moe": lambda c: ({**rotary(c), **rms_norm(c), "expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"],
                             "expert_feed_forward_length": c["moe_intermediate_size"],
                             "expert_shared_feed_forward_length": c["shared_expert_intermediate_size"]}, {}),
    "qwen3": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c)}, {}),
    "qwen3_5_text": tiled_delta_rule,
    "qwen3_5_moe_text": tiled_delta_rule,
    "qwen3_next": delta_rule,
    "roberta": roberta,
    "seed_oss": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c)}, {}),
    "smollm3": lambda c: ({**rotary(c), **rms_norm(c)}, rotated_pairs(c)),
    "stablelm": lambda c: ({**rotary(c), **layer_norm(c), "use_parallel_residual": c["use_parallel_residual"]}, {}),
    "starcoder2": lambda c: ({**rotary(c), **layer_norm(c)}, {}),
    "xlm-roberta": roberta,
}


def common_keys(c):
    if c["model_type"] == "distilbert":
        return {"context_length": c["max_position_embeddings"], "vocab_size": c["vocab_size"]}
    return {"context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"], "block_count": c["num_hidden_layers"],
            "feed_forward_length": c["intermediate_size"], "attention.head_count": c["num_attention_heads"],
            "attention.head_count_kv": c["num_key_value_heads"], "vocab_size": c["vocab_size"]}


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def pair(key, value):
    if isinstance(value, bool):
        return text(key) + struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return text(key) + struct.pack("<II", U32, value)
    if isinstance(value, float):
        return text(key) + struct.pack("<If", F32, value)
    if isinstance(value, list) and isinstance(value[0], str):
        return text(key) + struct.pack("<IIQ", 9, STRING, len(value)) + b"".join(map(text, value))
    if isinstance(value, list):
        kind, code = {bool: (BOOL, "?"), float: (F32, "f"), int: (I32, "i")}[type(value[0])]
        return text(key) + struct.pack(f"<IIQ{len(value)}{code}", 9, kind, len(value), *value)
    return text(key) + struct.pack("<I", STRING) + text(value)


def write(path, keys, tensors, alignment=32):
    """A tensor is (shape, numbers), or (shape, bytes, their type)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys)) + b"".join(pair(*entry) for entry in keys.items())
    body = bytearray()
    for name, (shape, values, *stored) in tensors.items():
        kind = stored[0] if stored else F32_TENSOR
        head += text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(body))
        body += values if stored else array.array("f", values).tobytes()
        body += bytes(-len(body) % alignment)
    head += bytes(-len(head) % alignment)
    path.write_bytes(head + body)


def gguf_name(names, name):
    """Of a tensor of any layer and expert: the list has those of the first ones. Norms of heads that are apart become one, as experts do."""
    for own, usual in DISTILBERT_NAMES.items():
        name = name.replace(own, usual)
    name = re.sub(r"\.experts\.\d+\.", ".experts.0.", name)
    name = re.sub(r"\.norms\.\d+\.", ".", name)
    name = re.sub(r"_projections\.\d+\.", "_projections.0.", name)
    for prefix in ("bert.", "model."):  # of a checkpoint without a head
        name = prefix + name if prefix + name in names else name
    layer = re.search(r"\.(?:layers|h)\.(\d+)\.", name)
    if name in names or not layer:
        return names[name]
    known = next(i for i in "012" if name[:layer.start(1)] + i + name[layer.end(1):] in names)
    return names[name[:layer.start(1)] + known + name[layer.end(1):]].replace(f"blk.{known}.", f"blk.{layer.group(1)}.")


def halves(name, shape, values, has_experts):
    """Granite's matrices of experts, ([experts,] gate then up, in) and ([experts,] out, in), as those of gate, up and down."""
    block = "block_sparse_moe.experts.0" if "shared_mlp" not in name else "block_sparse_moe.shared_experts" if has_experts else "mlp"
    named = lambda part: name[:name.index(".", len("model.layers."))] + f".{block}.{part}.weight"
    if "output" in name:
        return [(named("down_proj"), shape, values)]
    *experts, rows, columns = shape
    half = rows // 2 * columns
    cut = lambda i: array.array("f", (value for expert in range(math.prod(experts)) for value in values[(2 * expert + i) * half:][:half]))
    return [(named(part), [*experts, rows // 2, columns], cut(i)) for i, part in enumerate(("gate_proj", "up_proj"))]


def apart(names, name, shape, values, has_experts=True):
    """A stack of experts (experts, in, out), gate and up side by side, as matrices (out, in) of each; or the tensor itself, which may be a stack with a name."""
    if name.endswith("put_linear.weight"):
        return halves(name, shape, values, has_experts)
    block, dot, role = name.rpartition(".experts.")
    if not dot or role not in ("gate_up_proj", "down_proj") or re.sub(r"\.\d+\.", ".0.", name) in names:
        return [(name, shape, values)]
    experts, rows, columns = shape
    roles = ["gate_proj", "up_proj"] if role == "gate_up_proj" else [role]
    width = columns // len(roles)
    return [(f"{block}.experts.{expert}.{part}.weight", [width, rows],
             array.array("f", (values[(expert * rows + row) * columns + i * width + column] for column in range(width) for row in range(rows))))
            for expert in range(experts) for i, part in enumerate(roles)]


def stack(tensors):
    """Experts' matrices of one name, (out, in) each, as (experts, out, in)."""
    stacked = {}
    for name, (shape, values) in tensors:
        if name in stacked:
            first, before = stacked[name]
            stacked[name] = ([(first[0] if len(first) > len(shape) else 1) + 1, *shape], before + array.array("f", values))
        else:
            stacked[name] = (shape, array.array("f", values))
    return stacked


def phantom(piece):
    """A piece of WordPiece as the converter has it: the start of a word is marked, not what continues one."""
    if piece.startswith("[") and piece.endswith("]"):
        return piece
    return piece[2:] if piece.startswith("##") else "\u2581" + piece


def surrounds(processor):
    """Whether a text gets a first token and a last one."""
    if processor["type"] == "RobertaProcessing":
        return True, True
    ends = processor["single"][0], processor["single"][-1]
    return tuple("SpecialToken" in end for end in ends)


# Gemma 4's marks around what a model thinks and calls, which the converter has shown.
SHOWN = {"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", '<|"|>'}


def tokenizer_keys(folder):
    said = json.loads((folder / "tokenizer.json").read_text())
    model, config = said["model"], json.loads((folder / "tokenizer_config.json").read_text())
    special = {token["content"]: token["id"] for token in said["added_tokens"] if token["special"]}
    scores = {}
    if model["type"] == "Unigram":
        scores = {number: score for number, (_, score) in enumerate(model["vocab"])}
        model["vocab"] = {piece: number for number, (piece, _) in enumerate(model["vocab"])}
    spelled = {number: piece for piece, number in (model["vocab"] | special).items()}
    rows = json.loads((folder / "config.json").read_text())["vocab_size"]
    pieces = [spelled.get(number, f"[PAD{number}]") for number in range(rows)]
    keys = {"token_type": [3 if piece in special else 1 if number in spelled else 5 for number, piece in enumerate(pieces)]}
    for name, key in dict(bos="bos", eos="eos", unk="unknown", sep="seperator", pad="padding", cls="cls", mask="mask").items():
        if config.get(name + "_token") in special:
            keys[key + "_token_id"] = special[config[name + "_token"]]
    if model["type"] == "WordPiece":
        # Without the first llama.cpp takes 101, which a tiny vocabulary has not.
        return keys | {"bos_token_id": keys["cls_token_id"], "model": "bert", "tokens": [*map(phantom, pieces)], "token_type_count": 2}
    merges = [" ".join(merge) for merge in model.get("merges", [])]
    if model.get("byte_fallback"):  # Gemma 4's: bytes are pieces, and some marks that are not special are always shown
        keys["token_type"] = [6 if re.fullmatch("<0x[0-9A-F]{2}>", piece) else 4 if piece in SHOWN else kind
                              for piece, kind in zip(pieces, keys["token_type"])]
        return keys | {"model": "gemma4", "tokens": pieces, "scores": [-1000.0] * rows, "merges": merges, "add_space_prefix": False, "add_bos_token": True}
    first, last = surrounds(said["post_processor"])
    keys |= {"tokens": pieces, "add_bos_token": first, "add_eos_token": last}
    if model["type"] == "Unigram":
        keys["token_type"][model["unk_id"]] = 2
        return keys | {"model": "t5", "pre": "default", "scores": [float(scores[number]) for number in range(rows)], "add_space_prefix": True,
                       "remove_extra_whitespaces": True, "token_type_count": 1}
    return keys | {"model": "gpt2", "pre": "gpt-2", "merges": merges}


def embedding_parts(folder):
    """Of the folder's modules: the number of how it pools, and its dense layers, which are products alone."""
    pooling = json.loads((folder / "1_Pooling/config.json").read_text())
    mode = pooling.get("pooling_mode") or next(name for name, chosen in pooling.items() if name.startswith("pooling_mode") and chosen)
    dense = {}
    for path in sorted(folder.glob("[23]_Dense")):
        _, shape, values = safetensors.load(path / "model.safetensors")["linear.weight"]
        dense[f"dense_{path.name[0]}.weight"] = (shape, values)
    return next(number for number, part in enumerate(("mean", "cls", "last"), 1) if part in mode), dense


def kin_names(names, entry):
    """Those of all models under the architecture's name."""
    kin = [other["names"] for other in names.values() if other["architecture"] == entry["architecture"]]
    return entry | {"names": {name: gguf for names in kin for name, gguf in names.items()} | entry["names"]}


def convert(folder, texts=""):
    """Keys and tensors of a folder's file; with `tokens` or `texts` also what is said of tokens, with `texts` of pooling."""
    folder = pathlib.Path(folder)
    config = Config(json.loads((folder / "config.json").read_text()))
    family = config["model_type"]
    names = json.loads(NAMES.read_text()) | {"gemma4_text": GEMMA4, "gemma4_text_moe": GEMMA4}
    kin = "bert" if family in ("distilbert", "roberta", "xlm-roberta") else family
    entry = names.get(folder.name) or kin_names(names, names[kin])  # a family has other tensors in some of its models
    architecture = "gemma-embedding" if config.get("use_bidirectional_attention") else entry["architecture"]
    extra, changes = FAMILIES[family](config)
    if config.get("is_causal") is False:
        extra["attention.causal"] = False
    keys = {"general.architecture": architecture, "tokenizer.ggml.model": "no_vocab"}
    keys |= {f"{architecture}.{key}": value for key, value in {**common_keys(config), **extra}.items() if value is not None}
    tensors = []
    stored = safetensors.load(folder / "model.safetensors").items()
    learned = {}  # what activations have learned: a number of each layer, under keys without the architecture's name
    for name, shape, values in (part for name, (_, shape, values) in stored for part in apart(entry["names"], name, shape, values, bool(config.get("num_local_experts", 1)))):
        if "pooler." in name:
            continue  # as the converter does
        if ".act_fn." in name:
            learned.setdefault("xielu." + name.rpartition(".")[2], []).append(values[0])
            continue
        change = next((changes[end] for end in changes if name.endswith(end)), lambda shape, values: values)
        values = change(shape, values)
        shape = [len(values) // math.prod(shape[1:]), *shape[1:]]
        if family != "xlm-roberta":  # converters leave out dimensions of 1, or do not
            shape = [dim for dim in shape if dim > 1] or [1]
        tensors += state_parts(config, gguf_name(entry["names"], name), shape, values)
    keys |= learned
    tensors = stack(tensors) | divisors(config)
    if texts == "texts":
        keys[f"{architecture}.pooling_type"], dense = embedding_parts(folder)
        for name, (shape, _) in dense.items():
            keys |= {f"{architecture}.{name.split('.')[0]}_feat_{end}": size for end, size in zip(("out", "in"), shape)}
        tensors |= dense
    if texts:
        keys |= {f"tokenizer.ggml.{key}": value for key, value in tokenizer_keys(folder).items()}
    return keys, tensors


def main(folder, out, texts=""):
    write(pathlib.Path(out), *convert(folder, texts))


if __name__ == "__main__":
    main(*sys.argv[1:])
