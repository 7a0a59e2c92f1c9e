# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""image_refusals.py FOLDER BIN: inputs of --io that an encoder of images of 3 x 32 x 32 refuses.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import pathlib
import re
import subprocess
import sys

import safetensors


def zeros(dtype, *shape):
    count = 1
    for size in shape:
        count *= size
    return (dtype, shape, [0] * count)


CASES = [
    ("no tensor 'pixel_values'", {}),
    ("'input_ids' is no input of this model .pixel_values.", {"pixel_values": zeros("F32", 1, 3, 32, 32), "input_ids": zeros("I64", 1, 1)}),
    ("'pixel_values' is I64, expected F32", {"pixel_values": zeros("I64", 1, 3, 32, 32)}),
    (r"has shape .1, 3, 32, 31., expected .batch, 3, 32, 32.", {"pixel_values": zeros("F32", 1, 3, 32, 31)}),
    (r"has shape .3, 32, 32.", {"pixel_values": zeros("F32", 3, 32, 32)}),
]


def main():
    folder, binary = pathlib.Path(sys.argv[1]), sys.argv[2]
    source, target = folder / "in.safetensors", folder / "refused.safetensors"
    broken = 0
    for pattern, tensors in CASES:
        safetensors.save(source, tensors)
        done = subprocess.run([binary, "--io", source, target], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if done.returncode != 2 or done.stderr.count("\n") != 1 or not re.search(pattern, done.stderr) or target.exists():
            broken += 1
            print(f"{pattern}: status {done.returncode}, '{done.stderr.strip()}'")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
