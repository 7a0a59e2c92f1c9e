# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a folder of a model that sees images as older files are: the keys of text_config beside vision_config, and tensors without new prefixes.

flatten_text_config.py FOLDER OUT
"""
import json
import pathlib
import shutil
import sys

import safetensors


def main(folder, out):
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    shutil.copytree(folder, out, dirs_exist_ok=True)
    config = json.loads((folder / "config.json").read_text())
    text = config.pop("text_config")
    rope = text.pop("rope_parameters")
    config = text | config | {"rope_theta": rope["rope_theta"], "rope_scaling": {"type": "mrope", "mrope_section": rope["mrope_section"]}}
    config["vision_config"]["model_type"] = config["model_type"]
    (out / "config.json").write_text(json.dumps(config))
    tensors = safetensors.load(folder / "model.safetensors")
    older = lambda name: name.replace("model.visual.", "visual.").replace("model.language_model.", "model.")
    safetensors.save(out / "model.safetensors", {older(name): tensor for name, tensor in tensors.items()})


if __name__ == "__main__":
    main(*sys.argv[1:])
