# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# check_report.py REPORT BIN [BENCH]: the report agrees with itself, with what the binary says of itself and with a measurement.
import json
import re
import subprocess
import sys

path, binary, *bench = sys.argv[1:]
with open(path) as file:
    report = json.load(file)

# Launches of a step that splits no keys, counted by kernel, are the calls of the kernel table. Each layer attends once either way.
calls = {}
for function in report["functions"]:
    attends = {True: 0, False: 0}
    for launch in function["launches"]:
        splits = launch.get("alternative", {}).get("splits", False)
        calls[launch["kernel"]] = calls.get(launch["kernel"], 0) + (0 if splits else function["calls"])
        if "alternative" in launch and "flops_per_row_and_key" in launch:
            attends[splits] += 1
    assert attends[True] == attends[False], attends
assert calls == {kernel["name"]: kernel["calls"] for kernel in report["kernels"]}, calls

# Buffers that live at the same time do not overlap, and all lie in the arena.
for function in report["functions"]:
    buffers = function["buffers"]
    assert buffers
    for i, a in enumerate(buffers):
        assert a["first"] <= a["last"] and a["offset"] + a["bytes"] <= report["memory"]["bytes_per_row"], a
        for b in buffers[:i]:
            together = a["first"] <= b["last"] and b["first"] <= a["last"]
            apart = a["offset"] + a["bytes"] <= b["offset"] or b["offset"] + b["bytes"] <= a["offset"]
            assert apart or not together, (a, b)

assert sum(report["weights"]["formats"].values()) <= report["weights"]["bytes"]
info = subprocess.run([binary, "--info"], check=True, capture_output=True, text=True).stdout
assert report["model"]["sha256"] in info
for kernel in report["kernels"]:
    assert re.search(rf"{re.escape(kernel['name'])} .*{kernel['calls']} calls", info), kernel
if bench:
    with open(bench[0]) as file:
        measured = json.load(file)
    assert report["measured"] == measured, (report["measured"], measured)
    assert {kernel["name"] for kernel in measured["kernels"]} == set(calls)
else:
    assert report["measured"] is None
