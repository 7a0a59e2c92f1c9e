# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_schedules.py FILE: has the form of a file of schedules, whatever was measured."""
import json
import re
import sys


def main():
    with open(sys.argv[1]) as file:
        table = json.load(file)
    assert list(table) == ["schema", "cpu", "target", "entries"], list(table)
    assert table["schema"] == "heddle-schedules-1" and table["cpu"]
    target = table["target"]
    assert target["name"] == "native" and target["lanes"] in (4, 8, 16) and target["registers"] in (16, 32), target
    assert all(isinstance(feature, str) for feature in target["features"])
    for entry in table["entries"]:
        assert entry["match"]["kernel"] in ("packed_matmul", "online_attention"), entry
        assert entry["schedule"].startswith("#heddle.schedule<tiles = ["), entry
        assert re.match(r"measured \d{4}-\d\d-\d\d with 2 threads: 1 row.* [um]s, default .* [um]s; ", entry["evidence"]), entry


if __name__ == "__main__":
    main()
