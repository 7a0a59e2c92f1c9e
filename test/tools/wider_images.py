# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wider_images.py PROGRAM GOLDEN_FOLDER SIZE: runs PROGRAM, whose images have SIZE pixels on a side, on the golden's smaller ones with noise to their right
and below, and compares with the golden's outputs: within 5e-4. Exit status 1 where they differ or nothing was compared.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

import safetensors


def widened(shape, values, size):
    batch, channels, height, width = shape
    out = []
    for plane in range(batch * channels):
        for y in range(size):
            out += [values[(plane * height + y) * width + x] if y < height and x < width else (y * 7 + x * 3) % 11 - 5.0 for x in range(size)]
    return [batch, channels, size, size], out


def main(program, folder, size):
    folder = pathlib.Path(folder)
    stored = safetensors.load(folder / "golden.safetensors")
    compared = 0
    for case in json.loads((folder / "golden.json").read_text())["cases"]:
        if case["kind"] != "forward" or "pixel_values" not in case["inputs"]:
            continue
        tensors = {name: stored[key] for name, key in case["inputs"].items()}
        kind, shape, values = tensors["pixel_values"]
        tensors["pixel_values"] = (kind, *widened(shape, values, int(size)))
        with tempfile.TemporaryDirectory() as box:
            given, found = f"{box}/in.safetensors", f"{box}/out.safetensors"
            safetensors.save(given, tensors)
            subprocess.run([program, "--io", given, found], check=True)
            outputs = safetensors.load(found)
        for name, key in case["outputs"].items():
            if name not in outputs:
                continue
            error = max(abs(a - b) for a, b in zip(outputs[name][2], stored[key][2], strict=True))
            compared += 1
            if not error <= 5e-4:
                sys.exit(f"{case['name']}: {name} differs by {error}")
    print(f"{compared} outputs compared")
    return 0 if compared else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
