# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What llama.cpp's convert_hf_to_gguf.py writes of each family: keys beside the common ones, and what becomes of the numbers of a tensor: rows of queries and keys that it
permutes for interleaved rotary embedding, fused projections that it puts in order, norms to which it adds 1, parts of states that it turns or splits.
"""
import array
import math
import re
import statistics


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
           "max_position_embeddings": ("n_positions", "max_seq_len", "model_max_length"),
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
    # Which layers have a state; the interval is then the converter's own.
    keys |= {"attention.recurrent_layers": [kind == "linear_attention" for kind in c["layer_types"]], "full_attention_interval": 4}
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


def mamba(c):
    """As Mamba 2's; a flag says that steps, keys and queries are normed."""
    return ({**rms_norm(c), "ssm.conv_kernel": c["conv_kernel"], "ssm.state_size": c["state_size"], "ssm.inner_size": c["intermediate_size"],
             "ssm.time_step_rank": c["time_step_rank"], "ssm.dt_b_c_rms": c["model_type"] == "falcon_mamba", "context_length": 2**20,
             "embedding_length": c["hidden_size"], "block_count": c["num_hidden_layers"], "attention.head_count": 0, "feed_forward_length": 0},
            {"A_log": minus_power})


def jamba(c):
    """Layers that keep a state have no KV heads."""
    attends = [layer % c["attn_layer_period"] == c["attn_layer_offset"] for layer in range(c["num_hidden_layers"])]
    return ({**rms_norm(c), "ssm.conv_kernel": c["mamba_d_conv"], "ssm.state_size": c["mamba_d_state"], "ssm.inner_size": c["mamba_expand"] * c["hidden_size"],
             "ssm.time_step_rank": c["mamba_dt_rank"], "attention.head_count_kv": [c["num_key_value_heads"] if attend else 0 for attend in attends],
             "expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"]}, {"A_log": minus_power})


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
             "feed_forward_length": [c["intermediate_size"] if kind == "mlp" else c["moe_intermediate_size"] if kind == "moe" else 0 for kind in kinds],
             **(ungated_experts(c) if "moe" in kinds else {}),
             **state_keys(c["conv_kernel"], c["ssm_state_size"], c["n_groups"], c["mamba_num_heads"], c["mamba_num_heads"] * c["mamba_head_dim"])},
            {**rotated_pairs(c), "A_log": minus_power})


def ungated_experts(c):
    return {"expert_count": c["n_routed_experts"], "expert_used_count": c["num_experts_per_tok"], "expert_feed_forward_length": c["moe_intermediate_size"],
            "expert_shared_feed_forward_length": c["moe_shared_expert_intermediate_size"], "expert_shared_count": c["n_shared_experts"],
            "expert_weights_norm": c["norm_topk_prob"], "expert_weights_scale": c["routed_scaling_factor"], "expert_group_count": c["n_group"],
            "moe_latent_size": c.get("moe_latent_size")}


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


def kimi_linear(c):
    """Layers that keep a state have no KV heads; where the others have their latents' sizes as those of heads, keys of their own say these."""
    return ({**rms_norm(c), "attention.head_count_kv": [0 if kind == "linear_attention" else c["num_key_value_heads"] for kind in c["layer_types"]],
             "ssm.conv_kernel": c["linear_conv_kernel_dim"], "kda.head_dim": c["linear_head_dim"],
             "attention.kv_lora_rank": c["kv_lora_rank"], "rope.dimension_count": c["qk_rope_head_dim"], "rope.freq_base": 10000.0,
             "attention.key_length": c["kv_lora_rank"] + c["qk_rope_head_dim"], "attention.key_length_mla": c["qk_nope_head_dim"] + c["qk_rope_head_dim"],
             "attention.value_length_mla": c["v_head_dim"], "expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_token"],
             "expert_feed_forward_length": c["moe_intermediate_size"], "expert_shared_count": c["num_shared_experts"],
             "expert_weights_scale": c["routed_scaling_factor"], "expert_gating_func": 2, "leading_dense_block_count": c["mlp_layer_types"].index("sparse")},
            {"A_log": minus_power})


def kimi_parts(c, name, shape, values):
    """What gives keys and values of their latent apart, that of keys turned head by head; more dimensions of convolutions and of rates."""
    if "conv1d" in name:
        return [(name, ([1, shape[0], 1, shape[1]], values))]
    if name.endswith(".ssm_a"):
        return [(name, ([1, 1, shape[0], 1], values))]
    if not name.endswith(".attn_kv_b.weight"):
        return [(name, (shape, values))]
    heads, nope, v, rank = c["num_attention_heads"], c["qk_nope_head_dim"], c["v_head_dim"], c["kv_lora_rank"]
    at = lambda head, row, column: values[(head * (nope + v) + row) * rank + column]
    keys = [at(head, row, column) for head in range(heads) for column in range(rank) for row in range(nope)]
    others = [at(head, nope + row, column) for head in range(heads) for row in range(v) for column in range(rank)]
    return [(name.replace("kv_b", "k_b"), ([heads, rank, nope], array.array("f", keys))),
            (name.replace("kv_b", "v_b"), ([heads, v, rank], array.array("f", others)))]


def state_parts(c, name, shape, values):
    """Qwen3-Next's matrix of queries, keys, values and their gates, key head by key head, as one of the gates and one of all others."""
    if c["model_type"] == "kimi_linear":
        return kimi_parts(c, name, shape, values)
    if c["model_type"] in MIXERS:
        return [(name, (mixer_shape(c, name, shape), values))]
    if not name.endswith(".ssm_in.weight") or c["model_type"] in ("mamba", "falcon_mamba", "jamba"):
        return [(name, (shape, values))]
    key, value = c["linear_key_head_dim"], c["linear_num_value_heads"] // c["linear_num_key_heads"] * c["linear_value_head_dim"]
    order = parts_apart(c["linear_num_key_heads"], [key, key, value, value])
    gates = len(order) - c["linear_num_value_heads"] * c["linear_value_head_dim"]
    return [(name.replace("ssm_in", part), ([len(rows), shape[1]], rows_in(rows, shape, values)))
            for part, rows in (("attn_qkv", order[:gates]), ("attn_gate", order[gates:]))]


def slides(c):
    return [kind == "sliding_attention" for kind in c["layer_types"]]


def sigmoid_experts(c, scale, experts="num_experts"):
    """Of DeepSeek-V3's kin."""
    dense = c["mlp_layer_types"].index("sparse") if "mlp_layer_types" in c else c["num_dense_layers"]
    return {"expert_count": c[experts], "expert_used_count": c["num_experts_per_tok"], "expert_feed_forward_length": c.get("moe_intermediate_size"), "expert_gating_func": 2,
            "expert_weights_norm": c.get("norm_topk_prob", True), "expert_weights_scale": float(scale), "leading_dense_block_count": dense}


def windows_apart(c):
    """Rotations of each type of layer."""
    full, window = (c["rope_parameters"][kind] for kind in ("full_attention", "sliding_attention"))
    dim = lambda rope: int(c["head_dim"] * rope.get("partial_rotary_factor", 1.0))
    return {"rope.freq_base": float(full["rope_theta"]), "rope.freq_base_swa": float(window["rope_theta"]), "rope.dimension_count": dim(full),
            **({"rope.dimension_count_swa": dim(window)} if dim(full) != dim(window) else {}), "attention.sliding_window": c.get("sliding_window", c.get("local_attention")),
            "attention.sliding_window_pattern": slides(c)}


def t5(c):
    return ({**rms_norm(c), "attention.key_length": c["d_kv"], "attention.value_length": c["d_kv"], "attention.relative_buckets_count": c["relative_attention_num_buckets"],
             "decoder_start_token_id": c["decoder_start_token_id"], "decoder_block_count": c["num_decoder_layers"], "block_count": c["num_layers"],
             "feed_forward_length": c["d_ff"]}, {})


# Of each family: (its keys beside the common ones, what becomes of tensors whose names end so).
FAMILIES = {
    "afmoe": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), **sigmoid_experts(c, c["route_scale"]), "expert_shared_count": c["num_shared_experts"],
                         "attention.sliding_window": c["sliding_window"], "attention.sliding_window_pattern": slides(c)}, {}),
    "apertus": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c)}, {}),
    "arcee": lambda c: ({**rotary(c), **rms_norm(c), **yarn(c)}, rotated_pairs(c)),
    "bert": lambda c: ({**layer_norm(c), "attention.causal": False}, {}),
    "bitnet": lambda c: ({**rotary(c), **rms_norm(c), "hidden_activation": c["hidden_act"]}, {}),
    "bloom": lambda c: (layer_norm(c), {"query_key_value.weight": by_part(c["num_attention_heads"], 1),
                                        "query_key_value.bias": by_part(c["num_attention_heads"], 1)}),
    "falcon_h1": falcon_h1,
    "falcon": lambda c: ({**layer_norm(c), "tensor_data_layout": "jploski", "attention.head_count_kv": falcon_kv_heads(c)},
                         {"query_key_value.weight": by_part(falcon_kv_heads(c), c["num_attention_heads"] // falcon_kv_heads(c))}),
    "cohere": lambda c: ({**rotary(c), **layer_norm(c), "logit_scale": c["logit_scale"]}, {}),
    "cohere2": lambda c: ({**rotary(c), **layer_norm(c), "logit_scale": c["logit_scale"], "attention.sliding_window": c["sliding_window"]}, {}),
    "cohere2_moe": lambda c: ({**rotary(c), "attention.layer_norm_epsilon": c["layer_norm_eps"], **sigmoid_experts(c, 1), "logit_scale": c["logit_scale"], "attention.sliding_window": c["sliding_window"],
                               "attention.sliding_window_pattern": slides(c), "expert_shared_count": c["num_shared_experts"],
                               "expert_feed_forward_length": c["intermediate_size"], "feed_forward_length": c["prefix_dense_intermediate_size"]}, {}),
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
    "eurobert": lambda c: ({**rotary(c), **rms_norm(c), "attention.causal": False}, {}),
    "exaone_moe": lambda c: ({**rotary(c), **rms_norm(c), **sigmoid_experts(c, c["routed_scaling_factor"]), "attention.sliding_window": c["sliding_window"],
                              "attention.sliding_window_pattern": slides(c), "expert_shared_count": c["num_shared_experts"], "expert_group_count": c["n_group"],
                              "expert_group_used_count": c["topk_group"], "expert_shared_feed_forward_length": c["moe_intermediate_size"]}, {}),
    "exaone": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
    "exaone4": lambda c: ({**rotary(c), **rms_norm(c), "attention.sliding_window": c["sliding_window"],
                           "attention.sliding_window_pattern": [kind == "sliding_attention" for kind in c["layer_types"]]}, {}),
    "gemma": lambda c: ({**rms_norm(c), **lengths(c)}, {"norm.weight": plus_one}),
    "gemma3_text": lambda c: ({**rms_norm(c), **lengths(c), "rope.freq_base": float(c.rope("rope_theta")), "attention.sliding_window": c["sliding_window"],
                               "rope.freq_base_swa": float(c["rope_parameters"]["sliding_attention"]["rope_theta"]),
                               "attention.sliding_window_pattern": 1 + c["layer_types"].index("full_attention")}, {"norm.weight": plus_one}),
    "gemma4_text": gemma4,
    "glm": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
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
    "granite_swa": lambda c: ({**granite(c)[0], "rope.freq_base": max(c["layer_rope_theta"]), "attention.rope_pattern": [base > 0 for base in c["layer_rope_theta"]],
                               "attention.sliding_window": c["sliding_window"], "attention.sliding_window_pattern": slides(c)}, rotated_pairs(c)),
    "granitemoe": granite_experts,
    "granitemoehybrid": granite_hybrid,
    "granitemoeshared": granite_experts,
    "hunyuan_v1_dense": lambda c: (stretched(c), {}),
    "hunyuan_v1_moe": lambda c: ({**stretched(c), "expert_count": c["num_experts"], "expert_used_count": c["moe_topk"], "expert_shared_count": 1,
                                  "expert_feed_forward_length": c["intermediate_size"],
                                  "expert_shared_feed_forward_length": c["intermediate_size"]}, {}),
    "jais2": lambda c: ({**rotary(c), **layer_norm(c)}, {}),
    "jamba": jamba,
    "jina_embeddings_v3": lambda c: ({**rotary(c), **layer_norm(c), "attention.causal": False}, {}),
    "kimi_linear": kimi_linear,
    "lfm2": lambda c: ({**lfm2(c), **lfm2_width(c)}, {}),
    "lfm2_moe": lambda c: ({**lfm2(c), "expert_count": c["num_experts"], "expert_used_count": c["num_experts_per_tok"],
                            "expert_feed_forward_length": c["moe_intermediate_size"], "expert_gating_func": 2,
                            "expert_weights_scale": c["routed_scaling_factor"], "leading_dense_block_count": c["num_dense_layers"]}, {}),
    "llama": lambda c: ({**rotary(c), **rms_norm(c)}, rotated_pairs(c)),
    "llama4_text": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), "feed_forward_length": c["intermediate_size_mlp"],
                               "expert_feed_forward_length": c["intermediate_size"], "expert_count": c["num_local_experts"],
                               "expert_used_count": c["num_experts_per_tok"], "interleave_moe_layer_step": c["interleave_moe_layer_step"],
                               # Not the converter's, which expects 8192: Ollama's files say it.
                               "attention.chunk_size": c["attention_chunk_size"]}, {}),
    "falcon_mamba": mamba,
    "mamba": mamba,
    "mamba2": mamba2,
    "minicpm3": lambda c: ({**rms_norm(c), "attention.q_lora_rank": c["q_lora_rank"], "attention.kv_lora_rank": c["kv_lora_rank"],
                            "attention.key_length": c["qk_nope_head_dim"] + c["qk_rope_head_dim"],
                            "rope.dimension_count": c["qk_rope_head_dim"]}, {}),
    "minimax_m2": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), "expert_count": c["num_local_experts"],
                              "expert_used_count": c["num_experts_per_tok"], "expert_feed_forward_length": c["intermediate_size"],
                              "expert_gating_func": 2}, {}),
    "ministral3": lambda c: ({**rotary(c), **rms_norm(c), **lengths(c), **yarn(c), "attention.temperature_scale": c.rope("llama_4_scaling_beta"),
                              "rope.scaling.yarn_log_multiplier": c.rope("mscale_all_dim")}, rotated_pairs(c)),
    "modernbert": lambda c: ({**windows_apart(c), **layer_norm(c), "attention.causal": False}, {}),
    "mpt": lambda c: ({**layer_norm(c), "attention.max_alibi_bias": float(c["attn_config"]["alibi_bias_max"]),
                       **({"attention.clamp_kqv": c["attn_config"]["clip_qkv"]} if c["attn_config"]["clip_qkv"] else {})}, {}),
    "nemotron": lambda c: ({**rotary(c), **layer_norm(c)}, {"norm.weight": plus_one}),
    "nemotron_h": nemotron_h,
    "nomic_bert": lambda c: ({**rotary(c), **layer_norm(c), "attention.causal": False}, {}),
    "olmo": lambda c: ({"attention.layer_norm_epsilon": 1e-5, "attention.clamp_kqv": c["clip_qkv"]}, rotated_pairs(c)),
    "olmo2": lambda c: ({**rotary(c), **rms_norm(c)}, {}),
    "olmo3": lambda c: ({**rotary(c), **rms_norm(c), **yarn(c), "attention.sliding_window": c["sliding_window"], "rope.freq_base_swa": c["rope_parameters"]["sliding_attention"]["rope_theta"],
                         "rope.scaling.yarn_attn_factor": 1 + math.log(c.full_rope()["factor"]) / 10,
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
    "qwen3_vl_moe": lambda c: ({**FAMILIES["qwen3_vl"](c)[0], "expert_count": c["num_local_experts"], "expert_used_count": c["num_experts_per_tok"],
                                "expert_feed_forward_length": c["moe_intermediate_size"]}, {}),
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
    "t5": t5,
    "umt5": t5,
    "xlm-roberta": roberta,
}


def common_keys(c):
    if c["model_type"] in ("distilbert", "falcon_mamba", "mamba"):
        return {"context_length": c["max_position_embeddings"], "vocab_size": c["vocab_size"]}
    return {"context_length": c["max_position_embeddings"], "embedding_length": c["hidden_size"], "block_count": c["num_hidden_layers"],
            "feed_forward_length": c["intermediate_size"], "attention.head_count": c["num_attention_heads"],
            "attention.head_count_kv": c["num_key_value_heads"], "vocab_size": c["vocab_size"]}
