# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""nan_weight.py FILE NAME: the first element of the F32 tensor NAME of a safetensors file becomes NaN."""
import json
import math
import struct
import sys

path, name = sys.argv[1:]
with open(path, "r+b") as file:
    size, = struct.unpack("<Q", file.read(8))
    tensor = json.loads(file.read(size))[name]
    assert tensor["dtype"] == "F32", tensor
    file.seek(8 + size + tensor["data_offsets"][0])
    file.write(struct.pack("<f", math.nan))
