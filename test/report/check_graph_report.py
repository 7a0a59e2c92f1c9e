# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_graph_report.py REPORT BIN: the report of Inputs/graph.mlir agrees with itself, with the graph and with what the binary says.
import json
import subprocess
import sys

with open(sys.argv[1]) as file:
    report = json.load(file)
info = subprocess.run([sys.argv[2], "--info"], check=True, capture_output=True, text=True).stdout
assert report["model"]["sha256"] in info
assert report["weights"]["bytes"] >= 32 * 64 * 4 and report["measured"] is None and report["sizes"] == ["n"], report["sizes"]

(graph,) = report["functions"]
launches = graph["launches"]
sizes = {"n": 10}


def count(names):
    product = 1
    for name in names:
        product *= sizes.get(name, name)
    return product


(product,) = [launch for launch in launches if launch["kernel"] == "packed_matmul"]
assert count(product["points"]) * product["flops_per_point"] == 2 * 10 * 32 * 64
assert sum(o["bytes"] * count(o["sizes"]) for o in product["operands"]) == 4 * (10 * 32 + 32 * 64 + 10 * 64), product["operands"]

# Every op of the graph's formula is in some loop; what is elementwise and read once is in one with its reader.
fused = [launch["fused"] for launch in launches]
assert ["mulf", "addf"] in [[op for op in ops if op in ("mulf", "addf")] for ops in fused if len(ops) == 2], fused
assert sum(ops.count("exp") for ops in fused) >= 2, fused
for launch in launches:
    assert launch["location"] and all(isinstance(point, int) or point in report["sizes"] for point in launch["points"]), launch
    assert launch["threads"] == (launch["kernel"] != "copy"), launch
