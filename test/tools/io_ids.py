# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""io_ids.py BINARY --ids 1,2,3 -n 24 [FLAG…]: generates through --io and prints the new ids, separated by commas.

Several prompts, separated by semicolons and padded on the left with --pad (0), go as one batch with an attention mask; one
line of ids for each. Other flags are passed on.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import safetensors


def batch(prompts, pad):
    """input_ids and attention_mask, (batch, longest prompt)."""
    longest = max(map(len, prompts))
    ids = [token for prompt in prompts for token in [pad] * (longest - len(prompt)) + prompt]
    mask = [bit for prompt in prompts for bit in [0] * (longest - len(prompt)) + [1] * len(prompt)]
    shape = (len(prompts), longest)
    tensors = {"input_ids": ("I64", shape, ids)}
    if len(prompts) > 1:
        tensors["attention_mask"] = ("I64", shape, mask)
    return tensors


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("binary")
    parser.add_argument("--ids", required=True)
    parser.add_argument("--pad", type=int, default=0)
    parser.add_argument("-n", type=int, default=24)
    options, flags = parser.parse_known_args()
    prompts = [[int(token) for token in prompt.split(",")] for prompt in options.ids.split(";")]
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        safetensors.save(source, batch(prompts, options.pad))
        command = [options.binary, "--io", source, target, "-n", str(options.n), "--temp", "0", "--ignore-eos", *flags]
        status = subprocess.run(command).returncode
        if status != 0:
            sys.exit(f"io_ids.py: {options.binary} exited with status {status}")
        _, (rows, columns), values = safetensors.load(target)["ids"]
    for row in range(rows):
        print(",".join(str(token) for token in values[row * columns:(row + 1) * columns]))


if __name__ == "__main__":
    main()
