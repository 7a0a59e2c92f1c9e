# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""onnx_node.py [--keep=BINARIES] COMPILER FOLDER [OPTION…]: compiles each NAME.onnx of a folder with the options and runs it on NAME.in.safetensors.

Every tensor of NAME.out.safetensors must come out with its type, shape and values: integers and booleans exactly,
floats within rtol 1e-3 and atol 1e-7 (16 bits: 1e-2 and 1e-3). Prints a line per failure and the count; exit status 1
if one failed. The programs stay as BINARIES/NAME where that folder is given.
"""
import math
import os
import subprocess
import sys
import tempfile

import safetensors


def is_near(got, want, rtol, atol):
    if math.isnan(want) or math.isnan(got):
        return math.isnan(want) and math.isnan(got)
    return got == want or abs(got - want) <= atol + rtol * abs(want)


def fault(got, want):
    """'' if equal, else what differs."""
    kind, shape, values = want
    if got is None:
        return "is missing"
    if got[0] != kind or list(got[1]) != list(shape):
        return f"is {got[0]}{list(got[1])}, expected {kind}{list(shape)}"
    rtol, atol = (1e-2, 1e-3) if "16" in kind else (1e-3, 1e-7)
    is_float = "F" in kind
    bad = [i for i, (g, w) in enumerate(zip(got[2], values)) if not (is_near(g, w, rtol, atol) if is_float else g == w)]
    return f"element {bad[0]} is {got[2][bad[0]]}, expected {values[bad[0]]} ({len(bad)} differ)" if bad else ""


def run(compiler, options, stem, box, binary):
    target = os.path.join(box, "out.safetensors")
    compile_it = [compiler, "compile", stem + ".onnx", "-o", binary, *options]
    run_it = [binary, "--io", stem + ".in.safetensors", target]
    for command in (compile_it, run_it):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            return f"{os.path.basename(command[0])} {command[1]}: exit {done.returncode}: {done.stderr.strip()}"
    outputs = safetensors.load(target)
    wanted = safetensors.load(stem + ".out.safetensors")
    return "; ".join(f"{name} {what}" for name, tensor in wanted.items() if (what := fault(outputs.get(name), tensor)))


def main():
    words = sys.argv[1:]
    kept = words.pop(0).removeprefix("--keep=") if words[0].startswith("--keep=") else None
    compiler, folder, *options = words
    names = sorted(file[:-5] for file in os.listdir(folder) if file.endswith(".onnx"))
    failed = 0
    for name in names:
        with tempfile.TemporaryDirectory() as box:
            what = run(compiler, options, os.path.join(folder, name), box, os.path.join(kept or box, name))
        if what:
            failed += 1
            print(f"{name}: {what}")
    print(f"{len(names) - failed} of {len(names)} passed")
    return 1 if failed or not names else 0


if __name__ == "__main__":
    sys.exit(main())
