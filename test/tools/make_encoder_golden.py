# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Makes a tiny encoder with a head and its goldens, by the family's class in PyPI's transformers.

make_encoder_golden.py CLASS FOLDER [KEY=VALUE…]

CLASS is one of transformers: BertForTokenClassification, …. KEY=VALUE sets what config.json says beside the sizes below; VALUE is JSON.
Writes config.json, model.safetensors, golden.json and golden.safetensors, as check_golden.py reads them: a sequence, and a batch of three
padded on the right, or an image and two of them. Weights are random and large enough that attention looks somewhere. Not part of the suite, which needs neither torch nor
transformers: python -m pip install torch transformers
"""
import json
import pathlib
import sys

sys.path.pop(0)  # safetensors.py beside this file is not PyPI's, which transformers needs

import torch
import transformers
from safetensors.torch import save_file

LAYERS = dict(hidden_size=32, intermediate_size=48, num_hidden_layers=2, num_attention_heads=4)
SIZES = {"text": LAYERS | dict(vocab_size=64, max_position_embeddings=40), "image": LAYERS | dict(image_size=12, patch_size=4)}
SKIPPED = {"hidden_states", "attentions", "loss", "past_key_values", "cache"}


def make_model(name, given):
    torch.manual_seed(7)
    kind = getattr(transformers, name)
    sizes = SIZES["image" if kind.main_input_name == "pixel_values" else "text"]
    own = kind.config_class.attribute_map  # what a config calls something else may be given under that name
    config = kind.config_class(**({key: value for key, value in sizes.items() if own.get(key) not in given} | given))
    model = kind._from_config(config, attn_implementation="eager").float().eval()
    for key, weight in model.named_parameters():
        if not weight.requires_grad:  # a table that the config describes
            continue
        if weight.dim() == 1:
            weight.normal_(0.0 if key.endswith("bias") else 1.0, 0.2)
        else:
            weight.normal_(0.0, 1.0 / weight.shape[-1] ** 0.5)
    model.tie_weights()
    return model, config


def forward(model, tensors, name, **inputs):
    """Runs the model on one case, whose tensors and entry of golden.json it writes and returns, with what lies below its head."""
    below = {}
    hook = model.base_model.register_forward_hook(lambda module, inputs, result: below.update(result))
    got = {key: value for key, value in model(**inputs).items() if key not in SKIPPED}
    hook.remove()
    if model.base_model is not model:
        got |= {"base." + key: value for key, value in below.items() if key not in SKIPPED}
    mask = inputs.get("attention_mask")
    for key, value in got.items():
        if mask is not None and value.shape[:2] == mask.shape:
            got[key] = value * mask.reshape(mask.shape + (1,) * (value.dim() - 2))
    tensors |= {f"{name}.{key}": value for key, value in (inputs | got).items()}
    return {"name": name, "kind": "forward", "inputs": {key: f"{name}.{key}" for key in inputs},
            "outputs": {key: f"{name}.{key}" for key in got}}


def text_cases(model, config, tensors):
    has_globals = hasattr(config, "attention_window")

    def separated(ids):
        """Three separators, of a question and a text, where what is global depends on them."""
        if has_globals:
            ids[:, [2, 3, 6]] = config.sep_token_id
        return ids

    typed = getattr(config, "type_vocab_size", 0) > 1
    draw = lambda *shape: separated(torch.randint(3, config.vocab_size, shape))
    types = lambda ids: ({"token_type_ids": torch.randint(0, config.type_vocab_size, ids.shape)} if typed else {}) | boxes(ids)

    def boxes(ids):
        """Where tokens of a page stand, as left, upper, right and lower edge, and its image."""
        if not (places := getattr(config, "max_2d_position_embeddings", 0)):
            return {}
        corners = torch.randint(0, places, (2, 2, *ids.shape)).sort(0).values
        side = getattr(config, "input_size", 0)
        image = {"pixel_values": torch.randn(len(ids), config.num_channels, side, side)} if side else {}
        return {"bbox": torch.stack([corners[0, 0], corners[0, 1], corners[1, 0], corners[1, 1]], -1)} | image

    ids = draw(1, 9)
    yield forward(model, tensors, "single", input_ids=ids, **types(ids))
    ids, lengths = draw(3, 20), torch.tensor([20, 7, 13])
    mask = (torch.arange(20)[None] < lengths[:, None]).long()
    ids = torch.where(mask == 1, ids, torch.tensor(config.pad_token_id or 0))
    yield forward(model, tensors, "padded", input_ids=ids, attention_mask=mask, **types(ids)) | {"mask": "padded.attention_mask"}
    if has_globals:
        chosen = (torch.rand(ids.shape) < 0.2).long()
        yield forward(model, tensors, "global", input_ids=ids, attention_mask=mask, global_attention_mask=chosen) | {"mask": "global.attention_mask"}


def image_cases(model, config, tensors):
    for name, count in ("image", 2), ("single", 1):
        yield forward(model, tensors, name, pixel_values=torch.randn(count, config.num_channels, config.image_size, config.image_size))


def main():
    name, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    given = {key: json.loads(value) for key, value in (argument.split("=", 1) for argument in sys.argv[3:])}
    with torch.no_grad():
        model, config = make_model(name, given)
        tensors = {}
        cases = list((image_cases if model.main_input_name == "pixel_values" else text_cases)(model, config, tensors))
    model.save_pretrained(folder)
    save_file({key: value.contiguous().clone() for key, value in tensors.items()}, folder / "golden.safetensors")
    task = "towers" if hasattr(config, "max_2d_position_embeddings") else "encoder"  # of a graph
    about = {"family": config.model_type, "task": task, "architecture": name, "model_type": config.model_type, "torch": torch.__version__,
             "transformers": transformers.__version__, "dtype": "float32", "weights_dtype": "float32", "cases": cases}
    rotates = getattr(config, "position_embedding_type", "") == "rotary"
    embeddings = getattr(model.base_model, "embeddings", None)
    if hasattr(embeddings, "padding_idx") and not isinstance(embeddings, torch.nn.Embedding) and not rotates:  # positions begin behind that of padding
        about["position_offset"] = config.pad_token_id + 1
    (folder / "golden.json").write_text(json.dumps(about, indent=1) + "\n")


if __name__ == "__main__":
    main()
