# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""same_logits.py LIMIT PROMPTS BINARY OTHER [OUTPUT]: runs two binaries of one model on the same batch and compares what they answer.

PROMPTS is a safetensors file with input_ids and attention_mask. Logits, or what OUTPUT names, of positions that are no padding agree within LIMIT, absolute
and relative to the largest magnitude. Exit status 1 where they do not.
"""
import os
import subprocess
import sys
import tempfile

import safetensors


def logits(binary, prompts, box, output):
    out = os.path.join(box, "out.safetensors")
    subprocess.run([binary, "--io", prompts, out], check=True)
    return safetensors.load(out)[output][2]


def main(limit, prompts, binary, other, output="logits"):
    with tempfile.TemporaryDirectory() as box:
        first, second = (logits(each, prompts, box, output) for each in (binary, other))
    mask = safetensors.load(prompts)["attention_mask"][2]
    width, error, largest = len(first) // len(mask), 0.0, 1.0
    for i, (a, b) in enumerate(zip(first, second, strict=True)):
        if mask[i // width]:
            error = max(error, abs(a - b) if a - b == a - b else float("inf"))
            largest = max(largest, abs(a))
    print(f"{sum(mask)} positions: max abs difference {error:.2e}, largest magnitude {largest:.1f}")
    return 0 if error <= float(limit) * largest else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
