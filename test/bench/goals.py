# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What figures of the suite are to reach. They are said in its report; no test asks for them."""
import re

# (case, which of its figures, how it is bounded): "ratio" how many times better than the best peer, "ours" the figure itself. The first that fits counts.
GOALS = [(r"^(minilm|bert-base|vit-b).* bf16/", "ratio", "least", 2), (r"^minilm/ragged/", "ratio", "least", 2),
         (r"^(minilm|bert-base|vit-b|whisper)", "ratio", "least", 1.2),
         (r"^kernels/latent decode", "ratio", "least", 6), (r"^kernels/latent prefill", "ratio", "least", 2.3),
         (r"^kernels/latent .*automatic", "ratio", "least", 0.95),
         (r"^kernels/attention", "ratio", "least", 2.5), (r"^kernels/linear bf16", "ratio", "least", 1), (r"^kernels/linear f32", "ratio", "least", 1.8),
         (r"^smollm2/compile/seconds", "ours", "most", 10), (r"^1b-q4_0/compile/seconds", "ours", "most", 30), (r"/compile/memory", "ours", "most", 1000),
         (r"^layers/", "ours", "most", 1.15), (r"/first token", "ratio", "least", 3), (r"/size/code", "ours", "most", 1000),
         (r"/size/runtime", "ours", "most", 500), (r"/allocations", "ours", "most", 0)]


def find(name):
    """Of a case: {"of": which figure, "least" or "most": its bound}, or None."""
    return next(({"of": of, bound: value} for pattern, of, bound, value in GOALS if re.search(pattern, name)), None)
