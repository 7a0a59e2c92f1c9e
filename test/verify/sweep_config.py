# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Changes keys of config.json, one at a time, and compares what a program computes with PyPI's transformers.

sweep_config.py HEDDLE FOLDER… [--pairs=N] [--shapes=N] [--seed=N] [--only=REGEX] [--keep=FOLDER]

FOLDER is a tiny checkpoint (test/models/t5), of which config.json alone is read; 'all' stands for every one of test/models/. Each key that the
file or the family's config class has gets other values, null, or is left out. Of each config transformers makes a model with random weights and
answers; 'heddle compile' makes a program of the same folder and answers, too. One line for each:

  same      outputs differ by at most LIMIT, relative to the largest value (or to 1)
  refused   compiler or program say why, with exit code 2
  WRONG     outputs differ by more
  CRASHED   anything else

What transformers itself refuses, cannot load again, or answers with what is no number is left out. --pairs=N: N random sets of two or three of
these changes instead, which transformers answers. --shapes=N: as many of sizes that few tiles divide. --only: the changes whose line matches.
--keep: folders of what is WRONG or CRASHED stay there.
Exit status 1 if anything is. Not part of the suite, which needs neither torch nor transformers: python -m pip install torch transformers
"""
import argparse
import copy
import hashlib
import inspect
import json
import pathlib
import random
import re
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy
import torch
import transformers
from safetensors.numpy import load_file, save_file

LIMIT, MOST_PARAMETERS, LENGTH, NEW_TOKENS = 5e-4, 3_000_000, 24, 9
COMPILED = ["--precise", "--quiet", "--target=x86-64-v3"]  # whose kernels compile fast
MODELS = pathlib.Path(__file__).resolve().parent.parent / "models"
# Keys that change no number of an answer, or that the other files of a folder are about.
OTHER = re.compile(r"drop|init|^output_|^_|use_cache|architectures|_version|dtype|model_type|id2label|label2id|problem_type|return_dict|chunk_size_feed|"
                   r"(bos|sep|cls|mask|image|start)_token|finetuning|task_specific|prefix|mask_(feature|time)|spec_augment|_loss|z_loss|name_or_path|"
                   r"num_labels|summary|forced_|suppress|attn_implementation|^is_encoder_decoder|^add_cross|encoder_stride|out_(features|indices)|"
                   r"stage_names|^vocab_size$|logit_scale_init|median_filter|^rescale_prenorm")
ROPES = [{"rope_type": "default", "rope_theta": 500.0}, {"rope_type": "linear", "factor": 4.0}, {"rope_type": "dynamic", "factor": 2.0},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "mscale": 0.7, "mscale_all_dim": 0.5, "beta_fast": 16, "beta_slow": 2},
         {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "attention_factor": 0.8, "truncate": False},
         {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 16},
         {"rope_type": "default", "partial_rotary_factor": 0.5}, {"rope_type": "proportional", "partial_rotary_factor": 0.5}]
# Values of keys that match; the first match counts. Others get values by the type of what they have.
VALUES = [(r"(_act|act_fn|activation|activation_function|afn)$", ["relu", "gelu_new", "relu2", "sigmoid"]),
          (r"feed_forward_proj", ["relu", "gelu", "gelu_new", "gated-gelu", "gated-silu", "gated-relu", "gated-gelu_new", "silu", "gated"]),
          (r"eps(ilon)?$|variance", [1e-3, 0.1, 1e-12, 0.0]), (r"rope_theta", [500.0, 1e6, 100]), (r"partial_rotary_factor|rotary_pct|rope_pct", [0.25, 0.5, 1.0]),
          (r"layer_types", [["full_attention"], ["sliding_attention"], ["full_attention", "sliding_attention"], ["sliding_attention", "full_attention"],
                            ["chunked_attention", "full_attention"], ["conv"], ["conv", "full_attention"], ["full_attention", "conv"],
                            ["linear_attention"], ["linear_attention", "full_attention"], ["full_attention", "linear_attention"]]),
          (r"(sliding|attention)_window|window_size|attention_chunk_size|local_attention|n_local", [3, 5, 16, 1, 4096, 0]),
          (r"_heads$|^n_head|num_kv|_groups?$|multi_query_group_num", [1, 2, 3, 4, 8, 16]), (r"head_dim$|d_kv$|^head_size", [8, 12, 16, 24, 32]),
          (r"position_embedding_type", ["absolute", "relative_key", "relative_key_query", "rope", "alibi"]), (r"pad_token_id", [3, -1]), (r"eos_token_id", [7, [7, 9]]),
          (r"max_position_embeddings|_positions$|n_ctx", [24, 40, 512]), (r"topk_method", ["greedy", "group_limited_greedy", "noaux_tc"]),
          (r"scoring_func", ["softmax", "sigmoid"]), (r"topk_group|n_group", [1, 2, 4]), (r"image_size", [12, 16, 17, 24]), (r"patch_size", [2, 3, 4, 8]),
          (r"conv_L_cache|conv_kernel_dim|mamba_d_conv", [2, 3, 7]), (r"conv_|deprecated", []), (r"pooling", ["cls", "mean", "max"]), (r"router_dtype", ["float32", "bfloat16", "float16"]),
          (r"norm_type|normalization_function", ["layer_norm", "rms_norm", "layernorm", "rmsnorm", "RMSNorm"])]
# Keys that implementations read though no config class has them.
UNLISTED = {"is_causal": [False], "head_dim": [8, 24], "sliding_window": [5], "use_bidirectional_attention": [True], "attention_chunk_size": [6],
            "embedding_size": [16], "attention_head_size": [8], "num_key_value_heads": [1], "partial_rotary_factor": [0.5], "is_decoder": [True]}


def values_of(key, value):
    """Other values of a key that has `value`."""
    if isinstance(value, bool):
        return [not value]
    for pattern, listed in VALUES:
        if re.search(pattern, key):
            if key == "layer_types" and value:
                listed = [(kinds * len(value))[:len(value)] for kinds in listed]
            return [other for other in listed if other != value]
    if isinstance(value, int):
        return sorted({0, 1, value + 1, 2 * value} - {value})
    if isinstance(value, float):
        return [other for other in (0.5 * value, 2.0 * value, 1.0, 0.0, 0.3) if other != value]
    if isinstance(value, list) and value and all(isinstance(each, int) for each in value):
        return [value[::-1], [each + 1 for each in value], [0] * len(value), [1] * len(value), []]
    return [True, 2, 0.7] if value is None else []


def part_of(config, key):
    """What a config holds under a key. Of a key whose value each layer has for itself transformers refuses to tell one."""
    return getattr(config, "__dict__", {}).get(key)


def changes_of(raw, config, path=()):
    """Lists of (path of a key, value): what is changed together; the value `...` leaves the key out."""
    known = config.to_dict() if hasattr(config, "to_dict") else dict(config or {})
    for key, value in sorted((known | raw).items()):
        part = part_of(config, key)
        if OTHER.search(key) or key in ("rope_parameters", "rope_scaling", "rope_theta"):
            continue
        if isinstance(value, dict):
            if hasattr(part, "to_dict"):
                yield from changes_of(raw.get(key, {}), part, (*path, key))
            continue
        if key in raw:
            yield [((*path, key), ...)]
        for other in [*values_of(key, value), None]:
            if other != raw.get(key, ...):
                yield [((*path, key), other)]
    yield from ([((*path, key), value)] for key, values in UNLISTED.items() if key not in known and key not in raw for value in values)
    for alias, own in getattr(type(config), "attribute_map", {}).items():
        if own in raw and not OTHER.search(alias):
            yield [((*path, own), ...), ((*path, alias), raw[own])]
            yield from ([((*path, alias), other)] for other in values_of(own, raw[own])[:2])
    yield from rope_changes(known, path)


def rope_changes(known, path):
    stated, key = known.get("rope_parameters"), (*path, "rope_parameters")
    if not stated:
        return
    if parts := [part for part, value in stated.items() if isinstance(value, dict)]:
        yield from ([((*key, part), {"rope_theta": 10000.0} | rope)] for part in parts for rope in ROPES)
    else:
        theta = {"rope_theta": stated.get("rope_theta", 10000.0)}
        dims = known.get("head_dim") or known.get("hidden_size", 0) // (known.get("num_attention_heads") or 1)
        half = range(int(dims * (stated.get("partial_rotary_factor") or 1)) // 2)
        factors = {"short_factor": [1.0 + 0.1 * i for i in half], "long_factor": [2.0 + 0.3 * i for i in half]}
        longropes = [{"rope_type": "longrope", "factor": 4.0, "original_max_position_embeddings": length} | factors for length in (16, 48)]
        for rope in ROPES + longropes:
            yield [(key, theta | rope)]
            older = {{"rope_type": "type"}.get(name, name): value for name, value in rope.items() if name != "rope_theta"}
            yield [(key, ...), ((*path, "rope_scaling"), older), ((*path, "rope_theta"), rope.get("rope_theta", 2000.0))]
    yield from ([(key, value)] for value in (None, ...))


def odd_shape(raw, config, draw, path=()):
    """A random list of (path of a key, value): heads, widths, layers and tables of other sizes, which fit each other."""
    known = (config.to_dict() if hasattr(config, "to_dict") else dict(config or {})) | raw
    head_dim, kv_heads, patch, layers = draw.choice((8, 12, 20, 40, 80, 96, 112, 192, 256)), draw.choice((1, 1, 2, 3)), draw.choice((3, 4, 5, 7)), draw.choice((1, 1, 2, 3))
    heads = kv_heads * draw.choice([each for each in (1, 2, 3) if each == 1 or each * kv_heads * head_dim <= 300])
    has_head_dim, is_latent = any(isinstance(known.get(key), int) for key in ("head_dim", "d_kv")), "qk_rope_head_dim" in known
    width = heads * (draw.choice((17, 20, 36, 50)) if has_head_dim else head_dim)
    rotated = draw.choice((4, 8, 20, 24, 40, 64)) if is_latent else head_dim
    count = next((raw[key] for key in ("num_hidden_layers", "n_layer", "num_layers") if key in raw), None)
    odd = [(r"^(num_key_value_heads|num_kv_heads)$", lambda: kv_heads), (r"attention_heads$|^num_heads$|^n_head$", lambda: heads),
           (r"^(d_kv|v_head_dim)$", lambda: head_dim), (r"^linear_num_key_heads$", lambda: kv_heads), (r"^linear_num_value_heads$", lambda: heads),
           (r"^linear_(key|value)_head_dim$", lambda: draw.choice((4, 12, 33, 50, 64))),
           (r"^(head_dim|qk_rope_head_dim)$", lambda: rotated), (r"^qk_nope_head_dim$", lambda: draw.choice((4, 8, 20, 24, 40, 64))),
           (r"_lora_rank$", lambda: draw.choice((12, 20, 33, 50))), (r"^(hidden_size|d_model|n_embd)$", lambda: width),
           (r"(intermediate_size|ffn_dim|ffn_hidden_size|^d_ff|^n_inner)$", lambda: draw.choice((17, 33, 50, 76, 100))),
           (r"^(num_hidden_layers|n_layer|num_layers|num_decoder_layers|(en|de)coder_layers)$", lambda: layers), (r"^vocab_size$", None),
           (r"^(num_experts|num_local_experts)$", lambda: draw.choice((3, 5, 6))), (r"^patch_size$", lambda: patch),
           (r"^image_size$", lambda: patch * draw.choice((2, 3, 4))), (r"^num_channels$", lambda: draw.choice((1, 3, 4))),
           (r"^rotary_dim$", lambda: draw.choice((4, head_dim)))]
    changes = []
    for key, value in sorted(known.items()):
        if hasattr(part := part_of(config, key), "to_dict"):
            changes += odd_shape(raw.get(key, {}), part, draw, (*path, key))
        elif isinstance(value, list) and "layer" in key and len(value) == count and key in raw:
            changes.append(((*path, key), (value * layers)[:layers]))
        elif isinstance(value, int) and not isinstance(value, bool):
            shape = next((shape for pattern, shape in odd if re.search(pattern, key)), ...)
            if shape is not ... and not (shape and "layers" in key and "attention_types" in known):
                changes.append(((*path, key), shape() if shape else value + draw.choice((0, 1, 3, 27))))
    return changes


def changed(raw, changes):
    """A config with other values, each at its path."""
    raw = copy.deepcopy(raw)
    for path, value in changes:
        part = raw
        for key in path[:-1]:
            part[key] = part = part.get(key) or {}
        part.pop(path[-1], None)
        if value is not ...:
            part[path[-1]] = value
    return raw


def named(changes):
    return ", ".join(".".join(path) + (" left out" if value is ... else "=" + json.dumps(value)) for path, value in changes)


def write_config(folder, raw, name="config.json"):
    (folder / name).write_text(json.dumps(raw, indent=1))


def make_model(folder, raw):
    """The model of a config with random weights, which `folder` gets with that config; raises where transformers refuses it."""
    write_config(folder, raw)
    config = transformers.AutoConfig.from_pretrained(folder)
    kind = getattr(transformers, raw["architectures"][0])
    attention = "sdpa" if config.model_type == "falcon" else "eager"  # the eager form of Falcon adds its slopes twice
    with torch.device("meta"):
        count = sum(weight.numel() for weight in kind._from_config(copy.deepcopy(config), attn_implementation=attention).parameters())
    if count > MOST_PARAMETERS:
        raise ValueError(f"{count} parameters are too many")
    torch.manual_seed(5)
    model = kind._from_config(config, attn_implementation=attention).float().eval()
    sinusoids = {f"{name}.weight" for name, module in model.named_modules() if type(module).__name__ == "SinusoidalPositionalEmbedding"}
    for name, weight in model.named_parameters():
        if name in sinusoids:
            continue
        if name.endswith("A_log"):
            weight.uniform_(-4.0, 0.0)
        elif weight.requires_grad and weight.dim() < 2:
            weight.normal_(0.0 if name.endswith("bias") else 1.0, 0.2)
        elif weight.requires_grad:
            weight.normal_(0.0, 1.2 / weight[0].numel() ** 0.5)
    for name, buffer in model.named_buffers():
        if name.endswith(("correction_bias", "feed_forward.expert_bias", "final_logits_bias")):
            buffer.normal_(0.0, 0.3)
    model.save_pretrained(folder)
    write_config(folder, raw)
    # A class that several families share would read the file as its own.
    config = transformers.AutoConfig.from_pretrained(folder)
    model, info = kind.from_pretrained(folder, config=config, attn_implementation=attention, dtype=torch.float32, output_loading_info=True)
    if info["missing_keys"] or info["mismatched_keys"]:
        raise ValueError("the file lacks tensors")
    if model._can_set_experts_implementation():
        model.set_experts_implementation("eager")  # others need widths of a multiple of 4
    return model.eval()


def sees_beside(model):
    """Whether it is a decoder whose prompts have images."""
    return model.can_generate() and hasattr(model.config, "vision_config") and "pixel_values" in inspect.signature(model.forward).parameters


def for_reference(model, given):
    """What transformers takes of what a program does."""
    if not sees_beside(model) or "pixel_values" not in given:
        return given
    names, image = inspect.signature(model.forward).parameters, given["input_ids"] == model.config.image_token_id
    if model.config.model_type in ("idefics3", "smolvlm"):
        given = given | {"pixel_values": given["pixel_values"][None]}
    if model.config.model_type == "paligemma":
        return given | {"token_type_ids": torch.zeros_like(given["input_ids"])}  # all of a prompt
    return given | {key: image.int() for key in ("token_type_ids", "mm_token_type_ids") if key in names}


def image_inputs(model, ids, draw):
    """A text with one image."""
    config = model.config
    seen = config.vision_config
    if "image_grid_thw" in inspect.signature(model.forward).parameters:
        merge, patch = seen.spatial_merge_size, seen.patch_size
        sides = [3 * merge, 2 * merge]
        pixels = {"pixel_values": torch.randn(sides[0] * sides[1], seen.in_channels * seen.temporal_patch_size * patch**2, generator=draw),
                  "image_grid_thw": torch.tensor([[1, *sides]])}
    elif seen.model_type == "pixtral":
        patch = seen.patch_size if isinstance(seen.patch_size, int) else seen.patch_size[0]
        high, wide = (sides * patch * getattr(config, "spatial_merge_size", 1) for sides in (3, 2))
        pixels = {"pixel_values": torch.randn(1, seen.num_channels, high, wide + patch, generator=draw), "image_sizes": torch.tensor([[high, wide]])}
    elif config.model_type == "llava_next":
        side, size = seen.image_size, [seen.image_size, 2 * seen.image_size + 3]
        tiles = transformers.models.llava_next.modeling_llava_next.image_size_to_num_patches(size, config.image_grid_pinpoints, side)
        pixels = {"pixel_values": torch.randn(1, tiles, seen.num_channels, side, side, generator=draw), "image_sizes": torch.tensor([size])}
    else:
        side = seen.image_size if isinstance(seen.image_size, int) else seen.image_size[0]
        pixels = {"pixel_values": torch.randn(1, seen.num_channels, side, side, generator=draw)}
    taken = for_reference(model, pixels | {"input_ids": ids})
    features = model.get_image_features(**{key: taken[key] for key in pixels})
    features = getattr(features, "pooler_output", features)
    features = torch.cat(list(features)) if isinstance(features, (list, tuple)) else features
    rows = features.numel() // features.shape[-1]
    if rows > 256:
        raise ValueError("an image has too many tokens")
    ids = torch.where(ids == config.image_token_id, 5, ids)
    image = torch.full((1, rows), config.image_token_id)
    return {"input_ids": torch.cat([ids[:, :6], image, ids[:, 6:11]], 1)} | pixels


def inputs_of(model):
    """Texts of two lengths where a mask says so, one text of a decoder, two images, sound."""
    config, draw, names = model.config, torch.Generator().manual_seed(3), inspect.signature(model.forward).parameters
    text = getattr(config, "text_config", config)
    ids = lambda rows, length: torch.randint(4, text.vocab_size - 4, (rows, length), generator=draw)
    given = {}
    if "input_features" in names:
        given["input_features"] = torch.randn(1, config.num_mel_bins, 2 * config.max_source_positions, generator=draw)
    elif "input_ids" in names:
        length = min(LENGTH, getattr(text, "max_position_embeddings", None) or LENGTH)
        rows = 1 if model.can_generate() and not config.is_encoder_decoder else 2
        given["input_ids"] = ids(rows, length)
        if rows == 2:
            ends = getattr(text, "eos_token_id", None)
            if "pixel_values" in names and isinstance(ends, int) and 0 <= ends < text.vocab_size:
                given["input_ids"][:, length // 2] = ends
            given["attention_mask"] = torch.ones(2, length, dtype=torch.int64)
            given["attention_mask"][1, length - 4:] = 0
            pad = getattr(text, "pad_token_id", None)
            given["input_ids"][1, length - 4:] = pad if isinstance(pad, int) and 0 <= pad < text.vocab_size else 1
    if config.is_encoder_decoder:
        given["decoder_input_ids"] = ids(len(next(iter(given.values()))), 7)
    if sees_beside(model):
        return image_inputs(model, given["input_ids"], draw)
    if "bbox" in names:
        corners = torch.randint(0, config.max_2d_position_embeddings, (2, 2, *given["input_ids"].shape), generator=draw).sort(0).values
        given["bbox"] = torch.stack([corners[0, 0], corners[0, 1], corners[1, 0], corners[1, 1]], -1)
    if "spatial_shapes" in names:
        seen, shapes = getattr(config, "vision_config", config), torch.tensor([[2, 5], [4, 2]])
        given |= {"pixel_values": torch.randn(2, 10, seen.num_channels * seen.patch_size**2, generator=draw), "spatial_shapes": shapes,
                  "pixel_attention_mask": (torch.arange(10)[None] < shapes.prod(-1)[:, None]).long()}
    elif "pixel_values" in names:
        seen = getattr(config, "vision_config", config)
        side = getattr(seen, "image_size", None) or seen.input_size
        given["pixel_values"] = torch.randn(2, seen.num_channels, side, side, generator=draw)
    return given


def flat(values):
    for key, value in values.items():
        if isinstance(value, torch.Tensor):
            yield key, value.float().numpy()
        elif hasattr(value, "items"):
            yield from ((f"{key}.{inner}", part.float().numpy()) for inner, part in value.items() if isinstance(part, torch.Tensor))


def continued(model, given):
    """Greedy ids behind a decoder's prompt, from passes over all of it; None where two are nearly a tie, or the length of a text changes its numbers."""
    ids = given.get("input_ids")
    text = getattr(model.config, "text_config", model.config)
    context = getattr(text, "max_position_embeddings", None) or 1 << 20
    if not model.can_generate() or "attention_mask" in given or len(given) > 1 or ids.shape[1] + NEW_TOKENS > context:
        return None
    if re.search(r"dynamic|longrope", json.dumps(getattr(text, "rope_parameters", None) or {})):
        return None
    for _ in range(NEW_TOKENS):
        best = model(input_ids=ids, use_cache=False).logits[0, -1].topk(2)
        if best.values[0] - best.values[1] < 0.01 * best.values[0].abs():
            return None
        ids = torch.cat([ids, best.indices[None, :1]], 1)
    return ids[0, given["input_ids"].shape[1]:].tolist()


def run(command):
    """(exit code or None, what it said)."""
    try:
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, errors="replace", timeout=900)
    except subprocess.TimeoutExpired:
        return None, "takes longer than 900 s"
    errors = done.stderr.strip()
    return done.returncode, done.stdout.strip() or errors if done.returncode == 0 else (errors.splitlines() or ["no message"])[-1]


def ended(code, said):
    return ("refused" if code == 2 else "CRASHED"), said


answers = {}  # of programs, by module, weights and inputs: most keys change none of them


def compare(heddle, folder, given, wanted, following):
    """(verdict, detail) of one folder; `wanted` by name, `following` ids or None."""
    code, said = run([heddle, "compile", folder, "--stop-after=import"])
    if code != 0:
        return ended(code, said)
    key = hashlib.sha256(said.replace(str(folder), "").encode() + (folder / "model.safetensors").read_bytes() + repr(given).encode()).hexdigest()
    if key not in answers:
        save_file({name: numpy.ascontiguousarray(tensor.numpy()) for name, tensor in given.items()}, folder / "in.safetensors")
        for command in ([heddle, "compile", folder, "-o", folder / "program", *COMPILED],
                        [folder / "program", "--io", folder / "in.safetensors", folder / "out.safetensors"]):
            code, said = run(command)
            if code != 0:
                return ended(code, said)
        answers[key] = load_file(folder / "out.safetensors")
    got, worst = answers[key], ("", 0.0)
    both = sorted(got.keys() & wanted.keys())
    if not both:
        return "CRASHED", f"outputs {sorted(got)}, not {sorted(wanted)}"
    for name in both:
        mine, its = got[name].astype(numpy.float64), wanted[name].astype(numpy.float64)
        if mine.shape != its.shape:
            return "WRONG", f"{name} {mine.shape}, expected {its.shape}"
        mask = given.get("attention_mask")
        if mask is not None and its.ndim == 3 and its.shape[:2] == tuple(mask.shape) and (name.startswith("encoder") or "decoder_input_ids" not in given):
            mine, its = mine[mask.numpy() == 1], its[mask.numpy() == 1]
        error = abs(mine - its).max() / max(1.0, abs(its).max())
        worst = max(worst, (name, error), key=lambda each: each[1] if each[1] == each[1] else numpy.inf)
    if not worst[1] <= LIMIT and not (folder / "program").exists():  # the same module may have tables that no file holds
        del answers[key]
        return compare(heddle, folder, given, wanted, following)
    if following and worst[1] <= LIMIT and (folder / "program").exists():
        prompt = ",".join(map(str, given["input_ids"][0].tolist()))
        code, said = run([folder / "program", "--prompt-ids", prompt, "-n", NEW_TOKENS, "--temp", 0, "--ignore-eos", "--print-ids"])
        if code != 0 or (ids := [int(word) for word in said.replace(",", " ").split()]) != following:
            return ended(code, said) if code != 0 else ("WRONG", f"ids {ids}, expected {following}")
    return ("same" if worst[1] <= LIMIT else "WRONG"), f"{worst[1]:.1e} {'' if worst[1] <= LIMIT else worst[0]}".strip()


def check_config(heddle, folder, raw):
    """(verdict, detail); a verdict of None where transformers has no answer."""
    try:
        model = make_model(folder, raw)
        given = inputs_of(model)
        wanted, following = dict(flat(model(**for_reference(model, given)))), continued(model, given)
        if model.can_generate() and not model.config.is_encoder_decoder and "last_hidden_state" not in wanted:  # of what attends ahead, which generates nothing
            wanted |= {"last_hidden_state": model.base_model(**for_reference(model, given)).last_hidden_state.float().numpy()}
    except Exception as error:
        return None, f"{type(error).__name__}: {str(error).strip().splitlines()[0] if str(error).strip() else ''}"
    if not all(numpy.isfinite(each).all() for name, each in wanted.items() if "mask" not in name):
        return None, "no numbers"
    return compare(heddle, folder, given, wanted, following)


def results(options, base, folder):
    """(what was changed, verdict, detail) of one checkpoint's config."""
    raw, draw = json.loads((base / "config.json").read_text()), random.Random(options.seed)
    verdict, detail = check_config(options.heddle, folder, raw)
    yield "as it is", verdict, detail
    if verdict is None:
        return
    config = transformers.AutoConfig.from_pretrained(base)
    sets = single = [each for each in changes_of(raw, config) if re.search(options.only, named(each))]
    wanted = options.shapes or options.pairs or len(single)
    if options.shapes:
        sets = (odd_shape(raw, config, draw) for _ in range(4 * wanted))
    elif options.pairs:
        sets = (sum(draw.sample(single, draw.choice((2, 2, 3))), []) for _ in range(4 * wanted))
    for changes in sets:
        shutil.rmtree(folder)
        folder.mkdir()
        verdict, detail = check_config(options.heddle, folder, changed(raw, changes))
        yield named(changes), verdict, detail
        wanted -= verdict is not None
        if not wanted:
            break


def sweep(parser, results):
    """Prints what results(options, base, folder) yields for each checkpoint, and counts it; the exit status."""
    parser.add_argument("heddle", type=pathlib.Path)
    parser.add_argument("folders", nargs="+", metavar="FOLDER")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=pathlib.Path)
    parser.add_argument("--verbose", action="store_true", help="what transformers refuses is told, too")
    options = parser.parse_args()
    options.heddle = options.heddle.resolve()
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    every = [file.parent for level in ("*", "encoder_heads/*", "images/*") for file in sorted(MODELS.glob(level + "/config.json"))]
    counts = {"same": 0, "refused": 0, "WRONG": 0, "CRASHED": 0, None: 0}
    with torch.no_grad(), tempfile.TemporaryDirectory() as scratch:
        for base in every if options.folders == ["all"] else map(pathlib.Path, options.folders):
            folder = pathlib.Path(scratch) / "model"
            folder.mkdir()
            for what, verdict, detail in results(options, base, folder):
                counts[verdict] += 1
                if verdict or options.verbose or what == "as it is":
                    print(f"{base.name:24} {verdict or 'left out':8} {what}: {detail}", flush=True)
                if options.keep and verdict in ("WRONG", "CRASHED"):
                    shutil.copytree(folder, options.keep / f"{base.name}-{sum(counts.values())}", dirs_exist_ok=True)
            shutil.rmtree(folder)
    left_out = counts.pop(None)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.items()) + f"; {left_out} left out, as transformers has no answer")
    return 1 if counts["WRONG"] or counts["CRASHED"] else 0


def parser_of(about):
    return argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)


def main():
    parser = parser_of(__doc__)
    parser.add_argument("--pairs", type=int, default=0, metavar="N")
    parser.add_argument("--shapes", type=int, default=0, metavar="N")
    parser.add_argument("--only", default="", metavar="REGEX")
    return sweep(parser, results)


if __name__ == "__main__":
    sys.exit(main())
