# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""roberta_positions.py BIN FOLDER: positions that BIN counts from ids, padding being id 1, are those that the file would say.

Ids that are not padding count from 2, masked ones too; padding stands at 1, also where it is not masked.
"""
import pathlib
import subprocess
import sys

import safetensors


def run(binary, folder, tensors):
    safetensors.save(folder / "in.safetensors", tensors)
    subprocess.run([binary, "--io", folder / "in.safetensors", folder / "out.safetensors"], check=True)
    return (folder / "out.safetensors").read_bytes()


def main():
    binary, folder = sys.argv[1], pathlib.Path(sys.argv[2])
    grid = lambda rows: ("I64", (len(rows), len(rows[0])), [value for row in rows for value in row])
    tensors = {"input_ids": grid([[5, 1, 6, 7], [8, 9, 10, 1]]), "attention_mask": grid([[1, 1, 1, 1], [0, 1, 1, 0]])}
    counted = run(binary, folder, tensors)
    stated = run(binary, folder, tensors | {"position_ids": grid([[2, 1, 3, 4], [2, 3, 4, 1]])})
    other = run(binary, folder, tensors | {"position_ids": grid([[2, 3, 4, 5], [2, 3, 4, 5]])})
    if counted != stated or counted == other:
        sys.exit("positions are not those of the ids")
    safetensors.save(folder / "in.safetensors", {"input_ids": grid([[5] * 63])})
    done = subprocess.run([binary, "--io", folder / "in.safetensors", folder / "refused"], stderr=subprocess.PIPE, text=True)
    if done.returncode != 2 or "has 63 tokens, the model takes 62" not in done.stderr:
        sys.exit(f"63 tokens: status {done.returncode}, {done.stderr}")
    # A masked token that is none of padding takes a position.
    safetensors.save(folder / "in.safetensors", {"input_ids": grid([[5] * 63]), "attention_mask": grid([[0] + [1] * 62])})
    done = subprocess.run([binary, "--io", folder / "in.safetensors", folder / "refused"], stderr=subprocess.PIPE, text=True)
    if done.returncode != 2 or "row 0 has a token at position 64, the model has 64" not in done.stderr:
        sys.exit(f"position 64: status {done.returncode}, {done.stderr}")


main()
