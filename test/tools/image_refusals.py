# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""image_refusals.py FOLDER BIN: inputs of --io that an encoder of images of 3 x 32 x 32 refuses.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals


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


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
