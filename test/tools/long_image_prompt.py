# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""long_image_prompt.py OUT.safetensors FOLDER TOKENS WORDS: the prompt of case `image` of FOLDER's goldens behind that many ids below WORDS, as long_prompt.py has
them, which stand behind its first token."""
import json
import pathlib
import sys

import safetensors

folder, tokens, words = pathlib.Path(sys.argv[2]), *map(int, sys.argv[3:])
case, = [case for case in json.loads((folder / "golden.json").read_text())["cases"] if case["name"] == "image"]
inputs = {name: safetensors.load(folder / "golden.safetensors")[key] for name, key in case["inputs"].items()}
first, *rest = inputs["input_ids"][2]
ids = [first, *((37 * i + i // words) % words for i in range(tokens)), *rest]
inputs |= {"input_ids": ("I64", [1, len(ids)], ids), "attention_mask": ("I64", [1, len(ids)], [1] * len(ids))}
safetensors.save(sys.argv[1], inputs)
