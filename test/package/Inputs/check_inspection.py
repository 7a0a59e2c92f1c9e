# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_inspection.py NAME…: checks `heddle inspect --json` of packages of those names, made of test/models/llama."""
import json
import sys

BYTES = {"F32": 4, "BF16": 2, "F16": 2}


def check(package):
    assert package["architecture"] == "llama" and len(package["package_sha256"]) == 64
    kv = package["kv_cache"]
    per_token = 2 * kv["num_layers"] * kv["num_kv_heads"] * kv["head_dim"] * BYTES[kv["type"]]
    assert kv["bytes_per_token"] == per_token, kv
    assert kv["num_layers"] == package["num_layers"] == 2, package["num_layers"]
    end = 0
    for weight in package["weights"]:
        assert weight["offset"] >= end and weight["bytes"] > 0 and len(weight["sha256"]) == 64, weight
        end = weight["offset"] + weight["bytes"]
    assert end == package["weights_bytes"], (end, package["weights_bytes"])
    matmuls = [kernel for kernel in package["kernels"] if kernel["kind"] == "matmul"]
    assert matmuls and all(kernel["flops_per_row"] > 0 and kernel["calls"] > 0 for kernel in matmuls), package["kernels"]
    assert "heddle-assign-schedules" in package["passes"] and package["cpu_features"]


inspection = json.load(sys.stdin)
assert [package["name"] for package in inspection["packages"]] == sys.argv[1:], inspection
assert len(inspection["code_sha256"]) == (0 if inspection["kind"] == "object" else 64), inspection["code_sha256"]
for package in inspection["packages"]:
    check(package)
