# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""check_schemas.py SOURCE FILE…: each FILE is JSON, whole or line by line, and says which schema it has. Together they have all that
bytes/JsonSchema.h names, and compiler/tools/README.md lists those."""
import json
import pathlib
import re
import sys


def objects(path):
    text = pathlib.Path(path).read_text()
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        return [json.loads(line) for line in text.splitlines()]


source, *files = sys.argv[1:]
named = set(re.findall(r'\[\] = "(.*?)"', pathlib.Path(source, "bytes/JsonSchema.h").read_text()))
listed = set(re.findall(r"^\| `(heddle-[\w-]+-\d+)` \|", pathlib.Path(source, "compiler/tools/README.md").read_text(), re.MULTILINE))
seen = set()
for file in files:
    found = objects(file)
    if not found:
        sys.exit(f"{file}: no JSON")
    for item in found:
        if item.get("schema") not in named:
            sys.exit(f"{file}: schema {item.get('schema')!r}, expected one of {sorted(named)}")
        seen.add(item["schema"])
if not named == listed == seen:
    sys.exit(f"header {sorted(named)}\nREADME {sorted(listed)}\nseen   {sorted(seen)}")
