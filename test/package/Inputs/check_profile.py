# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads the JSON of BIN --profile: every kernel took time in both phases, and the shares add up to one."""
import json
import sys

kernels = json.load(sys.stdin)["kernels"]
idle = [kernel["name"] for kernel in kernels if kernel["prefill_share"] <= 0 or kernel["decode_share"] <= 0]
sums = [sum(kernel[phase] for kernel in kernels) for phase in ("prefill_share", "decode_share")]
if not kernels or idle or any(abs(total - 1) > 0.01 for total in sums):
    sys.exit(f"{len(kernels)} kernels, sums {sums}, without time: {idle}")
