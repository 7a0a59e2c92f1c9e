# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Lets the folders in which a program looks for libraries hold for the libraries of its libraries, too.

search_path.py PROGRAM: turns the entry DT_RUNPATH of PROGRAM, a 64-bit little-endian ELF file, into DT_RPATH, in place. The loader asks
the first for what the program itself names, the second for all that comes after. ELF: gABI, chapter 5.
"""
import struct
import sys

PT_DYNAMIC, DT_NULL, DT_RPATH, DT_RUNPATH = 2, 0, 15, 29


def main(path):
    with open(path, "r+b") as file:
        head = file.read(64)
        if head[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"search_path.py: {path}: not a 64-bit little-endian ELF file")
        offset, = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        for i in range(count):
            file.seek(offset + i * size)
            kind, _, start, _, _, length, _, _ = struct.unpack("<IIQQQQQQ", file.read(56))
            if kind != PT_DYNAMIC:
                continue
            file.seek(start)
            for at, (tag, _) in enumerate(struct.iter_unpack("<QQ", file.read(length))):
                if tag == DT_RUNPATH:
                    file.seek(start + at * 16)
                    file.write(struct.pack("<Q", DT_RPATH))
                    return
                if tag == DT_NULL:
                    break
    sys.exit(f"search_path.py: {path}: no DT_RUNPATH")


if __name__ == "__main__":
    main(sys.argv[1])
