# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""chain.py N: a graph of N elementwise ops, each of which reads the one before twice."""
import sys

kind = "tensor<?xf32>"
print(f'func.func @graph(%v0: {kind} {{heddle.name = "x"}}) -> ({kind} {{heddle.name = "y"}}) {{')
count = int(sys.argv[1])
for i in range(0, count, 2):
    print(f"  %t{i} = math.tanh %v{i} : {kind}")
    print(f"  %d{i} = arith.subf %v{i}, %t{i} : {kind}")
    print(f"  %v{i + 2} = arith.subf %v{i}, %d{i} : {kind}")
print(f"  return %v{count} : {kind}\n}}")
