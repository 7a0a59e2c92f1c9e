# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""adapter_refusals.py HEDDLE BASE ADAPTER FOLDER: adapters that --merge-adapter, or --adapter of virtual tokens, refuses, made from ADAPTER, which fits BASE.

ADAPTER is one of LoRA, without DoRA, or of virtual tokens for test/models/llama, one of IA3 for test/models/gpt2, or a bottleneck with a
learned scaling for test/models/encoder_heads/BertForSequenceClassification. Each refusal is one line with exit status 2.
"""
import json
import pathlib
import sys

import expect_refusal
import safetensors

Q = "base_model.model.model.layers.0.self_attn.q_proj"


def renamed(old, new):
    return lambda tensors: {name.replace(old, new): tensor for name, tensor in tensors.items()}


def without(ending):
    return lambda tensors: {name: tensor for name, tensor in tensors.items() if not name.endswith(ending)}


def added(name, shape, kind="F32", value=0):
    count = 1
    for size in shape:
        count *= size
    return lambda tensors: tensors | {name: (kind, shape, [value] * count)}


# (what is said, keys of the config, what becomes of the tensors)
LORA = [
    ("peft_type is 'LOHA', which is not supported: expected LORA, IA3, PROMPT_TUNING, P_TUNING or PREFIX_TUNING", {"peft_type": "LOHA"}, None),
    ("peft_type is '', which", {"peft_type": None}, None),
    ("r is 0.0+, expected a positive number", {"r": 0}, None),
    ("r is .*four.*, expected a number", {"r": "four"}, None),
    ("lora_alpha is -1.0+, expected a positive number", {"lora_alpha": -1}, None),
    ("bias is 'some', expected none, all or lora_only", {"bias": "some"}, None),
    ("rank_pattern is 3, expected an object", {"rank_pattern": 3}, None),
    ("alpha_pattern '.*q_proj' is a regular expression, which is not supported", {"alpha_pattern": {".*q_proj": 2}}, None),
    ("alpha_pattern 'q_proj' is \"two\", expected a positive number", {"alpha_pattern": {"q_proj": "two"}}, None),
    ("init_lora_weights is \"pissa\", which changes the base's weights", {"init_lora_weights": "pissa"}, None),
    ("use_qalora is true, which is not supported", {"use_qalora": True}, None),
    ("layer_replication is .*, which is not supported", {"layer_replication": [[0, 2]]}, None),
    ("target_parameters is .*, which is not supported", {"target_parameters": ["experts.down_proj"]}, None),
    ("trainable_token_indices is .*, which is not supported", {"trainable_token_indices": [1]}, None),
    ("alora_invocation_tokens is .*, which is not supported", {"alora_invocation_tokens": [1]}, None),
    ("lora_bias is true, which is not supported", {"lora_bias": True}, None),
    ("of_tomorrow is 7, which is not supported", {"of_tomorrow": 7}, None),
    ("module 'model.layers.0.self_attn.q_proj' has rank 2, adapter_config.json says 3", {"rank_pattern": {"q_proj": 3}}, None),
    ("has no lora_magnitude_vector, but use_dora is true", {"use_dora": True}, None),
    ("has lora_magnitude_vector, but use_dora is false", {}, added(Q + ".lora_magnitude_vector", [64])),
    ("has lora_magnitude_vector of shape .3., expected .64.", {"use_dora": True}, lambda tensors: {
        name: tensor for name, tensor in tensors.items() if name.startswith(Q)} | {Q + ".lora_magnitude_vector": ("F32", [3], [1] * 3)}),
    ("has lora_A without lora_B", {}, without(Q + ".lora_B.weight")),
    ("has lora_B without lora_A", {}, without(Q + ".lora_A.weight")),
    ("expected .r, in. and .out, r.", {}, lambda tensors: tensors | {Q + ".lora_A.weight": ("F32", [128], [0] * 128)}),
    ("which do not fit model.layers.0.self_attn.q_proj.weight of shape .64, 64.: the adapter is of another base", {},
     lambda tensors: tensors | {Q + ".lora_A.weight": ("F32", [2, 60], [0] * 120)}),
    ("module 'model.layers.7.self_attn.q_proj': .* has no weight of that name", {}, renamed("layers.1", "layers.7")),
    ("has an unknown name: expected one that begins with 'base_model.model.'", {}, renamed("base_model.model", "model")),
    (r"tensor '.*lora_B.bias' is no part of an adapter", {}, added(Q + ".lora_B.bias", [64])),
    (r"tensor '.*lora_C' is no part of an adapter", {}, added(Q + ".lora_C", [64])),
    ("is of type i32, expected f32, f16 or bf16", {}, added(Q + ".lora_B.weight", [64, 2], "I32")),
    ("has a weight of its own and a change of the base's", {}, added(Q + ".weight", [64, 64])),
    ("own model.norm.weight has shape .3., the model's has .64.", {}, added("base_model.model.model.norm.weight", [3])),
    ("module 'model.layers.0.self_attn.q_proj': .* has no bias of that name", {}, added(Q + ".bias", [64])),
    ("merged with its adapters, has a number that f32 does not hold", {},
     added(Q + ".lora_B.weight", [64, 2], value=float("inf"))),
    ("holds no tensor", {}, lambda tensors: {}),
]

MLP = "base_model.model.transformer.h.0.mlp.c_proj"
IA3 = [
    ("r is 8, which is not supported", {"r": 8}, None),
    ("of_tomorrow is 7, which is not supported", {"of_tomorrow": 7}, None),
    ("has ia3_l, but peft_type is not IA3", {"peft_type": "LORA", "feedforward_modules": None, "init_ia3_weights": None}, None),
    ("has tensors of LoRA, but peft_type is not LORA", {}, added(MLP + ".lora_A.weight", [2, 256])),
    ("has a weight of its own and scales of the base's", {}, added(MLP + ".weight", [256, 64])),
    ("has ia3_l of shape .1, 64., which does not fit transformer.h.0.mlp.c_proj.weight of shape .64, 256.: expected .out, 1. or .1, in.", {},
     added(MLP + ".ia3_l", [1, 64])),
    ("has ia3_l of shape .256., which", {}, added(MLP + ".ia3_l", [256])),
    ("has ia3_l of shape .128, 2., which does not fit transformer.wpe.weight", {}, added("base_model.model.transformer.wpe.ia3_l", [128, 2])),
    ("module 'transformer.h.7.attn.c_attn': .* has no weight of that name", {}, renamed("h.1", "h.7")),
    (r"tensor '.*ia3_l.default' is no part of an adapter", {}, renamed("c_proj.ia3_l", "c_proj.ia3_l.default")),
]
PROMPT = [
    ("num_virtual_tokens is 0, expected 1 … ", {"num_virtual_tokens": 0}, None),
    ("num_virtual_tokens is .*five.*, expected", {"num_virtual_tokens": "five"}, None),
    ("num_transformer_submodules is 2, which is not supported: expected 1", {"num_transformer_submodules": 2}, None),
    ("of_tomorrow is 7, which is not supported", {"of_tomorrow": 7}, None),
    ("peft_type is 'MULTITASK_PROMPT_TUNING', which is not supported", {"peft_type": "MULTITASK_PROMPT_TUNING"}, None),
    ("has shape .5, 64., expected .7, ….", {"num_virtual_tokens": 7}, None),
    ("tensor 'prompt_embeddings' has 60 numbers for a token, expected 64, as embeddings have: the adapter is of another base", {},
     added("prompt_embeddings", [5, 60])),
    ("tensor 'other' is no part of an adapter of virtual tokens: expected prompt_embeddings", {}, added("other", [5, 64])),
    ("tensor 'prompt_embeddings' is of type i32", {}, added("prompt_embeddings", [5, 64], "I32")),
    ("holds no tensor", {}, lambda tensors: {}),
]
PREFIX = [
    ("has 126 numbers for a token, expected 128, keys and values of all layers: the adapter is of another base", {}, added("prompt_embeddings", [6, 126])),
    ("num_attention_heads is 4, the model has 2 heads of keys: the adapter is of another base", {"num_attention_heads": 4}, None),
]
# Of what AdapterHub's adapters saves, whose keys are within "config".
DOWN = "bert.encoder.layer.0.output.adapters.tiny.adapter_down.0"
BOTTLENECK = [
    ("config.architecture is 'lora', which is not supported: expected null, a bottleneck adapter", {"config": {"architecture": "lora"}}, None),
    ("config.phm_layer is true, which is not supported: expected null or false", {"config": {"phm_layer": True}}, None),
    ("config.use_gating is true, which is not supported: expected null or false", {"config": {"use_gating": True}}, None),
    ("config.inv_adapter is \"nice\", which is not supported: expected null or false", {"config": {"inv_adapter": "nice"}}, None),
    ("config.cross_adapter is true, expected false: the model has no attention to a source", {"config": {"cross_adapter": True}}, None),
    ("config.of_tomorrow is 7, which is not supported: expected null or false", {"config": {"of_tomorrow": 7}}, None),
    ("of_tomorrow is 7, which is not supported: expected null or false", {"of_tomorrow": 7}, None),
    ("config.non_linearity is 'leakyrelu', which is not supported: expected silu", {"config": {"non_linearity": "leakyrelu"}}, None),
    ("config.residual_before_ln is \"pre\", expected true, false or post_add", {"config": {"residual_before_ln": "pre"}}, None),
    ("config.residual_before_ln is post_add, expected it of a model with norms behind its residuals and original_ln_before",
     {"config": {"residual_before_ln": "post_add", "original_ln_before": False}}, None),
    ("config.scaling is \"row\", expected a number, learned or channel", {"config": {"scaling": "row"}}, None),
    ("config.reduction_factor is 0, expected a number, at least 1/64", {"config": {"reduction_factor": 0}}, None),
    ("config.reduction_factor has 'first', expected numbers of layers and default", {"config": {"reduction_factor": {"first": 2}}}, None),
    ("reduction_factor says nothing of layer 1: expected its number or default", {"config": {"reduction_factor": {"0": 8}}}, None),
    ("config.mh_adapter is false, as is output_adapter: expected an adapter behind one of them", {"config": {"mh_adapter": False, "output_adapter": False}}, None),
    ("leave_out names all layers: expected an adapter of one", {"config": {"leave_out": [0, 1]}}, None),
    ("is no part of the adapter that adapter_config.json describes", {"config": {"leave_out": [0]}}, None),
    ("is no part of the adapter that adapter_config.json describes", {"config": {"mh_adapter": False}}, None),
    ("is no part of the adapter that adapter_config.json describes", {}, added("bert.invertible_adapters.tiny.F.0.bias", [8])),
    ("model_type is 'roberta', expected bert, the model's: the adapter is of another base", {"model_type": "roberta"}, None),
    ("hidden_size is 48, expected .*, the model's: the adapter is of another base", {"hidden_size": 48}, None),
    ("type is 'vision_task', which is not supported", {"type": "vision_task"}, None),
    ("holds no tensor 'bert.encoder.layer.0.*.adapters.other.scaling', which adapter_config.json asks for", {"name": "other"}, None),
    ("adapter_down.0.weight' has shape .1, 64., expected", {}, added(DOWN + ".weight", [1, 64])),
    ("adapter_down.0.bias' is of type i32, expected f32, f16 or bf16", {}, added(DOWN + ".bias", [4], "I32")),
]


def changed(config, keys):
    """`config` with those keys, or, of a part of it, those keys within."""
    parts = {key: config[key] | value for key, value in keys.items() if isinstance(value, dict) and isinstance(config.get(key), dict)}
    return {key: value for key, value in (config | keys | parts).items() if value is not None}


def main():
    heddle, base, adapter, box = sys.argv[1:]
    config = json.loads(pathlib.Path(adapter, "adapter_config.json").read_text())
    weights = "adapter_model.safetensors" if "peft_type" in config else "adapter.safetensors"
    tensors = safetensors.load(pathlib.Path(adapter, weights))
    cases = {"LORA": LORA, "IA3": IA3, "PROMPT_TUNING": PROMPT, "PREFIX_TUNING": PREFIX, "": BOTTLENECK}[config.get("peft_type", "")]
    flag = "--adapter=a=" if "num_virtual_tokens" in config else "--merge-adapter="
    folder, broken = pathlib.Path(box) / "adapter", 0
    folder.mkdir(parents=True, exist_ok=True)
    for pattern, keys, change in cases:
        (folder / "adapter_config.json").write_text(json.dumps(changed(config, keys)))
        safetensors.save(folder / weights, change(tensors) if change else tensors)
        output = f"{box}/none"
        for fault in expect_refusal.faults(output, pattern, [heddle, "compile", base, "-o", output, f"{flag}{folder}"]):
            broken += 1
            print(f"{pattern}: {fault}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
