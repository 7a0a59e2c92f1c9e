# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Writes a decoder's folder as one of a model that also sees images keeps it: inside text_config, beside tensors of a vision tower.

wrap_text_config.py FOLDER OUT MODEL_TYPE TENSOR…

MODEL_TYPE is that of the whole; each TENSOR is a vector of zeros of that name. The decoder's own tensors are called language_model.NAME.
"""
import json
import pathlib
import sys

import safetensors


def main(folder, out, model_type, *others):
    folder, out = pathlib.Path(folder), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    text = json.loads((folder / "config.json").read_text())
    text.pop("architectures")
    whole = {"model_type": model_type, "text_config": text, "vision_config": {"hidden_size": 8}}
    (out / "config.json").write_text(json.dumps(whole))
    tensors = {f"language_model.{name}": tensor for name, tensor in safetensors.load(folder / "model.safetensors").items()}
    tensors |= {name: ("F32", (4,), [0.0] * 4) for name in others}
    safetensors.save(out / "model.safetensors", tensors)


if __name__ == "__main__":
    main(*sys.argv[1:])
