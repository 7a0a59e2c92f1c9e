# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""change_byte.py FILE AT: changes the byte at AT, which counts from the end where it is negative."""
import os
import sys

path, at = sys.argv[1], int(sys.argv[2])
with open(path, "r+b") as file:
    file.seek(at, os.SEEK_END if at < 0 else os.SEEK_SET)
    byte = file.read(1)[0]
    file.seek(-1, os.SEEK_CUR)
    file.write(bytes([byte ^ 1]))
