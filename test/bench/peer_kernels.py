# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""torch's side of a comparison of kernels: linear layers, which oneDNN computes, and scaled_dot_product_attention.

peer_kernels.py THREADS     needs PyPI torch

Says {"name": …}, then answers each line of stdin by {"seconds": the best of about a second}:
  {"kind": "linear", "type": "bf16"|"f32", "rows": …, "n": …, "k": …}
  {"kind": "attention", "type": …, "rows": …, "heads": …, "kv_heads": …, "head_dim": …}     causal, heads of a group share their keys
"""
import json
import sys
import time

import torch

TYPES = {"bf16": torch.bfloat16, "f32": torch.float32}


def linear(request):
    kind = TYPES[request["type"]]
    layer = torch.nn.Linear(request["k"], request["n"], bias=False, dtype=kind)
    x = torch.randn(request["rows"], request["k"], dtype=kind)
    return lambda: layer(x)


def attention(request):
    def draw(heads):
        return torch.randn(1, heads, request["rows"], request["head_dim"], dtype=TYPES[request["type"]])
    query, key, value = draw(request["heads"]), draw(request["kv_heads"]), draw(request["kv_heads"])
    return lambda: torch.nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def best_of(run):
    best, spent = float("inf"), 0.0
    while spent < 1:
        start = time.perf_counter()
        run()
        seconds = time.perf_counter() - start
        best, spent = min(best, seconds), spent + seconds
    return best


def main():
    torch.set_num_threads(int(sys.argv[1]))
    print(json.dumps({"name": f"torch {torch.__version__.split('+')[0]}"}), flush=True)
    with torch.inference_mode():
        for line in sys.stdin:
            request = json.loads(line)
            print(json.dumps({"seconds": best_of({"linear": linear, "attention": attention}[request["kind"]](request))}), flush=True)


main()
