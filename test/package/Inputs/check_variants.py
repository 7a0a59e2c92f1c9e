# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_variants.py SECTION REPORT TARGET…: stdin is `heddle inspect --json` of a program for these targets that share all weights.

SECTION is its weights section, REPORT what `heddle compile --report` wrote. Each variant is described in full, and all read the same bytes.
"""
import json
import os
import sys

section, report, *targets = sys.argv[1:]
package, = json.load(sys.stdin)["packages"]
variants = [package, *package["variants"]]
assert sorted(variant["target"] for variant in variants) == sorted(targets), [variant["target"] for variant in variants]
for variant in variants:
    assert variant["kernels"] and variant["activations"]["max_rows"] > 0 and variant["passes"], variant["target"]
    assert variant["weights_bytes"] == os.path.getsize(section)
    assert variant["own_weights_bytes"] == 0
    places = {(weight["offset"], weight["bytes"], weight["sha256"]) for weight in variant["weights"]}
    assert places == {(weight["offset"], weight["bytes"], weight["sha256"]) for weight in package["weights"]}
assert package["shared_weights_bytes"] == sum(weight["bytes"] for weight in package["weights"])

with open(report) as file:
    described = json.load(file)
assert described["variants"]["shared_weight_bytes"] == package["shared_weights_bytes"]
assert [variant["name"] for variant in described["variants"]["targets"]] == [variant["target"] for variant in variants]
assert all(variant["own_weight_bytes"] == 0 for variant in described["variants"]["targets"])
