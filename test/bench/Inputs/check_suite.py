# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_suite.py REPORT.json CONFIG.json: every case of suite.test has bytes, operations and a limit that follow from each other and from the model."""
import json
import sys

report, config = (json.load(open(path)) for path in sys.argv[1:])
cases = {case["what"]: case for case in report["cases"]}
expected = ["prompt of 16", "generation", "generation behind 16", "generation, 2 sequences"]
if list(cases) != expected or report["skipped"] or not report["cpu"] or set(report["limits"]) != {"1"}:
    sys.exit(f"cases {list(cases)}, skipped {report['skipped']}, limits {report['limits']}")
limits = report["limits"]["1"]
peak = max(limits[name] for name in ("f32", "bf16", "amx-bf16") if name in limits)
for what, case in cases.items():
    limit = min(limits["read_bandwidth"] / case["bytes"], peak / case["flops"])
    if abs(case["limit"] / limit - 1) > 1e-6 or abs(case["share"] - case["ours"] / limit) > 1e-6 * case["share"]:
        sys.exit(f"{what}: limit {case['limit']}, expected {limit}; share {case['share']}")
# A token's keys behind 16 more are read as well; sequences share the weights, and do as many operations each.
one, behind, two = (cases[what] for what in expected[1:])
key_bytes = behind["bytes"] - one["bytes"]
keys = 16 * config["num_hidden_layers"] * 2 * config["num_key_value_heads"] * config["head_dim"]
if key_bytes not in (2 * keys, 4 * keys):
    sys.exit(f"16 keys are {keys} numbers and take {key_bytes} bytes")
weights = 2 * (one["bytes"] - two["bytes"])
if abs(cases["prompt of 16"]["bytes"] * 16 / one["bytes"] - 1) > 1e-6:
    sys.exit(f"a prompt of one step reads {cases['prompt of 16']['bytes']} bytes per token, a token {one['bytes']}")
if not 0.9 < weights / one["bytes"] < 1 or abs(two["flops"] / one["flops"] - 1) > 1e-6:
    sys.exit(f"weights {weights} of {one['bytes']} bytes; operations {two['flops']}, alone {one['flops']}")
