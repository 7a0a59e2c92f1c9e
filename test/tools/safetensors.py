# Part of Heddle, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Reads and writes safetensors files of plain numbers, with Python's standard library alone.

A tensor is (type, shape, values): type "F32", "I64", …; values an array in row-major order.
"""
import array
import json
import math
import struct

TYPE_CODES = {"F64": "d", "F32": "f", "I64": "q", "I32": "i", "I16": "h", "I8": "b", "U8": "B", "BOOL": "B"}


def save(path, tensors):
    """`tensors`: name → (type, shape, values)."""
    header, body = {}, bytearray()
    for name, (kind, shape, values) in tensors.items():
        data = array.array(TYPE_CODES[kind], values).tobytes()
        if len(values) != math.prod(shape):
            raise ValueError(f"{name}: {len(values)} values for shape {shape}")
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + bytes(body))


def load(path):
    """name → (type, shape, values)."""
    with open(path, "rb") as file:
        image = file.read()
    length, = struct.unpack_from("<Q", image)
    header = json.loads(image[8:8 + length])
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        values = array.array(TYPE_CODES[entry["dtype"]])
        values.frombytes(image[8 + length + begin:8 + length + end])
        tensors[name] = (entry["dtype"], entry["shape"], values)
    return tensors
