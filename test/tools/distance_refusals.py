# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""distance_refusals.py FOLDER BIN: inputs of --io that an encoder-decoder refuses whose scores depend on distances.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid

CASES = [
    (r"attention_mask\[1, 2\] is 0 between tokens that count, and this model's distances count tokens, not places: expected zeros at the ends",
     {"input_ids": grid([5, 6, 7, 8], [5, 6, 7, 8]), "attention_mask": grid([0, 1, 1, 0], [1, 1, 0, 1]), "decoder_input_ids": grid([0], [0])}),
]

if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
