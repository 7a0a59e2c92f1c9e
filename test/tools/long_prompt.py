# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""long_prompt.py OUT.safetensors TOKENS WORDS: a batch of one sequence of that many ids below WORDS, none of which comes again soon."""
import sys

import safetensors

tokens, words = map(int, sys.argv[2:])
ids = [(37 * i + i // words) % words for i in range(tokens)]
safetensors.save(sys.argv[1], {"input_ids": ("I64", [1, tokens], ids), "attention_mask": ("I64", [1, tokens], [1] * tokens)})
