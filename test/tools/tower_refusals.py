# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""tower_refusals.py FOLDER BIN: inputs of --io that a model of texts (64 tokens, 12 positions) and images (3 x 12 x 12) refuses.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals


def zeros(dtype, *shape):
    count = 1
    for size in shape:
        count *= size
    return (dtype, shape, [0] * count)


TEXT, IMAGE = {"input_ids": refusals.grid([0, 5, 60])}, {"pixel_values": zeros("F32", 1, 3, 12, 12)}
CASES = [
    ("no tensors that an entry runs on .input_ids, attention_mask, pixel_values, text_embeds, image_embeds.", {}),
    ("no tensor 'input_ids', which goes with 'attention_mask'", IMAGE | {"attention_mask": refusals.grid([1, 1, 1])}),
    ("no tensor 'image_embeds', which goes with 'text_embeds'", {"text_embeds": zeros("F32", 2, 16)}),
    ("'text_embeds' is computed from others that are there", TEXT | {"text_embeds": zeros("F32", 2, 16)}),
    ("'token_type_ids' is no input of this model", TEXT | {"token_type_ids": refusals.grid([0, 0, 0])}),
    (r"input_ids holds a number outside of \[0, 64\)", {"input_ids": refusals.grid([0, 64, 60])}),
    (r"input_ids holds a number outside of \[0, 64\)", {"input_ids": refusals.grid([0, -1, 60])}),
    (r"attention_mask holds a number outside of \[0, 2\)", TEXT | {"attention_mask": refusals.grid([1, 1, 2])}),
    ("'attention_mask' has shape .1, 2., but sequence is 3 in tensor 'input_ids'", TEXT | {"attention_mask": refusals.grid([1, 1])}),
    ("texts are longer than the model's 12 positions", {"input_ids": refusals.grid([60] * 13)}),
    ("'input_ids' is F32, expected I64", {"input_ids": zeros("F32", 1, 3)}),
    (r"'pixel_values' has shape .1, 3, 12, 11., expected .images, 3, 12, 12.", {"pixel_values": zeros("F32", 1, 3, 12, 11)}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
