# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""norms.py N [WIDTH]: a graph of N layer normalisations, one after the other, as an importer without the op would write them."""
import sys

count, width = int(sys.argv[1]), sys.argv[2] if len(sys.argv) > 2 else "48"
kind, sums = f"tensor<?x{width}xf32>", "tensor<?xf32>"
print(f"""#rows = affine_map<(i, j) -> (i)>
#all = affine_map<(i, j) -> (i, j)>
func.func @graph(%v0: {kind} {{heddle.name = "x", heddle.dims = ["rows", "width"]}}) -> ({kind} {{heddle.name = "y"}})
    attributes {{heddle.task = "graph"}} {{
  %zero = arith.constant 0.0 : f32
  %eps = arith.constant 1.0e-5 : f32
  %width = arith.constant {width}.0 : f32
  %c0 = arith.constant 0 : index""")


def reduce(result, tensor, i):
    print(f"""  %{result}r{i} = tensor.empty(%n{i}) : {sums}
  %{result}z{i} = linalg.fill ins(%zero : f32) outs(%{result}r{i} : {sums}) -> {sums}
  %{result}s{i} = linalg.reduce {{ arith.addf }} ins({tensor} : {kind}) outs(%{result}z{i} : {sums}) dimensions = [1]
  %{result}w{i} = tensor.splat %width[%n{i}] : {sums}
  %{result}{i} = arith.divf %{result}s{i}, %{result}w{i} : {sums}""")


def along_rows(result, x, row, op, i):
    print(f"""  %{result}e{i} = tensor.empty(%n{i}) : {kind}
  %{result}{i} = linalg.generic {{indexing_maps = [#all, #rows, #all], iterator_types = ["parallel", "parallel"]}}
      ins({x}, {row} : {kind}, {sums}) outs(%{result}e{i} : {kind}) {{
    ^bb0(%a: f32, %b: f32, %o: f32):
      %t = {op} %a, %b : f32
      linalg.yield %t : f32
  }} -> {kind}""")


for i in range(count):
    print(f"  %n{i} = tensor.dim %v{i}, %c0 : {kind}")
    reduce("mean", f"%v{i}", i)
    along_rows("centered", f"%v{i}", f"%mean{i}", "arith.subf", i)
    print(f"  %square{i} = arith.mulf %centered{i}, %centered{i} : {kind}")
    reduce("variance", f"%square{i}", i)
    print(f"  %eps{i} = tensor.splat %eps[%n{i}] : {sums}")
    print(f"  %safe{i} = arith.addf %variance{i}, %eps{i} : {sums}")
    print(f"  %inverse{i} = math.rsqrt %safe{i} : {sums}")
    along_rows("w", f"%centered{i}", f"%inverse{i}", "arith.mulf", i)
    print(f"  %t{i} = math.tanh %w{i} : {kind}\n  %v{i + 1} = arith.addf %w{i}, %t{i} : {kind}")
print(f"  return %v{count} : {kind}\n}}")
