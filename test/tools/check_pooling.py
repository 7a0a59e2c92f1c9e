# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_pooling.py HEDDLE FOLDER BOX: --embed of every pooling mode is what the hidden states of --io give by its formula.

The text is "good" behind the prompt "bad ", not normalised: [CLS] bad good [SEP].
"""
import json
import math
import pathlib
import shutil
import subprocess
import sys

import safetensors

IDS = [2, 61, 62, 3]


def main():
    heddle, folder, box = sys.argv[1], pathlib.Path(sys.argv[2]), pathlib.Path(sys.argv[3])
    model, binary = box / "pooled", box / "pooled-model"
    shutil.copytree(folder, model, dirs_exist_ok=True)
    modes = ["cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken"]
    modules = json.loads((model / "modules.json").read_text())[:2]
    for path, value in {"modules.json": modules, "1_Pooling/config.json": {"pooling_mode": modes},
                        "config_sentence_transformers.json": {"default_prompt_name": "p", "prompts": {"p": "bad "}}}.items():
        (model / path).chmod(0o644)
        (model / path).write_text(json.dumps(value))
    subprocess.run([heddle, "compile", model, "-o", binary, "--quiet"], check=True)
    safetensors.save(box / "in.safetensors", {"input_ids": ("I64", (1, len(IDS)), IDS)})
    subprocess.run([binary, "--io", box / "in.safetensors", box / "out.safetensors"], check=True)
    _, (_, count, width), values = safetensors.load(box / "out.safetensors")["last_hidden_state"]
    columns = [[values[row * width + column] for row in range(count)] for column in range(width)]
    formulas = {"cls": lambda c: c[0], "max": max, "mean": lambda c: sum(c) / count, "mean_sqrt_len_tokens": lambda c: sum(c) / math.sqrt(count),
                "weightedmean": lambda c: sum(x * (i + 1) for i, x in enumerate(c)) / (count * (count + 1) / 2), "lasttoken": lambda c: c[-1]}
    wanted = [formulas[mode](column) for mode in modes for column in columns]
    got = json.loads(subprocess.run([binary, "--embed", "good"], stdout=subprocess.PIPE, check=True).stdout)
    if len(got) != len(wanted) or any(abs(a - b) > 1e-5 for a, b in zip(got, wanted)):
        sys.exit(f"{len(got)} numbers {got[:4]}…, expected {len(wanted)} {wanted[:4]}…")


main()
