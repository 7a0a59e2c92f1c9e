# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""whole_refusals.py FOLDER BIN: inputs of --io that a decoder of 264 tokens refuses, of which 258 stands for a square of 8 by 8 pixels of a whole image.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid


def image(height, width, channels=3):
    return ("F32", (1, channels, height, width), [0.0] * (channels * height * width))


def sizes(*numbers):
    return ("I64", (1, len(numbers)), list(numbers))


CASES = [
    (r"no tensor 'image_sizes'", {"input_ids": grid([258]), "pixel_values": image(8, 8)}),
    (r"no tensor 'pixel_values'", {"input_ids": grid([258]), "image_sizes": sizes(8, 8)}),
    (r"pixel_values. is F32 .1, 4, 8, 8., expected F32 .images, 3, height, width.", {"input_ids": grid([258]), "pixel_values": image(8, 8, 4), "image_sizes": sizes(8, 8)}),
    (r"image_sizes. is I64 .1, 3., expected I64 .1, 2.", {"input_ids": grid([258]), "pixel_values": image(8, 8), "image_sizes": sizes(8, 8, 8)}),
    (r"image_sizes\[0\] is 8, 12, expected multiples of 8 up to 8, 16", {"input_ids": grid([258]), "pixel_values": image(8, 16), "image_sizes": sizes(8, 12)}),
    (r"image_sizes\[0\] is 16, 8, expected multiples of 8 up to 8, 16", {"input_ids": grid([258]), "pixel_values": image(8, 16), "image_sizes": sizes(16, 8)}),
    (r"input_ids has 1 times the token 258, pixel_values stands for 2", {"input_ids": grid([258]), "pixel_values": image(8, 16), "image_sizes": sizes(8, 16)}),
    (r"tensor 'image_grid_thw' is no input of this model", {"input_ids": grid([1]), "image_grid_thw": sizes(1, 2, 2)}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
