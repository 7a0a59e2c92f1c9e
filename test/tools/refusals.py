# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Inputs of --io that a program refuses: what the other _refusals.py of this folder share."""
import pathlib
import re
import subprocess
import sys

import safetensors


def grid(*rows):
    """An I64 tensor of --io with these rows of equal length."""
    return ("I64", (len(rows), len(rows[0])), [value for row in rows for value in row])


def run(cases):
    """Gives each of the (pattern, tensors) to the program BIN of the command line `… FOLDER BIN`; 1 unless all are refused as they should be."""
    folder, binary = pathlib.Path(sys.argv[1]), sys.argv[2]
    source, target = folder / "in.safetensors", folder / "refused.safetensors"
    broken = 0
    for pattern, tensors in cases:
        safetensors.save(source, tensors)
        done = subprocess.run([binary, "--io", source, target], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 2 or done.stderr.count("\n") != 1 or not re.search(pattern, done.stderr) or target.exists():
            broken += 1
            print(f"{pattern}: status {done.returncode}, '{done.stderr.strip()}'")
    return 1 if broken else 0
