# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""wide.py N: a graph that concatenates N values of its own, each of one element."""
import sys

count = int(sys.argv[1])
names = [f"%v{i}" for i in range(count)]
print('func.func @graph(%x: tensor<1xf32> {heddle.name = "x"}) -> (tensor<' + str(count) + 'xf32> {heddle.name = "y"}) {')
for i, name in enumerate(names):
    print(f"  %c{i} = arith.constant dense<{i}.0> : tensor<1xf32>\n  {name} = arith.mulf %x, %c{i} : tensor<1xf32>")
print(f"  %y = tensor.concat dim(0) {', '.join(names)} : ({', '.join(['tensor<1xf32>'] * count)}) -> tensor<{count}xf32>")
print(f"  return %y : tensor<{count}xf32>\n}}")
