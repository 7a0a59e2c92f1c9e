# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""global_refusals.py FOLDER BIN: inputs of --io that a Longformer refuses which answers questions, so that separators say what is global."""
import sys

import refusals
from refusals import grid

CASES = [
    (r"global_attention_mask\[0, 1\] is 2, expected one in \[0, 2\)",
     {"input_ids": grid([5, 6]), "global_attention_mask": grid([0, 2])}),
    ("'global_attention_mask' has shape", {"input_ids": grid([5, 6]), "global_attention_mask": grid([1])}),
    (r"attention_mask\[0, 1\] is 0 between tokens that count, and this model's distances count tokens, not places",
     {"input_ids": grid([5, 6, 7]), "attention_mask": grid([1, 0, 1]), "global_attention_mask": grid([1, 0, 0])}),
    ("row 1 holds the separator 2 2 times, expected 3: a question and a text, or global_attention_mask",
     {"input_ids": grid([5, 2, 2, 7, 2], [5, 2, 2, 7, 8])}),
]


if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
