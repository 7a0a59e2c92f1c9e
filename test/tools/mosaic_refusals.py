# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""mosaic_refusals.py FOLDER BIN: inputs of --io that a decoder of 264 tokens refuses, of which 258 stands for a row of an image that is seen whole and in tiles of 28
by 28 pixels.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid


def tiles(count, side=28):
    return ("F32", (1, count, 3, side, side), [0.0] * (count * 3 * side * side))


def sizes(*numbers):
    return ("I64", (1, len(numbers)), list(numbers))


CASES = [
    (r"no tensor 'image_sizes'", {"input_ids": grid([258]), "pixel_values": tiles(3)}),
    (r"pixel_values. is F32 .1, 3, 3, 27, 27., expected F32 .images, tiles, channels, 28, 28.",
     {"input_ids": grid([258]), "pixel_values": tiles(3, 27), "image_sizes": sizes(14, 28)}),
    (r"image_sizes. is I64 .1, 3., expected I64 .1, 2.", {"input_ids": grid([258]), "pixel_values": tiles(3), "image_sizes": sizes(14, 28, 1)}),
    (r"image_sizes\[0\] is 0, 28, expected 1 to 16777216", {"input_ids": grid([258]), "pixel_values": tiles(3), "image_sizes": sizes(0, 28)}),
    (r"an image of 56 by 56 has 5 tiles, pixel_values has 3", {"input_ids": grid([258]), "pixel_values": tiles(3), "image_sizes": sizes(56, 56)}),
    (r"input_ids has 1 times the token 258, pixel_values stands for 14", {"input_ids": grid([258]), "pixel_values": tiles(3), "image_sizes": sizes(14, 28)}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
