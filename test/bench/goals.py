# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""What figures of the suite are to reach. They are said in its report; no test asks for them."""
import re

# (case and what bounds it, which of its figures, how it is bounded): "ratio" how many times better than the best peer, "share" of its limit, "ours" the figure
# itself. Of each figure the first that fits counts.
GOALS = [(r"^1b-(q4_0|q8_0|bf16)/depth 0/batch 1/.*/decode", "share", "least", 0.85), (r"^1b-.*/depth 8000/.*/decode", "share", "least", 0.85),
         (r"^1b-.*/batch 16/.*/decode by amx", "share", "least", 0.6), (r"^1b-.*/batch 16/.*/decode", "share", "least", 0.7),
         (r"^1b-.*/prefill by amx", "share", "least", 0.45), (r"^1b-.*/prefill", "share", "least", 0.8),
         (r"^1b-q8_0/.*/prefill", "ratio", "least", 2.5), (r"^1b-.*/prefill", "ratio", "least", 1.5),
         (r"^1b-.*/depth 8000/.*/decode", "ratio", "least", 1.8), (r"^smollm2/depth 0/batch 1/.*/decode", "ratio", "least", 1.8),
         (r"^1b-q4_0/depth 0/batch 1/threads 1/decode", "ratio", "least", 1.4), (r"^1b-q4_0/depth 0/batch 1/.*/decode", "ratio", "least", 1.15),
         (r"^1b-q.*/depth 0/batch 1/threads 1/decode", "ratio", "least", 1.2), (r"^1b-q.*/depth 0/batch 1/.*/decode", "ratio", "least", 1.1),
         (r"^1b-bf16/depth 0/batch 1/.*/decode", "ratio", "least", 1),
         (r"^(minilm|bert-base|vit-b).* bf16/", "ratio", "least", 2), (r"^minilm/ragged/", "ratio", "least", 2),
         (r"^(minilm|bert-base|vit-b|whisper)", "ratio", "least", 1.2),
         (r"^kernels/shared heads", "ratio", "least", 2.8),
         (r"^kernels/latent decode", "ratio", "least", 6), (r"^kernels/latent prefill", "ratio", "least", 2.3),
         (r"^kernels/latent .*automatic", "ratio", "least", 0.95),
         (r"^kernels/attention", "ratio", "least", 2.5), (r"^kernels/linear bf16", "ratio", "least", 1), (r"^kernels/linear f32", "ratio", "least", 1.8),
         (r"^smollm2/compile/seconds", "ours", "most", 10), (r"^1b-q4_0/compile/seconds", "ours", "most", 30), (r"/compile/memory", "ours", "most", 1000),
         (r"^layers/", "ours", "most", 1.15), (r"/first token", "ratio", "least", 3), (r"/size/code", "ours", "most", 1000),
         (r"/size/runtime", "ours", "most", 500), (r"/allocations", "ours", "most", 0)]


def find(name, figures):
    """Of a case: [{"of": one of `figures`, "least" or "most": its bound}], of each figure at most one."""
    found = {}
    for pattern, of, bound, value in GOALS:
        if of in figures and re.search(pattern, name):
            found.setdefault(of, {"of": of, bound: value})
    return list(found.values())
