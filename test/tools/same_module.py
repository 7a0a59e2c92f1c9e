# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Whether two modules are the same up to names and places of weights, which must hold the same numbers.

    same_module.py A.mlir WEIGHTS_A B.mlir WEIGHTS_B

WEIGHTS is the file that the module's weights, 32-bit floats, lie in. Prints the first difference and exits with 1 if there is one.
"""
import array
import re
import sys

WEIGHT = re.compile(r'heddle\.weight "((?:[^"\\]|\\.)*)" <type = "f32", file = 0, offset = (\d+)(, transposed = true)?>.*: tensor<([0-9x]+)xf32>')


def read(module, weights):
    """The lines with weights made nameless, and each weight's name and numbers."""
    data = open(weights, "rb").read()
    lines, found = [], []
    for line in open(module):
        match = WEIGHT.search(line)
        if not match:
            if "heddle.weight" in line:
                sys.exit(f"{module}: {line.strip()[:200]}: no weight of 32-bit floats")
            lines.append(line)
            continue
        name, offset, transposed, shape = match[1], int(match[2]), match[3], [int(n) for n in match[4].split("x")]
        size = 1
        for extent in shape:
            size *= extent
        values = array.array("f", data[offset:offset + 4 * size])
        if transposed:  # stored as (columns, rows)
            rows, columns = shape
            values = array.array("f", (values[c * rows + r] for r in range(rows) for c in range(columns)))
        found.append((name, values))
        lines.append(line[:match.start()] + "heddle.weight : " + match[4] + line[match.end():])
    return lines, found


def main():
    (lines_a, weights_a), (lines_b, weights_b) = read(*sys.argv[1:3]), read(*sys.argv[3:5])
    for number, (a, b) in enumerate(zip(lines_a, lines_b), 1):
        if a != b:
            sys.exit(f"line {number} differs:\n  {a.strip()[:300]}\n  {b.strip()[:300]}")
    if len(lines_a) != len(lines_b):
        sys.exit(f"{len(lines_a)} and {len(lines_b)} lines")
    for (name_a, a), (name_b, b) in zip(weights_a, weights_b):
        if a != b:
            sys.exit(f"weights '{name_a}' and '{name_b}' hold different numbers")
    print(f"same: {len(lines_a)} lines, {len(weights_a)} weights")


main()
