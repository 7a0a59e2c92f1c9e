# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""patch_config.py FOLDER OUT KEY=JSON…: copies a Hugging Face checkpoint, with keys of its config.json set to other values."""
import json
import pathlib
import shutil
import sys


def main():
    folder, out, *patches = sys.argv[1:]
    target = pathlib.Path(out)
    target.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(pathlib.Path(folder, "model.safetensors"), target / "model.safetensors")
    config = json.loads(pathlib.Path(folder, "config.json").read_text())
    for key, value in (patch.split("=", 1) for patch in patches):
        config[key] = json.loads(value)
    (target / "config.json").write_text(json.dumps(config))


if __name__ == "__main__":
    main()
