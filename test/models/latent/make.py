# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""make.py: writes models with multi-head latent attention of unusual dimensions, and goldens.

  odd/, minicpm3/         Hugging Face checkpoints: odd rank and head dims; MiniCPM3's proportions (rank = 4 nope = 4 v, rope = nope / 2)
  STORED-{whole,split}/   goldens of STORED-{whole,split}.gguf, architecture deepseek2, up-projections in one tensor or in two

The oracle is the forward pass below in numpy (f64), from the formulas of DeepSeek-V2 (arXiv:2405.04434, section 2.1): keys and values
are rebuilt, nothing is absorbed. Quantised weights are those that PyPI `gguf` dequantises. Needs PyPI numpy, gguf and safetensors; the
tests need only its output.
"""
import dataclasses
import json
import os

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T, quants
from safetensors.numpy import save_file

EPS, THETA, CONTEXT = 1e-6, 10000.0, 128


@dataclasses.dataclass
class Dims:
    heads: int
    rank: int
    nope: int
    rope: int
    v: int
    hidden: int
    ffn: int
    q_rank: int = 0
    experts: int = 0  # in the last layer: 2 of a token's, and one that all pass, `ffn` wide each
    layers: int = 2
    vocabulary: int = 96

    def shapes(self):
        queries, ups = self.heads * (self.nope + self.rope), self.heads * (self.nope + self.v)
        named = {"model.embed_tokens": (self.vocabulary, self.hidden), "lm_head": (self.vocabulary, self.hidden), "model.norm": (self.hidden,)}
        for i in range(self.layers):
            layer = {"input_layernorm": (self.hidden,), "post_attention_layernorm": (self.hidden,),
                     "self_attn.kv_a_proj_with_mqa": (self.rank + self.rope, self.hidden), "self_attn.kv_a_layernorm": (self.rank,),
                     "self_attn.kv_b_proj": (ups, self.rank), "self_attn.o_proj": (self.hidden, self.heads * self.v)}
            if self.q_rank:
                layer |= {"self_attn.q_a_proj": (self.q_rank, self.hidden), "self_attn.q_a_layernorm": (self.q_rank,),
                          "self_attn.q_b_proj": (queries, self.q_rank)}
            else:
                layer["self_attn.q_proj"] = (queries, self.hidden)
            scopes = ["mlp"]
            if self.is_sparse(i):
                scopes = ["mlp.shared_experts"] + [f"mlp.experts.{e}" for e in range(self.experts)]
                layer |= {"mlp.gate": (self.experts, self.hidden), "mlp.gate.e_score_correction_bias": (self.experts,)}
            for scope in scopes:
                layer |= {f"{scope}.gate_proj": (self.ffn, self.hidden), f"{scope}.up_proj": (self.ffn, self.hidden),
                          f"{scope}.down_proj": (self.hidden, self.ffn)}
            named |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
        return {name if name.endswith("bias") else name + ".weight": shape for name, shape in named.items()}

    def is_sparse(self, layer):
        return self.experts > 0 and layer == self.layers - 1


def random_weights(dims, rng):
    """Norms near 1, matrices that keep the size of what they multiply."""
    weights = {}
    for name, shape in dims.shapes().items():
        values = rng.standard_normal(shape)
        if name.endswith("bias"):
            values *= 0.1
        elif len(shape) == 1:
            values = 1 + 0.1 * values
        else:
            values *= 1.5 / np.sqrt(shape[1])
        weights[name] = values.astype(np.float32)
    return weights


def norm(x, weight):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + EPS) * weight


def silu(x):
    return x / (1 + np.exp(-x))


def rotate(x):
    """(rows, heads, rope): pairs (2i, 2i + 1) by position * theta ^ (-2i / rope)."""
    angle = np.arange(x.shape[0])[:, None] * THETA ** (-np.arange(0, x.shape[-1], 2) / x.shape[-1])
    cos, sin = np.cos(angle)[:, None], np.sin(angle)[:, None]
    out = np.empty_like(x)
    out[..., ::2] = x[..., ::2] * cos - x[..., 1::2] * sin
    out[..., 1::2] = x[..., 1::2] * cos + x[..., ::2] * sin
    return out


def attention(d, w, x):
    rows = len(x)
    q = norm(x @ w("q_a_proj").T, w("q_a_layernorm")) @ w("q_b_proj").T if d.q_rank else x @ w("q_proj").T
    q = q.reshape(rows, d.heads, d.nope + d.rope)
    q = np.concatenate([q[..., :d.nope], rotate(q[..., d.nope:])], -1)
    down = x @ w("kv_a_proj_with_mqa").T
    latent, shared = norm(down[:, :d.rank], w("kv_a_layernorm")), rotate(down[:, None, d.rank:])
    up = (latent @ w("kv_b_proj").T).reshape(rows, d.heads, d.nope + d.v)
    k = np.concatenate([up[..., :d.nope], shared.repeat(d.heads, 1)], -1)
    scores = np.einsum("qhd,khd->hqk", q, k) / np.sqrt(d.nope + d.rope) + np.triu(np.full((rows, rows), -np.inf), 1)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    attended = np.einsum("hqk,khd->qhd", p / p.sum(-1, keepdims=True), up[..., d.nope:])
    return attended.reshape(rows, -1) @ w("o_proj").T


def feed_forward(w, scope, x):
    return (silu(x @ w(f"{scope}.gate_proj").T) * (x @ w(f"{scope}.up_proj").T)) @ w(f"{scope}.down_proj").T


def experts(w, bias, x):
    """Sigmoid scores; the correction chooses only; the chosen scores are normalised and multiplied by 2.5."""
    scores = 1 / (1 + np.exp(-(x @ w("mlp.gate").T)))
    out = feed_forward(w, "mlp.shared_experts", x)
    for row, score in enumerate(scores):
        chosen = np.argsort(-(score + bias), kind="stable")[:2]
        for e in chosen:
            out[row] += 2.5 * score[e] / score[chosen].sum() * feed_forward(w, f"mlp.experts.{e}", x[row])
    return out


def forward(d, weights, ids):
    get = lambda name: weights[name + ".weight"]
    x = get("model.embed_tokens")[ids]
    for i in range(d.layers):
        layer = lambda name: get(f"model.layers.{i}.{name}")
        x = x + attention(d, lambda name: layer("self_attn." + name), norm(x, layer("input_layernorm")))
        n = norm(x, layer("post_attention_layernorm"))
        if d.is_sparse(i):
            x = x + experts(layer, weights[f"model.layers.{i}.mlp.gate.e_score_correction_bias"], n)
        else:
            x = x + feed_forward(layer, "mlp", n)
    return norm(x, get("model.norm")) @ get("lm_head").T


def as_doubles(weights):
    return {name: values.astype(np.float64) for name, values in weights.items()}


#--- Hugging Face ------------------------------------------------------------#

def greedy(d, weights, ids, count):
    ids, logits = list(ids), []
    for _ in range(count):
        logits.append(forward(d, weights, np.array(ids))[-1])
        ids.append(int(logits[-1].argmax()))
    return np.array(ids[-count:]), np.array(logits)


def goldens(d, weights, rng):
    """As the stored models of other families: single prompts, what follows them, and a batch padded on the left."""
    cases, tensors = [], {}

    def case(name, kind, inputs, outputs, **more):
        keys = {key: f"{name}.{key}" for key in (*inputs, *outputs)}
        tensors.update({keys[key]: np.ascontiguousarray(value) for key, value in {**inputs, **outputs}.items()})
        cases.append({"name": name, "kind": kind, "inputs": {key: keys[key] for key in inputs},
                      "outputs": {key: keys[key] for key in outputs}, **more})

    prompts = [rng.integers(0, d.vocabulary, n) for n in (1, 7, 24)]
    for i, ids in enumerate(prompts):
        case(f"p{i}", "forward", {"input_ids": ids[None]}, {"logits": forward(d, weights, ids)[None].astype(np.float32)})
        new, logits = greedy(d, weights, ids, 12)
        case(f"p{i}.greedy", "greedy", {"input_ids": ids[None]},
             {"ids": new[None], "logits": logits[None].astype(np.float32)}, max_new_tokens=12)
    short, long = prompts[1][:4], prompts[1]
    ids, mask = np.zeros((2, 7), np.int64), np.ones((2, 7), np.int64)
    ids[0, 3:], ids[1], mask[0, :3] = short, long, 0
    logits = np.zeros((2, 7, d.vocabulary), np.float32)
    logits[0, 3:], logits[1] = forward(d, weights, short), forward(d, weights, long)
    case("batch", "forward", {"input_ids": ids, "attention_mask": mask}, {"logits": logits}, mask="batch.attention_mask")
    return cases, tensors


def write_checkpoint(folder, d, rng):
    weights = random_weights(d, rng)
    os.makedirs(folder, exist_ok=True)
    save_file(weights, os.path.join(folder, "model.safetensors"))
    config = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "vocab_size": d.vocabulary, "hidden_size": d.hidden,
              "intermediate_size": d.ffn, "num_hidden_layers": d.layers, "num_attention_heads": d.heads, "num_key_value_heads": d.heads,
              "kv_lora_rank": d.rank, "q_lora_rank": d.q_rank or None, "qk_nope_head_dim": d.nope, "qk_rope_head_dim": d.rope,
              "v_head_dim": d.v, "first_k_dense_replace": d.layers, "hidden_act": "silu", "rms_norm_eps": EPS, "rope_interleave": True,
              "rope_theta": THETA, "max_position_embeddings": CONTEXT, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2}
    cases, tensors = goldens(d, as_doubles(weights), rng)
    save_file(tensors, os.path.join(folder, "golden.safetensors"))
    texts = {"config.json": config, "generation_config.json": {"bos_token_id": 1, "eos_token_id": 2},
             "golden.json": {"weights_dtype": "float32", "stats": {}, "cases": cases}}
    for name, text in texts.items():
        with open(os.path.join(folder, name), "w") as file:
            json.dump(text, file, indent=1)
            file.write("\n")


#--- GGUF ----------------------------------------------------------------------#

GGUF_NAMES = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa",
              "self_attn.kv_a_layernorm": "attn_kv_a_norm", "self_attn.o_proj": "attn_output", "self_attn.q_proj": "attn_q",
              "self_attn.kv_b_proj": "attn_kv_b", "mlp.gate": "ffn_gate_inp"}


def gguf_tensors(d, weights, split):
    """(name, values) as converters lay them out: experts stacked; split, keys' up-projections transposed head by head."""
    get = lambda name: weights[name + ".weight"]
    yield "token_embd.weight", get("model.embed_tokens")
    yield "output.weight", get("lm_head")
    yield "output_norm.weight", get("model.norm")
    for i in range(d.layers):
        scope, layer = f"blk.{i}.", lambda name: get(f"model.layers.{i}.{name}")
        for name, to in GGUF_NAMES.items():
            if f"model.layers.{i}.{name}.weight" in weights and not (split and to == "attn_kv_b"):
                yield f"{scope}{to}.weight", layer(name)
        if split:
            ups = layer("self_attn.kv_b_proj").reshape(d.heads, d.nope + d.v, d.rank)
            yield f"{scope}attn_k_b.weight", np.ascontiguousarray(ups[:, :d.nope].transpose(0, 2, 1))
            yield f"{scope}attn_v_b.weight", np.ascontiguousarray(ups[:, d.nope:])
        for part in ("gate", "up", "down"):
            if not d.is_sparse(i):
                yield f"{scope}ffn_{part}.weight", layer(f"mlp.{part}_proj")
                continue
            yield f"{scope}ffn_{part}_shexp.weight", layer(f"mlp.shared_experts.{part}_proj")
            yield f"{scope}ffn_{part}_exps.weight", np.stack([layer(f"mlp.experts.{e}.{part}_proj") for e in range(d.experts)])
        if d.is_sparse(i):
            yield f"{scope}exp_probs_b.bias", weights[f"model.layers.{i}.mlp.gate.e_score_correction_bias"]


def from_gguf(d, written):
    """The weights by Hugging Face's names, from what was written."""
    back = {"token_embd": "model.embed_tokens", "output": "lm_head", "output_norm": "model.norm"}
    weights = {back[name] + ".weight": written[name + ".weight"] for name in back}
    for i in range(d.layers):
        scope, layer = f"blk.{i}.", f"model.layers.{i}."
        for name, to in GGUF_NAMES.items():
            if f"{scope}{to}.weight" in written:
                weights[f"{layer}{name}.weight"] = written[f"{scope}{to}.weight"]
        if f"{scope}attn_k_b.weight" in written:
            keys, values = written[f"{scope}attn_k_b.weight"].transpose(0, 2, 1), written[f"{scope}attn_v_b.weight"]
            weights[f"{layer}self_attn.kv_b_proj.weight"] = np.concatenate([keys, values], 1).reshape(-1, d.rank)
        for part in ("gate", "up", "down"):
            if not d.is_sparse(i):
                weights[f"{layer}mlp.{part}_proj.weight"] = written[f"{scope}ffn_{part}.weight"]
                continue
            weights[f"{layer}mlp.shared_experts.{part}_proj.weight"] = written[f"{scope}ffn_{part}_shexp.weight"]
            for e in range(d.experts):
                weights[f"{layer}mlp.experts.{e}.{part}_proj.weight"] = written[f"{scope}ffn_{part}_exps.weight"][e]
        if d.is_sparse(i):
            weights[f"{layer}mlp.gate.e_score_correction_bias"] = written[f"{scope}exp_probs_b.bias"]
    return weights


def write_gguf(path, d, kind, split, rng):
    writer = gguf.GGUFWriter(path + ".gguf", "deepseek2")
    writer.add_block_count(d.layers), writer.add_context_length(CONTEXT), writer.add_embedding_length(d.hidden)
    writer.add_feed_forward_length(d.ffn), writer.add_head_count(d.heads), writer.add_vocab_size(d.vocabulary)
    writer.add_layer_norm_rms_eps(EPS), writer.add_rope_freq_base(THETA), writer.add_rope_dimension_count(d.rope)
    writer.add_kv_lora_rank(d.rank), writer.add_leading_dense_block_count(d.layers - 1)
    writer.add_expert_count(d.experts), writer.add_expert_used_count(2), writer.add_expert_feed_forward_length(d.ffn)
    writer.add_expert_shared_count(1), writer.add_expert_weights_scale(2.5), writer.add_expert_weights_norm(True)
    writer.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    # Files with split up-projections describe the cached latent as the one KV head.
    writer.add_head_count_kv(1 if split else d.heads)
    if split:
        writer.add_key_length(d.rank + d.rope), writer.add_value_length(d.rank)
        writer.add_key_length_mla(d.nope + d.rope), writer.add_value_length_mla(d.v)
    else:
        writer.add_key_length(d.nope + d.rope), writer.add_value_length(d.v)
    written = {}
    for name, values in gguf_tensors(d, random_weights(d, rng), split):
        stored = T.F32 if values.ndim == 1 or "gate_inp" in name else kind
        data = values if stored == T.F32 else quants.quantize(values, stored)
        written[name] = (values if stored == T.F32 else quants.dequantize(data, stored)).reshape(values.shape).astype(np.float64)
        writer.add_tensor(name, data, raw_dtype=stored)
    writer.write_header_to_file(), writer.write_kv_data_to_file(), writer.write_tensors_to_file(), writer.close()
    ids = rng.integers(0, d.vocabulary, 40)
    os.makedirs(path, exist_ok=True)
    save_file({"case.input_ids": ids[None].astype(np.int64),
               "case.logits": forward(d, from_gguf(d, written), ids)[None].astype(np.float32)}, os.path.join(path, "golden.safetensors"))


if __name__ == "__main__":
    here = os.path.dirname(os.path.abspath(__file__))
    write_checkpoint(os.path.join(here, "odd"), Dims(heads=3, rank=7, nope=5, rope=6, v=3, hidden=20, ffn=24, q_rank=9), np.random.default_rng(1))
    write_checkpoint(os.path.join(here, "minicpm3"), Dims(heads=5, rank=32, nope=8, rope=4, v=8, hidden=40, ffn=48, q_rank=24),
                     np.random.default_rng(2))
    blocks = Dims(heads=2, rank=64, nope=32, rope=16, v=32, hidden=64, ffn=32, experts=4)
    for seed, (kind, split) in enumerate([(T.F16, False), (T.F16, True), (T.Q8_0, False), (T.Q8_0, True)]):
        name = f"{kind.name.lower()}-{'split' if split else 'whole'}"
        write_gguf(os.path.join(here, name), blocks, kind, split, np.random.default_rng(10 + seed))
