# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_kernel_ran.py PREFIX yes|no: in the JSON of BIN --profile, whether kernels of that prefix took time while generating."""
import json
import sys

prefix, expected = sys.argv[1:]
shares = [kernel["decode_share"] for kernel in json.load(sys.stdin)["kernels"] if kernel["name"].startswith(prefix)]
if not shares or any((share > 0) != (expected == "yes") for share in shares):
    sys.exit(f"decode shares of {prefix}: {shares}, expected to run: {expected}")
