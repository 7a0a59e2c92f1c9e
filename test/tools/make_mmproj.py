# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a tiny Hugging Face folder of a model that sees images as llama.cpp's converter does: a GGUF file of the decoder, and an mmproj of the rest.

make_mmproj.py FOLDER TEXT.gguf MMPROJ.gguf [--without-token] [--text=JSON] [KEY=VALUE…] [-NAME…] [NAME>NAME…]

The decoder's is what make_gguf.py makes of text_config. Keys under clip. and names of tensors are those of convert_hf_to_gguf.py --mmproj, of LLaVA those of the script before it,
which leaves out layers that nothing reads. Sizes of images are those of the folder's processor. KEY=VALUE changes a key of the mmproj, or adds it; -NAME leaves a key or a
tensor out; NAME>NAME calls a tensor otherwise. --without-token: the vocabulary has no token of an image, but calls the one in its place unknown, as files of Vicuna do with
another. --text: members of text_config that count instead.
"""
import array
import json
import pathlib
import re
import sys
import tempfile

import make_gguf
import safetensors
from gguf_families import permuted

DECODERS = {"qwen2_5_vl": "qwen2_vl", "qwen2_vl": "qwen2_vl", "qwen3_vl": "qwen3_vl", "qwen3_vl_moe": "qwen3_vl_moe", "gemma3": "gemma3_text", "mistral": "llama"}
TEXT = re.compile(r"(model\.)?(language_model|text_model)\.(model\.)?")
VISUAL = re.compile(r"(model\.)?(visual|vision_tower|vision_model|multi_modal_projector|connector)\.|image_newline")

# Parts of a layer and of the rest: what a folder calls them, and what the format does.
LAYER = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.out_proj": "attn_out", "layer_norm1": "ln1",
         "layer_norm2": "ln2", "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down", "attn.qkv": "attn_qkv", "attn.proj": "attn_out", "norm1": "ln1", "norm2": "ln2",
         "mlp.linear_fc1": "ffn_up", "mlp.linear_fc2": "ffn_down", "mlp.up_proj": "ffn_up", "mlp.gate_proj": "ffn_gate", "mlp.down_proj": "ffn_down",
         "attention.q_proj": "attn_q", "attention.k_proj": "attn_k", "attention.v_proj": "attn_v", "attention.o_proj": "attn_out",
         "attention.projection_layer": "attn_out", "attention.q_norm": "attn_q_norm", "attention.k_norm": "attn_k_norm", "attention_norm": "ln1", "ffn_norm": "ln2",
         "layernorm_before": "ln1", "layernorm_after": "ln2", "feed_forward.up_proj": "ffn_up", "feed_forward.gate_proj": "ffn_gate",
         "feed_forward.down_proj": "ffn_down", "lambda_1": "ls1.weight", "lambda_2": "ls2.weight"}
REST = {"embeddings.patch_embedding": "v.patch_embd", "embeddings.position_embedding": "v.position_embd", "embeddings.class_embedding": "v.class_embd",
        "embeddings.cls_token": "v.class_embd", "embeddings.patch_embeddings.projection": "v.patch_embd", "embeddings.position_embeddings": "v.position_embd.weight",
        "pre_layrnorm": "v.pre_ln", "post_layernorm": "v.post_ln", "patch_conv": "v.patch_embd", "ln_pre": "v.pre_ln", "patch_embed.proj": "v.patch_embd",
        "pos_embed": "v.position_embd", "merger.ln_q": "v.post_ln", "merger.norm": "v.post_ln", "merger.mlp.0": "mm.0", "merger.mlp.2": "mm.2",
        "merger.linear_fc1": "mm.0", "merger.linear_fc2": "mm.2", "mm_input_projection_weight": "mm.input_projection.weight", "mm_soft_emb_norm": "mm.soft_emb_norm",
        "modality_projection.proj": "mm.model.fc", "norm": "mm.input_norm", "patch_merger.merging_layer": "mm.patch_merger", "linear_1": "mm.1", "linear_2": "mm.2",
        "layer_norm": "mm.model.mlp.0", "image_newline": "model.image_newline"}
OF_JOINT = {"llava": {"linear_1": "mm.0"}, "llava_next": {"linear_1": "mm.0"}, "internvl": {"linear_1": "mm.model.mlp.1", "linear_2": "mm.model.mlp.3"}}
PROJECTORS = {"gemma3": "gemma3", "idefics3": "idefics3", "smolvlm": "idefics3", "internvl": "internvl", "llava": "mlp", "llava_next": "mlp", "llava_pixtral": "pixtral", "mistral3": "pixtral",
              "qwen2_vl": "qwen2vl_merger", "qwen2_5_vl": "qwen2.5vl_merger", "qwen3_vl": "qwen3vl_merger", "qwen3_vl_moe": "qwen3vl_merger"}


def decoder(folder, config, stored, out, hasToken):
    """The folder's text part, as a folder of its own that make_gguf.py converts."""
    text = config["text_config"]
    family = DECODERS.get(config["model_type"]) or DECODERS.get(text["model_type"], text["model_type"])
    with tempfile.TemporaryDirectory() as box:
        own = pathlib.Path(box) / family
        own.mkdir()
        (own / "config.json").write_text(json.dumps(text | {"model_type": family}))
        for name in ("tokenizer.json", "tokenizer_config.json"):
            (own / name).write_bytes((folder / name).read_bytes())
        named = lambda name: name if name.startswith("lm_head") else "lm_head.weight" if name.endswith("lm_head.weight") else "model." + TEXT.sub("", name, count=1).removeprefix("model.")
        safetensors.save(own / "model.safetensors", {named(name): tensor for name, tensor in stored.items() if not VISUAL.match(name)})
        keys, tensors = make_gguf.convert(own, "tokens")
    architecture = keys["general.architecture"]
    keys["tokenizer.ggml.pre"] = "llama-bpe"  # that keeps two newlines together, as the folders do
    if (scalar := text.get("query_pre_attn_scalar")) and scalar != text["head_dim"]:
        keys[f"{architecture}.attention.scale"] = scalar ** -0.5
    if "deepstack_visual_indexes" in config["vision_config"]:
        keys[f"{architecture}.n_deepstack_layers"] = len(config["vision_config"]["deepstack_visual_indexes"])
    if not hasToken:
        image = config.get("image_token_index", config.get("image_token_id"))
        keys["tokenizer.ggml.tokens"][image] = "<unk>"
        keys["tokenizer.ggml.unknown_token_id"] = image
    make_gguf.write(out, keys, tensors)


def kind_of(config):
    """model_type, where that says what stands in an mmproj."""
    kind = config["model_type"]
    return kind + "_pixtral" if kind == "llava" and config["vision_config"]["model_type"] == "pixtral" else kind


def common_keys(config, projector, processor):
    vision = config["vision_config"]
    first = lambda *names: next(vision[name] for name in names if name in vision)
    one = lambda value: value[0] if isinstance(value, list) else value
    size = processor["size"]
    image = size.get("longest_edge") if projector == "pixtral" else one(vision.get("image_size", 560))
    keys = {"has_vision_encoder": True, "projector_type": projector, "vision.projection_dim": config["text_config"]["hidden_size"], "vision.image_size": image,
            "vision.patch_size": one(vision["patch_size"]), "vision.embedding_length": first("embed_dim", "hidden_size"),
            # Of Qwen2-VL that is the decoder's width.
            "vision.feed_forward_length": vision.get("intermediate_size", vision["hidden_size"]),
            "vision.block_count": first("num_hidden_layers", "depth"), "vision.attention.head_count": first("num_attention_heads", "num_heads"),
            "vision.attention.layer_norm_epsilon": vision.get("layer_norm_eps", 1e-5 if projector == "pixtral" else 1e-6),
            "vision.image_mean": processor["image_mean"], "vision.image_std": processor["image_std"]}
    activation = vision["hidden_act"]
    return keys | ({"use_silu": True} if activation == "silu" else {"use_gelu": True} if activation.startswith("gelu") else {})


def own_keys(config, processor):
    """Those of one projector."""
    vision, kind = config["vision_config"], kind_of(config)
    if kind == "gemma3":
        return {"vision.projector.scale_factor": vision["image_size"] // vision["patch_size"] // int(config["mm_tokens_per_image"] ** 0.5)}
    if kind in ("idefics3", "smolvlm"):
        return {"vision.projector.scale_factor": config["scale_factor"], "vision.preproc_image_size": processor["size"]["longest_edge"]}
    if kind == "internvl":
        return {"vision.projector.scale_factor": int(1 / config["downsample_ratio"]), "vision.preproc_min_tiles": processor["min_patches"],
                "vision.preproc_max_tiles": processor["max_patches"]}
    if kind == "llava_pixtral":
        return {}
    if kind == "mistral3":
        return {"vision.spatial_merge_size": config["spatial_merge_size"]}
    if kind.startswith("llava"):
        # A layer less, which nothing reads; and the projection of CLIP, which is not there.
        keys = {"vision.block_count": vision["num_hidden_layers"] - 1, "vision.projection_dim": 768, "has_text_encoder": False, "has_llava_projector": True}
        if kind == "llava_next":
            # Widths and heights, as in LLaVA's own config, from which its script has them.
            keys |= {"vision.image_grid_pinpoints": [side for height, width in config["image_grid_pinpoints"] for side in (width, height)],
                     "vision.mm_patch_merge_type": "spatial_unpad"}
        return keys
    keys = {"vision.image_min_pixels": processor["size"]["shortest_edge"], "vision.image_max_pixels": processor["size"]["longest_edge"]}
    if kind == "qwen2_5_vl":
        whole = vision["fullatt_block_indexes"]
        keys |= {"vision.n_wa_pattern": whole[0] + 1, "vision.window_size": vision["window_size"]}
    if kind.startswith("qwen3"):
        deep = vision["deepstack_visual_indexes"]
        keys |= {"vision.spatial_merge_size": vision["spatial_merge_size"], "vision.is_deepstack_layers": [layer in deep for layer in range(vision["depth"])]}
    return keys


def named(name, kind, deep):
    """The format's name; empty of what it leaves out."""
    name = re.sub(r"^(model\.)?(visual|vision_tower|vision_model|multi_modal_projector|connector)\.", "", name)
    name = name.removeprefix("vision_model.")
    stem, dot, ending = name.rpartition(".")
    if ending not in ("weight", "bias"):
        stem, dot, ending = name, "", ""
    if layer := re.match(r"(?:encoder\.layers?|transformer\.layers|blocks)\.(\d+)\.(.*)", stem):
        return f"v.blk.{layer.group(1)}.{LAYER[layer.group(2)]}{dot}{ending}"
    if merger := re.match(r"deepstack_merger_list\.(\d+)\.(?:linear_)?(.*)", stem):
        return f"v.deepstack.{deep[int(merger.group(1))]}.{merger.group(2)}{dot}{ending}"
    return ({**REST, **OF_JOINT.get(kind, {})}[stem]) + dot + ending


def parts(name, shape, values, kind, heads):
    """What the converter makes of one tensor."""
    flat = [dim for dim in shape if dim > 1] if name in ("v.class_embd", "v.position_embd.weight") else list(shape)
    if name == "mm.soft_emb_norm.weight":
        values = array.array("f", [value + 1 for value in values])
    if kind in ("llava_pixtral", "mistral3") and re.search(r"\.attn_[qk]\.", name):
        values = permuted(heads)(shape, values)
    if name == "v.patch_embd.weight" and len(shape) == 5:
        out, channels, frames, side, _ = shape
        plane = side * side
        for frame in range(frames):
            numbers = array.array("f")
            for at in range(out * channels):
                numbers.extend(values[(at * frames + frame) * plane:][:plane])
            yield name + (".1" if frame else ""), [out, channels, side, side], numbers
    elif ".attn_qkv." in name and not kind.startswith("qwen3"):
        third = len(values) // 3
        for i, part in enumerate("qkv"):
            yield name.replace("attn_qkv", "attn_" + part), [shape[0] // 3, *shape[1:]], values[i * third:(i + 1) * third]
    else:
        yield name, flat, values


def main(folder, text, mmproj, *changes):
    folder = pathlib.Path(folder)
    config, processor = (json.loads((folder / name).read_text()) for name in ("config.json", "preprocessor_config.json"))
    config["text_config"] |= next((json.loads(change.removeprefix("--text=")) for change in changes if change.startswith("--text=")), {})
    kind, stored, vision = kind_of(config), safetensors.load(folder / "model.safetensors"), config["vision_config"]
    decoder(folder, config, stored, pathlib.Path(text), "--without-token" not in changes)
    keys = {"general.architecture": "clip"} | {"clip." + key: value for key, value in {**common_keys(config, PROJECTORS[kind], processor), **own_keys(config, processor)}.items()}
    tensors, last = {}, keys["clip.vision.block_count"]
    heads = keys["clip.vision.attention.head_count"]
    for whole, (_, shape, values) in stored.items():
        if not VISUAL.match(whole):
            continue
        name = named(whole, kind, vision.get("deepstack_visual_indexes", []))
        left_out = PROJECTORS[kind] == "mlp" and (name.startswith(("v.post_ln", f"v.blk.{last}.")))
        for part, dims, numbers in () if left_out else parts(name, shape, values, kind, heads):
            if kind == "llava":  # as its script names them
                part = {"up": part.replace("ffn_up", "ffn_down"), "down": part.replace("ffn_down", "ffn_up")}.get(part.split("ffn_")[-1].split(".")[0], part)
            tensors[part] = (dims, numbers)
    for change in changes:
        if change.startswith("--"):
            continue
        if change.startswith("-"):
            keys.pop(change[1:], None)
            tensors.pop(change[1:], None)
        elif ">" in change:
            old, new = change.split(">")
            tensors[new] = tensors.pop(old)
        else:
            key, value = change.split("=", 1)
            keys[key] = json.loads(value)
    make_gguf.write(pathlib.Path(mmproj), keys, tensors)


if __name__ == "__main__":
    main(*sys.argv[1:])
