# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""grid_refusals.py FOLDER BIN: inputs of --io that a decoder of 264 tokens refuses, of which 258 stands for four patches of 96 numbers each.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid


def patches(count, width=96):
    return ("F32", (count, width), [0.0] * (count * width))


def sizes(*numbers):
    return ("I64", (1, 3), list(numbers))


CASES = [
    (r"no tensor 'image_grid_thw'", {"input_ids": grid([258]), "pixel_values": patches(4)}),
    (r"pixel_values. is F32 .4, 95., expected F32 .patches, 96.", {"input_ids": grid([258]), "pixel_values": patches(4, 95), "image_grid_thw": sizes(1, 2, 2)}),
    (r"image_grid_thw\[0\] is 2, 2, 2, expected 1 and multiples of 2", {"input_ids": grid([258]), "pixel_values": patches(8), "image_grid_thw": sizes(2, 2, 2)}),
    (r"image_grid_thw\[0\] is 1, 3, 2, expected 1 and multiples of 2", {"input_ids": grid([258]), "pixel_values": patches(6), "image_grid_thw": sizes(1, 3, 2)}),
    (r"pixel_values has 4 patches, image_grid_thw says 8", {"input_ids": grid([258]), "pixel_values": patches(4), "image_grid_thw": sizes(1, 2, 4)}),
    (r"input_ids has 1 times the token 258, pixel_values stands for 2", {"input_ids": grid([258]), "pixel_values": patches(8), "image_grid_thw": sizes(1, 2, 4)}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
