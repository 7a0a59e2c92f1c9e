# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sight_refusals.py FOLDER BIN: inputs of --io that a decoder of 264 tokens refuses, of which 258 stands 16 times for an image of 3 x 28 x 28.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid

IMAGE = ("F32", (1, 3, 28, 28), [0.0] * (3 * 28 * 28))

CASES = [
    (r"input_ids has 15 times the token 258, pixel_values stands for 16", {"input_ids": grid([258] * 15), "pixel_values": IMAGE}),
    (r"input_ids has 0 times the token 258, pixel_values stands for 16", {"input_ids": grid([1, 2]), "pixel_values": IMAGE}),
    (r"input_ids\[0, 1\] is 264, expected an id in \[0, 264\)", {"input_ids": grid([258, 264])}),
    (r"no tensor 'input_ids'", {"pixel_values": IMAGE}),
    (r"pixel_values. has shape .1, 3, 28, 27., expected .images, 3, 28, 28.", {"input_ids": grid([258] * 16), "pixel_values": ("F32", (1, 3, 28, 27), [0.0] * (3 * 28 * 27))}),
    (r"tensor 'image_embeds' is no input of this model \(input_ids, attention_mask, position_ids, pixel_values\)",
     {"input_ids": grid([1]), "image_embeds": IMAGE}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
