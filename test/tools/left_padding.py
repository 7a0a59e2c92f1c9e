# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""left_padding.py BINARY: positions of tokens behind padding, of a model with learned positions.

A forward pass without position_ids counts columns, as the family's Hugging Face forward does: the logits are those of the same file with
the columns as position_ids, and not those of positions from the first token. Generation counts from the first token, as generate() does: a
padded row goes on as the same row alone. Exit status 1 where one of them differs.
"""
import os
import subprocess
import sys
import tempfile

import safetensors

IDS, PADDING = [7, 11, 13, 17], 3


def run(binary, inputs, *flags):
    with tempfile.TemporaryDirectory() as box:
        source, target = os.path.join(box, "in.safetensors"), os.path.join(box, "out.safetensors")
        safetensors.save(source, {name: ("I64", [1, len(row)], row) for name, row in inputs.items()})
        subprocess.run([binary, "--io", source, target, *flags], check=True)
        return {name: list(tensor[2]) for name, tensor in safetensors.load(target).items()}


def main(binary):
    width = PADDING + len(IDS)
    padded = {"input_ids": [0] * PADDING + IDS, "attention_mask": [0] * PADDING + [1] * len(IDS)}
    columns = padded | {"position_ids": list(range(width))}
    counted = padded | {"position_ids": [0] * PADDING + list(range(len(IDS)))}
    bare, by_columns, by_count = (run(binary, inputs)["logits"] for inputs in (padded, columns, counted))
    if bare != by_columns:
        sys.exit("a forward pass without position_ids gives other logits than one with the columns")
    if bare == by_count:
        sys.exit("positions do not count: the model shows nothing")
    flags = ("-n", "5", "--temp", "0", "--ignore-eos", "--outputs", "ids")
    alone = {"input_ids": IDS}
    if run(binary, padded, *flags)["ids"] != run(binary, alone, *flags)["ids"]:
        sys.exit("a padded row goes on otherwise than alone")


main(*sys.argv[1:])
