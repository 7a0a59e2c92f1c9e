# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""seq2seq_refusals.py FOLDER BIN: inputs of --io that an encoder-decoder of 256 ids and 64 positions refuses.

Each is the user's fault: exit status 2, one line on stderr that says what is wrong, and no output file.
"""
import sys

import refusals
from refusals import grid

START = {"decoder_input_ids": grid([2, 5])}
CASES = [
    ("no tensor 'input_ids'", START),
    ("no tensor 'decoder_input_ids', which is expected without -n", {"input_ids": grid([1, 2])}),
    ("decoder_input_ids has 1 rows, input_ids 2", {"input_ids": grid([1, 2], [3, 4])} | START),
    (r"decoder_input_ids\[0, 1\] is 256, expected an id in \[0, 256\)", {"input_ids": grid([1]), "decoder_input_ids": grid([2, 256])}),
    (r"input_ids\[0, 1\] is 256, expected an id in \[0, 256\)", {"input_ids": grid([1, 256])} | START),
    ("masks all tokens of row 0", {"input_ids": grid([1, 2]), "attention_mask": grid([0, 0])} | START),
    ("row 0 has 65 tokens, the model takes 64", {"input_ids": grid([1] * 65)} | START),
    ("the prompt has 65 tokens, the context 64", {"input_ids": grid([1]), "decoder_input_ids": grid([2] * 65)}),
    ("'position_ids' is no input of this model .input_ids, attention_mask, decoder_input_ids.",
     {"input_ids": grid([1]), "position_ids": grid([0])} | START),
]

if __name__ == "__main__":
    sys.exit(refusals.run(CASES))
