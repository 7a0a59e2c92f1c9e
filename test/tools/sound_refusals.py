# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""sound_refusals.py FOLDER BIN: inputs of --io that a model of sound of 100 frames of 16 mel bins refuses.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid


def zeros(dtype, *shape):
    count = 1
    for size in shape:
        count *= size
    return (dtype, shape, [0] * count)


START, SOUND = {"decoder_input_ids": grid([257, 5])}, {"input_features": zeros("F32", 1, 16, 100)}
CASES = [
    ("no tensor 'input_features'", START),
    ("no tensor 'decoder_input_ids', which is expected without -n", SOUND),
    ("'input_ids' is no input of this model .input_features, decoder_input_ids.", START | {"input_ids": grid([1])}),
    ("'input_features' is I64, expected F32", START | {"input_features": zeros("I64", 1, 16, 100)}),
    (r"has shape .1, 16, 99., expected .batch, 16, 100.", START | {"input_features": zeros("F32", 1, 16, 99)}),
    (r"has shape .1, 80, 100., expected .batch, 16, 100.", START | {"input_features": zeros("F32", 1, 80, 100)}),
    (r"has shape .16, 100.", START | {"input_features": zeros("F32", 16, 100)}),
    ("decoder_input_ids has 1 rows, input_features 2", START | {"input_features": zeros("F32", 2, 16, 100)}),
    (r"decoder_input_ids\[0, 1\] is 317, expected an id in \[0, 317\)", SOUND | {"decoder_input_ids": grid([257, 317])}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
