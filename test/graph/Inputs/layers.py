# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""layers.py N: a graph of N layers, each a product and a softmax, all of the same shape."""
import sys

kind = "tensor<?x8xf32>"
print(f"""func.func @graph(%v0: {kind} {{heddle.name = "x"}}, %w: tensor<8x8xf32> {{heddle.name = "w"}}) -> ({kind} {{heddle.name = "y"}}) {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %v0, %c0 : {kind}""")
count = int(sys.argv[1])
for i in range(count):
    print(f"  %e{i} = tensor.empty(%n) : {kind}")
    print(f"  %f{i} = linalg.fill ins(%zero : f32) outs(%e{i} : {kind}) -> {kind}")
    print(f"  %p{i} = linalg.matmul ins(%v{i}, %w : {kind}, tensor<8x8xf32>) outs(%f{i} : {kind}) -> {kind}")
    print(f"  %v{i + 1} = linalg.softmax dimension(1) ins(%p{i} : {kind}) outs(%e{i} : {kind}) -> {kind}")
print(f"  return %v{count} : {kind}\n}}")
