# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""encoder_refusals.py FOLDER BIN: inputs of --io that an encoder of 256 ids, 64 positions and 2 token types refuses.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid

CASES = [
    ("no tensor 'input_ids'", {"attention_mask": grid([1])}),
    ("shape .*, expected .batch, sequence.", {"input_ids": ("I64", (2,), [1, 2])}),
    (r"input_ids\[0, 1\] is 256, expected an id in \[0, 256\)", {"input_ids": grid([1, 256])}),
    (r"input_ids\[1, 0\] is -1", {"input_ids": grid([1], [-1])}),
    (r"attention_mask\[0, 1\] is 2, expected 0 or 1", {"input_ids": grid([1, 2]), "attention_mask": grid([1, 2])}),
    ("masks all tokens of row 1", {"input_ids": grid([1, 2], [3, 4]), "attention_mask": grid([1, 1], [0, 0])}),
    ("'attention_mask' has shape", {"input_ids": grid([1, 2]), "attention_mask": grid([1, 1, 1])}),
    (r"token_type_ids\[0, 0\] is 2, expected a type in \[0, 2\)", {"input_ids": grid([1]), "token_type_ids": grid([2])}),
    (r"position_ids\[0, 0\] is 64, expected one in \[0, 64\)", {"input_ids": grid([1]), "position_ids": grid([64])}),
    ("row 0 has 65 tokens, the model takes 64", {"input_ids": grid([1] * 65)}),
    ("row 0 has a token in column 64, the model has 64 positions",
     {"input_ids": grid([1] * 65), "attention_mask": grid([0] + [1] * 64)}),
    ("'logits' is no input of this model", {"input_ids": grid([1]), "logits": grid([1])}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
