# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""graph_io.py BINARY [NAME=TYPE[SHAPE]:VALUES…] [FLAG…]: runs a compiled graph through --io and prints its outputs.

`x=F32[2,3]:1,2,3,4,5,6` is an input; `x=F32[2,3]:1` repeats one value. Each output is a line `y F32[2,3] 1 2 3 4 5 6`, floats with
four significant digits. The binary's exit status is ours.
"""
import math
import os
import re
import subprocess
import sys
import tempfile

import safetensors

INPUT = re.compile(r"([\w.]+)=(\w+)\[([\d,]*)\]:(.*)")


def tensor(kind, shape, text):
    shape = [int(size) for size in shape.split(",") if size]
    number = float if "F" in kind else int
    values = [number(value) for value in text.split(",") if value]
    count = math.prod(shape)
    return kind, shape, values * count if len(values) == 1 else values


def spell(value):
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main():
    binary, *words = sys.argv[1:]
    inputs = {match[1]: tensor(*match.groups()[1:]) for match in map(INPUT.fullmatch, words) if match}
    flags = [word for word in words if not INPUT.fullmatch(word)]
    with tempfile.TemporaryDirectory() as folder:
        source, target = os.path.join(folder, "in.safetensors"), os.path.join(folder, "out.safetensors")
        safetensors.save(source, inputs)
        status = subprocess.run([binary, "--io", source, target, *flags]).returncode
        if status != 0:
            return status if status > 0 else 128 - status
        for name, (kind, shape, values) in safetensors.load(target).items():
            print(f"{name} {kind}{[*shape]}".replace(", ", ","), *map(spell, values))
    return 0


if __name__ == "__main__":
    sys.exit(main())
