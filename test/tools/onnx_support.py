# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""onnx_support.py SOURCE [--write]: the table of ops in frontends/onnx/README.md is that of the op tables in the code.

Prints what differs and exits with 1; with --write the page is made to agree.
"""
import pathlib
import re
import sys

ROW = re.compile(r'\{"([\w.]*)", "(\w+)", (\d+), ')
BEGIN, END = "<!-- ops: written by test/tools/onnx_support.py -->\n", "<!-- end of ops -->\n"
OLDEST = 7


def table(folder):
    ops = {}
    for path in sorted(folder.glob("*.cpp")):
        for domain, name, since in ROW.findall(path.read_text()):
            ops.setdefault((domain or "ai.onnx", path.stem), []).append((name, int(since)))
    lines = ["| Domain | File | Ops (since opset) |", "|---|---|---|"]
    for (domain, stem), rows in sorted(ops.items()):
        names = (name + (f" ({since})" if since > OLDEST else "") for name, since in sorted(rows))
        lines.append(f"| `{domain}` | `{stem}.cpp` | {', '.join(names)} |")
    return "\n".join(lines) + "\n"


def main():
    source = pathlib.Path(sys.argv[1])
    page = source / "frontends/onnx/README.md"
    text = page.read_text()
    begin, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    wanted = table(source / "frontends/onnx/import")
    if "--write" in sys.argv:
        page.write_text(text[:begin] + wanted + text[end:])
    elif text[begin:end] != wanted:
        have, want = set(text[begin:end].splitlines()), set(wanted.splitlines())
        print(*(f"- {line}" for line in sorted(have - want)), *(f"+ {line}" for line in sorted(want - have)), sep="\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
