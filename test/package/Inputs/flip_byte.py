# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""flip_byte.py FILE NAME: changes the first byte of the first function whose name begins so, by what nm says on standard input."""
import struct
import sys

path, name = sys.argv[1:]
lines = [line.split() for line in sys.stdin]
address = next(int(line[0], 16) for line in lines if line[1] == "t" and line[2].startswith(name))
with open(path, "r+b") as file:
    data = file.read()
    start, = struct.unpack_from("<Q", data, 32)
    count, = struct.unpack_from("<H", data, 56)
    for i in range(count):
        kind, _, offset, begin, _, size, _, _ = struct.unpack_from("<IIQQQQQQ", data, start + 56 * i)
        if kind == 1 and begin <= address < begin + size:
            at = offset + address - begin
            file.seek(at)
            file.write(bytes([data[at] ^ 1]))
            sys.exit()
sys.exit(f"{path}: nothing is loaded at {address:#x}")
