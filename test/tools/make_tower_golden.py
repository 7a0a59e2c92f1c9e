# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny model of two towers, texts and images, or of one of them, and its goldens, by its class in PyPI's transformers.

make_tower_golden.py CLASS FOLDER [PART.KEY=VALUE…]

CLASS is one of transformers: CLIPModel, CLIPTextModel, SiglipForImageClassification, …. PART is text, vision or model; VALUE is JSON. Writes config.json, model.safetensors, golden.json and
golden.safetensors, as check_golden.py reads them: three texts, padded on the right, and two images; a text alone; an image alone. One text has
its end twice, one has none. Not part of the suite, which needs neither torch nor transformers: python -m pip install torch transformers
"""
import json
import pathlib
import sys
import types

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import torch
import transformers
from safetensors.torch import save_file

END = 60
TEXT = dict(vocab_size=64, hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=12,
            bos_token_id=0, pad_token_id=1, eos_token_id=END)
VISION_SIZE = types.SimpleNamespace(image_size=12)
# Of a model that takes patches: their number in a batch, and rows and columns of each image of it.
PATCHES, SHAPES = 10, [[2, 5], [4, 2]]
VISION = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=1, num_attention_heads=4, image_size=12, patch_size=4)


def side_of(name):
    """Which tower a class has; None: both."""
    return "text" if "Text" in name else "vision" if "Vision" in name or "ForImage" in name else None


def make_model(name, given):
    torch.manual_seed(7)
    kind = getattr(transformers, name)
    parts = {"text": dict(TEXT), "vision": dict(VISION), "model": dict(projection_dim=16)}
    if name.startswith("Siglip2"):
        del parts["vision"]["image_size"]
        parts["vision"]["num_patches"] = 9
    for argument in given:
        key, value = argument.split("=", 1)
        part, key = key.split(".", 1)
        parts[part][key] = json.loads(value)
    side = side_of(name)
    if "text_config" in kind.config_class.sub_configs:
        config = kind.config_class(text_config=parts["text"], vision_config=parts["vision"], **parts["model"])
    else:
        config = kind.config_class(**parts[side], **parts["model"])
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    for key, weight in model.named_parameters():
        if weight.dim() == 1:
            weight.normal_(0.0 if key.endswith("bias") else 1.0, 0.2)
        elif weight.dim() > 1:
            weight.normal_(0.0, 1.0 / weight.shape[-1] ** 0.5)
    return model


def flat(values):
    """What a tower gives as part of the model's answer has its name before it."""
    for key, value in values.items():
        if isinstance(value, torch.Tensor):
            yield key, value
        elif value is not None:
            yield from ((f"{key}.{inner}", part) for inner, part in value.items() if isinstance(part, torch.Tensor))


def images_of(seen):
    """Two images, whole or as patches of which some fill up the batch."""
    if not hasattr(seen, "num_patches"):
        return {"pixel_values": torch.randn(2, 3, *[getattr(seen, "image_size", VISION_SIZE.image_size)] * 2)}
    shapes = torch.tensor(SHAPES)
    return {"pixel_values": torch.randn(2, PATCHES, 3 * seen.patch_size**2), "spatial_shapes": shapes,
            "pixel_attention_mask": (torch.arange(PATCHES)[None] < shapes.prod(-1)[:, None]).long()}


def case(name, inputs, got, tensors):
    tensors |= {f"{name}.{key}": value for key, value in (inputs | got).items()}
    entry = {"name": name, "kind": "forward", "inputs": {key: f"{name}.{key}" for key in inputs}, "outputs": {key: f"{name}.{key}" for key in got}}
    return entry | ({"mask": f"{name}.attention_mask"} if "attention_mask" in inputs else {})


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    with torch.no_grad():
        model = make_model(name, sys.argv[3:])
        ids = torch.tensor([[0, 5, 61, 7, 8, END, 3, END, 4], [0, 40, END, 1, 1, 1, 1, 1, 1], [0, 9, 33, 12, 50, 2, 1, 1, 1]])
        mask = torch.tensor([[1] * 9, [1] * 3 + [0] * 6, [1] * 6 + [0] * 3])
        seen = getattr(model.config, "vision_config", model.config if side_of(name) else VISION_SIZE)
        tensors, texts, images = {}, {"input_ids": ids, "attention_mask": mask}, images_of(seen)
        only = side_of(name)
        inputs = texts if only == "text" else images if only == "vision" else texts | images
        cases = [case("pair", inputs, dict(flat(model(**inputs))), tensors)]
        for key, side, given in ("text", "text", {"input_ids": ids[:1, :7]}), ("image", "vision", {key: value[1:] for key, value in images.items()}):
            if only is None:
                alone = dict(flat(model(input_ids=ids[:1, :7], **{key: value[1:] for key, value in images.items()})))
                cases.append(case(key, given, {k: v for k, v in alone.items() if k.startswith((key, side))}, tensors))
            elif side == only:
                cases.append(case(key, given, dict(flat(model(**given))), tensors))
    model.save_pretrained(folder)
    save_file({key: value.contiguous().clone() for key, value in tensors.items()}, folder / "golden.safetensors")
    about = {"family": model.config.model_type, "task": "towers", "architecture": name, "model_type": model.config.model_type,
             "torch": torch.__version__, "transformers": transformers.__version__, "dtype": "float32", "weights_dtype": "float32", "cases": cases}
    (folder / "golden.json").write_text(json.dumps(about, indent=1) + "\n")


main()
